"""Arrivals and fates as the inbox keeps them.

Owns their form. Refuses to know where they wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.encoding.codecs import derive_kept
from agentserver.core.messages import Cancelling, Closing, Outside, Requeued
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.ports import Arrival, Fate

if TYPE_CHECKING:
    from agentserver.codec import ValueCodec
    from agentserver.ports.claims import Arriving


class KeptArrival(NamedTuple):
    """An arrival without the conversation and the key, which are columns of its row."""

    principal: str | None
    content: Arriving


_ARRIVALS: Final[ValueCodec[KeptArrival]] = derive_kept(
    KeptArrival,
    {"Arriving": Outside | Cancelling | Closing | ApprovalAnswer | Requeued, "Requeued": Requeued},
)
_FATES: Final[ValueCodec[Fate]] = derive_kept(Fate)


def dump(arrival: Arrival) -> bytes:
    """Write an arrival. Raises TypeError for one that has no form."""
    return _ARRIVALS.dump(KeptArrival(arrival.principal, arrival.content))


def load(key: str, conversation: str, data: bytes) -> Arrival:
    """Read an arrival. Raises ValueError."""
    return Arrival(key, conversation, *_ARRIVALS.load(data))


def dump_fate(fate: Fate) -> str:
    """Write a fate."""
    return _FATES.dump(fate).decode()


def load_fate(text: str) -> Fate:
    """Read a fate. Raises ValueError."""
    return _FATES.load(text)
