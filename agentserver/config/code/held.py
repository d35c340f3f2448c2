"""The objects in use whose classes a reload would replace.

Owns the walk from a value to all that the project's own code keeps in it: containers, attributes, closures, caches.
Refuses to look into what libraries keep. It reads no attribute by the project's own code, so that nothing of it runs.
"""

from __future__ import annotations

import gc
import sys
from types import FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.config.code.namespace import own

if TYPE_CHECKING:
    from collections.abc import Collection

LOOKED: Final = 1_000_000
"""Objects that are looked at."""

_OPEN: Final = frozenset(
    {"builtins", "collections", "functools", "types", "queue", "_queue", "asyncio.queues"}
)
"""Modules whose objects are containers, or hold values for the code that made them."""


class Held(NamedTuple):
    """An object whose class, or a class or function itself, that belongs to a module that would be replaced.

    Args:
        name: of the class or function; empty where there is more than can be looked at.
        module: that it is of, as the project calls it.
    """

    name: str
    module: str


class Search:
    """The search of values for what belongs to modules that would be replaced. No object is looked at twice.

    Args:
        replaced: the names of those modules.
        project: the names of all modules of the project.
    """

    def __init__(self, replaced: Collection[str], project: Collection[str]) -> None:
        self._replaced, self._project = replaced, project
        modules = [each for each in sys.modules.copy().values() if issubclass(type(each), ModuleType)]
        self._closed = {id(own(each)) for each in modules}
        self._seen: dict[int, object] = {}

    def first(self, value: object) -> Held | None:
        """The first object in reach of a value that belongs to one of those modules."""
        found, waiting = _belonging(value, self._replaced), [value]
        while found is None and waiting:
            if len(self._seen) > LOOKED:
                return Held("", "")
            one = waiting.pop()
            for inner in gc.get_referents(one) if _open(one, self._project) else ():
                found = found or self._met(inner, waiting)
        return found

    def _met(self, value: object, waiting: list[object]) -> Held | None:
        """The value as one of those modules; any other is looked into later, unless it was already."""
        if id(value) in self._seen or id(value) in self._closed:
            return None
        found = _belonging(value, self._replaced)
        if found is None and gc.is_tracked(value):  # nothing else holds anything
            self._seen[id(value)] = value
            waiting.append(value)
        return found


def _belonging(value: Any, replaced: Collection[str]) -> Held | None:
    """The value as one of those modules, if it is."""
    if type(value) is FunctionType:
        return Held(value.__qualname__, value.__module__) if value.__module__ in replaced else None
    if issubclass(type(value), ModuleType):
        name = own(value).get("__name__")
        return Held("the code", str(name)) if name in replaced else None
    itself: Any = value if issubclass(type(value), type) else type(value)
    for kind in type.__getattribute__(itself, "__mro__"):
        home = _home(kind)
        if home in replaced:
            return Held(type.__getattribute__(kind, "__qualname__"), home)
    return None


def _home(kind: Any) -> str:
    """The module of a class, as text."""
    found = type.__getattribute__(kind, "__module__")
    return found if isinstance(found, str) else ""


def _open(value: Any, project: Collection[str]) -> bool:
    """True for a value that may hold objects for the project's own code."""
    kind: Any = type(value)
    if issubclass(kind, ModuleType | FrameType):
        return False
    if kind is FunctionType:
        return value.__module__ in project
    if issubclass(kind, type):
        return _home(value) in project
    return _home(kind) in _OPEN or any(
        _home(each) in project for each in type.__getattribute__(kind, "__mro__")
    )
