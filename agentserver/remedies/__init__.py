"""Remedies: for each refusal and finding its meaning, where to look, and the change that helps.

Internal. Imports nothing else of agentserver. A test compares the table with every code of the server.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentserver.remedies.configuration import ConfigCode, Remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FAMILIES", "REMEDIES", "Remedy", "find_remedies", "find_remedy"]

_HEADING: Final = re.compile(r"## (\w+): (.+)")
_CODED: Final = re.compile(r"\[(\w+:[\w -]+)\]\s*$")
"""The code at the end of a printed line."""


def _parse_table(text: str) -> Iterator[Remedy]:
    """Parse the tables of ``codes.md``: a heading for each family, a row for each code."""
    family = look = ""
    for line in text.splitlines():
        if heading := _HEADING.fullmatch(line):
            family = heading[1]
        elif line.startswith("|") and not line.startswith(("| code |", "|---")):
            name, means, place, change, said = (cell.strip() for cell in line.strip("|").split("|"))
            look = look if place == '"' else place
            yield Remedy(family, name, means, look, change, said)


_TABLE: Final = Path(__file__).with_name("codes.md").read_text("utf-8")

FAMILIES: Final = dict(_HEADING.findall(_TABLE)) | {"config": "Mistakes of a configuration"}
"""Titles of the families of codes, in the order in which they are shown."""

REMEDIES: Final[tuple[Remedy, ...]] = (*_parse_table(_TABLE), *(code.value for code in ConfigCode))
"""The table."""


def find_remedy(family: str, name: str) -> Remedy | None:
    """Find the entry of one code; None when the table has none."""
    return next((one for one in REMEDIES if (one.family, one.name) == (family, name)), None)


def find_remedies(text: str) -> tuple[Remedy, ...]:
    """Find the entries that a user asks for: by ``name`` or ``family:name``, or by printed lines with a code."""
    asked = " ".join(text.split()).lower()
    named = tuple(
        one for one in REMEDIES if asked in {one.name.lower(), one.wording.lower(), str(one).lower()} - {""}
    )
    printed = [each[1] for each in map(_CODED.search, text.splitlines()) if each is not None]
    return named or tuple(one for code in dict.fromkeys(printed) for one in REMEDIES if str(one) == code)
