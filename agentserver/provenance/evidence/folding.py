"""Folds texts to their evidence form, which different spellings of the same words share.

Folding maps look-alikes, decomposes compatibility characters, and folds case last, because the two cases of a letter
may look like two others. Only visible letters and digits remain: spacing, punctuation, accents, zero-width and
bidirectional controls are dropped. ``i``, ``l`` and ``1`` are equal, and so are ``o`` and ``0``. Evidence is folded;
authority never is.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from itertools import compress, islice
from typing import TYPE_CHECKING, Final

from agentserver.characters.table import ALIKE, TABLE, is_unseen
from agentserver.provenance.arrays import np

if TYPE_CHECKING:
    import numpy.typing as npt

EXPANSION: Final = 4
"""Characters that one folded character may become; a ligature of eighteen letters must not multiply the index."""

_KEEP: Final = re.compile(r"[^\W_]+")
_ASCII_DROP: Final = bytes(c for c in range(128) if not chr(c).isalnum())
_ASCII_KEPT: Final = bytes(chr(c).isalnum() for c in range(128)) + bytes(128)
_ASCII_FOLD: Final = bytes.maketrans(b"i10", b"llo")


def fold(text: str) -> str:
    """Fold a text. The function is idempotent and distributes over concatenation."""
    if text.isascii():
        return text.lower().encode("ascii").translate(_ASCII_FOLD, _ASCII_DROP).decode("ascii")
    return text.translate({ord(char): _fold_char(char) for char in set(text)})


def fold_bytes(text: str) -> bytes:
    """Fold a text to UTF-8, the unit of spans."""
    if text.isascii():
        return text.lower().encode("ascii").translate(_ASCII_FOLD, _ASCII_DROP)
    return fold(text).encode("utf-8", "surrogatepass")


def fold_map(text: str) -> tuple[bytes, list[int]]:
    """Fold a text, and map each byte to the offset of its original character."""
    if text.isascii():
        return fold_bytes(text), list(compress(range(len(text)), text.encode("ascii").translate(_ASCII_KEPT)))
    sizes = {char: len(fold_bytes(char)) for char in set(text)}
    offsets = [offset for offset, char in enumerate(text) for _ in range(sizes[char])]
    return fold_bytes(text), offsets


def fold_array(text: str) -> tuple[bytes, npt.NDArray[np.uint32]]:
    """Fold as ``fold_map`` does, with the offsets as an array."""
    if text.isascii():
        mask = np.frombuffer(text.encode("ascii").translate(_ASCII_KEPT), dtype=np.bool_)
        return fold_bytes(text), np.flatnonzero(mask).astype(np.uint32)
    form, offsets = fold_map(text)
    return form, np.array(offsets, dtype=np.uint32)


def unfold(text: str, start: int, end: int) -> str:
    """Return the part of a text that the bytes from ``start`` to ``end`` of its evidence form came from."""
    if text.isascii():
        mask = text.encode("ascii").translate(_ASCII_KEPT)
        places = islice(compress(range(len(text)), mask), start, end)
        first = next(places)
        return text[first : deque(places, maxlen=1).pop() + 1]
    _, offsets = fold_map(text)
    return text[offsets[start] : offsets[end - 1] + 1]


def _fold_char(char: str) -> str:
    """Fold a character to the fixed point, because folded characters may decompose again."""
    while True:
        spread = unicodedata.normalize("NFKD", char.translate(TABLE)).translate(TABLE).casefold()
        letters = "".join(_KEEP.findall(spread.translate(ALIKE)))
        folded = "".join(each for each in letters if not is_unseen(each))[:EXPANSION]
        if folded == char:
            return folded
        char = folded
