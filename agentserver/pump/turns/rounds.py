"""The order in which owners take turns: principals first, and within each of them its conversations.

Owns fairness: however much one principal or one conversation has waiting, the next of another comes after at most one
of each. Putting and taking cost the same however much waits. Refuses to know what the items are.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Rounds(Generic[T]):
    """A queue of items by principal and conversation. Each owner's items keep their order."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, OrderedDict[str, deque[T]]] = OrderedDict()
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def put(self, principal: str, conversation: str, item: T) -> None:
        """Add an item behind those of its conversation. An owner that had none waits for a whole round."""
        conversations = self._owners.get(principal)
        if conversations is None:
            conversations = self._owners[principal] = OrderedDict()
        items = conversations.get(conversation)
        if items is None:
            items = conversations[conversation] = deque()
        items.append(item)
        self.count += 1

    def take(self) -> T:
        """Remove the item whose turn it is. Raises LookupError when there is none."""
        if not self._owners:
            raise LookupError("nothing waits")
        principal, conversations = next(iter(self._owners.items()))
        conversation, items = next(iter(conversations.items()))
        item = items.popleft()
        self.count -= 1
        if items:
            conversations.move_to_end(conversation)
        else:
            del conversations[conversation]
        if conversations:
            self._owners.move_to_end(principal)
        else:
            del self._owners[principal]
        return item

    def drop(self, unwanted: set[str]) -> list[T]:
        """Remove the items of some conversations, and give them."""
        gone: list[T] = []
        for principal, conversations in list(self._owners.items()):
            for conversation in unwanted & conversations.keys():
                gone += conversations.pop(conversation)
            if not conversations:
                del self._owners[principal]
        self.count -= len(gone)
        return gone
