"""Guard that lets a listener send only to its caller, itself, ``system.*`` and its ``peers``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.drafts.routing import Route
from agentserver.core.guard import DenyVerdict, keep_memory
from agentserver.core.records.details import Ground

if TYPE_CHECKING:
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Verdict


class PeersGuard:
    """Denies every message to a peer that the sender does not declare."""

    name = "peers"
    observe = keep_memory

    def approve(self, memory: object, about: tuple[str, ...]) -> object:  # noqa: ARG002 - a guard's signature
        """Leave the memory as it is: no person is asked about a peer."""
        return memory

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:  # noqa: ARG002 - a guard's signature
        """Pass answers, self-calls and services; a peer must be declared."""
        if proposal.route is not Route.PEER or proposal.to in proposal.sender.peers:
            return None
        return DenyVerdict(Code.ROUTING, Ground.NO_PEER.of(proposal.to, proposal.sender.name))
