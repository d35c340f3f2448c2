"""The closed words of ``organism.yaml`` that more than one entry uses.

Owns what may be said of a participant's trust and of approval. Refuses to know what follows from it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from agentserver.config.keys.fields import given, listed

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
