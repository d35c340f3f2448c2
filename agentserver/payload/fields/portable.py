"""Patterns of XSD as JSON Schema writes them, in the dialect of ECMA-262.

Owns which of them both languages read alike. Refuses to match texts.
"""

from __future__ import annotations

import re
from typing import Final

_ATOM: Final = re.compile(r"\\.|.", re.DOTALL)
_ALIKE: Final = frozenset("nrtdD\\|.?*+(){}[]^-")
"""Second characters of the escapes that both languages have. A decimal digit is one of any script to XSD and to
Python, one of ASCII to ECMA-262."""


def portable(pattern: str) -> str:
    """The pattern, anchored; empty where only XSD can state it: categories of characters, classes less others."""
    found, inside = "", False
    for atom in _ATOM.findall(pattern):
        if atom[0] == "\\" and atom[1] not in _ALIKE:
            return ""
        if inside and atom == "[":
            return ""
        inside = atom == "[" if not inside else atom != "]"
        if not inside and atom in {".", "\\-"}:
            atom = "[^\\n\\r]" if atom == "." else "-"  # noqa: PLW2901 - the same atom in the other language
        found += atom
    return f"^(?:{found})$"
