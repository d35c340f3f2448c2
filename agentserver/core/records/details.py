"""Details of records: the reason of an event, as a value of one of a few kinds."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from agentserver.findings import (
    DeferredFindings,
    Delegation,
    EndorsedRow,
    EndorsementTerms,
    FindingFacts,
    Findings,
    FixedArgument,
    RecordText,
    SenderExposure,
    Trail,
    TrailHop,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Self


class Ground(StrEnum):
    """Grounds for the server's own decisions, each with its phrase; ``{0}`` is the first of the names.

    Its remedy is a row of ``agentserver/remedies/codes.md``.
    """

    phrase: str

    APPROVAL = "approval", "{0} wants to send this to {1}, which needs an approval."
    BUSY = "busy", "{0} abandoned invocations of {1} still run"
    BYTES = "bytes", "a result of more than {0} bytes"
    CONDITION = "condition", "{0} wants to send this to {1}, which needs an approval: {2}."
    DRY = "dry", "a dry fork does not call {0}"
    EFFECT = (
        "effect",
        "the outcome of an external effect is unknown: decide with agentserver effects settle {0}",
    )
    GIVEN_UP = "given up", "given up by an operator: {0}"
    GONE = "gone", "no listener is called {0}"
    HANDOFF = "handoff", "handoff: {0}"
    HOPS = "hops", "more than {0} hops"
    INVALID = "invalid", "{0} does not satisfy its present schema"
    KILLS = "kills", "the process ended each time while it was worked on alone"
    LATE = "late", "no result within {0} s"
    LATER_ANSWER = "later answer", "an answer to the principal, or a message to a service, cannot be delayed"
    FORBIDDEN = "forbidden", "a condition under deny: of {1} forbids this message of {0}: {2}"
    MESSAGES = "messages", "a result of more than {0} messages"
    NO_LISTENER = "no listener", "no listener has that name"
    NO_PAYLOAD = "no payload", "no payload of that name"
    NO_PEER = "no peer", "{0} is no peer of {1}"
    NO_RECEIVER = "no receiver", "it has no such receiver, or a limit is spent"
    NO_RESPONSE = (
        "no response",
        "the handler returned {0}, not a HandlerResponse such as HandlerResponse.respond(PAYLOAD)",
    )
    NO_RESPONSES = "no responses", "the handler returned {0} in its sequence"
    NO_TAKER = "no taker", "nobody takes {0} here"
    NO_TARGET = "no target", "the handler named {0} as its target, not a listener's name"
    PAYLOADS = "payloads", "a text of more than {0} payloads"
    QUARANTINED = "quarantined", "{0} is quarantined, and what {1} can tell is {2}"
    REFUSALS = "refusals", "{0} refusals in a row"
    RESERVED = "reserved", "{0} is the system's own"
    RESULT = "result", "a result of {0} messages where {1} are left"
    SPENT = "spent", "no messages are left"
    SUM = "sum", "{0} wants to send this to {1}, which needs an approval if {2}."
    TIMERS = "timers", "more than {0} messages would wait for their time"
    TODOS = "todos", "a thread keeps at most {0} todos: close some first"
    UNREADABLE = "unreadable", "its payload can no longer be read"
    WAITING = "waiting", "more than {0} messages would wait for an approval"

    def __new__(cls, value: str, phrase: str) -> Self:
        """Make the member that is stored and compared as its value alone."""
        made = str.__new__(cls, value)
        made._value_, made.phrase = value, phrase
        return made

    def of(self, *names: object) -> Grounds:
        """Make the detail about these names."""
        return Grounds(self, tuple(map(str, names)))


class FreeText(NamedTuple):
    """Free text, possibly of several lines."""

    text: str


class GuardNote(NamedTuple):
    """Note of a guard, in one line or several.

    Args:
        guard: its name.
        text: the note.
        effect: ``notes``, ``denies`` the message, has ``failed``, or denies the ``rest`` of the conversation; else
            empty.
    """

    guard: str
    text: str
    effect: str = ""


class Failure(NamedTuple):
    """Text of an exception or of another failure outside a handler's result."""

    text: str


class Grounds(NamedTuple):
    """Decision of the server itself.

    Args:
        ground: the kind.
        names: the names in its phrase, in order.
    """

    ground: Ground
    names: tuple[str, ...] = ()


class Corrections(NamedTuple):
    """Faults of a payload, each with its correction."""

    faults: tuple[str, ...]


class RepairNote(NamedTuple):
    """Repair that made a deprecated text readable."""

    repair: str


class GuardAsks(NamedTuple):
    """Question of one guard.

    Args:
        guard: its name.
        reason: why it asks.
    """

    guard: str
    reason: Detail


class GuardQuestions(NamedTuple):
    """Questions to a person who has to approve a message.

    Args:
        questions: one for each guard that asks.
        waits: whether the message waits for the answer; if it cannot wait, these would have been asked.
    """

    questions: tuple[GuardAsks, ...]
    waits: bool = True


class ApprovalGiven(NamedTuple):
    """Answer of a person.

    Args:
        by: who answered.
        answer: ``once``, ``always`` or ``deny``, or ``undone``: a denial, since the answer could not be carried
            out.
    """

    by: str
    answer: str


class NoAnswer(NamedTuple):
    """Absence of an answer: no person to ask (``nobody``), or none in time (``late``)."""

    reason: str


class Delay(NamedTuple):
    """Time until which a message waits, in whole seconds since the epoch."""

    due_at: int


class EndDetail(NamedTuple):
    """Reason for ending a conversation or a request."""

    reason: str


class RedrivenFrom(NamedTuple):
    """Origin of a request in a dead letter.

    Args:
        delivery: its id.
        conversation: the conversation that it is from.
        by: the operator.
    """

    delivery: str
    conversation: str
    by: str


class Charge(NamedTuple):
    """Charge for a listener's work: its greatest or its actual cost.

    Args:
        work: a word for the work; empty if an earlier record has it.
        tokens: of language models.
        money: in millionths of a US dollar.
    """

    work: str
    tokens: int
    money: int


class EffectChange(NamedTuple):
    """Change of an external effect in the ledger.

    Args:
        id: of the effect.
        key: as the listener named it.
        state: ``claimed``, ``done``, ``unknown``, ``not done`` for a withdrawn claim.
        label: provenance of the answer: ``untrusted`` or ``trusted``; empty without one.
        by: the operator who decided; empty if no operator did.
    """

    id: str
    key: str
    state: str
    label: str = ""
    by: str = ""


class Unknown(NamedTuple):
    """Name that was not validated, by length and SHA-256: the name itself may be an attack."""

    len: int
    sha256: str


class OmittedCount(NamedTuple):
    """Number of further names that are left out."""

    more: int


class HandoffAttempt(NamedTuple):
    """Attempted handoff, by lengths and hashes, in the order of the record of handoffs.

    A length or hash that was not kept is None.

    Args:
        timestamp: ISO 8601 with zone.
        source: the listener that asked.
        target: the listener that was asked.
        intent: the requested one.
        result: ``approve`` or ``reject``.
        reason: of a rejection, a token.
        params_keys: names of the values.
        raw_len: characters of the source's payload.
        raw_event_len: characters of its free text.
        sanitized_event_len: characters of the free text as shown to the target.
        raw_sha256: of the source's payload.
        event_sha256: of its free text.
        note_len: characters of the note.
        note_sha256: of the note.
    """

    timestamp: str
    source: str
    target: str | Unknown | None
    intent: str | Unknown | None
    result: str
    reason: str | None
    params_keys: tuple[str | Unknown | OmittedCount, ...]
    raw_len: int | None
    raw_event_len: int | None
    sanitized_event_len: int | None
    raw_sha256: str | None
    event_sha256: str | None
    note_len: int | None
    note_sha256: str | None

    @classmethod
    def of(cls, members: Iterable[Any]) -> HandoffAttempt:
        """Make an attempt of the values of the record of handoffs, in its order. Raises ValueError, TypeError."""
        timestamp, source, target, intent, result, reason, keys, *sizes = members
        names = (_read_name(target), _read_name(intent), result, reason, tuple(map(_read_name, keys)))
        return cls(timestamp, source, *names, *sizes)


def _read_name(plain: Any) -> Any:
    """Read a name, or the object for an unvalidated name or a count."""
    if not isinstance(plain, dict):
        return plain
    return OmittedCount(**plain) if "more" in plain else Unknown(**plain)


Detail: TypeAlias = (
    FreeText
    | GuardNote
    | Failure
    | Grounds
    | Corrections
    | RepairNote
    | GuardQuestions
    | ApprovalGiven
    | NoAnswer
    | Delay
    | EndDetail
    | RedrivenFrom
    | Charge
    | EffectChange
    | Findings
    | HandoffAttempt
)
"""The kinds of details."""

NotedDetail: TypeAlias = Detail | DeferredFindings
"""Detail, or one that is computed when somebody reads it."""


def read_detail(noted: NotedDetail) -> Detail:
    """Return a detail, computed if it was deferred."""
    return noted.value if isinstance(noted, DeferredFindings) else noted


Answering: TypeAlias = ApprovalGiven | NoAnswer

NAMES: Final[Mapping[type, str]] = MappingProxyType(
    {
        FreeText: "text",
        GuardNote: "note",
        Failure: "failure",
        Grounds: "grounds",
        Corrections: "corrections",
        RepairNote: "repaired",
        GuardQuestions: "questions",
        ApprovalGiven: "answered",
        NoAnswer: "unanswered",
        Delay: "delay",
        EndDetail: "ended",
        RedrivenFrom: "dead letter",
        Charge: "charge",
        EffectChange: "effect",
        Findings: "findings",
        HandoffAttempt: "handoff",
    }
)
"""The name of each kind, in journals and for programs."""


# Words


def map_texts(detail: Any, each: Callable[[str], str], shown: Callable[[str], str] | None = None) -> Any:
    """Apply ``each`` to every text by an untrusted author in a detail or a part of one.

    ``shown`` is applied in its place to the texts of a record that a person was shown whole. The rest is the server's
    own: kinds, numbers, hashes, and names from closed sets.
    """
    words = WORDS[type(detail)]
    mapped = shown if shown is not None and type(detail) is RecordText else each
    return type(detail)(
        *[
            _map_texts(value, mapped, shown, words=name in words) if value else value
            for name, value in zip(detail._fields, detail, strict=True)
        ]
    )


def list_words(detail: Detail | None) -> list[str]:
    """List the texts by untrusted authors in a detail."""
    found: list[str] = []

    def collect(text: str) -> str:
        found.append(text)
        return text

    if detail is not None:
        map_texts(detail, collect)
    return found


def _map_texts(
    value: Any, each: Callable[[str], str], shown: Callable[[str], str] | None, *, words: bool
) -> Any:
    if type(value) is str:
        return each(value) if words else value
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return map_texts(value, each, shown)
        return tuple([_map_texts(one, each, shown, words=words) for one in value])
    return value


WORDS: Final[Mapping[type, frozenset[str]]] = MappingProxyType(
    {
        FreeText: frozenset({"text"}),
        GuardNote: frozenset({"guard", "text"}),
        Failure: frozenset({"text"}),
        Grounds: frozenset({"names"}),
        Corrections: frozenset({"faults"}),
        RepairNote: frozenset({"repair"}),
        GuardQuestions: frozenset[str](),
        GuardAsks: frozenset({"guard"}),
        ApprovalGiven: frozenset({"by"}),
        NoAnswer: frozenset[str](),
        Delay: frozenset[str](),
        EndDetail: frozenset({"reason"}),
        RedrivenFrom: frozenset({"by"}),
        Charge: frozenset({"work"}),
        EffectChange: frozenset({"key", "by"}),
        Findings: frozenset({"sink"}),
        FindingFacts: frozenset({"argument", "value", "detail"}),
        SenderExposure: frozenset({"listener", "source", "giver"}),
        Delegation: frozenset({"source", "record"}),
        EndorsementTerms: frozenset({"source", "arguments", "fields"}),
        EndorsedRow: frozenset({"values"}),
        FixedArgument: frozenset({"argument", "value"}),
        RecordText: frozenset({"field", "text", "arguments"}),
        Trail: frozenset({"source", "field", "excerpt", "quoted", "via"}),
        TrailHop: frozenset({"listener", "field"}),
        HandoffAttempt: frozenset({"source", "target", "intent", "params_keys"}),
        Unknown: frozenset[str](),
        OmittedCount: frozenset[str](),
    }
)
"""The fields of each kind and part that hold text by untrusted authors."""
