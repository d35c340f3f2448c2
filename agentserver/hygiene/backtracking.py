"""What an expression may cost a matcher that tries alternatives one after the other.

Owns the bounds on nesting and repetition. Refuses to know what is matched. Matchers of that kind are Python's
``re``, behind JSON Schema validators and xmlschema; libxml2 gives up by itself after a second.
"""

from __future__ import annotations

from typing import Any, Final

from agentserver.hygiene.atoms import (
    BRANCH,
    REPEATS,
    SUBPATTERN,
    UNBOUNDED,
    characters,
    children,
    consumes,
    empty,
    known,
    reachable,
    structural,
    width,
)
from agentserver.hygiene.charset import Spans, meet, union

NESTING: Final = 16
"""Groups and repetitions inside one another."""
REPEATED: Final = 10_000
"""Product of the finite repetitions around one atom."""

_MANY = 8


def costly(tree: Any, depth: int = 0, times: int = 1) -> str:
    """Why matching may cost without bound; empty when it does not."""
    if depth > NESTING:
        return f"must not nest more than {NESTING} deep"
    for op, value in tree:
        if not known(op, value):
            return "must not use look-around, back references, category escapes or inline flags"
        inner = times
        if op in REPEATS:
            finite = 1 if value[1] is UNBOUNDED else int(value[1])
            inner = times * max(int(value[0]), finite, 1)
            reason = _excessive(inner, value)
            if reason:
                return reason
        for child in children(op, value):
            reason = costly(child, depth + 1, inner)
            if reason:
                return reason
    return ""


def _excessive(times: int, repeat: Any) -> str:
    if times > REPEATED:
        return f"must not repeat more than {REPEATED} times"
    if _open(repeat) and not _separated(repeat[2]):
        return (
            "must not repeat what varies in length without a separator: (a+)+ takes for ever on some values"
        )
    return ""


def _open(repeat: Any) -> bool:
    return bool(repeat[1] is UNBOUNDED or repeat[1] > _MANY)


def _separated(body: Any) -> bool:
    """Whether each turn of a repetition can be read in one way only.

    True when its body has one length; or when one part of it varies, the rest are single characters, and one
    of those cannot occur in the part that varies.
    """
    flat = _flattened(body)
    varying = [node for node in flat if not _fixed(*node)]
    if not varying:
        return True
    if any(structural(op) for op, value in flat if (op, value) != varying[0]):
        return False
    inside = union(span for found in reachable(varying) for span in found)
    return any(not meet(characters(op, value), inside) for op, value in flat if consumes(op))


def _flattened(body: Any) -> list[Any]:
    """The body's parts, with groups around them taken off."""
    parts: list[Any] = []
    for op, value in body:
        if op is SUBPATTERN:
            parts.extend(_flattened(value[3]))
        elif not empty(op):
            parts.append((op, value))
    return parts


def _fixed(op: Any, value: Any) -> bool:
    if op in REPEATS:
        return bool(value[0] == value[1]) and all(_fixed(*node) for node in _flattened(value[2]))
    if op is BRANCH:
        return _distinct([_flattened(branch) for branch in value[1]])
    return True


def _distinct(branches: list[list[Any]]) -> bool:
    """Whether alternatives have one length and begin differently: no text can be read as two of them."""
    seen: Spans = ()
    for branch in branches:
        if not branch or not consumes(branch[0][0]) or not all(_fixed(*node) for node in branch):
            return False
        first = characters(*branch[0])
        if meet(first, seen):
            return False
        seen = union((*seen, *first))
    return len({width(branch) for branch in branches}) == 1
