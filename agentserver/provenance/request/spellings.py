"""Lists lossless spellings in which an agent may repeat its principal's words for a program.

Covers paths with the home or own directory expanded, parts of a path, and digits without spaces. They are used only for
the principal's own words, never for lists.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.destinations import strip_mark

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_SPELLING: Final = 256
"""Maximum characters of a path that is split into parts."""

_HOME: Final = re.compile(r"/(?:home|Users)/[^/\\s]+/|/root/|[A-Za-z]:[\\/]Users[\\/][^\\/]+[\\/]")
_DIGITS: Final = re.compile(r"(?<![\w.,-])\d(?:[ \u00a0-]?\d){5,39}(?![\w,-]|\.\d)")
_GROUP: Final = re.compile(r"\d+")
_GROUPS: Final = re.compile(r"\d+(?:[ \u00a0-]\d+)*")
_SLUG: Final = re.compile(r"(?<![\w@./:?#=&-])[\w.-]+(?:/[\w.-]+){1,7}(?![\w@:/?#=&-])")
_SCHEME: Final = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def list_spellings(body: str) -> Iterator[str]:
    """List the spellings in which a principal may have written a value, first the value without leading marks."""
    yield strip_mark(body)
    here = body.removeprefix("./")
    if here != body and here[:1].isalnum():
        yield here
    home = _HOME.match(body)
    if home is not None:
        yield f"~/{body[home.end() :]}"
        yield body[home.end() :]


def split_path(text: str) -> Iterator[str]:
    """Split paths such as ``owner/name`` into parts, except links and texts that begin with a host."""
    for match in _SLUG.finditer(text):
        steps = match.group().split("/")
        if len(match.group()) <= LONGEST_SPELLING and "." not in steps[0].rstrip("."):
            yield from (step.strip(".") for step in steps if step.strip("."))


def join_groups(text: str) -> tuple[str, ...]:
    """List the numbers that a text begins with: of one group of digits, of two, and so on."""
    return tuple(accumulate(_GROUP.findall(run.group()))) if (run := _GROUPS.match(text)) else ()


def join_digits(text: str) -> Iterator[str]:
    """Find the long numbers of a text, without spaces and hyphens: ``4417 0092 6651`` is ``441700926651``."""
    return (digits for digits, _, _ in find_digit_runs(text))


def find_digit_runs(text: str) -> Iterator[tuple[str, int, int]]:
    """Find the long numbers of a text, each with its start and end."""
    for match in _DIGITS.finditer(text):
        yield re.sub(r"\D", "", match.group()), *match.span()
