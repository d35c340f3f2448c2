"""A handler that holds the event loop is named, and in the end it ends the process."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from agentserver import HandlerResponse
from agentserver.engines.memory import MemoryEngine
from agentserver.pump import watchdog
from agentserver.pump.pump import PumpHooks
from agentserver.pump.watchdog import Looks, WatchdogAction
from tests.core.paper import Answer, Ask, listener
from tests.pump.desk import desk
from tests.pump.test_poison_search import NotedMarks

NONE, NAME, END = WatchdogAction.NONE, WatchdogAction.NAME, WatchdogAction.END


def signs(*looks, limit=4):
    looking = Looks(limit)
    return [looking.look(task, came_round=came) for task, came in looks]


def test_a_task_that_holds_the_loop_is_named_and_later_ended():
    assert signs(*[("a", False)] * 6) == [NONE, NAME, NONE, END, NONE, NONE]


def test_without_a_limit_it_is_only_named():
    assert signs(*[("a", False)] * 6, limit=0) == [NONE, NAME, NONE, NONE, NONE, NONE]


@pytest.mark.parametrize("between", [("a", True), ("b", False), (None, False), (None, True)])
def test_it_restarts_when_the_loop_came_round_or_another_task_holds_it(between):
    held = ("a", False)
    assert END not in signs(held, held, held, between, held, held)


class NotingMarks(NotedMarks):
    held = ""

    def hold(self, delivery):
        self.held = delivery


@pytest.mark.anyio
async def test_the_listener_is_named_with_its_stack_and_marked_before_the_end(caplog, monkeypatch):
    monkeypatch.setattr(watchdog, "TICK", 0.001)  # the thread's own time; the handler waits for what it does
    engine, told = MemoryEngine(), threading.Event()
    engine.marks = marks = NotingMarks()

    async def block_loop(payload, metadata):
        start = time.monotonic()
        while not told.is_set() and time.monotonic() < start + 30:
            pass
        return HandlerResponse.respond(Answer("at last"))

    people = PumpHooks(stalled=told.set)
    async with desk((listener("a"), block_loop), engine=engine, people=people, stall=0.01) as d:
        with caplog.at_level(logging.ERROR):
            assert await d.ask(Ask("x")) == Answer("at last")
    (held,) = {record.delivery for record in d.records if record.event == "handled"}
    assert marks.held == held
    named, ending = (r for r in caplog.records if r.message.startswith("a has held"))
    assert "a has held the event loop" in named.message
    assert named.message.endswith("; await what blocks, or pass it to anyio.to_thread.run_sync")
    assert "in block_loop" in named.stack_info
    assert (ending.levelname, "the process ends" in ending.message) == ("CRITICAL", True)
