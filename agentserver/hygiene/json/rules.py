"""Hygiene rules for JSON Schema; rules.py orders them.

Each function yields a JSON pointer and a sentence for every place that it objects to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agentserver.hygiene import objections, pattern
from agentserver.hygiene.json import tree as at
from agentserver.hygiene.json import values as value_forms
from agentserver.hygiene.limits import (
    DEPTH,
    EXPANDED,
    LISTED,
    PROPERTIES,
    REPEATED,
    TRIED,
    check_document_size,
)
from agentserver.hygiene.objections import quote
from agentserver.hygiene.pattern import PatternError
from agentserver.hygiene.slug import BUDGET, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.hygiene.objections import Schema

Said: TypeAlias = "Iterator[tuple[str, str]]"

DIALECTS: Final = (
    value_forms.DRAFT_7,
    "https://json-schema.org/draft/2020-12/schema",
)


def check_size(schema: Schema) -> Said:
    """Limit nesting and size of the document, including containers that contain themselves."""
    return check_document_size(schema.tree, _members_of, "values")


def _members_of(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def check_references(schema: Schema) -> Said:
    """Require references to stay inside the document and to resolve; allow one base and one vocabulary."""
    known = dict(at.positions(schema.tree))
    for pointer, each in known.items():
        if not isinstance(each, dict):
            continue
        if "$ref" in each:
            named = at.target(each["$ref"])
            if named is None or named not in known:
                yield pointer, f"$ref {quote(each['$ref'])} is not in here; use #/$defs/NAME"
        if pointer and ("$id" in each or "$schema" in each):
            yield pointer, "$id and $schema belong to the root alone"
    dialect = schema.tree.get("$schema", DIALECTS[0]) if isinstance(schema.tree, dict) else DIALECTS[0]
    if dialect not in DIALECTS:
        yield "/$schema", f"{quote(dialect)} is unknown; use one of {', '.join(DIALECTS)}"


def check_keywords(schema: Schema) -> Said:
    """Allow only keywords that these rules understand: an unknown one could carry text or meaning."""
    for pointer, each in at.positions(schema.tree):
        if isinstance(each, dict):
            for keyword in each.keys() - at.KEYWORDS.keys():
                yield pointer, f"keyword {quote(keyword)} is not accepted"
        elif not isinstance(each, bool):
            yield pointer, "is no schema: an object, true or false"


def check_finite(schema: Schema) -> Said:
    """Forbid recursive schemas, and limit the size with references expanded."""
    loop = at.cycle(schema.tree)
    if loop:
        yield loop[0], f"refers to itself: {quote(' -> '.join(step or '#' for step in loop))}"
        return
    size, levels = at.cost(schema.tree)
    if levels > DEPTH + 1:
        yield "", f"is {levels} levels deep with its references written out, more than {DEPTH + 1}"
    if size > EXPANDED:
        yield "", f"holds {size} schemas with its references written out, more than {EXPANDED}"


_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})


def check_closed(schema: Schema) -> Said:
    """Require a type for every value, members for every object, and an item type for every array."""
    if not isinstance(schema.tree, dict) or schema.tree.get("type") != "object":
        yield "", 'must describe an object: "type": "object"'
    for pointer, each in at.positions(schema.tree):
        if each is False:
            continue
        if not isinstance(each, dict):
            yield pointer, "accepts anything"
            continue
        yield from ((pointer, said) for said in _open(each))


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
    named = objections.json_id(own) if isinstance(own, str) else None
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
    for pointer, each in at.positions(schema.tree):
        if not isinstance(each, dict):
            continue
        for keyword, most in _MOST.items():
            if keyword in each and not (
                isinstance(each[keyword], dict | list) and len(each[keyword]) <= most
            ):
                yield pointer, f"{keyword} must be a collection of at most {most}"
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
    for pointer, each in at.positions(schema.tree):
        if not isinstance(each, dict) or "pattern" not in each:
            continue
        try:
            pattern.read_json_pattern(str(each["pattern"]))
        except PatternError as error:
            yield f"{pointer}/pattern", str(error)


def check_values(schema: Schema) -> Said:
    """Require keyword values of the right form: valid for the meta-schema, and without free text."""
    dialect = schema.tree.get("$schema", DIALECTS[0])
    for pointer, each in at.positions(schema.tree):
        if isinstance(each, dict):
            yield from ((pointer, said) for said in value_forms.ill_formed(each, dialect))
    if not readable(str(schema.tree.get("$id", "")).replace("/", "."), spaces=False):
        yield "/$id", "reads as text"


def check_wording(schema: Schema) -> Said:
    """Require member names and listed values, which survive stripping, not to read as text."""
    for pointer, each in at.positions(schema.tree):
        if isinstance(each, dict):
            yield from ((pointer, said) for said in (*_check_names(each), *_check_listed_values(each)))


def _check_names(schema: dict[str, Any]) -> Iterator[str]:
    for keyword in ("properties", "$defs", "definitions", "dependentSchemas"):
        held = schema.get(keyword)
        for name in held if isinstance(held, dict) else ():
            if not readable(name, spaces=False):
                yield f"{keyword} name {quote(name)} reads as text; use letters, digits, - _ and ."


def _check_listed_values(schema: dict[str, Any]) -> Iterator[str]:
    listed = schema.get("enum", [])
    for value in (*(listed if isinstance(listed, list) else ()), schema.get("const")):
        if not isinstance(value, str | int | float | bool | None):
            yield "lists a value that is no scalar"
        elif isinstance(value, str) and not readable(value, spaces=True):
            yield f"value {quote(value)} reads as text; use at most {BUDGET * 2} words"
