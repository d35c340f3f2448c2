"""The last events that a principal gets of a conversation that is set aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.messages import SYSTEM, Done, EventPlace, Reply
from agentserver.core.refusals import system_error
from agentserver.payload.codec import Codecs
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["end_suspended"]

REASON = 500
"""Characters of why a conversation is set aside."""


def end_suspended(
    conversation: str, principal: str, requests: Iterable[str], after: EventPlace
) -> tuple[Reply | Done, ...]:
    """The events that leave for the requests of a conversation that goes on no more.

    Args:
        conversation: its id. Nothing else of it needs to be legible.
        principal: who opened it.
        requests: those that have not come to rest, in order.
        after: the last place that is taken.
    """
    payload = system_error(Code.INTERNAL)
    codec = Codecs().of(type(payload))
    try:
        message = envelope.write(SYSTEM, principal, None, codec.encode(payload))
    except ValueError:  # a principal that no envelope can carry is damaged as well
        return ()
    found: list[Reply | Done] = []
    for request in requests:
        found.append(Reply(conversation, request, SYSTEM, codec.name, message, error=True))
        found.append(Done(conversation, request, answered=True))
    place = after.position + 1
    return tuple(event._replace(place=EventPlace(after.version, place + n)) for n, event in enumerate(found))
