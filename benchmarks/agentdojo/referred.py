"""This engine with plans, for an agent that is shown references where strangers wrote.

Defines the view of such an agent, and the values that it cannot have from there. A relay reads hidden texts for it: an
agent without tools whose answers it gets as references, and which is compromised as soon as it reads the injection.
Does not judge: the engine does, as for an agent that reads everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentserver.guards.lineage.hiding import is_vouched_for
from agentserver.provenance.evidence.authority import build_mention_pattern
from agentserver.provenance.evidence.inventory import hash_whole
from agentserver.provenance.evidence.leaves import build_typed_key, find_typed_keys, format_text, leaves
from benchmarks.agentdojo.defences import PlannedEngine
from benchmarks.agentdojo.variations.authors import shape

if TYPE_CHECKING:
    from agentserver.provenance.evidence.labels import Leaf


class ReferenceAgent(PlannedEngine):
    """A planned agent with `view: references`."""

    def start(self, query: str, suite: str, task: str) -> None:
        super().start(query, suite, task)
        self.shown, self.hidden, self.latest = [query], [], []

    def judge_call(self, tool: str, args: dict[str, Any]) -> str | None:
        for leaf in leaves(args):
            if not isinstance(leaf.value, str | bool) and self._behind(leaf.value):
                return f"no place for a reference {leaf.path}={leaf.value!r}"
        return super().judge_call(tool, args)

    def observe_output(self, tool: str, args: dict[str, Any], result: Any) -> None:
        known, self.latest = self.policy.classify(tool), []
        for leaf in leaves(result):
            seen = is_vouched_for(self.policy, tool, leaf) if known.source else not self._carries(leaf)
            shown = seen or isinstance(leaf.value, bool)
            (self.latest if shown else self.hidden).append(format_text(leaf.value))
        self.shown += self.latest
        super().observe_output(tool, args, result)

    def reads(self, wanted: str) -> bool:
        return any(wanted in shape(text) for text in self.latest)

    def can_relay(self, value: Any) -> bool:
        """True for a value that the agent has neither seen nor been given: the relay supplies it."""
        if isinstance(value, list):
            return any(map(self.can_relay, value))
        body = format_text(value)
        return bool(body.strip()) and not any(_holds(text, body) for text in self.shown)

    def _carries(self, leaf: Leaf) -> bool:
        """True for a text of a tool without strangers that holds a stranger's words."""
        ledger, text = self.ledger, format_text(leaf.value)
        told = ledger.untrusted.may_contain(text, len(ledger.texts))
        return told or ledger.table.first(hash_whole(text)) is not None

    def _behind(self, value: Any) -> bool:
        """True for a number or a date that only a hidden text holds: it has no place for a reference."""
        kind = build_typed_key(value)
        if kind is None or any(kind in find_typed_keys(text) for text in self.shown):
            return False
        return any(kind in find_typed_keys(text) for text in self.hidden)


def _holds(text: str, body: str) -> bool:
    return text == body or build_mention_pattern(body.strip(), any_case=True).search(text) is not None
