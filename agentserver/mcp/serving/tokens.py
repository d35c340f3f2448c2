"""The file of MCP hosts: a principal and the digest of its token in each line.

Owns the form of the file. Refuses to know what a token is (agentserver/bearer.py), and what a principal may.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentserver import bearer

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE: Final = re.compile(r"(?P<name>\S.*\S|\S)\s+(?P<digest>[0-9a-f]{64})")


def line(name: str, token: str) -> str:
    """The line of the file for a principal's token."""
    return f"{name} {bearer.digest(token)}"


def read(text: str) -> Mapping[str, str]:
    """The principals by the digest of their token. A line is a name and a digest; one that begins with # says nothing.

    Raises ValueError with the number of a line that is neither, or repeats a digest.
    """
    found: dict[str, str] = {}
    for number, each in enumerate(text.splitlines(), 1):
        said = each.strip()
        if not said or said.startswith("#"):
            continue
        match = _LINE.fullmatch(said)
        if match is None:
            raise ValueError(
                f"{number}: a name and the SHA-256 of a token in hexadecimal digits are expected"
            )
        if match["digest"] in found:
            raise ValueError(f"{number}: the same token is there already, for {found[match['digest']]}")
        found[match["digest"]] = match["name"]
    return found
