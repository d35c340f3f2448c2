"""Plan of the calls that a conversation may make, fixed before untrusted data is seen.

Decides whether a call fits the plan, and which of its arguments the plan sanctions. Only a planner makes plans, never
the wording of a request alone, and a plan is extended only after the principal says more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.leaves import text_of
from agentserver.provenance.plans.arguments import AllowedStep, AnyValue, dump_step, load_step, shift_step
from agentserver.provenance.plans.descriptions import describe_kind
from agentserver.provenance.plans.grants import PlanGrounds, find_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from agentserver.provenance.evidence.labels import Call, Leaf
    from agentserver.provenance.plans.grants import PlanLedger

__all__ = ["AllowedStep", "Plan", "dump_plan", "load_plan"]

_SAID: Final = (Role.PAYLOAD, Role.INERT)
"""Roles of arguments that a step need not name: they are content, which lineage judges."""

_DECIDES: Final[Mapping[Role | None, str]] = MappingProxyType(
    {
        Role.DESTINATION: ", which says who receives",
        Role.SELECTOR: ", which says what to act on",
        Role.QUANTITY: ", which says how much",
        Role.TIME: ", which says when",
    }
)
"""Description of an argument's role in a call."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls that a conversation may make, planned before anything untrusted was seen.

    ``queries`` counts the principal's messages that the steps were made from, ``used`` the calls of each bounded step.
    """

    steps: tuple[AllowedStep, ...] = ()
    queries: int = 0
    used: tuple[tuple[int, int], ...] = ()

    def adopt(self, steps: tuple[AllowedStep, ...], queries: int) -> Plan | None:
        """Add a planner's steps after new words of the principal; ``None`` if there are no new words.

        Step numbers of the later plan are shifted by the number of earlier steps.
        """
        if queries <= self.queries:
            return None
        more = (shift_step(step, len(self.steps)) for step in steps)
        return replace(self, steps=(*self.steps, *more), queries=queries)

    def find_objection(
        self, call: Call, ledger: PlanLedger, role: Callable[[Leaf], Role] | None = None
    ) -> str | None:
        """Find the reason why a call does not fit the plan, or ``None``.

        Args:
            call: the call of a sink.
            ledger: the trusted words and records, for the steps' relations.
            role: returns the role of an argument. Arguments that a step does not name are refused, unless their role is
                payload or inert; without this function all of them are refused.
        """
        grounds = self._grounds(ledger)
        spent, reason = "", ""
        for number, step in self._steps_for(call):
            misfit = next(_find_misfits(grounds, step, call, role), None)
            if misfit is None and self._has_calls_left(number, step):
                return None
            if misfit is None:
                spent = f"the plan allows it {step.times} times, and that is used up"
            reason = reason or misfit or ""
        return spent or reason or "the plan has no such step"

    def warrants(self, ledger: PlanLedger, call: Call, leaf: Leaf) -> str | None:
        """Explain why the plan sanctions an argument of a call; ``None`` if it does not.

        It does if the whole call fits a step that names the argument by a literal, the request's words or a leaf. An
        argument that the step leaves open to any value is not sanctioned.
        """
        grounds = self._grounds(ledger)
        for _, step in self._steps_for(call):
            kind = find_kind(step, leaf.path)
            found = None if kind is None else grounds.match_list(kind, leaf.value)
            others = (other for other in _given_arguments(call) if other is not leaf)
            fits = found is not None and all(grounds.fits(step, other) for other in others)
            if fits and found is not None and not isinstance(found, AnyValue):
                return describe_kind(found)
        return None

    def count_call(self, call: Call, ledger: PlanLedger) -> Plan:
        """Count a call against its step, if the step's number of calls is bounded."""
        grounds = self._grounds(ledger)
        fitting = [
            pair
            for pair in self._steps_for(call)
            if all(grounds.fits(pair[1], leaf) for leaf in _given_arguments(call))
        ]
        if not fitting or any(step.times is None for _, step in fitting):
            return self
        used = dict(self.used)
        number = next(
            (number for number, step in fitting if self._has_calls_left(number, step)), fitting[0][0]
        )
        return replace(self, used=tuple(sorted({**used, number: used.get(number, 0) + 1}.items())))

    def find_answered(self, ledger: PlanLedger, source: str, arguments: tuple[Leaf, ...]) -> tuple[int, ...]:
        """Find the numbers, from 1, of the steps that a call fits, so that its answer belongs to them."""
        return self._grounds(ledger).matching_steps(source, arguments)

    def _grounds(self, ledger: PlanLedger) -> PlanGrounds:
        return PlanGrounds(ledger.asked, ledger.recorded, self.steps)

    def _steps_for(self, call: Call) -> Iterator[tuple[int, AllowedStep]]:
        """List the steps for the sink of a call, with their numbers."""
        return ((number, step) for number, step in enumerate(self.steps, 1) if step.sink == call.sink)

    def _has_calls_left(self, number: int, step: AllowedStep) -> bool:
        return step.times is None or dict(self.used).get(number, 0) < step.times


def dump_plan(plan: Plan | None) -> dict[str, Any]:
    """Serialise a plan, or its absence, as plain data."""
    known = plan or Plan()
    return {
        "steps": list(map(dump_step, known.steps)),
        "planned": plan is not None,
        "plan": [known.queries, [list(pair) for pair in known.used]],
    }


def load_plan(data: Mapping[str, Any]) -> Plan | None:
    """Restore the plan that ``dump_plan`` serialised."""
    if not data["planned"]:
        return None
    queries, used = data["plan"]
    return Plan(
        tuple(map(load_step, data["steps"])), queries, tuple((number, count) for number, count in used)
    )


def _given_arguments(call: Call) -> Iterator[Leaf]:
    """List the arguments that are not blank."""
    return (leaf for leaf in call.arguments if text_of(leaf.value).strip())


def _find_misfits(
    grounds: PlanGrounds, step: AllowedStep, call: Call, role: Callable[[Leaf], Role] | None
) -> Iterator[str]:
    """Find the reasons why a call does not fit a step."""
    for leaf in _given_arguments(call):
        kind = find_kind(step, leaf.path)
        if kind is None:
            decides = None if role is None else role(leaf)
            if decides not in _SAID:
                yield f"the plan names no '{leaf.path}'{_DECIDES.get(decides, '')}"
        elif grounds.match_list(kind, leaf.value) is None:
            yield f"the plan fixes '{leaf.path}': {describe_kind(kind)}"
