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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        for decoded in layer:
            if decoded.body not in seen:
                seen.add(decoded.body)
                found.append(decoded)
    return tuple(found)


def apply_involutions(text: str) -> tuple[DecodedText, ...]:
    """Apply the encodings that are their own inverse: ROT13 and reversal."""
    return (DecodedText(codecs.encode(text, "rot13"), "rot13"), DecodedText(text[::-1], "reversed"))


def _unwrap_layer(outer: DecodedText) -> Iterator[DecodedText]:
    for name, decoder in _DECODERS:
        pieces = [piece for piece in decoder(outer.body) if piece.strip()]
        via = f"{name} in {outer.via}" if outer.via else name
        if pieces:
            yield DecodedText("\n".join(pieces), via)


def _base64(text: str) -> Iterator[str]:
    known: dict[str, tuple[str, ...]] = {}
    for word in _BASE64.findall(text):
        if word not in known:
            body = word.rstrip("=")
            if len(body) % 4 == 1:
                body = body[:-1]
            padded = (body + "=" * (-len(body) % 4)).replace("-", "+").replace("_", "/")
            known[word] = tuple(_keep_readable(binascii.a2b_base64(padded)))
        yield from known[word]


def _base32(text: str) -> Iterator[str]:
    for match in _BASE32.finditer(text):
        body = match.group().rstrip("=")
        try:
            yield from _keep_readable(base64.b32decode(body + "=" * (-len(body) % 8)))
        except binascii.Error:
            continue


def _hex(text: str) -> Iterator[str]:
    for match in _HEX.finditer(text):
        digits = _HEX_NOISE.sub("", match.group())
        yield from _keep_readable(bytes.fromhex(digits[: len(digits) & ~1]))


def _codes(text: str) -> Iterator[str]:
    for match in _CODES.finditer(text):
        numbers = [int(number) for number in re.findall(r"\d+", match.group())]
        if all(number < 256 for number in numbers):  # noqa: PLR2004  a byte
            yield from _keep_readable(bytes(numbers))


def _percent(text: str) -> Iterator[str]:
    return _decode_words(text, "%", unquote)


def _entities(text: str) -> Iterator[str]:
    return _decode_words(text, "&", html.unescape)


def _escapes(text: str) -> Iterator[str]:
    return _decode_words(text, "\\", _unescape)


def _unescape(word: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), word)


def _decode_words(text: str, mark: str, decode: Callable[[str], str]) -> Iterator[str]:
    """Decode a text word by word, and return the changed ones only."""
    if mark in text:
        for word in text.split():
            plain = decode(word) if mark in word else word
            if plain != word:
                yield plain


def _join_spoken(text: str) -> Iterator[str]:
    """Decode spelled-out addresses such as ``bob at evil dot com``, but leave prose with ``at`` alone."""
    if "dot" in text.lower() and _DOT.search(text):
        for match in _ADDRESS_LIKE.finditer(text):
            if _DOT.search(match.group()):
                yield _SPOKEN.sub(lambda word: _SPOKEN_AS[word[1].casefold()], match.group())


def _drop_invisible(text: str) -> Iterator[str]:
    """Remove unseen characters within words. The span index skips them, the inventory does not."""
    if not text.isascii() and _UNSEEN.search(text):
        for word in text.split():
            plain = _UNSEEN.sub("", word)
            if plain != word:
                yield plain


def _join_letters(text: str) -> Iterator[str]:
    """Join spaced letters such as ``b o b @ c o r p . c o m``."""
    for match in _SINGLE.finditer(text):
        yield _GAP.sub("", match.group())


def _keep_readable(data: bytes) -> Iterator[str]:
    """Return decoded bytes if nearly all of them are printable text."""
    text = data.decode("utf-8", "ignore")
    if len(text) < 4 or len(text) * 10 < len(data) * 9:  # noqa: PLR2004 - shorter than any evidence
        return
    if not text.isprintable():
        printable = sum(char.isprintable() or char.isspace() for char in text)
        if printable * 20 < len(text) * 19:
            return
    yield text


_DECODERS: Final[tuple[tuple[str, Callable[[str], Iterator[str]]], ...]] = (
    ("percent encoding", _percent),
    ("character references", _entities),
    ("escapes", _escapes),
    ("base64", _base64),
    ("base32", _base32),
    ("hexadecimal", _hex),
    ("character codes", _codes),
    ("spoken punctuation", _join_spoken),
    ("invisible characters", _drop_invisible),
    ("spelled out", _join_letters),
)
