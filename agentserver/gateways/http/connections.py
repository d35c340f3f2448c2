"""The connections of the door: how many there are, which make room, and which hold a stream.

The last ones are reserved for probes and operators.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, Self

import anyio

from agentserver.gateways.http.parts import server_stopping, too_many

if TYPE_CHECKING:
    from types import TracebackType

    from starlette.types import Scope

    from agentserver.gateways.http.options import DoorOptions
    from agentserver.gateways.http.parts import ProblemAnswer, TokenSource
    from agentserver.gateways.principals import Caller


class Abortable(Protocol):
    """The needs of this module of a connection."""

    def abort(self) -> None:
        """Cut it."""


class Connections:
    """All current connections.

    A connection is active from the head of a request to the end of its response, and idle otherwise. At the limit, a
    new one replaces the longest idle one, so that idle ones block no client. The last active ones are reserved for
    probes and operators: requests of other principals that would need them are refused.

    Args:
        options: the limit, and how many are reserved.
    """

    def __init__(self, options: DoorOptions) -> None:
        self._limit, self._reserved = options.connections, options.reserved
        self._resting: dict[Abortable, None] = {}
        self._working: set[Abortable] = set()

    def __len__(self) -> int:
        return len(self._resting) + len(self._working)

    def add(self, connection: Abortable) -> bool:
        """Add a new connection. False at the limit with no idle one."""
        if len(self) >= self._limit:
            longest = next(iter(self._resting), None)
            if longest is None:
                return False
            del self._resting[longest]
            longest.abort()
        self._resting[connection] = None
        return True

    def work(self, connection: Abortable) -> None:
        """Note that a connection has a request."""
        if connection in self._resting:
            del self._resting[connection]
            self._working.add(connection)

    def rest(self, connection: Abortable) -> None:
        """Note that the request of a connection is answered."""
        if connection in self._working:
            self._working.discard(connection)
            self._resting[connection] = None

    def remove(self, connection: Abortable) -> None:
        """Note that a connection is gone."""
        self._resting.pop(connection, None)
        self._working.discard(connection)

    @property
    def crowded(self) -> bool:
        """True when the active ones reach the reserve for probes and operators."""
        return len(self._working) > self._limit - self._reserved

    @property
    def scarce(self) -> bool:
        """True when a quarter of the reserve is left, which is for probes alone."""
        return len(self._working) > self._limit - self._reserved // 4


LOOK: Final = 0.4
"""Seconds between two looks at whether the callers of held connections still stand."""

GONE: Final = "agentserver.gone"
"""The scope key for a callback on the disconnect of the client."""

STOPPING: Final = "stopping"
REVOKED: Final = "revoked"


@dataclass(eq=False, slots=True)
class HeldConnection:
    """A held connection, while the context lasts.

    Args:
        caller: its principal.
        among: all of them.
        scope: cancelled to end it.
        request: its scope, through which its connection ends it; None if that does not.
        reason: the reason why the door ended it; empty until then.
    """

    caller: Caller
    among: HeldConnections
    scope: anyio.CancelScope
    request: Scope | None = None
    reason: str = ""

    def __enter__(self) -> Self:
        """Hold it. Raises ProblemAnswer: 503 when the server stops, 429 when there are as many as there may be."""
        self.among.enter(self)
        if self.request is not None:
            self.request[GONE] = self.scope.cancel
        self.scope.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Hold it no longer; that it was ended is no error."""
        try:
            return bool(self.scope.__exit__(kind, error, trace))
        finally:
            if self.request is not None:
                self.request[GONE] = None
            self.among.leave(self)

    def end(self, reason: str) -> None:
        """End it."""
        self.reason = self.reason or reason
        self.scope.cancel()


class HeldConnections:
    """Every connection that is held.

    Args:
        options: how many there may be.
        known: the tokens.
    """

    def __init__(self, options: DoorOptions, known: TokenSource) -> None:
        self._options, self._known = options, known
        self._open: set[HeldConnection] = set()
        self._each: dict[str, int] = {}
        self.stopping = False

    def __len__(self) -> int:
        return len(self._open)

    def room(self, caller: Caller) -> bool:
        """Tell whether this caller may hold one more."""
        mine = self._each.get(caller.name, 0)
        return not self.stopping and mine < self._options.streams and len(self._open) < self._options.held

    def check(self, caller: Caller) -> None:
        """Raise ProblemAnswer where this caller may hold no more: 503 when the server stops, else 429."""
        if self.stopping:
            raise server_stopping()
        if not self.room(caller):
            raise self._refuse_full(caller)

    def _refuse_full(self, caller: Caller) -> ProblemAnswer:
        maximum = self._options.streams
        if self._each.get(caller.name, 0) >= maximum:
            helps = "end one, or ask with wait=0"
            return too_many(
                f"You have {maximum} streams and waits open, as many as a principal may: {helps}."
            )
        return too_many("The server has as many streams and waits open as it may.")

    def hold(self, caller: Caller, scope: Scope | None = None, wait: float = inf) -> HeldConnection:
        """Hold a connection for as long as the context lasts; being ended leaves it without an error.

        Args:
            caller: whose it is.
            scope: of the request, for the connection to end it when its client has gone.
            wait: seconds after which it is ended.

        Entering it raises ProblemAnswer: 503 when the server stops, 429 when there are as many as there may be.
        """
        deadline = inf if wait == inf else asyncio.get_running_loop().time() + wait
        return HeldConnection(caller, self, anyio.CancelScope(deadline=deadline), scope)

    def enter(self, one: HeldConnection) -> None:
        """Count a held connection. Raises ProblemAnswer as ``hold`` says."""
        self.check(one.caller)
        self._open.add(one)
        self._each[one.caller.name] = self._each.get(one.caller.name, 0) + 1

    def leave(self, one: HeldConnection) -> None:
        """Count a connection no longer."""
        name = one.caller.name
        self._open.discard(one)
        self._each[name] -= 1
        if not self._each[name]:
            del self._each[name]

    def stop(self) -> None:
        """End all, and accept no further ones."""
        self.stopping = True
        for one in tuple(self._open):
            one.end(STOPPING)

    async def look(self) -> None:
        """End the connections of revoked tokens, until cancelled."""
        while True:
            await anyio.sleep(LOOK)
            for one in tuple(self._open):
                if not self._known.stands(one.caller):
                    one.end(REVOKED)
