"""``agentserver replay``: other rules asked, and a recorded conversation as a regression test."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agentserver.contract import Code
from agentserver.core.guard import DenyVerdict
from agentserver.guards.builtin import ApprovalGuard
from tests.cli import journals
from tests.cli.conftest import environment
from tests.cli.journals import change, verb
from tests.machine import HANGS


@pytest.fixture
def shop(tmp_path, monkeypatch):
    home = journals.shop(tmp_path)
    monkeypatch.chdir(home)
    return home


def key():
    return json.loads(verb("conversations", "--json").splitlines()[0])["id"]


def other(home, before, after, name="other.yaml"):
    (home / name).write_text((home / "organism.yaml").read_text())
    change(home / name, before, after)
    return name


def pytest_on(folder, *more):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=HANGS, check=False,
    )  # fmt: skip


def test_several_conversations_may_be_named(shop):
    assert verb("replay", key()[:8], key()).endswith("2 conversations, 36 steps; 0 differ\n")


def test_a_difference_names_the_message_that_was_decided(shop):
    change(shop / "organism.yaml", "peers: [till, ghost]", "peers: [ghost]")
    assert "step 2 (clerk finished with Order from console): then sent" in verb("replay", status=1)


# Other rules


def test_another_organism_that_says_the_same(shop):
    output = verb("replay", "--against", other(shop, "Adds up.", "Adds."))
    assert output == "1 conversation, 15 messages; changed: none\n"


def test_another_organism_that_would_have_blocked(shop):
    first, parted, second, total = verb(
        "replay", "--against", other(shop, "peers: [till, ghost]", "peers: [ghost]"), status=1
    ).splitlines()
    assert first == (
        f"{key()}: step 2: clerk -> till Sum: was let through, would have been blocked (till is no peer of clerk)"
    )
    assert parted.startswith("  from here on: verdicts of these rules on recorded messages")
    assert "step 6: clerk -> till Sum" in second
    assert total == "1 conversation, 15 messages; changed: 2 blocked"


def test_replay_lists_messages_that_another_organism_asks_about_or_admits(shop):
    asking = other(shop, "name: till\n", "name: till\n    approval: required\n")
    output = verb("replay", "--against", asking, status=1)
    assert (
        "would have been asked about (clerk wants to send this to till, which needs an approval.)" in output
    )
    assert output.endswith("2 asked about\n")
    nobody = "\n  - {name: nobody, description: Is there., payload_class: shop_handlers.Sum, handler: shop_handlers.add}"
    open_door = other(shop, "peers: [till, ghost]", "peers: [till, ghost, nobody]")
    change(shop / open_door, "\nlimits:", f"{nobody}\nlimits:")
    output = verb("replay", key(), "--against", open_door, status=1)
    assert "clerk -> nobody Sum: was blocked, would have been let through" in output


def test_an_organism_of_another_project_with_modules_of_the_same_names(shop, tmp_path):
    elsewhere = journals.shop(tmp_path / "elsewhere")
    change(elsewhere / "shop_handlers.py", "    amount: int", "    amount: int\n    currency: str")
    output = verb("replay", "--against", elsewhere / "organism.yaml", status=1)
    assert "till -> clerk Total: was let through, would have been blocked" in output


def test_a_conversation_that_cannot_be_replayed_is_reported(shop):
    good = other(shop, "Adds up.", "Adds.")
    change(shop / "organism.yaml", "peers: [till, ghost]", "peers: [ghost]")
    output = verb("replay", "--against", good, status=1)
    assert "compared up to the first step that is decided differently: step 2" in output
    assert output.endswith("changed: none; 1 conversations could not be compared\n")


def alter_journal(home):
    with closing(sqlite3.connect(home / "out" / "journal.sqlite", isolation_level=None)) as connection:
        connection.execute("update step set at = at + 1 where version = 4")


def test_an_altered_conversation_is_neither_shown_nor_saved(shop):
    alter_journal(shop)
    assert "step 4 was altered" in verb("replay", "--against", "organism.yaml", status=1)
    assert "was altered" in verb("replay", key(), "--save", "x.json", status=2)
    assert not Path("x.json").exists()


def test_secrets_are_not_printed(shop, monkeypatch):
    monkeypatch.setenv("WHO", "till is no peer")
    change(shop / "organism.yaml", "description: Adds up.", "description: ${WHO}.")
    change(shop / "organism.yaml", "peers: [till, ghost]", "peers: [ghost]")
    assert "till routing: [redacted] of clerk" in verb("replay", status=1)


def test_secrets_of_the_other_organism_are_not_printed(shop, monkeypatch):
    monkeypatch.setenv("WHO", "till is no peer")
    stricter = other(shop, "peers: [till, ghost]", "peers: [ghost]")
    change(shop / stricter, "description: Adds up.", "description: ${WHO}.")
    assert "([redacted] of clerk)" in verb("replay", "--against", stricter, status=1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["abc", "--against", "a", "--save", "b"], "exclude each other"),
        (["--save", "x.json"], "exactly one CONVERSATION"),
        (["a", "b", "--save", "x.json"], "exactly one CONVERSATION"),
    ],
)
def test_options_that_do_not_go_together(shop, options, problem):
    assert problem in verb("replay", *options, status=2)


# The regression test


def test_a_conversation_becomes_a_test_with_one_command(tmp_path, shell):
    """The whole way: the example organism talks, its conversation is saved, the test passes, and fails when it should."""
    assert shell("init", "desk", cwd=tmp_path).returncode == 0
    home = tmp_path / "desk"
    told = shell("run", cwd=home, given="@greeter Ada\n")
    assert "ADA" in told.stdout, told.stderr
    (conversation,) = shell("conversations", cwd=home).stdout.splitlines()
    saved = shell("replay", conversation.split()[0], "--save", "tests/regressions/ada.json", cwd=home)
    assert saved.returncode == 0, saved.stderr
    assert "tests/regressions/test_ada.py: run it with pytest" in saved.stdout
    passed = pytest_on(home, "tests/regressions")
    assert (passed.returncode, passed.stdout.splitlines()[-1][:8]) == (0, "1 passed"), passed.stdout
    change(home / "config" / "organism.yaml", "peers: [shouter]", "peers: []")
    failed = pytest_on(home, "tests/regressions")
    assert failed.returncode == 1, failed.stdout
    assert (
        "AssertionError: ada.json: step 2 (greeter finished with Greet from console): then sent greeter -> shouter"
        " Shout; now refused greeter -> shouter routing: shouter is no peer of greeter"
    ) in failed.stdout


def test_existing_tests_and_files_are_not_overwritten(shop):
    verb("replay", key(), "--save", "saved/Tea time.json")
    test = Path("saved/test_tea_time.py")
    assert "HERE / 'Tea time.json', HERE / '../organism.yaml'" in test.read_text()
    assert "exists already" in verb("replay", key(), "--save", "saved/Tea time.json", status=2)
    test.write_text("# mine\n")
    Path("saved/Tea time.json").unlink()
    assert "is not changed" in verb("replay", key(), "--save", "saved/Tea time.json")
    assert test.read_text() == "# mine\n"


def test_a_file_without_a_name_for_a_function(shop):
    verb("replay", key(), "--save", "saved/++.json")
    assert "def test_conversation()" in Path("saved/test_conversation.py").read_text()


def test_a_secret_is_not_saved(shop, monkeypatch):
    monkeypatch.setenv("WORD", "ünicode & more")
    change(shop / "organism.yaml", "description: Adds up.", "description: ${WORD}.")
    output = verb("replay", key(), "--save", "saved/tea.json", status=2)
    assert "contains a secret of the organism" in output
    assert "nicode" not in output
    assert not Path("saved").exists()


def test_a_conversation_that_differs_is_saved_and_said_to_differ(shop):
    change(shop / "organism.yaml", "peers: [till, ghost]", "peers: [ghost]")
    assert "1 differ" in verb("replay", key(), "--save", "tea.json", status=1)
    assert Path("tea.json").exists()


def test_a_guard_that_has_much_to_say_gets_a_line_for_each(monkeypatch, shop):
    def judge(self, memory, proposal, at):
        text = "BLOCKED: a\nbecause \x1b[31mb\n\nand c"
        return DenyVerdict(Code.DENIED, text) if proposal.to == "till" and self._listeners else None

    monkeypatch.setattr(ApprovalGuard, "judge", judge)
    asking = other(shop, "name: till\n", "name: till\n    approval: required\n")
    lines = verb("replay", "--against", asking, status=1).splitlines()
    assert lines[0].endswith("would have been blocked (BLOCKED: a)")
    assert lines[1:4] == ["    because \ufffd[31mb", "    ", "    and c"]
