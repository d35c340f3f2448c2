"""The other spellings in which an agent repeats its principal's own words, where a program wants them so.

Owns those that lose nothing: a path with the home directory or its own one written out, one part of a path, digits
without the spaces between them. Refuses to fold: only the principal's own words are met so, never a list.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.destinations import unmarked

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST: Final = 256
"""Characters of a word that has parts."""

_HOME: Final = re.compile(r"/(?:home|Users)/[^/\\s]+/|/root/|[A-Za-z]:[\\/]Users[\\/][^\\/]+[\\/]")
_DIGITS: Final = re.compile(r"(?<![\w.,-])\d(?:[ \u00a0-]?\d){5,39}(?![\w,-]|\.\d)")
_GROUP: Final = re.compile(r"\d+")
_GROUPS: Final = re.compile(r"\d+(?:[ \u00a0-]\d+)*")
_SLUG: Final = re.compile(r"(?<![\w@./:?#=&-])[\w.-]+(?:/[\w.-]+){1,7}(?![\w@:/?#=&-])")
_SCHEME: Final = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def spellings(body: str) -> Iterator[str]:
    """The ways in which a principal may have written a value, the value itself first, without a mark before it."""
    yield unmarked(body)
    here = body.removeprefix("./")
    if here != body and here[:1].isalnum():
        yield here
    home = _HOME.match(body)
    if home is not None:
        yield f"~/{body[home.end() :]}"
        yield body[home.end() :]


def parts(text: str) -> Iterator[str]:
    """The parts of what is written with slashes, as ``owner/name`` is, but for links and what begins with a host."""
    for match in _SLUG.finditer(text):
        steps = match.group().split("/")
        if len(match.group()) <= LONGEST and "." not in steps[0].rstrip("."):
            yield from (step.strip(".") for step in steps if step.strip("."))


def grouped(text: str) -> tuple[str, ...]:
    """The numbers that a text begins with, of one group of digits, of two, and so on: spaces and hyphens part them."""
    return tuple(accumulate(_GROUP.findall(run.group()))) if (run := _GROUPS.match(text)) else ()


def joined_digits(text: str) -> Iterator[str]:
    """The long numbers of a text without the spaces and hyphens in them: ``4417 0092 6651`` is ``441700926651``."""
    return (digits for digits, _, _ in runs_of_digits(text))


def runs_of_digits(text: str) -> Iterator[tuple[str, int, int]]:
    """The same, each with the place where it stands."""
    for match in _DIGITS.finditer(text):
        yield re.sub(r"\D", "", match.group()), *match.span()
