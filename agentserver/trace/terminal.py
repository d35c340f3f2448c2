"""Prints styled lines on a terminal safely.

Text from messages is untrusted: everything that a terminal could interpret is escaped (characters/printing.py).
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from agentserver.characters.printing import escape_unseen, truncate_counting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TextIO

MAX_LINE = 4_000
"""Characters of one segment that are shown; the number of omitted ones is printed."""


class Style(Enum):
    """Style of a segment, as SGR parameters (ECMA-48); PLAIN has none."""

    PLAIN = ""
    DIM = "2"
    NAME = "36"
    PAYLOAD = "1"
    GOOD = "32"
    WARN = "33"
    BAD = "31"


Segment: TypeAlias = tuple[Style, str]
Line: TypeAlias = tuple[Segment, ...]


def make_plain_line(text: str) -> Line:
    """Make a line without style."""
    return ((Style.PLAIN, text),)


def split_own_lines(text: str) -> Iterator[str]:
    """Split a text at line breaks, with tabs as four spaces. Segments are escaped later, when painted."""
    return (line.replace("\t", "    ") for line in text.replace("\r\n", "\n").split("\n"))


def split_visible_lines(text: str, *, whole: bool = False) -> Iterator[str]:
    """Split a text at line breaks and escape each line.

    Args:
        text: already without secrets.
        whole: whether to show lines exactly, with tabs, and continued on the next line beyond MAX_LINE: for decisions
            by people.
    """
    return map(escape_unseen, _iter_pieces(text)) if whole else map(cut, split_own_lines(text))


def _iter_pieces(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield from (line[start : start + MAX_LINE] for start in range(0, len(line) or 1, MAX_LINE))


def cut(text: str) -> str:
    """Escape the first MAX_LINE characters of a text, and append the number of omitted ones."""
    return truncate_counting(text, MAX_LINE, escape_unseen)


def format_paint(line: Line, *, colour: bool, whole: bool = False) -> str:
    """Format the line with every segment escaped and, unless ``whole`` is set, truncated.

    ``colour`` adds our own SGR sequences around the segments.
    """
    show = escape_unseen if whole else cut
    return "".join(
        f"\x1b[{style.value}m{show(text)}\x1b[0m" if colour and style.value else show(text)
        for style, text in line
    )


_HANG = re.compile(r" *(?:[+-][0-9.]+s +)?")


def wrap(line: Line, columns: int) -> Iterator[Line]:
    """Wrap the line between words; a longer word is not broken.

    Continuation lines are indented, or get the same margin, so text from a message never starts at the left edge.
    """
    if sum(_measure(text) for _, text in line) <= columns:
        yield line
        return
    margin = _build_margin(line)
    piece: list[Segment] = []
    used, begun = 0, False
    for style, text in line:
        for word in _WORDS.findall(text):
            if begun and word[0] == " " and used + _measure(word) > columns:
                yield tuple(piece)
                piece, used, begun = [(Style.DIM, margin), (style, word.lstrip(" "))], len(margin), False
            elif piece and piece[-1][0] is style:
                piece[-1] = style, piece[-1][1] + word
            else:
                piece.append((style, word))
            used, begun = used + _measure(word), begun or not word.isspace()
    yield tuple(piece)


_WORDS = re.compile(r" *[^ ]+| +")


def _measure(text: str) -> int:
    """Count the characters of a text as it is printed: escapes take more than the characters that they replace."""
    return len(cut(text))


def _build_margin(line: Line) -> str:
    """Build the prefix of a continuation line."""
    style, first = line[0] if line else (Style.PLAIN, "")
    if first.strip() in {"|", "?"} or (style is Style.NAME and first.endswith("  ")):
        return first if first.strip() in {"|", "?"} else " " * len(first)
    hang = _HANG.match("".join(text for _, text in line))
    return " " * (2 + (len(hang[0]) if hang else 0))


def find_columns(stream: TextIO) -> int | None:
    """Look up the width of a terminal; None for other streams."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else None
    except (OSError, ValueError):
        return None


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Check for a terminal with colours that the environment does not disable (no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "") not in {"", "dumb"}


@dataclass
class Screen:
    """Output of lines. A thread writes them in order, so a full pipe blocks nothing else.

    Args:
        colour: whether to paint lines.
        redact: removes secrets from a text.
        out: returns the stream for each write, because a prompt may replace it.
        closed: whether the reader closed the stream; further output is dropped.
        unwritten: the error if a write failed for another reason.
        columns: returns the width to wrap at; None for no wrapping.
    """

    colour: bool = False
    redact: Callable[[str], str] = str
    out: Callable[[], TextIO] = lambda: sys.stdout
    closed: bool = False
    unwritten: OSError | None = None
    columns: Callable[[], int | None] = lambda: None
    _writer: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))

    def show(self, *lines: Line, whole: bool = False) -> None:
        """Print lines without secrets, escaped and, unless ``whole``, truncated."""
        width = None if whole else self.columns()
        redacted = (self._redact_line(line) for line in lines)
        pieces = (piece for line in redacted for piece in ([line] if width is None else wrap(line, width)))
        painted = (format_paint(piece, colour=self.colour, whole=whole) for piece in pieces)
        self._put("".join(f"{line}\n" for line in painted))

    def say(self, text: str, style: Style = Style.PLAIN) -> None:
        """Print a text, split at its line breaks."""
        self.show(*(((style, part),) for part in text.split("\n")))

    def prompt(self, text: str) -> None:
        """Print without ending the line."""
        self._put(escape_unseen(text))

    async def flush(self) -> None:
        """Wait until everything so far is written."""
        await asyncio.wrap_future(self._writer.submit(lambda: None))

    def _redact_line(self, line: Iterable[Segment]) -> Line:
        return tuple((style, self.redact(text)) for style, text in line)

    def _put(self, text: str) -> None:
        if text:
            self._writer.submit(self._write, text)

    def _write(self, text: str) -> None:
        if self.closed:
            return
        stream = self.out()
        try:
            stream.write(text)
            stream.flush()
        except OSError as error:
            self.closed = True
            if not isinstance(error, BrokenPipeError):  # without a reader there is nothing to flush
                self.unwritten = error
            silence(stream)


def silence(stream: TextIO) -> None:
    """Discard a stream's buffer, so that the interpreter's final flush does not fail."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(descriptor, stream.fileno())
    finally:
        os.close(descriptor)
