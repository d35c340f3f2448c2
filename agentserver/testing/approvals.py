"""The person in a test, who answers questions about approvals.

Owns what a test sees of a message that waits, and the passing on of its answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer, Approval, ApprovalAnswer
from agentserver.gateways.console.view import decoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.assembly import Server

    Approvals: TypeAlias = "Answer | Callable[[ShownApproval], Answer | None]"


@dataclass(frozen=True, slots=True)
class ShownApproval:
    """A message that needed an approval.

    Args:
        sender: who sent it.
        to: the listener that it is for.
        payload: what it says.
        questions: what a person is shown.
        approval: the whole of it.
    """

    sender: str
    to: str
    payload: Any
    questions: tuple[str, ...]
    approval: Approval


class Person:
    """Answers as a test says. An Approver.

    Args:
        approves: the answer to every question, or what gives it; None lets the message wait.
    """

    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals
        self._new: asyncio.Queue[Approval] = asyncio.Queue()
        self.seen: list[ShownApproval] = []
        self.left: asyncio.Queue[ShownApproval] = asyncio.Queue()

    def show(self, approval: Approval) -> None:
        """A message waits."""
        self._new.put_nowait(approval)

    async def attend(self, server: Server) -> None:
        """Answer what is asked, for ever."""
        while True:
            approval = await self._new.get()
            delivery = approval.delivery
            asked = ShownApproval(
                delivery.sender,
                delivery.to,
                decoded(delivery.message, server.rules.codecs),
                tuple(WORDING.whole(question.why) for question in approval.questions),
                approval,
            )
            self.seen.append(asked)
            said = self._approvals if isinstance(self._approvals, Answer) else self._approvals(asked)
            if said is None:
                self.left.put_nowait(asked)
            else:
                await say(server, asked, said)


async def say(server: Server, asked: ShownApproval, answer: Answer) -> bool:
    """Give an answer. False when the message does not wait any more."""
    approval = asked.approval
    answered = ApprovalAnswer(approval.id, approval.digest, answer, "test")
    return await server.answer(approval.delivery.conversation, answered)
