"""Records that the principal's words describe: by several fields together, or as the extreme of an output.

*The stand-up of tomorrow* is the only record with that name and that day, *the smallest of the open orders* the one
with the least number among those with that state. No field has a meaning here: a superlative of size is compared in
every field with a number, one of time in every field with a day, and all of them must agree, also one that some records
lack: else a record without it would leave the decision to another field.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.labels import strip_indices
from agentserver.provenance.evidence.lexicon import fold_word
from agentserver.provenance.evidence.readings import list_number_values, read_dated
from agentserver.provenance.request.languages import WORD_LISTS, split_phrases

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from agentserver.provenance.evidence.labels import Leaf
    from agentserver.provenance.evidence.readings import MomentValue
    from agentserver.provenance.request.trusted_words import TrustedWords

RECORDS: Final = 100
"""Maximum records of an output among which one is described."""
LONGEST: Final = 40
"""Maximum characters of a number or a moment that is compared."""
PAIR: Final = 2
"""Minimum records and minimum conditions, since one record is no choice and one condition is its name."""

_EXTREMES: Final = {
    (kind, end): split_phrases(WORD_LISTS["extremes"][f"{kind} {end}"])
    for kind in ("size", "time")
    for end in ("least", "most")
}


def find_described_items(
    request: TrustedWords,
    items: Mapping[str, Sequence[tuple[Leaf, str]]],
    is_named: Callable[[Leaf, str], bool],
    says_day: Callable[[MomentValue], bool],
    *,
    whole: bool,
) -> set[str]:
    """Find the one record that the words describe; empty if they describe none or several.

    Args:
        request: the principal's words.
        items: the fields of each record.
        is_named: whether the words name a field as a whole.
        says_day: whether the words say the day of a moment.
        whole: whether the output lists all that there is, so that its extreme is the extreme.
    """
    if not PAIR <= len(items) <= RECORDS:
        return set()
    conditions = _find_conditions(items, is_named, says_day)
    rest = set(items).intersection(*conditions)
    if len(rest) == 1:
        return rest if len(conditions) >= PAIR else set()
    return find_extremes(request, {item: items[item] for item in items if item in rest}) if whole else set()


def _find_conditions(
    items: Mapping[str, Sequence[tuple[Leaf, str]]],
    is_named: Callable[[Leaf, str], bool],
    says_day: Callable[[MomentValue], bool],
) -> list[set[str]]:
    """Find what the words say of some records and not of all: for each value or day the records that have it."""
    held: dict[tuple[str, str], set[str]] = {}
    for item, fields in items.items():
        for leaf, body in fields:
            field = strip_indices(leaf.path)
            moment = read_dated(leaf.value) if len(body) <= LONGEST else None
            if moment is not None and says_day(moment):
                held.setdefault((field, f"{moment.day}"), set()).add(item)
            elif is_named(leaf, body):
                held.setdefault((field, fold(body)), set()).add(item)
    return [group for group in held.values() if len(group) < len(items)]


def find_extremes(request: TrustedWords, items: Mapping[str, Sequence[tuple[Leaf, str]]]) -> set[str]:
    """Find the record that is the extreme in every field that the superlative of the words compares.

    With a number right before it, such as *the three largest*, as many records are.
    """
    given = [
        (key, word)
        for key, words in _EXTREMES.items()
        for word in words
        if request.mentions(word, any_case=True)
    ]
    counts = {request.read_once(word, _read_count) for _, word in given}
    keys = {key for key, _ in given}
    if len(keys) != 1 or len(counts) != 1 or not PAIR <= len(items) <= RECORDS:
        return set()
    [(kind, end)], [count] = keys, counts
    fields = _compare_fields(items, _read_size if kind == "size" else _read_day)
    found: list[set[str]] = []
    whole: list[set[str]] = []
    for values in fields.values():
        if len({one for each in values.values() for one in each}) > 1:
            found.append(_find_first(values, count, most=end == "most"))
            whole += found[-1:] * (len(values) == len(items))
    first = whole[0] if whole else set()
    return first if len(first) == count and all(group == first for group in found) else set()


def _compare_fields(
    items: Mapping[str, Sequence[tuple[Leaf, str]]], read: Callable[[Leaf, str], Decimal | None]
) -> Mapping[str, Mapping[str, Sequence[Decimal]]]:
    """Read the values of each field by record, but for those of a list within a record."""
    fields: dict[str, dict[str, list[Decimal]]] = {}
    for item, leaves in items.items():
        for leaf, body in leaves:
            inner = "[" in leaf.path[len(item) :]
            if not inner and (value := read(leaf, body)) is not None:
                fields.setdefault(strip_indices(leaf.path), {}).setdefault(item, []).append(value)
    return fields


def _find_first(values: Mapping[str, Sequence[Decimal]], count: int, *, most: bool) -> set[str]:
    """Find the ``count`` records with the greatest or the least values, and those with the same value as the last."""
    sign = -1 if most else 1
    best = {item: min(sign * one for one in each) for item, each in values.items()}
    last = sorted(best.values())[:count][-1]
    return {item for item, value in best.items() if value <= last}


def _read_count(request: TrustedWords, superlative: str) -> int:
    """Read the number right before a superlative in the words, in digits or as a word; 1 without it."""
    pattern = re.compile(rf"(\w{{1,40}})\s+{re.escape(superlative.casefold())}(?!\w)")
    found = (match[1] for said in request.audible for match in pattern.finditer(said.casefold()))
    return max(map(_read_number, found), default=1)


def _read_number(word: str) -> int:
    """Read a word that is a number in digits or in a language; 1 for others."""
    numbers = {int(word)} if word.isdecimal() else {*map(int, list_number_values(fold_word(word)).values())}
    return max(1, *numbers) if len(numbers) == 1 else 1


def _read_size(leaf: Leaf, body: str) -> Decimal | None:
    if isinstance(leaf.value, bool) or len(body) > LONGEST:
        return None
    try:
        value = Decimal(body)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None


def _read_day(leaf: Leaf, body: str) -> Decimal | None:
    """Read a moment that begins with a year as a number that grows with time."""
    moment = read_dated(leaf.value) if len(body) <= LONGEST else None
    if moment is None or moment.day is None:
        return None
    minutes = 0 if moment.clock is None else moment.clock.minutes
    return Decimal(moment.day.toordinal() * 1440 + minutes)
