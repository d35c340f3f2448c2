from __future__ import annotations

import math

import pytest
from lxml import etree

from agentserver.provenance.policy.quarantine import UNBOUNDED, measure_capacity, measure_fields

HEAD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">'


def bits(body: str, root: str | None = None) -> float:
    return measure_capacity(etree.fromstring(f"{HEAD}{body}</xs:schema>"), root).bits


def restrict_type(base: str, *facets: str) -> str:
    inner = "".join(f"<xs:{facet}/>" for facet in facets)
    return f'<xs:element name="a"><xs:simpleType><xs:restriction base="xs:{base}">{inner}</xs:restriction></xs:simpleType></xs:element>'


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ('<xs:element name="a" type="xs:boolean"/>', 2),
        ('<xs:element name="a" type="xs:unsignedByte"/>', 8),
        ('<xs:element name="a" type="xs:int"/>', 32),
        ('<xs:element name="a" type="xs:string"/>', UNBOUNDED),
        ('<xs:element name="a" type="xs:integer"/>', UNBOUNDED),
        ('<xs:element name="a" type="xs:string" fixed="yes"/>', 0),
        ('<xs:element name="a" type="xs:boolean" nillable="true"/>', UNBOUNDED),
        (
            restrict_type(
                "string", 'enumeration value="x"', 'enumeration value="y"', 'enumeration value="z"'
            ),
            math.log2(3),
        ),
        (restrict_type("integer", 'minInclusive value="1"', 'maxInclusive value="5"'), math.log2(5)),
        (restrict_type("positiveInteger", 'maxInclusive value="8"'), 3),
        (restrict_type("string", 'maxLength value="3"'), UNBOUNDED),
        (restrict_type("string", 'maxLength value="3"', 'pattern value="[a-d]+"'), 6 + 2),
        (restrict_type("string", 'length value="1"', 'pattern value="[abxy0-3]"'), 3 + 1),
        (restrict_type("string", 'maxLength value="3"', 'pattern value="a|b"'), UNBOUNDED),
    ],
)
def test_simple_types(body: str, wanted: float) -> None:
    assert bits(body) == pytest.approx(wanted)


def sequence(*particles: str, kind: str = "sequence", more: str = "") -> str:
    inner = "".join(f"<xs:{particle}/>" for particle in particles)
    return f'<xs:element name="a"><xs:complexType><xs:{kind}>{inner}</xs:{kind}>{more}</xs:complexType></xs:element>'


FLAG = 'element name="f" type="xs:boolean"'


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (sequence(FLAG, FLAG), 4),
        (sequence(FLAG, FLAG, kind="choice"), 3),
        (sequence(FLAG, FLAG, kind="all"), 5),
        (sequence(f'{FLAG} minOccurs="0"'), math.log2(5)),
        (sequence(f'{FLAG} minOccurs="2" maxOccurs="2"'), 4),
        (sequence(f'{FLAG} maxOccurs="2000"'), 4000 + math.log2(2001)),
        (sequence(f'{FLAG} maxOccurs="unbounded"'), UNBOUNDED),
        (sequence("any"), UNBOUNDED),
        (sequence('element ref="b"'), UNBOUNDED),
        (sequence(FLAG, 'element name="s" type="xs:string"', kind="choice"), UNBOUNDED),
        (sequence('element name="s" type="xs:string" minOccurs="0" maxOccurs="0"'), 0),
        (sequence(FLAG, "annotation"), 2),
        (sequence(FLAG, more='<xs:attribute name="n" type="xs:unsignedByte" use="required"/>'), 10),
        (sequence(FLAG, more='<xs:attribute name="n" type="xs:unsignedByte"/>'), 2 + math.log2(257)),
        (sequence(FLAG, more='<xs:attribute name="n" type="xs:string" use="prohibited"/>'), 2),
        (sequence(FLAG).replace("<xs:complexType>", '<xs:complexType mixed="true">'), UNBOUNDED),
    ],
)
def test_complex_types(body: str, wanted: float) -> None:
    assert bits(body) == pytest.approx(wanted)


def test_named_types_are_followed_and_recursion_is_unbounded() -> None:
    named = '<xs:simpleType name="t"><xs:restriction base="xs:byte"/></xs:simpleType>'
    narrower = '<xs:simpleType name="u"><xs:restriction base="t"><xs:maxInclusive value="-121"/></xs:restriction></xs:simpleType>'
    assert bits(f'{named}{narrower}<xs:element name="a" type="t"/>') == 8
    assert bits(f'{named}{narrower}<xs:element name="a" type="u"/>') == 8
    union = '<xs:simpleType name="t"><xs:union memberTypes="xs:byte xs:int"/></xs:simpleType>'
    assert bits(f'{union}<xs:element name="a" type="t"/>') == UNBOUNDED
    loop = '<xs:complexType name="c"><xs:sequence><xs:element name="n" type="c" minOccurs="0"/></xs:sequence></xs:complexType>'
    assert bits(f'{loop}<xs:element name="a" type="c"/>') == UNBOUNDED


def test_the_root_is_chosen_by_name_and_a_missing_one_is_an_error() -> None:
    two = '<xs:element name="a" type="xs:string"/><xs:element name="b" type="xs:boolean"/>'
    assert bits(two, "b") == 2
    with pytest.raises(KeyError):
        bits(two, "c")


def test_a_channel_names_its_opening() -> None:
    open_ = measure_capacity(
        etree.fromstring(f"{HEAD}{sequence(FLAG, FLAG.replace('boolean', 'string'))}</xs:schema>")
    )
    assert str(open_) == "unbounded (/a/f)"
    assert not open_.closed
    assert (
        str(measure_capacity(etree.fromstring(f"{HEAD}{sequence(FLAG)}</xs:schema>"))) == "2.0 bits a message"
    )


# What single values tell


def values(body: str) -> dict[str, float]:
    return dict(measure_fields(etree.fromstring(f"{HEAD}{body}</xs:schema>")))


def test_closed_values_are_counted_wherever_they_stand_and_text_never() -> None:
    short = (
        '<xs:simpleType name="short"><xs:restriction base="xs:string"><xs:maxLength value="3"/>'
        '<xs:pattern value="[a-d]+"/></xs:restriction></xs:simpleType>'
    )
    found = values(
        sequence(
            'element name="flag" type="xs:boolean" maxOccurs="unbounded"',
            'element name="text" type="xs:string"',
            'element name="few" type="short"',
            'element name="fixed" type="xs:string" fixed="yes"',
            'element name="size" type="xs:unsignedByte" minOccurs="0"',
            'element name="count" type="xs:integer"',
        )
        + short
    )
    assert found == {"/a/flag": 2.0, "/a/fixed": 0.0, "/a/size": 8.0}


def test_a_choice_of_values_is_closed_through_its_base_too() -> None:
    mood = (
        '<xs:simpleType name="mood"><xs:restriction base="xs:string"><xs:enumeration value="x"/>'
        '<xs:enumeration value="y"/></xs:restriction></xs:simpleType>'
    )
    derived = '<xs:simpleType name="more"><xs:restriction base="mood"/></xs:simpleType>'
    assert values('<xs:element name="a" type="more"/>' + mood + derived) == {"/a": 1.0}


def test_attributes_are_counted_whether_or_not_they_are_fixed() -> None:
    body = (
        '<xs:element name="a"><xs:complexType><xs:attribute name="b" type="xs:boolean"/>'
        '<xs:attribute name="c" type="xs:string" fixed="z"/></xs:complexType></xs:element>'
    )
    assert values(body) == {"/a/@/b": 2.0, "/a/@/c": 0.0}


def test_no_root_no_values() -> None:
    with pytest.raises(KeyError):
        measure_fields(etree.fromstring(f"{HEAD}</xs:schema>"))
