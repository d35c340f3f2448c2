"""Digests of the journal's rows, so that one that is not what was written is noticed.

Owns what each digest is of. A link of a conversation's chain is of a step and of every row that the step made; a seal
is of a conversation's row and of everything that belongs to its present state; a mark is of what changes in a row
afterwards. They show accidents, not a forger. Refuses to know where rows are read and written.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GENESIS: Final = bytes(32)
"""The predecessor of the first link in the chain of a conversation."""

STATE: Final = 16
"""Bytes of the digest of a state in the row of its conversation."""

WAITS, GONE = b"\x01", b"\x00"
"""The marks of an event that waits in the outbox, and of one that has left it."""


class Sealed(NamedTuple):
    """The columns of a conversation's row that its seal is of. Times are seconds since the epoch."""

    number: int
    id: str
    principal: str
    root: str
    opened: float
    touched: float
    version: int
    closed: float | None
    chain: bytes
    state: bytes
    rights: str
    asks: int

    def seal(self, belongings: int) -> bytes:
        """The seal: of the row, and of the sum of the digests of what belongs to it."""
        *columns, chain, state, rights, asks = self
        return digest((*columns, rights, asks), chain, belongings.to_bytes(16, "big"), state)


def digest(columns: Iterable[object], *data: bytes) -> bytes:
    """The digest, 16 bytes, of columns that are text, numbers or None, and of bytes."""
    hashed = blake2b("\0".join(map(str, columns)).encode("utf-8", "surrogatepass"), digest_size=16)
    for each in data:
        hashed.update(b"%d:" % len(each))
        hashed.update(each)
    return hashed.digest()


def added(total: int, one: bytes) -> int:
    """The sum with one more digest, or with one less when it is in already: their exclusive or."""
    return total ^ int.from_bytes(one, "big")


def delivery(number: int, conversation: int, row: Sequence[object]) -> bytes:
    """The digest of a delivery's columns from ``id`` to ``call``, which never change."""
    *before, message, hop, about, call = row
    return digest((number, conversation, *before, hop, about, call), message)  # type: ignore[arg-type]


def event(conversation: int, row: Sequence[object]) -> bytes:
    """The digest of an event's columns ``number, version, position, request, sender, root, message, flag``."""
    *before, message, flag = row
    return digest((conversation, *before, flag), message or b"")  # type: ignore[arg-type]


def value(conversation: int, owner: str, name: str, data: bytes) -> bytes:
    """The digest of a value's row."""
    return digest((conversation, owner, name), data)


def mark(number: int, state: int, reason: str, ended: float | None) -> bytes:
    """The mark of what has become of a delivery."""
    text = f"{number}\0{int(state)}\0{reason}\0{ended}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=16).digest()[:8]


def state(data: bytes) -> bytes:
    """The digest of a state as it was kept whole; of none for a conversation that is kept as changes alone."""
    return blake2b(data, digest_size=STATE).digest()


def changed(before: bytes, changes: bytes) -> bytes:
    """The digest of a state after a step, of which the changes are kept."""
    return blake2b(before + changes, digest_size=STATE).digest()


def places(step: int, version: int, delivery: int, deliveries: int, event: int, events: int) -> bytes:
    """Rows that a step made: its own, and of its deliveries and events the number of the first and how many."""
    return b"%d %d %d %d %d %d" % (step, version, delivery, deliveries, event, events)


def chained(chain: bytes, now: float, seed: bytes, *parts: bytes) -> bytes:
    """The next link of a conversation's chain: a digest of the link before it and of everything the step kept."""
    framed = [chain]
    for part in (now.hex().encode(), seed, *parts):
        framed += len(part).to_bytes(8, "big"), part
    return blake2b(b"".join(framed), digest_size=32).digest()
