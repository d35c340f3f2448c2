"""Daily line in the log about calls that `mode: enforce` would have refused, for a policy in `mode: audit`."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

import anyio

from agentserver.characters.printing import format_amount
from agentserver.findings import DeferredFindings, Findings

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agentserver.core.records.audit import AuditRecord

logger = logging.getLogger("agentserver.pump")

DAY: Final = 86_400.0
"""Seconds between two lines."""

NAMED: Final = 5
"""Pairs of listener and rule that a line names; the others are counted."""


class AuditDigest:
    """Counter of the calls that passed in audit mode although a rule fired."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._rules: Counter[tuple[str, str]] = Counter()

    def count(self, record: AuditRecord) -> None:
        """Count a flagged call by its weightiest rule, or by the one that decides while nothing else is computed."""
        found = record.noted
        if isinstance(found, DeferredFindings):
            outline = found.outline
            if outline.rule or not outline.effect:
                self._count(outline.sink, outline.effect, outline.rule)
                return
            found = found.value
        if not isinstance(found, Findings) or found.mode != "audit":
            return
        for effect in ("block", "ask"):
            rules = [one.rule for one in found.findings if one.effect == effect]
            if rules:
                self._count(found.sink, effect, rules[0])
                return

    def _count(self, sink: str, effect: str, rule: str) -> None:
        if rule:
            self._calls[effect] += 1
            self._rules[sink, rule] += 1

    def take_line(self) -> str:
        """Return the line about the calls since the last one, empty for none, and begin again."""
        refused, questions, rules = self._calls["block"], self._calls["ask"], self._rules.most_common()
        self._calls.clear()
        self._rules.clear()
        if not rules:
            return ""
        named = [f"{sink} {number} ({rule})" for (sink, rule), number in rules[:NAMED]]
        rest = sum(number for _, number in rules[NAMED:])
        parts = [*named, f"others {rest}"] if rest else named
        return (
            f"provenance is in audit; enforce would have refused {format_amount(refused, 'call')} and asked about "
            f"{questions}: {', '.join(parts)}; try a policy on them with agentserver provenance backtest"
        )

    def log(self) -> None:
        """Log the line about the calls since the last one."""
        line = self.take_line()
        if line:
            logger.warning("%s", line)

    async def run(self, sleep: Callable[[float], Awaitable[None]] = anyio.sleep) -> None:
        """Log a line each day until cancelled."""
        while True:
            await sleep(DAY)
            self.log()
