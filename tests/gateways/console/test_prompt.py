from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import anyio
import pytest
from prompt_toolkit.history import InMemoryHistory, ThreadedHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from agentserver.gateways.console.lines import ControlKey, Ids
from agentserver.gateways.console.prompt import ListenerCompleter, PrivateHistory, PromptLines, open_history
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


def hide(text):
    return text.replace("hunter2", "[redacted]")


async def type_keys(keys, takers, past=None, old=0):
    """The line that keys make once ``old`` lines of history are there; completions are waited for as a person does."""
    with create_pipe_input() as source:
        completer = ListenerCompleter(takers, lambda: Ids(["1a2b"], ["9f0e"]))
        lines = PromptLines(completer, past or InMemoryHistory(), source=source, sink=DummyOutput())
        buffer = lines._session.default_buffer
        found = []

        async def read():
            found.append(await lines.next("> "))

        with anyio.fail_after(HANGS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                while len(buffer._working_lines) <= old or not lines._session.app.is_running:  # noqa: ASYNC110 - as below
                    await asyncio.sleep(0.01)
                *starts, rest = keys.split("\t")
                for part in starts:
                    source.send_text(f"{part}\t")
                    while buffer.text in {"", part}:  # noqa: ASYNC110 - the prompt offers no event for it
                        await asyncio.sleep(0.01)
                source.send_text(rest)
        return found[0]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("hello\n", "hello"),
        ("@gree\t Ada\n", "@greeter Ada"),
        ("@greeter lo\ttrue\n", "@greeter loud=true"),
        ("/trace 1\t\n", "/trace 1a2b"),
        ("\x04", ControlKey.END),
        ("half\x03", ControlKey.INTERRUPT),
    ],
)
async def test_keys_become_lines(keys, line, takers):
    assert await type_keys(keys, takers) == line


@pytest.fixture
def private(tmp_path):
    return PrivateHistory(tmp_path / "state" / "history", hide)


async def test_the_history_is_private_and_keeps_no_secret(private, takers):
    for keys in ("one\n", " private\n", "say hunter2\n"):
        await type_keys(keys, takers, private)
    private._writer.shutdown()
    path = anyio.Path(private.filename)
    assert stat.S_IMODE((await path.stat()).st_mode) == 0o600
    assert stat.S_IMODE((await path.parent.stat()).st_mode) == 0o700
    kept = await path.read_text()
    assert "one" in kept
    assert "private" not in kept
    assert "hunter2" not in kept


@pytest.fixture
def stored_history(private):
    private.store_string("old")
    private._writer.shutdown()
    return ThreadedHistory(PrivateHistory(Path(private.filename), hide))


async def test_old_lines_come_back(stored_history, takers):
    assert await type_keys("\x1b[A\n", takers, stored_history, old=1) == "old"


def test_a_history_of_old_becomes_private(tmp_path):
    path = tmp_path / "history"
    path.touch(0o644)
    PrivateHistory(path, hide)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_usable_file_the_history_is_forgotten(tmp_path):
    (tmp_path / "file").touch()
    past, trouble = open_history(tmp_path / "file" / "history", hide)
    assert isinstance(past, InMemoryHistory)
    assert "no history: " in trouble
    assert open_history(None, hide)[1] == ""
    assert isinstance(open_history(tmp_path / "history", hide)[0], ThreadedHistory)


def test_output_appears_above_the_prompt(takers):
    lines = PromptLines(ListenerCompleter(takers, Ids), InMemoryHistory(), sink=DummyOutput())
    with lines.above():
        pass
