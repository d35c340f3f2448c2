"""Whose turn it is: deliveries that may run now, and those that wait for their listener.

Owns the concurrency limit of each listener. Refuses to know what a delivery is for and who runs it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.core.messages import Delivery


class Schedule:
    """Hands each delivery on as soon as its listener has room, in the order of arrival.

    Args:
        limits: invocations at once by listener.
        hand_on: called with a delivery whose turn has come; it counts as running until ``done``.
    """

    def __init__(self, limits: Mapping[str, int], hand_on: Callable[[Delivery], None]) -> None:
        self._room = dict(limits)
        self._parked: dict[str, deque[Delivery]] = {name: deque() for name in limits}
        self._hand_on = hand_on

    def put(self, delivery: Delivery) -> None:
        """Hand the delivery on, or park it until its listener has room."""
        if self._room[delivery.to] > 0:
            self._room[delivery.to] -= 1
            self._hand_on(delivery)
        else:
            self._parked[delivery.to].append(delivery)

    def done(self, listener: str) -> None:
        """One invocation of a listener is over: its room goes to the next that is parked."""
        if self._parked[listener]:
            self._hand_on(self._parked[listener].popleft())
        else:
            self._room[listener] += 1
