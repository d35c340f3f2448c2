"""Verbs that look into a journal while its organism cannot load, or is not there."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.journals import change, verb
from tests.cli.test_dead import crashing_worker, dead, letter, say, works  # noqa: F401 - fixtures

BROKEN = {
    "a handler that does not import": (
        "worker, description",
        "worker, description",
        "import nothing_of_the_kind",
    ),
    "a peer that is none": ("peers: [worker]", "peers: [nobody]", ""),
    "an unknown key": ("limits:", "limitz:", ""),
}


@pytest.fixture
def journal_with_secret(letter):  # noqa: F811 - a fixture
    """Write a journal with a dead letter whose reason holds a secret; return the letter and its conversation."""
    sys.modules.pop("works_handlers", None)
    return letter, verb("conversations").split()[0]


def looks(kept, *options):
    """What every verb that reads has to say."""
    letter_, conversation = kept
    return {
        "conversations": verb("conversations", *options),
        "trace": verb("trace", conversation, *options),
        "list": verb("dead", *options),
        "show": verb("dead", "show", letter_, *options),
        "approvals": verb("approvals", *options),
        "stats": verb("journal", "stats", *options),
    }


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.usefixtures("works")
def test_while_the_organism_is_broken_everything_is_read_and_no_secret_shown(journal_with_secret, how):
    before = looks(journal_with_secret)
    old, new, code = BROKEN[how]
    change(Path("organism.yaml"), old, new)
    Path("works_handlers.py").write_text(code or Path("works_handlers.py").read_text())
    after = looks(journal_with_secret)
    assert after == before
    assert "[redacted]" in after["list"]
    assert not any("s3cret" in text for text in after.values())


def test_no_code_of_the_organism_runs(journal_with_secret):
    Path("works_handlers.py").write_text("raise SystemExit('it ran')\n")
    looks(journal_with_secret)


def test_verbs_that_change_the_journal_work_too(journal_with_secret, tmp_path):
    change(Path("organism.yaml"), "peers: [worker]", "peers: [nobody]")
    verb("journal", "export", "copy.sqlite")
    verb("journal", "vacuum")
    assert dead("discard", journal_with_secret[0]) == f"{journal_with_secret[0]} is discarded\n"
    assert verb("dead", "--journal", "copy.sqlite").startswith(journal_with_secret[0])


@pytest.mark.parametrize("how", ["no YAML", "a secret that is not set", "a file that is not there"])
def test_while_its_secrets_cannot_be_read_nothing_is_shown_that_may_hold_one(
    journal_with_secret, how, monkeypatch
):
    if how == "no YAML":
        Path("organism.yaml").write_text("name: [")
    elif how == "a secret that is not set":
        monkeypatch.delenv("WORKS_KEY")
    else:
        change(Path("organism.yaml"), "limits:", "include: [gone.yaml]\nlimits:")
    named = ["--journal", "out/journal.sqlite"]
    for args in (
        ["trace", journal_with_secret[1]],
        ["dead"],
        ["dead", "show", journal_with_secret[0]],
        ["approvals"],
        ["approvals", "show", "x"],
    ):
        said = verb(*args, *named, status=2)
        assert "not all of its secrets are known, and nothing is shown" in said
        assert "s3cret" not in said
    assert journal_with_secret[0] in verb("dead", "--unredacted", *named)
    assert "[redacted]" in verb("dead", "--unredacted", *named) or how != "a file that is not there"
    assert "tea" in verb("trace", journal_with_secret[1], "--unredacted", *named)
    verb("conversations", *named)
    verb("journal", "stats", *named)


@pytest.mark.parametrize("how", ["a path", "a symbolic link"])
def test_no_verb_follows_a_journal_out_of_the_project(journal_with_secret, tmp_path_factory, how):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    verb("journal", "export", "copy.sqlite")
    if how == "a path":
        there = os.path.relpath(elsewhere / "j.sqlite")
        Path("organism.yaml").write_text(f"{Path('organism.yaml').read_text()}journal: {{path: {there}}}\n")
    else:
        shutil.move("out", elsewhere / "out")
        Path("out").symlink_to(elsewhere / "out")
    before = sorted((path, path.stat().st_mtime_ns) for path in elsewhere.rglob("*"))
    for args in (
        ["journal", "restore", "copy.sqlite"],
        ["journal", "vacuum"],
        ["journal", "accept-loss"],
        ["journal", "stats"],
        ["dead", "discard", journal_with_secret[0]],
        ["deny", "123456"],
        ["trace", journal_with_secret[1]],
    ):
        said = verb(*args, status=2)
        assert "organism.yaml:" in said
        assert "leads out of the project directory" in said
    assert sorted((path, path.stat().st_mtime_ns) for path in elsewhere.rglob("*")) == before
    assert journal_with_secret[0] in verb("dead", "--journal", "copy.sqlite")


def test_an_ambiguous_journal_must_be_named(journal_with_secret):
    Path("organism.yaml").write_text("name: [")
    assert "name it with --journal" in verb("conversations", status=2)
    change_to = Path("organism.yaml")
    change_to.write_text("name: works\nlisteners: []\njournal: {path: 7}\n")
    assert "name it with --journal" in verb("journal", "stats", status=2)
    change_to.write_text("name: works\nlisteners: []\njournal: none\n")
    assert "keeps no journal" in verb("conversations", status=2)


def test_without_an_organism_the_journal_of_its_place_is_read_and_that_no_secret_is_known_said(
    journal_with_secret,
):
    Path("organism.yaml").unlink()
    assert journal_with_secret[1] in verb("conversations")
    for args in (
        ["trace", journal_with_secret[1]],
        ["dead"],
        ["dead", "show", journal_with_secret[0]],
        ["approvals"],
    ):
        assert "its secrets are not redacted" in verb(*args)
    Path("out/journal.sqlite").rename("elsewhere.sqlite")
    assert "name a file, or begin with: agentserver init" in verb("conversations", status=2)
    assert journal_with_secret[1] in verb("conversations", "--journal", "elsewhere.sqlite")


def test_an_organism_that_is_named_and_not_there_is_no_reason_to_show_secrets(journal_with_secret):
    said = verb(
        "trace",
        journal_with_secret[1],
        "--organism",
        "gone.yaml",
        "--journal",
        "out/journal.sqlite",
        status=2,
    )
    assert "nothing is shown" in said


def test_a_journal_elsewhere_is_found_in_a_broken_organism(journal_with_secret):
    Path("out/journal.sqlite").rename("moved.sqlite")
    change(Path("organism.yaml"), "limits:", "journal: {path: moved.sqlite}\nlimitz:")
    assert journal_with_secret[1] in verb("conversations")
