"""The values that operators read of what an engine has kept.

Owns their shape, and which delivery is a dead letter. Refuses to know where they are kept: ``EngineReader`` in ports.py
gives them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.encoding import record_rows, recording
from agentserver.core.messages import Reply
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.encoding.recording import Origin
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Done, Moment
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.outcome import Cause, Outcome

__all__ = ["Aside", "DeadLetter", "RecordedConversation", "RecordedStep", "Summary", "UnrecordedError"]


class UnrecordedError(LookupError):
    """The engine keeps no steps, so what happened in a conversation is not known."""


class Summary(NamedTuple):
    """A conversation at a glance. Times are seconds since the epoch; ``closed`` is None while it is open.

    Args:
        opened: the time of its first step.
        touched: the time of its last step.
        steps: those that were committed.
        waiting: deliveries that are queued, held or running.
        unread: replies and ends of requests that no gateway has acknowledged.
        tokens: of language models that were charged in it.
        money: that was charged in it, in millionths of a US dollar.
    """

    id: str
    principal: str
    opened: float
    touched: float
    closed: float | None
    steps: int
    waiting: int
    unread: int
    tokens: int = 0
    money: int = 0


class RecordedStep(NamedTuple):
    """One recorded step.

    Args:
        version: of the conversation after it.
        cause: as it was recorded (see ``core/encoding/recording.py``).
        added: the deliveries it made.
        events: what it let go through the gateway.
        chain: its link; empty where steps are not sealed.
        form: of the link.
        rows: which rows it made, and their digests; see ``engines/sqlite/proof/seal.py``.
    """

    version: int
    moment: Moment
    cause: bytes
    records: bytes
    added: tuple[Delivery, ...]
    events: tuple[Reply | Done, ...]
    chain: bytes = b""
    form: int = 1
    rows: tuple[bytes, ...] = ()

    def gone_out(self) -> list[bytes]:
        """The messages that went out with it, as ``recording.gone_out`` orders them."""
        return [one.message for one in self.added] + [e.message for e in self.events if isinstance(e, Reply)]


@dataclass(frozen=True, slots=True)
class RecordedConversation:
    """Everything that is recorded of one conversation."""

    beginning: Origin
    steps: tuple[RecordedStep, ...]
    deliveries: Mapping[str, Delivery]

    def records(self) -> tuple[AuditRecord, ...]:
        """The records, in order."""
        return tuple(record for step in self.steps for record in self.records_of(step))

    def records_of(self, step: RecordedStep) -> tuple[AuditRecord, ...]:
        """The records of one step."""
        replies = [event for event in step.events if isinstance(event, Reply)]
        return record_rows.load_records(
            step.records, self.beginning.id, step.moment.now, self.deliveries, replies
        )

    def cause(self, step: RecordedStep, rules: Rules) -> Cause:
        """The cause of a step, read under these rules. Raises UnreadableError."""
        return recording.load(step.cause, self.deliveries, step.gone_out(), rules)


class DeadLetter(NamedTuple):
    """A delivery that its listener could not deal with.

    Args:
        reason: the SystemError code and what is recorded beside it.
        at: when it was given up, in seconds since the epoch.
        open: True while its conversation is.
    """

    delivery: Delivery
    principal: str
    reason: str
    at: float
    open: bool


class Aside(NamedTuple):
    """A conversation that is set aside.

    Args:
        at: since when, in seconds since the epoch.
        reason: why, in one line.
        waiting: deliveries that are queued or held in it.
    """

    id: str
    principal: str
    at: float
    reason: str
    waiting: int


def given_up(outcome: Outcome) -> str | None:
    """The reason why the delivery that a step consumed is a dead letter; None when it is none."""
    for record in outcome.records:
        if record.event is Event.FAILED and record.delivery == outcome.done:
            return f"{record.code}: {WORDING.whole(record.detail)}"
    return None
