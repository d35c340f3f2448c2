"""The mistake in a YAML file that cannot be read, in words for its author.

Owns those words: of a parser's error and the line it is about. Pure. Refuses to know what the file is for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import yaml

_SHOWN = 60
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_NO_SPACE = re.compile(r"^\s*(?:- )?(?P<key>[\w.-]+):(?P<value>[^\s/:].*)$")
_KEY = re.compile(r"^\s*(?:- +)?[\w.-]+:(?:\s|$)")
_TWO = re.compile(r"^\s*(?:- +)?(?P<key>[\w.-]+):\s+(?P<value>[^\"'\[{|>#].*:(?:\s.*|$))")
_NEEDS_QUOTES = "@`%"


def explained(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str]:
    """The line that a mistake is on, from 1, and what it is; the parser's own words where nothing better is known."""
    assert error.problem_mark is not None
    at = error.problem_mark.line
    lines = _BREAK.split(text)
    for line, told in _guesses(error, at, lines):
        return line + 1, told
    context = f"{error.context}, " if error.context else ""
    return at + 1, f"not valid YAML: {context}{error.problem}"


def _guesses(error: yaml.MarkedYAMLError, at: int, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    problem = error.problem or ""
    here = lines[at] if at < len(lines) else ""
    began = error.context_mark.line if error.context_mark is not None else at
    if "\t" in here[: len(here) - len(here.lstrip())] or "'\\t'" in problem:
        yield at, "a tab stands where YAML takes spaces alone: replace it by spaces"
    cannot = re.search(r"character '(.)' that cannot start", problem)
    if cannot and cannot[1] in _NEEDS_QUOTES:
        yield at, f"a value that begins with {cannot[1]} needs quotation marks around it"
    if "alias" in (error.context or ""):
        yield at, "a value that begins with * needs quotation marks around it"
    undefined = re.search(r"undefined alias '(.*)'", problem)
    if undefined:
        yield (
            at,
            f"*{undefined[1]} stands for what is marked with &{undefined[1]}, and nothing is: quote what is text",
        )
    if "single document" in (error.context or ""):
        yield at, "a second document begins here: take the line of three hyphens out"
    if "quoted scalar" in (error.context or ""):
        yield began, "a quotation mark is opened here and not closed"
    if "flow" in (error.context or ""):
        yield began, "a bracket is opened here and not closed, or a comma is missing after it"
    assert error.problem_mark is not None
    said, rest = here[: error.problem_mark.column], here[error.problem_mark.column :]
    if "block" in problem and said.strip(" -"):
        yield at, f'"{_short(rest)}" follows a value that is whole: take it out, or quote the value with it'
    yield from _about_keys(problem, at, lines)


def _about_keys(problem: str, at: int, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """A colon without its space, one too many, none at all; a line that stands too far in or out."""
    here, before = lines[at] if at < len(lines) else "", _before(at, lines)
    if "could not find expected ':'" in problem:
        wrong = before if before is not None and not _KEY.match(lines[before]) else at
        yield wrong, f'"{_short(lines[wrong])}" is no key: write a colon and a space after it'
    if "mapping values are not allowed" in problem:
        two = _TWO.match(here)
        if two:
            yield at, f"the value of {two['key']} holds a colon and a space: put quotation marks around it"
        stuck = _NO_SPACE.match(lines[before]) if before is not None else None
        if stuck and before is not None:
            yield before, f'a space is missing after the colon: "{stuck["key"]}: {_short(stuck["value"])}"'
        yield at, _indented(at, before, lines)
    if "expected" in problem and "block" in problem:
        yield at, _indented(at, before, lines)


def _indented(at: int, before: int | None, lines: Sequence[str]) -> str:
    here = _depth(lines[at])
    others = sorted(
        {_depth(each) for each in lines[:at] if each.strip() and not each.lstrip().startswith("#")}
    )
    near = f" (line {before + 1} has {_depth(lines[before])})" if before is not None else ""
    told = f"is indented by {here} {'space' if here == 1 else 'spaces'}, as nothing around it{near}"
    inside = [each for each in others if each < here]
    if here in others or not inside:
        told = f"does not belong where its {here} spaces put it{near}"
    return f"{told}: keys of one thing stand in one column"


def _before(at: int, lines: Sequence[str]) -> int | None:
    """The last line before one that says something."""
    said = (
        n for n in range(min(at, len(lines)) - 1, -1, -1) if lines[n].strip() and lines[n].lstrip()[0] != "#"
    )
    return next(said, None)


def _depth(line: str) -> int:
    """The column of a line's first key, which in an item of a list stands behind the dash."""
    match = re.match(r" *(?:- +)?", line)
    return len(match[0]) if match else 0


def _short(text: str) -> str:
    told = text.strip()
    return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}..."
