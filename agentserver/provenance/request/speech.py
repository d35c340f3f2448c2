"""The parts of a principal's words in which nothing is ordered: quotations, pasted lines, what is excepted.

Owns where such parts begin and end. Refuses to know what stands in them. They only take authority away: a part that is
missed is an order as before, one that is seen too much leads to a refusal or a question.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from agentserver.provenance.request.excepted import Silence, excepted

LONGEST: Final = 100_000
"""Characters of one quotation."""

_QUOTED: Final = re.compile(
    rf"""“([^“”]{{1,{LONGEST}}})”|„([^„“”]{{1,{LONGEST}}})[“”]|«([^«»]{{1,{LONGEST}}})»|「([^「」]{{1,{LONGEST}}})」"""
    rf"""|『([^『』]{{1,{LONGEST}}})』|(?<!\w)‘([^‘’\n]{{1,{LONGEST}}})’(?!\w)|"([^"\n]{{1,{LONGEST}}})\""""
    rf"""|(?<!\w)'([^'\n]{{1,{LONGEST}}})'(?!\w)|```([^`]{{1,{LONGEST}}})```|`([^`\n]{{1,{LONGEST}}})`"""
)
_PASTED: Final = re.compile(r"^[ \t]*>.*$|^[ \t]*([-=_*#~])\1{4,}[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Silences:
    """The parts of one text that order nothing: ``quoted`` are the quotations, ``other`` all else.

    Each kind by their beginnings, and none of a kind overlaps another one of it: so one look-up tells what covers a
    place, however many there are.
    """

    quoted: tuple[Silence, ...] = ()
    other: tuple[Silence, ...] = ()

    def heard(self, start: int, end: int) -> bool:
        """True when what stands from ``start`` to ``end`` may be an order."""
        if _covering(self.other, start, end) is not None:
            return False
        quotation = _covering(self.quoted, start, end)
        return quotation is None or (quotation.start, quotation.end) == (start, end)


def silences(text: str) -> Silences:
    """The parts of a text that order nothing."""
    other: list[Silence] = []
    quoted = tuple(_quotations(text))
    for part in sorted([*_pasted(text), *excepted(text, quoted)], key=_begin):
        if other and part.start <= other[-1].end:
            other[-1] = Silence(other[-1].start, max(other[-1].end, part.end))
        else:
            other.append(part)
    return Silences(quoted, tuple(other))


def _covering(parts: tuple[Silence, ...], start: int, end: int) -> Silence | None:
    """The last of some parts that do not overlap which covers any of a place: where one does, that one does."""
    before = bisect_left(parts, end, key=_begin)
    return parts[before - 1] if before and parts[before - 1].end > start else None


def _begin(part: Silence) -> int:
    return part.start


def _quotations(text: str) -> list[Silence]:
    found = []
    for match in _QUOTED.finditer(text):
        number = match.lastindex or 0
        body = match[number]
        begin = match.start(number) + len(body) - len(body.lstrip())
        found.append(Silence(begin, begin + len(body.strip())))
    return found


def _pasted(text: str) -> list[Silence]:
    """Lines marked as somebody else's, and what stands behind a ruled line, up to the next one."""
    found, ruled = [], None
    for match in _PASTED.finditer(text):
        if match[1] is None:
            found.append(Silence(*match.span()))
        elif ruled is None:
            ruled = match.end()
        else:
            found.append(Silence(ruled, match.start()))
            ruled = None
    if ruled is not None:
        found.append(Silence(ruled, len(text)))
    return found
