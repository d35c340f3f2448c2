"""What a console shows of earlier conversations, and when it counts as taken."""

from __future__ import annotations

import io
import threading

import anyio
import pytest

from agentserver.assembly import build
from agentserver.cli.run import _fetch_missed, _show
from agentserver.core.messages import Done
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.gateways.console.session import DOOR
from agentserver.trace.terminal import Screen
from tests.gateways.payloads import DESK, Greet
from tests.machine import HANGS
from tests.pump.desk import wait_until

pytestmark = pytest.mark.anyio
GREET = Greet.__codec__.encode(Greet("Ada")).encode()


class StuckTerminal(io.StringIO):
    """A terminal that accepts nothing until the test releases it."""

    def __init__(self):
        super().__init__()
        self.open = threading.Event()

    def write(self, text):
        assert self.open.wait(HANGS)
        return super().write(text)


@pytest.mark.parametrize(("again", "told"), [(False, "c: ended"), (True, "c, perhaps again: ended")])
async def test_a_request_without_a_result_is_reported(again, told):
    shown = io.StringIO()
    await _show(Done("c", "r", answered=False, redelivered=again), None, Screen(out=lambda: shown))
    assert shown.getvalue() == f"from conversation {told} without an answer\n"
    await _show(Done("c", "r", answered=True), None, Screen(out=lambda: shown))
    assert shown.getvalue().count("\n") == 1


async def test_unwritten_output_counts_as_not_taken():
    engine, terminal = MemoryEngine(), StuckTerminal()
    server = build(DESK, engine=engine)
    async with server:
        handle = await server.open("console")
        await handle.send(b"<what/>")  # is refused, and the refusal waits
        left = [event async for event in engine.outbox(handle.id)]
        assert len(left) == 2
        handle.detach()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_fetch_missed, server, Screen(out=lambda: terminal))
            await anyio.wait_all_tasks_blocked()
            assert [event async for event in engine.outbox(handle.id)] == left
            terminal.open.set()
        assert [event async for event in engine.outbox(handle.id)] == []
    assert f"from conversation {handle.id}" in terminal.getvalue()


@pytest.mark.parametrize(
    ("door", "message", "closed"), [(DOOR, GREET, True), ("", GREET, False), (DOOR, b"<what/>", False)]
)
async def test_an_answered_conversation_of_a_killed_console_is_closed(tmp_path, door, message, closed):
    place = JournalOptions(tmp_path / "j")
    async with build(DESK, engine=SqliteEngine(place)) as server:
        handle = await server.open("console", door=door)
        await handle.send(message, "greeter")
        await wait_until(lambda: not server.conversation(handle.id).requests)
    async with build(DESK, engine=SqliteEngine(place)) as server:
        assert await _fetch_missed(server, Screen(out=io.StringIO)) == []
        assert await server.left_over("console") == (() if closed else (handle.id,))
