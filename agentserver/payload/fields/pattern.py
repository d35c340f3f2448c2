"""Pattern facets: which of them the dialect has, and a text that matches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.hygiene.pattern import LONGEST, PatternError, read_xsd_pattern, write_sample
from agentserver.hygiene.simple_types import Judge, Lexical
from agentserver.payload.fields.lexical import is_xml_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_TRIES = 256


def find_objection(text: str) -> str:
    """Find the reason why ``text`` cannot be a pattern facet, with a correction; empty if it can."""
    if not text or len(text) > LONGEST or not is_xml_text(text):
        return f"must hold 1 to {LONGEST} characters that XML can carry"
    try:
        read_xsd_pattern(text)
    except PatternError as error:
        return str(error)
    return ""


def sample_patterns(patterns: Sequence[str], least: int = 0, most: int | None = None) -> str | None:
    """Find a short text that fits every pattern and the length, the same each time; None if the search fails."""
    judge = Judge({"v": Lexical(tuple(patterns))})
    for text in patterns:
        expression = read_xsd_pattern(text)
        for extra in (1, 0, *range(2, min(least, _TRIES) + 1)):
            word = write_sample(expression, extra)
            fits = least <= len(word) and (most is None or len(word) <= most)
            if fits and is_xml_text(word) and judge.accepts("v", word):
                return word
    return None
