"""Decides whether a plan's step allows a value, by the lineage of recorded leaves and never by their text alone.

Allowing compares typed values, parsed places and names. Letter case is ignored in mailboxes and in names without
digits, as everywhere in the principal's own text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol
from unicodedata import normalize

from agentserver.provenance.evidence.authority import build_mention_pattern
from agentserver.provenance.evidence.destinations import (
    PlaceForm,
    find_recipients,
    fold_handle,
    parse_destination,
    strip_mark,
)
from agentserver.provenance.evidence.labels import strip_indices
from agentserver.provenance.evidence.leaves import build_typed_key, find_typed_keys, format_text
from agentserver.provenance.plans.arguments import (
    DEPTH,
    AllowedStep,
    AnyValue,
    DateOffset,
    FieldOf,
    Kind,
    Literal,
    OneOf,
    RequestedValue,
)
from agentserver.provenance.plans.moments import is_same_moment, parse_moment, subtract
from agentserver.provenance.plans.records import RecordIndex, canonicalize, normalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.provenance.evidence.labels import Leaf, Scalar
    from agentserver.provenance.plans.arguments import Condition
    from agentserver.provenance.plans.moments import Moment
    from agentserver.provenance.plans.records import RecordedLeaf
    from agentserver.provenance.request.trusted_words import TrustedWords

FEW: Final = 16
"""Literals of a set that are compared one by one; a larger set is searched by key."""

LOOKS: Final = 4096
"""Leaves that one query examines, nested ones included; beyond it the answer is no."""


class PlanLedger(Protocol):
    """Parts of a ledger that a plan depends on."""

    @property
    def asked(self) -> TrustedWords:
        """Request of the principal."""

    @property
    def recorded(self) -> RecordIndex:
        """Index of recorded leaves."""


@dataclass(frozen=True, slots=True)
class PlanGrounds:
    """Data that a plan's answer depends on: the request, the recorded leaves, and the steps."""

    asked: TrustedWords
    records: RecordIndex
    steps: tuple[AllowedStep, ...] = ()

    def match_kind(self, kind: Kind, value: Scalar) -> Kind | None:
        """Return the kind, or the member of a set, that allows a value; None if there is no such kind."""
        return _Query(self).match_kind(kind, value, 0)

    def match_list(self, kind: Kind, value: Scalar) -> Kind | None:
        """Match a value as ``match_kind`` does; in a text with a list of places, each place must match.

        Display names before addresses are ignored here: the judge treats them as content.
        """
        found = self.match_kind(kind, value)
        places = find_recipients(format_text(value)) if found is None and isinstance(value, str) else ()
        if not places or places[0].written == format_text(value).strip():
            return found
        each = [self.match_kind(kind, place.written) for place in places]
        return (each[0] if len(each) == 1 else kind) if None not in each else None

    def list_matching_steps(self, source: str, arguments: Iterable[Leaf]) -> tuple[int, ...]:
        """Return the numbers, from 1, of the steps that a call matches in all arguments that they name."""
        filled = [leaf for leaf in arguments if format_text(leaf.value).strip()]
        return tuple(
            number
            for number, step in enumerate(self.steps, 1)
            if step.sink == source and all(self.fits(step, leaf) for leaf in filled)
        )

    def fits(self, step: AllowedStep, leaf: Leaf) -> bool:
        """Return whether an argument has the kind that a step names for it, if any."""
        kind = find_kind(step, leaf.path)
        return kind is None or self.match_list(kind, leaf.value) is not None


def find_kind(step: AllowedStep, path: str) -> Kind | None:
    """Find the kind that a step gives an argument, by its path without indices or by an enclosing argument."""
    own = strip_indices(path)
    while own:
        kind = step.find_kind(own)
        if kind is not None:
            return kind
        own = own.rpartition(".")[0]
    return None


@dataclass(slots=True)
class _Query:
    """Query with the number of leaves that it may still examine."""

    grounds: PlanGrounds
    left: int = LOOKS

    def match_kind(self, kind: Kind, value: Scalar, depth: int, *, loose: bool = False) -> Kind | None:
        """Match a value at a nesting depth; ``loose`` ignores letter case, as in conditions."""
        if depth > DEPTH:
            return None
        match kind:
            case OneOf():
                matches = (
                    self.match_kind(inner, value, depth + 1, loose=loose) for inner in _preselect(kind, value)
                )
                return next((found for found in matches if found is not None), None)
            case Literal(text):
                holds = is_same_value(value, text) or (
                    loose and _fold_case(format_text(value)) == _fold_case(text)
                )
            case RequestedValue():
                holds = self.is_in_request(value)
            case DateOffset():
                holds = self.matches_offset(kind, value, depth)
            case FieldOf():
                holds = any(
                    self.matches_leaf(kind, leaf, depth)
                    for leaf in self.find_candidates(kind, value, loose=loose)
                )
            case AnyValue():
                holds = True
        return kind if holds else None

    def is_in_request(self, value: Scalar) -> bool:
        request, body = self.grounds.asked, format_text(value).strip()
        at = parse_moment(value)
        if at is not None:
            return _names_moment(request, at)
        kind = build_typed_key(value)
        if kind is not None:
            return kind in request.kinds
        place = parse_destination(body)
        if place.form is not PlaceForm.NONE:
            return request.names(place)
        return bool(body) and request.mentions(body, any_case=True)

    def matches_offset(self, kind: DateOffset, value: Scalar, depth: int) -> bool:
        at = parse_moment(value)
        before = None if at is None else subtract(at, kind.by)
        return before is not None and self.match_kind(kind.base, before, depth + 1) is not None

    # Leaves of records

    def find_candidates(self, kind: FieldOf, value: Scalar, *, loose: bool) -> Iterator[RecordedLeaf]:
        """Find the leaves at the field that hold the value, by the value or, if it is common, by a condition."""
        body, records = format_text(value), self.grounds.records
        by_value = records.find_at_path(kind.path) if kind.within else records.find_values(kind.path, body)
        found = self.find_by_condition(kind) if by_value is None else iter(by_value)
        for leaf in islice(found, max(0, self.left)):
            self.left -= 1
            if kind.within:
                holds = _contains_value(value, leaf.body)
            else:
                holds = is_same_value(value, leaf.body) or (
                    loose and _fold_case(body) == _fold_case(leaf.body)
                )
            if holds:
                yield leaf

    def find_by_condition(self, kind: FieldOf) -> Iterator[RecordedLeaf]:
        """Find the leaves at the field in the records that a literal condition selects."""
        records = self.grounds.records
        for condition in kind.where:
            texts = _list_literals(condition.kind) if not condition.within else ()
            found = [records.find_values(condition.path, text) for text in texts]
            if found and None not in found:
                chosen = (leaf for each in found for leaf in each or ())
                return (
                    one for leaf in chosen for one in records.find_siblings(leaf, condition.path, kind.path)
                )
        return iter(())

    def matches_leaf(self, kind: FieldOf, leaf: RecordedLeaf, depth: int) -> bool:
        """Return whether a leaf has the right source, is no mere echo, and its record meets the conditions."""
        output = self.grounds.records.output_of(leaf)
        if kind.step and kind.step not in output.answers:
            return False
        if kind.source and kind.source != output.source:
            return False
        if leaf.echo and not self.is_vouched(kind, leaf, depth):
            return False
        return all(self.meets_condition(kind, leaf, condition, depth) for condition in kind.where)

    def is_vouched(self, kind: FieldOf, leaf: RecordedLeaf, depth: int) -> bool:
        """Return whether an echoed value was an argument that the plan had fixed, so that it has no other origin."""
        if not 0 < kind.step <= len(self.grounds.steps):
            return False
        fixed = (inner for _, inner in self.grounds.steps[kind.step - 1].arguments)
        return any(
            not isinstance(inner, AnyValue) and self.match_kind(inner, leaf.body, depth + 1)
            for inner in fixed
        )

    def meets_condition(self, kind: FieldOf, leaf: RecordedLeaf, condition: Condition, depth: int) -> bool:
        for other in self.grounds.records.find_siblings(leaf, kind.path, condition.path):
            self.left -= 1
            if self.left < 0:
                return False
            if condition.within:
                if any(_contains_words(other.body, text) for text in _list_literals(condition.kind)):
                    return True
            elif self.match_kind(condition.kind, other.body, depth + 1, loose=True) is not None:
                return True
        return False


def _preselect(kinds: OneOf, value: Scalar) -> tuple[Kind, ...]:
    """Preselect the kinds that may allow a value: all of a small set, else the literals with its key and the rest."""
    if len(kinds.kinds) <= FEW:
        return kinds.kinds
    if not kinds.by_key:
        found: dict[str, list[Kind]] = {"": [kind for kind in kinds.kinds if not isinstance(kind, Literal)]}
        for kind in kinds.kinds:
            if isinstance(kind, Literal):
                found.setdefault(_compute_key(kind.text), []).append(kind)
        kinds.by_key.update((key, tuple(each)) for key, each in found.items())
    return (*kinds.by_key.get(_compute_key(value), ()), *kinds.by_key[""])


def _compute_key(value: Scalar) -> str:
    """Compute a key that all spellings of a value share and that distinguishes moments."""
    at = parse_moment(value)
    if at is None or isinstance(at, time):
        return f"v {canonicalize(format_text(value))}"
    moment = at if isinstance(at, datetime) else datetime.combine(at, time())
    return f"at {moment.timestamp() if moment.tzinfo else moment.isoformat()}"


def is_same_value(value: Scalar, text: str) -> bool:
    """Compare a scalar with a text as written, as a number, a moment, a place or a name."""
    if isinstance(value, bool):
        return str(value).lower() == text.strip().lower()
    body = format_text(value)
    if body == text or normalize_name(body) == normalize_name(text):
        return True
    one, other = parse_moment(value), parse_moment(text)
    if one is not None or other is not None:
        return one is not None and other is not None and is_same_moment(one, other)
    kind = build_typed_key(value)
    if kind is not None:
        return kind == build_typed_key(text)
    place = parse_destination(body)
    return place.external and not {*place.alike}.isdisjoint(parse_destination(text).alike)


def _names_moment(request: TrustedWords, at: Moment) -> bool:
    """Return whether the request names a date and, if there is one, its time of day in a usual spelling."""
    if isinstance(at, time):
        return any(request.mentions(form, any_case=True) for form in _spell_clock(at))
    kind = build_typed_key(at) or ""
    if request.kinds.isdisjoint({kind, f"day {kind[-5:]}"}):
        return False
    clock = at.time() if isinstance(at, datetime) else time()
    return clock == time() or _names_moment(request, clock)


def _spell_clock(clock: time) -> tuple[str, ...]:
    """List the usual spellings of a time of day: ``9:05``, ``09:05``, ``9:05am``, ``9 am``."""
    hour, minute, half = clock.hour, f"{clock.minute:02}", "pm" if clock.hour > 11 else "am"  # noqa: PLR2004
    short = hour % 12 or 12
    full = [f"{hour}:{minute}", f"{hour:02}:{minute}", f"{short}:{minute}{half}", f"{short}:{minute} {half}"]
    return (*full, f"{short}{half}", f"{short} {half}") if not clock.minute else tuple(full)


def _list_literals(kind: Kind) -> tuple[str, ...]:
    """Return the texts of a literal or of a set of literals; empty for other kinds."""
    if isinstance(kind, Literal):
        return (kind.text,)
    if isinstance(kind, OneOf) and all(isinstance(inner, Literal) for inner in kind.kinds):
        return tuple(inner.text for inner in kind.kinds if isinstance(inner, Literal))
    return ()


def _contains_value(value: Scalar, text: str) -> bool:
    """Return whether a text has a value as a whole token, in any spelling of the same place, name or moment.

    A number in a text may be an id, so only a typed number is found in any spelling.
    """
    body, kind = format_text(value).strip(), None if isinstance(value, str) else build_typed_key(value)
    if not body:
        return False
    if any(build_mention_pattern(form, any_case=loose).search(text) for form, loose in _list_spellings(body)):
        return True
    at = parse_moment(value)
    if isinstance(at, date):
        return _contains_date(at, text)
    return kind is not None and kind in find_typed_keys(text)


def _list_spellings(body: str) -> Iterator[tuple[str, bool]]:
    """List the spellings of a value in a text, each with whether its letter case is ignored."""
    yield body, False
    text = normalize("NFC", body)
    place = parse_destination(text)
    if not place.external:
        name = strip_mark(text)
        yield name, fold_handle(name) == name.lower()
        return
    yield place.key, place.form is PlaceForm.ADDRESS and place.key.isascii()
    if place.form is PlaceForm.LINK:
        yield place.key.removeprefix("https://"), False
        yield text.removeprefix("https://"), False


def _contains_date(at: date, text: str) -> bool:
    """Return whether a text has a date, with or without its year, and its time of day if there is one."""
    kind = build_typed_key(at) or ""
    if {kind, f"day {kind[-5:]}"}.isdisjoint(find_typed_keys(text)):
        return False
    clock = at.time() if isinstance(at, datetime) else time()
    return clock == time() or any(
        build_mention_pattern(form, any_case=True).search(text) for form in _spell_clock(clock)
    )


def _contains_words(body: str, text: str) -> bool:
    """Return whether a text has these words in sequence.

    Hyphens and dots separate words, as in file names, except in addresses and links and if the words contain them.
    """
    words = text.split()
    if not words:
        return False
    if not all(map(str.isalnum, words)) or "@" in body or "/" in body:
        return build_mention_pattern(text.strip(), any_case=True).search(body) is not None
    spaced = r"\s+".join(words)
    return re.search(rf"(?<!\w){spaced}(?!\w)", body, re.IGNORECASE) is not None


def _fold_case(text: str) -> str:
    """Fold letter case. Look-alike characters stay different."""
    return normalize("NFC", text.strip()).casefold()
