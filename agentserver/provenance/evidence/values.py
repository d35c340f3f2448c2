"""Immutable table from the hash of a value to the texts that contain it.

It takes twelve bytes per value and grows by geometric merges, as the span index does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from agentserver.provenance.arrays import np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

_Run: TypeAlias = "tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]"


@dataclass(frozen=True, slots=True)
class Table:
    """Sorted runs of pairs of a hash and a text number."""

    runs: tuple[_Run, ...] = ()

    @property
    def nbytes(self) -> int:
        """Resident size in bytes."""
        return sum(keys.nbytes + texts.nbytes for keys, texts in self.runs)

    def add(self, entries: Iterable[tuple[int, int]]) -> Table:
        """Add pairs of a hash and a text number, without duplicates."""
        pairs = sorted(set(entries))
        if not pairs:
            return self
        keys = np.array([key for key, _ in pairs], dtype=np.uint64)
        runs = [*self.runs, (keys, np.array([text for _, text in pairs], dtype=np.uint32))]
        while len(runs) > 1 and len(runs[-2][0]) <= 2 * len(runs[-1][0]):
            right = runs.pop()
            runs.append(_merge_values(runs.pop(), right))
        return Table(tuple(runs))

    def find(self, keys: Sequence[int]) -> list[int | None]:
        """Find one text for each hash, or ``None``."""
        wanted = np.array(keys, dtype=np.uint64)
        found = np.full(len(keys), -1, dtype=np.int64)
        for hashes, texts in self.runs:
            at = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
            here = (hashes[at] == wanted) & (found < 0)
            found[here] = texts[at[here]]
        return [None if number < 0 else number for number in found.tolist()]

    def find_all(self, key: int, most: int) -> list[int]:
        """Find the texts with a value by its hash, up to a number, in order."""
        found: list[int] = []
        for hashes, texts in self.runs:  # a run keeps the texts of one hash in order
            at = int(np.searchsorted(hashes, np.uint64(key)))
            end = int(np.searchsorted(hashes[at : at + most], np.uint64(key), side="right")) + at
            found += texts[at:end].tolist()
        return sorted(found)[:most]

    def holds(self, keys: Sequence[int], before: int) -> bool:
        """Return whether one of the first ``before`` texts has a value with one of these hashes."""
        return any(number < before for key in keys for number in self.find_all(key, 1))

    def first(self, key: int) -> int | None:
        """Find one text with a value by its hash."""
        return self.find((key,))[0]


def _merge_values(left: _Run, right: _Run) -> _Run:
    keys = np.concatenate((left[0], right[0]))
    order = np.argsort(keys, kind="stable")
    return keys[order], np.concatenate((left[1], right[1]))[order]
