"""The README leads to a blocked attack and on to a service, in a fresh clone and an empty home (`./run first` sets up too)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def first():
    spec = importlib.util.spec_from_file_location("first_hour", ROOT / ".ci" / "first.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_shows_its_commands_and_two_lines_to_type(first):
    commands, typed = first.read_promises((ROOT / "README.md").read_text("utf-8"))
    assert [words[:2] for words in commands] == [["./run"], ["./run", "test"], ["./run", "agentserver"]]
    assert [line.split()[0] for line in typed] == ["@router", "@router"]


def test_the_readmes_steps_end_at_a_blocked_attack(first, tmp_path, capsys):
    times = first.run_steps(tmp_path, short=True)
    with capsys.disabled():
        print("\n" + " | ".join(f"{name} {seconds:.1f} s" for name, seconds in times.items()))  # noqa: T201 - figures
    assert first.sum_to_blocked_attack(times) < first.BOUND
    assert {
        "init --deploy",
        "serve, as the unit does",
        "send",
        "reload, and a new answer",
        "stopping",
    } <= set(times)


def test_the_readme_gives_the_reason_then_the_commands_then_code(first):
    """The reason, a picture of it, the commands and twenty lines of code, in this order."""
    page = (ROOT / "README.md").read_text("utf-8")
    places = [
        page.index(mark)
        for mark in ("# agentserver", "![", "```sh", "**Who needs it.**", "```python", "## Compared")
    ]
    assert places == sorted(places)
    code = page.partition("```python\n")[2].partition("```")[0]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 25


def test_each_cell_of_the_comparison_names_its_source(first):
    page = (ROOT / "README.md").read_text("utf-8")
    rows = (
        page.partition("## Compared")[2].partition("## ")[0].partition("|---|---|---|---|\n")[2].splitlines()
    )
    cells = [cell.strip() for row in rows if row.startswith("|") for cell in row.strip("|").split(" | ")[1:]]
    assert len(cells) > 20
    assert [
        cell for cell in cells if cell.strip("| ") and "](" not in cell and "it came first" not in cell
    ] == []
