"""The allowed actions of a conversation, fixed before untrusted data is seen.

Owns plans, typed, step by step, from a planner, and their two answers about a call: whether it has a place in the plan,
and which of its arguments the plan itself warrants. Refuses to make one of the words of a request, which decide nothing
alone, and to grow but after a trusted principal's later words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.leaves import text_of
from agentserver.provenance.planned.arguments import AllowedStep, Anything, dump, load, moved_step
from agentserver.provenance.planned.granting import PlanGrounds, named
from agentserver.provenance.planned.wording import phrase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from agentserver.provenance.evidence.labels import Call, Leaf
    from agentserver.provenance.planned.granting import SaidAndRecorded

__all__ = ["AllowedStep", "Plan", "dumped", "loaded"]

_SAID: Final = (Role.PAYLOAD, Role.INERT)
"""Roles of arguments that a step need not name: they say something, and lineage judges what."""

_DECIDES: Final[Mapping[Role | None, str]] = MappingProxyType(
    {
        Role.DESTINATION: ", which says who receives",
        Role.SELECTOR: ", which says what is acted on",
        Role.QUANTITY: ", which says how much",
        Role.TIME: ", which says when",
    }
)
"""The part of an argument in a call, by its role, in words."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a conversation may do, made by a planner before anything untrusted was seen.

    ``queries`` counts the principal's messages that the steps were made of, ``used`` the calls of each step whose
    number is bounded.
    """

    steps: tuple[AllowedStep, ...] = ()
    queries: int = 0
    used: tuple[tuple[int, int], ...] = ()

    def adopted(self, steps: tuple[AllowedStep, ...], queries: int) -> Plan | None:
        """The plan with a planner's steps, or with more of them after more words; ``None`` where no word is new.

        Numbers of steps in a later plan are counted on from those before.
        """
        if queries <= self.queries:
            return None
        more = (moved_step(step, len(self.steps)) for step in steps)
        return replace(self, steps=(*self.steps, *more), queries=queries)

    def refuses(
        self, call: Call, ledger: SaidAndRecorded, role: Callable[[Leaf], Role] | None = None
    ) -> str | None:
        """The reason why the plan has no place for a call, or ``None``.

        Args:
            call: of a sink.
            ledger: what was said and recorded, for the steps' relations.
            role: of each argument. What a step does not name is refused, unless its role is payload or inert;
                without roles all of it is.
        """
        grounds = self._grounds(ledger)
        spent, reason = "", ""
        for number, step in self._of(call):
            misfit = next(_misfits(grounds, step, call, role), None)
            if misfit is None and self._left(number, step):
                return None
            if misfit is None:
                spent = f"the plan allows it {step.times} times, and that is used up"
            reason = reason or misfit or ""
        return spent or reason or "the plan has no such step"

    def warrants(self, ledger: SaidAndRecorded, call: Call, leaf: Leaf) -> str | None:
        """The reason in words why the plan itself answers for an argument of a call; ``None`` where it does not.

        It does for what a step names by a literal, by the request's words or by a leaf, where the whole call fits that
        step. What a step leaves open to anything it does not answer for.
        """
        grounds = self._grounds(ledger)
        for _, step in self._of(call):
            kind = named(step, leaf.path)
            found = None if kind is None else grounds.granted_each(kind, leaf.value)
            others = (other for other in _given(call) if other is not leaf)
            fits = found is not None and all(grounds.fits(step, other) for other in others)
            if fits and found is not None and not isinstance(found, Anything):
                return phrase(found)
        return None

    def after(self, call: Call, ledger: SaidAndRecorded) -> Plan:
        """The plan after a call was made: of a step whose number of calls is bounded, one is spent."""
        grounds = self._grounds(ledger)
        fitting = [
            pair for pair in self._of(call) if all(grounds.fits(pair[1], leaf) for leaf in _given(call))
        ]
        if not fitting or any(step.times is None for _, step in fitting):
            return self
        used = dict(self.used)
        number = next((number for number, step in fitting if self._left(number, step)), fitting[0][0])
        return replace(self, used=tuple(sorted({**used, number: used.get(number, 0) + 1}.items())))

    def answered(self, ledger: SaidAndRecorded, source: str, arguments: tuple[Leaf, ...]) -> tuple[int, ...]:
        """The numbers, from 1, of the steps that a call fits, so that its answer is theirs."""
        return self._grounds(ledger).answered(source, arguments)

    def _grounds(self, ledger: SaidAndRecorded) -> PlanGrounds:
        return PlanGrounds(ledger.asked, ledger.recorded, self.steps)

    def _of(self, call: Call) -> Iterator[tuple[int, AllowedStep]]:
        """The steps for the sink of a call, with their numbers."""
        return ((number, step) for number, step in enumerate(self.steps, 1) if step.sink == call.sink)

    def _left(self, number: int, step: AllowedStep) -> bool:
        return step.times is None or dict(self.used).get(number, 0) < step.times


def dumped(plan: Plan | None) -> dict[str, Any]:
    """A plan, or that there is none, as plain data."""
    known = plan or Plan()
    return {
        "steps": list(map(dump, known.steps)),
        "planned": plan is not None,
        "plan": [known.queries, [list(pair) for pair in known.used]],
    }


def loaded(data: Mapping[str, Any]) -> Plan | None:
    """The plan of which ``dumped`` gave the data. An earlier server kept steps alone: all words count as planned."""
    if not data["planned"]:
        return None
    queries, used = data.get("plan", (len(data["queries"]), ()))
    return Plan(tuple(map(load, data["steps"])), queries, tuple((number, count) for number, count in used))


def _given(call: Call) -> Iterator[Leaf]:
    """The arguments that say something."""
    return (leaf for leaf in call.arguments if text_of(leaf.value).strip())


def _misfits(
    grounds: PlanGrounds, step: AllowedStep, call: Call, role: Callable[[Leaf], Role] | None
) -> Iterator[str]:
    """The reasons why a call is not a step's."""
    for leaf in _given(call):
        kind = named(step, leaf.path)
        if kind is None:
            decides = None if role is None else role(leaf)
            if not step.rest and decides not in _SAID:
                yield f"the plan names no '{leaf.path}'{_DECIDES.get(decides, '')}"
        elif grounds.granted_each(kind, leaf.value) is None:
            yield f"the plan fixes '{leaf.path}': {phrase(kind)}"
