"""A flow that resumes at any point of its log sends the same as before."""

from __future__ import annotations

import dataclasses
from collections import deque
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.effects import EffectUnknown, LedgerEntry, NotDone
from agentserver.flow import ask, gather, once, random, tell, uuid
from agentserver.flow.lines import FlowLine
from agentserver.flow.runner import FlowRunner
from tests.fuzzing import examples

pytestmark = pytest.mark.anyio

ACTS = st.recursive(
    st.sampled_from(["ask", "tell", "once", "fails", "undone", "uuid", "random"]),
    lambda acts: st.tuples(st.just("gather"), st.lists(st.lists(acts, max_size=3), max_size=3)),
    max_leaves=12,
)
FLOWS = st.lists(ACTS, min_size=1, max_size=6)


class Ledger:
    """Effects of a server, which outlive runs."""

    def __init__(self):
        self.known = {}

    async def claim(self, key, *, passing=False):
        state, answer = self.known.get(key, ("claimed", ""))
        if state == "claimed" and key in self.known:
            state = "unknown"
        self.known[key] = state, answer
        return LedgerEntry(key, state, answer)

    async def conclude(self, key, answer, *, trusted=False):
        if answer is None:
            del self.known[key]
        else:
            self.known[key] = "done", answer


class World:
    """A flow, its answers, and its side effects."""

    def __init__(self, acts):
        self.acts, self.calls, self.ledger = acts, [], Ledger()

    def start(self):
        runner = FlowRunner(self.perform(self.acts), repr, lambda _, text: text)
        runner.ledger = self.ledger
        return runner

    async def perform(self, acts):
        seen = []
        for number, act in enumerate(acts):
            match act:
                case ("gather", parts):
                    seen.append(await gather(*(self.perform(part) for part in parts)))
                case "ask":
                    seen.append(await ask("peer", (number, list(seen))))
                case "tell":
                    await tell("peer", (number, list(seen)))
                case "uuid":
                    seen.append(str(await uuid()))
                case "random":
                    seen.append(await random())
                case _:
                    seen.append(await self.affect(act, number))
        return seen

    async def affect(self, act, number):
        try:
            return await once(self.act, act, number)
        except (EffectUnknown, NotDone) as error:
            return f"{type(error).__name__} {error}"

    def act(self, act, number):
        self.calls.append((act, number))
        if act == "fails":
            raise ValueError(number)
        if act == "undone":
            raise NotDone(number)
        return f"{act} {number}"


async def follow(world, seed):
    """Run a flow to its end, with its answers in any order. Gives its lines, what each sent, and its result."""
    draw, runner = Random(seed), world.start()
    lines, sent, open_calls = [FlowLine("0", "")], [], deque()
    await runner.begin("0")
    while True:
        lines[-1].events.extend(runner.events)
        sent.append(list(runner.sent))
        asked = [event.kind == "ask" for event in runner.events if event.kind in ("ask", "tell")]
        open_calls.extend((lines[-1].key, place) for place, waits in enumerate(asked) if waits)
        if runner.ended:
            assert runner.error is None
            return lines, sent, runner.result
        open_calls.rotate(draw.randrange(len(open_calls)))
        call, place = open_calls.popleft()
        line = FlowLine(str(len(lines)), f"answer {len(lines)}", call, place)
        lines.append(dataclasses.replace(line, events=[]))
        await runner.resume(line)


async def check(acts, seed):
    world = World(acts)
    lines, sent, result = await follow(world, seed)
    calls = list(world.calls)
    for point in range(1, len(lines)):
        runner = world.start()
        await runner.replay(lines[:point])
        assert list(runner.sent) == sent[point - 1], (
            "the last messages before the end of the log are repeated"
        )
        for number in range(point, len(lines)):
            assert not runner.ended
            await runner.resume(lines[number])
            assert list(runner.sent) == sent[number]
            assert runner.events == lines[number].events
        assert runner.ended
        assert runner.result == result
    again = [
        call for call in world.calls[len(calls) :] if call[0] != "undone"
    ]  # which did nothing, and says so
    assert not again, "nothing outside was done again"


@settings(max_examples=examples(60), deadline=None)
@given(FLOWS, st.integers(0, 1 << 16))
def test_a_flow_resumed_at_any_point_sends_the_same_as_before(acts, seed):
    work = check(acts, seed)
    with pytest.raises(StopIteration):  # nothing in it waits for an event loop
        work.send(None)
