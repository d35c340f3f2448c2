"""The prose of docstrings and documents: the thing first, and persons, listeners and programs by their names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.test_shape import modules

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})

VAGUE = 1 / 1000
"""Share of words that may name no one in particular; twice that in documents, where decisions quote old words."""

ASKS = re.compile(r"\s*(what|whether|who|whom|whose|how|where|why)\b", re.IGNORECASE)
NO_ONE = re.compile(r"\b(nobody|whoever|whatever|somebody)\b", re.IGNORECASE)
WORD = re.compile(r"[A-Za-z']+")


def docstrings(tree):
    """Those of modules, classes and functions, and the strings below a value that document it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for first, second in zip([None, *node.body], node.body, strict=False):
                text = second.value if isinstance(second, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    documents = first is None or isinstance(first, ast.Assign | ast.AnnAssign)
                    if documents:
                        yield text.value


def share_of_no_one(texts):
    return sum(len(NO_ONE.findall(text)) for text in texts) / sum(len(WORD.findall(text)) for text in texts)


def test_docstrings_begin_with_the_thing(capsys):
    texts = [text for module in modules() for text in docstrings(module.tree)]
    openers, vague = [text for text in texts if ASKS.match(text)], share_of_no_one(texts)
    with capsys.disabled():
        row = f"docstrings {len(texts)} | vague persons {1000 * vague:.2f} of 1,000 words"
        print(f"\nprose | {row}")  # noqa: T201 - for the reader
    assert openers == []
    assert vague <= VAGUE


def test_documents_name_whom_they_mean():
    assert share_of_no_one([page.read_text("utf-8") for page in DOCUMENTS]) <= 2 * VAGUE
