from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from agentserver.trace.text import Entry, convert_jsonable, iter_entries
from tests.gateways.payloads import Colour, Item, Order


@dataclass(frozen=True)
class Everything:
    amount: Decimal
    ratio: float
    when: datetime
    data: bytes
    colour: Colour
    flags: tuple[bool, ...]
    none: str | None = None


EVERYTHING = Everything(
    Decimal("1.50"), float("inf"), datetime(2020, 1, 2, 3, 4, tzinfo=UTC), b"\xff", Colour.RED, (True,)
)


def test_json_knows_every_value():
    assert json.loads(json.dumps(convert_jsonable(EVERYTHING), allow_nan=False)) == {
        "amount": "1.50",
        "ratio": "Infinity",
        "when": "2020-01-02T03:04:00Z",
        "data": "_w==",
        "colour": "red",
        "flags": [True],
        "none": None,
    }


def test_entries_leave_out_absent_fields():
    order = Order("Ada", None, Colour.BLUE, [Item("a"), Item("b", 2)], [], Item("g"))
    assert list(iter_entries(order)) == [
        Entry(0, "who", "Ada"),
        Entry(0, "colour", "blue"),
        Entry(0, "items[0]", None),
        Entry(1, "sku", "a"),
        Entry(1, "count", "1"),
        Entry(0, "items[1]", None),
        Entry(1, "sku", "b"),
        Entry(1, "count", "2"),
        Entry(0, "gift", None),
        Entry(1, "sku", "g"),
        Entry(1, "count", "1"),
    ]


def test_a_boolean_reads_as_in_the_schema():
    assert Entry(0, "flags[0]", "true") in list(iter_entries(EVERYTHING))
