"""The acts that an entry of the log asks of every replica.

Owns the closed vocabulary of it. Refuses to know how an act is written, and what comes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from agentserver.engines.sqlite.rows import Left
    from agentserver.engines.sqlite.steps.step import StepData
    from agentserver.ports.sharing import Arrival, Fate


class Setting(NamedTuple):
    """Set a conversation aside, at a time in seconds since the epoch."""

    conversation: str
    reason: str
    at: float


class Departing(NamedTuple):
    """Let events out of the outbox."""

    left: Left


class Discarding(NamedTuple):
    """Take a dead letter off the list."""

    delivery: str


class Naming(NamedTuple):
    """Give a conversation a name of its principal's own, unless another has it; in seconds since the epoch."""

    name: str
    conversation: str
    at: float


class Forgetting(NamedTuple):
    """Forget the conversations that were closed before a time, in seconds since the epoch."""

    before: float


class Handing(NamedTuple):
    """Keep an arrival for the owner of its conversation, unless it is there already."""

    arrival: Arrival


class Done(NamedTuple):
    """An arrival is done with."""

    arrival: str
    fate: Fate


Act: TypeAlias = "StepData | Setting | Departing | Discarding | Naming | Forgetting | Handing | Done"
