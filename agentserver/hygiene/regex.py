"""Regular expressions of XSD and Python as trees, and the sets of characters that their parts admit.

Defines the portable profile: the syntax that libxml2 and xmlschema read alike. They differ on category escapes, and
``^`` and ``$`` are ordinary characters in XSD but anchors to most authors. Trees come from
:mod:`agentserver.hygiene.syntax`; :mod:`agentserver.hygiene.pattern` judges them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agentserver.hygiene.syntax import UNBOUNDED, Op, Tree, parse
from agentserver.hygiene.translating import translate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

LONGEST: Final = 1000
"""Characters of an expression."""

_CLASS = "name the characters in a class such as"
_UNPORTABLE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("\\w", "\\W", "\\s", "\\S"), f"{_CLASS} [A-Za-z0-9_]"),
    **dict.fromkeys(("\\i", "\\I", "\\c", "\\C"), f"{_CLASS} [A-Za-z_]"),
    "^": "a pattern always matches the whole value; write \\^ for the character",
    "$": "a pattern always matches the whole value; write [$] for the character",
}
_ATOMS = re.compile(r"\\.|\[|\]|\^|\$|[^\\\[\]^$]+", re.DOTALL)


class PatternError(ValueError):
    """Error for text that is not a regular expression of its language, or exceeds the limits."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression.

    Args:
        text: as its author wrote it.
        python: translated for Python's ``re``.
        tree: of ``python``.
    """

    text: str
    python: str
    tree: Tree


def find_unportable(text: str) -> str:
    """Find the part of an XSD expression that engines read differently, with a correction; empty if all is portable."""
    for atom in split_atoms(text):
        if atom in _UNPORTABLE:
            return f"must not use {atom}: {_UNPORTABLE[atom]}"
    return ""


def split_atoms(text: str) -> Iterator[str]:
    """Yield the atoms outside character classes, and every escape."""
    depth = 0
    for found in _ATOMS.finditer(text):
        atom = found.group()
        depth += (atom == "[") - (atom == "]")
        if depth == 0 or atom[0] == "\\":
            yield atom


def xsd(text: str) -> Expression:
    """Read an XSD 1.0 expression. Raises PatternError."""
    plain = translate(text)
    if plain is not None:
        return python(text, plain)
    from elementpath.regex import (  # slow to import, and most patterns are simple
        RegexError,
        translate_pattern,
    )

    try:
        return python(
            text, translate_pattern(text, back_references=False, lazy_quantifiers=False, anchors=False)
        )
    except (RegexError, PatternError):
        raise PatternError("is not a regular expression of XSD 1.0") from None


def python(text: str, translated: str) -> Expression:
    """Read an expression of Python's ``re``. Raises PatternError."""
    try:
        return Expression(text, translated, parse(translated))
    except (re.error, OverflowError, RecursionError):
        raise PatternError("is not a regular expression") from None


# --- sets of characters ----------------------------------------------------------------------------------------------

Spans: TypeAlias = "tuple[tuple[int, int], ...]"
"""A set of characters: sorted disjoint ranges of code points, inclusive."""

LAST: Final = 0x10FFFF
ALL: Final[Spans] = ((0, LAST),)


def spans(characters: Iterable[str]) -> Spans:
    """Make the set of these characters."""
    return union((ord(char), ord(char)) for char in characters)


def union(ranges: Iterable[tuple[int, int]]) -> Spans:
    """Merge ranges into a set."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(of: Spans) -> Spans:
    """Make the set of all other characters."""
    gaps, start = [], 0
    for low, high in of:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return tuple(gaps)


def meet(left: Spans, right: Spans) -> Spans:
    """Intersect two sets."""
    both: list[tuple[int, int]] = []
    one = other = 0
    while one < len(left) and other < len(right):
        low, high = max(left[one][0], right[other][0]), min(left[one][1], right[other][1])
        if low <= high:
            both.append((low, high))
        if left[one][1] < right[other][1]:
            one += 1
        else:
            other += 1
    return tuple(both)


def overlap(left: Spans, right: Spans) -> bool:
    """Check whether two sets share a character; fast for a small set."""
    few, many = sorted((left, right), key=len)
    for low, high in few:
        at = bisect_right(many, (high, LAST))
        if at and many[at - 1][1] >= low:
            return True
    return False


def holds(of: Spans, code: int) -> bool:
    """Check whether the set contains a code point."""
    return any(low <= code <= high for low, high in of)


# --- nodes of a tree -------------------------------------------------------------------------------------------------

REPEATS: Final = frozenset({Op.GREEDY, Op.LAZY, Op.HELD})

_DIGITS: Final[Spans] = ((0x30, 0x39), (0x660, 0x2FFF), (0x3001, LAST))
"""Every decimal digit of any script (``\\d``), and no white space that a sample would show."""


def _class(items: Any) -> Spans:
    negated = bool(items) and items[0][0] is Op.NEGATE
    ranges: list[tuple[int, int]] = []
    for op, value in items[1:] if negated else items:
        if op is Op.LITERAL:
            ranges.append((value, value))
        elif op is Op.RANGE:
            ranges.append((value[0], value[1]))
        elif value == "d" and not negated:
            ranges.extend(_DIGITS)
        else:  # a category extends beyond ASCII, and its complement may too
            return ALL
    return complement(union(ranges)) if negated else union(ranges)


_CHARACTERS: Final[Mapping[Any, Callable[[Any], Spans]]] = {
    Op.LITERAL: lambda value: ((value, value),),
    Op.NOT_LITERAL: lambda value: complement(((value, value),)),
    Op.IN: _class,
    Op.ANY: lambda _: ALL,
}


def consumes(op: Any) -> bool:
    """Check whether a node is an atom: it matches exactly one character."""
    return op in _CHARACTERS


def empty(op: Any) -> bool:
    """Check whether a node matches no character."""
    return op in (Op.AT, Op.AT_END)


def is_known(op: Any, value: Any) -> bool:
    """Check whether the proofs and cost rules know the meaning of a node."""
    if op is Op.AT:
        return value in ("^", "$")
    return op is not Op.OTHER


def structural(op: Any) -> bool:
    """Check whether a node contains other nodes."""
    return op in REPEATS or op in (Op.GROUP, Op.BRANCH)


def characters(op: Any, value: Any) -> Spans:
    """Compute the characters that an atom admits; all for an unknown node."""
    return _CHARACTERS.get(op, lambda _: ALL)(value)


def children(op: Any, value: Any) -> tuple[Any, ...]:
    """List the sequences below a node; () for an atom."""
    if op is Op.GROUP:
        return (value,)
    if op in REPEATS:
        return (value[2],) if value[1] else ()
    return tuple(value) if op is Op.BRANCH else ()


def reachable(tree: Any) -> Iterator[Spans]:
    """Yield the character set of each atom."""
    for op, value in tree:
        if structural(op):
            for child in children(op, value):
                yield from reachable(child)
        elif not empty(op):
            yield characters(op, value)


def width(tree: Any) -> int | None:
    """Compute the length of a sequence's longest match; None if unbounded."""
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
    return None if value[1] == UNBOUNDED else widest * int(value[1])


def letters(expression: Expression) -> frozenset[str]:
    """Collect the ASCII letters, in lower case, that the expression can admit."""
    found: set[str] = set()
    for admitted in reachable(expression.tree):
        found.update(chr(code).lower() for code in _ASCII_LETTERS if holds(admitted, code))
    return frozenset(found)


def vocabulary(expression: Expression) -> frozenset[str]:
    """Collect words of two or more letters that occur literally in the expression, in lower case."""
    return frozenset(word.lower() for text in _literals(expression.tree) for word in _WORD.findall(text))


_ASCII_LETTERS = (*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1))
_WORD = re.compile("[A-Za-z]{2,}")


def _literals(tree: Any) -> Iterator[str]:
    """Yield the runs of literal characters in every branch."""
    run: list[str] = []
    for op, value in tree:
        if op is Op.LITERAL:
            run.append(chr(value))
            continue
        yield "".join(run)
        run = []
        for child in children(op, value):
            yield from _literals(child)
    yield "".join(run)
