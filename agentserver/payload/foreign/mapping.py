"""A foreign JSON Schema as a payload class.

What a
schema asks for beyond an XSD (patterns of ECMA-262, uniqueness, conditions) shows when values are held against the
schema itself; ``loose`` says that there is such a thing. A position that no field can state takes JSON as text.
"""

from __future__ import annotations

import json
import keyword
import re
from collections import Counter
from dataclasses import dataclass, field, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf

from agentserver.characters.printing import one_line, truncate
from agentserver.contract import Element
from agentserver.foreign_json.reading import RefusedJson, parse_json
from agentserver.hygiene.json.tree import parse_target
from agentserver.payload.fields.describe import DOC
from agentserver.payload.fields.facets import LONGEST, step_of
from agentserver.payload.fields.field_table import NAME_LENGTH, PayloadError
from agentserver.payload.fields.lexical import ScalarKind, is_xml_text
from agentserver.payload.foreign.formats import StatedFormat
from agentserver.payload.json.values import LIMITS, JsonFault, join_pointer, refusal
from agentserver.payload.names import free
from agentserver.payload.xmlify import xmlify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.payload.codec import GeneratedCodec

JSON_TEXT: Final = 65_536
"""Most characters of JSON as text."""
LEVELS: Final = 12
"""Most objects inside one another; deeper ones are JSON as text."""
POSITIONS: Final = 1000
"""Most positions of a schema, references written out."""

_PLAIN: Final = frozenset(
    (
        *("type", "properties", "required", "items", "enum", "const", "additionalProperties", "multipleOf"),
        *("minLength", "maxLength", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        *("anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions", "$schema", "$id"),
        *("title", "description", "$comment", "examples", "default", "deprecated", "readOnly", "writeOnly"),
        *("format", "contentEncoding", "contentMediaType"),
    )
)
"""The keywords that a field states, or that ask for nothing."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a foreign object.

    Args:
        name: in the class's JSON face.
        shape: of its value.
        required: whether the foreign schema asks for it.
        nullable: whether it may be null there.
    """

    name: str
    shape: Shape
    required: bool = False
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of one position: an object, a list, JSON as text, or, with none of them, the value itself.

    Args:
        members: by their foreign names.
        items: of a list.
        text: whether the class holds the JSON text of the value.
        boxed: whether that text is the one member of an object, ``json``, as it is at the root.
    """

    members: Mapping[str, Member] | None = None
    items: Shape | None = None
    text: bool = False
    boxed: bool = False


SCALAR = Shape()
AS_TEXT = Shape(text=True)
BOX = "json"
"""The member that holds a whole value as text."""
BOXED = Shape(text=True, boxed=True)


@dataclass(frozen=True, slots=True)
class AsText:
    """One position that takes JSON as text, and why: a JSON pointer into values, and a reason."""

    pointer: str
    reason: str


@dataclass(frozen=True, slots=True)
class MappedSchema:
    """A foreign schema as a class.

    Args:
        cls: the payload class.
        shape: how its JSON face corresponds to foreign values.
        loose: whether the schema asks for more than the class can state.
        notes: the positions that are JSON as text.
    """

    cls: type
    shape: Shape
    loose: bool
    notes: tuple[AsText, ...] = ()


class UnmappableError(ValueError):
    """A schema that no class can represent, not even as JSON text. The message gives the reason."""


def map_schema(schema: Any, *, name: str, namespace: str, doc: str = "") -> MappedSchema:
    """Return the class of a foreign schema.

    Args:
        schema: a JSON Schema, as a value.
        name: of the root element.
        namespace: of the class.
        doc: one line about it.

    Raises UnmappableError for a name that cannot be a payload's.
    """
    try:
        return _Mapper(schema).map_root(name, namespace, doc)
    except (_Misfit, PayloadError, ValueError, RecursionError) as error:
        reason = str(error) or "is nested too deep"
    except (TypeError, AttributeError, LookupError):
        reason = "is no JSON Schema"
    try:
        note = AsText("", truncate(one_line(reason), LONGEST, "..."))
        return MappedSchema(
            payload_class(name, [NewField(BOX, _JSON)], namespace, doc), BOXED, loose=True, notes=(note,)
        )
    except PayloadError as error:
        raise UnmappableError(str(error)) from None


_JSON: Any = Annotated[str, MaxLen(JSON_TEXT)]


class _Misfit(Exception):  # noqa: N818 - never leaves this module
    """The reason why a position is no field."""


@dataclass(frozen=True, slots=True)
class _SchemaNote:
    """The words and the absence around a type."""

    nullable: bool
    doc: str


@dataclass(frozen=True, slots=True)
class _TypedPosition:
    """The field that one position becomes."""

    annotation: Any
    shape: Shape = SCALAR
    nullable: bool = False
    listed: bool = False
    doc: str = ""


@dataclass(slots=True)
class _Mapper:
    document: Any
    notes: list[AsText] = field(default_factory=list)
    loose: bool = False
    remaining: int = POSITIONS
    _classes: Counter[str] = field(default_factory=Counter)

    def map_root(self, name: str, namespace: str, doc: str) -> MappedSchema:
        schema, nullable, _ = self._resolve(self.document, ())
        if nullable or not self._is_object(schema):
            raise _Misfit("is no object with named members")
        entries, shape = self._map_members(schema, "", ())
        return MappedSchema(
            payload_class(name, entries, namespace, doc), shape, self.loose, tuple(self.notes)
        )

    def _is_object(self, schema: Mapping[str, Any]) -> bool:
        kind = schema.get("type", "object" if "properties" in schema else None)
        named = isinstance(schema.get("properties", {}), dict)
        return kind == "object" and named and "enum" not in schema and "const" not in schema

    def _resolve(self, schema: Any, way: tuple[str, ...]) -> tuple[dict[str, Any], bool, tuple[str, ...]]:
        """Return the schema behind references and alternatives with null.

        Whether null is allowed; the references followed.
        """
        nullable = False
        while True:
            if not isinstance(schema, dict):
                raise _Misfit("may be anything")
            self.loose = self.loose or not _PLAIN.issuperset(schema)
            rest = {
                key: value for key, value in schema.items() if key not in {"$ref", "allOf", "anyOf", "oneOf"}
            }
            inner: Any = None
            if "$ref" in schema:
                inner, way = self._follow_reference(schema["$ref"], way)
            elif len(schema.get("allOf", ())) == 1:
                (inner,) = schema["allOf"]
            elif any(key in schema for key in ("allOf", "anyOf", "oneOf")):
                inner, null = _alternative(schema)
                nullable = nullable or null
            else:
                break
            if not isinstance(inner, dict):
                raise _Misfit("may be anything")
            if rest.keys() & inner.keys() - {"title", "description", "default"}:
                raise _Misfit("says one thing twice")
            schema = inner | rest
        kinds = schema.get("type")
        if isinstance(kinds, list):
            nullable = nullable or "null" in kinds
            remaining = [each for each in kinds if each != "null"]
            if len(remaining) != 1:
                raise _Misfit("may have several types")
            schema = schema | {"type": remaining[0]}
        return schema, nullable, way

    def _follow_reference(self, reference: Any, way: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
        place = parse_target(reference)
        if place is None:
            raise _Misfit("refers to another document, which is never fetched")
        if place in way:
            raise _Misfit("contains itself")
        found = self.document
        for step in place.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found, (*way, place)

    def _map_members(
        self, schema: Mapping[str, Any], pointer: str, way: tuple[str, ...]
    ) -> tuple[list[NewField], Shape]:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not properties and schema.get("additionalProperties", False) not in (False, None):
            raise _Misfit("has members of any name")
        if any(each not in properties for each in required):
            raise _Misfit("asks for a member that it does not describe")
        self.loose = self.loose or isinstance(schema.get("additionalProperties"), dict)
        entries, members = [], {}
        names = MemberNames()
        for foreign, inner in properties.items():
            xml = names.xml(foreign)
            typed = self._map_position(inner, join_pointer(pointer, xml), way)
            needed = foreign in required
            optional = typed.nullable or not needed
            if typed.listed and needed and typed.nullable:
                typed = self._as_text(join_pointer(pointer, xml), "may be null or a list", inner)
            entries.append(NewField(xml, typed.annotation, optional, typed.listed, typed.doc))
            members[foreign] = Member(xml, typed.shape, needed, typed.nullable)
        return entries, Shape(members=members)

    def _map_position(
        self, schema: Any, pointer: str, way: tuple[str, ...], *, item: bool = False
    ) -> _TypedPosition:
        self.remaining -= 1
        if self.remaining < 0:
            raise ValueError(f"has more than {POSITIONS} positions")
        if pointer.count("/") > LEVELS:
            return self._as_text(pointer, "is nested too deep", schema)
        try:
            return self._map_type(schema, pointer, way, item=item)
        except (_Misfit, PayloadError) as misfit:
            if item:
                raise
            return self._as_text(pointer, str(misfit), schema)

    def _as_text(self, pointer: str, reason: str, schema: Any) -> _TypedPosition:
        self.loose = True
        self.notes.append(AsText(pointer, reason))
        words = "JSON as text." + (f" {_describe(schema)}" if _describe(schema) else "")
        return _TypedPosition(_JSON, AS_TEXT, doc=words)

    def _map_type(self, schema: Any, pointer: str, way: tuple[str, ...], *, item: bool) -> _TypedPosition:
        doc = _describe(schema)
        schema, nullable, way = self._resolve(schema, way)
        doc = doc or _describe(schema)
        if "enum" in schema or "const" in schema:
            choices, null = _choices(schema)
            return _TypedPosition(Literal[tuple(choices)], SCALAR, nullable or null, doc=doc)
        kind = schema.get("type") or (
            "object" if "properties" in schema else "array" if "items" in schema else None
        )
        if kind == "object":
            entries, shape = self._map_members(schema, pointer, way)
            return _TypedPosition(self._map_object(pointer, entries), shape, nullable, doc=doc)
        if kind == "array":
            if item:
                raise _Misfit("holds lists of lists")
            return self._list(schema, pointer, way, _SchemaNote(nullable, doc))
        if kind not in _SCALARS:
            raise _Misfit("has no type")
        return _TypedPosition(self._map_scalar(str(kind), schema), SCALAR, nullable, doc=doc)

    def _list(
        self, schema: Mapping[str, Any], pointer: str, way: tuple[str, ...], note: _SchemaNote
    ) -> _TypedPosition:
        if "items" not in schema:
            raise _Misfit("holds items of any kind")
        inner = self._map_position(schema["items"], pointer, way, item=True)
        if inner.nullable:
            raise _Misfit("holds items that may be null")
        marks = list(self._iter_lengths(schema, "minItems", "maxItems"))
        annotation: Any = list[inner.annotation]  # type: ignore[name-defined]
        return _TypedPosition(
            _mark_optional(annotation, marks),
            Shape(items=inner.shape),
            note.nullable,
            listed=True,
            doc=note.doc,
        )

    def _map_object(self, pointer: str, entries: list[NewField]) -> type:
        wanted = "".join(
            part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", pointer.rsplit("/", 1)[-1])
        )
        name = wanted if XML_NAME.fullmatch(wanted) else f"Part{wanted}"
        self._classes[name] += 1
        return dataclass_of(name if self._classes[name] == 1 else f"{name}{self._classes[name]}", entries, "")

    def _map_scalar(self, kind: str, schema: Mapping[str, Any]) -> Any:
        bare = _SCALARS[kind]
        if kind == "boolean":
            return bare
        if kind == "string":
            return _mark_optional(
                bare, [*self._iter_lengths(schema, "minLength", "maxLength"), *_iter_state_format(schema)]
            )
        return _mark_optional(bare, list(self._iter_bounds(bare, schema)))

    def _iter_lengths(self, schema: Mapping[str, Any], minimum: str, maximum: str) -> Iterator[Any]:
        low, high = _count(schema.get(minimum)), _count(schema.get(maximum))
        if low and low <= LONGEST:
            yield MinLen(low)
        elif low:
            self.loose = True
        if high is not None:
            yield MaxLen(high)

    def _iter_bounds(self, bare: type, schema: Mapping[str, Any]) -> Iterator[Any]:
        for key, mark in (
            ("minimum", Ge),
            ("exclusiveMinimum", Gt),
            ("maximum", Le),
            ("exclusiveMaximum", Lt),
        ):
            bound = schema.get(key)
            if bound is None:
                continue
            if not _is_exact(bare, bound):
                self.loose = True
            else:
                yield mark(bare(bound))
        step = schema.get("multipleOf")
        if step is not None and bare is int and _is_stateable(step):
            yield MultipleOf(step)
        elif step is not None:
            self.loose = True


_SCALARS: Final[Mapping[str, type]] = {"string": str, "integer": int, "number": float, "boolean": bool}


def _alternative(schema: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return the one alternative that is not null, and whether null is one."""
    every = [each for key in ("anyOf", "oneOf") for each in schema.get(key, ())]
    remaining = [each for each in every if not (isinstance(each, dict) and each.get("type") == "null")]
    if len(remaining) != 1 or "allOf" in schema:
        raise _Misfit("may be one of several things")
    return remaining[0], len(remaining) < len(every)


def _choices(schema: Mapping[str, Any]) -> tuple[list[Any], bool]:
    listed = [schema["const"]] if "const" in schema else schema["enum"]
    if not isinstance(listed, list):
        raise _Misfit("lists its values wrongly")
    choices = [each for each in listed if each is not None]
    kinds = {type(each) for each in choices}
    if (
        len(kinds) != 1
        or not kinds <= {str, int, bool}
        or not all(map(is_xml_text, (c for c in choices if type(c) is str)))
    ):
        raise _Misfit("lists values that are not all text, or all whole numbers")
    return list(dict.fromkeys(choices)), len(choices) < len(listed)


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _is_exact(bare: type, bound: Any) -> bool:
    """Check for a number that the type can hold as it is."""
    try:
        return type(bound) in {int, float} and bool(bare(bound) == bound)
    except (OverflowError, ValueError):  # an infinite one, and one beyond a binary number
        return False


def _is_stateable(step: Any) -> bool:
    """Check whether XSD can state a step of integers."""
    try:
        step_of(ScalarKind.INT, step)
    except ValueError:
        return False
    return True


def _iter_state_format(schema: Mapping[str, Any]) -> Iterator[StatedFormat]:
    """Yield the mark of a text with a format."""
    stated = schema.get("format")
    if isinstance(stated, str):
        yield StatedFormat(stated)


def _mark_optional(bare: Any, marks: list[Any]) -> Any:
    return Annotated[(bare, *marks)] if marks else bare


def _describe(schema: Any) -> str:
    """Return a description as one bounded line, for a docstring."""
    text = schema.get("description") if isinstance(schema, dict) else None
    return truncate(one_line(" ".join(text.split())), DOC, "...") if isinstance(text, str) else ""


def codec_of(cls: type) -> GeneratedCodec:
    """Return the codec of an ``@xmlify`` class."""
    codec: GeneratedCodec = vars(cls)["__codec__"]
    return codec


XML_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
"""The names that need no care anywhere."""


@dataclass(frozen=True, slots=True)
class NewField:
    """One field of a class to be.

    Args:
        xml: its element.
        annotation: its type when present.
        optional: whether it may be left out.
        listed: whether it is a list.
        doc: one line about it.
    """

    xml: str
    annotation: Any
    optional: bool = False
    listed: bool = False
    doc: str = ""


class MemberNames:
    """XML names for the members of one object, each once."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def xml(self, foreign: str) -> str:
        """Return a name like the foreign one that no other member has."""
        wanted = re.sub(r"[^A-Za-z0-9_.\-]", "_", foreign)[: NAME_LENGTH // 2] or "_"
        return free(wanted if XML_NAME.fullmatch(wanted) else f"_{wanted}", self._used)


def dataclass_of(name: str, entries: list[NewField], doc: str) -> type:
    """Return a frozen dataclass, documented as docstrings are."""
    fields: list[tuple[str, Any, Any]] = []
    docs: list[str] = []
    for at, each in enumerate(entries):
        python = re.sub(r"\W", "_", each.xml, flags=re.ASCII)
        taken = {known for known, _, _ in fields}
        if keyword.iskeyword(python) or python.startswith("_") or python in taken:
            python = f"{python.strip('_')}_{at}" if python.strip("_")[:1].isalpha() else f"field_{at}"
        annotation: Any = Annotated[each.annotation, Element(each.xml)]
        if each.listed and each.optional:
            fields.append((python, annotation, field(default_factory=list)))
        elif each.optional:
            fields.append((python, Annotated[each.annotation | None, Element(each.xml)], None))
        else:
            fields.append((python, annotation, field()))
        if each.doc:
            docs.append(f"    {python}: {each.doc}")
    lines = [doc or f"{name}.", *(["", "Args:", *docs] if docs else [])]
    space = {"__doc__": "\n".join(lines), "__foreign__": True}
    cls = make_dataclass(name, fields, frozen=True, kw_only=True, namespace=space)
    cls.__qualname__ = name
    return cls


def payload_class(name: str, entries: list[NewField], namespace: str, doc: str) -> type:
    """Return the payload class of a root. Raises PayloadError, also for a schema that makes no sense as a whole."""
    local = re.sub(r"[^A-Za-z0-9_]", "_", name)
    cls = dataclass_of(local if XML_NAME.fullmatch(local) else f"_{local}", entries, doc)
    payload: type = xmlify(name=name, namespace=namespace)(cls)
    return payload


@dataclass(slots=True)
class _ForeignWriter:
    faults: list[JsonFault] = field(default_factory=list)

    def value(self, shape: Shape, value: Any, pointer: str) -> Any:
        if shape.text:
            value = value[BOX] if shape.boxed else value
            found = parse_json(value, LIMITS)  # with binary numbers, which every writer of JSON has
            if isinstance(found, RefusedJson):
                self.faults.append(JsonFault(pointer, found.rule))
                return None
            return found
        if shape.items is not None:
            return [self.value(shape.items, each, join_pointer(pointer, at)) for at, each in enumerate(value)]
        if shape.members is None:
            return value
        found = {}
        for foreign, member in shape.members.items():
            held = value.get(member.name)
            if held is not None and (held != [] or member.required):
                found[foreign] = self.value(member.shape, held, join_pointer(pointer, member.name))
            elif held is None and member.required and member.nullable:
                found[foreign] = None
        return found


def to_foreign(shape: Shape, value: Any) -> Any:
    """Return the foreign value of one of the class's JSON face; a refusal where a text is no JSON.

    A list that is empty and not asked for is left out, as is null.
    """
    way = _ForeignWriter()
    found = way.value(shape, value, "")
    return refusal(*way.faults) if way.faults else found


def from_foreign(shape: Shape, value: Any) -> Any:
    """Return the value of the class's JSON face for a foreign one.

    Null is absence. Members that the foreign schema does not name are left out. A value of another form stays as it
    is: the JSON face refuses it.
    """
    if shape.text:
        written = json.dumps(value, ensure_ascii=False)
        return {BOX: written} if shape.boxed else written
    if shape.items is not None and isinstance(value, list):
        return [from_foreign(shape.items, each) for each in value]
    if shape.members is not None and isinstance(value, dict):
        return {
            member.name: from_foreign(member.shape, value[foreign])
            for foreign, member in shape.members.items()
            if value.get(foreign) is not None or (foreign in value and member.required and member.shape.text)
        }
    return value
