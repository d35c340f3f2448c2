"""Logs of a thread: append-only lists of values of one class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

COMPACT: Final = 64
"""Removed entries up to which a log still shares the list of its earlier version."""


class LogChange(NamedTuple):
    """Change of one log.

    Args:
        kind: name of the payload element of its entries.
        dropped: number of removed entries, the oldest ones.
        appended: the new entries, encoded.
    """

    kind: str
    dropped: int
    appended: tuple[bytes, ...]


class ThreadLog:
    """Encoded values, oldest first, each with a permanent number.

    Versions share a list of entries: this one has the entries ``start`` to ``end`` of ``shared``, whose first entry has
    the number ``base``. ``size`` is their bytes.

    Args:
        entries: in order.
        first: the number of the first entry; the others follow without a gap.
    """

    __slots__ = ("base", "end", "shared", "size", "start")

    def __init__(self, entries: Iterable[bytes] = (), first: int = 0) -> None:
        self.shared = list(entries)
        self.start, self.end, self.base = 0, len(self.shared), first
        self.size = sum(map(len, self.shared))

    @property
    def first(self) -> int:
        """The number of the oldest entry; of the next one in an empty log."""
        return self.base + self.start

    def apply(self, change: LogChange) -> ThreadLog:
        """Return the log after a change, in time proportional to the change."""
        removed = self.list_oldest(change.dropped) if change.dropped else ()
        entries, base, start, end = self.shared, self.base, self.start + len(removed), self.end
        if len(entries) != end or start > max(COMPACT, end - start):
            entries, base, start, end = entries[start:end], base + start, 0, end - start
        entries.extend(change.appended)
        after = ThreadLog.__new__(ThreadLog)
        after.shared, after.base, after.start = entries, base, start
        after.end = end + len(change.appended)
        after.size = self.size - sum(map(len, removed)) + sum(map(len, change.appended))
        return after

    def find_diff(self, before: ThreadLog | None) -> dict[int, bytes | None]:
        """Return the entries added since an earlier version, by number; None for removed ones.

        Args:
            before: the earlier version; None for no log.
        """
        stored = range(0) if before is None else before.numbers()
        current = self.numbers()
        changed: dict[int, bytes | None] = dict.fromkeys(range(stored.start, min(stored.stop, current.start)))
        new = range(max(stored.stop, current.start), current.stop)
        changed.update(zip(new, self._collect_entries_at(new), strict=True))
        return changed

    def numbers(self) -> range:
        """Return the numbers of its entries."""
        return range(self.first, self.base + self.end)

    def list_oldest(self, count: int) -> list[bytes]:
        """Return the first ``count`` entries, or all."""
        return self.shared[self.start : min(self.start + count, self.end)]

    def _collect_entries_at(self, numbers: range) -> list[bytes]:
        return self.shared[numbers.start - self.base : max(numbers.start, numbers.stop) - self.base]

    def __len__(self) -> int:
        return self.end - self.start

    def __iter__(self) -> Iterator[bytes]:
        return islice(self.shared, self.start, self.end)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ThreadLog):
            return NotImplemented
        return self.numbers() == other.numbers() and all(map(bytes.__eq__, self, other))

    def __hash__(self) -> int:
        return hash((self.first, len(self), self.size))

    def __repr__(self) -> str:
        return f"ThreadLog({list(self)}, first={self.first})"


Logs = Mapping[str, ThreadLog]
"""The logs of a thread, by payload element of the entries. No log is empty."""

NO_LOGS: Logs = MappingProxyType({})


def apply_log_changes(logs: Logs, changes: Iterable[LogChange]) -> Logs:
    """Apply changes to the logs of a thread and drop empty logs."""
    changed = dict(logs)
    for change in changes:
        before = changed.get(change.kind)
        log = (ThreadLog() if before is None else before).apply(change)
        if log.end > log.start:
            changed[change.kind] = log
        else:
            changed.pop(change.kind, None)
    return changed


def read_logs(entries: Mapping[str, Mapping[int, bytes]]) -> Logs:
    """Build the logs of a thread from numbered entries. Raises ValueError for a gap."""
    logs = {}
    for kind, numbered in entries.items():
        numbers = sorted(numbered)
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise ValueError(f"entries of the log {kind} are missing")
        logs[kind] = ThreadLog((numbered[number] for number in numbers), numbers[0])
    return logs or NO_LOGS
