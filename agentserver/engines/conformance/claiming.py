"""Checks of claims: of an engine that is alone on its storage, and the marks that the next owner is told of.

Owns the promises about who may commit, and what is known of the owner before. Refuses to know any engine.
"""

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
    """An outcome under another epoch is refused whole, and the epoch grows from one opening to the next."""
    sample = SampleConversation()
    async with subject.open() as engine:
        said = sample.receive(sample.start(), "1")
        key = said.conversation.id
        claim = engine.begin_claim(key)
        hold(
            claim == engine.current_claim(key) == await engine.claim(key),
            "the claim of a conversation is held",
        )
        for epoch in (claim.epoch - 1, claim.epoch + 1):
            try:
                await engine.commit(claim._replace(epoch=epoch), said)
            except FencedError:
                continue
            raise BrokenPromiseError("a commit under another epoch raises FencedError")
        hold(await engine.load(key) is None, "a fenced commit leaves nothing")
        await engine.commit(claim, said)
    if subject.durable:
        async with subject.open() as engine:
            later = await engine.claim(key)
            hold(later is not None and later.epoch > claim.epoch, "the epoch grows")


async def the_next_owner_knows_what_ended_the_one_before(subject: SharedSubject) -> None:
    """Owners end while they work on something: the next one is told on what, and of the ends before.

    An end on purpose is no delivery's fault. An engine without marks promises nothing of it.
    """
    sample = SampleConversation()
    async with AsyncExitStack() as stack:

        async def start_process(name: str) -> Process:
            return await stack.enter_async_context(Process(subject.open(name)))

        a = await start_process("a")
        if a.engine.marks is None:
            return
        said = sample.receive(a.begin(sample), "1")
        key, poison = said.conversation.id, said.ready[0].id
        await a.commit(said)
        await _marks(a).begin({}, 8)
        await _run(a, key, poison)
        for ends, (before, name) in enumerate(pairwise("abcd")):
            process = await start_process(name)
            await subject.still(before)
            found = await _take_up(process, key, {poison: ends})
            hold(poison in found.running, "what ran is known")
            if ends:
                hold(found.running == {poison}, "and what ran alone")
                hold(found.ends == {poison: ends - 1}, "from owner to owner")
            await _run(process, key, poison)
        await _ends_on_purpose(subject, process, key, poison)


async def _ends_on_purpose(subject: SharedSubject, d: Process, key: str, poison: str) -> None:
    _marks(d).end()
    await d.engine.give_up()
    async with Process(subject.open("e")) as e:
        found = await _take_up(e, key, {})
        hold(not found.running, "an end on purpose is no delivery's fault")
        hold(found.ends == {poison: 2}, "and what is known of suspects stays known")


async def _take_up(process: Process, key: str, suspects: dict[str, int]) -> PreviousRun:
    """Have a process take up a conversation; gives what it is told of the owner before."""
    await process.wait_for_ownership(key)
    past = await _marks(process).previous_run(process.gained[key])
    await _marks(process).begin(suspects, 8)
    return past


async def _run(process: Process, key: str, delivery: str) -> None:
    """Have a process work on a delivery, as far as the next owner is concerned."""
    await _marks(process).wait_until_marked(_marks(process).enter(delivery, key))


def _marks(process: Process) -> Marks:
    marks = process.engine.marks
    assert marks is not None  # asked before
    return marks


CLAIMING: tuple[Callable[[Subject], Awaitable[None]], ...] = (a_claim_that_is_not_held_commits_nothing,)
