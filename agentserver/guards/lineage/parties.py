"""Listeners and the principal as provenance sees them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agentserver.core.state.principals import Trust
from agentserver.provenance.policy.declarations import ListenerClass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.guards.lineage.memory import Memory
    from agentserver.guards.lineage.trusted import Trusted

_NO_ORDERS: Final = MappingProxyType(
    {
        Trust.RELAY: ListenerClass(source=False, sink=False, relay=True, why="its principal is a relay"),
        Trust.STRANGER: ListenerClass(
            source=True, sink=False, relay=False, why="its principal is a stranger"
        ),
    }
)
"""The classes of principals whose words are no orders."""


class Parties:
    """Tells what the words of a party are worth, in a conversation whose principal has some trust.

    Args:
        trusted: whom the organism trusts with what.
        classes: what each listener is to provenance; who is not among them is a principal.
    """

    def __init__(self, trusted: Trusted, classes: Mapping[str, ListenerClass]) -> None:
        self._trusted, self._classes = trusted, classes

    def principal(self, name: str) -> bool:
        """True for who is no listener."""
        return name not in self._classes

    def trust(self, name: str, memory: Memory) -> Trust:
        """The trust in a principal."""
        return self._trusted.trust_in(name, memory.trust)

    def orders(self, name: str, memory: Memory) -> bool:
        """True for a principal whose words count as orders."""
        return name not in self._classes and self.trust(name, memory) is Trust.ORDERS

    def of(self, name: str, memory: Memory) -> ListenerClass:
        """The class of a listener, or that of a principal by its trust."""
        known = self._classes.get(name)
        if known is not None:
            return known
        return _NO_ORDERS.get(self.trust(name, memory)) or self._trusted.policy.classify(name)

    def writes(self, name: str, memory: Memory) -> bool:
        """True for a source, and for a principal that does not relay: what it says is its own."""
        known = self._classes.get(name)
        return self.trust(name, memory) is not Trust.RELAY if known is None else known.source
