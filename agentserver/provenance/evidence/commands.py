"""Shell text as the simple commands that it runs.

Owns the parting of a text at what parts commands, also inside of what is given to a shell to run. Refuses to judge
commands. Prose, and a text that is one command, part into nothing.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

READ: Final = 1 << 14
"""Characters of a text that are parted. Commands after them are not found."""

WORDS: Final = 64
"""Words of a command that are looked at: what holds the whole of it holds them."""

_PARTS: Final = re.compile(r"[;|&\n(){}`<>]+")
_QUOTED: Final = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_TOKEN: Final = re.compile(
    rf"(?P<mark>{_PARTS.pattern})|(?P<word>(?:{_QUOTED.pattern}|[^\s;|&(){{}}`<>'\"\\])+)|(?P<open>['\"\\])",
    re.DOTALL,
)
"""A mark, a word with the quotes in it, or a quote that does not end."""
_PARTED: Final = re.compile(r";|\||&&|\n|\$\(|`")
"""Marks that part commands; the other ones stand in prose as well."""
_RUNS: Final = re.compile(r"[a-z]*sh|eval|su")
_HANDS_ON: Final = frozenset(
    {
        "sudo",
        "doas",
        "env",
        "nice",
        "nohup",
        "time",
        "timeout",
        "xargs",
        "exec",
        "command",
        "busybox",
        "setsid",
    }
)
"""Commands whose arguments are a command."""
_SET: Final = re.compile(r"\w+=\S*")
_NAME: Final = re.compile(r"[^\W\d_][\w+.-]*")
_OPERAND: Final = re.compile(r"[/.:=*~$\d]")
"""A character by which a word is no word of prose: of a path, an address, a version."""
_LEAST: Final = 3
"""Words from which on a command counts whose operands are words of prose."""


def find_commands(text: str, most: int) -> tuple[str, ...]:
    """The simple commands of a shell text, at most so many. A quoted text is data, but where a shell is given it."""
    return tuple(islice(_drop_repeats(_split_commands(text[:READ], inside=False)), most))


def _drop_repeats(commands: Iterator[str]) -> Iterator[str]:
    """Each command once: repetitions take the place of no other command."""
    seen: set[str] = set()
    for command in commands:
        if command not in seen:
            seen.add(command)
            yield command


def _split_commands(text: str, *, inside: bool) -> Iterator[str]:
    pieces = [*_split_words(text)]
    parted = inside or bool(_PARTED.search(text))
    for words in pieces:
        while words and _SET.fullmatch(words[0]):
            words = words[1:]  # noqa: PLW2901  the same command without what it is given to know
        if parted or len(pieces) > 1:
            yield from _format_command(words[:WORDS], parted=parted)
        for at in range(1, len(words)):
            after = words[at - 1].rpartition("/")[2] in _HANDS_ON
            if after or (words[at + 1 : at + 2] and words[at + 1].startswith("-")):
                yield from _format_command(words[at : at + WORDS], parted=after)
        if not inside:
            yield from _find_shell_arguments(words)


def _find_shell_arguments(words: list[str]) -> Iterator[str]:
    """The commands in the words that a shell is given to run, or that are put in for."""
    runs = any(_RUNS.fullmatch(word.rpartition("/")[2]) for word in words)
    for word in words:
        if (runs and " " in word) or "$(" in word or "`" in word:
            yield from _split_commands(word, inside=True)


def _format_command(words: list[str], *, parted: bool) -> Iterator[str]:
    """A command as a text, and without what follows its first operand; none that prose may be."""
    name = words[0].rpartition("/")[2] if words else ""
    if len(words) < 2 or not _NAME.fullmatch(name):  # noqa: PLR2004  a name and what it is done to
        return
    operands = [word for word in words[1:] if not word.startswith("-")]
    spoken = len(words) >= _LEAST and (parted or len(operands) < len(words) - 1)
    if operands and (spoken or any(map(_OPERAND.search, operands))):
        yield " ".join((name, *words[1:]))
        if words[1].startswith("-") and len(words) > _LEAST:
            yield " ".join((name, *words[1:_LEAST]))


def _split_words(text: str) -> Iterator[list[str]]:
    """The words between the marks that stand in no quotes. Where quotes do not end, they are none."""
    tokens = [*_TOKEN.finditer(text)]
    if any(token["open"] for token in tokens):
        yield from (piece.split() for piece in _PARTS.split(text))
        return
    words: list[str] = []
    for token in tokens:
        if token["mark"]:
            yield words
            words = []
        else:
            words.append(_QUOTED.sub(_unquote, token["word"]))
    yield words


def _unquote(quoted: re.Match[str]) -> str:
    """The text in quotes, or behind a backslash."""
    return quoted[0][1:] if quoted[0].startswith("\\") else quoted[0][1:-1]
