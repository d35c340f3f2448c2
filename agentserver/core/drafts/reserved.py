"""The system's own payloads, and who may send one.

A listener may ask the todo service for something, and may pass on to its caller, unchanged, the SystemError that it
was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.drafts.routing import Route
from agentserver.core.messages import TODO
from agentserver.core.records.details import Ground
from agentserver.core.refusals import Refusal
from agentserver.wire.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from agentserver.core.drafts.routing import Proposal, Sender
    from agentserver.core.messages import Draft

CORRECTION = (
    "only the system makes this payload: send one of your own, or pass a SystemError that you were given on to "
    "your caller unchanged"
)
"""The correction for the sender."""


def reject_reserved(
    draft: Draft, proposals: Sequence[Proposal], sender: Sender, services: Container[str]
) -> Refusal | None:
    """Refuse a draft that would speak for the system.

    Args:
        draft: the message, with a payload of the system's namespace.
        proposals: its receivers.
        sender: who sends it.
        services: names of the payload elements that the todo service accepts.
    """
    routes = {proposal.route for proposal in proposals}
    if draft.root in services and draft.to in {TODO, None} and routes <= {Route.SERVICE}:
        return None  # whether the service is within reach is for routing to say
    if routes == {Route.ANSWER} and sender.given is not None and canonical(draft.element) == sender.given:
        return None
    return forgery(draft.root, draft.to if isinstance(draft.to, str) else "")


def forgery(root: str, to: str = "") -> Refusal:
    """Refuse a payload of the system's namespace."""
    return Refusal(Code.VALIDATION, Ground.RESERVED.of(root), to, (CORRECTION,))
