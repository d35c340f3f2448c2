"""Undoes cheap reversible encodings to reveal the texts wrapped in a text.

Work and output are linear in the text: every decoder shortens its input, and at most ``DEPTH`` layers are undone.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from agentserver.provenance.evidence.shapes import may_be_spelled_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DEPTH: Final = 2
"""Nested encodings that are undone."""

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_BASE32: Final = re.compile(r"[A-Z2-7](?<!\w[A-Z2-7])[A-Z2-7]{15,}={0,6}")
_PAIR: Final = r"(?:0x|\\x|%)?[0-9A-Fa-f]{2}[\s:,-]?"
_HEX: Final = re.compile(
    rf"[0-9A-Fa-f%\\](?:(?<=0)x[0-9A-Fa-f]{{2}}|(?<=\\)x[0-9A-Fa-f]{{2}}|(?<=%)[0-9A-Fa-f]{{2}}|(?<=[0-9A-Fa-f])[0-9A-Fa-f])"
    rf"[\s:,-]?(?:{_PAIR}){{5,}}"
)
"""Pattern of six or more pairs. Patterns that begin with a class of characters are searched for fast."""
_HEX_NOISE: Final = re.compile(r"0x|\\x|[%\s:,-]")
_CODES: Final = re.compile(r"\d(?<!\w\d)\d{1,2}(?:[\s,;]+\d{2,3}){5,}\b")
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff]+"
)
_SINGLE: Final = re.compile(r"(?<!\S)\S(?:[ \t_-]\S){5,}(?!\S)")
_PARTED: Final = re.compile(r"[ \t_-]\S(?:[ \t_-]\S){4}(?!\S)")
"""Pattern that each match of ``_SINGLE`` ends with."""
_GAP: Final = re.compile(r"[ \t_-](?=\S)")
_ESCAPE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})")
_SPOKEN: Final = re.compile(
    r"(?:(?<!\s)\s++)?(?:[\[({<]\s*+)?\b(at|dot|dash|hyphen|underscore|slash|colon)\b\s*+[\])}>]?\s*+",
    re.IGNORECASE,
)
_ADDRESS_LIKE: Final = re.compile(r"[^\s]{1,64}(?:\s+[^\s]{1,64}){2,12}")
_DOT: Final = re.compile(r"\bdot\b", re.IGNORECASE)
_SPOKEN_AS: Final = {
    "at": "@",
    "dot": ".",
    "dash": "-",
    "hyphen": "-",
    "underscore": "_",
    "slash": "/",
    "colon": ":",
}


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Decoded text with its encoding."""

    body: str
    via: str


def unwrap(text: str) -> tuple[DecodedText, ...]:
    """Decode the texts wrapped in a text, outermost first, without repeats."""
    seen = {text}
    found: list[DecodedText] = []
    layer = [DecodedText(text, "")]
    for _ in range(DEPTH):
        layer = [inner for outer in layer for inner in _unwrap_layer(outer) if inner.body not in seen]
        if not layer:
            break
        for decoded in layer:
            if decoded.body not in seen:
                seen.add(decoded.body)
                found.append(decoded)
    return tuple(found)


def apply_involutions(text: str) -> tuple[DecodedText, ...]:
    """Apply the encodings that are their own inverse: ROT13 and reversal."""
    rotated = text.encode().translate(_ROT13).decode() if text.isascii() else codecs.encode(text, "rot13")
    return (DecodedText(rotated, "rot13"), DecodedText(text[::-1], "reversed"))


_ROT13: Final = bytes(codecs.encode("".join(map(chr, range(128))), "rot13"), "ascii") + bytes(128)
"""Table of bytes, since a codec reads a text character by character."""


def _unwrap_layer(outer: DecodedText) -> Iterator[DecodedText]:
    for name, decoder in _DECODERS:
        found = decoder(outer.body)
        if found and (pieces := [piece for piece in found if piece.strip()]):
            yield DecodedText("\n".join(pieces), f"{name} in {outer.via}" if outer.via else name)


def _base64(text: str) -> Iterable[str]:
    words = _BASE64.findall(text)
    known = {word: found for word in set(words) if (found := _decode_base64(word))}
    return [found for word in words if word in known for found in known[word]] if known else ()


def _decode_base64(word: str) -> Iterable[str]:
    body = word.rstrip("=")
    if len(body) % 4 == 1:
        body = body[:-1]
    data = binascii.a2b_base64((body + _PADDING[len(body) % 4]).translate(_URL_SAFE))
    if len(data) < _LOSSY and not data.isascii():  # one character less is more than a tenth
        return ()
    return _keep_readable(data)


_PADDING: Final = ("", "===", "==", "=")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_LOSSY: Final = 10
"""Bytes below which a readable text has no character of several bytes."""


def _base32(text: str) -> Iterable[str]:
    if text.isascii() and _LONG_BASE32 not in text.encode().translate(_BASE32_DIGITS):
        return ()
    return [plain for match in _BASE32.finditer(text) for plain in _decode_base32(match.group().rstrip("="))]


def _decode_base32(body: str) -> Iterable[str]:
    try:
        return _keep_readable(base64.b32decode(body + "=" * (-len(body) % 8)))
    except binascii.Error:
        return ()


def _decode_hex(text: str) -> Iterable[str]:
    if text.isascii() and _PAIRS not in text.encode().translate(_HEX_DIGITS, _BETWEEN_PAIRS):
        return ()
    found = [_HEX_NOISE.sub("", match.group()) for match in _HEX.finditer(text)]
    return [plain for digits in found for plain in _keep_readable(bytes.fromhex(digits[: len(digits) & ~1]))]


def _decode_codes(text: str) -> Iterable[str]:
    if text.isascii() and _PAIRS not in text.encode().translate(_DECIMAL_DIGITS, _BETWEEN_CODES):
        return ()
    found = [[*map(int, re.findall(r"\d+", match.group()))] for match in _CODES.finditer(text)]
    return [plain for numbers in found if max(numbers) <= _BYTE for plain in _keep_readable(bytes(numbers))]


_BYTE: Final = 255


def _map_digits(digits: bytes) -> bytes:
    """Build a table that maps digits to ``0`` and all other bytes to spaces."""
    return bytes(ord("0") if byte in digits else ord(" ") for byte in range(256))


_LONG_BASE32: Final = b"0" * 16
_BASE32_DIGITS: Final = _map_digits(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
_PAIRS: Final = b"0" * 12
"""Six numbers of two digits, as a table of digits maps them where nothing else is between them."""
_HEX_DIGITS: Final = _map_digits(b"0123456789abcdefABCDEF")
_DECIMAL_DIGITS: Final = _map_digits(b"0123456789")
_SPACES: Final = bytes(byte for byte in range(128) if chr(byte).isspace())
_BETWEEN_PAIRS: Final = _SPACES + b":,-%x\\"
_BETWEEN_CODES: Final = _SPACES + b",;"


def _decode_percent(text: str) -> Iterable[str]:
    return _decode_words(text, "%", unquote) if "%" in text else ()


def _decode_entities(text: str) -> Iterable[str]:
    return _decode_words(text, "&", html.unescape) if "&" in text else ()


def _escapes(text: str) -> Iterable[str]:
    return _decode_words(text, "\\", _unescape) if "\\" in text else ()


def _unescape(word: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), word)


def _decode_words(text: str, mark: str, decode: Callable[[str], str]) -> list[str]:
    """Decode a text word by word, and return the changed ones only."""
    marked = [word for word in text.split() if mark in word]
    return [plain for word in marked if (plain := decode(word)) != word]


def _join_spoken(text: str) -> Iterable[str]:
    """Decode spelled-out addresses such as ``bob at evil dot com``, but leave prose with ``at`` alone."""
    if "dot" not in text.lower() or _DOT.search(text) is None:
        return ()
    found = [match.group() for match in _ADDRESS_LIKE.finditer(text)]
    return [
        _SPOKEN.sub(lambda word: _SPOKEN_AS[word[1].casefold()], piece)
        for piece in found
        if _DOT.search(piece)
    ]


def _drop_invisible(text: str) -> Iterable[str]:
    """Remove unseen characters within words. The span index skips them, the inventory does not."""
    if text.isascii() or _UNSEEN.search(text) is None:
        return ()
    return [plain for word in text.split() if (plain := _UNSEEN.sub("", word)) != word]


def _read_hidden(text: str) -> Iterable[str]:
    """Read what tag characters and variation selectors spell: nobody sees them, and models read them."""
    if text.isascii():
        return []
    tagged = [match.group().translate(_TAGS) for match in _TAGGED.finditer(text)]
    selected = (bytes(_SELECTORS[char] for char in match.group()) for match in _SELECTED.finditer(text))
    return [*tagged, *(plain for data in selected for plain in _keep_readable(data))]


_TAGS: Final = {0xE0000 + code: code for code in range(32, 127)}
_TAGGED: Final = re.compile("[\U000e0020-\U000e007e]{2,}")
_SELECTORS: Final = {
    chr(code): byte for byte, code in enumerate((*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
}
"""Variation selectors, with the byte that each one means."""
_SELECTED: Final = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}")


def _join_letters(text: str) -> Iterable[str]:
    """Join spaced letters such as ``b o b @ c o r p . c o m``."""
    if text.isascii() and not may_be_spelled_out(text):
        return ()
    if _PARTED.search(text) is None:
        return ()
    return [_GAP.sub("", match.group()) for match in _SINGLE.finditer(text)]


def _keep_readable(data: bytes) -> Iterable[str]:
    """Return decoded bytes if nearly all of them are printable text."""
    text = data.decode("utf-8", "ignore")
    if len(text) < 4 or len(text) * 10 < len(data) * 9:  # noqa: PLR2004 - shorter than any evidence
        return ()
    if not text.isprintable():
        printable = sum(char.isprintable() or char.isspace() for char in text)
        if printable * 20 < len(text) * 19:
            return ()
    return (text,)


_DECODERS: Final[tuple[tuple[str, Callable[[str], Iterable[str]]], ...]] = (
    ("percent encoding", _decode_percent),
    ("character references", _decode_entities),
    ("escapes", _escapes),
    ("base64", _base64),
    ("base32", _base32),
    ("hexadecimal", _decode_hex),
    ("character codes", _decode_codes),
    ("spoken punctuation", _join_spoken),
    ("invisible characters", _drop_invisible),
    ("hidden characters", _read_hidden),
    ("spelled out", _join_letters),
)
