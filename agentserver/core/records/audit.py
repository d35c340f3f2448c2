"""Audit records, the kinds of events, and the builder of the records of one step."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict, TypeVar, cast

from agentserver.characters.printing import clean_line, clean_lines
from agentserver.core.records.details import GuardNote, HandoffAttempt, map_texts, read_detail
from agentserver.findings import DeferredFindings

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from agentserver.core.messages import Delivery
    from agentserver.core.records.details import Detail, NotedDetail

AnyDetail = TypeVar("AnyDetail", bound="Detail")

DETAIL = 1000
"""Characters kept of a line by an untrusted author."""

RECORD = 20_000
"""Characters, and lines, kept of a record that a person was shown whole."""

LINES = 100
"""Lines kept of a guard's note."""


class Event(StrEnum):
    """The kinds of records."""

    RECEIVED = "received"  # an outside message was accepted
    REDRIVEN = "redriven"  # an operator queued a dead letter again, on its thread or as a request of its own
    SENT = "sent"  # a listener's message was admitted
    HANDLED = "handled"  # a listener finished with a message
    ASKED = "asked"  # an admitted message waits until a person approves it
    APPROVED = "approved"  # the person did
    DELAYED = "delayed"  # an admitted message waits for its time
    RELEASED = "released"  # its time has come, and it was admitted again
    WITHDRAWN = (
        "withdrawn"  # the person did not, or no person answered in time; its sender gets a SystemError
    )
    FLAGGED = "flagged"  # a guard let a message pass and wants that known
    ATTEMPTED = "attempted"  # a handoff was asked for, with any result
    REFUSED = "refused"  # a message was not admitted; its sender gets a SystemError
    REPAIRED = "repaired"  # deprecated payload text was read with repairs
    FAILED = "failed"  # a handler crashed or was late
    RETRIED = "retried"  # a failed delivery is attempted again
    RESERVED = "reserved"  # a listener is about to do priced work, and its price was charged
    SETTLED = "settled"  # the work is done, and its actual cost was charged instead
    EFFECT = "effect"  # an external effect was claimed, answered, withdrawn, or its outcome is unknown
    DROPPED = "dropped"  # a queued message went with its thread
    DISMISSED = "dismissed"  # an operator discarded a dead letter
    DISCARDED = "discarded"  # a result came after its thread was closed
    ANSWERED = "answered"  # a reply left through the gateway
    ENDED = "ended"  # a request ended without an answer
    CANCELLED = "cancelled"  # a request was ended early
    CLOSED = "closed"  # a thread or the conversation was closed


NAMED = frozenset({Event.RECEIVED, Event.ANSWERED, Event.ENDED, Event.CANCELLED, Event.CLOSED})
"""Events whose ``to`` is a trusted name of a listener or of the principal."""

CALLED = frozenset({Event.HANDLED, Event.FAILED, Event.RETRIED, Event.DISCARDED})
"""Events that follow from an invocation."""

NOTED = frozenset(
    {
        Event.RECEIVED,
        Event.REDRIVEN,
        Event.FLAGGED,
        Event.ATTEMPTED,
        Event.REFUSED,
        Event.ANSWERED,
        Event.ENDED,
        Event.CANCELLED,
        Event.CLOSED,
        Event.APPROVED,
        Event.WITHDRAWN,
        Event.DELAYED,
        Event.RESERVED,
        Event.EFFECT,
    }
)
"""Events whose records hold more than their delivery, or are read without it."""


class _RecordFields(NamedTuple):
    """Fields of a record; see ``AuditRecord``.

    Args:
        at: seconds since the epoch.
        thread: the thread it happened on.
        sender: who wrote the message concerned.
        to: the target, as the sender named it.
        root: local name of its payload element, empty when unknown.
        hop: its place in the causal chain.
        code: the SystemError code of a refusal or failure, else empty.
        detail: why, as a value; for operators only, never sent to a listener. None if not needed.
        delivery: the delivery concerned, else empty.
        message: the envelope of a message that was admitted.
        request: the outside message that led to it, else empty.
        took: seconds since the handler began, for an event that follows from an invocation; else None.
    """

    event: Event
    at: float
    conversation: str
    thread: str
    sender: str = ""
    to: str = ""
    root: str = ""
    hop: int = 0
    code: str = ""
    detail: NotedDetail | None = None
    delivery: str = ""
    message: bytes = b""
    request: str = ""
    took: float | None = None


_DETAIL: Final = _RecordFields._fields.index("detail")


class AuditRecord(_RecordFields):
    """Record of one event of a conversation. Its ``detail`` may be computed when it is read.

    The fields are those of ``_RecordFields``.
    """

    __slots__ = ()

    @property
    def detail(self) -> Detail | None:
        """The reason as a value; None if not needed."""
        noted = self.noted
        return None if noted is None else read_detail(noted)

    @property
    def noted(self) -> NotedDetail | None:
        """The detail, not computed yet if it is deferred."""
        return cast("NotedDetail | None", self[_DETAIL])

    @property
    def began(self) -> float | None:
        """The time at which the handler began, in seconds since the epoch; None if unknown."""
        return None if self.took is None else self.at - self.took


_new = tuple.__new__
"""Makes a wide tuple without the call of Python that its class would make; tests/test_tuples.py counts the fields."""


class NotedFields(TypedDict, total=False):
    """Further fields of a record that is noted: those of AuditRecord."""

    sender: str
    root: str
    hop: int
    code: str
    delivery: str
    message: bytes
    request: str


class _Cleaner(NamedTuple):
    """Cleaner of the texts of a detail.

    Args:
        redact: removes secrets from a text, before it is shortened.
    """

    redact: Callable[[str], str]

    def clean(self, detail: AnyDetail) -> AnyDetail:
        """Clean the texts of a detail."""
        cleaned: AnyDetail = map_texts(detail, self.clean_line, self._clean_lines)
        return cleaned

    def clean_line(self, text: str) -> str:
        """Clean a text as one line."""
        return clean_line(text, DETAIL, self.redact)

    def _clean_lines(self, text: str) -> str:
        return clean_lines(text, RECORD, RECORD, self.redact)


class RecordBuilder:
    """Builder of the records of one step.

    Args:
        conversation: whose they are.
        at: when the step is taken, in seconds since the epoch.
        redact: removes secrets from a text, before it is shortened.
        request: the one that the step is about, empty when it is about none or several.
        took: seconds that the handler took that it is about, if one was called.
    """

    def __init__(
        self,
        conversation: str,
        at: float,
        redact: Callable[[str], str] = str,
        request: str = "",
        took: float | None = None,
    ) -> None:
        self._redact = redact
        self._conversation = conversation
        self._at = at
        self.records: list[AuditRecord] = []
        self._request, self._took = request, took

    def record(
        self, event: Event, delivery: Delivery, *, code: str = "", detail: NotedDetail | None = None
    ) -> None:
        """Record an event of a delivery. Only the event that admitted it holds the envelope."""
        self.records.append(
            _new(
                AuditRecord,
                (
                    event,
                    self._at,
                    self._conversation,
                    delivery.thread,
                    delivery.sender,
                    delivery.to,
                    delivery.root.rpartition("}")[2],  # as ``local`` does
                    delivery.hop,
                    code,
                    None if detail is None else self._legible(detail),
                    delivery.id,
                    delivery.message if event is Event.SENT else b"",
                    delivery.request,
                    self._took if event in CALLED else None,
                ),
            )
        )

    def note(
        self,
        event: Event,
        *,
        thread: str,
        to: str,
        detail: NotedDetail | None = None,
        **fields: Unpack[NotedFields],
    ) -> None:
        """Record any event; without a ``request``, it belongs to that of the step."""
        field = fields.get
        self.records.append(
            _new(
                AuditRecord,
                (
                    event,
                    self._at,
                    self._conversation,
                    thread,
                    field("sender", ""),
                    to if event in NAMED else clean_line(to, DETAIL, self._redact),
                    field("root", ""),
                    field("hop", 0),
                    field("code", ""),
                    None if detail is None else self._legible(detail),
                    field("delivery", ""),
                    field("message", b""),
                    field("request", self._request),
                    None,
                ),
            )
        )

    def _legible(self, detail: NotedDetail) -> NotedDetail:
        """Clean the texts of a detail: notes of guards and records that were shown keep their lines."""
        if isinstance(detail, DeferredFindings):
            cleaner = _Cleaner(self._redact)
            return detail.clean(cleaner.clean, cleaner.clean_line)
        if isinstance(detail, HandoffAttempt):  # lengths, hashes and names that the organism declares
            return detail
        if isinstance(detail, GuardNote):
            return detail._replace(text=clean_lines(detail.text, DETAIL, LINES, self._redact))
        return _Cleaner(self._redact).clean(detail)
