"""JSON documents as trees: the positions of schemas, references, and schemas stripped of text.

Knows which keyword contains a schema, a list or map of schemas, or plain data. Strips text that a model would read as
instructions, in two degrees: the library's and admission's. A property named ``title`` is not a title, and ``enum``
contains values.
"""

from __future__ import annotations

from copy import deepcopy
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urljoin

from agentserver.foreign_json import reading as foreign_json
from agentserver.foreign_json.reading import JsonLimits, RefusedJson
from agentserver.hygiene.objections import BYTES, NODES, Objection, Reference, Schema, SchemaLanguage
from agentserver.hygiene.slug import check_readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


LIMITS: Final = JsonLimits(bytes=BYTES, values=NODES)
"""Limits on a schema's text; the rules have narrower ones."""


def read_json_schema(data: bytes, reference: Reference | None = None) -> Schema | Objection:
    """Parse the schema in ``data``, or return the objection."""
    found = foreign_json.parse_json(data, LIMITS)
    if isinstance(found, RefusedJson):
        return Objection("document", "", found.rule)
    return Schema(SchemaLanguage.JSON, found, reference)


class SubschemaShape(Enum):
    """Kind of value that a keyword contains."""

    SCHEMA = "schema"
    SCHEMAS = "schemas"
    NAMED = "named schemas"
    TEXT = "text for readers"
    DATA = "data"


VISIBLE: Final = ("description", "title", "$comment", "examples")
"""Keywords whose text readers, including models, would take as a description of the schema."""

KEYWORDS: Final[Mapping[str, SubschemaShape]] = {
    **dict.fromkeys(VISIBLE, SubschemaShape.TEXT),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), SubschemaShape.DATA),
    **dict.fromkeys(
        ("$schema", "$id", "$ref", "type", "enum", "const", "default", "format"), SubschemaShape.DATA
    ),
    **dict.fromkeys(
        ("required", "dependentRequired", "uniqueItems", "multipleOf", "pattern"), SubschemaShape.DATA
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), SubschemaShape.DATA),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), SubschemaShape.DATA),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), SubschemaShape.DATA),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), SubschemaShape.DATA),
    **dict.fromkeys(
        ("additionalProperties", "unevaluatedProperties", "propertyNames"), SubschemaShape.SCHEMA
    ),
    **dict.fromkeys(("items", "additionalItems", "unevaluatedItems", "contains"), SubschemaShape.SCHEMA),
    **dict.fromkeys(("not", "if", "then", "else"), SubschemaShape.SCHEMA),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), SubschemaShape.SCHEMAS),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), SubschemaShape.NAMED),
    **dict.fromkeys(("$defs", "definitions"), SubschemaShape.NAMED),
}
"""Every keyword that an admitted schema may use."""


def iter_children(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield the direct subschemas of a schema, with the rest of their JSON pointer."""
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        holds = KEYWORDS.get(keyword)
        step = escape_token(keyword)
        if holds is SubschemaShape.SCHEMAS or (holds is SubschemaShape.SCHEMA and isinstance(value, list)):
            if isinstance(value, list):
                yield from ((f"/{step}/{at}", each) for at, each in enumerate(value))
        elif holds is SubschemaShape.SCHEMA:
            yield f"/{step}", value
        elif holds is SubschemaShape.NAMED and isinstance(value, dict):
            yield from ((f"/{step}/{escape_token(name)}", each) for name, each in value.items())


def escape_token(token: object) -> str:
    """Escape one token of a JSON pointer (RFC 6901)."""
    return str(token).replace("~", "~0").replace("/", "~1")


def iter_positions(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield every schema with its JSON pointer, empty for the root; the tree must be finite."""
    waiting = [("", root)]
    while waiting:
        pointer, schema = waiting.pop()
        yield pointer, schema
        waiting.extend((pointer + rest, each) for rest, each in reversed([*iter_children(schema)]))


def parse_target(reference: Any) -> str | None:
    """Parse the JSON pointer of a ``$ref`` within its document; None for other references."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    pointer = unquote(reference[1:])
    return pointer if not pointer or pointer.startswith("/") else None


class SchemaIndex:
    """Index of the schemas of a document by their possible references (JSON Schema 2020-12, 8.2; draft 7, 8.2)."""

    def __init__(self, root: Any) -> None:
        self.schemas: dict[str, tuple[Any, str]] = {}  # schema and base by pointer
        self._names: dict[str, str] = {}
        bases: dict[str, str] = {}
        for pointer, schema in iter_positions(root):
            above = pointer
            while above and above not in bases:
                above = above.rpartition("/")[0]
            base = bases.get(above, "")
            own = schema.get("$id") if isinstance(schema, dict) else None
            if isinstance(own, str) and not own.startswith("#"):
                base = _join(base, own)
                self._names.setdefault(base, pointer)
            bases[pointer] = base
            self.schemas[pointer] = schema, base
            self._anchor(schema, pointer, base)
        self._names.setdefault("", "")

    def _anchor(self, schema: Any, pointer: str, base: str) -> None:
        if isinstance(schema, dict):
            names = [schema.get(word) for word in ("$anchor", "$dynamicAnchor")]
            own = schema.get("$id")
            names.append(own[1:] if isinstance(own, str) and own.startswith("#") else None)
            for name in names:
                if isinstance(name, str) and name:
                    self._names.setdefault(f"{base}#{name}", pointer)

    def needs(self, pointer: str) -> tuple[str, ...]:
        """List the pointers of the schemas that one contains or refers to."""
        schema, base = self.schemas.get(pointer, (None, ""))
        inside = [pointer + rest for rest, _ in iter_children(schema)]
        references = [schema.get(word) for word in _REFERRING] if isinstance(schema, dict) else []
        return (*inside, *(named for each in references if (named := self._resolve(base, each)) is not None))

    def _resolve(self, base: str, reference: Any) -> str | None:
        if not isinstance(reference, str):
            return None
        if reference in self._names:
            return self._names[reference]
        whole = base + reference if reference[:1] in {"", "#"} else _join(base, reference)
        document, _, fragment = whole.partition("#")
        start = self._names.get(document, "" if reference.startswith("#") else None)
        if start is None:
            return None
        pointer = unquote(fragment)
        return (
            start + pointer if not pointer or pointer[0] == "/" else self._names.get(f"{document}#{pointer}")
        )


_REFERRING: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def _join(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


def find_cycle(root: Any) -> tuple[str, ...]:
    """Find the pointers of schemas that contain themselves by reference; empty if there are no such schemas."""
    try:
        order(root)
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def order(root: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """List every schema with those it needs, dependencies first. Raises graphlib.CycleError."""
    places = SchemaIndex(root)
    graph = {pointer: places.needs(pointer) for pointer in places.schemas}
    ordered = TopologicalSorter(graph).static_order()
    return tuple((pointer, graph.get(pointer, ())) for pointer in ordered)


def count_cost(root: Any) -> tuple[int, int]:
    """Count schemas and levels with references expanded. Raises graphlib.CycleError."""
    sizes: dict[str, tuple[int, int]] = {}
    for pointer, needs in order(root):
        inner = [sizes[each] for each in needs]
        sizes[pointer] = 1 + sum(size for size, _ in inner), 1 + max((level for _, level in inner), default=0)
    return sizes[""]


def strip_annotations(schema: Any) -> Any:
    """Copy a schema without description, title, $comment and examples.

    Members with these names and listed values are not schemas and are copied. The value of an unknown keyword counts
    as a schema.
    """
    return _strip(schema, lambda keyword, _: keyword not in VISIBLE)


def strip_to_structure(schema: Any) -> Any:
    """Copy only the structure: also without unknown keywords and defaults that read as text."""
    return _strip(schema, _structural)


def _strip(schema: Any, stays: Callable[[str, Any], bool]) -> Any:
    if isinstance(schema, list):
        return [_strip(each, stays) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        keyword: _strip_inner(keyword, value, stays)
        for keyword, value in schema.items()
        if stays(keyword, value)
    }


def _strip_inner(keyword: str, value: Any, stays: Callable[[str, Any], bool]) -> Any:
    holds = KEYWORDS.get(keyword, SubschemaShape.SCHEMA)
    if holds is SubschemaShape.DATA:
        return deepcopy(value)
    if holds is SubschemaShape.NAMED and isinstance(value, dict):
        return {name: _strip(each, stays) for name, each in value.items()}
    return _strip(value, stays)


def _structural(keyword: str, value: Any) -> bool:
    if keyword == "default":
        scalar = value is None or isinstance(value, bool | int | float)
        return scalar or (isinstance(value, str) and check_readable(value, spaces=True))
    return keyword in KEYWORDS and keyword not in VISIBLE
