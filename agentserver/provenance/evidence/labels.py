"""Vocabulary of provenance: the labels of text, the roles of arguments, observations and calls."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum, StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOKEN: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def split_name(name: str) -> tuple[str, ...]:
    """Split a name into words: ``sendMail_to.url-2`` is ``send mail to url 2``."""
    return tuple(token.lower() for token in _TOKEN.findall(name))


def covers(entry: str, listener: str) -> bool:
    """Check whether a declared source or sink matches a listener: exactly, by glob, or by its first whole words."""
    parts = split_name(entry)
    prefix = bool(parts) and "*" not in entry and split_name(listener)[: len(parts)] == parts
    return prefix or means(entry, listener)


def means(entry: str, listener: str) -> bool:
    """Check whether a name that loosens a rule matches a listener: exactly or by glob, never by its beginning."""
    return entry == listener or fnmatchcase(listener, entry)


def strip_indices(path: str) -> str:
    """Strip the indices of a path: ``items[3].to[0]`` is ``items.to``."""
    return (re.sub(r"\[\d+\]", "", path) if "[" in path else path).lstrip(".")


def extract_argument_name(path: str) -> str:
    """Extract the argument that a path lies in: ``attachments[0].id`` lies in ``attachments``."""
    return strip_indices(path).partition(".")[0]


Scalar: TypeAlias = str | int | float | Decimal | bool | datetime | date | time | None


class Trust(Enum):
    """Degree of trust in a value's author. Untrusted dominates when values are combined."""

    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"

    def join(self, other: Trust) -> Trust:
        """Return the label of a value that was made from both."""
        return Trust.UNTRUSTED if Trust.UNTRUSTED in (self, other) else Trust.TRUSTED


class Standing(StrEnum):
    """Trust in a field of a source, finer than ``Trust``.

    ``PROSE`` was written by a stranger. ``RECORD`` is the system's own bookkeeping, such as ids, dates and states: it
    may choose the object of a call, never a receiver. ``DIRECTORY`` may also name a receiver. ``OWN`` counts as the
    trusted query.
    """

    PROSE = "prose"
    RECORD = "record"
    DIRECTORY = "directory"
    OWN = "own"

    @property
    def trust(self) -> Trust:
        """Corresponding two-valued label."""
        return Trust.UNTRUSTED if self is Standing.PROSE else Trust.TRUSTED


class Role(StrEnum):
    """Effect of a sink's argument: receiver, object, quantity, time, listed value, content, or nothing."""

    DESTINATION = "destination"
    SELECTOR = "selector"
    QUANTITY = "quantity"
    TIME = "time"
    OPTION = "option"
    PAYLOAD = "payload"
    INERT = "inert"


class Mode(StrEnum):
    """Treatment of a call that violates a rule."""

    AUDIT = "audit"
    CONFIRM = "confirm"
    ENFORCE = "enforce"

    @property
    def on_trial(self) -> Mode:
        """The mode in which a policy of this mode is tried: audit refuses nothing, so that enforce takes its place."""
        return Mode.ENFORCE if self is Mode.AUDIT else self


@dataclass(frozen=True, slots=True)
class Leaf:
    """Scalar of a structured value, with the path of its field, such as ``[3].sender``."""

    path: str
    value: Scalar
    standing: Standing | None = None
    """Trust that a typed payload declares; ``None`` leaves it to the policy."""
    readers: tuple[tuple[str, ...], ...] = ()
    """Readers that the payload's type declares, in groups that must each admit a receiver."""
    id: str = ""
    """Kind of object that it identifies, if the payload's type declares it."""
    inside: str = field(default="", compare=False)
    """Path of the text that contained it as JSON, if only that determines its trust."""
    unread: bool = field(default=False, compare=False)
    """True for a value that cannot be read, such as an iterator: what it holds is unknown."""


@dataclass(frozen=True, slots=True)
class Observation:
    """Output of a listener, before it is passed on.

    ``arguments`` are the arguments of the call, which name the requested document. ``answers`` are the numbers of the
    plan's steps that the call belongs to; ``None`` derives them from the arguments. ``unexposed`` is True only if the
    caller is known to have received nothing untrusted, in this conversation or another. ``carried`` is True if the
    caller may remember text of other conversations.
    """

    source: str
    leaves: tuple[Leaf, ...]
    step: int
    time: float = 0.0
    arguments: tuple[Leaf, ...] = ()
    trace: str = ""
    answers: tuple[int, ...] | None = None
    unexposed: bool = False
    carried: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """Call of a sink that is about to run.

    ``roles`` and ``ids`` hold the roles and the kinds of objects that the payload's type declares, by the path of the
    argument. ``exposed`` is False only if the sender is known to have received nothing untrusted. ``put_in``
    restricts ``exposed`` to these paths when the sender passes on values that it was not shown; empty means all
    paths. ``filled`` holds the paths of arguments with the default of the payload's type. ``options`` holds the values
    that a schema lists for an argument, and ``formats`` the role that it states by a format, both by path.
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
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    formats: tuple[tuple[str, Role], ...] = ()


class Hop(NamedTuple):
    """Listener that passed on a labelled span."""

    listener: str
    path: str
    step: int


class TextOrigin(NamedTuple):
    """Origin of a text: listener, field, step and time. ``via`` names the encoding that was undone.

    ``place`` is the scheme, host and port that the text was fetched from, if the call named exactly one.
    """

    source: str
    path: str
    step: int
    time: float = 0.0
    trace: str = ""
    via: str = ""
    place: str = ""


class Finder(Enum):
    """Origin of the words that selected the sole record of a look-up.

    ``PRINCIPAL``: the request has them, or a record that the principal chose. ``DOCUMENT``: each document that the
    principal named, and no other text. ``AGENT``: the agent's, for what the principal asks; no untrusted text has one
    of them.
    """

    PRINCIPAL = "principal"
    DOCUMENT = "document"
    AGENT = "agent"


class Text(NamedTuple):
    """Text that a ledger keeps.

    ``asked``: the trusted query named its document. ``id``: the kind of object that it identifies. ``after``: for a
    record whose listener may only repeat untrusted text, the number of earlier untrusted texts, else 0. ``formed``:
    only its form makes it a record, because the source does not declare the field. ``chosen``: the principal's words
    chose its record among those that the listener returned, or the listener returned no other one. ``found_by``: whose
    words selected it instead, as the sole answer of a trusted listener.
    """

    origin: TextOrigin
    body: str
    standing: Standing
    asked: bool = False
    after: int = 0
    id: str = ""
    formed: bool = False
    chosen: bool = False
    names: tuple[str, ...] = ()
    found_by: Finder | None = None

    def dump(self) -> dict[str, Any]:
        """Convert it to plain data for JSON."""
        fields = {
            "origin": self.origin._asdict(),
            "body": self.body,
            "standing": self.standing.value,
            "asked": self.asked,
        }
        optional = {"after": self.after, "id": self.id, "formed": self.formed, "chosen": self.chosen}
        optional["names"] = list(self.names)
        optional["found_by"] = "" if self.found_by is None else self.found_by.value
        return {**fields, **{name: value for name, value in optional.items() if value}}

    def date(self, time: float, trace: str) -> Text:
        """Return the text with another time and delivery."""
        source, path, step, _, _, via, place = self.origin
        return Text(TextOrigin(source, path, step, time, trace, via, place), *self[1:])

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Text:
        """Restore it from ``dump``."""
        origin, standing = TextOrigin(**data["origin"]), Standing(data["standing"])
        optional = (
            data.get("after", 0),
            data.get("id", ""),
            data.get("formed", False),
            data.get("chosen", False),
            tuple(data.get("names", ())),
            Finder(data["found_by"]) if "found_by" in data else None,
        )
        return cls(origin, data["body"], standing, data["asked"], *optional)


def step_of(text: Text) -> int:
    """Return the number of the observation that a text is from, by which the texts of a ledger are ordered."""
    return text.origin.step
