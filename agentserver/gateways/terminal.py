"""Lines for a terminal: styled segments, made harmless and painted.

Owns what may reach a terminal. Text from messages is a stranger's: whatever a terminal could act on is shown
escaped, never passed on. Refuses to know what the lines are about.
"""

from __future__ import annotations

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TextIO

MAX_LINE = 4_000
"""Characters of one segment that a terminal is shown; the rest is cut and counted."""


class Style(Enum):
    """How a segment looks, as SGR parameters (ECMA-48); PLAIN has none."""

    PLAIN = ""
    DIM = "2"
    NAME = "36"
    PAYLOAD = "1"
    GOOD = "32"
    WARN = "33"
    BAD = "31"


Segment: TypeAlias = tuple[Style, str]
Line: TypeAlias = tuple[Segment, ...]


def plain(text: str) -> Line:
    """An unstyled line."""
    return ((Style.PLAIN, text),)


def visible(text: str) -> str:
    """The text with every character escaped that is neither printable nor a space separator.

    Escaped are C0 and C1 controls (ANSI sequences begin with one), line and paragraph separators, bidi and
    zero-width formatting, surrogates and unassigned code points.
    """
    if text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character.isprintable() or character in _SPACES:
        return character
    return character.encode("unicode_escape").decode("ascii")


_SPACES = frozenset("\u00a0\u2002\u2003\u2009\u202f\u3000")


def visible_lines(text: str, *, whole: bool = False) -> Iterator[str]:
    """The text by its own line breaks, tabs as four spaces, each line visible and at most MAX_LINE long.

    What is longer is cut, or goes on in the next line when ``whole`` is set: for what somebody decides about.
    """
    for line in text.replace("\r\n", "\n").split("\n"):
        shown = visible(line.replace("\t", "    "))
        if whole:
            yield from (shown[start : start + MAX_LINE] for start in range(0, len(shown) or 1, MAX_LINE))
            continue
        cut = len(shown) - MAX_LINE
        yield shown if cut <= 0 else f"{shown[:MAX_LINE]} ... ({cut} more)"


def paint(line: Line, *, colour: bool) -> str:
    """The line as text, every segment visible; with SGR sequences of our own when ``colour`` is set."""
    if not colour:
        return "".join(visible(text) for _, text in line)
    return "".join(
        f"\x1b[{style.value}m{visible(text)}\x1b[0m" if style.value else visible(text) for style, text in line
    )


def wants_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether a stream is a terminal that shows colours, and nobody asked for none (no-color.org)."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "") not in {"", "dumb"}


@dataclass
class Screen:
    """Where lines go. A thread writes them in order, so that nothing else waits for a terminal or a full pipe.

    Args:
        colour: whether lines are painted.
        redact: takes secrets out of a text.
        out: gives the stream at each write, because a prompt may replace it meanwhile.
        gone: whether the reader went away; what follows is dropped.
    """

    colour: bool = False
    redact: Callable[[str], str] = str
    out: Callable[[], TextIO] = lambda: sys.stdout
    gone: bool = False
    _writer: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))

    def show(self, *lines: Line) -> None:
        """Print lines."""
        self._put("".join(f"{paint(self._redacted(line), colour=self.colour)}\n" for line in lines))

    def say(self, text: str, style: Style = Style.PLAIN) -> None:
        """Print one text by its own line breaks."""
        self.show(*(((style, part),) for part in text.split("\n")))

    def prompt(self, text: str) -> None:
        """Print without ending the line."""
        self._put(visible(text))

    async def written(self) -> None:
        """Wait until everything so far is written."""
        await asyncio.wrap_future(self._writer.submit(lambda: None))

    def _redacted(self, line: Iterable[Segment]) -> Line:
        return tuple((style, self.redact(text)) for style, text in line)

    def _put(self, text: str) -> None:
        if text:
            self._writer.submit(self._write, text)

    def _write(self, text: str) -> None:
        if self.gone:
            return
        stream = self.out()
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            self.gone = True
            silence(stream)


def silence(stream: TextIO) -> None:
    """Send what a stream still holds nowhere, so that the interpreter's last flush does not fail."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(descriptor, stream.fileno())
    finally:
        os.close(descriptor)
