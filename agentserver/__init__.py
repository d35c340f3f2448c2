"""A server on which LLM agents and tools exchange typed XML messages under rules that hold.

Owns the names that a handler author imports. Each is imported when it is first used, so that a command which needs
none of them, such as ``agentserver --help``, does not wait for them. docs/reference.md lists the names of other modules
that are public; every other name is internal.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentserver.contract import (
        Attribute,
        Element,
        HandlerMetadata,
        HandlerResponse,
        Pattern,
        SystemError,
        TodoClosed,
        TodoComplete,
        TodoRegistered,
        TodoUntil,
        get_todo_registry,
        invocation,
    )
    from agentserver.core.handoffs import Handoff, Task
    from agentserver.payload.xmlify import xmlify

__all__ = [
    "Attribute",
    "Element",
    "HandlerMetadata",
    "HandlerResponse",
    "Handoff",
    "Pattern",
    "SystemError",
    "Task",
    "TodoClosed",
    "TodoComplete",
    "TodoRegistered",
    "TodoUntil",
    "get_todo_registry",
    "invocation",
    "xmlify",
]

_HOMES = {"Handoff": "core.handoffs", "Task": "core.handoffs", "xmlify": "payload.xmlify"}
"""The modules of the names that are not of the contract."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'contract')}"), name)
    globals()[name] = value
    return value
