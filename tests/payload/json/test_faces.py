"""The laws of the JSON face: it takes and gives what the XSD accepts, and rejects the rest."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Le, Len, MaxLen, MultipleOf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agentserver.contract import Attribute, Element, Pattern, SystemError, TodoUntil
from agentserver.payload.codec import Codecs, GeneratedCodec
from agentserver.payload.fields.describe import table
from agentserver.payload.json.elements import ELEMENTS, TEXT, convert_element, convert_value
from agentserver.payload.json.schema import json_schema
from agentserver.payload.json.values import LIMITS, JsonRefusal, read_json
from agentserver.payload.xsd_codec import Binding, XsdCodec
from tests.core.strategies import SCALARS, classes, parse, values
from tests.fuzzing import examples
from tests.payload.test_xsd_codec import MONEY, SCHEMA, Invoice

LAW = settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
ODD = (
    None, True, False, 0, 1, -1, 5, -0.0, 0.5, 1.0, 1e300, 1e22, 0.1, 0.30000000000000004, 10**30, 10**1000, -3, 100, 8, Decimal("1E+3"),
    Decimal("1E+999999999"), Decimal("0.010"), math.nan, math.inf, "", " ", "a", "b c", "red", " two  words\n", "NaN", "INF", "-INF",
    "1", "1.50", "1.", ".5", ".", "+1", " 1", "1e3", "2026-01-31", "2026-02-30", " 2026-01-31", "2026-01-31\n", "2020-06-01", "0000-01-01",
    "09:30:00", "09:30", "24:00:00", "09:30:00.1234567", "2026-01-31T09:30:00", "2026-01-31T09:30:00Z", "2026-01-31T09:30:00+14:30",
    "QUJD", "QQ==", "QR==", "QQ=", "Q Q==", "@@@@", "AB-1", "AB-1\n", "x", "\r", "\x00", "\ud800", "\ufffe", "٥", [], {}, [1], {"a": 1}, ["a", "b"],
)  # fmt: skip


def schema_of(codec: GeneratedCodec) -> Draft202012Validator:
    found = json_schema(codec)
    assert isinstance(found, dict)
    Draft202012Validator.check_schema(found)
    assert json.loads(json.dumps(found)) == found
    return Draft202012Validator(found)


@LAW
@given(classes(), st.data())
def test_every_valid_value_passes_through_json_unchanged(cls: type, data: st.DataObject) -> None:
    codec = GeneratedCodec(table(cls))
    value = data.draw(values(codec.described.record))
    given = convert_value(codec, parse(codec.encode(value)))
    assert schema_of(codec).is_valid(given)
    text = json.dumps(given, allow_nan=False)
    for taken in (given, json.loads(text), read_json(text)):
        element = convert_element(codec, taken)
        assert not isinstance(element, JsonRefusal), str(element)
        assert codec.valid(element)
        assert codec.decode(element) == value


@LAW
@given(classes(), st.data())
def test_accepted_json_is_valid_by_both_schemas_and_the_rest_is_explained(
    cls: type, data: st.DataObject
) -> None:
    codec = GeneratedCodec(table(cls))
    given = convert_value(codec, parse(codec.encode(data.draw(values(codec.described.record)))))
    for _ in range(data.draw(st.integers(1, 3))):
        given = _alter_value(given, data)
    element = convert_element(codec, given)
    if not isinstance(element, JsonRefusal):
        assert codec.valid(element)
        assert schema_of(codec).is_valid(_plain(given))
        assert convert_value(codec, parse(codec.encode(codec.decode(element)))) is not None
        return
    assert 1 <= len(element.faults) <= 8
    for fault in element.faults:
        assert "SECRET" not in fault.pointer + fault.rule
        assert _value_at(given, fault.pointer) is not MISSING
        assert "does not fit" not in fault.rule


MISSING = object()


def _value_at(value: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (KeyError, IndexError, TypeError):
            return MISSING
    return value


def _plain(value: Any) -> Any:
    """The value with its exact numbers as jsonschema takes them."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and value.adjusted() < 30 else float(value)
    return value


def _alter_value(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        name = data.draw(st.sampled_from([*value]))
        act = data.draw(st.sampled_from(("drop", "alter", "alter", "stranger")))
        if act == "drop":
            return {key: each for key, each in value.items() if key != name}
        if act == "stranger":
            return value | {"SECRET": 1}
        return value | {name: _alter_value(value[name], data)}
    if isinstance(value, list) and value and data.draw(st.booleans()):
        if data.draw(st.booleans()):
            return value + value
        return [_alter_value(value[0], data), *value[1:]]
    return data.draw(st.sampled_from((*ODD, "SECRET")))


def single(kind: Any) -> GeneratedCodec:
    return GeneratedCodec(table(dataclasses.make_dataclass("Single", [("value", kind)])))


EXACT = [
    kind
    for kind in SCALARS
    if not any(each in str(kind) for each in ("Decimal", "date", "time", "bytes", "Colour", "Pattern"))
]


@pytest.mark.parametrize("kind", EXACT, ids=str)
def test_where_json_schema_can_say_all_it_says_the_same(kind: Any) -> None:
    codec = single(kind)
    schema = schema_of(codec)
    for odd in (each for each in ODD if not isinstance(each, Decimal)):
        unheard = isinstance(odd, str) and any(char in odd for char in "\x00\ud800\ufffe")
        inexact = isinstance(odd, (int, float)) and (not abs(odd) < 2**53)
        if not unheard and not inexact:
            taken = not isinstance(convert_element(codec, {"value": odd}), JsonRefusal)
            assert taken == schema.is_valid({"value": odd}), odd


@pytest.mark.parametrize("kind", SCALARS, ids=str)
def test_accepted_scalars_are_those_of_both_schemas(kind: Any) -> None:
    codec = single(kind)
    schema = schema_of(codec)
    taken = 0
    for odd in ODD:
        element = convert_element(codec, {"value": odd})
        if not isinstance(element, JsonRefusal):
            taken += 1
            assert codec.valid(element)
            codec.decode(element)
            assert schema.is_valid({"value": _plain(odd)}), odd
        else:
            (fault,) = element.faults
            assert fault.pointer == "/value"
            assert fault.rule.startswith("must be")
    assert convert_element(codec, convert_value(codec, parse(codec.example()))) is not None


class Colour(Enum):
    RED = "red"
    GREEN = "green"


@dataclass
class Line:
    """One position."""

    sku: Annotated[str, Pattern(r"[A-Z]{2}\-\d{1,3}")]
    count: Annotated[int, Ge(1), Le(99)] = 1


@dataclass
class Order:
    """An order.

    Attributes:
        sender: who orders.
    """

    sender: Annotated[str, Element("from"), MaxLen(20)]
    lines: Annotated[list[Line], Len(1, 3)]
    spare: Line | None
    price: Annotated[Decimal, MultipleOf(Decimal("0.01"))]
    colour: Colour = Colour.RED
    when: datetime | None = None
    tags: tuple[str, ...] = ()
    id: Annotated[int, Attribute("from")] = 0
    kind: Literal[1, 2] = 2
    notes: list[str] = field(default_factory=list)


ORDER = GeneratedCodec(table(Order))
GOOD: Any = {"from": "Ada", "lines": [{"sku": "AB-1"}], "spare": None, "price": "1.50"}


def test_a_schema_names_everything_a_caller_needs() -> None:
    assert json_schema(ORDER) == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "description": "An order.",
        "properties": {
            "from": {"type": "string", "maxLength": 20, "description": "who orders."},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}, "minItems": 1, "maxItems": 3},
            "spare": {"anyOf": [{"$ref": "#/$defs/Line"}, {"type": "null"}]},
            "price": {
                "type": ["number", "string"],
                "pattern": r"^(?:[+\-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))$",
                "description": "decimal number in steps of 0.01",
            },
            "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "when": {
                "anyOf": [
                    {
                        "type": "string",
                        "pattern": r"^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+\-][0-9]{2}:[0-9]{2})?)$",
                        "description": "date and time as in 2026-01-31T09:30:00Z",
                    },
                    {"type": "null"},
                ]
            },
            "tags": {"type": "array", "items": {"type": "string"}},
            "@from": {"type": "integer", "default": 0},
            "kind": {"type": "integer", "enum": [1, 2], "default": 2},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["from", "lines", "price"],
        "additionalProperties": False,
        "$defs": {
            "Line": {
                "type": "object",
                "description": "One position.",
                "properties": {
                    "sku": {"type": "string", "pattern": r"^(?:[A-Z]{2}-\d{1,3})$"},
                    "count": {"type": "integer", "minimum": 1, "maximum": 99, "default": 1},
                },
                "required": ["sku"],
                "additionalProperties": False,
            }
        },
    }


@pytest.mark.parametrize(
    ("change", "pointer", "rule"),
    [
        ({"from": 1}, "/from", "must be text of at most 20 characters"),
        ({"from": "a" * 21}, "/from", "must be text of at most 20 characters"),
        ({"from": None}, "/from", "must be text of at most 20 characters"),
        ({"lines": []}, "/lines", "must have 1 to 3 items"),
        ({"lines": None}, "/lines", "must be an array of an object with sku, count"),
        ({"lines": [{"sku": "AB-1"}, {"sku": "ab"}]}, "/lines/1/sku", r"must be text matching [A-Z]{2}\-\d{1,3}"),
        ({"lines": [{"sku": "AB-1", "count": 100}]}, "/lines/0/count", "must be integer from 1 to 99"),
        ({"lines": [{"sku": "AB-1", "x/y": 1}]}, "/lines/0", "has a member that is not allowed here; allowed: sku, count"),
        ({"lines": [{}]}, "/lines/0", r"missing member sku: text matching [A-Z]{2}\-\d{1,3}"),
        ({"spare": []}, "/spare", "must be an object with sku, count"),
        ({"price": 0.30000000000000004}, "/price", "must be decimal number in steps of 0.01"),
        ({"price": "0.005"}, "/price", "must be decimal number in steps of 0.01"),
        ({"colour": None}, "/colour", "must be one of red, green"),
        ({"when": "2026-02-30T09:30:00"}, "/when", "must be date and time as in 2026-01-31T09:30:00Z"),
        ({"@from": True}, "/@from", "must be integer"),
        ({"@from": "1"}, "/@from", "must be integer"),
        ({"kind": 3}, "/kind", "must be one of 1, 2"),
        ({"notes": None}, "/notes", "must be an array of text"),
    ],
)  # fmt: skip
def test_a_fault_has_its_pointer_and_its_rule(change: Any, pointer: str, rule: str) -> None:
    refused = convert_element(ORDER, GOOD | change)
    assert isinstance(refused, JsonRefusal)
    assert [(each.pointer, each.rule) for each in refused.faults] == [(pointer, rule)]
    assert str(refused) == f"{pointer}: {rule}"


def test_absence_null_and_defaults_mean_the_same_as_in_xml() -> None:
    order = ORDER.decode(convert_element(ORDER, GOOD))
    assert order == Order("Ada", [Line("AB-1")], None, Decimal("1.50"))
    assert convert_value(ORDER, parse(ORDER.encode(order))) == {
        "from": "Ada",
        "lines": [{"sku": "AB-1", "count": 1}],
        "price": "1.50",
        "colour": "red",
        "tags": [],
        "@from": 0,
        "kind": 2,
        "notes": [],
    }


@pytest.mark.parametrize(
    ("kind", "taken", "given"),
    [
        (Decimal, 0.1, "0.1"),
        (Decimal, -0.0, "-0.0"),
        (Decimal, "-0", "-0"),
        (Decimal, 7, "7"),
        (Decimal, Decimal("12345678901234.5678"), "12345678901234.5678"),
        (int, 2.0, 2),
        (int, -0.0, 0),
        (int, 10**999, 10**999),
        (int, Decimal("1E+20"), 10**20),
        (float, 10**20, 1e20),
        (float, "NaN", "NaN"),
        (float, "-INF", "-INF"),
        (date, "2024-02-29", "2024-02-29"),
        (bytes, "", ""),
        (bytes, "QQ==", "QQ=="),
    ],
)
def test_numbers_keep_every_digit_or_are_refused(kind: Any, taken: Any, given: Any) -> None:
    codec = single(kind)
    element = convert_element(codec, {"value": taken})
    assert not isinstance(element, JsonRefusal)
    assert convert_value(codec, element) == {"value": given}


def test_a_zero_keeps_its_sign() -> None:
    codec = single(float)
    value: Any = convert_value(codec, convert_element(codec, {"value": -0.0}))  # type: ignore[arg-type]
    assert math.copysign(1, value["value"]) == -1


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, 1e22), (int, 2.5), (int, 10**1000), (int, Decimal("1E+1000")), (float, 10**400), (float, math.nan), (float, math.inf),
     (Decimal, 1234567890.1234567), (Decimal, "1e3"), (Decimal, math.nan), (Decimal, Decimal("NaN")), (Decimal, Decimal("1E+1000")),
     (bool, 1), (int, True), (str, 1), (date, "2026-01-31T00:00:00"), (bytes, "QQ")],
)  # fmt: skip
def test_nothing_is_rounded_without_a_word(kind: Any, value: Any) -> None:
    assert isinstance(convert_element(single(kind), {"value": value}), JsonRefusal)


def test_a_value_is_bounded() -> None:
    codec = single(list[str])
    assert not isinstance(convert_element(codec, {"value": ["x"] * (ELEMENTS)}), JsonRefusal)
    assert (
        str(convert_element(codec, {"value": ["x"] * (ELEMENTS + 1)}))
        == f"(value): must hold at most {ELEMENTS} values"
    )
    assert (
        str(convert_element(codec, {"value": ["x" * TEXT, "x"]}))
        == f"(value): must hold at most {TEXT} characters"
    )
    many = convert_element(codec, {"value": [1] * 100})
    assert isinstance(many, JsonRefusal)
    assert len(many.faults) == 8


def test_an_invalid_element_has_no_value() -> None:
    refused = convert_value(
        ORDER, parse(f'<Order xmlns="{ORDER.described.namespace}"><from>Ada</from></Order>')
    )
    assert "Order: missing element lines" in str(refused)


def test_a_class_with_a_hand_written_schema_has_no_json_form() -> None:
    codec = XsdCodec(Binding(Invoice, SCHEMA, MONEY))
    for refused in (
        json_schema(codec),
        convert_element(codec, {}),
        convert_value(codec, parse(codec.example())),
    ):
        assert str(refused) == (
            "(value): Invoice is bound to a hand-written XSD and has no JSON form; declare it with @xmlify"
        )


@pytest.mark.parametrize("cls", [SystemError, TodoUntil])
def test_the_systems_payloads_have_a_json_form(cls: type) -> None:
    codec: Any = Codecs().of(cls)
    assert not isinstance(convert_element(codec, convert_value(codec, parse(codec.example()))), JsonRefusal)


def test_a_pattern_that_only_xsd_has_is_described_as_text() -> None:
    codec = single(Annotated[str, Pattern(r"\p{Lu}[a-z-[aeiou]]*")])
    schema: Any = json_schema(codec)
    assert schema["properties"]["value"] == {
        "type": "string",
        "description": r"text matching \p{Lu}[a-z-[aeiou]]*",
    }
    assert isinstance(convert_element(codec, {"value": "Éa"}), JsonRefusal)
    assert not isinstance(convert_element(codec, {"value": "Éb"}), JsonRefusal)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('{"a": 1, "a": 2}', "must name each member of an object once"),
        ('{"a": NaN}', "must hold no NaN and no Infinity, which JSON has not"),
        ("[-Infinity]", "must hold no NaN and no Infinity, which JSON has not"),
        (
            "[" * (LIMITS.depth + 1) + "]" * (LIMITS.depth + 1),
            f"must nest at most {LIMITS.depth} objects and arrays",
        ),
        ("[" * 100_000, "must have at most 50000 values"),
        ('"' + "x" * LIMITS.bytes + '"', f"must have at most {LIMITS.bytes} bytes"),
        (b"\xff", "must be JSON text in UTF-8"),
        ("1" * 5000, "must have numbers of at most 4300 digits"),
        ("", "must be JSON text in UTF-8"),
        ("{'a': 1}", "must be JSON text in UTF-8"),
    ],
)
def test_text_beyond_json_or_its_bounds_is_refused(text: str | bytes, rule: str) -> None:
    assert str(read_json(text)) == f"(value): {rule}"


def test_text_within_the_bounds_keeps_its_digits() -> None:
    assert read_json("[" * LIMITS.depth + "]" * LIMITS.depth) is not None
    assert read_json('{"a": [1.10, 1e400, -0, 18446744073709551617, "\\ud83d\\ude00"]}') == {
        "a": [Decimal("1.10"), Decimal("1e400"), 0, 18446744073709551617, "😀"]
    }
