"""Settings of provenance: the trust of listeners and principals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from agentserver.core.state.principals import Trust
from agentserver.guards.lineage.exposure import Recall
from agentserver.handoff.parameters import Type
from agentserver.provenance.flows import find_reachable
from agentserver.provenance.policy.paths import means

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from agentserver.handoff.intents import Vocabulary
    from agentserver.handoff.parameters import Parameter
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
        viewers: listeners that are shown references in place of untrusted values.
    """

    policy: Policy
    quarantined: frozenset[str] = frozenset()
    planners: frozenset[str] = frozenset()
    recalls: Mapping[str, Recall] = field(default_factory=lambda: MappingProxyType({}))
    carriers: frozenset[str] = frozenset()
    intents: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    viewers: frozenset[str] = frozenset()

    def recall(self, listener: str) -> Recall:
        """The extent to which a listener's code remembers what it was given."""
        return self.recalls.get(listener, Recall.LISTENER)

    def trust_in(self, principal: str, trust: Trust) -> Trust:
        """The trust in a principal: that of its conversation, unless the policy names it a source."""
        suspect = any(means(entry, principal) for entry in self.policy.sources)
        return Trust.STRANGER if suspect else trust


def carriers(
    policy: Policy,
    recalls: Mapping[str, Recall],
    peers: Mapping[str, Sequence[str]],
    addressed: Collection[str] = (),
) -> frozenset[str]:
    """The listeners that may bring in untrusted words which the conversation at hand knows nothing of.

    Any that carries words is one as soon as words of a source or a stranger can reach any of them, in whatever
    conversation. So what is decided depends on the organism and on the conversation's own journal, and on no other
    conversation.

    Args:
        policy: what is declared.
        recalls: how far the code of a listener remembers.
        peers: for each listener whom it may send to.
        addressed: the listeners that principals may address whose words are no orders.
    """
    carrying = frozenset(name for name, recall in recalls.items() if recall is Recall.SERVER)
    return (
        carrying
        if carrying and not carrying.isdisjoint(find_reachable(policy, peers, addressed))
        else frozenset()
    )


def told_by(vocabulary: Vocabulary) -> Mapping[str, float]:
    """For each intent with closed values alone the bits that these tell."""
    bits = {name: sum(map(_bits, checked.intent.parameters)) for name, checked in vocabulary.intents.items()}
    return {name: each for name, each in bits.items() if each < math.inf}


def _bits(parameter: Parameter) -> float:
    """Bits of one parameter: an enumeration, a truth value or a whole number; any other is open."""
    if parameter.lexical.choices:
        values = len(parameter.lexical.choices)
    elif parameter.type is Type.BOOLEAN:
        values = 2
    elif parameter.type is Type.INTEGER:
        values = 4 * 10 ** min(
            parameter.lexical.most or DIGITS, DIGITS
        )  # signs and zeros in front tell something too
    else:
        return math.inf
    return math.log2(values if parameter.required else values + 1)


DIGITS = 18
"""Digits of a whole number in a handoff, at most."""
