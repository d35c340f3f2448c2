"""Conformance checks of claims, and of the marks from which an owner learns how the previous one ended."""

from __future__ import annotations

from contextlib import AsyncExitStack
from itertools import pairwise
from typing import TYPE_CHECKING

from agentserver.engines.conformance.process import Process
from agentserver.engines.conformance.sample import BrokenPromiseError, SampleConversation, Subject, hold
from agentserver.ports import FencedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentserver.engines.conformance.process import SharedSubject
    from agentserver.ports import Marks, PreviousRun


async def a_claim_that_is_not_held_commits_nothing(subject: Subject) -> None:
    """Check that commits under another epoch are refused, and that each opening increments the epoch."""
    sample = SampleConversation()
    async with subject.open() as engine:
        received = sample.receive(sample.start(), "1")
        key = received.conversation.id
        claim = engine.begin_claim(key)
        hold(
            claim == engine.current_claim(key) == await engine.claim(key),
            "the engine holds the claim of the conversation",
        )
        for epoch in (claim.epoch - 1, claim.epoch + 1):
            try:
                await engine.commit(claim._replace(epoch=epoch), received)
            except FencedError:
                continue
            raise BrokenPromiseError("a commit under another epoch raises FencedError")
        hold(await engine.load(key) is None, "a fenced commit leaves nothing")
        await engine.commit(claim, received)
    if subject.durable:
        async with subject.open() as engine:
            second = await engine.claim(key)
            hold(second is not None and second.epoch > claim.epoch, "the epoch grows")


async def the_next_owner_knows_what_ended_the_one_before(subject: SharedSubject) -> None:
    """Check that an owner learns which deliveries ran when earlier owners crashed.

    A clean shutdown counts against no delivery. An engine without marks is exempt.
    """
    sample = SampleConversation()
    async with AsyncExitStack() as stack:

        async def start_process(name: str) -> Process:
            return await stack.enter_async_context(Process(subject.open(name)))

        a = await start_process("a")
        if a.engine.marks is None:
            return
        received = sample.receive(a.begin(sample), "1")
        key, poison = received.conversation.id, received.ready[0].id
        await a.commit(received)
        await _marks(a).begin({}, 8)
        await _run(a, key, poison)
        for ends, (before, name) in enumerate(pairwise("abcd")):
            process = await start_process(name)
            await subject.still(before)
            found = await _take_up(process, key, {poison: ends})
            hold(poison in found.running, "the deliveries that ran are known")
            if ends:
                hold(found.running == {poison}, "no other delivery is reported as running")
                hold(found.ends == {poison: ends - 1}, "the count of crashes is passed from owner to owner")
            await _run(process, key, poison)
        await _ends_on_purpose(subject, process, key, poison)


async def _ends_on_purpose(subject: SharedSubject, d: Process, key: str, poison: str) -> None:
    _marks(d).end()
    await d.engine.give_up()
    async with Process(subject.open("e")) as e:
        found = await _take_up(e, key, {})
        hold(not found.running, "a clean shutdown counts against no delivery")
        hold(found.ends == {poison: 2}, "a clean shutdown keeps the count of earlier crashes")


async def _take_up(process: Process, key: str, suspects: dict[str, int]) -> PreviousRun:
    """Have a process take over a conversation, and return the marks of the previous owner."""
    await process.wait_for_ownership(key)
    previous = await _marks(process).previous_run(process.gained[key])
    await _marks(process).begin(suspects, 8)
    return previous


async def _run(process: Process, key: str, delivery: str) -> None:
    """Mark a delivery as running at a process."""
    await _marks(process).wait_until_marked(_marks(process).enter(delivery, key))


def _marks(process: Process) -> Marks:
    marks = process.engine.marks
    assert marks is not None  # checked by the caller
    return marks


CLAIMING: tuple[Callable[[Subject], Awaitable[None]], ...] = (a_claim_that_is_not_held_commits_nothing,)
