"""Payload with which a planner fixes the calls of a conversation before untrusted text is read."""

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


def _read_field(said: PlanField) -> FieldOf:
    return FieldOf(said.field, said.of, said.step, tuple(map(_read_condition, said.where)), said.inside)


def _read_condition(said: PlanCondition) -> Condition:
    leaves = (FieldOf(each.field, each.of, each.step) for each in said.leaves)
    every: tuple[Kind, ...] = (*map(Literal, said.values), *leaves)
    return Condition(said.field, every[0] if len(every) == 1 else OneOf(every), said.has)
