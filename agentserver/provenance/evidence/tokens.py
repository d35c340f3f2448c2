"""Splits texts into folded words, the form of the table of words."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

LETTER: Final = r"[^\s\d!-/:-@\[-`{-¿\u2000-\u206f\u20a0-\u20cf\u3000-\u303f]"
"""Pattern of a letter, or of a mark that belongs to one, which words of India consist of as well."""

_HIDDEN: Final = re.compile(r"[\u00ad\u200c\u200d.]")


def fold_word(word: str) -> str:
    """Fold a word to the form of the table: without letter case, dots and hyphens that are not shown."""
    folded = word.casefold()
    if folded.isascii():
        return folded.replace(".", "").strip(" '")
    return _HIDDEN.sub("", folded).strip(" \u00a0\u202f'’")


Word: TypeAlias = tuple[str, int, int]
"""Folded word of a text, with its start and end."""

WORD: Final = re.compile(rf"{LETTER}+(?:['’]{LETTER}+)*")


def find_words(text: str) -> list[Word]:
    """Split a text into folded words."""
    return [(fold_word(match[0]), *match.span()) for match in WORD.finditer(text)]
