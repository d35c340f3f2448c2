"""Splits shell text into simple commands, including the text that a shell receives as an argument.

Prose and a single command yield nothing.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

READ: Final = 1 << 14
"""Characters of a text that are searched for commands."""

WORDS: Final = 64
"""Words of a command that are compared; a text with the whole command has these as well."""

_PARTS: Final = re.compile(r"[;|&\n(){}`<>]+")
_QUOTED: Final = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""", re.DOTALL)
_TOKEN: Final = re.compile(
    rf"(?P<mark>{_PARTS.pattern})|(?P<word>(?:{_QUOTED.pattern}|[^\s;|&(){{}}`<>'\"\\])+)|(?P<open>['\"\\])",
    re.DOTALL,
)
"""Separator, word with its quotes, or unterminated quote."""
_PARTED: Final = re.compile(r";|\||&&|\n|\$\(|`")
"""Separators that do not occur in prose."""
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
"""Commands whose arguments form a command."""
_SET: Final = re.compile(r"\w+=\S*")
_NAME: Final = re.compile(r"[^\W\d_][\w+.-]*")
_OPERAND: Final = re.compile(r"[/.:=*~$\d]")
"""Character of a path, an address or a version, which words of prose do not have."""
_LEAST: Final = 3
"""Words from which a command counts even if its operands are words of prose."""


def find_commands(text: str, most: int) -> tuple[str, ...]:
    """Find the simple commands of a shell text, up to a number. Quoted text counts only if a shell receives it."""
    return tuple(islice(_drop_repeats(_split_commands(text[:READ], inside=False)), most))


def _drop_repeats(commands: Iterator[str]) -> Iterator[str]:
    """Drop repeated commands, so that they do not use up the limit."""
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
            words = words[1:]  # noqa: PLW2901  skips the command's environment
        if parted or len(pieces) > 1:
            yield from _format_command(words[:WORDS], parted=parted)
        for at in range(1, len(words)):
            after = words[at - 1].rpartition("/")[2] in _HANDS_ON
            if after or (words[at + 1 : at + 2] and words[at + 1].startswith("-")):
                yield from _format_command(words[at : at + WORDS], parted=after)
        if not inside:
            yield from _find_shell_arguments(words)


def _find_shell_arguments(words: list[str]) -> Iterator[str]:
    """Find the commands in arguments that a shell runs, and in command substitutions."""
    runs = any(_RUNS.fullmatch(word.rpartition("/")[2]) for word in words)
    for word in words:
        if (runs and " " in word) or "$(" in word or "`" in word:
            yield from _split_commands(word, inside=True)


def _format_command(words: list[str], *, parted: bool) -> Iterator[str]:
    """Format a command in full and up to its first operand, unless it may be prose."""
    name = words[0].rpartition("/")[2] if words else ""
    if len(words) < 2 or not _NAME.fullmatch(name):  # noqa: PLR2004  a name and an operand
        return
    operands = [word for word in words[1:] if not word.startswith("-")]
    spoken = len(words) >= _LEAST and (parted or len(operands) < len(words) - 1)
    if operands and (spoken or any(map(_OPERAND.search, operands))):
        yield " ".join((name, *words[1:]))
        if words[1].startswith("-") and len(words) > _LEAST:
            yield " ".join((name, *words[1:_LEAST]))


def _split_words(text: str) -> Iterator[list[str]]:
    """Split text into words between unquoted separators. An unterminated quote does not quote."""
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
    """Return text without its quotes or backslash."""
    return quoted[0][1:] if quoted[0].startswith("\\") else quoted[0][1:-1]
