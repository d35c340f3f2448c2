"""Example values: inside their constraints, and the same each time."""

from __future__ import annotations

import dataclasses
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any

import pytest
from annotated_types import Ge, Gt, Le, Len, Lt, MaxLen, MinLen, MultipleOf

from agentserver.payload.fields.describe import table
from agentserver.payload.fields.field_table import PayloadError
from agentserver.payload.sample import example


def value(annotation: Any) -> Any:
    return example(table(dataclasses.make_dataclass("C", [("v", annotation)])).record).v


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, "text"), (Annotated[str, MaxLen(2)], "te"), (Annotated[str, MinLen(6)], "textte"), (Annotated[str, Len(0, 0)], ""),
        (bytes, b"data"), (Annotated[bytes, Len(1, 1)], b"d"), (int, 1), (Annotated[int, Ge(5)], 5), (Annotated[int, Gt(5)], 6),
        (Annotated[int, Lt(-5)], -6), (Annotated[int, Gt(5), Lt(7)], 6), (Annotated[int, MultipleOf(8), Gt(8)], 16),
        (Annotated[int, MultipleOf(100), Lt(-100)], -200), (Annotated[int, MultipleOf(5), Ge(10**40)], 10**40),
        (Annotated[int, Le(0)], 0), (float, 1.5), (Annotated[float, Lt(1)], 0.0), (Annotated[float, Gt(1e300)], 1.0000000000000002e300),
        (Annotated[float, Lt(-2)], -3.0), (Annotated[float, Gt(2), Lt(2.5)], 2.0000000000000004), (Decimal, Decimal(1)),
        (Annotated[Decimal, Gt(Decimal("0.1")), Lt(Decimal("0.2"))], Decimal("0.15")), (Annotated[Decimal, Le(Decimal("-0.5"))], Decimal("-0.5")),
        (date, date(2026, 1, 31)), (Annotated[date, Gt(date(2026, 1, 31))], date(2026, 2, 1)), (Annotated[date, Lt(date(2000, 1, 1))], date(1999, 12, 31)),
        (time, time(9, 30)), (Annotated[time, Gt(time(10))], time(10, 0, 0, 1)), (Annotated[time, Lt(time(9))], time(8, 59, 59, 999999)),
        (Annotated[time, Ge(time(10, tzinfo=UTC))], time(10, tzinfo=UTC)),
        (datetime, datetime(2026, 1, 31, 9, 30, tzinfo=UTC)), (Annotated[datetime, Ge(datetime(2026, 1, 1))], datetime(2026, 1, 1)),  # noqa: DTZ001
        (bool, True), (str | None, None), (list[int], [1]), (Annotated[tuple[int, ...], Len(2, 3)], (1, 1)), (Annotated[list[int], MaxLen(0)], []),
    ],
)  # fmt: skip
def test_a_value_fits_its_constraints(annotation: Any, expected: Any) -> None:
    assert value(annotation) == expected
    assert type(value(annotation)) is type(expected)


@pytest.mark.parametrize(
    "annotation",
    [
        Annotated[date, Gt(date.max)],
        Annotated[date, Lt(date.min)],
        Annotated[int, MultipleOf(100), Gt(100), Lt(200)],
        Annotated[float, Gt(1.0), Lt(1.0000000000000002)],
        Annotated[datetime, Gt(datetime.max.replace(tzinfo=timezone(timedelta(0))))],
    ],
)
def test_an_example_is_required_where_no_sample_fits(annotation: Any) -> None:
    with pytest.raises(PayloadError, match=r"C\.v: no example value found.*give @xmlify"):
        value(annotation)
