"""JSON text as values, and the refusals of this face.

Owns which text is JSON here and how large it may be. Refuses to know payloads.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from agentserver.characters.printing import DOTS, shortened
from agentserver.hygiene.json.tree import LooseJsonError, escaped, loads
from agentserver.payload.corrections import FAULTS, LENGTH

BYTES: Final = 1 << 20
"""Most bytes of a JSON text."""
DEPTH: Final = 64
"""Most objects and arrays inside one another."""

JsonValue: TypeAlias = "bool | int | float | Decimal | str | list[Any] | dict[str, Any] | None"


@dataclass(frozen=True, slots=True)
class JsonFault:
    """One thing to correct.

    Args:
        pointer: the place as a JSON pointer (RFC 6901) of names that the schema knows; empty for the whole value.
        rule: what must hold there, in the words of :mod:`agentserver.payload.corrections`.
    """

    pointer: str
    rule: str


@dataclass(frozen=True, slots=True)
class JsonRefusal:
    """The reasons why there is no JSON, or no payload: 1 to FAULTS of them. Quotes nothing of a value."""

    faults: tuple[JsonFault, ...]

    def __str__(self) -> str:
        """Every fault on a line of its own."""
        return "\n".join(f"{each.pointer or '(value)'}: {each.rule}" for each in self.faults)


def refusal(*faults: JsonFault) -> JsonRefusal:
    """The refusal that holds these faults, as many of them and as much of their words as it may hold."""
    return JsonRefusal(
        tuple(
            JsonFault(shortened(each.pointer, LENGTH, DOTS), shortened(each.rule, LENGTH, DOTS))
            for each in faults[:FAULTS]
        )
    )


def below(pointer: str, step: object) -> str:
    """The pointer to a member or an item."""
    return f"{pointer}/{escaped(step)}"


def read(text: str | bytes, *, most: int = BYTES) -> JsonValue | JsonRefusal:
    """The value of a JSON text, whose numbers with a point or an exponent are exact (``Decimal``).

    Args:
        text: UTF-8 where it is bytes.
        most: bytes beyond which it is not read.

    Refused are texts above the bounds, a member twice in one object, NaN and Infinity, an integer of more digits than
    CPython reads (4300), and what is no JSON at all.
    """
    try:
        data = text.encode() if isinstance(text, str) else text
        if len(data) > most:
            return refusal(JsonFault("", f"must have at most {most} bytes"))
        value = loads(data.decode(), Decimal)
    except (ValueError, ArithmeticError) as error:
        rule = str(error) if isinstance(error, LooseJsonError) else "must be JSON text in UTF-8"
        return refusal(JsonFault("", rule))
    if _deep(value):
        return refusal(JsonFault("", f"must nest at most {DEPTH} objects and arrays"))
    return value  # type: ignore[no-any-return]


def _deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH + 1):
        level = [each for each in level if isinstance(each, (dict, list))]
        if not level:
            return False
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return True
