"""JSON text as values, and the refusals of this face."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from agentserver.characters.printing import DOTS, truncate
from agentserver.foreign_json.reading import JsonLimits, JsonReader, RefusedJson, make_json_reader
from agentserver.hygiene.json.tree import escape_token
from agentserver.payload.corrections import FAULTS, LENGTH

LIMITS: Final = JsonLimits()
"""The limits of a JSON text where its reader names no others."""

JsonValue: TypeAlias = "bool | int | float | Decimal | str | list[Any] | dict[str, Any] | None"


@dataclass(frozen=True, slots=True)
class JsonFault:
    """One thing to correct.

    Args:
        pointer: the place as a JSON pointer (RFC 6901) of names that the schema knows; empty for the whole value.
        rule: what must hold there, as :mod:`agentserver.payload.corrections` words it.
    """

    pointer: str
    rule: str


@dataclass(frozen=True, slots=True)
class JsonRefusal:
    """Refusal with the reasons why there is no JSON or no payload, 1 to FAULTS; it never quotes a value."""

    faults: tuple[JsonFault, ...]

    def __str__(self) -> str:
        """Return every fault on a line of its own."""
        return "\n".join(f"{each.pointer or '(value)'}: {each.rule}" for each in self.faults)


def refusal(*faults: JsonFault) -> JsonRefusal:
    """Return the refusal that holds these faults, as many of them and as much of their words as it may hold."""
    return JsonRefusal(
        tuple(
            JsonFault(truncate(each.pointer, LENGTH, DOTS), truncate(each.rule, LENGTH, DOTS))
            for each in faults[:FAULTS]
        )
    )


def join_pointer(pointer: str, step: object) -> str:
    """Return the pointer to a member or an item."""
    return f"{pointer}/{escape_token(step)}"


def read_json(text: str | bytes, limits: JsonLimits = LIMITS) -> JsonValue | JsonRefusal:
    """Read a JSON text as a value whose numbers with a point or an exponent are exact (``Decimal``)."""
    return read_exactly(make_json_reader(limits, Decimal), text)


def read_exactly(reader: JsonReader, text: str | bytes) -> JsonValue | JsonRefusal:
    """Read a JSON text with a reader that was made for many."""
    found = reader.parse(text)
    return refusal(JsonFault("", found.rule)) if isinstance(found, RefusedJson) else found
