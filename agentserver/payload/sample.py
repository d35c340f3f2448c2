"""An example value of a payload class, the same one each time."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from agentserver.payload.fields.facets import Facets, find_sample_patterns, fits
from agentserver.payload.fields.field_table import Count, Field, PayloadError, RecordType, Scalar
from agentserver.payload.fields.lexical import ScalarKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

WRONG = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, AssertionError, RuntimeError)
"""The exceptions by which a constructor may refuse its arguments."""


def example(record: RecordType) -> Any:
    """Return an instance of the record's class. Raises PayloadError when none is found."""
    values = {field.name: _value(record, field) for field in record.fields}
    try:
        return record.cls(**values)
    except WRONG as error:
        raise PayloadError(
            f"{record.cls.__qualname__}: its constructor refuses the example value ({type(error).__name__}); "
            "give @xmlify(example={'field': value, ...}) valid values"
        ) from None


def _value(record: RecordType, field: Field) -> Any:
    if field.name in record.example:
        return record.example[field.name]
    if field.default is not None and not field.repeated:
        return field.default.make()
    if field.count is Count.OPTIONAL:
        return None
    if not field.repeated:
        return _single(record, field)
    count = max(field.minimum, 1) if field.maximum is None else min(max(field.minimum, 1), field.maximum)
    items = [_single(record, field) for _ in range(count)]
    return tuple(items) if field.count is Count.TUPLE else items


def _single(record: RecordType, field: Field) -> Any:
    if isinstance(field.type, RecordType):
        return example(field.type)
    value = _scalar(field.type)
    if value is None:
        raise PayloadError(
            f"{record.cls.__qualname__}.{field.name}: no example value found for its constraints; "
            f"give @xmlify(example={{{field.name!r}: ...}})"
        )
    return value


def _scalar(scalar: Scalar) -> Any:
    if scalar.choices:
        return scalar.choices[0][1]
    candidates = _CANDIDATES[scalar.kind](scalar.facets)
    return next((each for each in candidates if fits(scalar.facets, each)), None)


def _iter_text(facets: Facets) -> Iterator[str]:
    if facets.patterns:
        found = find_sample_patterns(facets.patterns, facets.length.minimum, facets.length.maximum)
        yield from () if found is None else (found,)
        return
    yield ("text" * (facets.length.minimum // 4 + 1))[: _compute_length(facets)]


def _iter_octets(facets: Facets) -> Iterator[bytes]:
    yield (b"data" * (facets.length.minimum // 4 + 1))[: _compute_length(facets)]


def _compute_length(facets: Facets) -> int:
    usual = max(facets.length.minimum, 4)
    return usual if facets.length.maximum is None else min(usual, facets.length.maximum)


def _make_numbers(one: Any) -> Callable[[Facets], Iterator[Any]]:
    kind = type(one)

    def candidates(facets: Facets) -> Iterator[Any]:
        step = kind(facets.step or 1)
        yield from (one, step, kind(0))
        for end, outward in ((facets.bounds.lower, step), (facets.bounds.upper, -step)):
            if end is not None:
                whole = Fraction(end.value) // Fraction(step)
                yield from (end.value, whole * step, whole * step + outward)
        if facets.bounds.lower and facets.bounds.upper:
            yield kind((Decimal(facets.bounds.lower.value) + Decimal(facets.bounds.upper.value)) / 2)

    return candidates


def _iter_floats(facets: Facets) -> Iterator[float]:
    yield from (1.5, 1.0, 0.0)
    for end, outward in ((facets.bounds.lower, math.inf), (facets.bounds.upper, -math.inf)):
        if end is not None:
            yield from (end.value, end.value + math.copysign(1, outward), math.nextafter(end.value, outward))


def _iter_moments(facets: Facets, usual: Any, unit: timedelta) -> Iterator[Any]:
    yield usual
    for end, outward in ((facets.bounds.lower, unit), (facets.bounds.upper, -unit)):
        if end is not None:
            yield end.value
            try:
                yield end.value + outward
            except OverflowError:
                return


def _iter_dates(facets: Facets) -> Iterator[date]:
    yield from _iter_moments(facets, date(2026, 1, 31), timedelta(days=1))


def _iter_datetimes(facets: Facets) -> Iterator[datetime]:
    yield from _iter_moments(facets, datetime(2026, 1, 31, 9, 30, tzinfo=UTC), timedelta(microseconds=1))


def _iter_times(facets: Facets) -> Iterator[time]:
    yield time(9, 30)
    for end, outward in ((facets.bounds.lower, 1), (facets.bounds.upper, -1)):
        if end is not None:
            yield end.value
            day = datetime.combine(date(2026, 1, 31), end.value) + timedelta(microseconds=outward)
            yield day.timetz()


_CANDIDATES: Mapping[ScalarKind, Callable[[Facets], Iterator[Any]]] = {
    ScalarKind.STR: _iter_text,
    ScalarKind.INT: _make_numbers(1),
    ScalarKind.FLOAT: _iter_floats,
    ScalarKind.BOOL: lambda _: iter((True,)),
    ScalarKind.DECIMAL: _make_numbers(Decimal(1)),
    ScalarKind.DATE: _iter_dates,
    ScalarKind.TIME: _iter_times,
    ScalarKind.DATETIME: _iter_datetimes,
    ScalarKind.BYTES: _iter_octets,
}
