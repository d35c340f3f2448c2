"""Connections that are held: streams of events, and messages that are waited for.

Owns how many there may be, and that each ends when the server stops or its caller's token counts no more. Refuses to
know what is sent over them.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import anyio

from agentserver.gateways.http.problems import Refused, stopping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.gateways.http.options import DoorOptions
    from agentserver.gateways.http.parts import Known
    from agentserver.gateways.principals import Caller

LOOK: Final = 0.4
"""Seconds between two looks at whether the callers of held connections still stand."""

STOPPING: Final = "stopping"
REVOKED: Final = "revoked"


@dataclass(eq=False)
class Held:
    """A connection that is held.

    Args:
        caller: whose it is.
        scope: of what is done meanwhile.
        why: the reason for which the door has ended it; empty while it goes on.
    """

    caller: Caller
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
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

    def __init__(self, options: DoorOptions, known: Known) -> None:
        self._options, self._known = options, known
        self._held: set[Held] = set()
        self._each: dict[str, int] = {}
        self.stopping = False

    def __len__(self) -> int:
        return len(self._held)

    def room(self, caller: Caller) -> bool:
        """True when one more may be held for this caller."""
        mine = self._each.get(caller.name, 0)
        return not self.stopping and mine < self._options.streams and len(self._held) < self._options.held

    @contextmanager
    def hold(self, caller: Caller) -> Iterator[Held]:
        """Hold a connection for as long as the context lasts; being ended leaves it without an error.

        Raises Refused: 503 when the server stops, 429 when there are as many as there may be.
        """
        if self.stopping:
            raise stopping()
        if not self.room(caller):
            raise Refused(429, "Too many streams and waits are open.", {"retry-after": "1"})
        one = Held(caller)
        self._held.add(one)
        self._each[caller.name] = self._each.get(caller.name, 0) + 1
        try:
            with one.scope:
                yield one
        finally:
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
