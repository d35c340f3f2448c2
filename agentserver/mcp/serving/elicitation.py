"""Forms in which a host asks its person about a message that waits (form elicitation of 2026-07-28)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types

from agentserver.core.decide.answers import bar_approver
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.mcp.serving.tasks import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server.context import ServerRequestContext

    from agentserver.core.state.approvals import Approval
    from agentserver.mcp.serving.calls import CallPending, McpHost

LONGEST: Final = 10_000
"""Characters of a form's text. A longer message is not approved by a form, since a host may cut it."""

_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "decision": {
            "type": "string",
            "title": "Decision",
            "description": "once: this message; always: also those that are the same, in this conversation",
            "enum": [str(each) for each in Answer],
        }
    },
    "required": ["decision"],
}


def takes_forms(ctx: ServerRequestContext[Any]) -> bool:
    """Tell whether a host can show a form to a person and call again."""
    capabilities = ctx.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return ctx.protocol_version >= VERSION and elicitation is not None and elicitation.form is not None


@dataclass(frozen=True, slots=True)
class ApprovalForms:
    """Asks the hosts of callers that may decide, and counts their answers.

    Args:
        server: running.
        decider: returns the name of the served caller if its role decides about approvals, else an empty text.
        show: formats an approval completely.
    """

    server: McpHost
    decider: Callable[[], str]
    show: Callable[[Approval], str]

    def build(self, outcome: CallPending) -> types.InputRequiredResult | None:
        """Build the form for the approval that blocks a call; None if this caller may not approve it by a form."""
        name, conversation = self.decider(), outcome.key.conversation
        state = self.server.conversation(conversation)
        waiting = () if state is None else state.approvals()
        one = next((each for each in waiting if each.id == outcome.approval), None)
        if not name or state is None or one is None:
            return None
        text = self.show(one)
        if bar_approver(state, name, self.server.rules, one.delivery.to) or len(text) > LONGEST:
            return None
        form = types.ElicitRequestFormParams(message=text, requested_schema=dict(_SCHEMA))
        sealed = {
            "request": outcome.request,
            "approval": one.id,
            "conversation": conversation,
            "digest": one.digest,
        }
        return types.InputRequiredResult(
            input_requests={"approval": types.ElicitRequest(params=form)}, request_state=json.dumps(sealed)
        )

    async def take(self, params: types.CallToolRequestParams, sealed: Mapping[str, Any]) -> None:
        """Count the answer that a call brings back, for the message that was shown. Anything but a consent denies.

        Args:
            params: of the call.
            sealed: its state, whose seal has been verified.
        """
        elicited = (params.input_responses or {}).get("approval")
        name = self.decider()
        if not name or "digest" not in sealed or not isinstance(elicited, types.ElicitResult):
            return
        decision = (elicited.content or {}).get("decision") if elicited.action == "accept" else None
        answer = Answer(decision) if decision in (Answer.ONCE, Answer.ALWAYS) else Answer.DENY
        answered = ApprovalAnswer(sealed["approval"], sealed["digest"], answer, name)
        await self.server.answer(sealed["conversation"], answered)
