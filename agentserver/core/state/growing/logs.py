"""Logs of a thread: append-only lists of values of one class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple

COMPACT: Final = 64
"""Entries that are gone up to which a log shares its list with the longer one that it was made from."""


class LogChange(NamedTuple):
    """A change of one log.

    Args:
        kind: name of the payload element of its entries.
        dropped: how many of the entries that were there are gone, the oldest first.
        appended: the new entries, encoded.
    """

    kind: str
    dropped: int
    appended: tuple[bytes, ...]


class ThreadLog:
    """Encoded values, oldest first. Each has a number that it keeps while it is there.

    Later versions share their list of entries with the earlier ones that they were made from: these are the entries
    ``start`` to ``end`` of ``shared``, of which the first has the number ``base``. ``size`` is the bytes of these.

    Args:
        entries: in order.
        first: the number of the first of them; the others follow it without a gap.
    """

    __slots__ = ("base", "end", "shared", "size", "start")

    def __init__(self, entries: Iterable[bytes] = (), first: int = 0) -> None:
        self.shared = list(entries)
        self.start, self.end, self.base = 0, len(self.shared), first
        self.size = sum(map(len, self.shared))

    @property
    def first(self) -> int:
        """The number of the oldest entry, or of the next one when there is none."""
        return self.base + self.start

    def after(self, change: LogChange) -> ThreadLog:
        """The log as a change leaves it. Costs what the change is about."""
        gone = self.oldest(change.dropped)
        entries, base, start, end = self.shared, self.base, self.start + len(gone), self.end
        if len(entries) != end or start > max(COMPACT, end - start):
            entries, base, start, end = entries[start:end], base + start, 0, end - start
        entries.extend(change.appended)
        after = ThreadLog.__new__(ThreadLog)
        after.shared, after.base, after.start = entries, base, start
        after.end = end + len(change.appended)
        after.size = self.size - sum(map(len, gone)) + sum(map(len, change.appended))
        return after

    def since(self, before: ThreadLog | None) -> dict[int, bytes | None]:
        """The entries that this log has and an earlier version had not, by number; None for those that are gone.

        Args:
            before: the version that ``after`` made this one from, at once or in several steps; None for no log.
        """
        known = range(0) if before is None else before.numbers()
        own = self.numbers()
        changed: dict[int, bytes | None] = dict.fromkeys(range(known.start, min(known.stop, own.start)))
        new = range(max(known.stop, own.start), own.stop)
        changed.update(zip(new, self._of(new), strict=True))
        return changed

    def numbers(self) -> range:
        """The numbers of its entries."""
        return range(self.first, self.base + self.end)

    def oldest(self, count: int) -> list[bytes]:
        """The first entries, as many as that or all that there are."""
        return self.shared[self.start : min(self.start + count, self.end)]

    def _of(self, numbers: range) -> list[bytes]:
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
"""The logs of a thread, by the name of the payload element of their entries. None of them is empty."""

NO_LOGS: Logs = MappingProxyType({})


def apply_log_changes(logs: Logs, changes: Iterable[LogChange]) -> Logs:
    """The logs of a thread after changes of some. One of which nothing is left is none any more."""
    made = dict(logs)
    for change in changes:
        log = made.get(change.kind, ThreadLog()).after(change)
        if log:
            made[change.kind] = log
        else:
            made.pop(change.kind, None)
    return made


def read_logs(entries: Mapping[str, Mapping[int, bytes]]) -> Logs:
    """The logs of a thread from their entries by number. Raises ValueError when numbers are missing between others."""
    logs = {}
    for kind, numbered in entries.items():
        numbers = sorted(numbered)
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise ValueError(f"entries of the log {kind} are missing")
        logs[kind] = ThreadLog((numbered[number] for number in numbers), numbers[0])
    return logs or NO_LOGS
