"""The place up to which a program has taken the events of a conversation.

Owns what the door may be told: a place up to which the program has everything. Pure.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentserver.client.values import DoneEvent, ProgressEvent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.client.values import Event

_DIGITS = 20
"""Of the longest part of the id of an event."""


class Taken:
    """The place up to which events were taken, and what is still under way.

    Args:
        place: the id of the last event that was taken; empty for none.
    """

    def __init__(self, place: str) -> None:
        self.place = self._seen = place
        self._asking, self._streams, self._owed = 0, 0, set[str]()

    @property
    def headers(self) -> Mapping[str, str]:
        """The words of the next request about it."""
        return {"last-event-id": self.place} if self.place else {}

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Wait for an answer. What was answered is taken once no other answer can be under way."""
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not (self._asking or self._streams or self._owed):
                self.place = self._seen

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Read the events one by one: meanwhile these alone are taken."""
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1

    def owe(self, request: str) -> None:
        """Nothing waits for the answer to this request: it is still to come, as an event."""
        self._owed.add(request)

    def answered(self, request: str, place: str) -> None:
        """An answer to this request has come."""
        self._owed.discard(request)
        self._seen = max(self._seen, place, key=_order)

    def took(self, event: Event) -> bool:
        """The program has taken this event of a stream. True when there is a place to come back to."""
        if isinstance(event, ProgressEvent) or not event.place:
            return False
        if isinstance(event, DoneEvent):
            self._owed.discard(event.request)
        self.place = self._seen = event.place
        return True


def _order(place: str) -> tuple[int, ...]:
    """The order of the ids of events: a version and a position."""
    return tuple(int(part) for part in place.split("-") if part.isdecimal() and len(part) <= _DIGITS)
