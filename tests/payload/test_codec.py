"""The laws of a codec: schema, example, decoder and encoder of a class agree."""

from __future__ import annotations

import dataclasses
import math
from copy import deepcopy
from dataclasses import dataclass, field, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal

import pytest
import xmlschema
from annotated_types import Ge, Len
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree
from xsdata.formats.dataclass.parsers import XmlParser
from xsdata.formats.dataclass.serializers import XmlSerializer

from agentserver.contract import SYSTEM_PAYLOADS, Attribute, Element, SystemError, TodoUntil
from agentserver.flow.lines import FlowEvent, FlowLine
from agentserver.payload.codec import Codecs, GeneratedCodec
from agentserver.payload.fields.describe import table
from agentserver.payload.fields.facets import NO_FACETS
from agentserver.payload.fields.field_table import PayloadError, Scalar
from agentserver.payload.fields.lexical import ScalarKind
from agentserver.payload.generate import Undecodable, Unencodable, is_assured, is_doubtful
from agentserver.payload.xmlify import describe, xmlify
from agentserver.payload.xsd import schema
from tests.core.strategies import SCALARS, classes, parse, values
from tests.fuzzing import examples

LAW = settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
ODD = (
    "", " ", " 5 ", "+5", "-0", "5.", ".5", "1e5", "1e400", "-1e400", "NaN", "INF", "+INF", "infinity", "1_0", "0x10",
    "9" * 5000, "0" * 5000 + "1", "." + "1" * 5000, "٥", "true", " 1 ", "TRUE", "2026-01-31", " 2026-01-31 ",
    "2026-02-30", "2026-01-31Z", "0000-01-01", "12345-01-01", "-0001-01-01", "20260131", "24:00:00", "09:30",
    "09:30:00.1234567", "09:30:60", "09:30:00+14:00", "09:30:00-14:01", "2026-01-31T24:00:00", "2026-01-31T09:30:00Z",
    "2026-01-31T09:30:00.1234567Z", "2026-W05-6", "0001-01-01T00:00:00+14:00", "QUJD", "Q U I =", "@@@@", "QQ=@=", "Q",
    "red", " red ", "+1", "01", "-20", "AA-1", "a", "x", "b c", "\n5\t",
)  # fmt: skip


@dataclass
class Plain:
    """Scalars of the kinds that go without a second look."""

    count: int
    price: float
    urgent: bool
    note: str
    place: Annotated[int, Attribute()]


def nodes(element: Any) -> list[Any]:
    return [each for each in element.iter() if not len(each)]


@LAW
@given(classes(), st.data())
def test_an_encoded_payload_is_valid_and_decodes_to_itself(cls: type, data: st.DataObject) -> None:
    codec = GeneratedCodec(table(cls))
    value = data.draw(values(codec.described.record))
    markup = codec.encode(value)
    element = parse(markup)
    assert codec.valid(element)
    assert codec.valid_own(element, len(markup))
    assert codec.decode(element) == value


def test_the_shortest_wide_element_is_longer_than_any_uncounted_one() -> None:
    for children in (schema.WIDE, schema.WIDE + 1):
        markup = f"<r>{'<a/>' * children}</r>"
        assert schema.is_wide(parse(markup)) == (children > schema.WIDE)
        assert len(markup) > schema.NARROW or children <= schema.WIDE


NUMBERS = st.integers() | st.floats() | st.sampled_from([10**1000 - 1, -(10**1000) + 1, 10**1000, 10**400])


@LAW
@given(NUMBERS, NUMBERS, st.booleans(), st.text())
def test_encoded_text_is_as_valid_without_a_check_of_each_scalar(
    count: Any, price: Any, urgent: bool, note: str
) -> None:
    codec = GeneratedCodec(table(Plain))
    try:
        markup = codec.encode(Plain(count, price, urgent, note, count))
    except Unencodable:
        return
    element = parse(markup)
    assert codec.valid_own(element, len(markup)) == codec.valid(element)
    if codec.valid_own(element, len(markup)):
        codec.decode(element)


@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_only_text_numbers_and_truth_values_go_without_that_look(kind: Any) -> None:
    described = table(dataclasses.make_dataclass("Single", [("value", kind)]))
    scalar = described.record.fields[0].type
    quick = {ScalarKind.STR, ScalarKind.INT, ScalarKind.FLOAT, ScalarKind.BOOL}
    assert is_doubtful(described) == (bool(scalar.choices) or scalar.kind not in quick)


@LAW
@given(
    st.text(),
    st.text(),
    st.integers(-(10**30), 10**30) | st.text(),
    st.text() | st.sampled_from(["ask", "tell"]),
)
def test_what_an_assured_codec_writes_needs_no_schema(key: str, text: str, line: Any, kind: Any) -> None:
    codec = GeneratedCodec(table(FlowLine))
    assert codec.assured
    event = FlowEvent(kind, text, key, line)
    try:
        markup = codec.encode(FlowLine(key, text, events=[event, event]))
    except Unencodable:
        return
    element = parse(markup)
    assert codec.valid(element)
    assert codec.decode(element).events == [event, event]


@LAW
@given(classes())
def test_a_limit_of_any_field_leaves_a_codec_unassured(cls: type) -> None:
    described = table(cls)
    limited = any(
        each.minimum
        or each.maximum is not None
        or (isinstance(each.type, Scalar) and each.type.facets != NO_FACETS)
        for record in described.records
        for each in record.fields
    )
    assert not (limited and is_assured(described))


@LAW
@given(classes())
def test_the_example_validates_in_both_validators_and_decodes(cls: type) -> None:
    codec = GeneratedCodec(table(cls))
    element = parse(codec.example())
    assert codec.valid(element)
    assert isinstance(codec.decode(element), cls)
    assert GeneratedCodec(table(cls)).example() == codec.example()
    schema = xmlschema.XMLSchema(codec.xsd())
    assert not list(schema.iter_errors(etree.fromstring(codec.example())))
    assert xmlschema.XMLSchema(codec.xsd(documented=True)) is not None


@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_text_accepted_by_libxml2_decodes(kind: Any) -> None:
    cls = dataclasses.make_dataclass("C", [("v", kind), ("at", Annotated[kind, Attribute()])])
    codec = GeneratedCodec(table(cls))
    own = parse(codec.example())[0].text
    accepted = {
        text for text in (own, f" {own}", f"{own}\n", f"+{own}", f"0{own}", *ODD) if _is_accepted(codec, text)
    }
    assert own in accepted


def _is_accepted(codec: GeneratedCodec, text: str) -> bool:
    """Tell whether the text is valid; valid text must decode, invalid text must be explained."""
    element = parse(codec.example())
    element[0].text = text
    element.set("at", text)
    element = parse(etree.tostring(element, encoding="unicode"))
    if not codec.valid(element):
        assert codec.faults(element)
        return False
    codec.decode(element)
    return True


@LAW
@given(classes(), st.data())
def test_a_mutilated_document_decodes_or_is_explained(cls: type, data: st.DataObject) -> None:
    codec = GeneratedCodec(table(cls))
    element = parse(codec.encode(data.draw(values(codec.described.record))))
    for _ in range(data.draw(st.integers(1, 3))):
        _mutilate(element, data)
    element = parse(etree.tostring(element, encoding="unicode", with_tail=False))
    if codec.valid(element):
        codec.decode(element)
        return
    found = codec.faults(element)
    assert 1 <= len(found) <= 8
    for fault in found:
        assert len(fault.path) <= 300
        assert len(fault.rule) <= 300
        assert "SECRET" not in fault.path + fault.rule
        assert "does not fit" not in fault.rule or "}SECRET" in str(element.attrib)


def _mutilate(element: Any, data: st.DataObject) -> None:
    every = list(element.iter())
    target = data.draw(st.sampled_from(every))
    act = data.draw(st.sampled_from(("text", "drop", "double", "stranger", "attribute", "swap", "loose")))
    if act == "text":
        target.text = data.draw(st.sampled_from((*ODD, "SECRET")))
    elif act == "drop" and target is not element:
        target.getparent().remove(target)
    elif act == "double" and target is not element:
        target.addnext(deepcopy(target))
    elif act == "stranger":
        target.append(etree.Element(data.draw(st.sampled_from(("SECRET", "{urn:x}SECRET", "f0")))))
    elif act == "attribute":
        target.set(data.draw(st.sampled_from(("SECRET", "f0"))), "SECRET")
    elif act == "swap" and len(target) > 1:
        target.append(target[0])
    elif act == "loose":
        target.tail = "SECRET"


class Mood(StrEnum):
    GOOD = "good"
    BAD = "bad"


@dataclass
class Known:
    class Meta:
        name = "Known"
        namespace = "urn:agentserver:payload:Known:v1"

    text: str
    count: int
    ratio: float
    flag: bool
    price: Decimal
    note: str | None = None
    tags: list[str] = field(default_factory=list)
    mood: Mood = Mood.GOOD


@LAW
@given(st.data())
def test_xsdata_reads_and_writes_the_same(data: st.DataObject) -> None:
    codec = GeneratedCodec(table(Known))
    value = data.draw(values(codec.described.record))
    assert XmlParser().from_bytes(codec.encode(value).encode(), Known) == value
    markup = XmlSerializer().render(value).partition("?>")[2].strip()
    if "\r" not in markup:  # xsdata's own writer loses it
        element = parse(markup)
        assert codec.valid(element)
        assert codec.decode(element) == value


@dataclass(frozen=True)
class Inner:
    sku: str
    count: int = 1


class Rank(IntEnum):
    FIRST = 1


@dataclass(frozen=True)
class Full:
    text: str = ""
    whole: int = 0
    ratio: float = 0.0
    flag: bool = False
    price: Decimal = Decimal(0)
    day: date = date(2026, 1, 1)
    clock: time = time(0)
    moment: datetime = datetime(2026, 1, 1)  # noqa: DTZ001 - naive on purpose
    raw: bytes = b""
    mood: Mood = Mood.GOOD
    inner: Inner = Inner("a")
    inners: tuple[Inner, ...] = ()
    words: list[str] = field(default_factory=list)
    maybe: Inner | None = None
    at: Annotated[str, Attribute()] = ""
    choice: Literal["a", 'b"<&\n'] = "a"


class NowhereZone(tzinfo):
    def utcoffset(self, when: datetime | None) -> None:
        return None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", 5), ("text", None), ("text", "a\x00b"), ("text", "\ud800"), ("text", "é\ufffe"), ("text", b"x"),
        ("whole", True), ("whole", 1.0), ("whole", 10**1000), ("whole", "5"),
        ("ratio", True), ("ratio", "1"), ("ratio", 10**400), ("ratio", Decimal(1)), ("flag", 1), ("flag", None),
        ("price", 1.5), ("price", True), ("price", Decimal("NaN")), ("price", Decimal("Infinity")),
        ("price", Decimal("1E+1000000")), ("price", Decimal("1E-1001")),
        ("day", datetime(2026, 1, 1, tzinfo=UTC)), ("day", "2026-01-01"), ("clock", datetime(2026, 1, 1, tzinfo=UTC)),
        ("clock", time(0, tzinfo=NowhereZone())), ("clock", time(0, tzinfo=timezone(timedelta(hours=15)))),
        ("moment", date(2026, 1, 1)), ("moment", datetime(2026, 1, 1, tzinfo=timezone(timedelta(seconds=30)))),
        ("raw", "x"), ("raw", bytearray(b"x")), ("mood", "good"), ("mood", Rank.FIRST), ("inner", "a"), ("inner", None),
        ("inners", Inner("a")), ("inners", ("a",)), ("words", "ab"), ("words", [1]), ("words", ["a\x01"]),
        ("at", "\x0b"), ("at", 1), ("choice", "c"), ("choice", ["unhashable"]), ("maybe", "a"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_by_field(name: str, value: Any) -> None:
    codec = GeneratedCodec(table(Full))
    wrong = dataclasses.replace(Full(), **{name: value})
    with pytest.raises(Unencodable, match=f"Full.{name}: ") as caught:
        codec.encode(wrong)
    assert len(str(caught.value)) < 120


def test_a_wrong_value_inside_is_refused_by_its_own_field() -> None:
    codec = GeneratedCodec(table(Full))
    for value in (
        Full(inner=Inner("\x00")),
        Full(inners=(Inner("a"), Inner("\x00"))),
        Full(maybe=Inner("\x00")),
    ):
        with pytest.raises(Unencodable, match=r"Inner\.sku"):
            codec.encode(value)
    with pytest.raises(Unencodable, match=r"Inner\.count"):
        codec.encode(Full(inner=Inner("a", "b")))  # type: ignore[arg-type]


def test_only_the_class_itself_is_encoded() -> None:
    class MoreFull(Full):
        pass

    for other in (MoreFull(), Inner("a"), None, "x"):
        with pytest.raises(Unencodable, match="must be Full"):
            GeneratedCodec(table(Full)).encode(other)
    missing = Full.__new__(Full)
    object.__delattr__(missing, "text") if "text" in missing.__dict__ else None
    object.__setattr__(missing, "words", None)
    with pytest.raises(Unencodable):
        GeneratedCodec(table(Full)).encode(missing)


def test_a_deleted_field_is_refused() -> None:
    @dataclass(slots=True)
    class Slotted:
        a: str

    value = Slotted("x")
    del value.a
    with pytest.raises(Unencodable, match="lacks one of its fields"):
        GeneratedCodec(table(Slotted)).encode(value)


def test_near_types_are_written_as_their_own() -> None:
    codec = GeneratedCodec(table(Full))
    value = Full(text=Mood.GOOD, whole=Rank.FIRST, ratio=Rank.FIRST, price=5)  # type: ignore[arg-type]
    assert codec.decode(parse(codec.encode(value))) == Full(text="good", whole=1, ratio=1.0, price=Decimal(5))


@pytest.mark.parametrize(
    "text", ["a\rb\n\tc", "]]>", "<m>&amp;</m>", "\"'", " a ", "", "\u0085\u2028", "😀", "<!-- x -->"]
)
def test_text_survives_in_elements_and_attributes(text: str) -> None:
    codec = GeneratedCodec(table(Full))
    value = Full(text=text, at=text, words=[text], choice='b"<&\n')
    assert codec.decode(parse(codec.encode(value))) == value


def test_floats_keep_nan() -> None:
    codec = GeneratedCodec(table(Full))
    assert math.isnan(codec.decode(parse(codec.encode(Full(ratio=math.nan)))).ratio)
    assert codec.decode(parse(codec.encode(Full(ratio=-math.inf)))).ratio == -math.inf


def test_a_bounded_float_is_never_nan() -> None:
    codec = GeneratedCodec(table(dataclasses.make_dataclass("C", [("v", Annotated[float, Ge(0)])])))
    element = parse(codec.example().replace(">1.5<", ">NaN<"))
    assert "NaN" in etree.tostring(element).decode()
    assert not codec.valid(element)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (time, "09:30:00.123456", "09:30:00.1234567"),
        (datetime, "2026-01-31T09:30:00.123456Z", "2026-01-31T09:30:00.1234567Z"),
        (date, "2026-01-31", "2026-01-31Z"),
        (bytes, "QQ==", "QQ=@="),
    ],
)
def test_nothing_is_cut_without_a_word(kind: type, good: str, bad: str) -> None:
    codec = GeneratedCodec(table(dataclasses.make_dataclass("C", [("v", kind)])))
    element = parse(codec.example())
    element[0].text = good
    assert codec.valid(element)
    element[0].text = bad
    assert not codec.valid(element)


def test_an_absent_field_is_none_or_the_default_and_an_empty_one_empty() -> None:
    @dataclass
    class Some:
        a: str | None = None
        b: str = "b"
        c: list[str] = field(default_factory=list)
        d: str = field(default_factory=lambda: "made")

    codec = GeneratedCodec(table(Some))
    root = 'xmlns="urn:agentserver:payload:Some:v1"'
    assert codec.decode(parse(f"<Some {root}/>")) == Some(None, "b", [], "made")
    assert codec.decode(parse(f"<Some {root}><a/><b/><c/><d/></Some>")) == Some("", "", [""], "")


def test_order_is_free_where_nothing_repeats() -> None:
    @dataclass
    class Free:
        a: str
        b: int
        c: bool = True

    codec = GeneratedCodec(table(Free))
    element = parse('<Free xmlns="urn:agentserver:payload:Free:v1"><b>1</b><a>x</a></Free>')
    assert codec.valid(element)
    assert codec.decode(element) == Free("x", 1)


def test_decoding_does_not_change_the_element() -> None:
    codec = GeneratedCodec(table(Full))
    element = parse(codec.encode(Full(words=["a"])))
    before = etree.tostring(element.getparent())
    codec.valid(element)
    codec.decode(element)
    codec.faults(element)
    assert etree.tostring(element.getparent()) == before


def test_libxml2_giving_up_is_a_refusal() -> None:
    codec = GeneratedCodec(table(Full))
    entity = etree.fromstring(
        '<!DOCTYPE x [<!ENTITY e "y">]>' + codec.example().replace("<text>", "<text>&e;"),
        etree.XMLParser(resolve_entities=False),
    )
    assert not codec.valid(entity)


def test_a_constructor_may_refuse_a_valid_element() -> None:
    @dataclass
    class Pair:
        low: int
        high: int

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("SECRET")

    codec = GeneratedCodec(table(Pair))
    element = parse(codec.example().replace("<low>1", "<low>2"))
    assert codec.valid(element)
    with pytest.raises(Undecodable, match=r"^.*Pair: its constructor refuses the values$"):
        codec.decode(element)


def test_hints_of_schema_locations_open_nothing() -> None:
    codec = GeneratedCodec(table(Inner))
    element = parse(
        '<Inner xmlns="urn:agentserver:payload:Inner:v1" xmlns:i="http://www.w3.org/2001/XMLSchema-instance" '
        'i:schemaLocation="urn:x /nowhere/at/all.xsd"><sku>a</sku></Inner>'
    )
    assert codec.valid(element)


@xmlify
@dataclass
class Ping:
    text: str


def test_codecs_hold_the_system_and_the_given_classes() -> None:
    codecs = Codecs([Ping])
    assert codecs.of(Ping) is codecs.for_root(Ping.__xml_name__)  # type: ignore[attr-defined]
    assert codecs.for_root("{urn:agentserver:system:v1}SystemError") is codecs.of(SystemError)
    assert [each.payload for each in codecs] == [*SYSTEM_PAYLOADS, Ping]
    assert codecs.for_root("{urn:x}none") is None
    assert codecs.of(TodoUntil).decode(parse(codecs.of(TodoUntil).example()))
    assert codecs.add(codecs.of(Ping)) is codecs.of(Ping)


def test_codecs_learn_a_class_when_they_meet_it() -> None:
    codecs = Codecs()
    codec = codecs.of(Ping)
    assert codec is codecs.of(Ping)
    assert codecs.for_root(codec.name) is codec
    assert Codecs().of(Ping) is codec  # the decorator has made it


@pytest.mark.parametrize("wrong", [Inner, type("Sub", (Ping,), {}), int, "Ping", None, Ping("x"), []])
def test_codecs_refuse_classes_that_are_no_payload(wrong: Any) -> None:
    with pytest.raises(PayloadError, match="is not a payload") as refused:
        Codecs().of(wrong)
    advice = (
        "put @xmlify above @dataclass" if is_dataclass(wrong) else "a payload is a dataclass with @xmlify"
    )
    assert str(refused.value).endswith(advice)


def test_a_copy_of_a_payload_class_is_no_payload() -> None:
    copy = type("Ping", (), {**vars(Ping), "__dict__": None})
    assert copy.__payload__.cls is Ping  # type: ignore[attr-defined]
    with pytest.raises(PayloadError, match="is not a payload"):
        Codecs().of(copy)


def test_one_root_element_has_one_schema() -> None:
    same = dataclasses.make_dataclass("Ping", [("text", str)])
    other = dataclasses.make_dataclass("Ping", [("text", int)])
    codecs = Codecs([Ping, describe(same)])
    assert codecs.for_root(codecs.of(Ping).name) is codecs.of(Ping)
    assert codecs.of(same).decode(parse(codecs.of(Ping).encode(Ping("x")))) == same("x")
    with pytest.raises(PayloadError, match=r"claims .*Ping, as Ping does, with another schema"):
        codecs.add(describe(other))
    with pytest.raises(PayloadError, match="under another name"):
        codecs.add(describe(same, version=2))


def test_the_outline_shows_the_fields_to_type() -> None:
    @dataclass
    class Shown:
        a: Annotated[str, Len(1, 9), Element("a-b")]
        n: list[Inner]
        o: Literal["x", "y"] = "x"
        at: Annotated[int, Attribute()] = 1

    outline = GeneratedCodec(table(Shown)).outline
    assert [(each.name, each.label, each.optional, each.repeated, each.attribute) for each in outline] == [
        ("a-b", "text of 1 to 9 characters", False, False, False),
        ("n", "element", True, True, False),
        ("o", "one of x, y", True, False, False),
        ("at", "integer", True, False, True),
    ]
