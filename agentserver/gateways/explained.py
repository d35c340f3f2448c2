"""Explanations of guards, arranged for reading: a hop a line, nothing twice, and a short form.

Owns the arrangement. Refuses to judge what an explanation says, and to leave out anything but repetitions and what
the message beside it tells. Pure: a text in, lines out. A text that is no explanation of provenance stays as it is.
Every line of such an explanation begins with words of its author's and holds values flattened and in quotes, so that
no value can pass for a line of it (provenance/explain.py).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BEGINS = ("Taint source: ", "Reason: ")
_SAID = re.compile(r"Untrusted content detected in argument: ([^=]*)=")
_CALL, _ALLOW = "The call:", "Allow this one call?"
_ENDS = re.compile(r"Action: |\(\d+ more lines\)$")
# Hops hold no quotes, so that the last quote ends any value.
_LINEAGE = re.compile(r'(Lineage: .*?) → (value ".*")((?: → [^"→]+)*)')

_NAMED = 3
"""Places that a summary names; further ones are counted."""


class _Parts(NamedTuple):
    """An explanation: what was judged, a block for each finding, and what became of it."""

    head: list[str]
    blocks: list[tuple[str, ...]]
    tail: list[str]


def full(text: str) -> list[str]:
    """All that an explanation says, each finding once and each hop of a lineage on a line of its own."""
    parts = _parts(text)
    return [*parts.head, *_told(parts.blocks), *parts.tail]


def brief(text: str, where: str) -> list[str]:
    """An explanation with what merely holds a stranger's words in one line for each argument.

    The first finding, which weighs most, and each about a value that decides something are told in full.

    Args:
        text: the explanation.
        where: what to type for the rest.
    """
    parts = _parts(text)
    quoted: dict[str, list[str]] = {}
    told = []
    for number, block in enumerate(parts.blocks):
        argument = _quoted(block) if number else None
        if argument is None:
            told.append(block)
        else:
            quoted.setdefault(argument, []).append(_place(block))
    also = [_also(argument, list(dict.fromkeys(places)), where) for argument, places in quoted.items()]
    return [*parts.head, *_told(told), *also, *parts.tail]


def _parts(text: str) -> _Parts:
    """The parts; without the arguments of the call, which are shown with the message."""
    lines = text.split("\n")
    if _CALL in lines and lines[-1] == _ALLOW:
        lines = [*lines[: lines.index(_CALL)], _ALLOW]
    starts = [number for number, line in enumerate(lines) if line.startswith(_BEGINS)]
    if not starts:
        return _Parts(lines, [], [])
    after = range(starts[-1], len(lines))
    end = next((number for number in after if _ENDS.match(lines[number])), len(lines))
    bounds = zip(starts, [*starts[1:], end], strict=True)
    blocks = dict.fromkeys(tuple(lines[start:stop]) for start, stop in bounds)
    return _Parts(lines[: starts[0]], list(blocks), lines[end:])


def _told(blocks: list[tuple[str, ...]]) -> list[str]:
    return [part for block in blocks for line in block for part in _hops(line)]


def _hops(line: str) -> list[str]:
    """A lineage by its hops; any other line as it is."""
    found = _LINEAGE.fullmatch(line)
    if found is None:
        return [line]
    began, value, hops = found.groups()
    return [began, *(f"  → {step}" for step in (value, *hops.split(" → ")[1:]))]


def _quoted(block: tuple[str, ...]) -> str | None:
    """The argument, of a finding that it holds a stranger's words; else None."""
    found = next(filter(None, map(_SAID.match, block)), None)
    whole = any(line.startswith("Lineage: ") for line in block)
    return found.group(1) if found and whole and not _serious(block) else None


def _serious(block: tuple[str, ...]) -> bool:
    return any(line.startswith(("Remedy: ", "Detail: ")) for line in block)


def _place(block: tuple[str, ...]) -> str:
    """The origin of a finding's words."""
    line = next(line for line in block if line.startswith("Lineage: "))
    return line.removeprefix("Lineage: ").partition(" → ")[0].replace(", untrusted)", ")")


def _also(argument: str, places: list[str], where: str) -> str:
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return f"Also {argument}: untrusted content from {', '.join(places[:_NAMED])}{more} ({where} tells all)"
