"""Draws the shape of a text in ASCII: digits, letters and the marks of dates, without the characters themselves.

A pattern that begins with a digit is tried at every digit. That a shape lacks what every match has is found several
times faster, so that most texts are not searched at all.
"""

from __future__ import annotations

from typing import Final

_DIGIT, _LETTER, _MARK, _SPACE = b"0a- "


def _draw_char(code: int) -> int:
    char = chr(code)
    if char.isdigit():
        return _DIGIT
    if char.isalpha() or (code < ord(" ") and not char.isspace()):  # the pattern of the lexicon has both
        return _LETTER
    return _MARK if char in "-/." else _SPACE if char == " " else ord("?")


_SHAPES: Final = bytes(map(_draw_char, range(128))) + bytes(128)
_PARTED: Final = (b"0-0-0", b"0-00-0")
_GAPPED: Final = (*_PARTED, b"0- 0-0", b"0- 00-0", b"0-0- 0", b"0-00- 0", b"0- 0- 0", b"0- 00- 0")
_LONG: Final = b"0" * 8
_BEGINNINGS: Final = (b"0aaa", b"0-aaa")
_ENDS: Final = (b"a00", b"a-00", b"a--00")
_SEPARATORS: Final = bytes(char in b" \t_-" for char in range(128)) + bytes(128)
_VISIBLE: Final = bytes(not chr(code).isspace() for code in range(128)) + bytes(128)
_CHAR: Final = 8
"""Bits of a character."""


def draw_shape(text: str) -> bytes:
    """Draw the shape of a text in ASCII: ``0`` for a digit, ``a`` for a letter, ``-`` for a mark of dates."""
    return text.encode("ascii").translate(_SHAPES)


def may_have_date(shape: bytes) -> bool:
    """Check whether a shape may have three numbers with a mark between them, such as ``1/2/2027``."""
    return any(part in shape for part in _PARTED)


def may_have_gapped_date(shape: bytes) -> bool:
    """Check whether a shape may have such numbers, also with a space behind a mark, such as ``1. 2. 2027``."""
    return any(part in shape for part in _GAPPED)


def may_have_bound_date(shape: bytes) -> bool:
    """Check whether a shape may have eight digits in a row, or letters between digits, such as ``31-Aug-2027``."""
    if _LONG in shape:
        return True
    return any(part in shape for part in _BEGINNINGS) and any(part in shape for part in _ENDS)


def may_be_spelled_out(text: str) -> bool:
    """Check whether a text in ASCII may have spaced letters: five separators, each before one other character."""
    data = text.encode("ascii")
    separators = int.from_bytes(data.translate(_SEPARATORS), "little")
    visible = int.from_bytes(data.translate(_VISIBLE), "little")
    pairs = separators & visible >> _CHAR
    twice = pairs & pairs >> 2 * _CHAR
    return bool(twice & twice >> 4 * _CHAR & pairs >> 8 * _CHAR)
