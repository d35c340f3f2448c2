"""Open requests, the counts of their deliveries, and the size that a result may have."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.state.overlay import copy_changeable

if TYPE_CHECKING:
    from collections.abc import Mapping

_new = tuple.__new__


class OpenRequest(NamedTuple):
    """Outside message with waiting or running deliveries.

    Args:
        threads: the principal's threads that it was delivered on, unless a later request has taken them over.
        pending: its deliveries that are queued, held or running.
        held_count: how many of those are held.
        answered: whether a reply has left.
        messages: deliveries made for it so far, and replies that have left.
    """

    id: str
    threads: tuple[str, ...] = ()
    pending: int = 0
    held_count: int = 0
    answered: bool = False
    messages: int = 0


NO_REQUESTS: Mapping[str, OpenRequest] = MappingProxyType({})
"""Shared by idle conversations: an emptied dict keeps its size."""


_NOTHING_COUNTED = 0, 0, 0


class RequestChange:
    """Changes of one step to the requests of a conversation. Reads only those that the step concerns.

    Args:
        before: the requests before the step; they stay unchanged.
    """

    def __init__(self, before: Mapping[str, OpenRequest]) -> None:
        self.now = copy_changeable(before)
        self._tallies: dict[str, list[int]] = {}
        """Changes in the pending, held and made deliveries of each request."""

    def begin(self, request: str) -> None:
        """Open a request. Raises ValueError when one of that id is open."""
        if request in self.now:
            raise ValueError("a request of that id is open")
        self.now[request] = _new(OpenRequest, (request, (), 0, 0, False, 0))
        self._tallies[request] = [0, 0, 0]

    def began_on(self, request: str, thread: str, earlier: str = "") -> None:
        """Assign an idle thread to a request; the ``earlier`` request no longer uses it."""
        if earlier:
            other = self.now[earlier]
            remaining = tuple(each for each in other.threads if each != thread)
            self.now[earlier] = other._replace(threads=remaining)
        name, threads, *counts = self.now[request]
        self.now[request] = _new(OpenRequest, (name, (*threads, thread), *counts))

    def list_threads(self, request: str) -> tuple[str, ...]:
        """Return the threads that a request was delivered on."""
        return self.now[request].threads

    def answer(self, request: str) -> None:
        """Note that a reply has left."""
        *same, _, messages = self.now[request]
        self.now[request] = _new(OpenRequest, (*same, True, messages + 1))

    def spend(self, request: str, limit: int) -> bool:
        """Count a new delivery; False when the request has used up ``limit`` messages."""
        tally = self._tallies.get(request)
        if tally is None:
            tally = self._tallies[request] = [0, 0, 0]
        if self.now[request].messages + tally[2] >= limit:
            return False
        tally[0] += 1
        tally[2] += 1
        return True

    def count(self, request: str, pending: int, held: int = 0) -> None:
        """Add to the counts of pending and held deliveries of a request."""
        tally = self._tallies.get(request)
        if tally is None:
            self._tallies[request] = [pending, held, 0]
        else:
            tally[0] += pending
            tally[1] += held

    def settle(self) -> list[OpenRequest]:
        """Apply the counts since the last call, and return the requests that the step concerns."""
        found, now = [], self.now
        for request, tally in self._tallies.items():
            entry = now[request]
            pending, held, sent = tally
            if pending or held or sent:
                name, threads, before, kept, answered, messages = entry
                changed = (name, threads, before + pending, kept + held, answered, messages + sent)
                entry = now[request] = _new(OpenRequest, changed)
                tally[:] = _NOTHING_COUNTED
            found.append(entry)
        return found

    def close(self, request: str) -> None:
        """Remove an ended request."""
        del self.now[request]


class ResultLimits(NamedTuple):
    """Permitted size of one result.

    Args:
        messages: at least one, because an answer that leaves the server needs no delivery.
        bytes: of all its payloads together.
    """

    messages: int
    bytes: int
