"""Figures of the package's words and size, printed by ``./run test --full``.

Defines the aims and the ratchet: a figure that misses its aim may not get worse. Reads syntax trees without importing
the package; passage.py traces a request in another process.

    python .ci/figures.py [FOLDER]    of the package, or of another checkout's
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "agentserver"
QUESTIONS = re.compile(r"(what|whether|who|whom|whose|how|where|why)\b", re.IGNORECASE)
VAGUE = re.compile(r"\b(nobody|whoever|whatever|somebody)\b", re.IGNORECASE)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
STATEMENTS_BEFORE = 17659
"""Of the package at commit 0ec9c35, before the core was redrawn."""


@dataclass(frozen=True)
class Figure:
    """One figure of the package.

    Args:
        now: measured.
        aim: at most.
        ratchet: at most for now, where the aim is not met: the figure when it was last lowered.
    """

    name: str
    now: float
    aim: float
    ratchet: float = 0


def docstrings(tree: ast.Module) -> list[str]:
    """Each docstring of a module, its own included, and those of constants."""
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
    bare = [
        node.value.value
        for node in tree.body[1:]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    return [text.strip() for text in (*found, *bare) if isinstance(text, str) and text.strip()]


def statements(tree: ast.Module) -> int:
    """Statements that are no docstrings."""
    return sum(
        isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in ast.walk(tree)
    )


def passage() -> tuple[Figure, ...]:
    """The figures of one request, traced in a process of its own; see passage.py. The ratchet has a tenth of air."""
    script = Path(__file__).with_name("passage.py")
    found = json.loads(subprocess.run([sys.executable, str(script)], check=True, capture_output=True).stdout)
    spare = 0 if sys.version_info[:2] == (3, 11) else 50  # other versions count other calls
    return (
        Figure("functions that a request and its reply pass", found["functions"], 110, 172 + spare),
        Figure("returns of `conclude` into other modules", found["returns"], 5, 9),
    )


def main(folder: Path) -> int:
    """Print the figures; gives 1 when one is beyond its aim and its ratchet."""
    paths = [path for path in sorted(folder.rglob("*.py")) if "scaffold" not in path.parts]
    trees = [ast.parse(path.read_text("utf-8")) for path in paths]
    docs = [text for tree in trees for text in docstrings(tree)]
    words = sum(len(text.split()) for text in docs)
    vague = sum(len(VAGUE.findall(text)) for text in docs)
    opening = sum(QUESTIONS.match(text) is not None for text in docs)
    figures: tuple[Figure, ...] = (
        Figure("docstrings that open with a question word, %", 100 * opening / len(docs), 0),
        Figure("nobody, whoever, whatever, somebody per 1,000 words", 1000 * vague / words, 1),
    )
    if folder == PACKAGE:
        figures += passage()
    for figure in figures:
        print(
            f"{figure.name}: {figure.now:.1f} (at most {max(figure.aim, figure.ratchet)}, aim {figure.aim})"
        )
    print(f"statements: {sum(map(statements, trees))} (at commit 0ec9c35: {STATEMENTS_BEFORE})")
    worse = [figure.name for figure in figures if figure.now > max(figure.aim, figure.ratchet)]
    if worse:
        print(f"worse than the ratchet: {'; '.join(worse)}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else PACKAGE))
