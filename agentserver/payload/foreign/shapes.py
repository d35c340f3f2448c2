"""JSON values of a foreign schema as those of the class that it became, and back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentserver.foreign_json.reading import RefusedJson, parse_json
from agentserver.payload.json.values import LIMITS, JsonFault, join_pointer, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a foreign object.

    Args:
        name: in the class's JSON face.
        shape: of its value.
        required: whether the foreign schema asks for it.
        nullable: whether it may be null there.
    """

    name: str
    shape: Shape
    required: bool = False
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of one position: an object, a list, JSON as text, or, with none of them, the value itself.

    Args:
        members: by their foreign names.
        items: of a list.
        text: whether the class holds the JSON text of the value.
        boxed: whether that text is the one member of an object, ``json``, as it is at the root.
    """

    members: Mapping[str, Member] | None = None
    items: Shape | None = None
    text: bool = False
    boxed: bool = False


SCALAR = Shape()
AS_TEXT = Shape(text=True)
BOX = "json"
"""The member that holds a whole value as text."""
BOXED = Shape(text=True, boxed=True)


@dataclass(slots=True)
class _ForeignWriter:
    faults: list[JsonFault] = field(default_factory=list)

    def value(self, shape: Shape, value: Any, pointer: str) -> Any:
        if shape.text:
            value = value[BOX] if shape.boxed else value
            found = parse_json(value, LIMITS)  # with binary numbers, which every writer of JSON has
            if isinstance(found, RefusedJson):
                self.faults.append(JsonFault(pointer, found.rule))
                return None
            return found
        if shape.items is not None:
            return [self.value(shape.items, each, join_pointer(pointer, at)) for at, each in enumerate(value)]
        if shape.members is None:
            return value
        found = {}
        for foreign, member in shape.members.items():
            held = value.get(member.name)
            if held is not None and (held != [] or member.required):
                found[foreign] = self.value(member.shape, held, join_pointer(pointer, member.name))
            elif held is None and member.required and member.nullable:
                found[foreign] = None
        return found


def to_foreign(shape: Shape, value: Any) -> Any:
    """Return the foreign value of one of the class's JSON face; a refusal where a text is no JSON.

    A list that is empty and not asked for is left out, as is null.
    """
    way = _ForeignWriter()
    found = way.value(shape, value, "")
    return refusal(*way.faults) if way.faults else found


def from_foreign(shape: Shape, value: Any) -> Any:
    """Return the value of the class's JSON face for a foreign one.

    Null is absence. Members that the foreign schema does not name are left out. A value of another form stays as it
    is: the JSON face refuses it.
    """
    if shape.text:
        written = json.dumps(value, ensure_ascii=False)
        return {BOX: written} if shape.boxed else written
    if shape.items is not None and isinstance(value, list):
        return [from_foreign(shape.items, each) for each in value]
    if shape.members is not None and isinstance(value, dict):
        return {
            member.name: from_foreign(member.shape, value[foreign])
            for foreign, member in shape.members.items()
            if value.get(foreign) is not None or (foreign in value and member.required and member.shape.text)
        }
    return value
