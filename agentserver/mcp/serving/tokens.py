"""Bearer tokens, as the digests of them that a file holds.

Owns the form of the file, and the comparison, which takes the same work whichever token is shown. The tokens are 256
random bits, so that a digest tells nothing of them. Refuses to know what a principal may.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE: Final = re.compile(r"(?P<name>\S.*\S|\S)\s+(?P<digest>[0-9a-f]{64})")


def fresh() -> str:
    """A new token of 256 random bits."""
    return token_urlsafe(32)


def line(name: str, token: str) -> str:
    """The line of the file for a principal's token."""
    return f"{name} {_digest(token)}"


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


def bearer(token: str, known: Mapping[str, str]) -> str | None:
    """The principal whose token it is; None for a token that nobody has."""
    shown, found = _digest(token), None
    for digest, name in known.items():  # all of them, so that the time tells nothing
        if hmac.compare_digest(shown, digest):
            found = name
    return found


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
