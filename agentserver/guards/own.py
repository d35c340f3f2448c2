"""Guards of the server, in the order in which they are asked."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from agentserver.guards.approval import ApprovalGuard
from agentserver.guards.peers import PeersGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.core.blueprint import Listener
    from agentserver.core.guard import CoreGuard
    from agentserver.guards.lineage.guard import Trusted
    from agentserver.payload.codec import Codecs


class OrganismFacts(NamedTuple):
    """The facts of an organism that guards are made of.

    Args:
        listeners: by name.
        codecs: of every payload.
        trusted: the settings of provenance; None when the organism declares none.
        redact: leaves secrets out of a text.
    """

    listeners: Mapping[str, Listener]
    codecs: Codecs
    trusted: Trusted | None
    redact: Callable[[str], str]


def _approval(facts: OrganismFacts) -> CoreGuard:
    return ApprovalGuard({name for name, each in facts.listeners.items() if each.approval})


def _lineage(facts: OrganismFacts) -> CoreGuard | None:
    if facts.trusted is None:
        return None
    from agentserver.guards.lineage.guard import LineageGuard  # with all that it needs, numpy among it

    return LineageGuard(facts.trusted, facts.listeners, facts.codecs, facts.redact)


OWN: Mapping[str, Callable[[OrganismFacts], CoreGuard | None]] = MappingProxyType(
    {
        "peers": lambda _: PeersGuard(),
        "approval": _approval,
        "lineage": _lineage,
    }
)
"""By name, the function that makes each guard, or None where the organism does without. No guard of a program may
bear one of these names."""


def own_guards(facts: OrganismFacts) -> tuple[CoreGuard, ...]:
    """Every guard of the server's own that the organism has."""
    return tuple(guard for make in OWN.values() if (guard := make(facts)) is not None)
