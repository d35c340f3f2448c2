r"""A stranger's text as a reader may be shown it: escaped, replaced or cut.

Owns the one escape of the package: what would not be seen, what would pile up and what would be taken for another
character stands as ``\n``, ``\r``, ``\t``, ``\xhh``, ``\uhhhh`` or ``\Uhhhhhhhh``, and a backslash as two. So what is
shown says exactly one text. Owns as well what stands for an unseen character where
nothing has to be given back, and the marks of a cut. Refuses to know what a text is about and where it is shown. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from agentserver.characters.table import CJK, LATIN, looks_like, parts, script, seen, stacks, unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MARKS: Final = 4
"""Combining marks on one character that are shown as such; those beyond are escaped."""

CUT: Final = "\N{HORIZONTAL ELLIPSIS}"
"""The mark at the end of a text that was cut, unless its reader has other signs only."""
DOTS: Final = "..."
"""The mark for those."""
_MORE: Final = " ... ("
CUTS: Final = ("\n", "\r", CUT, DOTS, _MORE)
"""The characters that may follow where a text was cut."""

_WORD: Final = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+")
_SHORT: Final = {"\\": "\\", "\n": "n", "\r": "r", "\t": "t"}


def escaped(char: str) -> str:
    """One character by its number, or as programmers write it."""
    if char in _SHORT:
        return f"\\{_SHORT[char]}"
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004


def visible(text: str) -> str:
    """The text with everything escaped that a reader would not see, or take for something else.

    So are unseen characters; combining marks beyond MARKS of one character, and those with nothing to stand on;
    in a word of several scripts, what is not Latin, or not of the first script; a word of another script that
    passes for an ASCII one, unless most of the text is of that script and does not; and a sign between words
    that passes for an ASCII one.
    """
    if text.isascii():
        return text.replace("\\", "\\\\") if text.isprintable() else "".join(map(_ascii, text))
    return "".join(_marked(text, _foreign(text)))


def one_line(text: str) -> str:
    """The text for one line: as it is where a reader sees every character of it, else ``visible``."""
    return text if seen(text) else visible(text)


# Without a way back


def replaced(text: str, stand_in: Callable[[str], str]) -> str:
    """The text with ``stand_in`` of each unseen character in its place."""
    return text if seen(text) else "".join(stand_in(char) if unseen(char) else char for char in text)


def referenced(markup: str) -> str:
    """Markup that means the same on one line: what is not printable becomes a character reference."""
    return replaced(markup, lambda char: f"&#{ord(char)};")


def shortened(text: str, most: int, mark: str = CUT) -> str:
    """At most ``most`` characters, the last of them ``mark`` where the text has more."""
    return text if len(text) <= most else f"{text[: most - len(mark)]}{mark}"


def counted(text: str, most: int, show: Callable[[str], str] = str) -> str:
    """The first ``most`` characters as ``show`` gives them, and the number of those that are left out."""
    more = len(text) - most
    return show(text) if more <= 0 else f"{show(text[:most])}{_MORE}{more} more)"


def amount(number: int, noun: str) -> str:
    """A number of things in words: ``0 records``, ``1 record``, ``2 records``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def bounded(text: str, most: int, redact: Callable[[str], str]) -> str:
    """At most ``most`` characters, as they were written but for the secrets."""
    return redact(text)[:most]


def legible(text: str, most: int, redact: Callable[[str], str] = str) -> str:
    """One line of at most ``most`` characters, all of them seen.

    Secrets go first: of one that was cut, or of which a character was replaced, the rest could not be known.
    """
    told = redact(text)
    if len(told) <= most and told.isascii() and told.isprintable():
        return told
    return replaced(shortened(told, most), _blank)


def paragraph(text: str, most: int, lines: int, redact: Callable[[str], str] = str) -> str:
    """At most so many lines, each legible."""
    return "\n".join(legible(line, most) for line in redact(text).split("\n", lines)[:lines])


def _blank(char: str) -> str:
    return " " if char.isspace() else "\N{REPLACEMENT CHARACTER}"


def _ascii(char: str) -> str:
    return char if char.isprintable() and char != "\\" else escaped(char)


def _marked(text: str, foreign: frozenset[int]) -> Iterator[str]:
    """The characters of the text, those escaped that have to be."""
    plain = seen(text)
    room = 0  # for marks on the character before
    for place, char in enumerate(text):
        if char == "\\" or place in foreign or (not plain and unseen(char)):
            yield escaped(char)
            room = 0
        elif char.isascii() or not stacks(char):
            yield char
            room = 0 if char == " " else MARKS
        else:
            yield char if room else escaped(char)
            room = max(0, room - 1)


# Scripts


def _foreign(text: str) -> frozenset[int]:
    """The places of characters that pass for those of another script in their word, or for a sign between two words."""
    found = {
        at
        for at in range(1, len(text) - 1)
        if parts(text[at]) and text[at - 1].isalnum() and text[at + 1].isalnum() and _ascii_near(text, at)
    }
    words = [(match.start(), match.group()) for match in _WORD.finditer(text) if not match.group().isascii()]
    letters = _letters(text) if words else Counter()
    for start, word in words:
        found.update(start + at for at in _strange(word, letters))
    return frozenset(found)


def _ascii_near(text: str, at: int) -> bool:
    return text[at - 1].isascii() or text[at + 1].isascii()


def _strange(word: str, letters: Counter[str]) -> Iterator[int]:
    """The places in a word of what is not of its script; of all of it, where the word passes for an ASCII one."""
    scripts = list(map(script, word))
    home = LATIN if LATIN in scripts else next(filter(None, scripts), "")
    allowed = {"", home, CJK if home == LATIN else LATIN if home == CJK else home}
    passes = all(char.isascii() or looks_like(char) or not of for char, of in zip(word, scripts, strict=True))
    if home not in {LATIN, CJK} and passes and letters[LATIN] >= letters[home]:
        allowed = {""}
    digits = any(
        "0" <= char <= "9" for char in word
    )  # those of another script beside them make another number
    return (
        at
        for at, (char, found) in enumerate(zip(word, scripts, strict=True))
        if found not in allowed or (digits and found and char.isdecimal())
    )


def _letters(text: str) -> Counter[str]:
    """Count the letters of a text by script; of scripts but Latin, only those that look like no ASCII character."""
    found: Counter[str] = Counter()
    for char, count in Counter(text).items():
        if char.isascii() or not looks_like(char):
            found[script(char)] += count
    return found
