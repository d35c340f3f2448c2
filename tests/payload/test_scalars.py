"""Valid text decodes: each scalar kind's lexical space against the decoder, and validation that never raises."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from xml.sax.saxutils import escape

import pytest
from annotated_types import Ge, Le
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from xsdata.models.datatype import XmlDate, XmlDateTime, XmlDuration, XmlPeriod, XmlTime

from agentserver.contract import Attribute
from agentserver.guards.lineage.reading import RecentContents
from agentserver.guards.lineage.reading import _make_reader as reading
from agentserver.payload.codec import Codec, GeneratedCodec
from agentserver.payload.corrections import FAULTS, LENGTH
from agentserver.payload.fields.describe import table
from agentserver.payload.xsd_codec import Binding, XsdCodec
from tests.fuzzing import USUAL, examples

AT_ONCE = 20
"""Texts of one example: the fuzz profile looks at 100,000 of each kind."""

KIND = settings(max_examples=settings().max_examples if settings().max_examples > USUAL else examples(8))
"""The usual profile needs fewer examples here."""

SPACES = ("", " ", "\n", "\t", "\r", "\u00a0", "\u2003", "\u3000")
LETTERS = "0123456789+-.,:_eEINFinfaxTZPYMDHS=/#%A '\"\u0663\u0967\u00b2\u2167\u00a0\n\t"

NUMBERS = (
    "0", "-0", "0.1", "+1", "007", "1.", ".5", ".", "+", "-", "1e", "1e+", "1E5", "1e400", "-1e-400", "INF", "+INF", "-INF", "inf",
    "Infinity", "NaN", "nan", "-NaN", "0x1F", "1_000", "1,5", "1 2", "9" * 24, "9" * 25, "9" * 400, "9" * 1000, "9" * 1001,
    "9" * 4300, "9" * 4301, "0" * 5000, f"0.{'3' * 1000}", f"{'9' * 400}.{'9' * 400}", "9223372036854775808", "4294967296",
    "-32769", "256", "1e1_0", "\u0663", "1d", "1f", "0b1", "--1", "1-", "e5",
)  # fmt: skip
MOMENTS = (
    "2026-01-31", "2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "-0001-01-01", "9999-12-31", "10000-01-01",
    "99999999999-01-01", "2026-1-1", "20260131", "2026-W05-6", "2026-031", "2026-01-31Z", "2026-01-31+14:00", "2026-01-31-14:01",
    "09:30:00", "24:00:00", "24:00:01", "23:59:60", "09:30", "09", "093000", "09:30:00.1", "09:30:00.123456789", "09:30:00,5",
    "09:30:00Z", "09:30:00+14:00", "09:30:00-14:00", "09:30:00+14:30", "09:30:00+24:00", "09:30:00+01", "09:30:00-00:00",
    "2026-01-31T09:30:00", "2026-01-31 09:30:00", "2026-01-31t09:30:00z", "2026-01-31T24:00:00", "9999-12-31T24:00:00",
    "0000-12-31T23:59:59Z", "-2026-01-31T09:30:00", "12026-01-31T09:30:00Z", "2026-01-31T09:30:00.0000001", "2026-01-31T09:30",
    "2026-01-31T09:30:00+14:00", "2026-01-31T09:30:00.5-14:00", "2026", "2026-01", "--01-31", "---31", "--01", "--02-30",
    "P1Y2M3DT4H5M6.7S", "-P1D", "P", "PT", "P1S", "PT1H", "P99999999999999999999Y", "PT0.0000000001S", "P1.5D", "P-1D",
)  # fmt: skip
TEXTS = (
    "true", "false", "1", "0", "True", "TRUE", "yes", "", "QUJD", "QQ==", "QQ=", "Q===", "A", "QUJD QUJD", "QR==", "=QUJ", "QU=D",
    "-_-_", "dGVzdA", "DEADbeef", "abc", "0g", "0 A", "xs:string", "nobody:x", "a:b:c", "http://[", "%zz", "a b  c", "red", "RED",
)  # fmt: skip
SEEDS = (*NUMBERS, *MOMENTS, *TEXTS)


def texts(seed: int) -> list[str]:
    """Texts near the edges of every kind, the same for the same seed."""
    dice = random.Random(seed)
    return [_text(dice) for _ in range(AT_ONCE)]


def _text(dice: random.Random) -> str:
    text = list(dice.choice(SEEDS))
    for _ in range(dice.choice((0, 0, 1, 1, 2, 4))):
        place = dice.randrange(len(text) + 1)
        if dice.random() < 0.5:
            text.insert(place, dice.choice(LETTERS))
        elif text[place:]:
            text[place] = dice.choice(("", *LETTERS))
    return (
        dice.choice(SPACES[: dice.choice((1, 8))])
        + "".join(text)
        + dice.choice(SPACES[: dice.choice((1, 8))])
    )


def parse_markup(markup: str) -> Any:
    parser = etree.XMLParser(huge_tree=True, resolve_entities=False)
    return etree.fromstring(markup, parser)


def judge_element(codec: Codec, element: Any) -> bool:
    """Tell whether an element is valid; valid ones are read by every reader, the rest is explained."""
    if codec.valid(element):
        codec.decode(element)
        reading(codec, RecentContents()).read_leaves(element)
        return True
    found = codec.faults(element)
    assert 1 <= len(found) <= FAULTS
    assert all(len(fault.path) <= LENGTH and len(fault.rule) <= LENGTH for fault in found)
    return False


class Number(Enum):
    ONE = 1
    TWO = 2


class Amount(Enum):
    SMALL = Decimal("0.10")
    LARGE = Decimal("9999999999999999999999.5")


GENERATED = [
    int, float, Decimal, bool, date, time, datetime, bytes, Number, Literal[1, 2], Literal[True],
    Annotated[float, Ge(0), Le(9)], Annotated[Decimal, Ge(0)], Annotated[int, Ge(0)], Annotated[datetime, Ge(datetime(2026, 1, 1, tzinfo=UTC))],
]  # fmt: skip


def codec_of(kind: Any) -> GeneratedCodec:
    return GeneratedCodec(
        table(dataclasses.make_dataclass("C", [("v", kind), ("at", Annotated[kind, Attribute()])]))
    )


CODECS = [pytest.param(codec_of(kind), id=str(kind)) for kind in GENERATED]


@pytest.mark.parametrize("codec", CODECS)
@KIND
@given(seed=st.integers(0, 2**64))
def test_valid_text_decodes(codec: GeneratedCodec, seed: int) -> None:
    element = parse_markup(codec.example())
    own = element[0].text, element.get("at")
    for text in texts(seed):
        element[0].text, (_, at) = text, own
        element.set("at", at)
        judge_element(codec, element)
        element[0].text = own[0]
        element.set("at", text)
        judge_element(codec, element)


@pytest.mark.parametrize("codec", CODECS)
def test_every_edge_is_judged(codec: GeneratedCodec) -> None:
    element = parse_markup(codec.example())
    accepted = []
    for text in SEEDS:
        element[0].text = text
        if judge_element(codec, element):
            accepted.append(text)
    assert len(accepted) < len(SEEDS) / 2


def test_a_float_that_only_libxml2_takes_is_refused() -> None:
    codec = codec_of(float)
    element = parse_markup(codec.example())
    element[0].text = "1e"
    assert codec._schema.validate(element)
    assert not codec.valid(element)
    assert [(each.path, each.rule) for each in codec.faults(element)] == [("C/v", "must be number")]


NS = "urn:kinds:v1"
KINDS: dict[str, tuple[str, Any]] = {
    "integer": ("xs:integer", int), "long": ("xs:long", int), "byte": ("xs:unsignedByte", int),
    "decimal": ("xs:decimal", Decimal), "double": ("xs:double", float), "float": ("xs:float", float),
    "boolean": ("xs:boolean", bool), "date": ("xs:date", XmlDate), "time": ("xs:time", XmlTime),
    "moment": ("xs:dateTime", XmlDateTime), "year": ("xs:gYear", XmlPeriod), "month": ("xs:gYearMonth", XmlPeriod),
    "day": ("xs:gMonthDay", XmlPeriod), "span": ("xs:duration", XmlDuration), "base64": ("xs:base64Binary", bytes),
    "hex": ("xs:hexBinary", bytes), "uri": ("xs:anyURI", str), "token": ("xs:token", str), "tokens": ("xs:NMTOKENS", list[str]),
    "whole": ("t:whole", list[int]), "either": ("t:either", int | XmlDate | bool), "digits": ("t:digits", str),
    "choice": ("t:choice", Number), "amount": ("t:amount", Amount),
}  # fmt: skip
FORMATS = {"base64": "base64", "hex": "base16"}
KINDS_XSD = f"""<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:t="{NS}" targetNamespace="{NS}"
  elementFormDefault="qualified">
  <xs:simpleType name="whole"><xs:list itemType="xs:integer"/></xs:simpleType>
  <xs:simpleType name="either"><xs:union memberTypes="xs:integer xs:date xs:boolean"/></xs:simpleType>
  <xs:simpleType name="digits"><xs:restriction base="xs:string"><xs:pattern value="[0-9]*"/></xs:restriction></xs:simpleType>
  <xs:simpleType name="choice"><xs:restriction base="xs:integer"><xs:enumeration value="1"/><xs:enumeration value="2"/>
  </xs:restriction></xs:simpleType>
  <xs:simpleType name="amount"><xs:restriction base="xs:decimal"><xs:enumeration value="0.10"/>
    <xs:enumeration value="9999999999999999999999.5"/></xs:restriction></xs:simpleType>
  <xs:element name="kinds"><xs:complexType><xs:all>
    {"".join(f'<xs:element name="{name}" type="{kind}" minOccurs="0"/>' for name, (kind, _) in KINDS.items())}
  </xs:all></xs:complexType></xs:element>
</xs:schema>"""


def member(name: str, kind: Any) -> tuple[str, Any, Any]:
    about = {
        "type": "Element",
        "namespace": NS,
        "format": FORMATS.get(name),
        "tokens": getattr(kind, "__origin__", None) is list,
    }
    meta = {key: value for key, value in about.items() if value}
    if kind in (list[str], list[int]):
        return name, kind, field(default_factory=list, metadata=meta)
    return name, kind | None, field(default=None, metadata=meta)


Kinds = dataclasses.make_dataclass(
    "Kinds",
    [member(name, kind) for name, (_, kind) in KINDS.items()],
    namespace={"Meta": type("Meta", (), {"name": "kinds", "namespace": NS})},
)
BOUND = XsdCodec(Binding(Kinds, KINDS_XSD.encode()))


def one(name: str, text: str) -> Any:
    return parse_markup(f'<kinds xmlns="{NS}"><{name}>{escape(text)}</{name}></kinds>')


@pytest.mark.parametrize("name", KINDS)
@KIND
@given(seed=st.integers(0, 2**64))
def test_text_valid_by_a_hand_written_schema_decodes(name: str, seed: int) -> None:
    for text in texts(seed):
        judge_element(BOUND, one(name, text))


@pytest.mark.parametrize("name", KINDS)
def test_every_edge_of_a_hand_written_schema_is_judged(name: str) -> None:
    accepted = [text for text in SEEDS if judge_element(BOUND, one(name, text))]
    assert accepted


def test_the_check_calls_no_constructor() -> None:
    made = []

    @dataclass
    class Loud:
        class Meta:
            name = "kinds"
            namespace = NS

        long: int | None = field(default=None, metadata={"type": "Element", "namespace": NS})

        def __post_init__(self) -> None:
            made.append(self)

    codec = XsdCodec(Binding(Loud, KINDS_XSD.encode()))
    made.clear()
    assert codec.valid(one("long", "1"))
    assert not codec.valid(one("byte", "1"))
    assert not made


ASSERTED = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:sum:v1" elementFormDefault="qualified"
  xpathDefaultNamespace="##targetNamespace">
  <xs:element name="sum"><xs:complexType><xs:sequence>
    <xs:element name="a" type="xs:double"/><xs:element name="b" type="xs:decimal"/><xs:element name="c" type="xs:string"/>
    <xs:element name="d" type="xs:date"/></xs:sequence>
    <xs:assert test="xs:integer(a) ge 0"/><xs:assert test="b div 3 lt 7 or b * b gt 1"/>
    <xs:assert test="round(b) idiv 2 ge 0 or xs:integer(b) mod 7 ge 0"/>
    <xs:assert test="string-length(c) lt 9 or number(c) gt 1 or xs:decimal(c) gt 1"/>
    <xs:assert test="year-from-date(d) gt 0 and d + xs:dayTimeDuration('P1D') gt d"/></xs:complexType></xs:element>
</xs:schema>"""


@dataclass
class Sum:
    class Meta:
        name = "sum"
        namespace = "urn:sum:v1"

    a: float = field(metadata={"type": "Element", "namespace": "urn:sum:v1"})
    b: Decimal = field(metadata={"type": "Element", "namespace": "urn:sum:v1"})
    c: str = field(metadata={"type": "Element", "namespace": "urn:sum:v1"})
    d: XmlDate = field(metadata={"type": "Element", "namespace": "urn:sum:v1"})


SUM = XsdCodec(Binding(Sum, ASSERTED.encode(), example=Sum(1.0, Decimal(1), "1", XmlDate(2026, 1, 31))))


def parse_sum(values: dict[str, str]) -> Any:
    known = {"a": "1", "b": "1", "c": "1", "d": "2026-01-31", **values}
    inner = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in known.items())
    return parse_markup(f'<sum xmlns="urn:sum:v1">{inner}</sum>')


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_an_assertion_that_cannot_be_computed_does_not_hold(name: str) -> None:
    for text in SEEDS:
        judge_element(SUM, parse_sum({name: text}))


@KIND
@given(seed=st.integers(0, 2**64))
def test_assertions_never_raise(seed: int) -> None:
    drawn = texts(seed)
    for place in range(0, AT_ONCE - 4, 4):
        judge_element(SUM, parse_sum(dict(zip("abcd", drawn[place:], strict=False))))


def test_a_fault_below_a_prefix_has_a_place() -> None:
    element = parse_markup(f'<p:kinds xmlns:p="{NS}"><p:digits>x</p:digits></p:kinds>')
    assert not BOUND.valid(element)
    assert [each.path for each in BOUND.faults(element)] == ["kinds/digits"]
    deeper = parse_markup(f'<kinds xmlns="{NS}"><q:digits xmlns:q="{NS}">x</q:digits></kinds>')
    assert [each.path for each in BOUND.faults(deeper)] in (["kinds/digits"], ["kinds"])


@dataclass
class Listed:
    n: list[int] = field(default_factory=list)


@pytest.mark.parametrize("prefix", ["", "p:"])
@pytest.mark.parametrize("wrong", [0, 1, 19_000])
def test_a_long_list_is_judged_without_a_path_for_every_error(prefix: str, wrong: int) -> None:
    codec = GeneratedCodec(table(Listed))
    space = codec.described.namespace
    items = [f"<{prefix}n>{'x' if place >= 19_000 - wrong else 1}</{prefix}n>" for place in range(19_000)]
    named = f'xmlns:p="{space}"' if prefix else f'xmlns="{space}"'
    element = parse_markup(f"<{prefix}Listed {named}>{''.join(items)}</{prefix}Listed>")
    assert judge_element(codec, element) is not bool(wrong)
    assert len(codec._schema.error_log) <= 100
