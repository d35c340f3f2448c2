"""A writer's memory of an open conversation's rows.

Owns the digests of its present state and of what belongs to it, and when the state is kept whole again. Refuses to know
how rows are written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from agentserver.core.encoding.recording import Origin
from agentserver.engines.sqlite.proof import seal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.conversation import Conversation

CHANGES: Final = 8192
"""Bytes of changes up to which no state is kept whole, however small it is."""


@dataclass(slots=True)
class Kept:
    """The stored rows of an open conversation, so that they need not be read before they are written.

    Args:
        values: by owner and name.
        queued: the number and the digest of each delivery's row, by its id.
        belongings: the sum of the digests of the values and of what is queued.
        last: the conversation as it is stored; None when that is not known.
        state: the digest of its state, of the changes since it was kept whole included.
        room: bytes of changes that may still come before the state is kept whole again.
        rights: of the principal, as they stand in its row.
    """

    number: int
    opened: float
    version: int
    chain: bytes
    values: dict[str, dict[str, bytes]] = field(default_factory=dict)
    queued: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    belongings: int = 0
    last: Conversation | None = None
    state: bytes = b""
    room: int = 0
    rights: str = ""

    def begin(self, outcome: Outcome) -> None:
        """Take a conversation that begins with this outcome for stored, unless something is in it already."""
        after, since = outcome.conversation, outcome.since
        opened = Origin.of(after).conversation()
        if since is not None and since == opened._replace(touched=since.touched):
            self.last, self.state, self.room = since, seal.state(b""), CHANGES

    def knows(self, outcome: Outcome) -> bool:
        """True when the outcome was decided on what is stored, so that what it changes is all that differs."""
        return self.last is not None and self.last is outcome.since

    def follow(self, outcome: Outcome, changes: bytes) -> bool:
        """Take the state after a step that made these changes for stored. False when it has to be kept whole."""
        if len(changes) > self.room:
            return False
        self.last, self.room = outcome.conversation, self.room - len(changes)
        self.state = seal.changed(self.state, changes)
        return True

    def keep(self, conversation: Conversation, state: bytes) -> None:
        """Take a state that is kept whole for stored."""
        self.last, self.state, self.room = conversation, seal.state(state), max(CHANGES, len(state))

    def queue(self, key: str, number: int, digest: bytes) -> None:
        """A delivery waits in it."""
        self.queued[key] = number, digest
        self.belongings = seal.added(self.belongings, digest)

    def unqueue(self, key: str) -> int:
        """A delivery does not wait any more; gives the number of its row."""
        number, digest = self.queued.pop(key)
        self.belongings = seal.added(self.belongings, digest)
        return number

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
