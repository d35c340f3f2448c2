"""The evidence form of a text: what two spellings of the same words share.

Owns one documented folding: what a character looks like, compatibility decomposition, and case folding last, since
the two cases of a letter may look like two others (a Greek capital Nu like N, the small one like v). Nothing but seen
letters and digits is left, so that spacing, punctuation, accents, fillers, zero-width and bidirectional controls do
not matter. ``i``, ``l`` and ``1``, and ``o`` and ``0``, fold together. Refuses to decide what is allowed:
evidence folds, authority never does.
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
"""Longest form of one character: a ligature of eighteen letters must not fill the index eighteenfold."""

_KEEP: Final = re.compile(r"[^\W_]+")
_ASCII_DROP: Final = bytes(c for c in range(128) if not chr(c).isalnum())
_ASCII_KEPT: Final = bytes(chr(c).isalnum() for c in range(128)) + bytes(128)
_ASCII_FOLD: Final = bytes.maketrans(b"i10", b"llo")


def fold(text: str) -> str:
    """The evidence form of ``text``. Idempotent; the form of two texts joined is their forms joined."""
    if text.isascii():
        return text.lower().encode("ascii").translate(_ASCII_FOLD, _ASCII_DROP).decode("ascii")
    return text.translate({ord(char): _fold_char(char) for char in set(text)})


def fold_bytes(text: str) -> bytes:
    """``fold`` in UTF-8, the unit in which spans are measured."""
    if text.isascii():
        return text.lower().encode("ascii").translate(_ASCII_FOLD, _ASCII_DROP)
    return fold(text).encode("utf-8", "surrogatepass")


def fold_map(text: str) -> tuple[bytes, list[int]]:
    """The evidence form, and for each of its bytes the offset in ``text`` of the character it came from."""
    if text.isascii():
        return fold_bytes(text), list(compress(range(len(text)), text.encode("ascii").translate(_ASCII_KEPT)))
    sizes = {char: len(fold_bytes(char)) for char in set(text)}
    offsets = [offset for offset, char in enumerate(text) for _ in range(sizes[char])]
    return fold_bytes(text), offsets


def fold_array(text: str) -> tuple[bytes, npt.NDArray[np.uint32]]:
    """The same as ``fold_map``, with the offsets as an array."""
    if text.isascii():
        kept = np.frombuffer(text.encode("ascii").translate(_ASCII_KEPT), dtype=np.bool_)
        return fold_bytes(text), np.flatnonzero(kept).astype(np.uint32)
    form, offsets = fold_map(text)
    return form, np.array(offsets, dtype=np.uint32)


def unfold(text: str, start: int, end: int) -> str:
    """The stretch of ``text`` that bytes ``start`` to ``end`` of its evidence form were made from."""
    if text.isascii():
        kept = text.encode("ascii").translate(_ASCII_KEPT)
        places = islice(compress(range(len(text)), kept), start, end)
        first = next(places)
        return text[first : deque(places, maxlen=1).pop() + 1]
    _, offsets = fold_map(text)
    return text[offsets[start] : offsets[end - 1] + 1]


def _fold_char(char: str) -> str:
    """To the fixed point: a folded character may decompose once more, and the pieces fold again."""
    while True:
        spread = unicodedata.normalize("NFKD", char.translate(TABLE)).translate(TABLE).casefold()
        kept = "".join(_KEEP.findall(spread.translate(ALIKE)))
        folded = "".join(each for each in kept if not is_unseen(each))[:EXPANSION]
        if folded == char:
            return folded
        char = folded
