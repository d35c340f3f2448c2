"""Values of any payload class, and payload classes themselves, drawn from the field table."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MaxLen, MinLen, MultipleOf
from elementpath.regex import translate_pattern
from hypothesis import strategies as st
from lxml import etree

from agentserver.contract import Attribute, Element, Pattern
from agentserver.payload.fields.facets import Facets
from agentserver.payload.fields.field_table import Count, Field, RecordType, Scalar
from agentserver.payload.fields.lexical import ScalarKind

PARSER = etree.XMLParser(
    encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False,
    remove_comments=True, remove_pis=True, strip_cdata=True,
)  # fmt: skip
TEXT = st.characters(
    codec="utf-8", exclude_characters="\x00\ufffe\uffff", min_codepoint=0x20
) | st.sampled_from("\t\n\r&<>\"'")
ZONES = st.none() | st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


def parse(markup: str) -> Any:
    """The payload element, inside a larger tree as in an envelope."""
    return etree.fromstring(f"<m>{markup}</m>".encode(), PARSER)[0]


def values(record: RecordType) -> st.SearchStrategy[Any]:
    """Instances of the record's class."""
    return st.fixed_dictionaries({each.name: _field(each) for each in record.fields}).map(
        lambda known: record.cls(**known)
    )


def _field(each: Field) -> st.SearchStrategy[Any]:
    single = values(each.type) if isinstance(each.type, RecordType) else scalars(each.type)
    if each.count is Count.OPTIONAL:
        return st.none() | single
    if not each.repeated:
        return single
    most = each.minimum + 3 if each.maximum is None else min(each.maximum, each.minimum + 3)
    items = st.lists(single, min_size=each.minimum, max_size=most)
    return items.map(tuple) if each.count is Count.TUPLE else items


def scalars(scalar: Scalar) -> st.SearchStrategy[Any]:
    if scalar.choices:
        return st.sampled_from([value for _, value in scalar.choices])
    return _KINDS[scalar.kind](scalar.facets)


def _text(facets: Facets) -> st.SearchStrategy[str]:
    if not facets.patterns:
        return st.text(
            TEXT, min_size=facets.length.minimum, max_size=facets.length.maximum or facets.length.minimum + 20
        )
    first, *others = [re.compile(translate_pattern(each, back_references=False)) for each in facets.patterns]

    def fits(text: str) -> bool:
        most = len(text) if facets.length.maximum is None else facets.length.maximum
        return facets.length.minimum <= len(text) <= most and all(each.fullmatch(text) for each in others)

    return st.from_regex(first, fullmatch=True).filter(fits)


def _ends(facets: Facets) -> dict[str, Any]:
    return {
        "min_value": facets.bounds.lower.value if facets.bounds.lower else None,
        "max_value": facets.bounds.upper.value if facets.bounds.upper else None,
    }


def _is_inside(facets: Facets) -> Any:
    def is_inside(value: Any) -> bool:
        low, high = facets.bounds.lower, facets.bounds.upper
        return not (
            (low and not low.inclusive and value == low.value)
            or (high and not high.inclusive and value == high.value)
        )

    return is_inside


def _ints(facets: Facets) -> st.SearchStrategy[int]:
    step = int(facets.step or 1)
    low, high = _ends(facets).values()
    low, high = (None if end is None else end // step + extra for end, extra in ((low, 1), (high, 0)))
    return st.integers(low, high).map(lambda value: value * step).filter(_is_inside(facets))


def _decimals(facets: Facets) -> st.SearchStrategy[Decimal]:
    if facets.step is not None and facets.step > 1:
        step = facets.step
        return st.integers(-(10**6), 10**6).map(lambda value: value * step)
    places = None if facets.step is None else -facets.step.adjusted()
    return st.decimals(**_ends(facets), places=places, allow_nan=False, allow_infinity=False).filter(
        lambda value: _is_inside(facets)(value) and abs(value.adjusted()) < 400
    )


def _floats(facets: Facets) -> st.SearchStrategy[float]:
    return st.floats(**_ends(facets), allow_nan=False).filter(_is_inside(facets))


def _datetimes(facets: Facets) -> st.SearchStrategy[datetime]:
    if facets.bounds.lower or facets.bounds.upper:
        ends = {key: value and value.replace(tzinfo=None) for key, value in _ends(facets).items()}
        low = ends["min_value"] or datetime(1, 1, 1)  # noqa: DTZ001 - the zone is given below
        high = ends["max_value"] or datetime(9999, 12, 31)  # noqa: DTZ001
        zone = (facets.bounds.lower or facets.bounds.upper).value.tzinfo
        return st.datetimes(low, high, timezones=st.just(zone)).filter(_is_inside(facets))
    return st.datetimes(timezones=ZONES)


_KINDS = {
    ScalarKind.STR: _text,
    ScalarKind.INT: _ints,
    ScalarKind.FLOAT: _floats,
    ScalarKind.BOOL: lambda _: st.booleans(),
    ScalarKind.DECIMAL: _decimals,
    ScalarKind.DATE: lambda facets: st.dates(
        **{key: value for key, value in _ends(facets).items() if value}
    ).filter(_is_inside(facets)),
    ScalarKind.TIME: lambda facets: st.times(
        **{key: value for key, value in _ends(facets).items() if value},
        timezones=st.none() if facets.bounds.lower else ZONES,
    ).filter(_is_inside(facets)),
    ScalarKind.DATETIME: _datetimes,
    ScalarKind.BYTES: lambda facets: st.binary(
        min_size=facets.length.minimum, max_size=facets.length.maximum
    ),
}


class Colour(Enum):
    RED = "red"
    SPACED = " two  words\n"
    EMPTY = ""


class Level(IntEnum):
    LOW = 1
    NEGATIVE = -20


SCALARS: tuple[Any, ...] = (
    str, int, float, bool, Decimal, date, time, datetime, bytes, Colour, Level,
    Literal["a", "b c"], Literal[1, 2, -3], Literal[True],
    Annotated[str, MinLen(2), MaxLen(5)], Annotated[str, Pattern("[A-Z]{2}-[0-9]{1,3}")],
    Annotated[str, Pattern("[a-wyz]*x[a-z]*"), Pattern(".{0,9}"), Len(1, 9)],
    Annotated[int, Ge(0), Le(10)], Annotated[int, Gt(-5), Lt(5)], Annotated[int, Interval(ge=10**30)],
    Annotated[int, MultipleOf(5)], Annotated[int, MultipleOf(100)], Annotated[int, MultipleOf(8)], Annotated[int, MultipleOf(2), Ge(7)],
    Annotated[float, Ge(0), Lt(1)], Annotated[float, Gt(1e300)],
    Annotated[Decimal, Ge(0), Lt(Decimal("9.5"))], Annotated[Decimal, MultipleOf(Decimal("0.01"))], Annotated[Decimal, MultipleOf(100)],
    Annotated[date, Ge(date(2020, 1, 1)), Lt(date(2021, 1, 1))], Annotated[time, Ge(time(9)), Le(time(17))],
    Annotated[datetime, Ge(datetime(2020, 1, 1, tzinfo=UTC))], Annotated[bytes, Len(1, 4)],
)  # fmt: skip


@st.composite
def classes(draw: st.DrawFn, depth: int = 2) -> type:
    """Dataclasses that can be payloads."""
    fields = []
    for number in range(draw(st.integers(0, 5))):
        nested = depth > 0 and draw(st.integers(0, 4)) == 0
        bare = draw(classes(depth - 1)) if nested else draw(st.sampled_from(SCALARS))
        shape = draw(
            st.sampled_from(("one", "one", "optional", "list", "tuple", *(() if nested else ("attribute",))))
        )
        name = draw(st.sampled_from((f"f{number}", f"größe{number}", f"_x{number}")))
        fields.append((name, *_shape_field(shape, bare, draw(st.booleans()), f"e-{number}.x")))
    options = draw(st.sampled_from(({}, {"frozen": True}, {"frozen": True, "slots": True})))
    return dataclasses.make_dataclass(
        f"C{draw(st.integers(0, 3))}", fields, kw_only=draw(st.booleans()) or _is_mixed(fields), **options
    )


def _is_mixed(fields: list[Any]) -> bool:
    return any(len(each) == 3 for each in fields)


def _shape_field(shape: str, bare: Any, flag: bool, name: str) -> tuple[Any, ...]:
    if shape == "optional":
        return (Annotated[bare | None, Element(name)], None) if flag else (bare | None,)
    if shape == "list":
        return (
            (list[bare], dataclasses.field(default_factory=list))
            if flag
            else (Annotated[list[bare], Len(1, 3)],)
        )
    if shape == "tuple":
        return (tuple[bare, ...], ()) if flag else (Annotated[tuple[bare, ...], MaxLen(2)],)
    if shape == "attribute":
        return (Annotated[bare, Attribute(name if flag else None)],)
    return (Annotated[bare, Element(name)],) if flag else (bare,)
