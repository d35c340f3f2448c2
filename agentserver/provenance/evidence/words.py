"""Immutable index of word beginnings, which finds the places of short names and commands in long texts.

It sorts the first letters of each word with their places, in sixteen bytes per word, and grows by geometric merges of
at most ``RUN`` words.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

from agentserver.provenance.arrays import np
from agentserver.provenance.evidence.folding import fold_array, fold_bytes

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

BEFORE: Final = 3
"""Characters before a name that its pattern may inspect."""
HEAD: Final = 8
"""Letters by which words are sorted."""
RUN: Final = 1 << 19
"""Words of a run that is not merged further; a merge of that size takes a few milliseconds."""

SHORT: Final = 1000
"""Characters of texts, on average, that are read as one."""

_Run: TypeAlias = "tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]"


@dataclass(frozen=True, slots=True)
class WordIndex:
    """Sorted runs of first letters, text number and offset in the text."""

    runs: tuple[_Run, ...] = ()
    texts: int = 0

    @property
    def nbytes(self) -> int:
        """Resident size in bytes."""
        return sum(part.nbytes for run in self.runs for part in run)

    def add(self, bodies: Sequence[str]) -> WordIndex:
        """Add texts, numbered from ``self.texts``."""
        if not bodies:
            return self
        keys, numbers, offsets = _list_words(bodies)
        if not len(keys):
            return WordIndex(self.runs, self.texts + len(bodies))
        runs = [*self.runs, _sort_run(keys, numbers + np.uint32(self.texts), offsets)]
        while len(runs) > 1 and _mergeable_words(len(runs[-2][0]), len(runs[-1][0])):
            newer, older = runs.pop(), runs.pop()
            keys, texts, offsets = (np.concatenate((older[part], newer[part])) for part in range(3))
            runs.append(_sort_run(keys, texts, offsets))
        return WordIndex(tuple(runs), self.texts + len(bodies))

    def find_words(self, form: bytes, limit: int) -> tuple[tuple[int, int], ...]:
        """Find words with the beginning of an evidence form: text numbers and offsets, up to a number.

        The result does not depend on how the texts were added.
        """
        low = np.uint64(int.from_bytes(form[:HEAD].ljust(HEAD, b"\0"), "big"))
        high = np.uint64(int.from_bytes(form[:HEAD].ljust(HEAD, b"\xff"), "big"))
        rows: list[tuple[int, int, int]] = []
        for run in self.runs if form else ():
            rows += _iter_slice_run(run, low, high, limit)
        rows.sort()
        return tuple([(number, offset) for _, number, offset in rows[:limit]])


def matches_at(body: str, offset: int, name: re.Pattern[str], lead: int, length: int) -> bool:
    """Match a pattern at the beginning of a word that is ``lead`` characters after the start of the searched name."""
    begin = max(0, offset - lead - BEFORE)
    piece = body[begin : offset + 4 * length + 64]
    found = name.match(piece, offset - lead - begin) if offset >= lead else None
    return found is not None and (found.end() + 1 < len(piece) or begin + len(piece) == len(body))


def head_of(name: str) -> bytes:
    """Fold the sort prefix of a name."""
    for end in (8 * HEAD, len(name)):
        form = fold_bytes(name[:end])
        if len(form) >= HEAD or end >= len(name):
            return form[:HEAD]
    return form


def count_lead(name: str) -> int:
    """Count the characters before the first letter or digit of a name."""
    return next((at for at, char in enumerate(name) if fold_bytes(char)), 0)


def _list_words(bodies: Sequence[str]) -> _Run:
    """List each word by its first letters, with its text number and offset."""
    if len(bodies) > 1 and sum(map(len, bodies)) < SHORT * len(bodies):
        return _list_joined_words(bodies)
    heads = {body: _heads(body) for body in set(bodies)}
    found = [heads[body] for body in bodies]
    numbers = np.arange(len(bodies), dtype=np.uint32).repeat([len(keys) for keys, _ in found])
    keys, offsets = zip(*found, strict=True)
    return np.concatenate(keys), numbers, np.concatenate(offsets)


def _heads(body: str) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    form, offsets = fold_array(body)
    if not len(offsets):
        return np.zeros(0, dtype=np.uint64), offsets
    begins = np.concatenate(([0], (offsets[1:] > offsets[:-1] + 1).nonzero()[0] + 1))
    letters = np.ndarray((len(form),), dtype=">u8", buffer=form + bytes(HEAD), strides=(1,))
    return letters[begins].astype(np.uint64), offsets[begins]


def _list_joined_words(bodies: Sequence[str]) -> _Run:
    """Read short texts as one, since each step on an array costs more than a short text does."""
    form, places = fold_array("\n".join(bodies))
    none = np.zeros(0, dtype=np.uint32)
    if not len(places):
        return np.zeros(0, dtype=np.uint64), none, none
    begins = np.concatenate(([0], (places[1:] > places[:-1] + 1).nonzero()[0] + 1))
    letters = np.ndarray((len(form),), dtype=">u8", buffer=form + bytes(HEAD), strides=(1,))
    starts = np.array([0, *accumulate(len(body) + 1 for body in bodies)], dtype=np.int64)
    numbers = starts.searchsorted(places[begins], side="right") - 1
    # No letters of the next text: the first letters of a text's last words are fewer.
    fewer = HEAD - np.minimum(places.searchsorted(starts)[numbers + 1] - begins, HEAD)
    keys = letters[begins].astype(np.uint64) >> (8 * fewer).astype(np.uint64)
    keys = np.where(fewer > 0, keys << (8 * fewer).astype(np.uint64), keys)
    return keys, numbers.astype(np.uint32), (places[begins] - starts[numbers]).astype(np.uint32)


def _sort_run(
    keys: npt.NDArray[np.uint64], texts: npt.NDArray[np.uint32], offsets: npt.NDArray[np.uint32]
) -> _Run:
    """Sort a run. The sort is stable, so words with one beginning keep the order of their places."""
    order = keys.argsort(kind="stable")
    return keys[order], texts[order], offsets[order]


def _mergeable_words(older: int, newer: int) -> bool:
    return older <= 2 * newer and older + newer <= RUN


def _iter_slice_run(run: _Run, low: np.uint64, high: np.uint64, limit: int) -> Iterable[tuple[int, int, int]]:
    keys, texts, offsets = run
    begin = int(keys.searchsorted(low, side="left"))
    end = min(int(keys.searchsorted(high, side="right")), begin + limit)
    if begin >= end:
        return ()
    return zip(keys[begin:end].tolist(), texts[begin:end].tolist(), offsets[begin:end].tolist(), strict=True)
