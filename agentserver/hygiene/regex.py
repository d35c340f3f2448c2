"""Regular expressions of XSD and of Python as trees, and the sets of characters that their parts admit.

Owns the portable profile, the characters and lengths of the nodes of a tree, and the algebra of character sets. Refuses
to judge an expression: :mod:`agentserver.hygiene.pattern` does. Trees are :mod:`agentserver.hygiene.syntax`'s.

The profile is what libxml2 and xmlschema read alike: they differ on the category escapes, and ``^`` and ``$`` are plain
characters to XSD but anchors to most authors.
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
    """Text that is no regular expression of its language, or one beyond the bounds."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was read.

    Args:
        text: as its author wrote it.
        python: the same for Python's ``re``.
        tree: of ``python``.
    """

    text: str
    python: str
    tree: Tree


def find_unportable(text: str) -> str:
    """The part of an XSD expression that engines read differently, with what would work; empty when there is none."""
    for atom in split_atoms(text):
        if atom in _UNPORTABLE:
            return f"must not use {atom}: {_UNPORTABLE[atom]}"
    return ""


def split_atoms(text: str) -> Iterator[str]:
    """Atoms outside character classes, and every escape."""
    depth = 0
    for found in _ATOMS.finditer(text):
        atom = found.group()
        depth += (atom == "[") - (atom == "]")
        if depth == 0 or atom[0] == "\\":
            yield atom


def xsd(text: str) -> Expression:
    """Read an expression of XSD 1.0. Raises PatternError."""
    plain = translate(text)
    if plain is not None:
        return python(text, plain)
    from elementpath.regex import RegexError, translate_pattern  # slow to import, and most patterns are plain

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
"""A set of characters: disjoint ranges of code points in order, both ends included."""

LAST: Final = 0x10FFFF
ALL: Final[Spans] = ((0, LAST),)


def spans(characters: Iterable[str]) -> Spans:
    """The set of these characters."""
    return union((ord(char), ord(char)) for char in characters)


def union(ranges: Iterable[tuple[int, int]]) -> Spans:
    """The characters of all the ranges."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(of: Spans) -> Spans:
    """Every character that is not in the set."""
    gaps, start = [], 0
    for low, high in of:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        gaps.append((start, LAST))
    return tuple(gaps)


def meet(left: Spans, right: Spans) -> Spans:
    """The characters in both sets."""
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
    """True when a character is in both sets; quick for a small one."""
    few, many = sorted((left, right), key=len)
    for low, high in few:
        at = bisect_right(many, (high, LAST))
        if at and many[at - 1][1] >= low:
            return True
    return False


def holds(of: Spans, code: int) -> bool:
    """True when the set has the character of this code point."""
    return any(low <= code <= high for low, high in of)


# --- nodes of a tree -------------------------------------------------------------------------------------------------

REPEATS: Final = frozenset({Op.GREEDY, Op.LAZY, Op.HELD})

_DIGITS: Final[Spans] = ((0x30, 0x39), (0x660, 0x2FFF), (0x3001, LAST))
"""Holds all that ``\\d`` means, the digits of every script, and no white space that a sample would show."""


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
        else:  # a category reaches beyond ASCII, and its complement may as well
            return ALL
    return complement(union(ranges)) if negated else union(ranges)


_CHARACTERS: Final[Mapping[Any, Callable[[Any], Spans]]] = {
    Op.LITERAL: lambda value: ((value, value),),
    Op.NOT_LITERAL: lambda value: complement(((value, value),)),
    Op.IN: _class,
    Op.ANY: lambda _: ALL,
}


def consumes(op: Any) -> bool:
    """True when a node is an atom: it takes exactly one character."""
    return op in _CHARACTERS


def empty(op: Any) -> bool:
    """True when a node takes no character."""
    return op in (Op.AT, Op.AT_END)


def is_known(op: Any, value: Any) -> bool:
    """True when the proofs and the cost rules know the meaning of a node."""
    if op is Op.AT:
        return value in ("^", "$")
    return op is not Op.OTHER


def structural(op: Any) -> bool:
    """True when a node holds other nodes."""
    return op in REPEATS or op in (Op.GROUP, Op.BRANCH)


def characters(op: Any, value: Any) -> Spans:
    """The characters that an atom admits; all of them for a node that is not known."""
    return _CHARACTERS.get(op, lambda _: ALL)(value)


def children(op: Any, value: Any) -> tuple[Any, ...]:
    """The sequences below a node that can be matched; () for an atom."""
    if op is Op.GROUP:
        return (value,)
    if op in REPEATS:
        return (value[2],) if value[1] else ()
    return tuple(value) if op is Op.BRANCH else ()


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
    return None if value[1] == UNBOUNDED else widest * int(value[1])


def letters(expression: Expression) -> frozenset[str]:
    """The ASCII letters, lower-case, that the expression can admit."""
    found: set[str] = set()
    for admitted in reachable(expression.tree):
        found.update(chr(code).lower() for code in _ASCII_LETTERS if holds(admitted, code))
    return frozenset(found)


def vocabulary(expression: Expression) -> frozenset[str]:
    """The words of two or more letters that the expression itself spells out, lower-case."""
    return frozenset(word.lower() for text in _literals(expression.tree) for word in _WORD.findall(text))


_ASCII_LETTERS = (*range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1))
_WORD = re.compile("[A-Za-z]{2,}")


def _literals(tree: Any) -> Iterator[str]:
    """The runs of literal characters, in every branch."""
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
