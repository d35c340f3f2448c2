"""Words for months, days and numbers in every locale of CLDR, which are loaded when a text is first read."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pkgutil import get_data
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


LETTER: Final = r"[^\s\d!-/:-@\[-`{-¿\u2000-\u206f\u20a0-\u20cf\u3000-\u303f]"
"""Pattern of a letter, or of a mark that belongs to one, which words of India consist of as well."""

_HIDDEN: Final = re.compile(r"[\u00ad\u200c\u200d.]")


def fold_word(word: str) -> str:
    """Fold a word to the form of the table: without letter case, dots and hyphens that are not shown."""
    folded = word.casefold()
    if folded.isascii():
        return folded.replace(".", "").strip(" '")
    return _HIDDEN.sub("", folded).strip(" \u00a0\u202f'’")


Word: TypeAlias = tuple[str, int, int]
"""Folded word of a text, with its start and end."""

WORD: Final = re.compile(rf"{LETTER}+(?:['’]{LETTER}+)*")


def find_words(text: str) -> list[Word]:
    """Split a text into folded words."""
    if text.isascii():  # a word has neither dots nor hidden hyphens
        return [(match[0], *match.span()) for match in WORD.finditer(text.lower())]
    return [(fold_word(match[0]), *match.span()) for match in WORD.finditer(text)]


_SPOKEN: Final = re.compile(r"(?P<before>.*?)[ \u00a0]?\{0\}[ \u00a0]?(?P<after>.*)")
_LEAST: Final = 3
"""Letters of a word in ASCII that counts without the word beside it."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Words of the table by kind. A word that means several things in several locales has all of them."""

    months: Mapping[str, tuple[tuple[int, str], ...]]
    days: Mapping[str, tuple[str, ...]]
    lengths: Mapping[tuple[str, str], int]
    scales: Mapping[str, tuple[int, ...]]
    currencies: frozenset[str]
    codes: Mapping[str, frozenset[str]]
    """Codes of the currencies that a word or a sign names."""
    joining: frozenset[str]
    numbers: Mapping[str, Mapping[str, int]]
    conventions: Mapping[str, frozenset[str]]
    heads: frozenset[str]
    stems: frozenset[str]
    strong: frozenset[str]
    """Number words that count alone, and the first letters of the longer ones that others are made of."""
    scaling: frozenset[str]
    """Words that multiply a number in digits before them."""


_GLUING: Final = frozenset(
    {"de", "nl", "it", "sv", "da", "nb", "no", "nn", "fi", "hu", "et", "af", "lb", "is", "fo"}
)
"""Languages that write numbers as one word."""


def _counts_alone(word: str, known: Mapping[str, int]) -> bool:
    return "en" in known or len(word) > _LEAST or not word.isascii()


_STEM: Final = 3

_Found: TypeAlias = "Mapping[str, Mapping[str, list[str]]]"


def _load() -> Lexicon:
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for line in (get_data(__package__ or "", "spellings.txt") or b"").decode().splitlines():
        kind, value, *words = line.split("\t") if not line.startswith("#") else ("", "")
        for word in words:
            found[kind][word].append(value)
    days, numbers = _collect_days(found), _collect_numbers(found)
    first = map(WORD.search, days)
    return Lexicon(
        _collect_months(found),
        days,
        _collect_lengths(found),
        {word: tuple(map(int, values)) for word, values in found["scale"].items()},
        frozenset(found["currency"]),
        {
            word: frozenset(filter(None, values))
            for word, values in found["currency"].items()
            if len(word) > _LEAST or not word.isalpha()
        },
        frozenset(found["and"]),
        numbers,
        _collect_conventions(found),
        frozenset(match[0] for match in first if match),
        frozenset(word[:_STEM] for word in numbers if len(word) >= _STEM),
        frozenset(_list_strong(numbers)),
        frozenset((*found["scale"], *(word for word, known in numbers.items() if min(known.values()) < 0))),
    )


def _collect_months(found: _Found) -> dict[str, tuple[tuple[int, str], ...]]:
    months: dict[str, tuple[tuple[int, str], ...]] = {}
    for kind in [kind for kind in found if kind.split(" ")[0] == "month"]:
        for word, values in found[kind].items():
            months[word] = (*months.get(word, ()), *((int(value), kind[6:]) for value in values))
    return months


def _collect_days(found: _Found) -> dict[str, tuple[str, ...]]:
    days: dict[str, tuple[str, ...]] = {}
    for kind, name in (("day", "in"), ("weekday", "weekday")):
        for phrase, values in found[kind].items():
            if len(phrase) >= _LEAST or not phrase.isascii():
                days[phrase] = (*days.get(phrase, ()), *(f"{name} {value}" for value in values))
    return days


def _collect_lengths(found: _Found) -> dict[tuple[str, str], int]:
    lengths = {}
    for pattern, values in found["in"].items():
        if (match := _SPOKEN.fullmatch(pattern)) and len(values) == 1:
            lengths[match["before"], match["after"]] = int(values[0])
    return lengths


def _collect_numbers(found: _Found) -> dict[str, dict[str, int]]:
    numbers: dict[str, dict[str, int]] = defaultdict(dict)
    for kind in [kind for kind in found if kind.startswith("number ")]:
        for word, values in found[kind].items():
            numbers[word][kind[7:]] = -int(values[0][1:]) if values[0][0] == "x" else int(values[0])
    return dict(numbers)


def _list_strong(numbers: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    for word, known in numbers.items():
        if _counts_alone(word, known):
            yield word
        if len(word) > _LEAST and not known.keys().isdisjoint(_GLUING):
            yield word[:_STEM]


def _collect_conventions(found: _Found) -> dict[str, frozenset[str]]:
    """Collect the mark of decimals and the order of dates of each locale."""
    collected: dict[str, set[str]] = defaultdict(set)
    for kind in ("mark", "order"):
        for locale, values in found[kind].items():
            collected[locale].update(values)
            collected[locale].update(f"whole{value}" for value in values if kind == "mark")
    return {
        locale: frozenset((*values, "en", locale.partition("-")[0])) for locale, values in collected.items()
    }


LEXICON: Final = _load()
"""The table. It is loaded with this module, which readers import when they first read a text."""


def list_conventions(locale: str) -> frozenset[str] | None:
    """List the conventions of a locale; None for an unknown one. Without a locale ``1,234`` is a whole number."""
    if not locale:
        return frozenset({"en", "whole."})
    return LEXICON.conventions.get(locale.replace("_", "-").casefold())
