"""Connections that are held: streams of events, and messages that are waited for.

Owns how many there may be, and that each ends when the server stops or its caller's token counts no more. Refuses to
know what is sent over them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

import anyio

from agentserver.gateways.http.problems import ProblemAnswer, stopping

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.types import Scope

    from agentserver.gateways.http.options import DoorOptions
    from agentserver.gateways.http.parts import KnownTokens
    from agentserver.gateways.principals import Caller

LOOK: Final = 0.4
"""Seconds between two looks at whether the callers of held connections still stand."""

CROWD: Final = 256
"""Requests of one principal at once, with those that wait and those whose body is to come: each holds a connection."""

GONE: Final = "agentserver.gone"
"""The key of a request's scope under which the connection finds what to call when its client has gone."""

STOPPING: Final = "stopping"
REVOKED: Final = "revoked"


@dataclass(eq=False)
class HeldConnection:
    """A connection that is held.

    Args:
        caller: whose it is.
        scope: of what is done meanwhile.
        why: the reason for which the door has ended it; empty while it goes on.
    """

    caller: Caller
    scope: anyio.CancelScope
    why: str = ""

    def end(self, why: str) -> None:
        """End it."""
        self.why = self.why or why
        self.scope.cancel()


class Holding:
    """Every connection that is held.

    Args:
        options: how many there may be.
        known: the tokens.
    """

    def __init__(self, options: DoorOptions, known: KnownTokens) -> None:
        self._options, self._known = options, known
        self._held: set[HeldConnection] = set()
        self._each: dict[str, int] = {}
        self.stopping = False

    def __len__(self) -> int:
        return len(self._held)

    def room(self, caller: Caller) -> bool:
        """True when one more may be held for this caller."""
        mine = self._each.get(caller.name, 0)
        return not self.stopping and mine < self._options.streams and len(self._held) < self._options.held

    @contextmanager
    def hold(self, caller: Caller, scope: Scope | None = None, wait: float = inf) -> Iterator[HeldConnection]:
        """Hold a connection for as long as the context lasts; being ended leaves it without an error.

        Args:
            caller: whose it is.
            scope: of the request, for the connection to end it when its client has gone.
            wait: seconds after which it is ended.

        Raises ProblemAnswer: 503 when the server stops, 429 when there are as many as there may be.
        """
        if self.stopping:
            raise stopping()
        if not self.room(caller):
            raise ProblemAnswer(429, "Too many streams and waits are open.", {"retry-after": "1"})
        one = HeldConnection(caller, anyio.CancelScope(deadline=anyio.current_time() + wait))
        if scope is not None:
            scope[GONE] = one.scope.cancel
        self._held.add(one)
        self._each[caller.name] = self._each.get(caller.name, 0) + 1
        try:
            with one.scope:
                yield one
        finally:
            if scope is not None:
                scope[GONE] = None
            self._held.discard(one)
            self._each[caller.name] -= 1
            if not self._each[caller.name]:
                del self._each[caller.name]

    def stop(self) -> None:
        """End all, and hold no more."""
        self.stopping = True
        for one in tuple(self._held):
            one.end(STOPPING)

    async def look(self) -> None:
        """End, for ever, what those hold whose tokens count no more."""
        while True:
            await anyio.sleep(LOOK)
            for one in tuple(self._held):
                if not self._known.stands(one.caller):
                    one.end(REVOKED)


class Turns:
    """Lets a few requests of each principal be worked on at a time, so that none waits behind all of another's.

    Args:
        most: of one principal at a time.
        brief: seconds after which a request that waits for something counts no more.
    """

    def __init__(self, most: int = 4, brief: float = 0.05) -> None:
        self._most, self._brief = most, brief
        self._present: dict[str, int] = {}
        self._working: dict[str, int] = {}
        self._waiting: dict[str, deque[anyio.Event]] = {}

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Wait until it is the turn of a principal's request. Raises ProblemAnswer (429) when there are too many."""
        with self._counted(name):
            working = self._working.get(name, 0)
            if working < self._most:
                self._working[name] = working + 1
            else:
                await self._queue(name)
            ended = False

            def end() -> None:
                nonlocal ended
                if not ended:
                    ended = True
                    self._next(name)

            timer = asyncio.get_running_loop().call_later(self._brief, end)
            try:
                yield
            finally:
                timer.cancel()
                end()

    @contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        present = self._present.get(name, 0)
        if present >= CROWD:
            raise ProblemAnswer(429, "Too many requests at once.", {"retry-after": "1"})
        self._present[name] = present + 1
        try:
            yield
        finally:
            self._present[name] -= 1
            if not self._present[name]:
                del self._present[name]

    async def _queue(self, name: str) -> None:
        queue, mine = self._waiting.setdefault(name, deque()), anyio.Event()
        queue.append(mine)
        mine_now = False
        try:
            await mine.wait()
            mine_now = True
        finally:
            if not mine_now:
                self._give_up(name, queue, mine)

    def _give_up(self, name: str, queue: deque[anyio.Event], mine: anyio.Event) -> None:
        """A request that was cancelled takes no turn; one that it was given goes to the next."""
        if mine.is_set():
            self._next(name)
            return
        queue.remove(mine)
        if not queue:
            del self._waiting[name]

    def _next(self, name: str) -> None:
        """Give a turn to the request that has waited longest."""
        queue = self._waiting.get(name)
        if queue:
            queue.popleft().set()
            if not queue:
                del self._waiting[name]
        else:
            self._working[name] -= 1
            if not self._working[name]:
                del self._working[name]
