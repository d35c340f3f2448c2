"""Keys below ``intents:`` and ``handoffs:``."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from agentserver.config.keys.fields import (
    Dotted,
    Name,
    RelativePath,
    Strict,
    TextPattern,
    none_as_empty,
    wrap_text,
)
from agentserver.handoff import intents
from agentserver.handoff.intents import LONGEST
from agentserver.hygiene import slug

MAX_PARAMETERS = 64

_Names = Annotated[list[Name], Field(min_length=1, max_length=100)]
Targets: TypeAlias = Annotated[_Names, BeforeValidator(wrap_text, json_schema_input_type=Name | _Names)]
ParameterName: TypeAlias = Annotated[
    str,
    TextPattern(
        r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$",
        "may hold letters, digits, - and _ only, at most 64, and begins with a letter or _",
    ),
]
IntentName: TypeAlias = Annotated[
    str,
    TextPattern(
        r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$",
        "may hold letters, digits and - _ . only, at most 64, and begins with a letter",
    ),
]
Free: TypeAlias = Annotated[int, Field(ge=0, le=intents.FREE)]


_Few = Annotated[list[Name], Field(max_length=1000)]
Allowed: TypeAlias = Annotated[_Few | None, BeforeValidator(none_as_empty)]


class ParameterEntry(Strict):
    """Typed parameter of an intent."""

    pattern: str | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="XSD regular expression of the whole value: no ^, no $, no \\w and no \\s.",
    )
    choices: list[Annotated[str, Field(min_length=1, max_length=slug.LENGTH)]] = Field(
        default_factory=list, max_length=1000, description="The only values, instead of a pattern."
    )
    type: Literal["string", "integer", "decimal", "boolean", "date", "time", "dateTime"] = Field(
        default="string", description="Its type in XSD; all types except string are closed without a pattern."
    )
    min_length: int = Field(default=0, ge=0, le=1000, description="Minimal length in characters.")
    max_length: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="Maximal length in characters; required when the pattern is unbounded.",
    )
    required: bool = Field(default=True, description="Whether requests must contain it.")
    words: int = Field(
        default=slug.BUDGET,
        ge=1,
        le=slug.MOST,
        description="How many words a value may have when the template contains it.",
    )


class IntentEntry(Strict):
    """Request that agents may hand off to a listener."""

    name: IntentName = Field(description="The name in requests.")
    target: Targets = Field(description="The listener, or the list of them, that accepts the handoff.")
    template: str = Field(
        min_length=1,
        max_length=LONGEST,
        description="The text for the target, with {parameter} as a placeholder for each value.",
    )
    params: dict[ParameterName, ParameterEntry] = Field(
        default_factory=dict, max_length=MAX_PARAMETERS, description="The typed values, by name."
    )
    payload_class: Dotted | None = Field(
        default=None,
        description="Dotted path of the @xmlify class that declares the typed values, instead of params; "
        "sending it to the target means this intent.",
    )
    note: Free = Field(
        default=0, description="Characters of free text, which the target gets as data. Defaults to none."
    )
    event: Free = Field(
        default=intents.EVENT,
        description="Characters of the free text next to the parameters; 0 disables it.",
    )
    allow_peers: Allowed = Field(
        default=None,
        description="The only peers that the target can reach while it handles the handoff; defaults to all, "
        "and an empty list denies all.",
    )


AUDIT = "out/handoff-audit.jsonl"
"""The writer's own default (``handoff.edge.records.DEFAULT``), without the writer, which most starts do not need."""


class HandoffsEntry(Strict):
    """Settings of every handoff."""

    audit: RelativePath = Field(
        default=AUDIT,
        description="The log of every attempt: relative to the project directory and inside it, or an absolute path; "
        "none disables it.",
    )
    scrub: bool = Field(
        default=True, description="Whether lines that look like instructions are removed from free text."
    )
    legacy: IntentName | None = Field(
        default=None,
        description="The intent for requests of the older form, which is free text only.",
    )
