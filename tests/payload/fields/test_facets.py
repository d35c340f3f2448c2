"""The table of facets: each entry is complete, from its annotation to its correction message."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime, time
from decimal import Decimal
from typing import Annotated, Any

import pytest
from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MaxLen, MinLen, MultipleOf

from agentserver.contract import Pattern
from agentserver.payload.codec import GeneratedCodec
from agentserver.payload.corrections import label
from agentserver.payload.fields import facets as facets_module
from agentserver.payload.fields.describe import table
from agentserver.payload.fields.facets import FACETS, NO_FACETS, Facet, Facets, fits, narrow_facets
from agentserver.payload.fields.field_table import PayloadError, Scalar
from agentserver.payload.fields.lexical import WRITERS, ScalarKind
from agentserver.payload.json.schema import json_schema
from agentserver.payload.sample import example
from tests.core.strategies import parse

TYPES = {
    ScalarKind.STR: str, ScalarKind.INT: int, ScalarKind.FLOAT: float, ScalarKind.BOOL: bool, ScalarKind.DECIMAL: Decimal,
    ScalarKind.DATE: date, ScalarKind.TIME: time, ScalarKind.DATETIME: datetime, ScalarKind.BYTES: bytes,
}  # fmt: skip
NOON, DAY = datetime(2026, 1, 1, 12), date(2026, 1, 1)  # noqa: DTZ001
SHOWN: dict[tuple[str, ScalarKind], tuple[Any, Any]] = {
    ("bounds", ScalarKind.INT): (Gt(7), 7),
    ("bounds", ScalarKind.FLOAT): (Interval(ge=2, lt=3), 3.0),
    ("bounds", ScalarKind.DECIMAL): (Lt(Decimal("-0.5")), Decimal("0.5")),
    ("bounds", ScalarKind.DATE): (Ge(DAY), date(2025, 12, 31)),
    ("bounds", ScalarKind.TIME): (Le(time(9)), time(9, 1)),
    ("bounds", ScalarKind.DATETIME): (Gt(NOON), NOON),
    ("length", ScalarKind.STR): (Len(6, 7), "short"),
    ("length", ScalarKind.BYTES): (MaxLen(3), b"data"),
    ("step", ScalarKind.INT): (MultipleOf(8), 12),
    ("step", ScalarKind.DECIMAL): (MultipleOf(Decimal("0.1")), Decimal("0.25")),
    ("patterns", ScalarKind.STR): (Pattern("[a-c]+"), "d"),
}
"""For each facet and each kind that it narrows: a mark, and a value that the mark shuts out."""
ENTRIES = [(facet, kind) for facet in FACETS for kind in sorted(facet.kinds)]


def cls(kind: ScalarKind, *marks: Any) -> type:
    annotation = Annotated[(TYPES[kind], *marks)] if marks else TYPES[kind]
    return dataclasses.make_dataclass("C", [("v", annotation)])


def test_each_entry_has_its_field_its_marks_and_a_case_here():
    assert [facet.name for facet in FACETS] == [each.name for each in dataclasses.fields(Facets)]
    marks = [mark for facet in FACETS for mark in facet.marks]
    assert len(marks) == len(set(marks))
    assert set(SHOWN) == {(facet.name, kind) for facet, kind in ENTRIES}


@pytest.mark.parametrize(("facet", "kind"), ENTRIES, ids=lambda each: getattr(each, "name", str(each)))
def test_a_facet_narrows_the_schema_the_example_and_the_correction(facet, kind):
    mark, outside = SHOWN[facet.name, kind]
    codec, free = GeneratedCodec(table(cls(kind, mark))), GeneratedCodec(table(cls(kind)))
    assert codec.xsd() != free.xsd()
    assert codec.valid(parse(codec.example()))
    wrong = parse(codec.example())
    wrong[0].text = WRITERS[kind](outside)
    assert free.valid(wrong)
    assert not codec.valid(wrong)
    facets = narrow_facets(kind, _split_marks(mark))
    assert label(Scalar(kind, facets)).startswith(label(Scalar(kind)) + " ")
    assert [each.rule for each in codec.faults(wrong)] == [f"must be {label(Scalar(kind, facets))}"]
    assert fits(facets, example(table(cls(kind, mark)).record).v)
    assert facet.name == "patterns" or not fits(facets, outside), "a pattern makes its candidates"


@pytest.mark.parametrize(("facet", "kind"), ENTRIES, ids=lambda each: getattr(each, "name", str(each)))
def test_a_facet_that_is_not_stated_narrows_nothing(facet, kind):
    free = getattr(NO_FACETS, facet.name)
    for part in _split_marks(SHOWN[facet.name, kind][0]):
        value = facet.read(kind, part)
        assert facet.merge(free, value) == value


@pytest.mark.parametrize("facet", FACETS, ids=lambda each: each.name)
def test_a_kind_that_a_facet_does_not_narrow_is_refused_with_its_marks_and_a_way_out(facet):
    mark = next(mark for (name, _), (mark, _) in SHOWN.items() if name == facet.name)
    for kind in set(ScalarKind) - facet.kinds:
        with pytest.raises(
            PayloadError, match=rf"C\.v: is {kind}, which takes no {facet.marks[0].__name__}"
        ) as refusal:
            table(cls(kind, mark))
        assert facet.hint in str(refusal.value)


def test_marks_of_one_facet_are_merged_to_the_tightest():
    assert narrow_facets(ScalarKind.INT, [Ge(1), Gt(1), Le(9), Lt(12)]) == narrow_facets(
        ScalarKind.INT, [Gt(1), Le(9)]
    )
    assert narrow_facets(ScalarKind.STR, [MinLen(1), MinLen(3), MaxLen(9), MaxLen(5)]) == narrow_facets(
        ScalarKind.STR, _split_marks(Len(3, 5))
    )
    both = narrow_facets(ScalarKind.STR, [Pattern("a+"), Pattern("b+")])
    assert both.patterns == ("a+", "b+")


class Quiet:
    """A mark that no facet of the table states: no capital letters."""


@dataclasses.dataclass(frozen=True, slots=True)
class WiderFacets(Facets):
    quiet: bool = False


@pytest.mark.parametrize("stated", [True, False])
def test_an_invented_facet_is_seen_in_the_xsd_the_json_schema_the_example_and_the_correction(
    monkeypatch, stated
):
    pattern = {"pattern": "^[^A-Z]*$"}
    invented = Facet(
        name="quiet",
        marks=(Quiet,),
        kinds=frozenset({ScalarKind.STR}),
        hint="",
        read=lambda *_: True,
        merge=lambda _, new: new,
        fits=lambda _, value: value == value.lower(),
        xsd=lambda *_: [("pattern", "[^A-Z]*")],
        json=lambda *_: (pattern, True) if stated else ({}, False),
        words=lambda *_: ["without capital letters"],
    )
    monkeypatch.setattr(facets_module, "FACETS", (*FACETS, invented))
    monkeypatch.setattr(facets_module, "NO_FACETS", WiderFacets())
    codec = GeneratedCodec(table(cls(ScalarKind.STR, Quiet(), MaxLen(5), Pattern("[a-zA-Z]+"))))
    assert 'value="[^A-Z]*"' in codec.xsd()
    schema = json_schema(codec)["properties"]["v"]
    if stated:
        assert schema["allOf"] == [pattern]
        assert schema["pattern"] == "^(?:[a-zA-Z]+)$"
    else:
        assert schema["description"].endswith("without capital letters")
    assert codec.valid(parse(codec.example()))
    wrong = parse(codec.example())
    wrong[0].text = "Loud"
    assert [each.rule.endswith("without capital letters") for each in codec.faults(wrong)] == [True]


@pytest.mark.parametrize(("facet", "kind"), ENTRIES, ids=lambda each: getattr(each, "name", str(each)))
def test_a_facet_narrows_the_json_schema_in_keywords_or_in_words(facet, kind):
    mark, _ = SHOWN[facet.name, kind]
    narrow, free = (
        json_schema(GeneratedCodec(table(made)))["properties"]["v"] for made in (cls(kind, mark), cls(kind))
    )
    assert narrow != free


def _split_marks(mark: Any) -> list[Any]:
    return list(mark) if isinstance(mark, (Interval, Len)) else [mark]
