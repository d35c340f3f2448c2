"""Lists the numbers and days of untrusted texts in every reading, by which evidence for an argument is found.

A text in ASCII is read as a whole: its digits are scanned once, and only sentences with a month next to a digit, or
with a number word, are read in full. Lines with other characters are read sentence by sentence.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.lexicon import find_words
from agentserver.provenance.evidence.readings import (
    GLUED,
    find_eastern_numbers,
    find_marked_numbers,
    find_named_days,
    find_numbers,
    find_numbers_in_words,
    find_written_days,
    list_taken_places,
    load_lexicon,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.provenance.evidence.readings import AmountReading

_SENTENCE: Final = re.compile(r"(?<=\w{5}[.!?])\s")
_ENDED: Final = re.compile(r"[.!?\n](?:(?<=\n)|(?<=\w{5}.)(?=\s))")
"""Pattern of what ends a sentence: the same marks, or the end of a line."""
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = r"[a-z\x00-\x08\x0e-\x1b]"
"""Pattern of what ``LETTER`` matches in ASCII."""
_AFTER: Final = re.compile(
    rf"\d(?:\.|{_LETTER}{{1,3}})?[ \t]{{1,3}}({_LETTER}+)"
    rf"(?:\.?[ \t]{{1,3}}({_LETTER}+)(?:\.?[ \t]{{1,3}}({_LETTER}+))?)?"
)
"""Pattern of a digit with the words behind it that may be its month."""
_BEFORE: Final = re.compile(r"\d(?:(?<=[a-z.][ \t]\d)|(?<=[a-z.][ \t]{2}\d)|(?<=[a-z.][ \t]{3}\d))")
"""Pattern of a digit with a word before it."""
_LONGEST_MONTH: Final = 24
"""Characters of a month in ASCII at most, with the space between it and a digit."""
_WORD: Final = re.compile(r"[a-z]+")


def list_evidence_keys(text: str) -> Iterator[str]:
    """List the numbers and days of an untrusted text in every reading, as keys of ``find_typed_keys``.

    Numbers that ``find_typed_keys`` finds as well, because they are digits and nothing else, may be left out.
    """
    if text.isascii():
        yield from _list_ascii_keys(text)
        return
    lines = text.split("\n")
    for line in lines:
        yield from () if line.isascii() else _list_line_keys(line)
    yield from _list_ascii_keys("\n".join([line for line in lines if line.isascii()]))


def _list_line_keys(line: str) -> Iterator[str]:
    spoken = _list_spoken(line)
    for sentence in _SENTENCE.split(line):
        yield from _list_sentence_keys(sentence, spoken)


def _list_sentence_keys(sentence: str, spoken: frozenset[str]) -> Iterator[str]:
    if _DIGIT.search(sentence):
        days = [*find_written_days(sentence), *find_named_days(sentence)]
        yield from (day.key for day in days)
        taken = list_taken_places(days)
        yield from _list_number_keys(find_eastern_numbers(sentence, taken))
        yield from _list_number_keys(find_numbers(sentence, taken))
    elif not sentence.isascii():
        yield from _list_number_keys(find_eastern_numbers(sentence, []))
    if not spoken.isdisjoint(sentence.casefold().split()):
        yield from _list_number_keys(find_numbers_in_words(sentence, find_words(sentence)))


def _list_ascii_keys(text: str) -> Iterator[str]:
    plain = text.lower()
    marks: list[int] = []
    if _DIGIT.search(text):
        line = text.replace("\n", "\r")  # a number begins a line as it begins a text
        days = [*find_written_days(line)]
        if dated := _find_months(plain):
            marks = _list_ends(text)
            for start, end in _list_sentences(marks, dated):
                days += [
                    day._replace(start=day.start + start, end=day.end + start)
                    for day in find_named_days(text[start:end])
                ]
        yield from (day.key for day in days)
        yield from _list_number_keys(find_marked_numbers(line, list_taken_places(days)))
    if spoken := [*_find_spoken(plain)]:
        for start, end in _list_sentences(marks or _list_ends(text), spoken):
            sentence = text[start:end]
            yield from _list_number_keys(find_numbers_in_words(sentence, find_words(sentence)))


def _list_number_keys(amounts: Iterable[AmountReading]) -> Iterator[str]:
    for amount in amounts:
        if amount.convention not in {".", ","} or amount.value % 1:  # 1,000 is not 1
            yield f"number {amount.value.normalize():f}"


def _list_ends(text: str) -> list[int]:
    """List the places where sentences end, and the end of the text."""
    return [*[match.end() for match in _ENDED.finditer(text)], len(text)]


def _list_sentences(ends: list[int], places: list[int]) -> list[tuple[int, int]]:
    """List the sentences that hold places, each with its start and end."""
    numbers = dict.fromkeys([bisect_left(ends, place + 1) for place in places])
    return [(ends[number - 1] if number else 0, ends[number]) for number in numbers]


def _find_months(plain: str) -> list[int]:
    """Find the digits of a text in small letters that have a month next to them."""
    months = load_lexicon().months
    found = [
        match.start()
        for match in _AFTER.finditer(plain)
        if match[1] in months or match[2] in months or match[3] in months
    ]
    for match in _BEFORE.finditer(plain):
        at = match.start()
        word = _WORD.match(plain[max(0, at - _LONGEST_MONTH) : at][::-1].lstrip(" \t."))
        if word and word[0][::-1] in months:
            found.append(at)
    return found


def _list_spoken(text: str) -> frozenset[str]:
    """List the words that may begin a spelled-out number."""
    strong = load_lexicon().strong
    words = frozenset(text.casefold().split())
    return words.intersection(strong).union(
        [word for word in words if len(word) > GLUED and word[:3] in strong]
    )


def _find_spoken(plain: str) -> Iterator[int]:
    """Find where spelled-out numbers may begin in a text in small letters."""
    spoken = _list_spoken(plain)
    if len(spoken) > _SEARCHED:
        yield from [match.start() for match in _SPACED.finditer(plain) if match[0] in spoken]
        return
    for word in spoken:
        at = plain.find(word)
        while at >= 0:
            end = at + len(word)
            if (not at or plain[at - 1].isspace()) and (end == len(plain) or plain[end].isspace()):
                yield at
            at = plain.find(word, end)


_SEARCHED: Final = 16
"""Words that a text is searched for one by one; more are met by reading every word once."""
_SPACED: Final = re.compile(r"\S+")
