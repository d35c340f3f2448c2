r"""Makes untrusted text safe to show: escapes, replaces or truncates it. Pure.

Escapes are unambiguous: an invisible character, an excess combining mark or a look-alike becomes ``\n``, ``\r``,
``\t``, ``\xhh``, ``\uhhhh`` or ``\Uhhhhhhhh``, and a backslash is doubled. Replacement and truncation lose characters
and mark where.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from agentserver.characters.table import (
    CJK,
    LATIN,
    is_all_visible,
    is_combining,
    is_fake_separator,
    is_unseen,
    looks_like,
    name_script,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MARKS: Final = 4
"""Combining marks shown on one character; further marks are escaped."""

CUT: Final = "\N{HORIZONTAL ELLIPSIS}"
"""The mark at the end of a truncated text."""
DOTS: Final = "..."
"""The same mark for output that is limited to ASCII."""
_MORE: Final = " ... ("
CUTS: Final = ("\n", "\r", CUT, DOTS, _MORE)
"""Characters that may follow the point of truncation."""

_WORD: Final = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+")
_SHORT: Final = {"\\": "\\", "\n": "n", "\r": "r", "\t": "t"}


def escape_char(char: str) -> str:
    """Escape one character by its code point, or by the short form of programming languages."""
    if char in _SHORT:
        return f"\\{_SHORT[char]}"
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004


def escape_unseen(text: str) -> str:
    """Escape every character that a reader would not see or would take for another.

    Escapes invisible characters; combining marks beyond MARKS on one character, or without a base character; in a
    word of mixed scripts, everything that is neither Latin nor of the first script; a word of another script that
    passes for ASCII, unless most of the text is unmistakably of that script; and a sign between words that passes for
    an ASCII separator.
    """
    if text.isascii():
        return text.replace("\\", "\\\\") if text.isprintable() else "".join(map(_escape_ascii, text))
    return "".join(_escape_chars(text, _find_foreign(text)))


def one_line(text: str) -> str:
    """Return the text unchanged if a reader sees every character of it, else with ``escape_unseen``."""
    return text if is_all_visible(text) else escape_unseen(text)


# Lossy forms


def replace_unseen(text: str, stand_in: Callable[[str], str]) -> str:
    """Replace each invisible character with the result of ``stand_in``."""
    return (
        text
        if is_all_visible(text)
        else "".join(stand_in(char) if is_unseen(char) else char for char in text)
    )


def escape_markup(markup: str) -> str:
    """Write markup on one line, with non-printable characters as character references."""
    return replace_unseen(markup, lambda char: f"&#{ord(char)};")


def truncate(text: str, maximum: int, mark: str = CUT) -> str:
    """Truncate to ``maximum`` characters, and end with ``mark`` if anything was cut."""
    return text if len(text) <= maximum else f"{text[: maximum - len(mark)]}{mark}"


def truncate_counting(text: str, maximum: int, show: Callable[[str], str] = str) -> str:
    """Truncate to ``maximum`` characters passed through ``show``, and append the number of omitted ones."""
    excess = len(text) - maximum
    return show(text) if excess <= 0 else f"{show(text[:maximum])}{_MORE}{excess} more)"


def format_amount(number: int, noun: str) -> str:
    """Format a count and its noun: ``0 records``, ``1 record``, ``2 records``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Format a duration as the YAML has it, in the largest unit without a remainder: ``90s``, ``15m``, ``1d``."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def redact_and_truncate(text: str, maximum: int, redact: Callable[[str], str]) -> str:
    """Redact secrets, then truncate to ``maximum`` characters."""
    return redact(text)[:maximum]


def clean_line(text: str, maximum: int, redact: Callable[[str], str] = str) -> str:
    """Make one line of at most ``maximum`` visible characters.

    Redacts secrets first: a secret that was cut or partly replaced would not be recognised.
    """
    redacted = redact(text)
    if len(redacted) <= maximum and redacted.isascii() and redacted.isprintable():
        return redacted
    return replace_unseen(truncate(redacted, maximum), _blank)


def clean_lines(text: str, maximum: int, lines: int, redact: Callable[[str], str] = str) -> str:
    """Make at most ``lines`` lines, each cleaned by ``clean_line``."""
    return "\n".join(clean_line(line, maximum) for line in redact(text).split("\n", lines)[:lines])


def _blank(char: str) -> str:
    return " " if char.isspace() else "\N{REPLACEMENT CHARACTER}"


def _escape_ascii(char: str) -> str:
    return char if char.isprintable() and char != "\\" else escape_char(char)


def _escape_chars(text: str, foreign: frozenset[int]) -> Iterator[str]:
    """Yield the characters of the text, escaped where necessary."""
    plain = is_all_visible(text)
    room = 0  # combining marks that the previous character may still carry
    for place, char in enumerate(text):
        if char == "\\" or place in foreign or (not plain and is_unseen(char)):
            yield escape_char(char)
            room = 0
        elif char.isascii() or not is_combining(char):
            yield char
            room = 0 if char == " " else MARKS
        else:
            yield char if room else escape_char(char)
            room = max(0, room - 1)


# Scripts


def _find_foreign(text: str) -> frozenset[int]:
    """Find the characters that pass for another script within their word, or for a separator between two words."""
    found = {
        at
        for at in range(1, len(text) - 1)
        if is_fake_separator(text[at])
        and text[at - 1].isalnum()
        and text[at + 1].isalnum()
        and _ascii_near(text, at)
    }
    words = [(match.start(), match.group()) for match in _WORD.finditer(text) if not match.group().isascii()]
    letters = _count_letters(text) if words else Counter()
    for start, word in words:
        found.update(start + at for at in _find_strange(word, letters))
    return frozenset(found)


def _ascii_near(text: str, at: int) -> bool:
    return text[at - 1].isascii() or text[at + 1].isascii()


def _find_strange(word: str, letters: Counter[str]) -> Iterator[int]:
    """Find the characters of a word that are not of its script; all of them if the word passes for an ASCII one."""
    scripts = list(map(name_script, word))
    home = LATIN if LATIN in scripts else next(filter(None, scripts), "")
    allowed = {"", home, CJK if home == LATIN else LATIN if home == CJK else home}
    passes = all(char.isascii() or looks_like(char) or not of for char, of in zip(word, scripts, strict=True))
    if home not in {LATIN, CJK} and passes and letters[LATIN] >= letters[home]:
        allowed = {""}
    digits = any(
        "0" <= char <= "9" for char in word
    )  # digits of another script next to ASCII ones would change the number
    return (
        at
        for at, (char, found) in enumerate(zip(word, scripts, strict=True))
        if found not in allowed or (digits and found and char.isdecimal())
    )


def _count_letters(text: str) -> Counter[str]:
    """Count the letters of a text by script, without non-Latin letters that look like ASCII characters."""
    found: Counter[str] = Counter()
    for char, count in Counter(text).items():
        if char.isascii() or not looks_like(char):
            found[name_script(char)] += count
    return found
