"""The plan that a planner emits to fix what a conversation may do, before a stranger's words are read.

Owns the payload. Refuses to know when it counts: the lineage guard does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import MaxLen, MinLen

from agentserver.payload.xmlify import xmlify
from agentserver.provenance.policy.plan import AllowedStep

__all__ = ["Plan", "PlanArgument", "PlanStep"]

NAMESPACE = "urn:agentserver-plan"


@dataclass(frozen=True, slots=True)
class PlanArgument:
    """The values that a step allows one argument.

    Args:
        name: the field of the sink's payload.
        values: any one of them, as text; numbers and dates are compared by value.
    """

    name: Annotated[str, MinLen(1), MaxLen(128)]
    values: Annotated[list[Annotated[str, MaxLen(4000)]], MaxLen(100)] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A sink that the plan allows.

    Args:
        sink: the name of a listener.
        arguments: those that are fixed; any other may hold anything.
    """

    sink: Annotated[str, MinLen(1), MaxLen(128)]
    arguments: Annotated[list[PlanArgument], MaxLen(50)] = field(default_factory=list)


@xmlify(namespace=NAMESPACE)
@dataclass(frozen=True, slots=True)
class Plan:
    """All that the conversation may do.

    Args:
        steps: in no order; a sink without a step is not used at all.
    """

    steps: Annotated[list[PlanStep], MaxLen(200)] = field(default_factory=list)


ROOT = f"{{{NAMESPACE}:v1}}Plan"
"""The name of the payload's root element."""


def steps(plan: Plan) -> tuple[AllowedStep, ...]:
    """The steps as the ledger keeps them."""
    return tuple(
        AllowedStep(step.sink, tuple((each.name, tuple(each.values)) for each in step.arguments))
        for step in plan.steps
    )
