"""Final events of a suspended conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.messages import SYSTEM, Done, EventPlace, Reply
from agentserver.core.refusals import make_system_error
from agentserver.payload.codec import Codecs
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["end_suspended"]

REASON = 500
"""Characters of the reason for a suspension."""


def end_suspended(
    conversation: str, principal: str, requests: Iterable[str], after: EventPlace
) -> tuple[Reply | Done, ...]:
    """Answer and end every open request of a conversation that is being suspended.

    Args:
        conversation: its id; the rest of it may be unreadable.
        principal: who opened it.
        requests: the open ones, in order.
        after: the last place in use.
    """
    payload = make_system_error(Code.INTERNAL)
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
