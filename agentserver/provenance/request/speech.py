"""Finds the parts of a principal's words that order nothing: quotations, pasted lines and exclusions.

They only take authority away: a missed part counts as an order, one found by mistake leads to a refusal or a question.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from agentserver.provenance.request.exclusions import IgnoredSpan, find_exclusions

LONGEST_SPEECH: Final = 100_000
"""Maximum characters of one quotation."""

_QUOTED: Final = re.compile(
    rf"""“([^“”]{{1,{LONGEST_SPEECH}}})”|„([^„“”]{{1,{LONGEST_SPEECH}}})[“”]|«([^«»]{{1,{LONGEST_SPEECH}}})»|「([^「」]{{1,{LONGEST_SPEECH}}})」"""
    rf"""|『([^『』]{{1,{LONGEST_SPEECH}}})』|(?<!\w)‘([^‘’\n]{{1,{LONGEST_SPEECH}}})’(?!\w)|"([^"\n]{{1,{LONGEST_SPEECH}}})\""""
    rf"""|(?<!\w)'([^'\n]{{1,{LONGEST_SPEECH}}})'(?!\w)|```([^`]{{1,{LONGEST_SPEECH}}})```|`([^`\n]{{1,{LONGEST_SPEECH}}})`"""
)
_PASTED: Final = re.compile(r"^[ \t]*>.*$|^[ \t]*([-=_*#~])\1{4,}[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class IgnoredSpans:
    """Parts of one text that order nothing: ``quoted`` are the quotations, ``other`` all others.

    Both are sorted and free of overlaps, so that one bisection finds the span that covers an offset.
    """

    quoted: tuple[IgnoredSpan, ...] = ()
    other: tuple[IgnoredSpan, ...] = ()

    def may_order(self, start: int, end: int) -> bool:
        """Check whether the text from ``start`` to ``end`` may be an order."""
        if _find_covering(self.other, start, end) is not None:
            return False
        quotation = _find_covering(self.quoted, start, end)
        return quotation is None or (quotation.start, quotation.end) == (start, end)


def find_ignored_spans(text: str) -> IgnoredSpans:
    """Find the parts of a text that order nothing."""
    other: list[IgnoredSpan] = []
    quoted = tuple(_find_quotations(text))
    for part in sorted([*_find_pasted(text), *find_exclusions(text, quoted)], key=_start_of):
        if other and part.start <= other[-1].end:
            other[-1] = IgnoredSpan(other[-1].start, max(other[-1].end, part.end))
        else:
            other.append(part)
    return IgnoredSpans(quoted, tuple(other))


def _find_covering(parts: tuple[IgnoredSpan, ...], start: int, end: int) -> IgnoredSpan | None:
    """Find a span that overlaps an interval. Only the last span before its end can."""
    before = bisect_left(parts, end, key=_start_of)
    return parts[before - 1] if before and parts[before - 1].end > start else None


def _start_of(part: IgnoredSpan) -> int:
    return part.start


def _find_quotations(text: str) -> list[IgnoredSpan]:
    found = []
    for match in _QUOTED.finditer(text):
        number = match.lastindex or 0
        body = match[number]
        begin = match.start(number) + len(body) - len(body.lstrip())
        found.append(IgnoredSpan(begin, begin + len(body.strip())))
    return found


def _find_pasted(text: str) -> list[IgnoredSpan]:
    """Find lines marked as quoted from another author, and text after a ruled line up to the next one."""
    found, ruled = [], None
    for match in _PASTED.finditer(text):
        if match[1] is None:
            found.append(IgnoredSpan(*match.span()))
        elif ruled is None:
            ruled = match.end()
        else:
            found.append(IgnoredSpan(ruled, match.start()))
            ruled = None
    if ruled is not None:
        found.append(IgnoredSpan(ruled, len(text)))
    return found
