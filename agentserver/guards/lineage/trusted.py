"""The trust that an organism places in listeners and principals, as the lineage guard is told it.

Owns the value. Refuses to know the configuration, and to decide by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from agentserver.guards.lineage.exposure import Recall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.provenance.policy.declarations import Policy


@dataclass(frozen=True, slots=True)
class Trusted:
    """The trust that an organism places in listeners and principals.

    Args:
        policy: what is declared of listeners and fields.
        quarantined: listeners that may only say what a closed schema admits.
        planners: listeners whose ``Plan`` fixes what a conversation may do.
        recalls: how far the code of a listener remembers what it was given; of any other, all its threads of a
            conversation.
        carriers: listeners that may bring in words of other conversations: they count as exposed from the start.
        intents: for each intent the bits that its values tell when there are no free words with them.
    """

    policy: Policy
    quarantined: frozenset[str] = frozenset()
    planners: frozenset[str] = frozenset()
    recalls: Mapping[str, Recall] = field(default_factory=lambda: MappingProxyType({}))
    carriers: frozenset[str] = frozenset()
    intents: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def recall(self, listener: str) -> Recall:
        """The extent to which a listener's code remembers what it was given."""
        return self.recalls.get(listener, Recall.LISTENER)
