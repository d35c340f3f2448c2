"""Codecs of dataclasses that belong to a hand-written XSD."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from lxml import etree
from xsdata.models.datatype import XmlDate

from agentserver.payload import xsd_codec
from agentserver.payload.codec import Codecs
from agentserver.payload.corrections import Correction
from agentserver.payload.fields.field_table import PayloadError
from agentserver.payload.generate import Undecodable, Unencodable
from agentserver.payload.xsd_codec import Binding, XsdCodec, bind, inline_schema
from tests.core.strategies import parse

FOLDER = Path(__file__).parents[1] / "schemas"
SCHEMA = (FOLDER / "invoice.xsd").read_bytes()
MONEY = {"money.xsd": (FOLDER / "money.xsd").read_bytes()}
NS = "urn:shop:invoice:v1"


@dataclass(frozen=True, kw_only=True)
class Line:
    text: str = field(metadata={"type": "Element", "namespace": NS})
    amount: Decimal = field(metadata={"type": "Element", "namespace": NS})


@dataclass(frozen=True, kw_only=True)
class Invoice:
    class Meta:
        name = "invoice"
        namespace = NS

    issued: XmlDate = field(metadata={"type": "Element", "namespace": NS})
    due: XmlDate = field(metadata={"type": "Element", "namespace": NS})
    line: tuple[Line, ...] = field(default_factory=tuple, metadata={"type": "Element", "namespace": NS})
    total: Decimal = field(metadata={"type": "Element", "namespace": NS})
    paper: bool | None = field(default=None, metadata={"type": "Element", "namespace": NS})
    mail: str | None = field(default=None, metadata={"type": "Element", "namespace": NS})
    note: str | None = field(default=None, metadata={"type": "Element", "namespace": NS})
    number: str = field(metadata={"type": "Attribute"})
    copies: int | None = field(default=None, metadata={"type": "Attribute"})


@dataclass(frozen=True, kw_only=True)
class Receipt:
    class Meta:
        name = "receipt"
        namespace = NS

    value: str = field(default="", metadata={"required": True})
    paid: XmlDate = field(metadata={"type": "Attribute"})


def invoice(**more: Any) -> Invoice:
    day = XmlDate(2026, 1, 31)
    known = {
        "issued": day,
        "due": day,
        "line": (Line(text="a", amount=Decimal("1.50")),),
        "total": Decimal("1.50"),
        "paper": True,
        "number": "AB-0001",
    }
    return Invoice(**{**known, **more})


CODEC = XsdCodec(Binding(Invoice, SCHEMA, MONEY))


def rules(markup: str, codec: XsdCodec = CODEC) -> list[tuple[str, str]]:
    element = parse(markup)
    assert not codec.valid(element)
    return [(each.path, each.rule) for each in codec.faults(element)]


@pytest.mark.parametrize("note", ["a\rb\n\tc", "<&>]]>", "é😀", ""])
def test_values_come_back_and_the_tree_stays(note: str) -> None:
    value = invoice(note=note, copies=2)
    element = parse(CODEC.encode(value))
    before = etree.tostring(element.getparent())
    assert CODEC.valid(element)
    assert CODEC.decode(element) == value
    assert etree.tostring(element.getparent()) == before


def test_the_example_is_the_smallest_that_validates() -> None:
    assert CODEC.example() == (
        f'<invoice xmlns="{NS}" number="AA-0000"><issued>2026-01-31</issued><due>2026-01-31</due>'
        "<line><text>text</text><amount>0</amount></line><total>0</total><paper>1</paper></invoice>"
    )
    assert CODEC.decode(parse(CODEC.example())).total == 0
    receipt = XsdCodec(Binding(Receipt, SCHEMA, MONEY))
    assert receipt.example() == f'<receipt xmlns="{NS}" paid="2026-01-31">AA-0000</receipt>'


def test_the_outline_comes_from_the_schema() -> None:
    assert [
        (each.name, each.label, each.optional, each.repeated, each.attribute) for each in CODEC.outline
    ] == [
        ("number", "text", False, False, True),
        ("copies", "one of 1, 2", True, False, True),
        ("issued", "date as in 2026-01-31", False, False, False),
        ("due", "date as in 2026-01-31", False, False, False),
        ("line", "element", False, True, False),
        ("total", "decimal number from 0 with at most 2 fractional digits", False, False, False),
        ("paper", "true or false", False, False, False),
        ("mail", "text of at most 40 characters", False, False, False),
        ("note", "text", True, False, False),
    ]


def test_assertions_are_judged_and_explained() -> None:
    assert rules(CODEC.encode(invoice(total=Decimal(2)))) == [
        ("invoice", "must satisfy sum(line/amount) eq total")
    ]
    both = CODEC.encode(invoice(total=Decimal(2), due=XmlDate(2025, 1, 1)))
    assert rules(both) == [
        ("invoice", "must satisfy due ge issued"),
        ("invoice", "must satisfy sum(line/amount) eq total"),
    ]


def test_patterns_are_judged_by_libxml2_and_explained_by_place() -> None:
    assert rules(CODEC.encode(invoice(paper=None, mail="SECRET"))) == [
        ("invoice/mail", "must match the pattern of its type")
    ]
    assert rules(CODEC.encode(invoice(number="SECRET"))) == [
        ("invoice", "must match the pattern of its type")
    ]


def test_structure_is_explained_from_the_schema() -> None:
    markup = (
        CODEC.example()
        .replace("<amount>0", "<amount>SECRET")
        .replace("</line>", "</line><SECRET/>")
        .replace(' number="AA-0000"', "")
    )
    assert rules(markup) == [
        ("invoice", "missing attribute number: text"),
        ("invoice/line[1]/amount", "must be decimal number from 0 with at most 2 fractional digits"),
    ]
    line = CODEC.example().replace("<text>text</text>", "<SECRET/>")
    assert rules(line) == [
        ("invoice/line[1]", "has an element that is not allowed here; allowed: text, amount"),
        ("invoice/line[1]", "missing element text: text"),
    ]
    assert rules(CODEC.example().replace("<paper>1</paper>", "")) == [
        ("invoice", "breaks a rule of its schema")
    ]
    assert rules("<SECRET/>") == [("invoice", "the element must be invoice in its own namespace")]


def test_libxml2_giving_up_is_a_refusal() -> None:
    parser = etree.XMLParser(resolve_entities=False)
    entity = etree.fromstring(
        '<!DOCTYPE x [<!ENTITY e "y">]>' + CODEC.example().replace("<text>", "<text>&e;"), parser
    )
    assert not CODEC.valid(entity)
    assert CODEC.faults(entity)


def test_giving_up_on_a_value_is_a_fault_without_a_place() -> None:
    codec = XsdCodec(Binding(Invoice, SCHEMA, MONEY))
    slow = etree.fromstring(etree.tostring(codec._tree).replace(b"[a-z]+@[a-z]+", b"(a|aa)+b"))
    codec._judge = xsd_codec.judge(slow)  # as no schema that is bound could
    assert rules(codec.encode(invoice(paper=None, mail="a" * 40)), codec) == [
        ("invoice", "does not fit its schema")
    ]


def test_a_large_message_with_assertions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xsd_codec, "ASSERTED_ELEMENTS", 5)
    assert rules(CODEC.example()) == [("invoice", "must hold at most 5 elements")]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "x",
        Receipt(paid=XmlDate(2026, 1, 1)),
        invoice(note="\x00"),
        invoice(note="\ufffe"),
    ],
)
def test_an_unwritable_value_is_refused(value: Any) -> None:
    with pytest.raises(Unencodable, match="Invoice"):
        CODEC.encode(value)


@pytest.mark.parametrize("value", [invoice(line=5), invoice(total="SECRET"), invoice(paper="x")])
def test_unchecked_output_of_xsdata_does_not_validate(value: Any) -> None:
    assert not CODEC.valid(parse(CODEC.encode(value)))


def test_text_refused_by_python_is_undecodable() -> None:
    def check(self: Any) -> None:
        if self.note == "refuse":
            raise ValueError("SECRET")

    strict = dataclasses.make_dataclass(
        "Strict", [], bases=(Invoice,), frozen=True, namespace={"Meta": Invoice.Meta, "__post_init__": check}
    )
    codec = XsdCodec(Binding(strict, SCHEMA, MONEY))
    element = parse(CODEC.encode(invoice(note="refuse")))
    assert codec.valid(element)
    with pytest.raises(Undecodable, match=r"^Strict: cannot be built from the element$"):
        codec.decode(element)


def test_the_schema_is_given_with_and_without_its_documentation() -> None:
    assert CODEC.xsd(documented=True) == SCHEMA.decode()
    assert "What a customer owes" not in CODEC.xsd()
    assert "Money" in CODEC.xsd()
    assert "include" not in CODEC.xsd()


def test_a_bound_class_is_found_by_codecs() -> None:
    cls = bind(
        dataclasses.make_dataclass(
            "Own", [], bases=(Invoice,), frozen=True, namespace={"Meta": Invoice.Meta}
        ),
        SCHEMA,
        folder=MONEY,
    )
    codecs = Codecs([cls])
    assert codecs.of(cls) is codecs.for_root(f"{{{NS}}}invoice")
    assert cls.__xml_name__ == f"{{{NS}}}invoice"
    assert codecs.of(cls).example()


def test_a_given_example_is_used() -> None:
    given = invoice(note="mine")
    assert "mine" in XsdCodec(Binding(Invoice, SCHEMA, MONEY, given)).example()
    with pytest.raises(PayloadError, match=r"give bind\(\.\.\., example=\.\.\.\)"):
        XsdCodec(Binding(Invoice, SCHEMA, MONEY, invoice(total=Decimal(9))))


def schema(inner: str, head: str = "") -> bytes:
    return (
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="{NS}" targetNamespace="{NS}" '
        f'elementFormDefault="qualified" {head}>{inner}</xs:schema>'
    ).encode()


def complex_type(inner: str) -> bytes:
    return schema(f'<xs:element name="invoice"><xs:complexType>{inner}</xs:complexType></xs:element>')


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"x", "not well-formed"), (b"<x/>", "root is not xs:schema"), (b"<!DOCTYPE x><x/>", "document type"), (b" " * (xsd_codec.SCHEMA_BYTES + 1), "larger than"),
        (schema('<xs:import namespace="urn:x"/>'), "xs:import is not supported; keep one"), (schema("<xs:redefine/>"), "xs:redefine"),
        (complex_type("<xs:sequence><xs:any/></xs:sequence>"), "xs:any is not supported; declare"), (complex_type("<xs:anyAttribute/>"), "xs:anyAttribute"),
        (schema('<xs:complexType name="a" mixed="true"/>'), "mixed content"), (complex_type("<xs:assert test=\"matches(a, '(a+)+b')\"/>"), "use xs:pattern"),
        (schema('<xs:simpleType name="a"><xs:restriction base="xs:string"><xs:pattern value="(ab)*|x*"/></xs:restriction></xs:simpleType>'), "must not begin or end an alternative"),
        (schema('<xs:element name="other" type="xs:string"/>'), "declares no global element"), (schema('<xs:element name="a" type="b"/>'), "is no XSD 1.0"),
        (schema('<xs:element name="invoice" type="xs:string"/>'), "generated from this schema"),
        (complex_type('<xs:sequence/><xs:assert test="((("/>'), "schema: "), (schema("<xs:annotation/>" * 2001), "more than 2000 elements"),
        (schema('<xs:include schemaLocation="none.xsd"/>'), "'none.xsd', which is not a file"), (schema("<xs:include/>"), "'', which is not a file"),
    ],
)  # fmt: skip
def test_a_schema_that_is_not_safe_or_does_not_fit_is_refused(document: bytes, reason: str) -> None:
    with pytest.raises(PayloadError, match=reason):
        XsdCodec(Binding(Invoice, document))


def test_includes_are_put_in_place_once() -> None:
    nested = {
        "a.xsd": schema(
            '<xs:include schemaLocation="b.xsd"/><xs:simpleType name="A"><xs:restriction base="B"/></xs:simpleType>'
        ),
        "b.xsd": schema(
            '<xs:include schemaLocation="a.xsd"/><xs:simpleType name="B"><xs:restriction base="xs:string"/></xs:simpleType>'
        ),
    }
    tree = inline_schema(
        schema('<xs:include schemaLocation="a.xsd"/><xs:element name="r" type="A"/>'), nested
    )
    assert sorted(each.get("name") for each in tree) == ["A", "B", "r"]
    assert etree.XMLSchema(etree.fromstring(etree.tostring(tree))).validate(
        etree.fromstring(f'<r xmlns="{NS}">x</r>')
    )


@pytest.mark.parametrize(
    "other",
    [
        schema("").replace(NS.encode(), b"urn:other"),
        schema("", 'xmlns:p="urn:p"'),
        schema("", 'blockDefault="#all"'),
    ],
)
def test_an_include_must_agree_with_its_schema(other: bytes) -> None:
    with pytest.raises(PayloadError, match=r"'a\.xsd' differs"):
        inline_schema(schema('<xs:include schemaLocation="a.xsd"/>'), {"a.xsd": other})


def test_a_class_that_lacks_an_attribute_of_the_schema_drops_nothing() -> None:
    hints = get_type_hints(Invoice)
    kept = [
        (each.name, hints[each.name], field(default=each.default, metadata=each.metadata))
        for each in dataclasses.fields(Invoice)
        if each.name != "copies"
    ]
    lacking = dataclasses.make_dataclass("Lacking", kept, kw_only=True, namespace={"Meta": Invoice.Meta})
    codec = XsdCodec(Binding(lacking, SCHEMA, MONEY))
    element = parse(CODEC.encode(invoice(copies=2)))
    assert not codec.valid(element)
    with pytest.raises(Undecodable, match="Lacking"):
        codec.decode(element)


def test_a_class_that_converts_more_than_its_schema_is_refused() -> None:
    wrong = dataclasses.make_dataclass(
        "Wrong",
        [("number", int, field(metadata={"type": "Attribute"}))],
        bases=(Invoice,),
        frozen=True,
        kw_only=True,
        namespace={"Meta": Invoice.Meta},
    )
    with pytest.raises(PayloadError, match="was it generated from this schema"):
        XsdCodec(Binding(wrong, SCHEMA, MONEY))


@pytest.mark.parametrize("cls", [Line, int, type("Plain", (), {})])
def test_only_the_class_of_a_global_element_can_be_bound(cls: type) -> None:
    with pytest.raises(PayloadError, match=r"has no Meta\.namespace"):
        bind(cls, SCHEMA)


@dataclass
class Node:
    class Meta:
        name = "node"
        namespace = NS

    v: str | None = field(default=None, metadata={"type": "Element", "namespace": NS})
    node: list[Node] = field(default_factory=list, metadata={"type": "Element", "namespace": NS})


def test_a_schema_may_recur() -> None:
    document = schema(
        '<xs:element name="node" type="Node"/><xs:complexType name="Node"><xs:sequence><xs:element name="v" type="xs:string" minOccurs="0"/>'
        '<xs:element ref="node" minOccurs="0" maxOccurs="2"/></xs:sequence></xs:complexType>'
    )
    codec = XsdCodec(Binding(Node, document))
    value = Node("a", [Node("b", [Node()])])
    assert codec.decode(parse(codec.encode(value))) == value
    markup = codec.encode(value).replace("<v>b</v>", "<v>b</v><v>c</v>")
    assert codec.faults(parse(markup)) == (Correction("node/node[1]", "element v may occur at most once"),)


def test_an_endless_example_is_not_built() -> None:
    document = schema(
        '<xs:element name="node" type="Node"/><xs:complexType name="Node"><xs:sequence><xs:element ref="node"/></xs:sequence></xs:complexType>'
    )
    with pytest.raises(PayloadError, match="no example validates"):
        XsdCodec(Binding(Node, document))
