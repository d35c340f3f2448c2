"""What an organism has written stays in its project, unless its path is absolute."""

from __future__ import annotations

import os

import pytest

from agentserver.config import ConfigError, load
from tests.config.conftest import CODE, ONE

INTENTS = """
intents:
  - name: ask
    target: [greeter]
    max_event_chars: 100
"""


@pytest.fixture
def home(project):
    project.write("listeners/greet.py", CODE)
    return project


def refusal_text(home, text):
    path = home.write("organism.yaml", ONE + text)
    with pytest.raises(ConfigError) as found:
        load(path, environ={})
    return str(found.value)


def test_a_loop_of_links_is_a_place_like_any_other(home):
    (home.root / "loop").symlink_to("loop")
    assert load(home.write("organism.yaml", f"{ONE}\njournal:\n  path: loop/j.sqlite\n"), environ={}).journal


@pytest.mark.parametrize("written", ["../j.sqlite", "out/../../j.sqlite", "..", "out/../.."])
@pytest.mark.parametrize(("key", "line"), [("journal:\n  path", 8), ("handoffs:\n  audit", 8)])
def test_a_relative_path_may_not_leave_the_project(home, written, key, line):
    said = refusal_text(home, f"{key}: {written}\n")
    loc = key.replace(":\n  ", ".")
    assert f"organism.yaml:{line}: {loc}: " in said
    assert f'"{written}" leads out of the project directory' in said
    assert f"({loc}: " in said.replace('("', "(")


def test_nor_by_a_symbolic_link(home, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (home.root / "out").symlink_to(elsewhere)
    assert "leads out of the project directory" in refusal_text(home, "")
    (home.root / "out").unlink()
    (home.root / "out").mkdir()
    (home.root / "out" / "journal.sqlite").symlink_to(elsewhere / "j.sqlite")
    assert f"{elsewhere}" in refusal_text(home, "")


def test_an_absolute_path_is_the_operators_choice(home, tmp_path_factory):
    path = tmp_path_factory.mktemp("elsewhere") / "j.sqlite"
    organism = load(home.write("organism.yaml", f"{ONE}journal:\n  path: {path}\n"), environ={})
    assert organism.journal.path == str(path)
    inside = load(home.write("organism.yaml", f"{ONE}journal: {{path: out/../j.sqlite}}\n"), environ={})
    assert os.path.normpath(inside.journal.path) == "j.sqlite"
