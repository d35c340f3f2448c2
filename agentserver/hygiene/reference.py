"""The places of payload schemas, and the form of a reference to one.

Owns the syntax of references and ids. Refuses to open anything: symbolic links are for the code that opens the
file.
"""

from __future__ import annotations

import re
from typing import Final

from agentserver.hygiene.objections import Kind, Objection, Reference, shown

RULE: Final = "reference"
FOLDER: Final = "schemas/handoff-payloads"
SHAPE: Final = f"{FOLDER}/SLUG.vN.xsd or {FOLDER}/SLUG.vN.schema.json"

_ENDINGS = {"xsd": Kind.XSD, "schema.json": Kind.JSON}
_PATH = re.compile(r"schemas/handoff-payloads/([a-z0-9-]{1,64})\.v(0|[1-9][0-9]{0,5})\.(xsd|schema\.json)")
_ID = re.compile(r"([a-z0-9-]{1,64})[/.]v(0|[1-9][0-9]{0,5})(?:\.schema\.json)?")
_NAMESPACE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)\S*?([A-Za-z0-9_.-]{1,64})[:/]v(0|[1-9][0-9]{0,5})")


def parse(value: object) -> Reference | Objection:
    """The reference that a cell or a configuration names, or why it is none. The whole text counts."""
    if not isinstance(value, str) or not value:
        return Objection(RULE, "", f"must name a schema as {SHAPE}")
    found = _PATH.fullmatch(value)
    if found is None:
        return Objection(RULE, "", f"{shown(value)} {_blame(value)}; a reference is {SHAPE}")
    return Reference(found[1], int(found[2]), _ENDINGS[found[3]])


def path(reference: Reference) -> str:
    """The reference as text; ``parse`` is its inverse."""
    ending = next(text for text, kind in _ENDINGS.items() if kind is reference.kind)
    return f"{FOLDER}/{reference.slug}.v{reference.version}.{ending}"


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
