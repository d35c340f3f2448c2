"""The allowed actions of a conversation, fixed before untrusted data is seen.

Owns plans: from the words of the trusted query, or typed, step by step, from a planner. Refuses to grow from
anything but a trusted principal's later words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentserver.provenance.evidence.leaves import text_of, typed
from agentserver.provenance.policy.actions import Action, actions_in, actions_of, delegates, is_foreign
from agentserver.provenance.policy.declarations import argument_name, covers

if TYPE_CHECKING:
    from agentserver.provenance.evidence.asked import TrustedWords
    from agentserver.provenance.evidence.labels import Call, Leaf


@dataclass(frozen=True, slots=True)
class AllowedStep:
    """A sink that the plan allows, and the arguments it fixes: each given one must be among its values."""

    sink: str
    arguments: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The kinds of action that the query asks for, the sinks it names, and the steps of a planner.

    ``open`` marks a request that leaves the choice to a document (``do the tasks on my list``), or is not in
    English: then words fix nothing, and only lineage decides.
    """

    actions: frozenset[Action] = frozenset()
    steps: tuple[AllowedStep, ...] | None = None
    open: bool = False

    @classmethod
    def from_query(cls, query: str) -> Plan:
        """The plan that a request's words fix."""
        return cls(actions_in(query), None, delegates(query) or is_foreign(query))

    def extend(self, query: str) -> Plan:
        """The plan after a trusted principal said more. Typed steps stay as they are."""
        more = Plan.from_query(query)
        return Plan(self.actions | more.actions, self.steps, self.open or more.open)

    def refuses(self, call: Call, declared: frozenset[Action] | None, asked: TrustedWords) -> str | None:
        """The reason why the plan has no place for a call, or ``None``. ``asked`` is what the principal said."""
        if self.steps is not None:
            return _off_steps(self.steps, call)
        wanted = actions_of(call.sink) if declared is None else declared
        if self.open or not wanted or not wanted.isdisjoint(self.actions) or asked.mentions(call.sink):
            return None
        return f"the request asks for no '{'/'.join(sorted(wanted))}'"


def _off_steps(steps: tuple[AllowedStep, ...], call: Call) -> str | None:
    matching = [step for step in steps if covers(step.sink, call.sink)]
    if not matching:
        return "the plan has no such step"
    if any(_fits(step, call.arguments) for step in matching):
        return None
    return "the plan fixes other arguments"


def _fits(step: AllowedStep, arguments: tuple[Leaf, ...]) -> bool:
    fixed = {name: {(value, typed(value)) for value in allowed} for name, allowed in step.arguments}
    for leaf in arguments:
        allowed = fixed.get(argument_name(leaf.path))
        if allowed is None or leaf.value is None:
            continue
        text, key = text_of(leaf.value), typed(leaf.value)
        if not any(text == value or (key is not None and key == kind) for value, kind in allowed):
            return False
    return True
