"""The closed words of ``organism.yaml`` that more than one entry uses.

Owns what may be said of a participant's trust and of approval. Refuses to know what follows from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, WrapValidator

from agentserver.config.keys.fields import given, listed

if TYPE_CHECKING:
    from pydantic import ValidatorFunctionWrapHandler

EXCLUSIVE: Final = 0
"""The number that stands for ``concurrency: exclusive``."""


def _at_once(value: Any, number: ValidatorFunctionWrapHandler) -> Any:
    return EXCLUSIVE if value == "exclusive" else number(value)


_AtOnce = Annotated[int, Field(ge=1, le=4096)]
Concurrency: TypeAlias = Annotated[
    _AtOnce,
    WrapValidator(_at_once, json_schema_input_type=_AtOnce | Literal["exclusive"]),
    Field(
        description="How many of its invocations run at once in one process; exclusive for one at a time in the whole "
        "organism, in all its processes together."
    ),
]
_Word: TypeAlias = Literal["source", "sink", "trusted", "inert", "relay", "quarantined", "planner"]
_Words = Annotated[list[_Word], Field(max_length=6)]
Trusts: TypeAlias = Annotated[_Words, BeforeValidator(listed, json_schema_input_type=_Word | _Words)]
_Served: TypeAlias = Literal["source", "sink", "trusted", "inert", "relay"]
_AllServed = Annotated[list[_Served], Field(min_length=1, max_length=4)]
ToolTrusts: TypeAlias = Annotated[
    _AllServed, BeforeValidator(listed, json_schema_input_type=_Served | _AllServed)
]
Approval: TypeAlias = Annotated[
    Literal["required"] | None, BeforeValidator(given, json_schema_input_type=Literal["required"])
]
