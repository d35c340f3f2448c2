"""The XSD text: its content, its form, and its compilation by every parser."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
import xmlschema
from annotated_types import Ge, Gt, Le, Len, Lt, MaxLen, MultipleOf
from lxml import etree

from agentserver.contract import Attribute, Element, Pattern
from agentserver.hygiene.simple_types import Judge, Lexical
from agentserver.payload.codec import GeneratedCodec
from agentserver.payload.fields.describe import table
from agentserver.payload.fields.facets import find_objection, multiples
from agentserver.payload.fields.lexical import ScalarKind
from agentserver.payload.xsd import schema
from tests.core.strategies import parse


class Colour(Enum):
    RED = "red"


@dataclass
class Item:
    """One line.

    Args:
        sku: the ordered article.
    """

    sku: Annotated[str, Pattern("[A-Z]+"), Len(1, 8)]


@dataclass
class Order:
    """An order.

    Args:
        note: said <to> the shop.
        colour: the colour.
        made: made afresh.
    """

    note: Annotated[str, Element("shop-note")]
    items: Annotated[list[Item], Len(2, 5)]
    at: Annotated[int, Attribute(), Ge(0), Lt(10)]
    colour: Colour = Colour.RED
    flag: Literal[True] = True
    empty: str = ""
    none: str | None = None
    item: Item = dataclasses.field(default_factory=lambda: Item("A"))
    made: str = field(default_factory=str)


def test_the_schema_reads_like_one() -> None:
    assert schema.text(table(Order)) == (
        '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:agentserver:payload:Order:v1" '
        'targetNamespace="urn:agentserver:payload:Order:v1" elementFormDefault="qualified">\n'
        '  <xs:element name="Order" type="Order"/>\n'
        '  <xs:complexType name="Order">\n'
        "    <xs:sequence>\n"
        '      <xs:element name="shop-note" type="xs:string"/>\n'
        '      <xs:element name="items" minOccurs="2" maxOccurs="5" type="Item"/>\n'
        '      <xs:element name="colour" minOccurs="0">\n'
        "        <xs:simpleType>\n"
        '          <xs:restriction base="xs:string">\n'
        '            <xs:enumeration value="red"/>\n'
        "          </xs:restriction>\n"
        "        </xs:simpleType>\n"
        "      </xs:element>\n"
        '      <xs:element name="flag" minOccurs="0">\n'
        "        <xs:simpleType>\n"
        '          <xs:restriction base="xs:boolean">\n'
        '            <xs:pattern value="true"/>\n'
        '            <xs:pattern value="1"/>\n'
        "          </xs:restriction>\n"
        "        </xs:simpleType>\n"
        "      </xs:element>\n"
        '      <xs:element name="empty" minOccurs="0" type="xs:string"/>\n'
        '      <xs:element name="none" minOccurs="0" type="xs:string"/>\n'
        '      <xs:element name="item" minOccurs="0" type="Item"/>\n'
        '      <xs:element name="made" minOccurs="0" type="xs:string"/>\n'
        "    </xs:sequence>\n"
        '    <xs:attribute name="at" use="required">\n'
        "      <xs:simpleType>\n"
        '        <xs:restriction base="integer">\n'
        '          <xs:minInclusive value="0"/>\n'
        '          <xs:maxExclusive value="10"/>\n'
        "        </xs:restriction>\n"
        "      </xs:simpleType>\n"
        "    </xs:attribute>\n"
        "  </xs:complexType>\n"
        '  <xs:complexType name="Item">\n'
        "    <xs:all>\n"
        '      <xs:element name="sku">\n'
        "        <xs:simpleType>\n"
        '          <xs:restriction base="xs:string">\n'
        '            <xs:minLength value="1"/>\n'
        '            <xs:maxLength value="8"/>\n'
        '            <xs:pattern value="[A-Z]+"/>\n'
        "          </xs:restriction>\n"
        "        </xs:simpleType>\n"
        "      </xs:element>\n"
        "    </xs:all>\n"
        "  </xs:complexType>\n"
        '  <xs:simpleType name="integer">\n'
        '    <xs:restriction base="xs:integer">\n'
        '      <xs:pattern value="[+\\-]?[0-9]{1,1000}"/>\n'
        "    </xs:restriction>\n"
        "  </xs:simpleType>\n"
        "</xs:schema>\n"
    )


def test_a_default_that_is_an_element_is_not_written_out() -> None:
    point = dataclasses.make_dataclass("Point", [("x", int, 1)], frozen=True)
    documented = schema.text(
        table(dataclasses.make_dataclass("C", [("p", point, point(5))])), documented=True
    )
    assert [each.text for each in etree.fromstring(documented).iter("{*}documentation")] == ["Default: 1."]


def test_documentation_is_in_the_documented_form_alone() -> None:
    documented = schema.text(table(Order), documented=True)
    found = [each.text for each in etree.fromstring(documented).iter("{*}documentation")]
    assert found == [
        "An order.", "said <to> the shop.", "the colour. Default: red.", "Default: true.", "Default: empty.", "made afresh.",
        "One line.", "the ordered article.",
    ]  # fmt: skip
    assert "documentation" not in schema.text(table(Order))
    assert xmlschema.XMLSchema(documented) is not None


MULTIPLES: list[tuple[Any, range]] = [
    (step, range(-2500, 2500)) for step in (1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 250, 500, 1000)
]


@pytest.mark.parametrize(("step", "numbers"), MULTIPLES)
def test_a_step_accepts_its_multiples_alone(step: int, numbers: range) -> None:
    codec = GeneratedCodec(table(dataclasses.make_dataclass("C", [("v", Annotated[int, MultipleOf(step)])])))
    assert accepted_texts(codec, map(str, numbers)) == [
        str(number) for number in numbers if number % step == 0
    ]
    assert accepted_texts(codec, [f"+000{step}", f"00{step}1" if step > 1 else "x", "000"]) == [
        f"+000{step}",
        "000",
    ]


@pytest.mark.parametrize(
    ("step", "good", "bad"),
    [
        ("0.01", ["1", "1.5", "1.50", "1.500", "-.25", "0"], ["1.501", "0.001"]),
        ("1", ["5", "5.", "5.00", "-0"], ["5.1", ".5"]),
        ("10", ["0", "10", "-20.0", "100", ".0", "0."], ["5", "10.5", "1", "11"]),
        ("100", ["0", "100", "1200.00", "00"], ["10", "110", "1"]),
    ],
)
def test_a_decimal_step_is_a_power_of_ten(step: str, good: list[str], bad: list[str]) -> None:
    codec = GeneratedCodec(
        table(dataclasses.make_dataclass("C", [("v", Annotated[Decimal, MultipleOf(Decimal(step))])]))
    )
    assert accepted_texts(codec, [*good, *bad]) == good


def accepted_texts(codec: GeneratedCodec, texts: Any) -> list[str]:
    return [
        text
        for text in texts
        if codec.valid(parse(f'<C xmlns="{codec.described.namespace}"><v>{text}</v></C>'))
    ]


def test_each_pattern_is_a_derivation_of_its_own() -> None:
    cls = dataclasses.make_dataclass(
        "C", [("v", Annotated[str, Pattern("[a-z]+"), Pattern("[^x]*x.*"), MaxLen(3)])]
    )
    assert accepted_texts(GeneratedCodec(table(cls)), ["axb", "x", "abc", "axbb", "AxB"]) == ["axb", "x"]


def test_a_class_without_fields_is_an_empty_element() -> None:
    codec = GeneratedCodec(table(dataclasses.make_dataclass("C", [])))
    assert codec.example() == '<C xmlns="urn:agentserver:payload:C:v1"></C>'
    assert not codec.valid(parse('<C xmlns="urn:agentserver:payload:C:v1"><a/></C>'))


@pytest.mark.parametrize("bound", [Ge(0), Gt(-1), Le(9), Lt(10)])
def test_both_ends_of_both_kinds_hold(bound: Any) -> None:
    codec = GeneratedCodec(table(dataclasses.make_dataclass("C", [("v", Annotated[int, bound])])))
    found = accepted_texts(codec, ["-1", "0", "9", "10"])
    assert found == (["0", "9", "10"] if isinstance(bound, (Ge, Gt)) else ["-1", "0", "9"])


@pytest.mark.parametrize("regex", [pattern for _, pattern in schema._SHARED.values()])
def test_the_schemas_own_patterns_are_of_the_dialect(regex: str) -> None:
    assert find_objection(regex) == ""


@pytest.mark.parametrize("step", [1, 2, 8, 25, 40, 125, 1000, 10**5])
@pytest.mark.parametrize("kind", [ScalarKind.INT, ScalarKind.DECIMAL])
def test_libxml2_reads_the_patterns_of_steps_rightly(step: int, kind: ScalarKind) -> None:
    """They are not of the dialect: a number may end in any of the digits that it has before."""
    if kind is ScalarKind.DECIMAL and set(str(step)) - set("10"):
        return
    regex = multiples(kind, Decimal(step))
    judge = Judge({"v": Lexical((regex,))})
    numbers = [
        *range(0, 3000, 1 if step < 1000 else 7),
        *range(0, 50 * step, step),
        *range(1, 50 * step, max(step // 3, 1)),
    ]
    for text in (*map(str, numbers), "", "+", "-0", "+40", "0x", "12a", "1.0", "00", "-", "0.", "1000000"):
        assert judge.judge("v", text) is bool(re.fullmatch(regex, text))


def test_the_leaves_never_meet_the_root() -> None:
    cls = dataclasses.make_dataclass("C", [("v", str), ("w", Annotated[int, Attribute()])])
    payload = table(cls, name="leaf0")
    judge, names = schema.leaves(payload)
    assert set(names) == {("C", "v"), ("C", "w")}
    assert judge.validate(
        etree.fromstring(f'<{names["C", "w"]} xmlns="{payload.namespace}">5</{names["C", "w"]}>')
    )
    assert not judge.validate(
        etree.fromstring(f'<{names["C", "w"]} xmlns="{payload.namespace}">x</{names["C", "w"]}>')
    )
