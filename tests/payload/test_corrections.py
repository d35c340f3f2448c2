"""Faults: complete, bounded, and in the schema's words alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le, Len, Lt, MaxLen, MinLen, MultipleOf
from lxml import etree

from agentserver.contract import Attribute, Element, Pattern
from agentserver.payload import corrections
from agentserver.payload.codec import GeneratedCodec
from agentserver.payload.corrections import (
    FAULTS,
    LENGTH,
    LOOKS,
    Correction,
    Part,
    Slot,
    TextRule,
    label,
    list_words,
)
from agentserver.payload.fields.describe import table
from agentserver.payload.xsd import schema
from tests.core.strategies import parse


class Colour(Enum):
    RED = "red"
    NONE = ""


@dataclass
class Item:
    sku: Annotated[str, Pattern("[A-Z]+")]
    count: Annotated[int, Ge(1), Le(9)] = 1


@dataclass
class Order:
    note: Annotated[str, MinLen(1)]
    items: Annotated[list[Item], Len(2, 3)]
    colour: Annotated[Colour, Element("the-colour")] = Colour.RED
    at: Annotated[int, Attribute("number")] = 1


ORDER = GeneratedCodec(table(Order))
ITEMS = "<items><sku>A</sku></items>" * 2


def faults(inner: str, attributes: str = "", codec: GeneratedCodec = ORDER) -> list[tuple[str, str]]:
    name, space = codec.described.root, codec.described.namespace
    element = parse(f'<{name} xmlns="{space}" {attributes}>{inner}</{name}>')
    assert not codec.valid(element)
    return [(each.path, each.rule) for each in codec.faults(element)]


def test_everything_that_is_missing_is_named_with_its_rule() -> None:
    assert faults("") == [
        ("Order", "missing element note: text of at least 1 characters"),
        ("Order", "missing element items, at least 2 of them"),
    ]


def test_values_are_explained_where_they_stand() -> None:
    inner = "<note/><items><sku>a</sku></items><items><count>0</count><sku>A</sku></items><the-colour>blue</the-colour>"
    assert faults(inner, 'number="x"') == [
        ("Order/@number", "must be integer"),
        ("Order/note", "must be text of at least 1 characters"),
        ("Order/items[1]/sku", "must be text matching [A-Z]+"),
        ("Order/items[2]/count", "must be integer from 1 to 9"),
        ("Order/the-colour", 'must be one of red, ""'),
    ]


def test_strangers_are_never_named() -> None:
    found = faults(f"<note>x</note>{ITEMS}<SECRET/><note xmlns=''/>", 'SECRET="1"')
    assert found == [
        ("Order", "has an attribute that is not allowed here"),
        ("Order", "has an element that is not allowed here; allowed: note, items, the-colour"),
        ("Order", "element note must be in the namespace of the payload"),
    ]


def test_counts_and_order_are_explained() -> None:
    assert faults(f"<note>x</note><note>x</note>{ITEMS}{ITEMS}") == [
        ("Order", "element note may occur at most once"),
        ("Order", "element items may occur at most 3 times"),
    ]
    assert faults(f"{ITEMS}<note>x</note>") == [
        ("Order", "its elements must come in the order note, items, the-colour")
    ]


def test_text_and_elements_in_the_wrong_place() -> None:
    assert faults(f"<note><b/></note>{ITEMS}tail") == [
        ("Order", "must hold elements only, no text between them"),
        ("Order/note", "must be text of at least 1 characters, without elements inside"),
    ]


def test_an_empty_class_must_stay_empty() -> None:
    codec = GeneratedCodec(table(dataclasses.make_dataclass("C", [])))
    assert faults("<a/>", codec=codec) == [("C", "must be empty")]
    assert faults(" ", codec=codec) == [("C", "must be empty")]
    assert faults("a", codec=codec) == [("C", "must hold elements only, no text between them")]


def test_a_missing_attribute_and_a_wrong_root() -> None:
    codec = GeneratedCodec(
        table(dataclasses.make_dataclass("C", [("at", Annotated[Literal[True], Attribute()])]))
    )
    assert faults("", codec=codec) == [("C", "missing attribute at: true")]
    assert codec.faults(parse("<SECRET/>")) == (
        Correction("C", "the element must be C in its own namespace"),
    )


def test_a_fault_without_a_message_is_still_a_fault() -> None:
    nil = 'xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:nil="true"'
    assert faults(f"<note>x</note>{ITEMS}", nil) == [("Order", "does not fit its schema")]


def test_faults_are_bounded_in_number_and_length() -> None:
    long = "n" * 128
    cls: Any = str
    for number in range(4):
        cls = dataclasses.make_dataclass(
            f"C{number}", [(f"{long[:120]}{number}_{index}", cls) for index in range(4)]
        )
    codec = GeneratedCodec(table(cls))
    found = faults("<x/>" * 50, codec=codec)
    assert len(found) == FAULTS
    deep = parse(codec.example().replace(">text<", "><x/><"))
    for fault in codec.faults(deep):
        assert len(fault.path) == LENGTH
        assert fault.path.endswith("...")
    choice = Enum("Many", {f"m{n}": f"{n:0>200}" for n in range(40)})  # type: ignore[misc]
    ((_, rule),) = faults(
        "<v>x</v>", codec=GeneratedCodec(table(dataclasses.make_dataclass("C", [("v", choice)])))
    )
    assert len(rule) == LENGTH


def test_a_value_that_libxml2_gives_up_on_is_a_fault() -> None:
    codec = GeneratedCodec(table(dataclasses.make_dataclass("C", [("v", Annotated[str, Pattern("a+b")])])))
    element = parse(codec.example())
    element[0].text = "a" * 60
    declared = schema.compile_schema(codec.xsd().replace("a+b", "(a|aa)+b"))  # as no declaration could
    assert not schema.accepts(declared, element)
    assert codec.faults(element) == (Correction("C/v", "must be text matching a+b"),)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (str, "text"), (Annotated[str, MaxLen(3)], "text of at most 3 characters"), (Annotated[bytes, Len(1, 2)], "base64 of 1 to 2 octets"),
        (float, "number"), (bool, "true or false"), (Annotated[Decimal, Gt(0), Lt(1)], "decimal number above 0 below 1"),
        (Annotated[int, MultipleOf(5)], "integer in steps of 5"), (Annotated[date, Ge(date(2020, 1, 1))], "date as in 2026-01-31 from 2020-01-01"),
        (Annotated[datetime, Le(datetime(2020, 1, 1, tzinfo=UTC))], "date and time as in 2026-01-31T09:30:00Z to 2020-01-01T00:00:00+00:00"),
        (Literal["a"], "a"), (Literal[1, 2], "one of 1, 2"),
    ],
)  # fmt: skip
def test_types_are_described_in_plain_text(annotation: Any, words: str) -> None:
    (only,) = table(dataclasses.make_dataclass("C", [("v", annotation)])).record.fields
    assert label(only.type) == words


def test_lists_of_words_are_bounded() -> None:
    assert list_words(["a"] * 20) == f"{', '.join(['a'] * 12)} and 8 more"
    assert list_words(["a" * 50]) == "a" * 37 + "..."


def test_the_order_of_faults_does_not_depend_on_the_run() -> None:
    @dataclass
    class Free:
        a: str
        b: int
        c: list[str] = field(default_factory=list)

    codec = GeneratedCodec(table(Free))
    element = etree.fromstring(f'<Free xmlns="{codec.described.namespace}"/>')
    assert codec.faults(element) == codec.faults(element)


@pytest.mark.parametrize("bad", [0, 500, 18_999, None])
def test_an_explanation_is_bounded_work(bad: int | None) -> None:
    asked = []

    def accepts(text: str) -> bool:
        asked.append(text)
        return text == "1"

    leaf = Part(leaf=TextRule("integer", accepts))
    part = Part(
        slots={"n": Slot("n", 0, None, lambda: leaf)},
        attributes={"at": (TextRule("integer", accepts), False)},
    )
    element = etree.Element("list", at="1")
    for number in range(19_000):
        etree.SubElement(element, "n").text = "x" if number == bad else "1"
    (fault,) = corrections.list_faults("list", part, element)
    assert len(asked) <= LOOKS
    known = bad is not None and bad < LOOKS
    assert fault.path == (f"list/n[{bad + 1}]" if known else "list")


def test_an_unexamined_field_is_not_missing() -> None:
    part = Part(slots={"n": Slot("n", 1, None, Part), "last": Slot("last", 1, 1, Part)}, ordered=True)
    element = etree.Element("list")
    for _ in range(19_000):
        etree.SubElement(element, "n")
    etree.SubElement(element, "last").set("x", "y")
    (fault,) = corrections.list_faults("list", part, element)
    assert "missing" not in fault.rule
