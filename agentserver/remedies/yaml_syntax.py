"""Explains the syntax errors of YAML: which line to correct, and how. Pure."""

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


def explain_error(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str]:
    """Return the line of a syntax error, from 1, and its explanation; defaults to the message of the parser."""
    assert error.problem_mark is not None
    at = error.problem_mark.line
    lines = _BREAK.split(text)
    for line, explanation in _iter_guesses(error, at, lines):
        return line + 1, explanation
    context = f"{error.context}, " if error.context else ""
    return at + 1, f"not valid YAML: {context}{error.problem}"


def _iter_guesses(error: yaml.MarkedYAMLError, at: int, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    problem = error.problem or ""
    line = lines[at] if at < len(lines) else ""
    began = error.context_mark.line if error.context_mark is not None else at
    if "\t" in line[: len(line) - len(line.lstrip())] or "'\\t'" in problem:
        yield at, "a tab where YAML permits only spaces: replace it by spaces"
    cannot = re.search(r"character '(.)' that cannot start", problem)
    if cannot and cannot[1] in _NEEDS_QUOTES:
        yield at, f"a value that begins with {cannot[1]} needs quotation marks around it"
    if "alias" in (error.context or ""):
        yield at, "a value that begins with * needs quotation marks around it"
    undefined = re.search(r"undefined alias '(.*)'", problem)
    if undefined:
        yield (
            at,
            f"*{undefined[1]} is an alias without an anchor &{undefined[1]}: quote text",
        )
    if "single document" in (error.context or ""):
        yield at, "a second document begins here: take the line of three hyphens out"
    if "quoted scalar" in (error.context or ""):
        yield began, "a quotation mark is opened here and not closed"
    if "flow" in (error.context or ""):
        # After an opening bracket without content, the parser names the place where content was expected.
        places = range(min(began, len(lines) - 1), -1, -1)
        opened = next((place for place in places if re.search(r"[\[{]", lines[place])), began)
        yield opened, "a bracket is opened here and not closed, or a comma is missing after it"
    assert error.problem_mark is not None
    before, after = line[: error.problem_mark.column], line[error.problem_mark.column :]
    if "block" in problem and before.strip(" -"):
        yield (
            at,
            f'"{_shorten(after)}" follows a value that is whole: take it out, or quote the value with it',
        )
    yield from _explain_about_keys(problem, at, lines)


def _explain_about_keys(problem: str, at: int, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Explain a missing or surplus colon, and wrong indentation."""
    line, before = lines[at] if at < len(lines) else "", _find_previous_line(at, lines)
    if "could not find expected ':'" in problem:
        wrong = before if before is not None and not _KEY.match(lines[before]) else at
        yield wrong, f'"{_shorten(lines[wrong])}" is no key: write a colon and a space after it'
    if "mapping values are not allowed" in problem:
        two = _TWO.match(line)
        if two:
            yield at, f"the value of {two['key']} holds a colon and a space: put quotation marks around it"
        stuck = _NO_SPACE.match(lines[before]) if before is not None else None
        if stuck and before is not None:
            yield before, f'a space is missing after the colon: "{stuck["key"]}: {_shorten(stuck["value"])}"'
        if (
            before is not None
            and _is_bare_text(lines[before])
            and _find_depth(lines[before]) == _find_depth(line)
        ):
            yield before, f'"{_shorten(lines[before])}" is no key: write a colon and a space after it'
        yield at, _explain_indentation(at, before, lines)
    if "expected" in problem and "block" in problem:
        yield at, _explain_indentation(at, before, lines)


def _is_bare_text(line: str) -> bool:
    """Check whether a line is text without a key and without a dash."""
    return not _KEY.match(line) and not line.lstrip().startswith("-")


def _explain_indentation(at: int, before: int | None, lines: Sequence[str]) -> str:
    depth = _find_depth(lines[at])
    depths = sorted(
        {_find_depth(each) for each in lines[:at] if each.strip() and not each.lstrip().startswith("#")}
    )
    near = f" (line {before + 1} has {_find_depth(lines[before])})" if before is not None else ""
    spaces = f"{depth} {'space' if depth == 1 else 'spaces'}"
    inside = [each for each in depths if each < depth]
    misplaced = depth in depths or not inside
    problem = (
        f"does not fit its indentation of {spaces}"
        if misplaced
        else f"is indented by {spaces}, unlike the lines around it"
    )
    return f"{problem}{near}; align the keys of one mapping"


def _find_previous_line(at: int, lines: Sequence[str]) -> int | None:
    """Find the last non-empty line before another one."""
    lines_before = (
        n for n in range(min(at, len(lines)) - 1, -1, -1) if lines[n].strip() and lines[n].lstrip()[0] != "#"
    )
    return next(lines_before, None)


def _find_depth(line: str) -> int:
    """Return the column of the first key of a line; in a list item it follows the dash."""
    match = re.match(r" *(?:- +)?", line)
    return len(match[0]) if match else 0


def _shorten(text: str) -> str:
    stripped = text.strip()
    return stripped if len(stripped) <= _SHOWN else f"{stripped[:_SHOWN]}..."
