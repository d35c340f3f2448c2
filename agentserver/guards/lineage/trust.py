"""Trust in listeners and principals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agentserver.core.state.principals import Trust
from agentserver.guards.lineage.exposure import Recall
from agentserver.handoff.parameters import Type
from agentserver.provenance.evidence.labels import means
from agentserver.provenance.flows import find_reachable
from agentserver.provenance.policy.declarations import ListenerClass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from agentserver.guards.lineage.memory import Memory
    from agentserver.handoff.intents import Vocabulary
    from agentserver.handoff.parameters import Parameter
    from agentserver.provenance.policy.declarations import Policy


@dataclass(frozen=True, slots=True)
class TrustSettings:
    """Trust that an organism places in listeners and principals.

    Args:
        policy: the declarations about listeners and fields.
        quarantined: listeners that may send only messages with a closed schema.
        planners: listeners whose ``Plan`` determines the calls of a conversation.
        recalls: how far the code of a listener remembers its messages; by default, across all its threads of a
            conversation.
        carriers: listeners that may bring words of other conversations: they count as exposed from the start.
        intents: the bits that the values of each intent reveal, without free text.
        viewers: listeners that see references in place of untrusted values.
        keepers: listeners that keep notes, with the origins of their words.
    """

    policy: Policy
    quarantined: frozenset[str] = frozenset()
    planners: frozenset[str] = frozenset()
    recalls: Mapping[str, Recall] = field(default_factory=lambda: MappingProxyType({}))
    carriers: frozenset[str] = frozenset()
    intents: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    viewers: frozenset[str] = frozenset()
    keepers: frozenset[str] = frozenset()

    def recall_of(self, listener: str) -> Recall:
        """Look up how far a listener's code remembers its messages."""
        return self.recalls.get(listener, Recall.LISTENER)

    def find_trust(self, principal: str, trust: Trust) -> Trust:
        """Look up the trust in a principal: its conversation's, unless the policy declares it a source."""
        suspect = any(means(entry, principal) for entry in self.policy.sources)
        return Trust.STRANGER if suspect else trust


_NO_ORDERS: Final = MappingProxyType(
    {
        Trust.RELAY: ListenerClass(source=False, sink=False, relay=True, why="its principal is a relay"),
        Trust.STRANGER: ListenerClass(
            source=True, sink=False, relay=False, why="its principal is a stranger"
        ),
    }
)
"""Classes of principals whose words are not orders."""


class Parties:
    """Classification of listeners and principals in a conversation.

    Args:
        trusted: the settings of trust.
        classes: the class of each listener; any other name is a principal.
    """

    def __init__(self, trusted: TrustSettings, classes: Mapping[str, ListenerClass]) -> None:
        self._trusted, self._classes = trusted, classes

    def is_principal(self, name: str) -> bool:
        """Check whether a name is no listener."""
        return name not in self._classes

    def find_trust(self, name: str, memory: Memory) -> Trust:
        """Look up the trust in a principal."""
        return self._trusted.find_trust(name, memory.trust)

    def gives_orders(self, name: str, memory: Memory) -> bool:
        """Check whether a name is a principal whose words count as orders."""
        return name not in self._classes and self.find_trust(name, memory) is Trust.ORDERS

    def classify(self, name: str, memory: Memory) -> ListenerClass:
        """Look up the class of a listener, or classify a principal by its trust."""
        known = self._classes.get(name)
        if known is not None:
            return known
        return _NO_ORDERS.get(self.find_trust(name, memory)) or self._trusted.policy.classify(name)

    def writes(self, name: str, memory: Memory) -> bool:
        """Check whether a party writes its own words: a source, or a principal that does not relay."""
        known = self._classes.get(name)
        return self.find_trust(name, memory) is not Trust.RELAY if known is None else known.source


def find_carriers(
    policy: Policy,
    recalls: Mapping[str, Recall],
    peers: Mapping[str, Sequence[str]],
    addressed: Collection[str] = (),
) -> frozenset[str]:
    """Find the listeners that may bring in untrusted words unknown to the current conversation.

    All listeners that carry words are carriers as soon as untrusted words can reach any of them in any conversation. A
    decision thus depends only on the organism and the conversation's own journal.

    Args:
        policy: the declared policy.
        recalls: how far the code of a listener remembers its messages.
        peers: the receivers of each listener.
        addressed: the listeners that untrusted principals may address.
    """
    carrying = frozenset(name for name, recall in recalls.items() if recall is Recall.SERVER)
    return (
        carrying
        if carrying and not carrying.isdisjoint(find_reachable(policy, peers, addressed))
        else frozenset()
    )


def count_intent_bits(vocabulary: Vocabulary) -> Mapping[str, float]:
    """Count the bits that each intent with only closed values can reveal."""
    bits = {
        name: sum(map(_count_parameter_bits, checked.intent.parameters))
        for name, checked in vocabulary.intents.items()
    }
    return {name: each for name, each in bits.items() if each < math.inf}


def _count_parameter_bits(parameter: Parameter) -> float:
    """Count the bits of a parameter: an enumeration, a boolean or a whole number; any other is open."""
    if parameter.lexical.choices:
        values = len(parameter.lexical.choices)
    elif parameter.type is Type.BOOLEAN:
        values = 2
    elif parameter.type is Type.INTEGER:
        values = 4 * 10 ** min(
            parameter.lexical.max_length or DIGITS, DIGITS
        )  # signs and zeros in front tell something too
    else:
        return math.inf
    return math.log2(values if parameter.required else values + 1)


DIGITS = 18
"""Maximum digits of a whole number in a handoff."""
