"""Lineage guard that records its verdicts, for a backtest of its policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.guards.lineage.guard import LineageGuard

if TYPE_CHECKING:
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Verdict


class RecordingGuard(LineageGuard):
    """Lineage guard that judges as another one does and records each verdict.

    Args:
        guard: the other one, whose settings it shares.
        rulings: the list that gets each message with the verdict on it.
    """

    def __init__(self, guard: LineageGuard, rulings: list[tuple[Proposal, Verdict]]) -> None:
        self.__dict__.update(vars(guard))
        self._rulings = rulings

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:
        """Judge a message, and record the verdict."""
        verdict = super().judge(memory, proposal, at)
        self._rulings.append((proposal, verdict))
        return verdict
