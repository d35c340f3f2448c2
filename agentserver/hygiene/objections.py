"""Vocabulary of schema hygiene: schemas, references to them, and objections.

Parses references and ids. Opens no files: the code that does so refuses symbolic links.

Sizes are limited: libxml2 compiles 500 optional elements in 0.4 s but cannot finish 2000, and a 2 kB schema with nested
optional groups takes it longer than any client waits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from agentserver.characters.printing import DOTS, truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BYTES: Final = 256 * 1024
"""Of the file."""
DEPTH: Final = 32
"""Levels of nesting, with references expanded."""
NODES: Final = 20_000
"""Values or elements in the document."""
EXPANDED: Final = 20_000
"""Schemas or elements, with references expanded."""
WRITTEN: Final = 128
"""Levels of XSD elements, with references expanded; the code that processes them recurses."""
PROPERTIES: Final = 256
"""Members of one object, or particles of one group."""
LISTED: Final = 1000
"""Values of one enumeration."""
TRIED: Final = 16
"""Alternatives in one place of a JSON Schema."""
REPEATED: Final = 10_000
"""A finite limit on occurrences, lengths and items."""
OPTIONAL: Final = 3
"""Nested optional groups."""


def check_document_size(
    root: Any, inside: Callable[[Any], Iterable[Any]], kind: str
) -> Iterator[tuple[str, str]]:
    """Object to a document with too many levels or nodes. The document may contain itself.

    Args:
        root: the document.
        inside: returns the direct children of a node.
        kind: the noun for nodes.
    """
    waiting = [(root, 0)]
    seen = 0
    while waiting:
        node, depth = waiting.pop()
        seen += 1
        if depth > DEPTH:
            yield "", f"is nested more than {DEPTH} levels deep, or contains itself"
            return
        if seen > NODES:
            yield "", f"has more than {NODES} {kind}"
            return
        waiting.extend((each, depth + 1) for each in inside(node))


FOLDER: Final = "schemas/handoff-payloads"
SHAPE: Final = f"{FOLDER}/SLUG.vN.xsd or {FOLDER}/SLUG.vN.schema.json"
SHOWN = 80
"""Characters of a schema's own text that an objection may quote."""


class SchemaLanguage(StrEnum):
    """A schema language."""

    XSD = "xsd"
    JSON = "json-schema"


class Vulnerability(StrEnum):
    """Vulnerability class of handoff payload schemas that a rule protects against."""

    TRAVERSAL = "V1"  # a reference out of the folder
    POISONING = "V2"  # a schema that accepts anything
    INJECTION = "V3"  # text that a model would read
    DRIFT = "V4"  # two schemas with one name
    EXHAUSTION = "V5"  # a schema of unbounded cost
    BYPASS = "V6"  # not a schema


@dataclass(frozen=True, slots=True)
class Reference:
    """The place of a schema: ``schemas/handoff-payloads/SLUG.vN.ENDING``."""

    slug: str
    version: int
    kind: SchemaLanguage


@dataclass(frozen=True, slots=True)
class Schema:
    """A parsed schema.

    Args:
        tree: a JSON value, or the root of an lxml tree without comments and processing instructions.
        reference: its place, if it has one; ids must then agree with it.
    """

    kind: SchemaLanguage
    tree: Any
    reference: Reference | None = None


@dataclass(frozen=True, slots=True)
class Objection:
    """Reason for refusing a schema or a field.

    Args:
        rule: stable name of the rule.
        path: the place in the schema: a JSON pointer, or element names from the root; empty for the whole schema.
        detail: the problem and a correction; quotes at most SHOWN characters of the schema.
    """

    rule: str
    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.path}: {self.detail}" if self.path else f"{self.rule}: {self.detail}"


def quote(text: object) -> str:
    """Quote foreign text for a message, escaped to ASCII and with at most SHOWN characters."""
    return truncate(ascii(text), SHOWN, DOTS)


_ENDINGS = {"xsd": SchemaLanguage.XSD, "schema.json": SchemaLanguage.JSON}
_PATH = re.compile(r"schemas/handoff-payloads/([a-z0-9-]{1,64})\.v(0|[1-9][0-9]{0,5})\.(xsd|schema\.json)")
_ID = re.compile(r"([a-z0-9-]{1,64})[/.]v(0|[1-9][0-9]{0,5})(?:\.schema\.json)?")
_NAMESPACE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)\S*?([A-Za-z0-9_.-]{1,64})[:/]v(0|[1-9][0-9]{0,5})")


def parse_reference(value: object) -> Reference | Objection:
    """Parse a reference from a cell or a configuration; the whole text must match."""
    if not isinstance(value, str) or not value:
        return Objection("reference", "", f"must name a schema as {SHAPE}")
    found = _PATH.fullmatch(value)
    if found is None:
        return Objection("reference", "", f"{quote(value)} {_blame(value)}; a reference is {SHAPE}")
    return Reference(found[1], int(found[2]), _ENDINGS[found[3]])


def format_reference(of: Reference) -> str:
    """Format the reference; the inverse of ``parse_reference``."""
    ending = next(text for text, kind in _ENDINGS.items() if kind is of.kind)
    return f"{FOLDER}/{of.slug}.v{of.version}.{ending}"


def _blame(value: str) -> str:
    if "://" in value:
        return "is a URL"
    if value.startswith(("/", "\\")) or value[1:2] == ":":
        return "is an absolute path"
    if ".." in re.split(r"[/\\]", value):
        return "has a '..' segment"
    if not value.startswith(f"{FOLDER}/"):
        return f"is outside {FOLDER}/"
    return "has upper-case letters" if value != value.lower() else "has no SLUG.vN name"


def parse_json_id(text: str) -> tuple[str, int] | None:
    """Parse the slug and version of an ``$id``: ``SLUG/vN.schema.json``, or with a dot for the slash."""
    found = _ID.fullmatch(text)
    return None if found is None else (found[1], int(found[2]))


def parse_namespace(text: str) -> tuple[str, int] | None:
    """Parse the last part and version of a target namespace that ends in ``:vN`` or ``/vN``."""
    found = _NAMESPACE.fullmatch(text)
    return None if found is None else (found[1], int(found[2]))
