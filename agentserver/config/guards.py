"""Reads ``guards:``, the rules about messages that a project adds."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from pydantic import BaseModel

from agentserver.config.code.settings import SettingsValues, has_fields, list_fields, make
from agentserver.config.code.userland import Crash, attempt
from agentserver.guards.base import Guard, describe_unfit
from agentserver.guards.builtin import BUILTIN_GUARDS
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentserver.config.code.binding import Binder
    from agentserver.config.keys.models import GuardEntry
    from agentserver.config.validation import DeclaredEntry
    from agentserver.core.blueprint import Listener

OWN_KEYS = ("use", "name")
"""The keys of an entry that are no settings of its guard."""


def read_guards(
    declared: Iterable[DeclaredEntry[GuardEntry]], listeners: Mapping[str, Listener], binder: Binder
) -> dict[str, Guard]:
    """Make the guards, by name and in order; without those that have a finding.

    Args:
        declared: the valid entries.
        listeners: of the organism, by name. Guards check them once there are no other mistakes.
        binder: imports the classes and collects the findings.
    """
    found: dict[str, Guard] = {}
    first: dict[str, DeclaredEntry[GuardEntry]] = {}
    for each in declared:
        kind = _find_class(each, binder)
        guard = None if kind is None else _make(kind, each, binder)
        if guard is None:
            continue
        name = each.entry.name or type(guard).__name__
        if name in first or name in BUILTIN_GUARDS:
            _report_taken_name(name, each, first.get(name), binder)
        elif binder.report.failed or _fits(guard, each, listeners, binder):
            found[name] = guard
        first.setdefault(name, each)
    return found


def _find_class(declared: DeclaredEntry[GuardEntry], binder: Binder) -> type[Guard] | None:
    path, span = declared.entry.use, declared.locate("use")
    kind = binder.resolve(path, span)
    if kind is None:
        return None
    if not isinstance(kind, type):
        binder.report.add_error(
            ConfigCode.CLASS,
            span,
            f'"{path}" is not a class',
            "name the class of the guard; its settings stand here",
        )
        return None
    objection = describe_unfit(kind)
    if objection:
        binder.report.add_error(ConfigCode.CLASS, span, objection)
        return None
    return kind


def _make(kind: type[Guard], declared: DeclaredEntry[GuardEntry], binder: Binder) -> Guard | None:
    """Make an instance with the settings of the entry; None after a finding."""
    settings, span = dict(declared.entry.model_extra or {}), declared.locate("use")
    if not has_fields(kind):
        return _make_plain(kind, settings, declared, binder)
    if not _is_frozen(kind):
        message = f"{kind.__qualname__} must be frozen: a guard keeps nothing but its settings and its memory"
        binder.report.add_error(ConfigCode.CLASS, span, message, "@dataclass(frozen=True)")
        return None
    hidden = [name for name in OWN_KEYS if name in list_fields(kind)]
    if hidden:
        message = f"{kind.__qualname__} has a setting {hidden[0]}, which is a key of every guard"
        binder.report.add_error(ConfigCode.SETTINGS, span, message, "call the setting otherwise")
        return None
    at = ("guards", declared.index)
    values = SettingsValues(declared.document, at, settings, (*at, "use"))
    return _check_instance(kind, make(kind, values, binder.importer.project, binder.report), declared, binder)


def _make_plain(
    kind: type[Guard], settings: dict[str, object], declared: DeclaredEntry[GuardEntry], binder: Binder
) -> Guard | None:
    """Make a guard without fields."""
    if settings:
        key = next(iter(settings))
        message = f"{kind.__qualname__} takes no settings"
        binder.report.add_error(
            ConfigCode.SETTINGS,
            declared.locate(key),
            message,
            f"make it a frozen dataclass with a field {key}",
        )
        return None
    guard = attempt(kind)
    if isinstance(guard, Crash):
        message = f"{kind.__qualname__} failed: {binder.importer.project.explain(guard)}"
        binder.report.add_error(ConfigCode.GUARD, declared.locate("use"), message)
        return None
    return _check_instance(kind, guard, declared, binder)


def _check_instance(
    kind: type[Guard], guard: object, declared: DeclaredEntry[GuardEntry], binder: Binder
) -> Guard | None:
    """Return the instance of the class; None for None, and after a finding for anything else."""
    if type(guard) is kind:
        return guard
    if guard is not None:
        message = f"{kind.__qualname__} gives {type(guard).__qualname__}, no guard of its own class"
        binder.report.add_error(ConfigCode.CLASS, declared.locate("use"), message, "define no __new__")
    return None


def _is_frozen(kind: type) -> bool:
    if issubclass(kind, BaseModel):
        return bool(kind.model_config.get("frozen"))
    return bool(getattr(getattr(kind, "__dataclass_params__", None), "frozen", False))


def _report_taken_name(
    name: str, declared: DeclaredEntry[GuardEntry], first: DeclaredEntry[GuardEntry] | None, binder: Binder
) -> None:
    span = declared.locate("name" if declared.entry.name else "use")
    if first is None:
        binder.report.add_error(
            ConfigCode.TWICE, span, f'"{name}" is the name of a guard of the server', "give it another name:"
        )
        return
    before = first.locate()
    message = f'duplicate guard "{name}" (first at {before.file}:{before.line})'
    binder.report.add_error(ConfigCode.TWICE, span, message, "tell them apart by name:")


def _fits(
    guard: Guard, declared: DeclaredEntry[GuardEntry], listeners: Mapping[str, Listener], binder: Binder
) -> bool:
    """Return True when the guard accepts the organism."""
    checked = attempt(lambda: guard.check(MappingProxyType(dict(listeners))))
    if not isinstance(checked, Crash):
        return True
    error = checked.error
    text = attempt(lambda: str(error)) if isinstance(error, ValueError) else ""
    failed = f"{type(guard).__qualname__}.check failed: {binder.importer.project.explain(checked)}"
    binder.report.add_error(
        ConfigCode.GUARD, declared.locate(), text if isinstance(text, str) and text else failed
    )
    return False
