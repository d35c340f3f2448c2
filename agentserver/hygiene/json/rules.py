"""Hygiene rules for JSON Schema; rules.py orders them.

Each function yields a JSON pointer and a sentence for every place that it objects to.

Keyword values are valid for the meta-schema and without free text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from agentserver.hygiene import objections, pattern
from agentserver.hygiene.json import tree as at
from agentserver.hygiene.json.tree import KEYWORDS, SubschemaShape
from agentserver.hygiene.objections import (
    DEPTH,
    EXPANDED,
    LISTED,
    PROPERTIES,
    REPEATED,
    TRIED,
    check_document_size,
    quote,
)
from agentserver.hygiene.pattern import PatternError
from agentserver.hygiene.slug import BUDGET, check_readable, count_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agentserver.hygiene.objections import Schema

DRAFT_7: Final = "http://json-schema.org/draft-07/schema#"
FORMATS: Final = frozenset(
    (
        *(
            "date",
            "time",
            "date-time",
            "duration",
            "email",
            "idn-email",
            "hostname",
            "idn-hostname",
            "ipv4",
            "ipv6",
        ),
        *("uri", "uri-reference", "uri-template", "iri", "iri-reference", "uuid", "json-pointer"),
        *("relative-json-pointer", "regex"),
    )
)
ENCODINGS: Final = frozenset({"7bit", "8bit", "binary", "quoted-printable", "base16", "base32", "base64"})
_MEDIA: Final = re.compile(
    r"(?:application|audio|font|image|message|model|multipart|text|video)/[a-z0-9][a-z0-9.+-]{0,40}"
)
_LITERALS: Final = re.compile(
    r"\[(?:\\.|[^\]\\]){0,256}+\]|\\.|[^A-Za-z0-9]"
)  # a longer class is read as text
"""Everything in a pattern that is not a literal letter or digit."""


class Form(NamedTuple):
    """Predicate and name of a keyword value's form."""

    has: Callable[[Any], bool]
    description: str


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _names(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return (
        texts and len(set(value)) == len(value) and all(check_readable(each, spaces=False) for each in value)
    )


def _dependent(value: Any) -> bool:
    return isinstance(value, dict) and _names([*value]) and all(map(_names, value.values()))


def _types(value: Any) -> bool:
    several = isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)
    return isinstance(value, str) or (several and len(set(value)) == len(value))


def _media(value: Any) -> bool:
    return isinstance(value, str) and _MEDIA.fullmatch(value) is not None and count_words(value) <= BUDGET * 2


def _is_wordless(value: Any) -> bool:
    """Check that a pattern has at most as much literal text as a listed value may."""
    return not isinstance(value, str) or count_words(_LITERALS.sub("-", value)) <= BUDGET * 2


def _text(value: Any) -> bool:
    return isinstance(value, str)


_FLAG: Final = Form(lambda value: isinstance(value, bool), "true or false")
_NUMBER: Final = Form(_number, "a number")
_LIMITS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_FLAGS: Final = ("deprecated", "readOnly", "writeOnly", "uniqueItems")
_DATA: Final[Mapping[str, Form]] = {
    **dict.fromkeys(("title", "description", "$comment", "$id", "$schema", "$ref"), Form(_text, "a text")),
    **dict.fromkeys(_FLAGS, _FLAG),
    **dict.fromkeys(_LIMITS, _NUMBER),
    "examples": Form(lambda value: isinstance(value, list), "a list"),
    "type": Form(_types, "a type, or a list of different types"),
    "format": Form(lambda value: isinstance(value, str) and value in FORMATS, "a format of JSON Schema"),
    "multipleOf": Form(lambda value: _number(value) and value > 0, "a number above zero"),
    "contentEncoding": Form(
        lambda value: isinstance(value, str) and value in ENCODINGS, "an encoding of MIME"
    ),
    "contentMediaType": Form(_media, "a media type"),
    "pattern": Form(_is_wordless, f"an expression that spells at most {BUDGET * 2} words"),
    "required": Form(_names, "a list of different names"),
    "dependentRequired": Form(_dependent, "lists of different names by name"),
    "enum": Form(lambda value: isinstance(value, list) and bool(value), "a list of values"),
    "minContains": Form(lambda value: type(value) is int and value >= 0, "a whole number"),
}
_HELD: Final[Mapping[SubschemaShape, Form]] = {
    SubschemaShape.SCHEMA: Form(lambda value: isinstance(value, dict | bool), "a schema"),
    SubschemaShape.SCHEMAS: Form(lambda value: isinstance(value, list) and bool(value), "a list of schemas"),
    SubschemaShape.NAMED: Form(lambda value: isinstance(value, dict), "schemas by name"),
}


def iter_ill_formed(schema: Mapping[str, Any], dialect: str) -> Iterator[str]:
    """Yield the faults in the values of a schema's keywords; unknown keywords are skipped."""
    for keyword, value in schema.items():
        holds = KEYWORDS.get(keyword)
        form = _DATA.get(keyword) or (_HELD.get(holds) if holds else None)
        if keyword == "items" and dialect == DRAFT_7 and isinstance(value, list) and value:
            continue
        if form is not None and not form.has(value):
            yield f"{keyword} must be {form.description}"
    members, needed = schema.get("properties"), schema.get("required")
    if (
        not isinstance(members, dict)
        or not isinstance(needed, list)
        or schema.get("additionalProperties") is not False
    ):
        return
    if any(isinstance(name, str) and name not in members for name in needed):
        yield 'requires a member that "properties" does not declare'


Said: TypeAlias = "Iterator[tuple[str, str]]"

DIALECTS: Final = (
    DRAFT_7,
    "https://json-schema.org/draft/2020-12/schema",
)


def check_size(schema: Schema) -> Said:
    """Limit nesting and size of the document, including containers that contain themselves."""
    return check_document_size(schema.tree, _iter_members, "values")


def _iter_members(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def check_references(schema: Schema) -> Said:
    """Require references to stay inside the document and to resolve; allow one base and one vocabulary."""
    known = dict(at.iter_positions(schema.tree))
    for pointer, each in known.items():
        if not isinstance(each, dict):
            continue
        if "$ref" in each:
            named = at.parse_target(each["$ref"])
            if named is None or named not in known:
                yield pointer, f"$ref {quote(each['$ref'])} is not in here; use #/$defs/NAME"
        if pointer and ("$id" in each or "$schema" in each):
            yield pointer, "$id and $schema belong to the root alone"
    dialect = schema.tree.get("$schema", DIALECTS[0]) if isinstance(schema.tree, dict) else DIALECTS[0]
    if dialect not in DIALECTS:
        yield "/$schema", f"{quote(dialect)} is unknown; use one of {', '.join(DIALECTS)}"


def check_keywords(schema: Schema) -> Said:
    """Allow only keywords that these rules understand: an unknown one could carry text or meaning."""
    for pointer, each in at.iter_positions(schema.tree):
        if isinstance(each, dict):
            for keyword in each.keys() - at.KEYWORDS.keys():
                yield pointer, f"keyword {quote(keyword)} is not accepted"
        elif not isinstance(each, bool):
            yield pointer, "is no schema: an object, true or false"


def check_finite(schema: Schema) -> Said:
    """Forbid recursive schemas, and limit the size with references expanded."""
    loop = at.find_cycle(schema.tree)
    if loop:
        yield loop[0], f"refers to itself: {quote(' -> '.join(step or '#' for step in loop))}"
        return
    size, levels = at.count_cost(schema.tree)
    if levels > DEPTH + 1:
        yield "", f"is {levels} levels deep with its references written out, more than {DEPTH + 1}"
    if size > EXPANDED:
        yield "", f"holds {size} schemas with its references written out, more than {EXPANDED}"


_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})


def check_closed(schema: Schema) -> Said:
    """Require a type for every value, members for every object, and an item type for every array."""
    if not isinstance(schema.tree, dict) or schema.tree.get("type") != "object":
        yield "", 'must describe an object: "type": "object"'
    for pointer, each in at.iter_positions(schema.tree):
        if each is False:
            continue
        if not isinstance(each, dict):
            yield pointer, "accepts anything"
            continue
        yield from ((pointer, text) for text in _open(each))


def _open(schema: dict[str, Any]) -> Iterator[str]:
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if any(not isinstance(kind, str) or kind not in _TYPES for kind in kinds):
        yield f"type {quote(schema['type'])} is unknown"
        return
    if not kinds and not schema.keys() & {"$ref", "enum", "const", "anyOf", "oneOf", "allOf"}:
        yield "accepts anything: give it a type"
    if "object" in kinds and schema.get("additionalProperties") is not False:
        yield 'accepts members that it does not list: "additionalProperties": false'
    if "patternProperties" in schema:  # unused where no object is allowed, and its names are free text
        yield 'accepts members by pattern; list them in "properties"'
    if "array" in kinds and not isinstance(schema.get("items", schema.get("prefixItems")), dict | list):
        yield 'accepts any items: give "items" a schema'


def check_required(schema: Schema) -> Said:
    """Require at least one required member, and a declaration for each."""
    root = schema.tree
    needed, declared = root.get("required"), root.get("properties")
    if not isinstance(declared, dict) or not declared:
        yield "/properties", "must declare at least one member"
    elif not isinstance(needed, list) or not needed:
        yield "/required", "must require at least one member, or an empty object would do"
    elif any(not isinstance(name, str) or name not in declared for name in needed):
        yield "/required", 'requires a member that "properties" does not declare'


def check_version(schema: Schema) -> Said:
    """Require an ``$id`` with slug and version, equal to those of the file."""
    own = schema.tree.get("$id")
    named = objections.parse_json_id(own) if isinstance(own, str) else None
    if named is None:
        yield "/$id", f"must be SLUG/vN.schema.json, not {quote(own)}"
    elif schema.reference and named != (schema.reference.slug, schema.reference.version):
        wanted = f"{schema.reference.slug}/v{schema.reference.version}.schema.json"
        yield "/$id", f"is {quote(own)}, but its file says {wanted}"


_MOST = {
    "properties": PROPERTIES,
    "enum": LISTED,
    "required": PROPERTIES,
    "anyOf": TRIED,
    "oneOf": TRIED,
    "allOf": TRIED,
}
_UP_TO = ("maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties", "maxContains")


def check_occurrences(schema: Schema) -> Said:
    """Limit the number of members, choices, alternatives and items."""
    tried = 1
    for pointer, each in at.iter_positions(schema.tree):
        if not isinstance(each, dict):
            continue
        for keyword, maximum in _MOST.items():
            if keyword in each and not (
                isinstance(each[keyword], dict | list) and len(each[keyword]) <= maximum
            ):
                yield pointer, f"{keyword} must be a collection of at most {maximum}"
        for keyword in _UP_TO:
            value = each.get(keyword, 0)
            if type(value) is not int or not 0 <= value <= REPEATED:
                yield pointer, f"{keyword} must be a whole number up to {REPEATED}"
        if each.get("uniqueItems") and "maxItems" not in each:
            yield pointer, "uniqueItems compares each with each: give it a maxItems"
        branches = (each.get(word) for word in ("anyOf", "oneOf"))
        tried *= max([1, *(len(some) for some in branches if isinstance(some, list | dict))])
        if tried > EXPANDED:
            yield pointer, f"alternatives multiply to more than {EXPANDED}"
            return


def check_patterns(schema: Schema) -> Said:
    """Require patterns to match whole values, in bounded time."""
    for pointer, each in at.iter_positions(schema.tree):
        if not isinstance(each, dict) or "pattern" not in each:
            continue
        try:
            pattern.read_json_pattern(str(each["pattern"]))
        except PatternError as error:
            yield f"{pointer}/pattern", str(error)


def check_values(schema: Schema) -> Said:
    """Require keyword values of the right form: valid for the meta-schema, and without free text."""
    dialect = schema.tree.get("$schema", DIALECTS[0])
    for pointer, each in at.iter_positions(schema.tree):
        if isinstance(each, dict):
            yield from ((pointer, text) for text in iter_ill_formed(each, dialect))
    if not check_readable(str(schema.tree.get("$id", "")).replace("/", "."), spaces=False):
        yield "/$id", "reads as text"


def check_wording(schema: Schema) -> Said:
    """Require member names and listed values, which survive stripping, not to read as text."""
    for pointer, each in at.iter_positions(schema.tree):
        if isinstance(each, dict):
            yield from ((pointer, text) for text in (*_check_names(each), *_check_listed_values(each)))


def _check_names(schema: dict[str, Any]) -> Iterator[str]:
    for keyword in ("properties", "$defs", "definitions", "dependentSchemas"):
        held = schema.get(keyword)
        for name in held if isinstance(held, dict) else ():
            if not check_readable(name, spaces=False):
                yield f"{keyword} name {quote(name)} reads as text; use letters, digits, - _ and ."


def _check_listed_values(schema: dict[str, Any]) -> Iterator[str]:
    listed = schema.get("enum", [])
    for value in (*(listed if isinstance(listed, list) else ()), schema.get("const")):
        if not isinstance(value, str | int | float | bool | None):
            yield "lists a value that is no scalar"
        elif isinstance(value, str) and not check_readable(value, spaces=True):
            yield f"value {quote(value)} reads as text; use at most {BUDGET * 2} words"
