"""Bearer tokens: creation, stored digest, and lookup of the find_holder.

A token has 256 random bits; only its SHA-256 is stored. Looking up an unknown, revoked or malformed token takes
the same work as a valid one.
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


def make_token() -> str:
    """Make a new token."""
    return token_urlsafe(32)


def digest(token: str) -> str:
    """Compute the stored part of a token: its SHA-256 in hexadecimal digits."""
    return _digest(token.encode())


def find_holder(token: str, known: Mapping[str, T]) -> T | None:
    """Find the find_holder of a token; None for an unknown text. Never raises.

    Args:
        token: as presented.
        known: holders by digest.
    """
    shown = token.encode("utf-8", "surrogatepass")
    # The same number of bytes is hashed for every input, so that the time reveals nothing.
    found = known.get(_digest(shown[:LENGTH].ljust(LENGTH, b"\0")))
    return found if len(shown) == LENGTH else None


def _digest(shown: bytes) -> str:
    return sha256(shown).hexdigest()
