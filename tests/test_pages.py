"""What the documentation shows is what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted({ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")})


@pytest.mark.parametrize("script", ["reference.py", "picture.py"])
def test_a_page_that_is_made_from_the_code_is_current(script):
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / script), "--check"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"run python docs/{script}\n{done.stdout}{done.stderr}"


def test_the_glossary_has_each_word_once_and_in_order():
    rows = (ROOT / "docs" / "glossary.md").read_text("utf-8").partition("|---|---|\n")[2].splitlines()
    words = [row.split("|")[1].strip().lower() for row in rows]
    assert words == sorted(set(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_link_leads_to_a_file_and_a_heading(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text("utf-8")):
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page}: {target}"
        if anchor:
            heads = re.findall(r"(?m)^#+ (.*)$", there.read_text("utf-8"))
            assert anchor in {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_each_promise_of_the_threat_model_is_held_by_a_test():
    page = ROOT / "docs" / "threat-model.md"
    held = re.findall(r"\]\(\.\./(tests/[^)]+)\) `(\w+)` \|$", page.read_text("utf-8"), re.MULTILINE)
    promises = page.read_text("utf-8").partition("## Promises")[2].partition("\n## ")[0]
    assert len(held) == promises.count("\n|") - 2
    for path, name in held:
        assert f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{path}: {name}"
