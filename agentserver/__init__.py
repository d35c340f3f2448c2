"""A server on which LLM agents and tools exchange typed XML messages under rules that hold."""

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
from agentserver.core.payload.xmlify import xmlify

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
