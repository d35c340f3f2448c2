"""Writes docs/contract.md: the names that handler authors import, from their docstrings."""

from __future__ import annotations

import dataclasses
import inspect
from enum import Enum
from pathlib import Path
from typing import Any

import agentserver
from agentserver import contract
from agentserver.core import refusals

PAGE = Path(__file__).with_name("contract.md")

HEAD = """\
# The handler contract

A handler is an `async` function of two parameters, the payload and its metadata. It returns a `HandlerResponse`, a
sequence of them (the server sends all, or none), or `None`. Import everything here from `agentserver`. This page is
made from the docstrings (`./run generate`); [concepts](concepts.md) explains the words. A function with typed
parameters of its own [compiles to a handler](functions.md).

## Each invocation by itself

Each invocation has a task of its own, in a fresh copy of the context in which the server started. A context variable
that it sets, the precision of its decimals and a cancellation of its own task end with it. The task has all methods of
`asyncio.Task` and is not an instance of it; `asyncio.all_tasks()` lists it once it has waited. Its settings are its own
too. Settings that cannot be changed (frozen dataclasses of plain values, tuples and others like them) are shared, and
all others are copied for each invocation; so freeze them where speed counts. All invocations share what the lifespan
provides.

At its `deadline` an invocation is cancelled. When it has not ended `limits.grace` seconds later it is *abandoned*:
its caller gets `timeout`, the next message takes its place, and everything that it still returns, stores or closes
counts for nothing. While a listener has as many abandoned invocations as its `concurrency`, its callers get `busy` at
once. A handler that never yields cannot be cancelled; when it comes back too late, its caller gets `timeout` too.
`agentserver run` and `agentserver call` end in spite of an abandoned task; in a program of your own, `asyncio.run`
waits for a task that never ends.
"""

PARTS = {
    "Responses and metadata": ["HandlerResponse", "HandlerMetadata"],
    "Payload classes": ["xmlify", "Element", "Attribute", "Pattern"],
    "What the system sends": ["SystemError"],
    "Todos": ["TodoUntil", "TodoRegistered", "TodoComplete", "TodoClosed", "get_todo_registry"],
    "The running invocation": ["invocation"],
}

BEHIND = [
    "Invocation",
    "Answering",
    "Storage",
    "Todos",
    "SetTimer",
    "TimerFired",
    "CancelTimer",
    "TodoOverdue",
]
"""What the names above give access to."""


def signature(thing: Any) -> str:
    """The call, with defaults, or the fields of a dataclass."""
    if dataclasses.is_dataclass(thing):
        fields = dataclasses.fields(thing)
        return ", ".join(
            f.name if f.default is dataclasses.MISSING else f"{f.name}={f.default!r}" for f in fields
        )
    parameters = inspect.signature(thing).parameters.values()
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters if p.name != "self"]
    return str(inspect.Signature(plain))[1:-1]


def methods(thing: type) -> list[tuple[str, Any]]:
    """The public methods that a class defines itself, in order."""
    own = [(name, getattr(thing, name)) for name in vars(thing) if not name.startswith("_")]
    return [(name, method) for name, method in own if inspect.isroutine(method)]


def describe(name: str, thing: Any, level: str) -> list[str]:
    """Heading, signature, docstring and methods of one name."""
    call = f"({signature(thing)})" if not getattr(thing, "_is_protocol", False) else ""
    lines = [f"{level} `{name}{call}`", "", inspect.getdoc(thing) or "", ""]
    if isinstance(thing, type) and not issubclass(thing, Enum):
        for method, function in methods(thing):
            lines += [
                f"- `.{method}({signature(function)})`: {' '.join((inspect.getdoc(function) or '').split())}"
            ]
        lines += [""] if methods(thing) else []
    return lines


def codes() -> list[str]:
    """The table of SystemError codes."""
    lines = ["| code | message | retry allowed |", "|---|---|---|"]
    for code, wording in refusals.ERROR_WORDINGS.items():
        lines.append(f"| `{code}` | {wording.message} | {'yes' if wording.retry_allowed else 'no'} |")
    return [*lines, ""]


def page() -> str:
    """The whole page."""
    lines = [HEAD]
    for part, names in PARTS.items():
        lines += [f"## {part}", ""]
        for name in names:
            lines += describe(name, getattr(agentserver, name), "###")
            if name == "SystemError":
                lines += codes()
    lines += ["## Behind them", ""]
    for name in BEHIND:
        lines += describe(name, getattr(contract, name), "###")
    return "\n".join(lines).rstrip() + "\n"


def texts() -> dict[Path, str]:
    """Return the page."""
    return {PAGE: page()}
