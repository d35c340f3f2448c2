"""Plans: a planner fixes what a conversation may do before untrusted text is read."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le, MaxLen, MinLen

from agentserver.payload.xmlify import xmlify
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
)
from agentserver.provenance.plans.moments import parse_duration

__all__ = ["Plan", "PlanArgument", "PlanCondition", "PlanField", "PlanLeaf", "PlanStep"]

NAMESPACE = "urn:agentserver-plan"

Name = Annotated[str, MinLen(1), MaxLen(128)]
Path = Annotated[str, MinLen(1), MaxLen(512)]
Value = Annotated[str, MaxLen(4000)]
Number = Annotated[int, Ge(0), Le(1000)]


@dataclass(frozen=True, slots=True)
class PlanLeaf:
    """A field of a record, without conditions of its own.

    Args:
        field: its path from the root of the listener's answer, such as email or contacts.email.
        of: the listener that answered; left out where a step says it.
        step: number of the step, from 1, whose call was answered; 0 for any answer of the listener.
    """

    field: Path
    of: Annotated[str, MaxLen(128)] = ""
    step: Number = 0


@dataclass(frozen=True, slots=True)
class PlanCondition:
    """Something that the same record has to say.

    Args:
        field: the path of the field.
        values: its value is one of these.
        leaves: or one that a record holds.
        has: whether the values are words that stand in its text.
    """

    field: Path
    values: Annotated[list[Value], MaxLen(100)] = dataclasses.field(default_factory=list)
    leaves: Annotated[list[PlanLeaf], MaxLen(20)] = dataclasses.field(default_factory=list)
    has: bool = False


@dataclass(frozen=True, slots=True)
class PlanField:
    """A field of a record of an answer that comes later.

    Args:
        field: its path from the root of the listener's answer, such as email or contacts.email.
        of: the listener that answers; left out where a step says it.
        step: number of the step, from 1, whose call is answered; 0 for any answer of the listener.
        where: what else the record has to say; all of it.
        inside: whether the value stands somewhere in the field's text. Its author chooses it then.
    """

    field: Path
    of: Annotated[str, MaxLen(128)] = ""
    step: Number = 0
    where: Annotated[list[PlanCondition], MaxLen(10)] = dataclasses.field(default_factory=list)
    inside: bool = False


@dataclass(frozen=True, slots=True)
class PlanArgument:
    """The values that a step allows one argument: any of those that are said here.

    Args:
        name: the field of the sink's payload.
        values: literals, as text; numbers, dates and addresses are compared as such.
        fields: fields of records.
        said: whether it may be any value of the principal's own words.
        anything: whether it may be anything, which is then judged as if there were no plan.
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
    """A call that the plan allows. A step of a listener that is no sink only gives its answers a number.

    Args:
        sink: the name of a listener.
        arguments: those that may say where it goes, on what it acts, how much and when. Text that it merely says need
            not be named.
        times: calls at most; 0 for no bound.
    """

    sink: Annotated[str, MinLen(1), MaxLen(128)]
    arguments: Annotated[list[PlanArgument], MaxLen(50)] = dataclasses.field(default_factory=list)
    times: Number = 0


@xmlify(namespace=NAMESPACE)
@dataclass(frozen=True, slots=True)
class Plan:
    """All that the conversation may do.

    Args:
        steps: in no order but for their numbers, from 1; a sink without a step is not used at all.
    """

    steps: Annotated[list[PlanStep], MaxLen(200)] = dataclasses.field(default_factory=list)


ROOT = f"{{{NAMESPACE}:v1}}Plan"
"""The name of the payload's root element."""


def steps(plan: Plan) -> tuple[AllowedStep, ...]:
    """The steps as the ledger keeps them. What no duration can be read from allows nothing."""
    return tuple(
        AllowedStep(step.sink, tuple((each.name, _kind(each)) for each in step.arguments), step.times or None)
        for step in plan.steps
    )


def _kind(argument: PlanArgument) -> Kind:
    if argument.anything:
        return AnyValue()
    every: list[Kind] = [*map(Literal, argument.values), *map(_field, argument.fields)]
    if argument.said:
        every.append(RequestedValue())
    base = every[0] if len(every) == 1 else OneOf(tuple(every))
    if not argument.later:
        return base
    length = parse_duration(argument.later)
    return OneOf(()) if length is None else DateOffset(base, length)


def _field(said: PlanField) -> FieldOf:
    return FieldOf(said.field, said.of, said.step, tuple(map(_condition, said.where)), said.inside)


def _condition(said: PlanCondition) -> Condition:
    leaves = (FieldOf(each.field, each.of, each.step) for each in said.leaves)
    every: tuple[Kind, ...] = (*map(Literal, said.values), *leaves)
    return Condition(said.field, every[0] if len(every) == 1 else OneOf(every), said.has)
