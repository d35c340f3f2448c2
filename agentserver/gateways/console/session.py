"""The conversations of one console session.

Owns which conversations were opened, which one is current and what runs in them. Refuses to know screens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from agentserver.gateways.console.lines import takers_of
from agentserver.ports import Ingress
from agentserver.trace.text import TraceReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.core.guard import Rules
    from agentserver.core.state.approvals import ApprovalAnswer
    from agentserver.gateways.console.lines import Takers
    from agentserver.payload.codec import Codec
    from agentserver.ports import ConversationHandle
    from agentserver.ports.records import RecordSource
    from agentserver.trace.store import TraceBook


class ConsoleHost(Ingress, Protocol):
    """The console's needs of a server."""

    @property
    def rules(self) -> Rules:
        """The rules by which conversations decide."""
        ...

    @property
    def trace(self) -> TraceBook:
        """The events of late."""
        ...

    @property
    def stream(self) -> RecordSource:
        """The stream of committed records."""
        ...

    @property
    def durable(self) -> bool:
        """True when unfinished work outlives the process."""
        ...

    async def drain(self) -> None:
        """Refuse new messages and wait until nothing runs, for ``limits.drain`` seconds at most."""
        ...

    async def answer(self, conversation: str, answered: ApprovalAnswer) -> bool:
        """Commit a person's answer. False when nothing waits for it any more.

        Raises EngineError, and UnheardError of it where the answer may count yet.
        """
        ...


class CurrentTakers(Mapping[str, "Sequence[Codec]"]):
    """The listeners that take each payload, by the rules of the present: a reload may change them."""

    def __init__(self, host: ConsoleHost) -> None:
        self._host = host
        self._rules = host.rules
        self._known = takers_of(host.rules)

    def _now(self) -> Takers:
        if self._host.rules is not self._rules:
            self._rules = self._host.rules
            self._known = takers_of(self._rules)
        return self._known

    def __getitem__(self, name: str) -> Sequence[Codec]:
        return self._now()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


@dataclass
class ConsoleSession:
    """One conversation of the session.

    Args:
        running: requests that have not come to rest.
        left: whether the session turned to another one; it closes when it comes to rest.
        over: whether the session closed it.
        kept: whether the session left it to the next one.
        followed: whether somebody shows its progress.
    """

    handle: ConversationHandle
    reading: TraceReader = field(default_factory=TraceReader)
    running: int = 0
    left: bool = False
    over: bool = False
    kept: bool = False
    followed: bool = False

    def keep(self) -> None:
        """Leave the conversation to the next session."""
        self.kept = self.over = True
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
        """Every conversation that is still known, the oldest first."""
        return iter(tuple(self._known.values()))

    def get(self, conversation: str) -> ConsoleSession | None:
        """The conversation of that id, if it is the session's."""
        return self._known.get(conversation)

    def beginning(self, prefix: str) -> list[ConsoleSession]:
        """The current conversation, or those whose ids begin so."""
        if not prefix:
            return [self.current] if self.current else []
        return [session for key, session in self._known.items() if key.startswith(prefix)]

    def alive(self) -> bool:
        """True when the current conversation can take messages."""
        return self.current is not None and not (self.current.over or self.current.handle.over)

    async def open(self) -> ConsoleSession:
        """Begin another conversation. What still runs in the current one goes on, then it closes.

        Raises QuotaError, and leaves the current one as it is, when the principal may not open another.
        """
        if self.current is not None and not self.current.running:
            await self.current.close()
        handle = await self._host.open(self._principal)
        if self.current is not None:
            self.current.left = True
        self._forget()
        self.current = self._known[handle.id] = ConsoleSession(handle)
        return self.current

    def began(self, session: ConsoleSession) -> None:
        """Count a request."""
        session.running += 1
        self.rest.clear()

    async def ended(self, session: ConsoleSession) -> None:
        """A request has come to rest."""
        session.running -= 1
        if session.left and not session.running:
            await session.close()
        if not self.running():
            self.rest.set()

    def running(self) -> list[ConsoleSession]:
        """The conversations in which something runs."""
        return [session for session in self._known.values() if session.running]

    def _forget(self) -> None:
        """Drop conversations that are over and no longer in the trace."""
        traced = set(self._host.trace.conversations())
        for key, session in list(self._known.items()):
            if session.over and not session.running and key not in traced:
                del self._known[key]
