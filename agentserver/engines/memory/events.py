"""Bounded store of the events of a memory engine.

It keeps unacknowledged events, recent acknowledged ones of watched conversations, and some of recently ended ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.messages import UNDECIDED, Reply
from agentserver.ports import ConversationFound, ForgottenError
from agentserver.ports.engine import PAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.core.messages import Done, EventPlace

    Event = Reply | Done

WAITING: Final = 10_000
"""Unacknowledged events of one conversation; beyond it the oldest are forgotten."""

WAITING_BYTES: Final = 16_777_216
"""Bytes of their messages."""

EACH: Final = 64
"""Steps of a conversation between two checks of these bounds."""

TAKEN: Final = 128
"""Acknowledged events of a watched conversation, for watchers that reconnect."""

TAKEN_BYTES: Final = 65_536
"""Bytes of their messages."""

OVER: Final = 256
"""Ended conversations that are remembered."""

WHOLE: Final = 4
"""Latest ended conversations that keep all unacknowledged events: a gateway may be reading them."""


def weight(event: Event) -> int:
    """Count the bytes of an event's message."""
    return len(event.message) if isinstance(event, Reply) else 0


def trim(events: dict[EventPlace, Event], most: int, size: int) -> EventPlace:
    """Forget the oldest events beyond the bounds; return the latest forgotten place, or UNDECIDED."""
    held, gone = sum(map(weight, events.values())), UNDECIDED
    for place in list(events):
        if len(events) <= most and (held <= size or len(events) == 1):
            break
        held -= weight(events.pop(place))
        gone = max(gone, place)
    return gone


class _ClosedConversation(NamedTuple):
    principal: str
    left: dict[EventPlace, Event]
    name: str


class LeftEvents:
    """Store of events, by conversation and place.

    ``waiting`` has unacknowledged events, ``taken`` acknowledged ones of watched conversations; ``forgotten`` has the
    latest forgotten place of each conversation; ``places`` has the sorted places of conversations that were read, some
    of them already forgotten.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, dict[EventPlace, Event]] = {}
        self.taken: dict[str, dict[EventPlace, Event]] = {}
        self.forgotten: dict[str, EventPlace] = {}
        self._over: OrderedDict[str, _ClosedConversation] = OrderedDict()
        self._whole: deque[str] = deque()
        self.places: dict[str, list[EventPlace]] = {}

    def add(self, conversation: str, events: Sequence[Event]) -> None:
        """Append the places of new events of a conversation that was read."""
        places = self.places[conversation]
        places += [event.place for event in events]
        if len(places) > EACH + 2 * sum(map(len, self._dicts(conversation))):
            places[:] = sorted(self._merge(conversation))

    def trim(self, conversation: str) -> None:
        """Limit the unacknowledged events of a conversation."""
        self._forget(conversation, trim(self.waiting.get(conversation, {}), WAITING, WAITING_BYTES))

    def take(self, conversation: str, event: Event) -> None:
        """Keep an acknowledged event of a watched conversation."""
        taken = self.taken[conversation]
        taken[event.place] = event
        self._forget(conversation, trim(taken, TAKEN, TAKEN_BYTES))

    def read_after(self, conversation: str, place: EventPlace, most: int, *, gaps: bool) -> list[Event]:
        """Read the first events after a place. Raises ForgottenError if one was forgotten, unless ``gaps`` is set."""
        over = self._over.get(conversation)
        if over is None:
            self.taken.setdefault(conversation, {})
        if not gaps and UNDECIDED < place < self.forgotten.get(conversation, UNDECIDED):
            raise ForgottenError(self.forgotten[conversation])
        kept = self._dicts(conversation) if over is None else (over.left,)
        if conversation not in self.places:
            self.places[conversation] = sorted({each for events in kept for each in events})
        places = self.places[conversation]
        found: list[Event] = []
        size, first = 0, bisect_right(places, place)
        looked = first
        while looked < len(places) and len(found) < most:
            each = places[looked]
            for event in (events[each] for events in kept if each in events):
                size += weight(event)
                found.append(event)
            if len(found) > 1 and size > PAGE:
                found.pop()
                break
            looked += 1
        if looked - first > len(found):  # drop the gaps, so that each is skipped once
            places[first:looked] = [event.place for event in found]
        return found

    def _dicts(self, conversation: str) -> tuple[Mapping[EventPlace, Event], ...]:
        return self.waiting.get(conversation, {}), self.taken.get(conversation, {})

    def _merge(self, conversation: str) -> Mapping[EventPlace, Event]:
        waiting, taken = self._dicts(conversation)
        return {**taken, **waiting} if taken else waiting

    def close(self, conversation: str, principal: str, name: str) -> str:
        """Remember an ended conversation, and return the name of the one that is forgotten for it."""
        self._over[conversation] = _ClosedConversation(principal, dict(self._merge(conversation)), name)
        self.taken.pop(conversation, None)
        self.places.pop(conversation, None)
        self._whole.append(conversation)
        if len(self._whole) > WHOLE:
            self._part(self._whole.popleft())
        if len(self._over) <= OVER:
            return ""
        oldest, over = self._over.popitem(last=False)
        self.forgotten.pop(oldest, None)
        self.places.pop(oldest, None)
        return over.name

    def _part(self, conversation: str) -> None:
        """Trim the events of an ended conversation."""
        left = self._over[conversation].left
        self._forget(conversation, trim(left, TAKEN, TAKEN_BYTES))
        self.places.pop(conversation, None)

    def find_conversation(self, conversation: str) -> ConversationFound | None:
        """Find the owner of an ended conversation; None if it is unknown."""
        over = self._over.get(conversation)
        return None if over is None else ConversationFound(conversation, over.principal, over=True)

    def _forget(self, conversation: str, place: EventPlace) -> None:
        if place > self.forgotten.get(conversation, UNDECIDED):
            self.forgotten[conversation] = place
