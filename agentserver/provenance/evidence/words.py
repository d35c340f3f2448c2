"""Immutable index of word beginnings, which finds the places of short names and commands in long texts.

It sorts the first letters of each word with their places, in sixteen bytes per word, and grows by geometric merges of
at most ``RUN`` words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from agentserver.provenance.arrays import np
from agentserver.provenance.evidence.folding import fold_array, fold_bytes

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

BEFORE: Final = 3
"""Characters before a name that its pattern may inspect."""
HEAD: Final = 8
"""Letters by which words are sorted."""
RUN: Final = 1 << 19
"""Words of a run that is not merged further; a merge of that size takes a few milliseconds."""

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
        heads = {body: _heads(body) for body in set(bodies)}
        found = [heads[body] for body in bodies]
        counts = [len(keys) for keys, _ in found]
        if not sum(counts):
            return WordIndex(self.runs, self.texts + len(bodies))
        numbers = np.repeat(np.arange(self.texts, self.texts + len(bodies), dtype=np.uint32), counts)
        keys = np.concatenate([keys for keys, _ in found])
        runs = [*self.runs, _sort_run(keys, numbers, np.concatenate([offsets for _, offsets in found]))]
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
        rows = sorted([row for run in self.runs for row in _slice_run(run, low, high, limit)]) if form else []
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


def lead_of(name: str) -> int:
    """Count the characters before the first letter or digit of a name."""
    return next((at for at, char in enumerate(name) if fold_bytes(char)), 0)


def _heads(body: str) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
    form, offsets = fold_array(body)
    if not len(offsets):
        return np.zeros(0, dtype=np.uint64), offsets
    begins = np.concatenate(([0], (offsets[1:] > offsets[:-1] + 1).nonzero()[0] + 1))
    letters = np.ndarray((len(form),), dtype=">u8", buffer=form + bytes(HEAD), strides=(1,))
    return letters[begins].astype(np.uint64), offsets[begins]


def _sort_run(
    keys: npt.NDArray[np.uint64], texts: npt.NDArray[np.uint32], offsets: npt.NDArray[np.uint32]
) -> _Run:
    """Sort a run. The sort is stable, so words with one beginning keep the order of their places."""
    order = keys.argsort(kind="stable")
    return keys[order], texts[order], offsets[order]


def _mergeable_words(older: int, newer: int) -> bool:
    return older <= 2 * newer and older + newer <= RUN


def _slice_run(run: _Run, low: np.uint64, high: np.uint64, limit: int) -> Iterator[tuple[int, int, int]]:
    begin = int(run[0].searchsorted(low, side="left"))
    end = min(int(run[0].searchsorted(high, side="right")), begin + limit)
    return zip(*(part[begin:end].tolist() for part in run), strict=True)
