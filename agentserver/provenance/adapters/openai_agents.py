"""OpenAI Agents SDK: function tools, judged before and labelled after.

Owns the wrapping of a tool's invocation. Refuses to use the SDK's guardrails for it: those of an agent run
once a turn, this runs at every call.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from agentserver.provenance.adapters.decorator import EngineHolder, engine_of
from agentserver.provenance.library.compat import TaintViolationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.provenance.library.session import Engine

__all__ = ["guarded"]

REFUSED = "The call was not permitted."
"""All that a model learns of a refusal."""


def guarded(tools: Iterable[Any], engine: Engine | EngineHolder, *, stop: bool = True) -> list[Any]:
    """The same tools, watched. ``stop=False`` lets the agent go on, told only that it was not permitted.

    Raises:
        TypeError: a tool that the SDK's server runs, or that is no function tool, cannot be judged here.
    """
    return [_guarded(tool, engine, stop=stop) for tool in tools]


def _guarded(tool: Any, holder: Engine | EngineHolder, *, stop: bool) -> Any:
    invoke = getattr(tool, "on_invoke_tool", None)
    if invoke is None:
        raise TypeError(f"{type(tool).__name__} does not run here, so its calls cannot be judged")
    watched = copy.copy(tool)

    async def on_invoke_tool(context: Any, text: str) -> Any:
        given = _arguments(text)
        try:
            await engine_of(holder).acall(tool.name, given)
        except TaintViolationError:
            if stop:
                raise
            return REFUSED
        result = await invoke(context, text)
        engine_of(holder).on_tool_result(tool.name, result, arguments=given)
        return result

    watched.on_invoke_tool = on_invoke_tool
    return watched


def _arguments(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text) if text else {}
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"input": text}
