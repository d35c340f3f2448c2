"""The values of provenance: where text came from, what it is used for, and what may be done about it.

Owns the vocabulary that every other module of the package speaks. Refuses to know how a match is found or
what a policy allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Scalar: TypeAlias = str | int | float | Decimal | bool | datetime | date | time | None


class Trust(Enum):
    """The author of a value, as a degree of trust. Where two meet, untrusted dominates."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"

    def join(self, other: Trust) -> Trust:
        """The label of a value made from both."""
        return Trust.UNTRUSTED if Trust.UNTRUSTED in (self, other) else Trust.TRUSTED


class Standing(StrEnum):
    """The worth of a source's field: the per-field refinement of ``Trust``.

    ``PROSE`` is a stranger's words. ``RECORD`` is the system's own bookkeeping (ids, dates, states): it may
    choose what is acted on, never who receives. ``DIRECTORY`` may also name a recipient. ``OWN`` is as good
    as the trusted query.
    """

    PROSE = "prose"
    RECORD = "record"
    DIRECTORY = "directory"
    OWN = "own"

    @property
    def trust(self) -> Trust:
        """The two-valued label of the seed."""
        return Trust.UNTRUSTED if self is Standing.PROSE else Trust.TRUSTED


class Role(StrEnum):
    """The effect of a sink's argument: who receives, what is acted on, how much, when, what is said, or nothing."""

    DESTINATION = "destination"
    SELECTOR = "selector"
    QUANTITY = "quantity"
    TIME = "time"
    PAYLOAD = "payload"
    INERT = "inert"


class Mode(StrEnum):
    """The treatment of a call that a rule refuses."""

    AUDIT = "audit"
    CONFIRM = "confirm"
    ENFORCE = "enforce"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One scalar of a structured value, with the path of its field (``[3].sender``)."""

    path: str
    value: Scalar
    standing: Standing | None = None
    """Set by the caller for typed payloads that declare it; ``None`` leaves it to the policy."""
    readers: tuple[tuple[str, ...], ...] = ()
    """The readers that the payload's type declares, in groups of which each must admit a receiver."""
    id: str = ""
    """The kind of thing that it identifies, for a payload whose type declares it."""
    inside: str = field(default="", compare=False)
    """The path of the text in which it was written as JSON, where that alone gives it its standing."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The output of a listener, seen before it is handed on.

    ``arguments`` are those of the call that it answers: they tell which document was asked for. ``answers`` are the
    numbers of the plan's steps whose call it was; ``None`` leaves that to the arguments.
    """

    source: str
    leaves: tuple[Leaf, ...]
    step: int
    time: float = 0.0
    arguments: tuple[Leaf, ...] = ()
    trace: str = ""
    answers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A sink about to run. ``roles`` holds what the payload's type declares, by the path of the argument.

    ``ids`` holds the kinds of things that the type declares arguments to choose, by the same paths.
    ``exposed`` is False only where it is known that the sender was given nothing untrusted. ``put_in`` holds the paths
    of the arguments that it alone is true of, where the sender passes on values that it was not shown; none mean all.
    ``filled`` holds the paths of arguments with the value that the payload's type fills in where none was sent.
    """

    sink: str
    arguments: tuple[Leaf, ...]
    step: int
    time: float = 0.0
    roles: tuple[tuple[str, Role], ...] = ()
    sender: str = ""
    exposed: bool = True
    ids: tuple[tuple[str, str], ...] = ()
    put_in: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Hop:
    """One listener that passed a labelled span on."""

    listener: str
    path: str
    step: int


@dataclass(frozen=True, slots=True)
class TextOrigin:
    """The entry of a text: listener, field, step and time. ``via`` names the encoding that was undone.

    ``place`` is the scheme, host and port that the text was fetched from, where the call named exactly one.
    """

    source: str
    path: str
    step: int
    time: float = 0.0
    trace: str = ""
    via: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A text that a ledger keeps.

    ``asked``: the trusted query named the document that it came from. ``id``: the kind of thing that it identifies.
    ``after`` is the number of untrusted texts that came before a record whose listener may merely pass them on, else 0.
    ``formed``: nothing but its form makes a record of it, in a source of which that field is not declared.
    """

    origin: TextOrigin
    body: str
    standing: Standing
    asked: bool = False
    after: int = 0
    id: str = ""
    formed: bool = False

    def dump(self) -> dict[str, Any]:
        """The text as plain data for JSON."""
        told = {
            "origin": {name: getattr(self.origin, name) for name in TextOrigin.__slots__},
            "body": self.body,
            "standing": self.standing.value,
            "asked": self.asked,
        }
        more = {"after": self.after, "id": self.id, "formed": self.formed}
        return {**told, **{name: value for name, value in more.items() if value}}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Text:
        """The text of which ``dump`` gave this."""
        origin, standing = TextOrigin(**data["origin"]), Standing(data["standing"])
        more = data.get("after", 0), data.get("id", ""), data.get("formed", False)
        return cls(origin, data["body"], standing, data["asked"], *more)
