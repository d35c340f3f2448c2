"""The conversations of one console session: which were opened, which is current, and their open requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from agentserver.gateways.console.lines import group_takers
from agentserver.gateways.hosts import ServerView
from agentserver.ports import Ingress
from agentserver.trace.text import TraceReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.gateways.console.lines import Takers
    from agentserver.payload.codec import Codec
    from agentserver.ports import ConversationHandle


DOOR: Final = "console"
"""Name under which a journal records the conversations of consoles."""


class ConsoleHost(Ingress, ServerView, Protocol):
    """The console's needs of a server."""

    @property
    def durable(self) -> bool:
        """True when unfinished work outlives the process."""

    async def drain(self) -> None:
        """Refuse new messages and wait until nothing runs, for ``limits.drain`` seconds at most."""


class CurrentTakers(Mapping[str, "Sequence[Codec]"]):
    """The listeners that take each payload, by the rules of the present: a reload may change them."""

    def __init__(self, host: ConsoleHost) -> None:
        self._host = host
        self._rules = host.rules
        self._known = group_takers(host.rules)

    def _current_takers(self) -> Takers:
        if self._host.rules is not self._rules:
            self._rules = self._host.rules
            self._known = group_takers(self._rules)
        return self._known

    def __getitem__(self, name: str) -> Sequence[Codec]:
        return self._current_takers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current_takers())

    def __len__(self) -> int:
        return len(self._current_takers())


@dataclass
class ConsoleSession:
    """One conversation of the session.

    Args:
        running: open requests.
        abandoned: whether the session switched to another one; it closes after its last request.
        over: whether the session closed it.
        detached: whether it was detached for the next session.
        followed: whether its progress is shown.
    """

    handle: ConversationHandle
    reading: TraceReader = field(default_factory=TraceReader)
    running: int = 0
    abandoned: bool = False
    over: bool = False
    detached: bool = False
    followed: bool = False

    def keep(self) -> None:
        """Leave the conversation to the next session."""
        self.detached = self.over = True
        self.handle.detach()

    async def close(self) -> None:
        """End the conversation, once."""
        if not self.over:
            self.over = True
            await self.handle.close()


class ConsoleSessions:
    """The session's conversations by id. ``rest`` is set while nothing runs in any of them."""

    def __init__(self, host: ConsoleHost, principal: str) -> None:
        self._host = host
        self._principal = principal
        self._known: dict[str, ConsoleSession] = {}
        self.current: ConsoleSession | None = None
        self.rest = asyncio.Event()
        self.rest.set()

    def __iter__(self) -> Iterator[ConsoleSession]:
        """Iterate over the known conversations, oldest first."""
        return iter(tuple(self._known.values()))

    def get(self, conversation: str) -> ConsoleSession | None:
        """Return the conversation of an id, if it belongs to the session."""
        return self._known.get(conversation)

    def find_by_prefix(self, prefix: str) -> list[ConsoleSession]:
        """List the conversations whose ids have a prefix; the current one for an empty prefix."""
        if not prefix:
            return [self.current] if self.current else []
        return [session for key, session in self._known.items() if key.startswith(prefix)]

    def alive(self) -> bool:
        """Tell whether the current conversation can take messages."""
        return self.current is not None and not (self.current.over or self.current.handle.over)

    async def open(self) -> ConsoleSession:
        """Begin another conversation. The previous one closes after its last request.

        Raises QuotaError, and keeps the current one, if the principal may not open another.
        """
        if self.current is not None and not self.current.running:
            await self.current.close()
        handle = await self._host.open(self._principal, door=DOOR if self._host.durable else "")
        if self.current is not None:
            self.current.abandoned = True
        self._forget()
        self.current = self._known[handle.id] = ConsoleSession(handle)
        return self.current

    def count_started(self, session: ConsoleSession) -> None:
        """Count a request."""
        session.running += 1
        self.rest.clear()

    async def count_finished(self, session: ConsoleSession) -> None:
        """Count a finished request."""
        session.running -= 1
        if session.abandoned and not session.running:
            await session.close()
        if not self.list_running():
            self.rest.set()

    def list_running(self) -> list[ConsoleSession]:
        """List the conversations with open requests."""
        return [session for session in self._known.values() if session.running]

    def _forget(self) -> None:
        """Drop closed conversations that are no longer in the trace."""
        traced = set(self._host.trace.conversations())
        for key, session in list(self._known.items()):
            if session.over and not session.running and key not in traced:
                del self._known[key]
