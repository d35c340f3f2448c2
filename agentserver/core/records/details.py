"""Details of records: the reason of an event, as a value of one of a few kinds."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from agentserver.findings import Delegation, Exposed, FindingFacts, Findings, RecordText, Trail, TrailHop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class Ground(StrEnum):
    """The grounds on which the server itself decides. wording.py has a sentence for each."""

    APPROVAL = "approval"
    BUSY = "busy"
    BYTES = "bytes"
    GIVEN_UP = "given up"
    GONE = "gone"
    HANDOFF = "handoff"
    HOPS = "hops"
    INVALID = "invalid"
    KILLS = "kills"
    LATE = "late"
    MESSAGES = "messages"
    NO_PAYLOAD = "no payload"
    NO_PEER = "no peer"
    NO_RECEIVER = "no receiver"
    NO_RESPONSE = "no response"
    NO_RESPONSES = "no responses"
    NO_TAKER = "no taker"
    NO_TARGET = "no target"
    PAYLOADS = "payloads"
    QUARANTINED = "quarantined"
    REFUSALS = "refusals"
    RESERVED = "reserved"
    RESULT = "result"
    SPENT = "spent"
    TODOS = "todos"
    UNREADABLE = "unreadable"
    WAITING = "waiting"

    def of(self, *names: object) -> Grounds:
        """The detail, about these."""
        return Grounds(self, tuple(map(str, names)))


class KeptText(NamedTuple):
    """Free text, possibly of several lines."""

    text: str


class GuardNote(NamedTuple):
    """The words of a guard, in one line or several.

    Args:
        guard: its name.
        text: what it says.
        how: ``notes``, ``denies`` the message, has ``failed``, or denies the ``rest`` of the conversation; else empty.
    """

    guard: str
    text: str
    how: str = ""


class Failure(NamedTuple):
    """The words of an exception or of another failure that no handler's result is made of."""

    text: str


class Grounds(NamedTuple):
    """A decision of the server's own.

    Args:
        ground: the kind.
        names: what it is about, in the order of the sentence in wording.py.
    """

    ground: Ground
    names: tuple[str, ...] = ()


class Corrections(NamedTuple):
    """The faults of a payload, each with what to change."""

    faults: tuple[str, ...]


class RepairNote(NamedTuple):
    """A repair without which a deprecated text could not be read."""

    repair: str


class GuardAsks(NamedTuple):
    """The question of one guard.

    Args:
        guard: its name.
        why: why it asks.
    """

    guard: str
    why: Detail


class GuardQuestions(NamedTuple):
    """The questions to a person who has to approve a message; of one that cannot wait, what would be asked.

    Args:
        asked: one for each guard that asks.
        waits: whether it waits for the answer.
    """

    asked: tuple[GuardAsks, ...]
    waits: bool = True


class ApprovalGiven(NamedTuple):
    """The answer of a person.

    Args:
        by: who answered.
        answer: ``once``, ``always`` or ``deny``, or ``undone``: a denial, since the answer could not be carried
            out.
    """

    by: str
    answer: str


class NoAnswer(NamedTuple):
    """No answer: ``nobody`` is there to ask, or it is too ``late`` for one."""

    why: str


class EndDetail(NamedTuple):
    """The end of a conversation or of one request, with the reason of the one who ended it."""

    reason: str


class RedrivenFrom(NamedTuple):
    """A dead letter that became a request.

    Args:
        delivery: its id.
        conversation: the conversation that it is from.
        by: the operator.
    """

    delivery: str
    conversation: str
    by: str


class Charge(NamedTuple):
    """The charge for work of a listener: what it may cost, or what it has cost.

    Args:
        what: a word for the work; empty where the record before it says so.
        tokens: of language models.
        money: in millionths of a US dollar.
    """

    what: str
    tokens: int
    money: int


class Unknown(NamedTuple):
    """A name that was not validated, by length and SHA-256: the name itself may be an attack."""

    len: int
    sha256: str


class OmittedCount(NamedTuple):
    """Names that are counted in, and not told."""

    more: int


class HandoffAttempt(NamedTuple):
    """An attempt to hand work over, by lengths and hashes, in the order of the record of handoffs.

    A length or hash is None where it was not kept.

    Args:
        timestamp: ISO 8601 with zone.
        source: the listener that asked.
        target: the listener that was asked.
        intent: for what.
        result: ``approve`` or ``reject``.
        reason: of a rejection, a token.
        params_keys: names of the values.
        raw_len: characters of what the source said.
        raw_event_len: characters of its free text.
        sanitized_event_len: characters of it that the target was shown.
        raw_sha256: of what the source said.
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
        names = (_name(target), _name(intent), result, reason, tuple(map(_name, keys)))
        return cls(timestamp, source, *names, *sizes)


def _name(plain: Any) -> Any:
    """A name; an object for one that was not validated, and for those that are only counted."""
    if not isinstance(plain, dict):
        return plain
    return OmittedCount(**plain) if "more" in plain else Unknown(**plain)


Detail: TypeAlias = (
    KeptText
    | GuardNote
    | Failure
    | Grounds
    | Corrections
    | RepairNote
    | GuardQuestions
    | ApprovalGiven
    | NoAnswer
    | EndDetail
    | RedrivenFrom
    | Charge
    | Findings
    | HandoffAttempt
)
"""The kinds of details."""

Answering: TypeAlias = ApprovalGiven | NoAnswer

NAMES: Final[Mapping[type, str]] = MappingProxyType(
    {
        KeptText: "text",
        GuardNote: "note",
        Failure: "failure",
        Grounds: "grounds",
        Corrections: "corrections",
        RepairNote: "repaired",
        GuardQuestions: "questions",
        ApprovalGiven: "answered",
        NoAnswer: "unanswered",
        EndDetail: "ended",
        RedrivenFrom: "dead letter",
        Charge: "charge",
        Findings: "findings",
        HandoffAttempt: "handoff",
    }
)
"""The name of each kind, in journals and for programs."""


# Words


def map_texts(detail: Any, each: Callable[[str], str]) -> Any:
    """The detail, or a part of one, with every text in it that anybody may have written as ``each`` gives it back.

    Everything else is the server's own: kinds, numbers, hashes, and names from closed sets.
    """
    words = WORDS[type(detail)]
    return type(detail)(
        *(
            _map_texts(value, each, words=name in words)
            for name, value in zip(detail._fields, detail, strict=True)
        )
    )


def words(detail: Detail | None) -> list[str]:
    """Every text in a detail that anybody may have written."""
    found: list[str] = []

    def each(text: str) -> str:
        found.append(text)
        return text

    if detail is not None:
        map_texts(detail, each)
    return found


def _map_texts(value: Any, each: Callable[[str], str], *, words: bool) -> Any:
    if type(value) is str:
        return each(value) if words else value
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return map_texts(value, each)
        return tuple([_map_texts(one, each, words=words) for one in value])
    return value


WORDS: Final[Mapping[type, frozenset[str]]] = MappingProxyType(
    {
        KeptText: frozenset({"text"}),
        GuardNote: frozenset({"guard", "text"}),
        Failure: frozenset({"text"}),
        Grounds: frozenset({"names"}),
        Corrections: frozenset({"faults"}),
        RepairNote: frozenset({"repair"}),
        GuardQuestions: frozenset[str](),
        GuardAsks: frozenset({"guard"}),
        ApprovalGiven: frozenset({"by"}),
        NoAnswer: frozenset[str](),
        EndDetail: frozenset({"reason"}),
        RedrivenFrom: frozenset({"by"}),
        Charge: frozenset({"what"}),
        Findings: frozenset({"sink"}),
        FindingFacts: frozenset({"argument", "value", "detail"}),
        Exposed: frozenset({"listener", "source", "giver"}),
        Delegation: frozenset({"source", "record"}),
        RecordText: frozenset({"field", "text", "arguments"}),
        Trail: frozenset({"source", "field", "excerpt", "quoted", "via"}),
        TrailHop: frozenset({"listener", "field"}),
        HandoffAttempt: frozenset({"source", "target", "intent", "params_keys"}),
        Unknown: frozenset[str](),
        OmittedCount: frozenset[str](),
    }
)
"""The fields of each kind, and of each part of one, that are words which anybody may have written."""
