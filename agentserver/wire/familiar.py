"""Checks the bytes of a document for names that the server's own schemas do not declare.

libxml2 keeps every distinct name for as long as the parsing thread lives, so documents with new names are parsed in a
thread and by a parser that are discarded. The check may reject a harmless document, which costs time, but never
accepts one with a new name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_TAG: Final = re.compile(
    rb"<(?:/([A-Za-z_][\w.-]*)|([A-Za-z_][\w.-]*)((?:[ \t\r\n]+[A-Za-z_][\w:.-]*=\"[^\"<]*\")*))[ \t\r\n]*/?>"
)
_ATTRIBUTE: Final = re.compile(rb"([A-Za-z_][\w:.-]*)=\"([^\"<]*)\"")
_REFERENCE: Final = re.compile(rb"&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9A-Fa-f]{1,6});")
_DECLARED: Final = re.compile(r"""\b(?:name|targetNamespace|xmlns(?::[\w.-]+)?)=["']([^"'<>&]+)["']""")


def names(schemas: Iterable[str]) -> frozenset[bytes]:
    """Collect every name and namespace that the schemas declare, as a document would spell it."""
    return frozenset(found.encode() for schema in schemas for found in _DECLARED.findall(schema))


def familiar(data: bytes, known: frozenset[bytes]) -> bool:
    """Check that the document has only tags with known names, text and character references.

    Each ``<`` must begin a tag that the pattern matches completely, and attribute values contain no ``<``, so a
    parser cannot find a name that this check misses. Prefixed names count as unknown.
    """
    tags = _TAG.findall(data)
    if not tags or len(tags) != data.count(b"<"):
        return False
    for closing, opening, attributes in tags:
        if (closing or opening) not in known:
            return False
        for name, value in _ATTRIBUTE.findall(attributes) if attributes else ():
            if name not in known and not (name == b"xmlns" and value in known):
                return False
    references = data.count(b"&")
    return not references or references == len(_REFERENCE.findall(data))
