"""The shape of ``intents`` and ``handoffs`` in ``organism.yaml``.

Owns their keys, types, bounds and help texts. Refuses to prove anything: what the entries mean together is for
handoffs.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from agentserver.config.keys.fields import Dotted, Name, RelativePath, Spelling, Strict, absent, listed
from agentserver.handoff import intents
from agentserver.handoff.templates import LONGEST
from agentserver.hygiene import slug

if TYPE_CHECKING:
    from agentserver.config.findings import Loc, Where
    from agentserver.config.yaml.document import Document

MAX_PARAMETERS = 64

_Names = Annotated[list[Name], Field(min_length=1, max_length=100)]
Targets: TypeAlias = Annotated[_Names, BeforeValidator(listed, json_schema_input_type=Name | _Names)]
ParameterName: TypeAlias = Annotated[
    str,
    Spelling(
        r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$",
        "may hold letters, digits, - and _ only, at most 64, and begins with a letter or _",
    ),
]
IntentName: TypeAlias = Annotated[
    str,
    Spelling(
        r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$",
        "may hold letters, digits and - _ . only, at most 64, and begins with a letter",
    ),
]
Free: TypeAlias = Annotated[int, Field(ge=0, le=intents.FREE)]


_Few = Annotated[list[Name], Field(max_length=1000)]
Allowed: TypeAlias = Annotated[_Few | None, BeforeValidator(absent)]


class ParameterEntry(Strict):
    """One typed value of an intent."""

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
        default="string", description="Its type in XSD; all but string have a form without a pattern."
    )
    min_length: int = Field(default=0, ge=0, le=1000, description="Characters at least.")
    max_length: int | None = Field(
        default=None, ge=1, le=1000, description="Characters at most; needed where the pattern has no end."
    )
    required: bool = Field(default=True, description="Whether a request must have it.")
    words: int = Field(
        default=slug.BUDGET,
        ge=1,
        le=slug.MOST,
        description="How many words a value may spell when the template holds it.",
    )


class IntentEntry(Strict):
    """One thing that agents may ask of others."""

    name: IntentName = Field(description="As requests say it.")
    target: Targets = Field(description="The listener, or the list of them, that may be asked.")
    template: str = Field(
        min_length=1,
        max_length=LONGEST,
        description="What the target is told, with {parameter} where a value goes.",
    )
    params: dict[ParameterName, ParameterEntry] = Field(
        default_factory=dict, max_length=MAX_PARAMETERS, description="The typed values, by name."
    )
    payload_class: Dotted | None = Field(
        default=None,
        description="Dotted path of the @xmlify class that declares the typed values, instead of params; "
        "sent to the target, it means this intent.",
    )
    note: Free = Field(
        default=0, description="Characters of free text; the target is shown it as data. None when left out."
    )
    event: Free = Field(
        default=intents.EVENT, description="Characters of the free text beside the parameters; 0 for none."
    )
    allow_peers: Allowed = Field(
        default=None,
        description="The only peers that the target reaches while it acts on the handoff; all when left out, "
        "none when empty.",
    )


AUDIT = "out/handoff-audit.jsonl"
"""The writer's own default (``handoff.edge.records.DEFAULT``), without the writer, which most starts do not need."""


class HandoffsEntry(Strict):
    """Settings of every handoff."""

    audit: RelativePath = Field(
        default=AUDIT,
        description="The file that every attempt is written to: in the project directory, relative to it, or an "
        "absolute path; none for none.",
    )
    scrub: bool = Field(
        default=True, description="Whether lines that read like instructions are taken out of free text."
    )
    legacy: IntentName | None = Field(
        default=None,
        description="The intent that requests of the older form, free text alone, are taken for.",
    )


@dataclass(frozen=True, slots=True)
class DeclaredIntent:
    """An intent's sound entry and where it stands."""

    document: Document
    index: int
    entry: IntentEntry

    def where(self, *keys: str | int) -> Where:
        """The place of a value of the entry, or of the nearest one around it."""
        return self.document.where(("intents", self.index, *keys))


def sound_intents(
    document: Document, bad: set[Loc]
) -> tuple[tuple[DeclaredIntent, ...], HandoffsEntry | None]:
    """The entries without mistakes of shape; those with some are reported, and nothing more is said about them."""
    data = document.data.get("intents")
    faulty = {loc[1] for loc in bad if loc[:1] == ("intents",) and len(loc) > 1}
    intents = tuple(
        DeclaredIntent(document, i, IntentEntry.model_validate(entry))
        for i, entry in enumerate(data if isinstance(data, list) else ())
        if i not in faulty
    )
    if any(loc[:1] == ("handoffs",) for loc in bad):
        return intents, None
    return intents, HandoffsEntry.model_validate(document.data.get("handoffs", {}))
