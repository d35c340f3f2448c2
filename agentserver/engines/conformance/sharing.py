"""Checks of shares: of an engine that is alone on its storage, and of a share that goes from one owner to the next.

Owns the promises about who may commit, and what the next owner is told of the one before. Refuses to know any engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.engines.conformance.process import Process
from agentserver.engines.conformance.sample import BrokenPromiseError, SampleConversation, Subject, held, hold
from agentserver.ports import FencedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentserver.engines.conformance.process import SharedSubject
    from agentserver.ports import Marks, Past


async def a_share_that_is_not_held_commits_nothing(subject: Subject) -> None:
    """An outcome under another epoch is refused whole, and the epoch grows from one opening to the next."""
    sample = SampleConversation()
    async with subject.open() as engine:
        said = sample.said(sample.opened(), "1")
        share = engine.share_of(said.conversation.id)
        hold(share in await held(engine), "the share of a conversation is among those that are held")
        assert share is not None  # as it is held
        for epoch in (share.epoch - 1, share.epoch + 1):
            try:
                await engine.commit(share._replace(epoch=epoch), said)
            except FencedError:
                continue
            raise BrokenPromiseError("a commit under another epoch raises FencedError")
        hold(await engine.load(said.conversation.id) is None, "a fenced commit leaves nothing")
        await engine.commit(share, said)
    if subject.durable:
        async with subject.open() as engine:
            later = engine.share_of(said.conversation.id)
            hold(later is not None and later.epoch > share.epoch, "the epoch grows")


async def the_next_owner_knows_what_ended_the_one_before(subject: SharedSubject) -> None:
    """Owners are gone while they work on something: the next one is told on what, and of the ends before.

    An end on purpose is no delivery's fault. An engine without marks promises nothing of it.
    """
    sample = SampleConversation()
    async with Process(subject.open("a")) as a:
        if a.engine.marks is None:
            return
        await a.begun()
        said = sample.said(a.begin(sample), "1")
        key, poison = said.conversation.id, said.ready[0].id
        await a.commit(said)
        found = await _taken(a, key, {})
        hold(not found.running and not found.ends, "nothing is known of an owner that never was")
        await _run(a, key, poison, "beside")
        async with Process(subject.open("b")) as b, Process(subject.open("c")) as c:
            await subject.still("a")
            await b.until(lambda: any(who.engine.share_of(key) in who.held for who in (b, c)))
            (one, name), (other, last) = ((b, "b"), (c, "c"))
            if one.engine.share_of(key) is None:
                (one, name), (other, last) = ((c, "c"), (b, "b"))
            found = await _taken(one, key, {poison: 0})
            hold(found.running == {poison, "beside"}, "all that ran is known")
            await _run(one, key, poison)
            await subject.still(name)
            await other.owning(key)
            found = await _taken(other, key, {poison: 1})
            hold(found.running == {poison} and found.ends == {poison: 0}, "and what ran alone")
            await _run(other, key, poison)
            async with Process(subject.open("d")) as d:
                await subject.still(last)
                await d.owning(key)
                found = await _taken(d, key, {poison: 2})
                hold(found.running == {poison} and found.ends == {poison: 1}, "from owner to owner")
                await _run(d, key, poison)
                await _ends_on_purpose(subject, d, key, poison)


async def _ends_on_purpose(subject: SharedSubject, d: Process, key: str, poison: str) -> None:
    _marks(d).end()
    await d.engine.give_up()
    async with Process(subject.open("e")) as e:
        await e.owning(key)
        found = await _taken(e, key, {})
        hold(not found.running, "an end on purpose is no delivery's fault")
        hold(found.ends == {poison: 2}, "and what is known of suspects stays known")


async def _taken(process: Process, key: str, suspects: dict[str, int]) -> Past:
    """Have a process take up the share of a conversation; gives what it is told."""
    share = process.engine.share_of(key)
    assert share is not None  # it owns the conversation
    past = await _marks(process).past(share)
    await _marks(process).begin(share, suspects, 8)
    return past


async def _run(process: Process, key: str, *deliveries: str) -> None:
    """Have a process work on deliveries, as far as the next owner is concerned."""
    for slot in [_marks(process).enter(delivery, key) for delivery in deliveries]:
        await _marks(process).kept(slot)


def _marks(process: Process) -> Marks:
    marks = process.engine.marks
    assert marks is not None  # asked before
    return marks


SHARING: tuple[Callable[[Subject], Awaitable[None]], ...] = (a_share_that_is_not_held_commits_nothing,)
