"""Text that anybody may have written, made fit for a line that a person reads.

Owns what is taken out, what is replaced and what is cut, in this order. Refuses to know who reads: a log, an audit,
a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.characters.table import seen, unseen

if TYPE_CHECKING:
    from collections.abc import Callable


def legible(text: str, most: int, redact: Callable[[str], str] = str) -> str:
    """One line of at most ``most`` characters, all of them seen.

    Secrets go first: of one that was cut, or of which a character was replaced, the rest could not be known.
    """
    return _line(redact(text), most)


def paragraph(text: str, most: int, lines: int, redact: Callable[[str], str] = str) -> str:
    """At most so many lines, each legible."""
    found = redact(text).split("\n", lines)[:lines]
    return "\n".join(_line(line, most) for line in found)


def bounded(text: str, most: int, redact: Callable[[str], str]) -> str:
    """At most ``most`` characters, as they were written but for the secrets."""
    return redact(text)[:most]


def _line(text: str, most: int) -> str:
    cut = text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"
    return cut if seen(cut) else "".join(map(_shown, cut))


def referenced(markup: str) -> str:
    """Markup that means the same on one line: what is not printable becomes a character reference."""
    return markup if seen(markup) else "".join(map(_referenced, markup))


def _shown(char: str) -> str:
    if not unseen(char):
        return char
    return " " if char.isspace() else "\N{REPLACEMENT CHARACTER}"


def _referenced(char: str) -> str:
    return f"&#{ord(char)};" if unseen(char) else char
