"""A writer's memory of an open conversation's rows.

Owns the sum of the digests of what belongs to its present state. Refuses to know how rows are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentserver.engines import journal_seal as seal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class Kept:
    """The stored rows of an open conversation, so that they need not be read before they are written.

    Args:
        queued: the number and the digest of each delivery's row, by its id.
        belongings: the sum of the digests of the values and of what is queued.
    """

    number: int
    opened: float
    version: int
    chain: bytes
    values: Mapping[tuple[str, str], bytes]
    queued: dict[str, tuple[int, bytes]]
    belongings: int = 0

    def queue(self, key: str, number: int, digest: bytes) -> None:
        """A delivery waits in it."""
        self.queued[key] = number, digest
        self.belongings = seal.added(self.belongings, digest)

    def unqueue(self, key: str) -> int:
        """A delivery does not wait any more; gives the number of its row."""
        number, digest = self.queued.pop(key)
        self.belongings = seal.added(self.belongings, digest)
        return number

    def change(self, key: tuple[str, str], data: bytes | None) -> None:
        """A value is written, or removed without data."""
        for each in (self.values.get(key), data):
            if each is not None:
                self.belongings = seal.added(self.belongings, seal.value(self.number, *key, each))
