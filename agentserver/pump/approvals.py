"""Messages that wait for a person: their deadlines, and the answers that are left in the engine."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

import anyio

from agentserver.core.records.audit import Event
from agentserver.core.state.approvals import Answer, ApprovalAnswer, NoAnswerReason
from agentserver.ports import EngineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agentserver.core.guard import Rules
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.state.approvals import Approval
    from agentserver.ports import Answers, Approver
    from agentserver.pump.sums import Commit, SumKeeper
    from agentserver.pump.timekeeper import Timekeeper

    Others: TypeAlias = Callable[[], Sequence[Approval]]


logger = logging.getLogger("agentserver.pump")

_OVER = {Event.APPROVED, Event.WITHDRAWN, Event.DROPPED}

LONGEST_NAP = 60.0
"""Seconds after which the clock is looked at again, should it have been set meanwhile."""

ANSWERS_NAP = 1.0
"""Seconds after which answers are looked for again while something waits."""


class PendingApprovals:
    """Approvals of the conversations at work.

    Args:
        rules: of the current edition. Without a person to ask, messages do not wait.
        approver: is shown each.
        answers: where answers are left.
    """

    sums: SumKeeper | None = None

    def __init__(self, rules: Rules, approver: Approver | None, answers: Answers | None) -> None:
        self._approver, self._answers = approver, answers
        self._nobody = self._approver is None and self._answers is None
        self._rules = rules
        self.approvals: dict[str, Approval] = {}
        self._news = asyncio.Event()

    def adopt(self, rules: Rules) -> None:
        """Let messages wait by other rules from now on."""
        self._rules = rules

    def _compute_seconds_left(self, time: Timekeeper, approval: Approval, at: float) -> float:
        limit = 0.0 if self._nobody else self._rules.blueprint.find_approval_time(approval.delivery.to)
        return time.seconds_left(limit, approval.at, at)

    def list_oldest(self, others: Iterable[Approval] = ()) -> tuple[Approval, ...]:
        """Return the messages that wait for a person, those of ``others`` included, oldest first."""
        waiting = (one for one in self.approvals.values() if not self._is_weighed(one))
        return tuple(sorted([*waiting, *others], key=lambda approval: approval.at))

    def _is_weighed(self, approval: Approval) -> bool:
        return self.sums is not None and approval.delivery.id in self.sums.weighing

    def record(self, outcome: Outcome) -> None:
        """Record the questions and answers of a committed step."""
        self.add(outcome.approvals)
        self.settle(outcome.records)

    def add(self, approvals: Iterable[Approval]) -> None:
        """Show new approvals to the approver, except for those that sums decide."""
        for approval in approvals:
            self.approvals[approval.delivery.id] = approval
            if self.sums is None or not self.sums.take(approval):
                self.ask(approval)

    def ask(self, approval: Approval) -> None:
        """Show an approval to the approver if it still waits."""
        if approval.delivery.id not in self.approvals:
            return
        self._news.set()
        if self._approver is not None:
            try:
                self._approver.show(approval)
            except Exception:
                logger.exception("the approver failed to show a message")

    def settle(self, records: Iterable[AuditRecord]) -> None:
        """Remove the approvals that these records decide."""
        if self.approvals:
            for record in records:
                if record.event in _OVER:
                    self.approvals.pop(record.delivery, None)

    def stir(self) -> None:
        """Look for answers now: a message waits in a conversation of another process."""
        self._news.set()

    def forget(self, conversation: str) -> None:
        """Remove the approvals of a conversation."""
        for key in [key for key, one in self.approvals.items() if one.delivery.conversation == conversation]:
            del self.approvals[key]

    async def watch(self, time: Timekeeper, answer: Commit, others: Others = tuple) -> None:
        """Submit the answers that are left in the engine, and deny overdue approvals. Never returns.

        An answer counts if it was given in time, even if no server ran then. ``others`` returns the approvals of
        conversations of other processes, to which answers that are left here are passed on.
        """
        await self._take_answers(
            time, answer, others
        )  # what was left while no server ran, whether something waits or not
        while True:
            self._news.clear()
            if self.approvals or self._rules.endorses or others():
                await self._take_answers(time, answer, others)
            now = await time.look()
            for approval in self._find_overdue(time, now):
                reason = NoAnswerReason.NOBODY if self._nobody else NoAnswerReason.LATE
                denial = ApprovalAnswer(approval.id, approval.digest, Answer.DENY, reason)
                with suppress(
                    EngineError
                ):  # another process has it, or the server ends: its next one asks again
                    await answer(approval.delivery.conversation, denial)
                self.approvals.pop(approval.delivery.id, None)
            shared = self._answers is not None and (self._rules.endorses or bool(others()))
            await self._sleep(time, now, shared=shared)

    def _find_overdue(self, time: Timekeeper, at: float) -> list[Approval]:
        return [
            one
            for one in self.approvals.values()
            if not self._is_weighed(one) and (self._nobody or self._compute_seconds_left(time, one, at) <= 0)
        ]

    async def _take_answers(self, time: Timekeeper, answer: Commit, others: Others) -> None:
        if self._answers is None:
            return
        try:
            found = await self._answers.list_pending()
            for answered, at in found:
                known = (*self.approvals.values(), *others())
                if (conversation := answered.approval.partition("@")[2]) and answered.answer is Answer.DENY:
                    await answer(conversation, answered)
                    continue
                approval = next((one for one in known if one.id == answered.approval), None)
                if approval is None or approval in self._find_overdue(time, at):
                    continue
                if not await answer(approval.delivery.conversation, answered):
                    logger.warning("the answer of %s to approval %s does not count", answered.by, approval.id)
            if found:
                await self._answers.drop([answered.approval for answered, _ in found])
        except EngineError as error:
            logger.error("answers cannot be read at present: %s", error)  # noqa: TRY400 - the text says it all

    async def _sleep(self, time: Timekeeper, now: float, *, shared: bool) -> None:
        waiting = [one for one in self.approvals.values() if not self._is_weighed(one)]
        first = min((self._compute_seconds_left(time, one, now) for one in waiting), default=None)
        nap = LONGEST_NAP if self._answers is None else ANSWERS_NAP
        if first is not None:
            nap = min(first, nap)
        with anyio.move_on_after(None if first is None and not shared else nap):
            await self._news.wait()
