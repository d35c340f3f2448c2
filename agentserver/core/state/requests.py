"""Outside messages that have not come to rest: what is still under way for each, and who gets no answer.

Owns the counting. Refuses to know what is counted.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.state.overlay import changeable

if TYPE_CHECKING:
    from collections.abc import Mapping


class OpenRequest(NamedTuple):
    """An outside message that has not come to rest.

    Args:
        threads: the principal's threads that it was delivered on, unless a later request has taken them over.
        pending: its deliveries that are queued, held or running.
        held: how many of those are held.
        answered: whether a reply has left.
        messages: deliveries made for it so far, and replies that have left.
    """

    id: str
    threads: tuple[str, ...] = ()
    pending: int = 0
    held: int = 0
    answered: bool = False
    messages: int = 0


NO_REQUESTS: Mapping[str, OpenRequest] = MappingProxyType({})
"""Shared by the conversations at rest: an empty dict that once held something is as large as it was then."""


class RequestChange:
    """The requests of a conversation while one step changes them. Looks only at those that the step concerns.

    Args:
        before: the requests to start from; they stay as they were.
    """

    def __init__(self, before: Mapping[str, OpenRequest]) -> None:
        self._now = changeable(before)
        self._pending: dict[str, int] = {}
        self._held: dict[str, int] = {}
        self._spent: dict[str, int] = {}

    def result(self) -> Mapping[str, OpenRequest]:
        """The requests as they are now; the change is over."""
        return self._now or NO_REQUESTS

    def begin(self, request: str) -> None:
        """Open a request. Raises ValueError when one of that id is open."""
        if request in self._now:
            raise ValueError("a request of that id is open")
        self._now[request] = OpenRequest(request)
        self._pending[request] = 0

    def began_on(self, request: str, thread: str, earlier: str = "") -> None:
        """Note a thread at rest that a request is delivered on: the ``earlier`` one of it has nothing left there."""
        if earlier:
            other = self._now[earlier]
            left = tuple(each for each in other.threads if each != thread)
            self._now[earlier] = other._replace(threads=left)
        entry = self._now[request]
        self._now[request] = entry._replace(threads=(*entry.threads, thread))

    def threads(self, request: str) -> tuple[str, ...]:
        """The threads that a request was delivered on."""
        return self._now[request].threads

    def answer(self, request: str) -> None:
        """Note that a reply has left."""
        entry = self._now[request]
        self._now[request] = entry._replace(answered=True, messages=entry.messages + 1)

    def spend(self, request: str) -> None:
        """Note that a delivery has been made."""
        self._spent[request] = self._spent.get(request, 0) + 1

    def spent(self, request: str) -> int:
        """The messages of a request so far."""
        return self._now[request].messages + self._spent.get(request, 0)

    def count(self, request: str, pending: int, held: int = 0) -> None:
        """Add to a request's deliveries, and to those of them that are held."""
        self._pending[request] = self._pending.get(request, 0) + pending
        if held:
            self._held[request] = self._held.get(request, 0) + held

    def stuck(self) -> set[str]:
        """Requests of which only held deliveries are left, so that no other reply can come."""
        self._settle()
        touched = [self._now[request] for request in self._pending]
        return {entry.id for entry in touched if entry.held and entry.held == entry.pending}

    def at_rest(self) -> list[OpenRequest]:
        """Take out the requests of which nothing is left."""
        self._settle()
        over = [entry for request in self._pending if not (entry := self._now[request]).pending]
        for entry in over:
            del self._now[entry.id]
        return over

    def _settle(self) -> None:
        """Enter what has been counted since the last time."""
        for request, spent in self._spent.items():
            entry = self._now[request]
            self._now[request] = entry._replace(messages=entry.messages + spent)
        self._spent.clear()
        for request, pending in self._pending.items():
            held = self._held.pop(request, 0) if self._held else 0
            if pending or held:
                entry = self._now[request]
                self._now[request] = entry._replace(pending=entry.pending + pending, held=entry.held + held)
                self._pending[request] = 0
