"""Compiles a function that is a listener to a v2.1 handler."""

from __future__ import annotations

import ast
import inspect
import linecache
from typing import TYPE_CHECKING, Any

from agentserver.contract import invocation
from agentserver.flow.handler import FlowHandler
from agentserver.payload.codec import Codecs

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.payload.functions import FunctionForm


def compile_handler(function: Callable[..., Any], form: FunctionForm) -> FlowHandler:
    """Return the v2.1 handler of a function, which may await messages.

    It passes the fields of a payload as arguments and answers the caller with the value. A refusal of an earlier
    answer is passed to the caller.
    """
    names = frozenset(kind.__xml_name__ for kind in form.payloads)  # type: ignore[attr-defined]
    inner = inspect.unwrap(function)

    async def run(payload: Any) -> Any:
        if type(payload).__xml_name__ not in names:  # a class of the same name, behind a wall
            raise TypeError(f"{form.name} does not take {type(payload).__name__}")
        by_place, by_name = form.arguments(payload)
        made = function(*by_place, **by_name)
        value = await (_last_value(made, form) if form.stream else made)
        return None if value is None else form.answer(value)

    run.__module__, run.__qualname__ = inner.__module__, inner.__qualname__
    run.__wrapped__ = inner  # type: ignore[attr-defined]
    return FlowHandler(run, Codecs((*form.payloads, *form.answers)))


async def _last_value(stream: Any, form: FunctionForm) -> Any:
    """Report the texts of a stream as progress, and return the value in it; None without one.

    Raises TypeError for a second value.
    """
    current, answer = invocation(), None
    async for value in stream:
        if isinstance(value, str):
            current.progress(value)
        elif answer is not None:
            raise TypeError(f"{form.name} yielded a second answer, {type(value).__name__}")
        else:
            answer = value
    return answer


def line_of_parameter(file: str, line: int, name: str) -> int:
    """Find the line of a parameter, or of the return annotation, of the function that begins at ``line``."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return line
    made = (node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef) and node.lineno == line)
    for node in made:
        if name == "return" and node.returns is not None:
            return node.returns.lineno
        given = node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        return next((each.lineno for each in every if each is not None and each.arg == name), line)
    return line
