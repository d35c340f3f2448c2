"""The tutorial shows the files of examples/tutorial; tests/test_typed.py types its commands."""

from __future__ import annotations

import re

import pytest

from tests.examples.conftest import PROJECT

HOME = PROJECT / "examples" / "tutorial"
PAGE = (PROJECT / "docs" / "tutorial.md").read_text("utf-8")


@pytest.mark.parametrize("file", sorted(path.name for path in HOME.iterdir() if path.is_file()))
def test_the_page_shows_each_file_whole(file):
    blocks = re.findall(r"(?ms)^```\w+\n(.*?)^```$", PAGE)
    assert (HOME / file).read_text("utf-8") in blocks
