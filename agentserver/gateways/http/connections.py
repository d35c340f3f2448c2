"""The connections of the door, and which of them are kept for probes and operators.

Owns how many there may be, which ones make room, and who is served when they are scarce. Refuses to know requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agentserver.gateways.http.options import DoorOptions


class Abortable(Protocol):
    """The needs of this module of a connection."""

    def abort(self) -> None:
        """Cut it."""
        ...


class Connections:
    """The connections at present.

    A connection works from the head of a request to the end of its answer, and rests otherwise. When there are as many
    as there may be, a new one takes the place of the one that has rested longest, so that connections without a request
    keep nobody out. Of those that work, the last are for probes and operators: a request of any other principal that
    would need them is refused.

    Args:
        options: how many there may be, and how many are reserved.
    """

    def __init__(self, options: DoorOptions) -> None:
        self._most, self._reserved = options.connections, options.reserved
        self._resting: dict[Abortable, None] = {}
        self._working: set[Abortable] = set()

    def __len__(self) -> int:
        return len(self._resting) + len(self._working)

    def add(self, connection: Abortable) -> bool:
        """Add a new connection. False when there is no room, and none that rests."""
        if len(self) >= self._most:
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
        """True when those that work need what is reserved for probes and operators."""
        return len(self._working) > self._most - self._reserved

    @property
    def scarce(self) -> bool:
        """True when a quarter of the reserve is left, which is for probes alone."""
        return len(self._working) > self._most - self._reserved // 4
