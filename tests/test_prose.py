"""The English of docstrings, comments, messages and pages, and names that a stranger can guess."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
NOT_PROSE = ("opening", "messages")
"""Kinds that are not held in tests: strings of a test are data, and quote what the package says."""
BARE_NAMES_OF_TESTS = 2.3
"""Percent of bare names in tests and benchmarks: payload classes and services of scenes are named by what they say."""
IDIOMS_OF_TEST_NAMES = 1.2
"""Idioms in 1,000 words of the names of tests; most quote `the words of` a speaker, a term of provenance."""


def load_tool():
    name = "measure_of_words"  # other tests import a `words` of a project of their own
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / "words.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


words = load_tool()


@pytest.mark.parametrize("room", sorted(words.rooms()))
def test_a_room_keeps_to_plain_english_and_names(room):
    count = words.measure(words.rooms()[room])
    found = [f"{place.where}: {place.text}" for place in count.places if place.kind != "opening"]
    assert count.rate() <= words.PHRASES, "\n".join(found)
    assert count.bare_names <= words.BARE_NAMES, "\n".join(found)


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_tests_and_benchmarks_keep_to_plain_english_and_names(folder):
    count = words.measure((ROOT / folder).rglob("*.py"))
    found = [f"{place.where}: {place.text}" for place in count.places if place.kind not in NOT_PROSE]
    assert count.rate("docstrings", "comments") <= words.PHRASES, "\n".join(found)
    assert count.bare_names <= BARE_NAMES_OF_TESTS, "\n".join(found)


def test_names_of_tests_have_few_idioms():
    names = " . ".join(
        node.name.removeprefix("test_").replace("_", " ")
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )
    found = [names[max(match.start() - 40, 0) : match.end() + 40] for match in words.IDIOM.finditer(names)]
    assert 1000 * len(found) / len(words.WORD.findall(names)) <= IDIOMS_OF_TEST_NAMES, "\n".join(found)


@pytest.mark.parametrize("package", ["anyio", "starlette"])
def test_the_measure_is_fair_to_packages_that_others_wrote(package):
    count = words.measure(Path(importlib.util.find_spec(package).origin).parent.rglob("*.py"))
    assert count.rate() < words.PHRASES
    assert count.bare_names < words.BARE_NAMES


def test_the_measure_finds_idioms_bare_names_and_odd_openings():
    count = words.Count()
    count.add_text(
        "docstrings", "What is kept goes on; a gateway is told of it, and of ``what it told``.", "here"
    )
    assert count.phrases["docstrings"] == 3
    bare = ["told", "_standing", "Beside", "asked", "of", "unhurried"]
    assert [
        name for name in [*bare, "read_row", "Lease", "string", "told_apart"] if words.is_bare(name)
    ] == bare
    function, class_ = ast.parse("def f(): ...\nclass C: ...").body
    assert words.is_odd_opening(function, "The row of a delivery.")
    assert not words.is_odd_opening(function, "Read the row of a delivery.")
    assert not words.is_odd_opening(class_, "The row of a delivery.")
    assert words.is_odd_opening(class_, "What a row holds.")
