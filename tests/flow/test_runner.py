"""A law of the runner: a flow that is run again from its log at any point continues as if it had stayed in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from agentserver.contract import TimerFired
from agentserver.flow import TimedOut, ask, gather, once, sleep, tell, wait_for
from agentserver.flow.lines import FlowLine
from agentserver.flow.runner import FlowRunner

STEPS = st.recursive(
    st.lists(st.sampled_from(["ask", "tell", "value", "sleep"]), max_size=3),
    lambda inner: st.lists(
        st.sampled_from(["ask", "value"]) | st.tuples(inner, inner) | st.tuples(st.just("wait"), inner),
        max_size=4,
    ),
    max_leaves=12,
)


async def program(steps, values, name=""):
    """Interpret steps: a pair of programs is gathered, and one with a word is waited for."""

    async def draw():
        return next(values)

    seen = []
    for place, step in enumerate(steps):
        where = f"{name}{place}"
        if step == "ask":
            seen.append(await ask("peer", f"{where} after {seen}"))
        elif step == "tell":
            await tell("peer", f"{where} told")
        elif step == "value":
            seen.append(await once(draw))
        elif step == "sleep":
            seen.append(await sleep(timedelta(1)))
        elif step[0] == "wait":
            try:
                seen.append(await wait_for(program(step[1], values, f"{where}w."), timedelta(1)))
            except TimedOut:
                seen.append("late")
        else:
            parts = (program(part, values, f"{where}{side}.") for part, side in zip(step, "ab", strict=True))
            seen.append(await gather(*parts))
    return seen


def encode(payload):
    return json.dumps(payload, default=repr)


def decode(asked, text):
    return TimerFired(0) if asked.to == "system.timer" else json.loads(text)


async def play(steps, order, drops):
    """Run a program to its end; returns its messages and its result.

    Args:
        order: chooses the next answered message among the open ones.
        drops: whether the flow leaves memory before each answer.
    """
    values, keys = count(), count(1)

    def new():
        return FlowRunner(program(steps, values), encode, decode)

    runner, line = new(), FlowLine("0", "")
    await runner.begin("0")
    log, said, waiting = [], [], []
    while True:
        if line is not None:
            log.append(replace(line, events=runner.events))
        said += runner.sent
        asks = [event.kind == "ask" for event in runner.events if event.kind != "value"]
        waiting += [(line.key, place) for place, waits in enumerate(asks) if waits]
        if runner.ended:
            return said, runner.result
        if next(drops):
            runner.close()
            runner = new()
            await runner.replay(log)
        key, place = waiting.pop(next(order) % len(waiting))
        if not runner.waits_for(key, place, refused=False):  # an answer that comes too late
            line, runner.events, runner.sent = None, [], []
            continue
        line = FlowLine(str(next(keys)), json.dumps(f"re {key}-{place}"), key, place)
        await runner.resume(line)


def run(coroutine):
    """Run a coroutine that waits for nothing, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


@given(STEPS, st.lists(st.integers(0, 50), max_size=8), st.lists(st.booleans(), max_size=40))
def test_a_flow_rerun_at_any_point_sends_the_same_as_before(steps, order, drops):
    def repeat_last(values, last):
        yield from values
        while True:
            yield last

    kept = run(play(steps, repeat_last(order, 0), repeat_last([], last=False)))
    assert run(play(steps, repeat_last(order, 0), repeat_last(drops, last=True))) == kept
