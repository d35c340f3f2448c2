"""Checks of shares, for an engine that is alone on its storage.

Owns the promises about who may commit. Refuses to know any engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.engines.conformance.sample import BrokenPromiseError, SampleConversation, Subject, held, hold
from agentserver.ports import FencedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


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


SHARING: tuple[Callable[[Subject], Awaitable[None]], ...] = (a_share_that_is_not_held_commits_nothing,)
