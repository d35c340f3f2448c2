"""The nodes of CPython's own parse tree of an expression, and the characters that each of them admits.

Owns the reading of that private tree, whose shape the tests pin. Refuses to know XSD and JSON Schema.
"""

from __future__ import annotations

import re._constants as sre  # type: ignore[import-not-found] # no public parser
from typing import TYPE_CHECKING, Any, Final

from agentserver.hygiene.charset import ALL, LAST, Spans, complement, union

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

UNBOUNDED: Final = sre.MAXREPEAT
REPEATS: Final = frozenset({sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT})
SUBPATTERN: Final = sre.SUBPATTERN
BRANCH: Final = sre.BRANCH
LITERAL: Final = sre.LITERAL

_DIGITS: Final[Spans] = ((0x30, 0x39), (0x660, 0x2FFF), (0x3001, LAST))
"""Holds all that ``\\d`` means, the digits of every script, and no white space that a sample would show."""


def _class(items: Any) -> Spans:
    negated = bool(items) and items[0][0] is sre.NEGATE
    ranges: list[tuple[int, int]] = []
    for op, value in items[1:] if negated else items:
        if op is sre.LITERAL:
            ranges.append((value, value))
        elif op is sre.RANGE:
            ranges.append((value[0], value[1]))
        elif value is sre.CATEGORY_DIGIT and not negated:
            ranges.extend(_DIGITS)
        else:  # a category reaches beyond ASCII, and its complement may as well
            return ALL
    return complement(union(ranges)) if negated else union(ranges)


_CHARACTERS: Final[Mapping[Any, Callable[[Any], Spans]]] = {
    sre.LITERAL: lambda value: ((value, value),),
    sre.NOT_LITERAL: lambda value: complement(((value, value),)),
    sre.IN: _class,
    sre.ANY: lambda _: ALL,
}


def consumes(op: Any) -> bool:
    """True when a node is an atom: it takes exactly one character."""
    return op in _CHARACTERS


def empty(op: Any) -> bool:
    """True when a node takes no character. A look-ahead can only narrow what follows."""
    return op in (sre.AT, sre.ASSERT, sre.ASSERT_NOT)


def known(op: Any, value: Any) -> bool:
    """True when the proofs and the cost rules know the meaning of a node: no boundaries, look-around and flags."""
    if op is sre.AT:
        return value in (sre.AT_BEGINNING, sre.AT_END)
    if op is sre.SUBPATTERN:
        return not (value[1] or value[2])
    return structural(op) or consumes(op) or _no_newline(op, value)


def _no_newline(op: Any, value: Any) -> bool:
    """The look-ahead by which elementpath keeps ``$`` from admitting a trailing newline."""
    return op is sre.ASSERT_NOT and list(value[1]) == [(sre.LITERAL, 10), (sre.AT, sre.AT_END_STRING)]


def structural(op: Any) -> bool:
    """True when a node holds other nodes."""
    return op in REPEATS or op in (sre.SUBPATTERN, sre.BRANCH)


def characters(op: Any, value: Any) -> Spans:
    """The characters that an atom admits; all of them for a node that is not known."""
    return _CHARACTERS.get(op, lambda _: ALL)(value)


def children(op: Any, value: Any) -> tuple[Any, ...]:
    """The sequences below a node that can be matched; () for an atom."""
    if op is sre.SUBPATTERN:
        return (value[3],)
    if op in REPEATS:
        return (value[2],) if value[1] else ()
    return tuple(value[1]) if op is sre.BRANCH else ()


def reachable(tree: Any) -> Iterator[Spans]:
    """The character set of each atom."""
    for op, value in tree:
        if structural(op):
            for child in children(op, value):
                yield from reachable(child)
        elif not empty(op):
            yield characters(op, value)


def width(tree: Any) -> int | None:
    """Most characters that a sequence can match; None when there is no bound."""
    total = 0
    for op, value in tree:
        wide = _node_width(op, value)
        if wide is None:
            return None
        total += wide
    return total


def _node_width(op: Any, value: Any) -> int | None:
    if empty(op):
        return 0
    if not structural(op):
        return 1 if consumes(op) else None
    widths = [width(child) for child in children(op, value)] or [0]
    known_widths = [wide for wide in widths if wide is not None]
    if len(known_widths) < len(widths):
        return None
    widest = max(known_widths)
    if op not in REPEATS or widest == 0:
        return widest
    return None if value[1] is UNBOUNDED else widest * int(value[1])
