"""Guard that asks a person before a message reaches certain listeners."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from agentserver.core.guard import NeedsApproval, keep_memory
from agentserver.core.records.details import Ground
from agentserver.wire.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from lxml import etree

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Verdict

_APPROVED = "permitted"


class ApprovalGuard:
    """Asks about every message to the listeners that want it.

    Args:
        listeners: their names.
    """

    name = "approval"
    observe = keep_memory

    def __init__(self, listeners: AbstractSet[str] = frozenset()) -> None:
        self._listeners = frozenset(listeners)

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:  # noqa: ARG002 - a guard's signature
        """Ask, unless this very content was approved for the rest of the conversation."""
        if proposal.to not in self._listeners:
            return None
        about = content(proposal.to, proposal.element)
        if about in _approved(memory):
            return None
        return NeedsApproval(Ground.APPROVAL.of(proposal.sender.name, proposal.to), (about,))

    def approve(self, memory: object, about: tuple[str, ...]) -> object:
        """Remember the content and its receiver."""
        return _approved(memory).union(about)

    def dump(self, memory: object) -> Mapping[str, bytes]:
        """The approved messages, a digest a line."""
        return {_APPROVED: "\n".join(sorted(_approved(memory))).encode()}

    def load(self, parts: Mapping[str, bytes]) -> object:
        """Read what ``dump`` wrote; without it nothing is approved."""
        return frozenset(parts.get(_APPROVED, b"").decode().split())


def _approved(memory: object) -> frozenset[str]:
    return memory if isinstance(memory, frozenset) else frozenset()


def content(to: str, element: etree._Element) -> str:
    """A digest of a receiver and a payload in canonical form."""
    return sha256(to.encode() + b"\0" + canonical(element)).hexdigest()
