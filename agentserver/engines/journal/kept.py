"""A writer's memory of an open conversation's rows.

Owns the digests of its present state and of what belongs to it. Refuses to know how rows are written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentserver.engines.journal import seal
from agentserver.engines.journal.rows import DeliveryRow

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class Kept:
    """The stored rows of an open conversation, so that they need not be read before they are written.

    Args:
        values: by owner and name.
        queued: the number and the digest of each delivery's row, by its id.
        belongings: the sum of the digests of the values and of what is queued.
        state: the digest of its state, of the changes since it was kept whole included.
        rights: of the principal, as they stand in its row.
        asks: how many messages wait for a person.
    """

    number: int
    opened: float
    version: int
    chain: bytes
    values: dict[str, dict[str, bytes]] = field(default_factory=dict)
    queued: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    belongings: int = 0
    state: bytes = b""
    rights: str = ""
    asks: int = 0

    def queue(self, key: str, number: int, digest: bytes) -> None:
        """A delivery waits in it."""
        self.queued[key] = number, digest
        self.belongings = seal.added(self.belongings, digest)

    def unqueue(self, key: str) -> DeliveryRow:
        """Remove a delivery that no longer waits. Returns its row."""
        number, digest = self.queued.pop(key)
        self.belongings = seal.added(self.belongings, digest)
        return DeliveryRow(number, self.number)

    def store(self, owner: str, values: Mapping[str, bytes]) -> dict[tuple[int, str, str], bytes | None]:
        """Everything of an owner's is this now; gives what that changes, with None for what is removed."""
        known = self.values.get(owner, {})
        changed: dict[tuple[int, str, str], bytes | None] = {}
        for name in known.keys() | values.keys() if known else values.keys():
            before, now = known.get(name), values.get(name)
            if before == now:
                continue
            changed[self.number, owner, name] = now
            self._exchange(owner, name, before, now)
        if values:
            self.values[owner] = dict(values)
        else:
            self.values.pop(owner, None)
        return changed

    def replace(self, values: Mapping[str, Mapping[str, bytes]]) -> dict[tuple[int, str, str], bytes | None]:
        """Everything of every owner is this now; gives what ``store`` does."""
        changed: dict[tuple[int, str, str], bytes | None] = {}
        for owner in {**self.values, **values}:
            changed.update(self.store(owner, values.get(owner, {})))
        return changed

    def amend(
        self, owner: str, changes: Mapping[str, bytes | None]
    ) -> dict[tuple[int, str, str], bytes | None]:
        """Change some of an owner's values, and look at no other; None removes one. Gives what ``store`` does."""
        known = self.values.setdefault(owner, {})
        for name, now in changes.items():
            self._exchange(owner, name, known.pop(name, None), now)
            if now is not None:
                known[name] = now
        if not known:
            del self.values[owner]
        return {(self.number, owner, name): now for name, now in changes.items()}

    def _exchange(self, owner: str, name: str, before: bytes | None, now: bytes | None) -> None:
        """Let the sum of the digests have one value in place of another."""
        for each in (before, now):
            if each is not None:
                self.belongings = seal.added(self.belongings, seal.value(self.number, owner, name, each))
