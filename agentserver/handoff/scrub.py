"""Making another agent's words fit to be shown as data.

The frame and the closed intents are the defence.
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from typing import Final

from agentserver.characters.table import is_unseen


class Scrub(StrEnum):
    """The treatment of lines that read like instructions: they are taken out, or stay."""

    ON = "on"
    OFF = "off"


_BREAKS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_KEPT = frozenset("\n\t")

_PREFIXES: Final = (
    *("#", ">", "---", "===", "```", "~~~", "<|", "[inst", "[system"),
    *("system:", "assistant:", "human:", "user:", "developer:", "tool:", "instruction:", "instructions:"),
    *("important:", "note:", "warning:", "attention:", "new task:", "reminder:"),
)
_PHRASES = re.compile(
    r"(ignore|disregard|forget|override|bypass)\b.{0,40}\b"
    r"(previous|prior|above|earlier|instruction|rule|prompt|polic|guideline)|disregard"
    r"|ignore\s+previous|new\s+instructions|system\s+prompt|you\s+are\s+now\b|from\s+now\s+on\b"
)
_TRIGGERS: Final = (
    *("ignore", "disregard", "forget", "override", "bypass"),
    *("new", "system", "you", "from"),
)
"""One of them is in every line that a phrase is found in: looking for them is ten times as fast as for the phrases.
White space in a phrase may be of any kind, so that its first word alone is listed."""


def clean(text: str) -> str:
    """Return the text without control, bidi, zero-width and other unseen characters; line ends become newlines."""
    if text.isascii() and text.isprintable():  # one line, of characters that all are seen
        return text
    lines = _BREAKS.sub("\n", text)
    return "".join(
        char for char in lines if char in _KEPT or not is_unseen(char) or unicodedata.category(char) == "Zs"
    )


def scrub(text: str) -> str:
    """Return the clean text without lines that read like instructions."""
    if "\n" not in text:
        return "" if _instructs(text) else text.strip()
    return "\n".join(line for line in text.split("\n") if not _instructs(line)).strip()


def _instructs(line: str) -> bool:
    folded = (line if line.isascii() else unicodedata.normalize("NFKC", line)).casefold().lstrip()
    if folded.startswith(_PREFIXES):
        return True
    return any(map(folded.__contains__, _TRIGGERS)) and _PHRASES.search(folded) is not None


def sanitize(text: str, maximum: int, mode: Scrub = Scrub.ON) -> str:
    """Clean text of at most ``maximum`` characters, scrubbed where the mode says so."""
    if not text:
        return ""
    cleaned = clean(text)
    return (scrub(cleaned) if mode is Scrub.ON else cleaned.strip())[:maximum]
