"""Bearer tokens: how one is made, what is kept of it, and whose the one is that somebody shows.

Owns that a token is 256 random bits, and that its SHA-256 is what is kept, which so tells nothing of it. A token that
is unknown, revoked or malformed costs the same work. Refuses to know files.
"""

from __future__ import annotations

from hashlib import sha256
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

LENGTH: Final = 43
"""Characters of a token: 256 bits, 6 in each."""


def fresh() -> str:
    """A new token."""
    return token_urlsafe(32)


def digest(token: str) -> str:
    """The part of a token that is kept: its SHA-256 in hexadecimal digits."""
    return _digest(token.encode())


def holder(token: str, known: Mapping[str, T]) -> T | None:
    """The holder of a token; None for a text that is nobody's. Never raises.

    Args:
        token: as it was shown.
        known: who holds which, by the digests.
    """
    shown = token.encode("utf-8", "surrogatepass")
    # The same bytes are read whatever was shown, so that the work tells nothing of it.
    found = known.get(_digest(shown[:LENGTH].ljust(LENGTH, b"\0")))
    return found if len(shown) == LENGTH else None


def _digest(shown: bytes) -> str:
    return sha256(shown).hexdigest()
