"""The vocabulary of schema hygiene: what is judged and what is objected to.

Owns the values that rules take and give. Refuses to know any rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentserver.characters.printing import DOTS, shortened

SHOWN = 80
"""Characters of a schema's own text that an objection may quote."""


class Kind(StrEnum):
    """The schema languages."""

    XSD = "xsd"
    JSON = "json-schema"


class Class(StrEnum):
    """The vulnerability classes of handoff payload schemas that rules protect against."""

    TRAVERSAL = "V1"  # a reference that leads elsewhere
    POISONING = "V2"  # a schema that accepts anything
    INJECTION = "V3"  # text that a model would read
    DRIFT = "V4"  # two schemas under one name
    EXHAUSTION = "V5"  # a schema that costs without bound
    BYPASS = "V6"  # no schema at all


@dataclass(frozen=True, slots=True)
class Reference:
    """The place of a schema: ``schemas/handoff-payloads/SLUG.vN.ENDING``."""

    slug: str
    version: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as it was read.

    Args:
        tree: a JSON value, or the root of an lxml tree without comments and processing instructions.
        reference: its place, when it has one; ids are then held against it.
    """

    kind: Kind
    tree: Any
    reference: Reference | None = None


@dataclass(frozen=True, slots=True)
class Objection:
    """One reason why a schema or a field is not admitted.

    Args:
        rule: name of the rule, stable.
        path: where in the schema: a JSON pointer, or element names from the root; empty for all of it.
        detail: what is wrong and what would work; quotes at most SHOWN characters of the schema.
    """

    rule: str
    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.path}: {self.detail}" if self.path else f"{self.rule}: {self.detail}"


def shown(text: object) -> str:
    """Foreign text for a message: quoted, escaped to ASCII, at most SHOWN characters."""
    return shortened(ascii(text), SHOWN, DOTS)
