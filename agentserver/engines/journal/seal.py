"""Digests that detect rows changed by accident.

A chain link covers a step and every row that the step wrote. A seal covers a conversation's row and its current state.
A mark covers the columns of a row that change later. None of them protects against forgery.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from itertools import chain as join
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GENESIS: Final = bytes(32)
"""The predecessor of the first link in the chain of a conversation."""

_LENGTH: Final = struct.Struct(">Q").pack

STATE: Final = 16
"""Bytes of a state's digest in its conversation's row."""

WAITS, GONE = b"\x01", b"\x00"
"""The marks of an event in the outbox, and of one acknowledged."""


class SealedColumns(NamedTuple):
    """Sealed columns of a conversation's row. Times are seconds since the epoch."""

    number: int
    id: str
    principal: str
    root: str
    opened: float
    touched: float
    version: int
    last: int
    closed: float | None
    chain: bytes
    state: bytes
    rights: str
    asks: int
    sleeps_until: float | None
    tokens: int
    money: int

    def compute_seal(self, belongings: int) -> bytes:
        """Compute the seal of the row and of the summed digests of its queue and values."""
        number, key, principal, root, opened, touched, version, last, closed = self[:9]
        chain, state, rights, asks, due, tokens, money = self[9:]
        # As ``digest`` frames them, in one piece: every step needs it.
        columns = (
            f"{number}\0{key}\0{principal}\0{root}\0{opened}\0{touched}\0{version}\0{last}\0{closed}"
            f"\0{rights}\0{asks}\0{due}\0{tokens}\0{money}"
        ).encode("utf-8", "surrogatepass")
        owned = belongings.to_bytes(16, "big")
        framed = b"%b%d:%b16:%b%d:%b" % (columns, len(chain), chain, owned, len(state), state)
        return blake2b(framed, digest_size=16).digest()


def digest(columns: Iterable[object], *data: bytes) -> bytes:
    """Compute a 16-byte digest of columns (text, numbers or None) and of bytes."""
    hashed = blake2b("\0".join(map(str, columns)).encode("utf-8", "surrogatepass"), digest_size=16)
    for each in data:
        hashed.update(b"%d:" % len(each))
        hashed.update(each)
    return hashed.digest()


def toggle_digest(total: int, one: bytes) -> int:
    """Add a digest to a sum, or remove one that is in it, by exclusive or."""
    return total ^ int.from_bytes(one, "big")


def digest_delivery(number: int, conversation: int, row: Sequence[object]) -> bytes:
    """Compute the digest of a delivery's immutable columns, from ``id`` to ``call``."""
    key, request, thread, origin, sender, recipient, root, message, hop, about, call = row
    # As ``digest`` frames them, in one piece: most steps need it.
    columns = (
        f"{number}\0{conversation}\0{key}\0{request}\0{thread}\0{origin}\0{sender}\0{recipient}\0{root}"
        f"\0{hop}\0{about}\0{call}"
    ).encode("utf-8", "surrogatepass")
    framed = b"%b%d:%b" % (columns, len(message), message)  # type: ignore[arg-type, str-format]
    return blake2b(framed, digest_size=16).digest()


def digest_event(conversation: int, row: Sequence[object]) -> bytes:
    """Compute the digest of an event's columns ``number, version, position, request, sender, root, message, flag``."""
    *before, message, flag = row
    return digest((conversation, *before, flag), message or b"")  # type: ignore[arg-type]


def digest_value(conversation: int, owner: str, name: str, data: bytes) -> bytes:
    """Compute the digest of a value's row."""
    return digest((conversation, owner, name), data)


def mark(number: int, state: int, reason: str, at: float | None) -> bytes:
    """Compute the mark of a delivery's state."""
    text = f"{number}\0{int(state)}\0{reason}\0{at}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).digest()[:8]


def mark_queued(delivery: int, *, delayed: bool) -> bytes:
    """Compute the mark of a delivery's row in the queue."""
    return blake2b(b"%d %d" % (delivery, delayed), digest_size=16).digest()[:8]


def digest_state(data: bytes) -> bytes:
    """Compute the digest of a whole state, empty if only changes are stored."""
    return blake2b(data, digest_size=STATE).digest()


def digest_changes(before: bytes, changes: bytes) -> bytes:
    """Compute the digest of a state after a step that stored its changes."""
    return blake2b(before + changes, digest_size=STATE).digest()


def encode_places(*numbers: int) -> bytes:
    """Encode a step's number, its version, the number of the step before it, and its deliveries and events.

    Args:
        numbers: these three, then the first number and the count of its deliveries, and of its events.
    """
    return b"%d %d %d %d %d %d %d" % numbers


def extend_chain(chain: bytes, now: float, seed: bytes, *parts: bytes) -> bytes:
    """Compute the next chain link: a digest of the previous link and all the step's data."""
    parts = (now.hex().encode(), seed, *parts)
    # Each part after its length, without a turn of the interpreter for each: every step needs it.
    framed = join.from_iterable(zip(map(_LENGTH, map(len, parts)), parts, strict=True))
    return blake2b(chain + b"".join(framed), digest_size=32).digest()
