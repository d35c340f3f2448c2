"""Payload with which a planner fixes the calls of a conversation before untrusted text is read.

A plan counts if its planner has read only the principal's words. It is extended only after further words of the
principal.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le, MaxLen, MinLen

from agentserver.contract import Code
from agentserver.core.guard import DenyVerdict, NeedsApproval, NoteVerdict
from agentserver.guards.lineage.reading import list_texts
from agentserver.payload.xmlify import xmlify
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.plans.arguments import (
    AllowedStep,
    AnyValue,
    Condition,
    DateOffset,
    FieldOf,
    Kind,
    Literal,
    OneOf,
    RequestedValue,
    describe_steps,
)
from agentserver.provenance.plans.moments import parse_duration
from agentserver.provenance.policy.declarations import PlanSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Verdict
    from agentserver.guards.lineage.memory import Memory
    from agentserver.guards.lineage.reach import Reach
    from agentserver.guards.lineage.reading import ObservedMessage, Readings
    from agentserver.guards.lineage.trust import Parties, TrustSettings

__all__ = ["Plan", "PlanArgument", "PlanCondition", "PlanField", "PlanLeaf", "PlanStep"]

NAMESPACE = "urn:agentserver-plan"

Name = Annotated[str, MinLen(1), MaxLen(128)]
Path = Annotated[str, MinLen(1), MaxLen(512)]
Value = Annotated[str, MaxLen(4000)]
Number = Annotated[int, Ge(0), Le(1000)]


@dataclass(frozen=True, slots=True)
class PlanLeaf:
    """Field of a record, without conditions.

    Args:
        field: its path from the root of the listener's answer, such as email or contacts.email.
        of: the listener that answered; left out if a step determines it.
        step: number of the step, from 1, whose call was answered; 0 for any answer of the listener.
    """

    field: Path
    of: Annotated[str, MaxLen(128)] = ""
    step: Number = 0


@dataclass(frozen=True, slots=True)
class PlanCondition:
    """Condition on another field of the same record.

    Args:
        field: the path of the field.
        values: its value is one of these.
        leaves: or it is a value of one of these fields.
        has: whether the values are words that its text contains.
    """

    field: Path
    values: Annotated[list[Value], MaxLen(100)] = dataclasses.field(default_factory=list)
    leaves: Annotated[list[PlanLeaf], MaxLen(20)] = dataclasses.field(default_factory=list)
    has: bool = False


@dataclass(frozen=True, slots=True)
class PlanField:
    """Field of a record in a later answer.

    Args:
        field: its path from the root of the listener's answer, such as email or contacts.email.
        of: the listener that answers; left out if a step determines it.
        step: number of the step, from 1, whose call is answered; 0 for any answer of the listener.
        where: conditions on the record; all must hold.
        inside: whether the value is somewhere in the field's text. The author of the text then chooses it.
    """

    field: Path
    of: Annotated[str, MaxLen(128)] = ""
    step: Number = 0
    where: Annotated[list[PlanCondition], MaxLen(10)] = dataclasses.field(default_factory=list)
    inside: bool = False


@dataclass(frozen=True, slots=True)
class PlanArgument:
    """Values that a step allows for one argument: any of those listed here.

    Args:
        name: the field of the sink's payload.
        values: literals, as text; numbers, dates and addresses are compared as such.
        fields: fields of records.
        said: whether it may be any value of the principal's own words.
        anything: whether it may be any value, which is then judged as if there were no plan.
        later: so much later than any of these, for a date or a time: 2 days, 1 hour 30 minutes, -1 week.
    """

    name: Annotated[str, MinLen(1), MaxLen(128)]
    values: Annotated[list[Value], MaxLen(100)] = dataclasses.field(default_factory=list)
    fields: Annotated[list[PlanField], MaxLen(20)] = dataclasses.field(default_factory=list)
    said: bool = False
    anything: bool = False
    later: Annotated[str, MaxLen(40)] = ""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """Call that the plan allows. A step of a listener that is no sink only numbers its answers.

    Args:
        sink: the name of a listener.
        arguments: the arguments that may decide its destination, object, amount or time. Content need not be
            named.
        times: maximum number of calls; 0 for no bound.
    """

    sink: Annotated[str, MinLen(1), MaxLen(128)]
    arguments: Annotated[list[PlanArgument], MaxLen(50)] = dataclasses.field(default_factory=list)
    times: Number = 0


@xmlify(namespace=NAMESPACE)
@dataclass(frozen=True, slots=True)
class Plan:
    """All calls that the conversation may make.

    Args:
        steps: allowed calls. Their order only determines their numbers, from 1; a sink without a step may not be
            called.
    """

    steps: Annotated[list[PlanStep], MaxLen(200)] = dataclasses.field(default_factory=list)


ROOT = f"{{{NAMESPACE}:v1}}Plan"
"""Name of the payload's root element."""


def read_steps(plan: Plan) -> tuple[AllowedStep, ...]:
    """Convert the steps to the form that the ledger stores. An invalid duration allows nothing."""
    return tuple(
        AllowedStep(
            step.sink, tuple((each.name, _read_kind(each)) for each in step.arguments), step.times or None
        )
        for step in plan.steps
    )


def _read_kind(argument: PlanArgument) -> Kind:
    if argument.anything:
        return AnyValue()
    every: list[Kind] = [*map(Literal, argument.values), *map(_read_field, argument.fields)]
    if argument.said:
        every.append(RequestedValue())
    base = every[0] if len(every) == 1 else OneOf(tuple(every))
    if not argument.later:
        return base
    length = parse_duration(argument.later)
    return OneOf(()) if length is None else DateOffset(base, length)


def _read_field(field: PlanField) -> FieldOf:
    return FieldOf(field.field, field.of, field.step, tuple(map(_read_condition, field.where)), field.inside)


def _read_condition(condition: PlanCondition) -> Condition:
    leaves = (FieldOf(each.field, each.of, each.step) for each in condition.leaves)
    every: tuple[Kind, ...] = (*map(Literal, condition.values), *leaves)
    return Condition(condition.field, every[0] if len(every) == 1 else OneOf(every), condition.has)


HEAD = "The plan of this conversation. These calls will run without another question, and no others:"
EMPTY = "The plan of this conversation: no sink may be used at all."
COUNTED = "The plan allows so many calls of it, and this is one of them."
LOST = "This plan does not count: "


class Planning:
    """Tracker of planners and their plans.

    Args:
        trusted: the settings of trust.
        parties: the classification of listeners and principals.
        readings: the readers of payloads.
        reach: the tracker of untrusted text.
        redact: removes secrets from texts for people.
    """

    def __init__(
        self,
        trusted: TrustSettings,
        parties: Parties,
        readings: Readings,
        reach: Reach,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._trusted, self._parties, self._readings = trusted, parties, readings
        self._reach, self._redact = reach, redact

    def track_input(self, memory: Memory, message: ObservedMessage) -> Memory:
        """Dismiss a planner that receives words of any party but the principal.

        The principal's own words may be passed on to it, whole or in pieces. After other words its plans do not count
        in this conversation. Its messages to itself are its own.
        """
        if message.to not in self._trusted.planners or message.sender == message.to:
            return memory
        trusted = memory.ledger.asked
        forms = filter(None, map(fold_bytes, list_texts(message.leaves)))
        return memory if all(map(trusted.says, forms)) else memory.grow(memory.ledger.dismiss(message.to))

    def adopt(self, memory: Memory, message: ObservedMessage) -> Memory:
        """Adopt a planner's plan, if it counts."""
        if message.root != ROOT or message.sender not in self._trusted.planners:
            return memory
        if self._find_loss(memory, message.sender, message.thread):
            return memory
        plan = read_steps(self._readings[message.root].codec.decode(message.element))
        grown = memory.ledger.adopt(plan, unexposed=True)
        return memory if grown is None else memory.grow(grown)

    def judge(self, memory: Memory, proposal: Proposal) -> Verdict:
        """Judge a message that holds a planner's plan; None for other messages, or without remarks.

        A person is asked about every plan that may come to count, even if it would not count at present.
        """
        sender = proposal.sender.name
        if proposal.root != ROOT or sender not in self._trusted.planners:
            return None
        if lost := self._find_loss(memory, sender, proposal.thread):
            return NoteVerdict(f"{LOST}{lost}")
        policy, plan = self._trusted.policy, memory.ledger.plan
        if policy.plan is PlanSource.CONFIRMED:
            steps = read_steps(self._readings[proposal.root].codec.decode(proposal.element))
            return self._ask_about(steps)
        if plan is not None and plan.queries >= len(memory.ledger.queries):
            return NoteVerdict(f"{LOST}the principal has said nothing new since the one before it")
        return None

    def is_counted(self, memory: Memory, proposal: Proposal) -> bool:
        """Check whether the plan bounds the number of messages to a listener. The principal's own are orders."""
        plan = memory.ledger.plan
        if plan is None or self._parties.is_principal(proposal.sender.name):
            return False
        return any(step.sink == proposal.to and step.times is not None for step in plan.steps)

    def _ask_about(self, steps: tuple[AllowedStep, ...]) -> Verdict:
        question = "\n".join((HEAD, *describe_steps(steps, self._redact))) if steps else EMPTY
        if self._trusted.policy.mode is Mode.AUDIT:
            return NoteVerdict(question)
        about = sha256(repr(describe_steps(steps)).encode("utf-8", "surrogatepass"))
        return NeedsApproval(question, (about.hexdigest(),))

    def _find_loss(self, memory: Memory, planner: str, thread: str) -> str:
        """Find the reason why a planner's plans no longer count; empty while they do."""
        text = self._reach.find_exposure(memory, planner, thread)
        if text is not None:
            return f"untrusted text of {text.source or 'an unknown source'} reached {planner} before"
        if planner in memory.ledger.dismissed:
            return f"{planner} received words of others than the principal"
        return ""


def combine_verdicts(planned: Verdict, found: Verdict) -> Verdict:
    """Combine the verdict on a plan with that on the message that holds it.

    A plan that needs confirmation, in a message that needs approval for another reason, is denied: one answer would
    count for two questions.
    """
    if isinstance(planned, NeedsApproval) and isinstance(found, NeedsApproval):
        return DenyVerdict(Code.DENIED, "a plan that waits for a person drives nothing itself")
    if isinstance(found, DenyVerdict | NeedsApproval):
        return found
    return planned if isinstance(planned, NeedsApproval) or found is None else found
