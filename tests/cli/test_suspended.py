"""Suspended conversations: listed with the reason, mentioned by the other verbs, repaired or discarded."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.journals import change, verb
from tests.cli.test_dead import PART, active, works

__all__ = ["works"]  # a fixture

JOURNAL = Path("out/journal.sqlite")
APPROVED = """
provenance: {mode: audit, sources: [worker], sinks: [boss]}
"""


@pytest.fixture(autouse=True)
def _no_modules():
    yield
    sys.modules.pop("works_handlers", None)


def journal(*args, status=0):
    sys.modules.pop("works_handlers", None)
    return verb("journal", "suspended", *args, status=status)


def journal_file():
    (found,) = Path().rglob("*.sqlite")
    return found


def sql(statement, *values):
    with closing(sqlite3.connect(journal_file(), isolation_level=None)) as connection:
        return connection.execute(statement, values).fetchall()


def ask_clerk():
    """An answered message in a conversation that stays open; gives its id."""

    async def talk(server):
        handle = await server.open("console")
        await handle.ask(PART)
        handle.detach()
        return handle.id

    return active(talk)


def send_again(key):
    """Send another message in the conversation; return the reply, or the reason for its absence."""

    async def talk(server):
        if key not in await server.left_over("console"):
            return "it cannot be resumed"
        handle = await server.resume("console", key)
        try:
            reply = await handle.ask(PART)
        except RuntimeError as error:
            return str(error)
        handle.detach()
        return reply.message.decode()

    return active(talk)


@pytest.fixture
def damaged_conversation(works):
    """Give the id of a suspended conversation; damages its ``root`` column and restores it afterwards."""
    key = ask_clerk()
    ((state,),) = sql("select state from conversation")
    sql("update conversation set state = x'00'")
    assert "has ended" in send_again(key)
    return key, state


def test_suspended_conversations_are_listed_and_shown(damaged_conversation):
    key, _ = damaged_conversation
    (line,) = journal("list").splitlines()
    assert line.startswith(key)
    assert "its stored rows fail their seal" in line
    assert json.loads(journal("list", "--json"))["id"] == key
    assert "reason: " in journal("show", key[:8])
    assert "no suspended conversations" in journal("show", "nobody", status=2)
    assert "\tsuspended\t" in verb("conversations")


def test_a_suspended_conversation_is_repaired_once_it_is_readable(damaged_conversation):
    key, state = damaged_conversation
    assert "stays suspended" in journal("repair", key, status=2)
    sql("update conversation set state = ?", state)
    assert "is resumed" in journal("repair", key[:8])
    assert journal("list") == "no conversation is suspended\n"
    assert "attempt 0" in send_again(key)


def test_a_suspended_conversation_is_discarded(damaged_conversation):
    key, state = damaged_conversation
    assert "is discarded" in journal("discard", key)
    sql("update conversation set state = ?", state)
    assert "no suspended conversations" in journal("repair", key, status=2)
    assert send_again(key) == "it cannot be resumed"
    assert "finished" in verb("conversations")


def test_a_guard_that_comes_back_takes_its_conversations_back(works):
    change(Path("organism.yaml"), "\nname: works\n", f"\nname: works\n{APPROVED}")
    key = ask_clerk()
    change(Path("organism.yaml"), APPROVED, "")
    assert "has ended" in send_again(key)
    assert "the guard lineage, which is not there" in journal("list")
    assert "stays suspended" in journal("repair", key, status=2)
    change(Path("organism.yaml"), "\nname: works\n", f"\nname: works\n{APPROVED}")
    assert "is resumed" in journal("repair", key)
    assert "attempt 0" in send_again(key)


@pytest.mark.parametrize("args", [("approvals",), ("dead", "next")])
def test_verbs_skip_unreadable_conversations_and_say_so(works, monkeypatch, args):
    key = ask_clerk()
    monkeypatch.setenv("WORKS_FAIL", "hang")

    async def leave(server):
        handle = await server.open("console")
        await handle.send(PART)
        handle.detach()

    change(
        Path("works_handlers.py"),
        'if os.environ.get("WORKS_FAIL") == "kill":',
        'if os.environ.get("WORKS_FAIL") == "hang":\n        import anyio\n        await anyio.sleep_forever()\n    if os.environ.get("WORKS_FAIL") == "kill":',
    )
    active(leave)
    sys.modules.pop("works_handlers", None)
    sql("update conversation set state = x'00' where id <> ?", key)
    sys.modules.pop("works_handlers", None)
    assert "left out: conversation" in verb(*args)


@pytest.mark.parametrize("column", ["cause", "records"])
def test_damaged_steps_are_no_traceback(works, column):
    key = ask_clerk()
    sql(f"update step set {column} = x'00'")
    for args in (("trace", key), ("replay", key)):
        sys.modules.pop("works_handlers", None)
        verb(*args, status=0 if args[0] == "trace" and column == "cause" else 2 if args[0] == "trace" else 1)
