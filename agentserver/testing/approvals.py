"""The person in a test, who answers approvals."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer, Approval, ApprovalAnswer
from agentserver.gateways.console.view import decode_payload

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.assembly import Server

    Approvals: TypeAlias = "Answer | Callable[[ShownApproval], Answer | None]"


@dataclass(frozen=True, slots=True)
class ShownApproval:
    """Message that needed an approval.

    Args:
        sender: of the message.
        to: the listener that it is for.
        payload: its decoded payload.
        questions: the text shown to a person.
        approval: all data of the approval.
    """

    sender: str
    to: str
    payload: Any
    questions: tuple[str, ...]
    approval: Approval


class Person:
    """Approver that answers as a test says.

    Args:
        approves: the answer to every question, or a function that returns it; None lets the message wait.
    """

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self._new: asyncio.Queue[Approval] = asyncio.Queue()
        self.seen: list[ShownApproval] = []
        self.unanswered: asyncio.Queue[ShownApproval] = asyncio.Queue()

    def show(self, approval: Approval) -> None:
        """Queue a waiting message."""
        self._new.put_nowait(approval)

    async def attend(self, server: Server) -> None:
        """Answer approvals forever."""
        while True:
            approval = await self._new.get()
            delivery = approval.delivery
            asked = ShownApproval(
                delivery.sender,
                delivery.to,
                decode_payload(delivery.message, server.rules.codecs),
                tuple(WORDING.join_lines(question.why) for question in approval.questions),
                approval,
            )
            self.seen.append(asked)
            answer = self._approvals if isinstance(self._approvals, Answer) else self._approvals(asked)
            if answer is None:
                self.unanswered.put_nowait(asked)
            else:
                await give_answer(server, asked, answer)


async def give_answer(server: Server, asked: ShownApproval, answer: Answer) -> bool:
    """Give an answer. Returns False if the message is no longer waiting."""
    approval = asked.approval
    answered = ApprovalAnswer(approval.id, approval.digest, answer, "test")
    return await server.answer(approval.delivery.conversation, answered)
