"""Queue of commits: which of them the next transaction has, so that no principal keeps another waiting."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE = 8
"""Steps that a principal has in one transaction while others commit, too."""

PRESENCE = 1.0
"""Seconds after a principal's latest transaction for which the others leave room for it."""

T = TypeVar("T")


class CommitQueue(Generic[T]):
    """Queue of commits from which every principal has a share of each transaction.

    A transaction of every waiting step costs least, but a step that comes during it waits until the last of them is
    written. A principal that is alone has only its own steps to wait for.
    Commits of one principal leave in the order in which they came; nothing is said about those of several.

    Args:
        now: a monotonic time in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._waiting: dict[str, deque[T]] = {}
        self._present: OrderedDict[str, float] = OrderedDict()
        """When a principal last had a transaction, the longest ago first."""
        self.count = 0

    def put(self, principal: str, item: T) -> None:
        """Add a commit of a principal."""
        items = self._waiting.get(principal)
        if items is None:
            items = self._waiting[principal] = deque()
        items.append(item)
        self.count += 1

    def has_full_share(self) -> bool:
        """Return whether a principal already has as many commits as it may in the next transaction."""
        if self.count < SHARE or all(len(items) < SHARE for items in self._waiting.values()):
            return False
        return len(self._waiting) > 1 or any(name not in self._waiting for name in self._present)

    def take(self) -> list[T]:
        """Remove and return the commits of the next transaction."""
        now, present = self._now(), self._present
        for principal in self._waiting:
            present[principal] = now
            present.move_to_end(principal)
        while present and next(iter(present.values())) <= now - PRESENCE:
            present.popitem(last=False)
        taken: list[T] = []
        for principal, items in [*self._waiting.items()]:
            if len(present) == 1 or len(items) <= SHARE:
                taken += self._waiting.pop(principal)
            else:
                taken += [items.popleft() for _ in range(SHARE)]
        self.count -= len(taken)
        return taken
