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


def held(value: object, replaced: Collection[str], project: Collection[str]) -> Held | None:
    """The first object in reach of a value that belongs to one of the modules that would be replaced.

    Args:
        value: where to begin.
        replaced: the names of those modules.
        project: the names of all modules of the project.
    """
    found = _belonging(value, replaced)
    if found is not None:
        return found
    modules = [each for each in sys.modules.copy().values() if issubclass(type(each), ModuleType)]
    closed = {id(own(each)) for each in modules}
    seen, waiting = {id(value): value}, [value]
    while waiting:
        one = waiting.pop()
        for inner in gc.get_referents(one) if _open(one, project) else ():
            if id(inner) in seen or id(inner) in closed:
                continue
            found = _belonging(inner, replaced)
            if found is not None:
                return found
            if gc.is_tracked(inner):  # nothing else holds anything
                seen[id(inner)] = inner
                waiting.append(inner)
        if len(seen) > LOOKED:
            return Held("", "")
    return None


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
