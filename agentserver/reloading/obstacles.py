"""Checks of a reload: compares two organisms and explains each obstacle."""

from __future__ import annotations

import inspect
from dataclasses import fields
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

from agentserver.config.code.editions import Search, format_reason
from agentserver.core.encoding.snapshot import find_lost_guards, find_memory_keepers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentserver.config import Organism
    from agentserver.config.code.editions import Succession
    from agentserver.core.guard import CoreGuard, Rules

FREE: Final = frozenset(
    {"name", "listeners", "secrets", "files", "modules", "provenance", "guards", "models", "strangers", "mcp"}
    | {"limits", "lifespan", "handoffs", "serving"}
)
"""Fields of an organism that a reload may change, or that are checked in detail. All others are fixed."""

FIXED_LIMITS: Final = ("concurrency", "stall", "drain")
"""Limits that are read when a process starts."""

RESTART: Final = "it needs a restart"


class ReloadResult(NamedTuple):
    """Completed reload.

    Args:
        name: of the organism.
        finishing: conversations in which handlers of the earlier edition still run.
    """

    name: str
    finishing: int


class ReloadRefusal(NamedTuple):
    """Refused reload; the server continues unchanged.

    Args:
        reasons: a line for each reason, without secrets.
    """

    reasons: tuple[str, ...]


STOPPED: Final = ("the server is not running",)


def refuse_reload(error: BaseException) -> ReloadRefusal:
    """Return the refusal for a reload that failed."""
    return ReloadRefusal((f"{type(error).__name__}: {error}",))


def named_alike(principal: str) -> str:
    """Return the line for a principal whose name is a listener's."""
    return f"{principal} has conversations open and would be a listener: {RESTART}"


@runtime_checkable
class GuardAdopter(Protocol):
    """Engine that accepts guards after its start."""

    def adopt(self, guards: Sequence[CoreGuard]) -> None:
        """Keep the memories of these guards from now on, those of before among them."""


def find_obstacles(before: Organism, after: Organism) -> Iterator[str]:
    """Yield a line for each change that is impossible while an organism runs."""
    keys = {"journal": "journal:", "engine": "engine:", "project": "the project directory", "door": "http:"}
    for each in fields(before):
        if each.name not in FREE and getattr(before, each.name) != getattr(after, each.name):
            yield f"{keys.get(each.name, f'{each.name}:')} has changed: {RESTART}"
    for name in FIXED_LIMITS:
        was, now = getattr(before.limits, name), getattr(after.limits, name)
        if was != now:
            yield f"limits.{name} was {was:g} and is {now:g}: {RESTART}"
    if _place(before.lifespan) != _place(after.lifespan, after) or not _is_alike(
        before.lifespan, after.lifespan
    ):
        yield f"lifespan: has changed: {RESTART}"
    if before.serving != after.serving:
        yield f"mcp_server: has changed: {RESTART}"
    if _find_audit(before) != _find_audit(after):
        yield f"the file for the record of handoffs has changed: {RESTART}"


def find_rule_obstacles(before: Rules, after: Rules, offered: Sequence[str], *, blind: bool) -> Iterator[str]:
    """Return a line for each changed rule that cannot change while conversations use it.

    Args:
        before: the current rules.
        after: the next rules.
        offered: listeners that MCP hosts have as tools.
        blind: whether the engine keeps the memories of guards and accepts no others.
    """
    for name in find_lost_guards(before.guards, after.guards):
        yield f"the guard {name} is gone, which remembers open conversations: {RESTART}"
    new = find_memory_keepers(after.guards) - find_memory_keepers(before.guards)
    if blind and new:
        yield f"the engine does not know the guard {', '.join(sorted(new))}: {RESTART}"
    for name in offered:
        if _collect_forms(before, name) != _collect_forms(after, name):
            yield f"{name} takes other payloads than MCP hosts have been given (mcp_server: expose:): {RESTART}"


def _collect_forms(rules: Rules, listener: str) -> tuple[str, ...]:
    taken = rules.blueprint.listeners[listener].payloads if listener in rules.blueprint.listeners else ()
    return tuple(rules.codecs.of(payload).xsd() for payload in taken)


def find_succession(before: Organism, after: Organism) -> Succession | None:
    """Return the succession of the modules of two organisms; None if the next one was not loaded from files."""
    if before.modules is None or after.modules is None:
        return None
    return before.modules.prepare_succession(after.modules)


def in_use(passing: Succession, objects: Iterable[tuple[str, object]]) -> Iterator[str]:
    """Return a line for each object that outlives a reload and holds something of a replaced module.

    Args:
        passing: the modules of the current organism, and of the next.
        objects: those that stay, each with a description.
    """
    if not passing.replaced:
        return
    search = Search(passing.replaced.keys(), passing.present.keys())
    for name, value in objects:
        found = search.find_first(value)
        if found is not None:
            yield f"{name} holds {format_reason(found, passing.replaced)}: {RESTART}"


def _place(code: object, organism: Organism | None = None) -> tuple[str, str] | None:
    """Return the module and name of some code of the project, as the project calls them."""
    if code is None:
        return None
    module = str(getattr(code, "__module__", type(code).__module__))
    if organism is not None and organism.modules is not None:
        module = organism.modules.plain(module)
    return module, str(getattr(code, "__qualname__", type(code).__qualname__))


def _is_alike(before: object, after: object) -> bool:
    """Return whether two pieces of code at one place are the same, wherever their lines are."""
    first, second = (inspect.unwrap(each) if callable(each) else each for each in (before, after))
    if first is second or not (isinstance(first, FunctionType) and isinstance(second, FunctionType)):
        return first is second
    return _list_shape(first.__code__) == _list_shape(second.__code__)


def _list_shape(code: CodeType) -> tuple[object, ...]:
    """Return the code of a function without its place in the file."""
    constants = tuple(
        _list_shape(each) if isinstance(each, CodeType) else (type(each), each) for each in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _find_audit(organism: Organism) -> str | None:
    return None if organism.handoffs is None else organism.handoffs.audit
