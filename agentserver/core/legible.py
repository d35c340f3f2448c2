"""Text that anybody may have written, made fit for a line that somebody reads.

Owns what is cut and what is replaced. Refuses to know who reads: a log, an audit, a model.
"""

from __future__ import annotations


def legible(text: str, most: int) -> str:
    """One line of at most ``most`` characters, all of them printable."""
    cut = text if len(text) <= most else f"{text[: most - 1]}\N{HORIZONTAL ELLIPSIS}"
    return cut if cut.isprintable() else "".join(map(_shown, cut))


def paragraph(text: str, most: int, lines: int) -> str:
    """At most so many lines, each legible."""
    found = text.split("\n", lines)[:lines]
    return "\n".join(legible(line, most) for line in found)


def referenced(markup: str) -> str:
    """Markup that means the same on one line: what is not printable becomes a character reference."""
    return markup if markup.isprintable() else "".join(map(_referenced, markup))


def _shown(char: str) -> str:
    if char.isprintable():
        return char
    return " " if char.isspace() else "\N{REPLACEMENT CHARACTER}"


def _referenced(char: str) -> str:
    return char if char.isprintable() else f"&#{ord(char)};"
