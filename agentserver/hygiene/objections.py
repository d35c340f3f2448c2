"""The vocabulary of schema hygiene: schemas, their places, and what is objected to.

Owns the values that rules take and give, and the syntax of references and ids. Refuses to know any rule and to open
anything: symbolic links are for the code that opens the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from agentserver.characters.printing import DOTS, truncate

FOLDER: Final = "schemas/handoff-payloads"
SHAPE: Final = f"{FOLDER}/SLUG.vN.xsd or {FOLDER}/SLUG.vN.schema.json"
SHOWN = 80
"""Characters of a schema's own text that an objection may quote."""


class SchemaLanguage(StrEnum):
    """The schema languages."""

    XSD = "xsd"
    JSON = "json-schema"


class Vulnerability(StrEnum):
    """The vulnerability classes of handoff payload schemas that rules protect against."""

    TRAVERSAL = "V1"  # a reference that leads elsewhere
    POISONING = "V2"  # a schema that accepts anything
    INJECTION = "V3"  # text that a model would read
    DRIFT = "V4"  # two schemas under one name
    EXHAUSTION = "V5"  # a schema that costs without bound
    BYPASS = "V6"  # no schema at all


@dataclass(frozen=True, slots=True)
class Reference:
    """The place of a schema: ``schemas/handoff-payloads/SLUG.vN.ENDING``."""

    slug: str
    version: int
    kind: SchemaLanguage


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it was read.

    Args:
        tree: a JSON value, or the root of an lxml tree without comments and processing instructions.
        reference: its place, when it has one; ids are then held against it.
    """

    kind: SchemaLanguage
    tree: Any
    reference: Reference | None = None


@dataclass(frozen=True, slots=True)
class Objection:
    """One reason why a schema or a field is not admitted.

    Args:
        rule: name of the rule, stable.
        path: where in the schema: a JSON pointer, or element names from the root; empty for all of it.
        detail: what is wrong and what would work; quotes at most SHOWN characters of the schema.
    """

    rule: str
    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.path}: {self.detail}" if self.path else f"{self.rule}: {self.detail}"


def quote(text: object) -> str:
    """Foreign text for a message: quoted, escaped to ASCII, at most SHOWN characters."""
    return truncate(ascii(text), SHOWN, DOTS)


_ENDINGS = {"xsd": SchemaLanguage.XSD, "schema.json": SchemaLanguage.JSON}
_PATH = re.compile(r"schemas/handoff-payloads/([a-z0-9-]{1,64})\.v(0|[1-9][0-9]{0,5})\.(xsd|schema\.json)")
_ID = re.compile(r"([a-z0-9-]{1,64})[/.]v(0|[1-9][0-9]{0,5})(?:\.schema\.json)?")
_NAMESPACE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)\S*?([A-Za-z0-9_.-]{1,64})[:/]v(0|[1-9][0-9]{0,5})")


def parse_reference(value: object) -> Reference | Objection:
    """The reference that a cell or a configuration names, or why it is none. The whole text counts."""
    if not isinstance(value, str) or not value:
        return Objection("reference", "", f"must name a schema as {SHAPE}")
    found = _PATH.fullmatch(value)
    if found is None:
        return Objection("reference", "", f"{quote(value)} {_blame(value)}; a reference is {SHAPE}")
    return Reference(found[1], int(found[2]), _ENDINGS[found[3]])


def format_reference(of: Reference) -> str:
    """The reference as text; ``parse_reference`` is its inverse."""
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


def json_id(text: str) -> tuple[str, int] | None:
    """Slug and version of an ``$id``: ``SLUG/vN.schema.json``, or with a dot for the slash."""
    found = _ID.fullmatch(text)
    return None if found is None else (found[1], int(found[2]))


def namespace(text: str) -> tuple[str, int] | None:
    """Last part and version of a target namespace that ends in ``:vN`` or ``/vN``."""
    found = _NAMESPACE.fullmatch(text)
    return None if found is None else (found[1], int(found[2]))
