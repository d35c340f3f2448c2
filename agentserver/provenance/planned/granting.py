"""True when a value is one that a step of a plan allows, by the lineage of leaves and never by their text alone.

Owns the one question of a plan: is this value of this kind, given what was said and recorded? Refuses to know roles,
policies and modes. To allow compares typed values, parsed places and names; the case of letters counts for nothing in a
mailbox and in a name without digits, as wherever the principal's own words are met.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol
from unicodedata import normalize

from agentserver.provenance.evidence.authority import mention
from agentserver.provenance.evidence.destinations import PlaceForm, destination, handle, recipients, unmarked
from agentserver.provenance.evidence.leaves import text_of, typed, typed_in
from agentserver.provenance.planned.arguments import (
    DEPTH,
    AllowedStep,
    Anything,
    Exactly,
    FieldOf,
    InTrustedWords,
    Kind,
    OneOf,
    Shifted,
)
from agentserver.provenance.planned.moments import earlier, moment, simultaneous
from agentserver.provenance.planned.records import RecordIndex, bare, called, canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.provenance.evidence.labels import Leaf, Scalar
    from agentserver.provenance.planned.arguments import Condition
    from agentserver.provenance.planned.moments import Moment
    from agentserver.provenance.planned.records import RecordedLeaf
    from agentserver.provenance.request.trusted_words import TrustedWords

FEW: Final = 16
"""Literals of a set that are compared with a value one by one; of more, those with its key alone."""

LOOKS: Final = 4096
"""Leaves that one question looks at, nested ones included; then the answer is no."""


class SaidAndRecorded(Protocol):
    """The parts of a ledger on which a plan rests."""

    @property
    def asked(self) -> TrustedWords:
        """The principal's words."""
        ...

    @property
    def recorded(self) -> RecordIndex:
        """The leaves of what listeners said."""
        ...


@dataclass(frozen=True, slots=True)
class PlanGrounds:
    """All that a plan's answer rests on: the principal's words, the recorded leaves, and the steps themselves."""

    asked: TrustedWords
    records: RecordIndex
    steps: tuple[AllowedStep, ...] = ()

    def granted(self, kind: Kind, value: Scalar) -> Kind | None:
        """The kind, or the one of a set, that a value is of; None for a value that is of none."""
        return _Question(self).granted(kind, value, 0)

    def granted_each(self, kind: Kind, value: Scalar) -> Kind | None:
        """The same for an argument that may be a list in one text: then each of its places has to be of the kind.

        The name that is shown before an address counts for nothing: the judge counts it among what is said.
        """
        found = self.granted(kind, value)
        places = recipients(text_of(value)) if found is None and isinstance(value, str) else ()
        if not places or places[0].written == text_of(value).strip():
            return found
        each = [self.granted(kind, place.written) for place in places]
        return (each[0] if len(each) == 1 else kind) if None not in each else None

    def answered(self, source: str, arguments: Iterable[Leaf]) -> tuple[int, ...]:
        """The numbers, from 1, of the steps that a call fits as far as they name arguments."""
        given = [leaf for leaf in arguments if text_of(leaf.value).strip()]
        return tuple(
            number
            for number, step in enumerate(self.steps, 1)
            if step.sink == source and all(self.fits(step, leaf) for leaf in given)
        )

    def fits(self, step: AllowedStep, leaf: Leaf) -> bool:
        """True when an argument is one that a step names and of its kind, or one that it does not name."""
        kind = named(step, leaf.path)
        return kind is None or self.granted_each(kind, leaf.value) is not None


def named(step: AllowedStep, path: str) -> Kind | None:
    """The kind that a step gives an argument: by its path without indices, or by the argument that it lies in."""
    own = bare(path)
    while own:
        kind = step.kind(own)
        if kind is not None:
            return kind
        own = own.rpartition(".")[0]
    return None


@dataclass(slots=True)
class _Question:
    """One question with the leaves that it may still look at."""

    grounds: PlanGrounds
    left: int = LOOKS

    def granted(self, kind: Kind, value: Scalar, depth: int, *, loose: bool = False) -> Kind | None:
        """``loose``: the value is a condition's, so that the case of letters does not count."""
        if depth > DEPTH:
            return None
        match kind:
            case OneOf():
                every = (
                    self.granted(inner, value, depth + 1, loose=loose) for inner in _possible(kind, value)
                )
                return next((found for found in every if found is not None), None)
            case Exactly(text):
                holds = same(value, text) or (loose and _folded(text_of(value)) == _folded(text))
            case InTrustedWords():
                holds = self.said(value)
            case Shifted():
                holds = self.shifted(kind, value, depth)
            case FieldOf():
                holds = any(self.of(kind, leaf, depth) for leaf in self.candidates(kind, value, loose=loose))
            case Anything():
                holds = True
        return kind if holds else None

    def said(self, value: Scalar) -> bool:
        asked, body = self.grounds.asked, text_of(value).strip()
        at = moment(value)
        if at is not None:
            return _told(asked, at)
        kind = typed(value)
        if kind is not None:
            return kind in asked.kinds
        place = destination(body)
        if place.form is not PlaceForm.NONE:
            return asked.names(place)
        return bool(body) and asked.mentions(body, any_case=True)

    def shifted(self, kind: Shifted, value: Scalar, depth: int) -> bool:
        at = moment(value)
        before = None if at is None else earlier(at, kind.by)
        return before is not None and self.granted(kind.base, before, depth + 1) is not None

    # Leaves of records

    def candidates(self, kind: FieldOf, value: Scalar, *, loose: bool) -> Iterator[RecordedLeaf]:
        """The leaves at the field that hold the value, found by the value or, where that is common, by a condition."""
        body, records = text_of(value), self.grounds.records
        by_value = records.at(kind.path) if kind.within else records.holding(kind.path, body)
        found = self.by_condition(kind) if by_value is None else iter(by_value)
        for leaf in islice(found, max(0, self.left)):
            self.left -= 1
            if kind.within:
                holds = _stands_in(value, leaf.body)
            else:
                holds = same(value, leaf.body) or (loose and _folded(body) == _folded(leaf.body))
            if holds:
                yield leaf

    def by_condition(self, kind: FieldOf) -> Iterator[RecordedLeaf]:
        """The leaves at the field in the records that a literal condition chooses."""
        records = self.grounds.records
        for condition in kind.where:
            texts = _literals(condition.kind) if not condition.within else ()
            found = [records.holding(condition.path, text) for text in texts]
            if found and None not in found:
                chosen = (leaf for each in found for leaf in each or ())
                return (one for leaf in chosen for one in records.beside(leaf, condition.path, kind.path))
        return iter(())

    def of(self, kind: FieldOf, leaf: RecordedLeaf, depth: int) -> bool:
        """True when a leaf is of the named source, no mere echo, and its record says what the conditions ask for."""
        saying = self.grounds.records.saying(leaf)
        if kind.step and kind.step not in saying.answers:
            return False
        if kind.source and kind.source != saying.source:
            return False
        if leaf.echo and not self.vouched(kind, leaf, depth):
            return False
        return all(self.meets(kind, leaf, condition, depth) for condition in kind.where)

    def vouched(self, kind: FieldOf, leaf: RecordedLeaf, depth: int) -> bool:
        """True when what an answer repeats was an argument that the plan had fixed: it has no other origin."""
        if not 0 < kind.step <= len(self.grounds.steps):
            return False
        fixed = (inner for _, inner in self.grounds.steps[kind.step - 1].arguments)
        return any(
            not isinstance(inner, Anything) and self.granted(inner, leaf.body, depth + 1) for inner in fixed
        )

    def meets(self, kind: FieldOf, leaf: RecordedLeaf, condition: Condition, depth: int) -> bool:
        for other in self.grounds.records.beside(leaf, kind.path, condition.path):
            self.left -= 1
            if self.left < 0:
                return False
            if condition.within:
                if any(_holds(other.body, text) for text in _literals(condition.kind)):
                    return True
            elif self.granted(condition.kind, other.body, depth + 1, loose=True) is not None:
                return True
        return False


def _possible(kinds: OneOf, value: Scalar) -> tuple[Kind, ...]:
    """The kinds of a set that a value can be of: all of few; of many, the literals with its key and the rest."""
    if len(kinds.kinds) <= FEW:
        return kinds.kinds
    if not kinds.by_key:
        found: dict[str, list[Kind]] = {"": [kind for kind in kinds.kinds if not isinstance(kind, Exactly)]}
        for kind in kinds.kinds:
            if isinstance(kind, Exactly):
                found.setdefault(_key(kind.text), []).append(kind)
        kinds.by_key.update((key, tuple(each)) for key, each in found.items())
    return (*kinds.by_key.get(_key(value), ()), *kinds.by_key[""])


def _key(value: Scalar) -> str:
    """A key that all spellings of one value share, and every moment of its own."""
    at = moment(value)
    if at is None or isinstance(at, time):
        return f"v {canonical(text_of(value))}"
    when = at if isinstance(at, datetime) else datetime.combine(at, time())
    return f"at {when.timestamp() if when.tzinfo else when.isoformat()}"


def same(value: Scalar, text: str) -> bool:
    """True when a scalar is the value that a text spells: as written, as a number, a moment, a place or a name."""
    if isinstance(value, bool):
        return str(value).lower() == text.strip().lower()
    body = text_of(value)
    if body == text or called(body) == called(text):
        return True
    one, other = moment(value), moment(text)
    if one is not None or other is not None:
        return one is not None and other is not None and simultaneous(one, other)
    kind = typed(value)
    if kind is not None:
        return kind == typed(text)
    place = destination(body)
    return place.external and not {*place.alike}.isdisjoint(destination(text).alike)


def _told(asked: TrustedWords, at: Moment) -> bool:
    """True when the words name a date, and the time of day, if there is one, as people write it."""
    if isinstance(at, time):
        return any(asked.mentions(form, any_case=True) for form in _clocks(at))
    kind = typed(at) or ""
    if asked.kinds.isdisjoint({kind, f"day {kind[-5:]}"}):
        return False
    clock = at.time() if isinstance(at, datetime) else time()
    return clock == time() or _told(asked, clock)


def _clocks(clock: time) -> tuple[str, ...]:
    """The usual spellings of a time of day: ``9:05``, ``09:05``, ``9:05am``, ``9 am``."""
    hour, minute, half = clock.hour, f"{clock.minute:02}", "pm" if clock.hour > 11 else "am"  # noqa: PLR2004
    short = hour % 12 or 12
    full = [f"{hour}:{minute}", f"{hour:02}:{minute}", f"{short}:{minute}{half}", f"{short}:{minute} {half}"]
    return (*full, f"{short}{half}", f"{short} {half}") if not clock.minute else tuple(full)


def _literals(kind: Kind) -> tuple[str, ...]:
    """The texts of a literal or a set of literals; none of any other kind."""
    if isinstance(kind, Exactly):
        return (kind.text,)
    if isinstance(kind, OneOf) and all(isinstance(inner, Exactly) for inner in kind.kinds):
        return tuple(inner.text for inner in kind.kinds if isinstance(inner, Exactly))
    return ()


def _stands_in(value: Scalar, text: str) -> bool:
    """True when a text has a value as a whole token, or in another spelling of the same place, name or moment.

    A number is looked for in any spelling where it is no text, which may be an id.
    """
    body, kind = text_of(value).strip(), None if isinstance(value, str) else typed(value)
    if not body:
        return False
    if any(mention(form, any_case=loose).search(text) for form, loose in _spellings(body)):
        return True
    at = moment(value)
    if isinstance(at, date):
        return _dated_in(at, text)
    return kind is not None and kind in typed_in(text)


def _spellings(body: str) -> Iterator[tuple[str, bool]]:
    """The ways in which a text may write a value, and whether the case of letters counts for nothing there."""
    yield body, False
    text = normalize("NFC", body)
    place = destination(text)
    if not place.external:
        name = unmarked(text)
        yield name, handle(name) == name.lower()
        return
    yield place.key, place.form is PlaceForm.ADDRESS and place.key.isascii()
    if place.form is PlaceForm.LINK:
        # A page is written with its scheme and without.
        yield place.key.removeprefix("https://"), False
        yield text.removeprefix("https://"), False


def _dated_in(at: date, text: str) -> bool:
    """True when a text names a date, with its year or without, and the time of day, if there is one."""
    kind = typed(at) or ""
    if {kind, f"day {kind[-5:]}"}.isdisjoint(typed_in(text)):
        return False
    clock = at.time() if isinstance(at, datetime) else time()
    return clock == time() or any(mention(form, any_case=True).search(text) for form in _clocks(clock))


def _holds(body: str, text: str) -> bool:
    """True when a text has words beside each other.

    Hyphens and dots part words, as in the name of a file, but in no address or link, nor where they are asked for.
    """
    words = text.split()
    if not words:
        return False
    if not all(map(str.isalnum, words)) or "@" in body or "/" in body:
        return mention(text.strip(), any_case=True).search(body) is not None
    beside = r"\s+".join(words)
    return re.search(rf"(?<!\w){beside}(?!\w)", body, re.IGNORECASE) is not None


def _folded(text: str) -> str:
    """Words in any case of letters. Nothing that merely looks the same is the same."""
    return normalize("NFC", text.strip()).casefold()
