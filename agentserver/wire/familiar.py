"""A look at the bytes of a document for names that the server's own schemas do not know.

libxml2 keeps each distinct name that a thread has parsed for as long as the thread lives. Documents with names of their
own are therefore read apart, by a parser and in a thread that go away. Owns that question; its answer may be no for a
harmless document, which costs time, and is never yes for one that brings a new name. Refuses to judge documents.
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
    """Every name and namespace that schemas declare, as it stands in a document of theirs."""
    return frozenset(found.encode() for schema in schemas for found in _DECLARED.findall(schema))


def familiar(data: bytes, known: frozenset[bytes]) -> bool:
    """True for start and end tags, text and character references alone, all names being known.

    Each ``<`` must begin a tag that the pattern takes whole, and no attribute's value holds one, so that no parser can
    see a name where this sees none. Prefixed names count as unknown.
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
