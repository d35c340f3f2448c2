"""Proves properties of regular expressions: admitted characters and lengths, and the cost of matching.

A pattern admits a character only if one of its atoms does, so a walk over the atoms is enough, linear in the pattern.
The walk overestimates: unreachable branches and unknown parts count as reachable.

The cost assumes a backtracking matcher: Python's ``re``, behind JSON Schema validators and xmlschema; libxml2
gives up by itself after a second. Backtracking explodes where one text can be matched in many ways. So a repeated
part must match in one way only, and at most two parts of variable length may compete for the same characters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from agentserver.hygiene import regex
from agentserver.hygiene.regex import (
    LONGEST,
    REPEATS,
    Expression,
    PatternError,
    Spans,
    characters,
    children,
    complement,
    consumes,
    empty,
    holds,
    is_known,
    meet,
    overlap,
    reachable,
    structural,
    union,
    width,
)
from agentserver.hygiene.syntax import UNBOUNDED, Op

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NESTING: Final = 16
"""Nested groups and repetitions."""
REPEATED: Final = 10_000
"""Product of the finite repetitions around one atom."""
VARYING: Final = 64
"""Parts of variable length."""
ALTERNATIVES: Final = 128
"""Alternatives in one place."""
AMBIGUOUS: Final = 4
"""Parts that can match in two ways: each of them doubles the work."""
COMPETING: Final = 2
"""Variable parts that may match the same characters."""


_PREFERRED = " \n\t\u00a0\u3000<&\"'aA0-_."


@dataclass(frozen=True, slots=True)
class AdmittedCharacter:
    """A character outside the allowed set that a pattern admits, with a matching text that contains it."""

    character: str
    sample: str


def read_xsd_pattern(text: str) -> Expression:
    """Read a pattern facet. Raises PatternError with the reason and a correction."""
    _check_length(text)
    reason = regex.find_unportable(text)
    if reason:
        raise PatternError(reason)
    return _cheap(regex.xsd(text))


def read_json_pattern(text: str) -> Expression:
    """Read the ``pattern`` of a JSON Schema. Raises PatternError.

    It must match whole values: ``^`` first, ``$`` last, neither elsewhere, and no top-level alternation between them.
    """
    _check_length(text)
    anchors = [atom for atom in regex.split_atoms(text) if atom in "^$"]
    if anchors != ["^", "$"] or not (text.startswith("^") and text.endswith("$")):
        raise PatternError("must match the whole value: one ^ at the start, one $ at the end")
    expression = _cheap(regex.python(text, text))
    if any(op is Op.BRANCH for op, _ in expression.tree):
        raise PatternError("must put alternatives in a group: ^(a|b)$, for ^a|b$ is not anchored")
    return expression


def _check_length(text: str) -> None:
    if not text or len(text) > LONGEST:
        raise PatternError(f"must hold 1 to {LONGEST} characters")


def _cheap(expression: Expression) -> Expression:
    reason = find_cost(expression.tree)
    if reason:
        raise PatternError(reason)
    return expression


def find_outside(
    expression: Expression, allowed: Spans, least: int = 0, most: int | None = None
) -> AdmittedCharacter | None:
    """Find a character outside ``allowed`` that the expression admits; None proves that there is no such character.

    The sample text respects the lengths if such a sample is found.
    """
    shortest: tuple[str, str] | None = None
    for stretch in (3, 1, 0, 2, *range(4, min(least, 64) + 1)):
        _, bad = _spell_sequence(expression.tree, allowed, stretch)
        if bad is None:
            return None
        if least <= len(bad[1]) and (most is None or len(bad[1]) <= most):
            return AdmittedCharacter(*bad)
        if shortest is None or len(bad[1]) < len(shortest[1]):
            shortest = bad
    assert shortest is not None
    return AdmittedCharacter(*shortest)


def longest_match(expression: Expression) -> int | None:
    """Compute the length of the longest match; None if unbounded."""
    return width(expression.tree)


_Spelling: TypeAlias = "tuple[str, tuple[str, str] | None]"
"""A matching text and, if there is one, the bad character with a matching text that contains it."""


def _spell_sequence(tree: Any, allowed: Spans, stretch: int) -> _Spelling:
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
        return _spell_repeat(value, allowed, stretch)
    if op is Op.GROUP:
        return _spell_sequence(value, allowed, stretch)
    if op is Op.BRANCH:
        branches = [_spell_sequence(branch, allowed, stretch) for branch in value]
        return branches[0][0], next((bad for _, bad in branches if bad is not None), None)
    admitted = characters(op, value)
    bad = _pick(meet(admitted, complement(allowed)))
    return _pick(meet(admitted, allowed)) or bad, (bad, bad) if bad else None


def _spell_repeat(value: Any, allowed: Spans, stretch: int) -> _Spelling:
    low, high, body = value
    if not high:
        return "", None
    plain, bad = _spell_sequence(body, allowed, stretch)
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


# --- the cost of matching
# --------------------------------------------------------------------------------------------


def find_cost(tree: Any) -> str:
    """Find the reason why matching may be too expensive; empty if it is not."""
    return _structure(tree, 0, 1) or _competition(tree)


def _structure(tree: Any, depth: int, times: int) -> str:
    if depth > NESTING:
        return f"must not nest more than {NESTING} deep"
    for op, value in tree:
        if not is_known(op, value):
            return "must not use look-around, back references, category escapes or inline flags"
        if op is Op.BRANCH and len(value) > ALTERNATIVES:
            return f"must not have more than {ALTERNATIVES} alternatives in one place; use an enumeration"
        inner = times * _times(value) if op in REPEATS else times
        reason = next(
            filter(None, (_structure(child, depth + 1, inner) for child in children(op, value))), ""
        )
        if not reason and op in REPEATS:
            reason = _excessive(value, inner)
        if reason:
            return reason
    return ""


def _times(repeat: Any) -> int:
    return max(int(repeat[0]), 1 if repeat[1] == UNBOUNDED else int(repeat[1]), 1)


def _excessive(repeat: Any, times: int) -> str:
    if times > REPEATED:
        return f"must not repeat more than {REPEATED} times"
    if repeat[1] > 1 and not _clear(repeat[2]):
        return "must not repeat what can be read in two ways: (a+)+ and (a|a)+ take exponential time on some values"
    return ""


def _clear(body: Any) -> bool:
    """Check whether each turn of a repetition can match in one way only.

    True if nothing in its body varies; or if one part varies, the others are single characters, and one of those
    cannot occur in the varying part. Alternatives must exclude each other.
    """
    flat = _flatten(body)
    if not _plain(flat):
        return False
    varying = [node for node in flat if _varies(*node)]
    if not varying:
        return True
    rest = [node for node in flat if node is not varying[0]]
    if any(structural(op) for op, _ in rest):
        return False
    inside = _spans(varying)
    return any(not overlap(characters(*node), inside) for node in rest)


def _plain(flat: Sequence[Any]) -> bool:
    """Check that at most one part varies, recursively, and that no part is ambiguous."""
    if any(_ambiguous(*node) for node in flat):
        return False
    varying = [node for node in flat if _varies(*node)]
    return len(varying) < 2 and all(  # noqa: PLR2004 - one
        _plain(_flatten(child)) for node in varying for child in children(*node)
    )


def _flatten(body: Any) -> list[Any]:
    """Flatten the body's parts by removing groups around them."""
    parts: list[Any] = []
    for op, value in body:
        if op is Op.GROUP:
            parts.extend(_flatten(value))
        elif not empty(op):
            parts.append((op, value))
    return parts


def _spans(nodes: Any) -> Spans:
    return union(span for found in reachable(nodes) for span in found)


def _ambiguous(op: Any, value: Any) -> bool:
    """Check whether a part can match in two ways at once.

    It has alternatives that do not exclude each other, or repeats something that may be empty.
    """
    return any(True for _ in _ambiguities(op, value))


def _ambiguities(op: Any, value: Any) -> Iterator[Any]:
    """Yield the ambiguous parts within a part."""
    if op is Op.BRANCH and not _exclusive([_flatten(branch) for branch in value]):
        yield op
    if op in REPEATS and value[0] != value[1] and _nullable(_flatten(value[2])):
        yield op
    for child in children(op, value):
        for node in _flatten(child):
            yield from _ambiguities(*node)


def _varies(op: Any, value: Any) -> bool:
    """Check whether a part has more than one length. Alternatives that exclude each other count separately."""
    if op in REPEATS and value[0] != value[1]:
        return True
    if op is Op.BRANCH and any(not branch for branch in value):
        return True
    return any(_varies(*node) for child in children(op, value) for node in _flatten(child))


def _exclusive(branches: Sequence[Sequence[Any]]) -> bool:
    """Check that no text begins with two of these alternatives. One of them may be empty."""
    return all(_differ(left, right) for at, left in enumerate(branches) for right in branches[at + 1 :])


def _differ(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Check whether two alternatives differ at a position that both have, with only single characters before it."""
    if not left or not right:
        return not (_nullable(left) and _nullable(right))
    for one, other in zip(left, right, strict=False):
        if not (consumes(one[0]) and consumes(other[0])):
            return False
        if not overlap(characters(*one), characters(*other)):
            return True
    return False


def _nullable(nodes: Sequence[Any]) -> bool:
    """Check whether a sequence of parts can match the empty text."""
    return all(
        not consumes(op)
        and (
            (op in REPEATS and value[0] == 0)
            or any(_nullable(_flatten(each)) for each in children(op, value))
        )
        for op, value in nodes
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an expression, in text order.

    Args:
        spans: the characters that it can match.
        varies: whether it has more than one length.
        within: the enclosing optional groups and choices, each with the number of the alternative.
    """

    spans: Spans
    varies: bool
    within: tuple[tuple[int, int], ...]


def _competition(tree: Any) -> str:
    if sum(1 for node in _flatten(tree) for _ in _ambiguities(*node)) > AMBIGUOUS:
        return f"must not have more than {AMBIGUOUS} parts that can be read in two ways"
    parts = list(_parts(tree, ()))
    varying = [at for at, part in enumerate(parts) if part.varies]
    if len(varying) > VARYING:
        return f"must not have more than {VARYING} parts that vary in length"
    chains: dict[int, int] = {}
    for at in varying:
        before = (chains[other] for other in chains if _compete(parts, other, at))
        chains[at] = 1 + max(before, default=0)
        if chains[at] > COMPETING:
            return (
                f"must not have more than {COMPETING} parts of varying length that take the same characters"
            )
    return ""


def _parts(tree: Any, within: tuple[tuple[int, int], ...]) -> Iterator[_Part]:
    for op, value in _flatten(tree):
        node = [(op, value)]
        if consumes(op):
            yield _Part(characters(op, value), varies=False, within=within)
        elif op in REPEATS and value[0] == value[1]:
            yield from _parts(value[2], within)
        elif op in REPEATS and any(_varies(*inner) for inner in _flatten(value[2])):
            yield from _parts(value[2], (*within, (id(value), 0)))
        elif op in REPEATS or _ambiguous(op, value):
            yield _Part(_spans(node), varies=True, within=within)
        else:
            for number, branch in enumerate(value):
                yield from _parts(branch, (*within, (id(value), number)))


def _compete(parts: Sequence[_Part], first: int, second: int) -> bool:
    """Check whether two parts can compete for characters: no mandatory part between them separates them."""
    left, right = parts[first], parts[second]
    if not overlap(left.spans, right.spans) or _exclude_each_other(left, right):
        return False
    around = {*left.within, *right.within}
    return all(
        part.varies
        or not around.issuperset(part.within)
        or (overlap(part.spans, left.spans) and overlap(part.spans, right.spans))
        for part in parts[first + 1 : second]
    )


def _exclude_each_other(left: _Part, right: _Part) -> bool:
    """Check whether two parts belong to different alternatives of one choice."""
    chosen = dict(left.within)
    return any(chosen.get(choice, number) != number for choice, number in right.within)
