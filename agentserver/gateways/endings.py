"""Submits the only message of a conversation, and ends the conversation once that is done."""

from __future__ import annotations

from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.messages import UNDECIDED, Done, EventPlace
from agentserver.core.receipts import LONGEST
from agentserver.ports import EngineError
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from anyio.abc import TaskGroup

    from agentserver.ports import Ingress, SubmitResult


async def submit_event(
    server: Ingress, principal: str, conversation: str, message: bytes, to: str, key: str
) -> SubmitResult:
    """Submit the message of an event once under its key.

    A refusal because of a full queue is kept under the id of its request. It had no effect, so the next attempt has
    another id, derived from the key. Raises what ``Ingress.submit`` does.
    """
    for attempt in count():
        request = f"{key[: LONGEST - 10]}.{attempt}" if attempt else key
        sent = await server.submit(principal, conversation, message, to, request=request)
        if not sent.again or sent.code is not Code.BUSY:
            break
    return sent


async def end_when_done(
    server: Ingress, principal: str, conversation: str, after: EventPlace = UNDECIDED
) -> None:
    """Wait for the end of the last request of a conversation, and end that. Idle conversations end anyway.

    ``after`` is a place before the events of the request, and after those of refused ones.
    """
    with suppress(LookupError, EngineError):
        async with aclosing(server.watch(principal, conversation, after)) as events:  # type: ignore[type-var]
            ended = await _wait_for_done(events)
        if ended:
            await server.end(principal, conversation, by=principal)


def start_ending(
    tasks: TaskGroup, event: str, server: Ingress, principal: str, conversation: str, after: EventPlace
) -> None:
    """Start to end a conversation when its request is done; ``event`` names it. If that fails, it ends when idle."""
    work = partial(end_when_done, server, principal, conversation, after)
    start_errand(tasks, f"ends {event}", EndEffect.EXPIRY, work, _leave)


async def _leave(_reason: str) -> None:
    """Do nothing: the conversation ends when it is idle."""


async def _wait_for_done(events: AsyncIterator[object]) -> bool:
    """Wait for the end of a request. Returns False if the server stops before."""
    async for event in events:
        if isinstance(event, Done):
            return True
    return False
