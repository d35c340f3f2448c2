"""Copy-on-write mappings for threads and requests.

A small mapping is copied whole, which is quicker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from math import isqrt
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

FEW: Final = 64
"""Entries up to which a mapping is copied whole."""

_GONE: Final[Any] = object()


def copy_changeable(mapping: Mapping[K, V]) -> MutableMapping[K, V]:
    """Return a mutable copy for the next version. The original must not be modified afterwards."""
    if type(mapping) is Overlay:
        return mapping.copy()
    return dict(mapping) if len(mapping) <= FEW else Overlay(mapping)


def differences(before: Mapping[K, V], after: Mapping[K, V]) -> tuple[list[K], list[K]]:
    """Return the keys with another object in ``after``, in order, and the removed keys."""
    if type(before) is Overlay and type(after) is Overlay:
        found = after.find_diff(before)
        if found is not None:
            return found
    old = before.merge() if type(before) is Overlay else before
    new = after.merge() if type(after) is Overlay else after
    changed = []
    for key, value in new.items():
        if old.get(key, _GONE) is not value:
            changed.append(key)
    removed = [] if old.keys() == new.keys() else [key for key in old if key not in new]
    return changed, removed


class Overlay(MutableMapping[K, V], Generic[K, V]):
    """A mapping in the order in which keys were added, as a dict is; ``copy`` takes time in the root of its length.

    Args:
        under: shared by many versions; never modified. No value is None.
    """

    __slots__ = ("_count", "_over", "_under")

    def __init__(self, under: Mapping[K, V]) -> None:
        self._under = under
        self._over: dict[K, Any] = {}
        self._count = len(under)

    def copy(self) -> MutableMapping[K, V]:
        """Copy the mapping; merges the layers when there are many changes or few entries."""
        if self._count <= FEW // 2:
            return self.merge()
        if len(self._over) > max(FEW, 2 * isqrt(len(self._under))):
            return Overlay(self.merge())
        copied: Overlay[K, V] = Overlay.__new__(Overlay)
        copied._under, copied._over, copied._count = self._under, self._over.copy(), self._count
        return copied

    def merge(self) -> dict[K, V]:
        """Return an equal dict."""
        whole = {**self._under, **self._over}
        for key in [key for key, value in self._over.items() if value is _GONE]:
            del whole[key]
        return whole

    def find_diff(self, before: Overlay[K, V]) -> tuple[list[K], list[K]] | None:
        """Return the differences from ``before``; None when they do not share a lower layer."""
        if before._under is not self._under:
            return None
        changed: list[K] = []
        removed: list[K] = []
        for key, value in self._over.items():
            was = before._over.get(key)
            if was is None:
                was = self._under.get(key, _GONE)
            if value is not was:
                (removed if value is _GONE else changed).append(key)
        # A key in neither layer was added to the upper one before.
        removed += [key for key, was in before._over.items() if was is not _GONE and key not in self._over]
        return changed, removed

    def __getitem__(self, key: K) -> V:
        found = self._over.get(key)
        if found is None:
            return self._under[key]
        if found is _GONE:
            raise KeyError(key)
        return found  # type: ignore[no-any-return]

    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of a key, without a call for each layer."""
        found = self._over.get(key)
        if found is None:
            return self._under.get(key, default)
        return default if found is _GONE else found

    def iter_values(self, keys: Iterable[K]) -> Iterator[V]:
        """Iterate over the values of existing keys without a Python call for each.

        ``keys`` is iterated twice. The mapping must not be modified meanwhile.
        """
        return map(self._over.get, keys, map(self._under.get, keys))

    def __setitem__(self, key: K, value: V) -> None:
        found = self._over.get(key)
        if found is None:
            self._count += key not in self._under
        elif found is _GONE:  # a key that comes back is last
            self._count += 1
            self._under, self._over = self.merge(), {}
        self._over[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._count -= 1
        if key in self._under:
            self._over[key] = _GONE
        else:
            del self._over[key]

    def __contains__(self, key: object) -> bool:
        found = self._over.get(key)  # type: ignore[arg-type]
        return key in self._under if found is None else found is not _GONE

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[K]:
        over, under = self._over, self._under
        for key in under:
            if over.get(key) is not _GONE:
                yield key
        for key, value in over.items():
            if value is not _GONE and key not in under:
                yield key

    def __repr__(self) -> str:
        return f"Overlay({self.merge()})"
