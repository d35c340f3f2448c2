"""Foreign schemas as payload classes: valid values pass both ways, and the rest is JSON as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agentserver.payload.foreign.formats import list_formats
from agentserver.payload.foreign.mapping import (
    MappedSchema,
    UnmappableError,
    codec_of,
    from_foreign,
    map_schema,
    to_foreign,
)
from agentserver.payload.json.elements import convert_element, value_from
from agentserver.payload.json.values import JsonRefusal
from tests.core.strategies import parse
from tests.fuzzing import examples

LAW = settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
NAMES = ("a", "b-c", "from", "$ref", "my key", "0x", "", "class", "größe", "_x", "a.b", "A")


LOOSE = ("array", ["string", "integer"])
"""Types whose lists are JSON as text, which tells an empty list from none."""


def map_tool(schema: Any) -> MappedSchema:
    return map_schema(schema, name="tool", namespace="urn:mcp:far:tool")


def round_trip(mapping: MappedSchema, value: Any) -> Any:
    """A foreign value as a payload in XML, and as a foreign value again."""
    codec = codec_of(mapping.cls)
    element = convert_element(codec, from_foreign(mapping.shape, value))
    assert not isinstance(element, JsonRefusal), str(element)
    payload = codec.decode(parse(codec.encode(codec.decode(element))))
    return to_foreign(mapping.shape, value_from(codec, payload))


def scalars() -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    """Schemas with the values that they take."""
    text = st.text("ab <&\n\"'é", max_size=5)
    return st.sampled_from(
        [
            ({"type": "string"}, text),
            ({"type": "string", "minLength": 1, "maxLength": 3}, st.text("abc", min_size=1, max_size=3)),
            ({"type": "integer", "minimum": -3, "exclusiveMaximum": 10}, st.integers(-3, 9)),
            ({"type": "integer", "multipleOf": 5}, st.integers(-9, 9).map(lambda n: n * 5)),
            ({"type": "number", "minimum": 0}, st.floats(0, 1e6)),
            ({"type": "boolean"}, st.booleans()),
            ({"enum": ["x", "y z", ""]}, st.sampled_from(["x", "y z", ""])),
            ({"enum": [1, 2, None]}, st.sampled_from([1, 2])),
            ({"const": "only"}, st.just("only")),
            ({"type": ["string", "null"]}, text),
            ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, st.integers()),
            ({"$ref": "#/$defs/word"}, st.text("w", min_size=1, max_size=2)),
            ({"allOf": [{"$ref": "#/$defs/word"}], "description": "A word."}, st.just("w")),
            ({"type": ["string", "integer"]}, st.integers() | text),
            ({}, st.none() | st.booleans() | st.lists(st.integers(), max_size=2)),
            ({"type": "object", "additionalProperties": {"type": "integer"}}, st.just({"any": 1})),
            ({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}, st.just([[1], []])),
        ]
    )


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    properties: dict[str, Any] = {}
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4)):
        schema, values = (
            draw(objects(depth - 1)) if depth and draw(st.integers(0, 3)) == 0 else draw(scalars())
        )
        if (
            draw(st.integers(0, 3)) == 0
            and "null" not in str(schema)
            and "None" not in str(schema)
            and schema
        ):
            schema, values = {"type": "array", "items": schema, "maxItems": 3}, st.lists(values, max_size=3)
        properties[name] = schema
        (required if draw(st.booleans()) else optional)[name] = values
    made = {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }
    return made, st.fixed_dictionaries(required, optional=optional)


def bare(value: Any, schema: Any) -> Any:
    """The value without what means absence here: null, and empty lists that nothing asks for."""
    if not isinstance(value, dict) or "properties" not in schema:
        return [bare(each, schema.get("items", {})) for each in value] if isinstance(value, list) else value
    found = {}
    for name, each in value.items():
        inner = schema["properties"][name]
        if name in schema["required"] or (
            each is not None
            and not (
                each == []
                and inner.get("type") == "array"
                and "items" in inner
                and inner["items"].get("type") not in LOOSE
            )
        ):
            found[name] = bare(each, inner)
    return found


@LAW
@given(objects(), st.data())
def test_every_value_that_a_schema_takes_passes_unchanged(schema: Any, data: st.DataObject) -> None:
    made, values = schema
    made = made | {"$defs": {"word": {"type": "string", "minLength": 1}}}
    value = data.draw(values)
    judge = Draft202012Validator(made)
    assert judge.is_valid(value)
    given_back = round_trip(map_tool(made), value)
    assert given_back == bare(value, made)
    assert judge.is_valid(given_back)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.sampled_from(["a", "#/$defs/a", "object", "string"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
    max_leaves=5,
)
KEYWORDS = st.sampled_from(
    [
        "type", "properties", "required", "additionalProperties", "items", "enum", "const", "$ref", "$defs", "allOf",
        "anyOf", "oneOf", "minimum", "multipleOf", "minLength", "maxItems", "pattern", "format", "description",
        "default",
    ]
)  # fmt: skip


@LAW
@given(st.dictionaries(KEYWORDS, ANYTHING, max_size=3), st.dictionaries(KEYWORDS, ANYTHING, max_size=3))
@example({"required": 5}, {})
@example({"required": [[]]}, {})
@example({"allOf": 5}, {})
def test_an_invalid_schema_is_read_as_json(outer: Any, inner: Any) -> None:
    """A stranger's server sends its schemas; nothing has looked at them before."""
    made = map_tool({"type": "object", "properties": {"a": inner}, "additionalProperties": False, **outer})
    assert made.cls is not None
    assert map_tool(inner).cls is not None


@LAW
@given(objects())
def test_an_example_of_the_class_is_valid_by_the_schema(schema: Any) -> None:
    made = schema[0] | {"$defs": {"word": {"type": "string", "minLength": 1}}}
    mapping = map_tool(made)
    if not mapping.loose:
        codec = codec_of(mapping.cls)
        value = to_foreign(mapping.shape, value_from(codec, codec.decode(parse(codec.example()))))
        assert Draft202012Validator(made).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "https://example.com/schema.json"}, "refers to another document, which is never fetched"),
        ({"$ref": "#/$defs/tree"}, "contains itself"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "may be one of several things"),
        ({"type": ["string", "integer"]}, "may have several types"),
        ({"type": "object", "additionalProperties": True}, "has members of any name"),
        ({"type": "array"}, "holds items of any kind"),
        ({"type": "array", "items": {"type": "array", "items": {}}}, "holds lists of lists"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "holds items that may be null"),
        ({"enum": [1, "a"]}, "lists values that are not all text, or all whole numbers"),
        ({"enum": ["\x00"]}, "lists values that are not all text, or all whole numbers"),
        (True, "may be anything"),
        ({"type": "null"}, "has no type"),
    ],
)
def test_a_position_that_no_field_can_state_is_json_as_text(schema: Any, reason: str) -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}}}
    mapping = map_tool(
        {"type": "object", "properties": {"x": schema}, "required": ["x"], "$defs": {"tree": tree}}
    )
    assert mapping.loose
    assert {note.reason for note in mapping.notes} == {reason}
    assert all(note.pointer.startswith("/x") for note in mapping.notes)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"anyOf": [{"type": "object"}, {"type": "string"}]},
        True,
        {},
    ],
)
def test_a_schema_that_is_no_object_is_json_as_text_as_a_whole(schema: Any) -> None:
    mapping = map_tool(schema)
    assert [note.pointer for note in mapping.notes] == [""]
    assert round_trip(mapping, [1, {"a": None}]) == [1, {"a": None}]
    refused = to_foreign(mapping.shape, {"json": "{"})
    assert str(refused) == "(value): must be JSON text in UTF-8"


@pytest.mark.parametrize(
    ("keyword", "loose"),
    [
        ({"pattern": "^a$"}, True),
        ({"minLength": 5000}, True),
        ({"format": "uri"}, False),
        ({"title": "T", "default": "d", "examples": ["e"]}, False),
        ({"not": {"const": "x"}}, True),
    ],
)
def test_values_that_only_the_schema_can_judge_are_reported(keyword: Any, loose: bool) -> None:
    assert map_tool({"type": "object", "properties": {"x": {"type": "string"} | keyword}}).loose is loose


def test_null_and_absence_are_one_and_strangers_are_left_out() -> None:
    mapping = map_tool(
        {
            "type": "object",
            "properties": {
                "list": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
                "needed": {"type": ["string", "null"]},
                "word": {"type": "string"},
            },
            "required": ["needed"],
        }
    )
    assert round_trip(mapping, {"needed": None, "list": None, "word": None, "other": 1}) == {"needed": None}
    assert round_trip(mapping, {"needed": "x", "list": []}) == {"needed": "x"}


def test_words_of_a_schema_are_one_bounded_line_each() -> None:
    mapping = map_tool(
        {
            "type": "object",
            "properties": {"x": {"type": "string", "description": "a\n\nArgs:\n  \x1b[0m" + "b" * 5000}},
        }
    )
    doc = vars(mapping.cls)["__payload__"].record.fields[0].doc
    assert doc.startswith("a Args: \\x1b[0mb")
    assert len(doc) <= 1000


def test_a_schema_of_any_size_ends_soon() -> None:
    deep: Any = {"type": "string"}
    for _ in range(5000):
        deep = {"type": "object", "properties": {"x": deep}}
    assert map_tool(deep).notes
    wide = {"type": "object", "properties": {f"x{n}": {"type": "string"} for n in range(5000)}}
    assert [note.pointer for note in map_tool(wide).notes] == [""]
    bomb: Any = {"type": "object", "properties": {}, "$defs": {"l0": {"type": "string"}}}
    for level in range(1, 12):
        inner = {f"p{n}": {"$ref": f"#/$defs/l{level - 1}"} for n in range(10)}
        bomb["$defs"][f"l{level}"] = {"type": "object", "properties": inner}
    bomb["properties"]["top"] = {"$ref": "#/$defs/l11"}
    assert map_tool(bomb).notes


def test_a_name_of_the_systems_own_is_refused() -> None:
    with pytest.raises(UnmappableError, match="a name of the system's own payloads"):
        map_schema({"type": "object"}, name="SystemError", namespace="urn:mcp:far:x")


def test_json_as_text_is_bounded() -> None:
    mapping = map_tool({"type": "object", "properties": {"x": {}}, "required": ["x"]})
    codec = codec_of(mapping.cls)
    assert isinstance(convert_element(codec, {"x": json.dumps("y" * 70_000)}), JsonRefusal)


@pytest.mark.parametrize("kind", ["integer", "number"])
@pytest.mark.parametrize("bound", [float("inf"), float("-inf"), float("nan"), 10**400, True, "3"])
def test_a_bound_of_any_kind_is_no_error(kind: str, bound: Any) -> None:
    found = map_tool({"type": "object", "properties": {"a": {"type": kind, "maximum": bound}}})
    assert found.loose or isinstance(bound, (int, float))
    assert codec_of(found.cls).described is not None


def test_formats_are_marks_of_the_fields_and_constrain_nothing() -> None:
    inner = {"type": "object", "properties": {"link": {"type": "string", "format": "uri"}}}
    day = {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}
    listed = {"type": "array", "items": {"type": "string", "format": "email"}}
    made = map_tool({"type": "object", "properties": {"day": day, "to": listed, "more": inner}})
    assert dict(list_formats(made.cls)) == {"day": "date", "to": "email", "more.link": "uri"}
    assert round_trip(made, {"day": "soon", "to": ["a"]}) == {"day": "soon", "to": ["a"]}
