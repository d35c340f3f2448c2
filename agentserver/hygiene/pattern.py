"""Regular expressions as sets of characters: what a pattern can admit, how long, and at which cost.

Owns the reading of XSD and JSON Schema patterns and the proofs over them. Refuses to match anything: a
pattern admits a character only if one of its atoms does, so a walk over the atoms is enough, linear in the
pattern. The walk errs to "admits": branches that can never be taken and parts that it does not know count as
reachable.
"""

from __future__ import annotations

import re
import re._parser as sre_parser  # type: ignore[import-not-found] # no public parser; pinned by the tests
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agentserver.hygiene.atoms import (
    BRANCH,
    LITERAL,
    REPEATS,
    SUBPATTERN,
    characters,
    children,
    empty,
    reachable,
    width,
)
from agentserver.hygiene.backtracking import costly
from agentserver.hygiene.charset import Spans, complement, holds, meet

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST: Final = 1000
"""Characters of an expression."""

_PREFERRED = " \n\t\u00a0\u3000<&\"'aA0-_."
_UNPORTABLE = {
    **dict.fromkeys("wWsS", "name the characters in a class such as [A-Za-z0-9_]"),
    **dict.fromkeys("iIcC", "name the characters in a class such as [A-Za-z_]"),
}
_ATOMS = re.compile(r"\\.|\[|\]|\^|\$|[^\\\[\]^$]+", re.DOTALL)


class PatternError(ValueError):
    """Text that is no regular expression of its language, or one beyond the bounds."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A pattern that was read. ``tree`` is CPython's own parse tree."""

    text: str
    tree: Any


@dataclass(frozen=True, slots=True)
class Admitted:
    """A character outside the allowed set that a pattern admits, and a text that has it."""

    character: str
    sample: str


def xsd(text: str) -> Expression:
    """Read a pattern facet. Raises PatternError with the reason and what would work.

    Only what libxml2 and xmlschema read alike is taken: they differ on the category escapes, and ``^`` and
    ``$`` are plain characters to XSD but anchors to most authors.
    """
    from elementpath.regex import RegexError, translate_pattern  # slow to import

    _bounded(text)
    for atom in _unclassed(text):
        if atom in "^$":
            raise PatternError(
                f"must not use {atom}: a pattern matches the whole value; write [{atom}] or \\{atom}"
            )
        if atom[0] == "\\" and atom[1:] in _UNPORTABLE:
            raise PatternError(f"must not use {atom}: {_UNPORTABLE[atom[1:]]}")
    try:
        translated = translate_pattern(text, back_references=False, lazy_quantifiers=False, anchors=False)
        return _checked(text, str(translated))
    except RegexError:
        raise PatternError("is not a regular expression of XSD 1.0") from None


def json_schema(text: str) -> Expression:
    """Read the ``pattern`` of a JSON Schema. Raises PatternError.

    It must match whole values: ``^`` first, ``$`` last, neither elsewhere, no bare alternation between them.
    """
    _bounded(text)
    anchors = [atom for atom in _unclassed(text) if atom in "^$"]
    if anchors != ["^", "$"] or not (text.startswith("^") and text.endswith("$")):
        raise PatternError("must match the whole value: one ^ at the start, one $ at the end")
    expression = _checked(text, text)
    if any(op is BRANCH for op, _ in expression.tree):
        raise PatternError("must put alternatives in a group: ^(a|b)$, for ^a|b$ is not anchored")
    return expression


def _bounded(text: str) -> None:
    if not text or len(text) > LONGEST:
        raise PatternError(f"must hold 1 to {LONGEST} characters")


def _checked(text: str, translated: str) -> Expression:
    try:
        tree = sre_parser.parse(translated)
        reason = costly(tree)
    except (re.error, OverflowError, RecursionError):
        raise PatternError("is not a regular expression") from None
    if reason:
        raise PatternError(reason)
    return Expression(text, tree)


def _unclassed(text: str) -> Iterator[str]:
    """Atoms outside character classes, and every escape."""
    depth = 0
    for found in _ATOMS.finditer(text):
        atom = found.group()
        depth += (atom == "[") - (atom == "]")
        if depth == 0 or atom[0] == "\\":
            yield atom


def outside(
    expression: Expression, allowed: Spans, least: int = 0, most: int | None = None
) -> Admitted | None:
    """A character beyond ``allowed`` that the expression admits; None is a proof that there is none.

    The sample keeps to the lengths where one that does is found.
    """
    shortest: tuple[str, str] | None = None
    for stretch in (3, 1, 0, 2, *range(4, min(least, 64) + 1)):
        _, bad = _spelled(expression.tree, allowed, stretch)
        if bad is None:
            return None
        if least <= len(bad[1]) and (most is None or len(bad[1]) <= most):
            return Admitted(*bad)
        if shortest is None or len(bad[1]) < len(shortest[1]):
            shortest = bad
    assert shortest is not None
    return Admitted(*shortest)


def longest(expression: Expression) -> int | None:
    """Most characters that a match can have; None when there is no bound."""
    return width(expression.tree)


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


_Spelling: TypeAlias = "tuple[str, tuple[str, str] | None]"
"""A text that matches; and, where one exists, the bad character and a text that matches and holds it."""


def _spelled(tree: Any, allowed: Spans, stretch: int) -> _Spelling:
    parts = [_spell(op, value, allowed, stretch) for op, value in tree]
    plain = [part for part, _ in parts]
    for at, (_, bad) in enumerate(parts):
        if bad is not None:
            return "".join(plain), (bad[0], "".join((*plain[:at], bad[1], *plain[at + 1 :])))
    return "".join(plain), None


def _spell(op: Any, value: Any, allowed: Spans, stretch: int) -> _Spelling:
    if empty(op):
        return "", None
    if op in REPEATS:
        return _repeated(value, allowed, stretch)
    if op is SUBPATTERN:
        return _spelled(value[3], allowed, stretch)
    if op is BRANCH:
        branches = [_spelled(branch, allowed, stretch) for branch in value[1]]
        return branches[0][0], next((bad for _, bad in branches if bad is not None), None)
    admitted = characters(op, value)
    bad = _pick(meet(admitted, complement(allowed)))
    return _pick(meet(admitted, allowed)) or bad, (bad, bad) if bad else None


def _repeated(value: Any, allowed: Spans, stretch: int) -> _Spelling:
    low, high, body = value
    if not high:
        return "", None
    plain, bad = _spelled(body, allowed, stretch)
    if bad is None:
        return plain * low, None
    count = max(low, min(int(high), stretch), 1)
    before = count // 2
    return plain * low, (bad[0], plain * before + bad[1] + plain * (count - 1 - before))


def _pick(of: Spans) -> str:
    if not of:
        return ""
    for char in _PREFERRED:
        if holds(of, ord(char)):
            return char
    return chr(of[0][0])


def _literals(tree: Any) -> Iterator[str]:
    """The runs of literal characters, in every branch."""
    run: list[str] = []
    for op, value in tree:
        if op is LITERAL:
            run.append(chr(value))
            continue
        yield "".join(run)
        run = []
        for child in children(op, value):
            yield from _literals(child)
    yield "".join(run)
