"""Facets: the constraints of a scalar, each of them one entry of one table."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

from annotated_types import Ge, GroupedMetadata, Gt, Interval, Le, Len, Lt, MaxLen, MinLen, MultipleOf

from agentserver.contract import Pattern
from agentserver.hygiene.pattern import LONGEST as LONGEST_PATTERN
from agentserver.hygiene.pattern import PatternError, read_xsd_pattern, write_sample
from agentserver.hygiene.simple_types import Judge, Lexical
from agentserver.payload.fields.lexical import DIGITS, WRITERS, ScalarKind, is_xml_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_TRIES = 256


def find_objection(text: str) -> str:
    """Find the reason why ``text`` cannot be a pattern facet, with a correction; empty if it can."""
    if not text or len(text) > LONGEST_PATTERN or not is_xml_text(text):
        return f"must hold 1 to {LONGEST_PATTERN} characters that XML can carry"
    try:
        read_xsd_pattern(text)
    except PatternError as error:
        return str(error)
    return ""


def find_sample_patterns(patterns: Sequence[str], minimum: int = 0, maximum: int | None = None) -> str | None:
    """Find a short text that fits every pattern and the length, the same each time; None if the search fails."""
    judge = Judge({"v": Lexical(tuple(patterns))})
    for text in patterns:
        expression = read_xsd_pattern(text)
        for extra in (1, 0, *range(2, min(minimum, _TRIES) + 1)):
            word = write_sample(expression, extra)
            fits = minimum <= len(word) and (maximum is None or len(word) <= maximum)
            if fits and is_xml_text(word) and judge.accepts("v", word):
                return word
    return None


STEPS = 3
"""An integer step divides 10 to this power, so that the last digits decide; XSD 1.0 has no other way."""
_POWERS = 100


def step_of(kind: ScalarKind, raw: Any) -> Decimal:
    """Return the step of a number. Raises ValueError when XSD cannot state it."""
    if type(raw) not in {int, Decimal}:
        raise ValueError(
            "has a MultipleOf that is neither int nor Decimal: XSD can state it of int and Decimal"
        )
    step = Decimal(raw)
    power = _power_of_ten(step)
    if kind is ScalarKind.INT and not (
        step >= 1 and step == int(step) and (power or not 10**STEPS % int(step))
    ):
        raise ValueError(
            f"has a MultipleOf that XSD cannot state; use a power of ten or a divisor of {10**STEPS}"
        )
    if not power:
        if kind is ScalarKind.DECIMAL:
            raise ValueError(
                "has a MultipleOf that XSD cannot state; use a power of ten such as Decimal('0.01')"
            )
    elif abs(step.adjusted()) > _POWERS:
        raise ValueError(f"has a MultipleOf beyond 10 to the power of {_POWERS}")
    return step


def _power_of_ten(step: Decimal) -> bool:
    return step > 0 and step.normalize().as_tuple().digits == (1,)


def multiples(kind: ScalarKind, step: Decimal) -> str:
    """Return the last digits of every multiple, as a pattern. Shorter numerals are multiples by their own value."""
    power = step.adjusted()
    if _power_of_ten(step):
        whole = rf"([0-9]*0{{{power}}}|0*)" if power else "[0-9]*"
        return rf"[+\-]?{whole}" + (r"(\.0*)?" if kind is ScalarKind.DECIMAL else "")
    every = int(step)
    digits = next(count for count in range(1, STEPS + 1) if not 10**count % every)
    ends = [f"[0-9]*({'|'.join(_iter_numerals(digits, every))})"]
    ends += ["|".join(_iter_numerals(count, every)) for count in range(1, digits)]
    return rf"[+\-]?({'|'.join(ends)})"


def _iter_numerals(count: int, every: int) -> Iterator[str]:
    for digits in product("0123456789", repeat=count):
        numeral = "".join(digits)
        if int(numeral) % every == 0:
            yield numeral


LONGEST = 1000
"""Largest least length of a text, of octets or of a list."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One end of a range, in the Python type of its scalar."""

    value: Any
    inclusive: bool


@dataclass(frozen=True, slots=True)
class Range:
    """A range; an end that is None is open."""

    lower: Limit | None = None
    upper: Limit | None = None


@dataclass(frozen=True, slots=True)
class Length:
    """Characters of a ``str`` or octets of ``bytes``; None is unbounded."""

    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Facets:
    """The constraints that narrow a scalar, a field for each entry of FACETS; a default narrows nothing.

    Args:
        bounds: the range.
        length: in characters (``str``) or octets (``bytes``).
        step: the value is a multiple of it.
        patterns: XSD regular expressions that must all match the whole value.
    """

    bounds: Range = Range()
    length: Length = Length()
    step: Decimal | None = None
    patterns: tuple[str, ...] = ()


NO_FACETS = Facets()


@dataclass(frozen=True, slots=True)
class Facet:
    """One constraint and all that it leads to. ``V`` is the type of its field in Facets.

    Args:
        name: its field in Facets.
        marks: the annotations that state it, groups of them included.
        kinds: the scalars that it narrows.
        hint: the way out on any other scalar, after "takes no ...".
        read: a mark on a scalar as ``V``; raises ValueError with the reason.
        merge: two ``V`` as the tightest that both allow; raises ValueError when nothing is left.
        fits: True when a candidate for the example keeps ``V``.
        xsd: ``V`` as pairs of the name of an XSD facet and its value; several patterns must all match.
        json: ``V`` as keywords of JSON Schema, and True when they state all of it; the words state the rest.
        words: ``V`` in a correction, behind the scalar's own words.
    """

    name: str
    marks: tuple[type, ...]
    kinds: frozenset[ScalarKind]
    hint: str
    read: Callable[[ScalarKind, Any], Any]
    merge: Callable[[Any, Any], Any]
    fits: Callable[[Any, Any], bool]
    xsd: Callable[[ScalarKind, Any], Iterable[tuple[str, str]]]
    json: Callable[[ScalarKind, Any], tuple[dict[str, Any], bool]]
    words: Callable[[ScalarKind, Any], Iterable[str]]


def flatten(metadata: Iterable[Any]) -> Iterator[Any]:
    """Yield the metadata with groups such as Interval and Len taken apart."""
    for item in metadata:
        if isinstance(item, GroupedMetadata):
            yield from flatten(item)
        else:
            yield item


def narrow_facets(kind: ScalarKind, metadata: Iterable[Any]) -> Facets:
    """Return the facets that ``metadata`` puts on a scalar. Raises ValueError with the reason and a way out."""
    facets = NO_FACETS
    marked = {mark: facet for facet in FACETS for mark in facet.marks}
    for item in metadata:
        facet = marked.get(type(item))
        if facet is None:
            raise ValueError(
                f"has the constraint {_format_mark_name(item)}, which XSD cannot state; use {_join_names(marked)}, "
                "and check the rest in the handler"
            )
        if kind not in facet.kinds:
            raise ValueError(f"is {kind}, which takes no {_join_names(facet.marks)}{facet.hint}")
        merged = facet.merge(getattr(facets, facet.name), facet.read(kind, item))
        facets = replace(facets, **{facet.name: merged})
    return facets


def lengths(metadata: Iterable[Any]) -> tuple[int, int | None]:
    """Find the least and most occurrences that ``metadata`` allows a list. Raises ValueError."""
    length = Length()
    for item in metadata:
        if not isinstance(item, (MinLen, MaxLen)):
            raise ValueError(  # noqa: TRY004 - one kind of refusal
                f"has {_format_mark_name(item)} on the list; put it on the items, as in list[Annotated[str, ...]]: "
                "a list itself takes MinLen, MaxLen and Len"
            )
        length = _choose_shorter(length, _read_length(ScalarKind.STR, item))
    return length.minimum, length.maximum


def fits(facets: Facets, candidate: Any) -> bool:
    """Check whether a value of the scalar's type keeps every facet."""
    return facets is NO_FACETS or all(facet.fits(value, candidate) for facet, value in _set_facets(facets))


def iter_xsd_facets(kind: ScalarKind, facets: Facets) -> Iterator[list[tuple[str, str]]]:
    """Yield the facets by step of derivation, as (name, value): patterns of one step would be alternatives."""
    first: list[tuple[str, str]] = []
    patterns: list[tuple[str, str]] = []
    for facet, value in _set_facets(facets):
        for pair in facet.xsd(kind, value):
            (patterns if pair[0] == "pattern" else first).append(pair)
    yield first + patterns[:1]
    for pattern in patterns[1:]:
        yield [pattern]


def iter_json_keywords(kind: ScalarKind, facets: Facets) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the facets as keywords of JSON Schema, each with True when its keywords state all of it."""
    for facet, value in _set_facets(facets):
        yield facet.json(kind, value)


def iter_words(kind: ScalarKind, facets: Facets) -> Iterator[str]:
    """Yield the wording of the facets, behind the scalar's own: ``from 1``, ``to 10``."""
    for facet, value in _set_facets(facets):
        yield from facet.words(kind, value)


def _set_facets(facets: Facets) -> list[tuple[Facet, Any]]:
    if facets is NO_FACETS:  # as of most fields
        return []
    held = ((facet, getattr(facets, facet.name)) for facet in FACETS)
    return [(facet, value) for facet, value in held if value != getattr(NO_FACETS, facet.name)]


def _format_mark_name(item: object) -> str:
    return item.__name__ if isinstance(item, type) else type(item).__name__


def _join_names(marks: Iterable[type]) -> str:
    *names, last = map(_format_mark_name, marks)
    return f"{', '.join(names)} or {last}" if names else last


# bounds

_ORDERED: Mapping[ScalarKind, type] = {
    ScalarKind.INT: int,
    ScalarKind.FLOAT: float,
    ScalarKind.DECIMAL: Decimal,
    ScalarKind.DATE: date,
    ScalarKind.TIME: time,
    ScalarKind.DATETIME: datetime,
}
_NUMBERS = (ScalarKind.INT, ScalarKind.FLOAT, ScalarKind.DECIMAL)


def _read_bound(kind: ScalarKind, mark: Any) -> Range:
    raw = next(getattr(mark, name) for name in ("gt", "ge", "lt", "le") if hasattr(mark, name))
    value, wanted = raw, _ORDERED[kind]
    if kind in _NUMBERS and type(raw) in {int, float, Decimal}:
        value = wanted(repr(raw)) if kind is ScalarKind.DECIMAL and type(raw) is float else wanted(raw)
    try:
        WRITERS[kind](value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"has a bound that {error}") from None
    if value != raw and not (kind is ScalarKind.DECIMAL and type(raw) is float):
        raise ValueError(f"has a bound that is no {kind}")
    limit = Limit(value, isinstance(mark, (Ge, Le)))
    return Range(lower=limit) if isinstance(mark, (Gt, Ge)) else Range(upper=limit)


def _inner(old: Range, new: Range) -> Range:
    ends = [each for each in (old.lower, old.upper, new.lower, new.upper) if each is not None]
    if len({getattr(each.value, "tzinfo", None) is None for each in ends}) > 1:
        raise ValueError("has one bound with a time zone and one without")
    low = _choose_tighter(old.lower, new.lower, lambda a, b: a > b)
    high = _choose_tighter(old.upper, new.upper, lambda a, b: a < b)
    if low is None or high is None:
        return Range(low, high)
    if low.value > high.value or (low.value == high.value and not (low.inclusive and high.inclusive)):
        raise ValueError("allows no value: its lower bound is above its upper bound")
    return Range(low, high)


def _choose_tighter(old: Limit | None, new: Limit | None, inner: Callable[[Any, Any], bool]) -> Limit | None:
    if old is None or new is None:
        return old or new
    if inner(new.value, old.value):
        return new
    return new if new.value == old.value and not new.inclusive else old


def _is_within(bounds: Range, value: Any) -> bool:
    low, high = bounds.lower, bounds.upper
    try:
        above = low is None or value > low.value or (low.inclusive and value == low.value)
        below = high is None or value < high.value or (high.inclusive and value == high.value)
    except TypeError:  # a zoned time beside one without a zone
        return False
    return above and below


def _iter_extremes(kind: ScalarKind, bounds: Range) -> Iterator[tuple[str, str]]:
    for name, end in (("min", bounds.lower), ("max", bounds.upper)):
        if end is not None:
            yield f"{name}{'Inclusive' if end.inclusive else 'Exclusive'}", WRITERS[kind](end.value)


def _from_to(kind: ScalarKind, bounds: Range) -> Iterator[str]:
    for inside, outside, end in (("from", "above", bounds.lower), ("to", "below", bounds.upper)):
        if end is not None:
            yield f"{inside if end.inclusive else outside} {WRITERS[kind](end.value)}"


def _limits(_: ScalarKind, bounds: Range) -> tuple[dict[str, Any], bool]:
    found: dict[str, Any] = {}
    ends = 0
    for end, inside, outside in (
        (bounds.lower, "minimum", "exclusiveMinimum"),
        (bounds.upper, "maximum", "exclusiveMaximum"),
    ):
        ends += end is not None
        number = None if end is None else _find_number(end.value)
        if end is not None and number is not None:
            found[inside if end.inclusive else outside] = number
    return found, len(found) == ends


def _find_number(value: Any) -> int | float | None:
    """Return a bound as JSON writes it; None for a moment, and for a number that a binary one is not."""
    if not isinstance(value, Decimal):
        return value if isinstance(value, (int, float)) and math.isfinite(value) else None
    if value == value.to_integral_value() and value.adjusted() < DIGITS:
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else None


# length

_UNITS = {ScalarKind.STR: "characters", ScalarKind.BYTES: "octets"}


def _read_length(_: ScalarKind, mark: Any) -> Length:
    raw = mark.min_length if isinstance(mark, MinLen) else mark.max_length
    if type(raw) is not int or raw < 0:
        raise ValueError("has a length that is not a whole number from 0")
    if isinstance(mark, MaxLen):
        return Length(maximum=raw)
    if raw > LONGEST:
        raise ValueError(f"has a least length above {LONGEST}, which no example could show")
    return Length(minimum=raw)


def _choose_shorter(old: Length, new: Length) -> Length:
    minimum = max(old.minimum, new.minimum)
    maximum = min((each.maximum for each in (old, new) if each.maximum is not None), default=None)
    if maximum is not None and minimum > maximum:
        raise ValueError(f"allows no length: at least {minimum} and at most {maximum}")
    return Length(minimum, maximum)


def _long_enough(length: Length, value: Any) -> bool:
    return length.minimum <= len(value) and (length.maximum is None or len(value) <= length.maximum)


def _iter_sizes(_: ScalarKind, length: Length) -> Iterator[tuple[str, str]]:
    if length.minimum:
        yield "minLength", str(length.minimum)
    if length.maximum is not None:
        yield "maxLength", str(length.maximum)


def _describe_size(kind: ScalarKind, length: Length) -> Iterator[str]:
    if length.maximum is None:
        yield f"of at least {length.minimum} {_UNITS[kind]}"
    else:
        yield f"of {f'{length.minimum} to' if length.minimum else 'at most'} {length.maximum} {_UNITS[kind]}"


def _count_keywords(kind: ScalarKind, length: Length) -> tuple[dict[str, Any], bool]:
    """Return the bounds in characters of a text or of base64, which rounds up to whole groups."""
    octets = kind is ScalarKind.BYTES
    minimum, maximum = (
        -(-count // 3) * 4 if octets and count else count for count in (length.minimum, length.maximum)
    )
    found = {"minLength": minimum} if minimum else {}
    return found if maximum is None else found | {"maxLength": maximum}, not octets


# step


def _merge_steps(old: Decimal | None, new: Decimal) -> Decimal:
    if old is not None:
        raise ValueError("has two MultipleOf; state their common multiple")
    return new


def _divides(step: Decimal, value: Any) -> bool:
    return not Fraction(value) % Fraction(step)


def _iter_multiple_facets(kind: ScalarKind, step: Decimal) -> Iterator[tuple[str, str]]:
    if kind is ScalarKind.DECIMAL and step.adjusted() <= 0:
        yield "fractionDigits", str(-step.adjusted())
    else:
        yield "pattern", multiples(kind, step)


def _step_keywords(kind: ScalarKind, step: Decimal) -> tuple[dict[str, Any], bool]:
    whole = kind is ScalarKind.INT
    return {"multipleOf": int(step)} if whole else {}, whole


# patterns


def _collect_pattern(_: ScalarKind, mark: Any) -> tuple[str, ...]:
    reason = find_objection(mark.regex) if isinstance(mark.regex, str) else "must be text"
    if reason:
        raise ValueError(f"has a Pattern that {reason}")
    return (mark.regex,)


def _portable(_: ScalarKind, patterns: tuple[str, ...]) -> tuple[dict[str, Any], bool]:
    known = [each for text in patterns if (each := read_xsd_pattern(text).portable)]
    found: dict[str, Any] = {"pattern": known[0]} if len(known) == 1 else {}
    if len(known) > 1:
        found = {"allOf": [{"pattern": each} for each in known]}
    return found, len(known) == len(patterns)


FACETS = (
    Facet(
        name="bounds",
        marks=(Gt, Ge, Lt, Le, Interval),
        kinds=frozenset(_ORDERED),
        hint="",
        read=_read_bound,
        merge=_inner,
        fits=_is_within,
        xsd=_iter_extremes,
        json=_limits,
        words=_from_to,
    ),
    Facet(
        name="length",
        marks=(MinLen, MaxLen, Len),
        kinds=frozenset(_UNITS),
        hint="; use Ge and Le",
        read=_read_length,
        merge=_choose_shorter,
        fits=_long_enough,
        xsd=_iter_sizes,
        json=_count_keywords,
        words=_describe_size,
    ),
    Facet(
        name="step",
        marks=(MultipleOf,),
        kinds=frozenset({ScalarKind.INT, ScalarKind.DECIMAL}),
        hint=": XSD can state it of int and Decimal",
        read=lambda kind, mark: step_of(kind, mark.multiple_of),
        merge=_merge_steps,
        fits=_divides,
        xsd=_iter_multiple_facets,
        json=_step_keywords,
        words=lambda _, step: (f"in steps of {step}",),
    ),
    Facet(
        name="patterns",
        marks=(Pattern,),
        kinds=frozenset({ScalarKind.STR}),
        hint=": it restricts str alone",
        read=_collect_pattern,
        merge=lambda old, new: (*old, *new),
        fits=lambda patterns, value: True,  # noqa: ARG005 - the candidate is made from them, and judged there
        xsd=lambda _, patterns: [("pattern", each) for each in patterns],
        json=_portable,
        words=lambda _, patterns: [f"matching {each}" for each in patterns],
    ),
)
"""Every facet, in the order of XSD and of corrections. A further one has its entry here and its field in Facets."""
