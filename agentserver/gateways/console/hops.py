"""The live view of hops.

Owns the way from records to the screen. Refuses to let the pump wait for a terminal, or fail with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from agentserver.characters.printing import format_amount
from agentserver.trace import text
from agentserver.trace.terminal import Style

if TYPE_CHECKING:
    from agentserver.core.records.audit import AuditRecord
    from agentserver.gateways.console.session import ConsoleSession, ConsoleSessions
    from agentserver.trace.terminal import Screen

WAITING = 10_000
"""Records that may wait to be shown; beyond it the oldest are counted instead."""


class HopView:
    """Shows what happens in the session's conversations, as long as ``on`` is set."""

    def __init__(self, sessions: ConsoleSessions, screen: Screen) -> None:
        self._sessions = sessions
        self._screen = screen
        self._waiting: deque[tuple[ConsoleSession, AuditRecord]] = deque()
        self._lost = 0
        self._news = asyncio.Event()
        self.on = True

    def note(self, record: AuditRecord) -> None:
        """Take in a record; called by the pump, so it neither blocks nor raises."""
        session = self._sessions.get(record.conversation)
        if session is None:
            return
        if len(self._waiting) >= WAITING:
            self._waiting.popleft()
            self._lost += 1
        self._waiting.append((session, record))
        self._news.set()

    async def follow(self, session: ConsoleSession) -> None:
        """Show how far listeners say they are, until the conversation is over."""
        if session.followed:
            return
        session.followed = True
        async for progress in session.handle.progress():
            if self.on:
                self.flush()
                self._screen.show(((Style.DIM, f"{progress.sender} ... {progress.text}"),))

    async def show(self) -> None:
        """Show records as they come, for ever."""
        while True:
            await self._news.wait()
            self.flush()

    def flush(self) -> None:
        """Show every record so far; what is printed next comes after them."""
        self._news.clear()
        if self._lost:
            self._screen.say(f"{format_amount(self._lost, 'hop')} not shown", Style.WARN)
            self._lost = 0
        while self._waiting:
            self._show(*self._waiting.popleft())

    def _show(self, session: ConsoleSession, record: AuditRecord) -> None:
        hop = session.reading.take(record)
        if self.on and not text.is_quiet(record):
            self._screen.show(*text.todo_line(hop), text.line(hop), *text.detail_lines(hop, "/trace"))
