"""``check --against``: the waiting flows and messages of a journal that a deploy would break are named."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentserver.assembly import build
from agentserver.cli import cli
from agentserver.config import load

CODE = """
import asyncio
from dataclasses import dataclass
from typing import Annotated
from annotated_types import MaxLen
from agentserver import xmlify
from agentserver.flow import ask, changed

@xmlify
@dataclass(frozen=True)
class Start:
    number: int

@xmlify
@dataclass(frozen=True)
class Find:
    what: str

@dataclass(frozen=True)
class Found:
    what: str

async def find(found: Find) -> Found:
    if found.what == "b":
        await asyncio.sleep(600)
    return Found(found.what)

async def flow(start: Start) -> Found:
    first = await ask("ledger", Find("a"), reply=Found)
    return await ask("ledger", Find("b"), reply=Found)
"""

YAML = """
name: house
journal: {path: journal.sqlite}
listeners:
  - {name: desk, handler: against_desk.flow, description: Asks., peers: [ledger]}
  - {name: ledger, handler: against_desk.find, description: Finds.}
"""


@pytest.fixture(scope="module")
def recorded_project(tmp_path_factory):
    """A project whose journal has a flow that waits for its second answer."""
    home = tmp_path_factory.mktemp("house")
    with pytest.MonkeyPatch.context() as patch:
        # Two versions of one size, written within a second, would share a .pyc.
        patch.setattr(sys, "dont_write_bytecode", True)
        yield home, asyncio.run(record(home))


async def record(home):
    def write():
        (home / "against_desk.py").write_text(CODE, "utf-8")
        (home / "organism.yaml").write_text(YAML, "utf-8")
        return load(home / "organism.yaml", environ={}, project=home, separate=True)

    house = await asyncio.to_thread(write)
    async with build(house, durable=True) as server:
        handle = await server.open("test")
        (start,) = server.rules.blueprint.listeners["desk"].payloads
        await handle.send(server.rules.codecs.of(start).encode(start(1)).encode(), "desk")
        while not any(r.to == "ledger" and r.hop >= 4 for r in server.trace.list_records(handle.id)):  # noqa: ASYNC110 - no event of its own
            await asyncio.sleep(0.01)
    return handle.id


def run_check(home, *options):
    """Run the verb in this process. Returns its exit code and its output."""
    sys.modules.pop("against_desk", None)
    done = CliRunner().invoke(
        cli, ["check", str(home / "organism.yaml"), "--against", str(home / "journal.sqlite"), *options]
    )
    sys.modules.pop("against_desk", None)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    return done.exit_code, done.stdout


def check(home):
    """Run the verb in this process. Returns its exit code and its findings."""
    code, output = run_check(home, "--json")
    return code, [json.loads(line) for line in output.splitlines()]


CHANGES = {
    "nothing": ("", "", []),
    "what has not happened yet": ("return await ask(", "await changed('x')\n    return await ask(", []),
    "a branch": ('Find("b")', "Find('z' if await changed('x') else 'b')", []),
    "a message": (
        'Find("a")',
        'Find("c")',
        ["desk: conversation {}: a waiting flow breaks", "another content"],
    ),
    "a schema": (
        "what: str\n\n@dataclass",
        "what: Annotated[str, MaxLen(0)]\n\n@dataclass",
        ["a Find waits for it"],
    ),
    "a name": ("Find", "Seek", ["a Find waits for it, and no payload class has this root element"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_code_that_breaks_a_stored_conversation_is_reported(recorded_project, change):
    home, conversation = recorded_project
    before, after, told = CHANGES[change]
    Path(home / "against_desk.py").write_text(CODE.replace(before, after) if before else CODE, "utf-8")
    code, findings = check(home)
    text = "\n".join(f"{each['path']}: {each['message']}" for each in findings)
    assert code == bool(told), text
    assert {each["code"] for each in findings} <= {"config:pending"}
    for words in told:
        assert words.format(conversation) in text


@pytest.mark.parametrize(("after", "broken"), [(CODE, 0), (CODE.replace("Find", "Seek"), 1)])
def test_the_number_of_checked_conversations_is_said(recorded_project, after, broken):
    home, _ = recorded_project
    Path(home / "against_desk.py").write_text(after, "utf-8")
    _, output = run_check(home)
    assert f"journal.sqlite: {broken} of 1 open conversation could not continue\n" in output
