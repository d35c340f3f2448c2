"""Conversations that another process had a moment ago, so that not every message for one asks the engine who has it.

Owns how long that is believed. Wrong is harmless: what is handed in for a conversation goes to whoever has it by then,
and to this process where nobody has. Refuses to decide anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from agentserver.ports import ConversationFound

TRUST: Final = 5.0
"""Seconds for which it is believed. Then a message is a reason again to claim a conversation that rests."""

MOST: Final = 10_000
"""Conversations that are remembered."""


class Elsewhere:
    """Remembers open conversations that could not be claimed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, ConversationFound]] = {}

    def note(self, found: ConversationFound) -> None:
        """Remember one."""
        self.forget(found.conversation)
        self._known[found.conversation] = anyio.current_time() + TRUST, found
        if len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def renew(self, conversation: str) -> None:
        """Believe it for longer: its process has just decided about something."""
        _, found = self._known.get(conversation, (0.0, None))
        if found is not None:
            self.note(found)

    def find(self, conversation: str) -> ConversationFound | None:
        """One that another process had a moment ago, and None for any other."""
        until, found = self._known.get(conversation, (0.0, None))
        if found is not None and until < anyio.current_time():
            self.forget(conversation)
            return None
        return found

    def forget(self, conversation: str) -> None:
        """Ask the engine the next time."""
        self._known.pop(conversation, None)
