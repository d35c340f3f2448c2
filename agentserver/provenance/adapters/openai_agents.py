"""OpenAI Agents SDK adapter: function tools that are judged before and labelled after each call.

It does not use the SDK's guardrails, because guardrails of an agent run once a turn and not at every call.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from agentserver.provenance.adapters.decorator import EngineHolder, engine_of
from agentserver.provenance.library.compat import REFUSED, TaintViolationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.provenance.library.session import Engine

__all__ = ["guard_tools"]


def guard_tools(tools: Iterable[Any], engine: Engine | EngineHolder, *, stop: bool = True) -> list[Any]:
    """Copy tools so that each of their calls is judged and labelled.

    With ``stop=False`` the agent continues after a refusal, and only learns that the call was not permitted.

    Raises:
        TypeError: a tool that the SDK's server runs, or that is no function tool, cannot be judged here.
    """
    return [_guard_tool(tool, engine, stop=stop) for tool in tools]


def _guard_tool(tool: Any, holder: Engine | EngineHolder, *, stop: bool) -> Any:
    invoke = getattr(tool, "on_invoke_tool", None)
    if invoke is None:
        raise TypeError(f"{type(tool).__name__} does not run here, so its calls cannot be judged")
    watched = copy.copy(tool)

    async def on_invoke_tool(context: Any, text: str) -> Any:
        arguments = _parse_arguments(text)
        try:
            await engine_of(holder).acall(tool.name, arguments)
        except TaintViolationError:
            if stop:
                raise
            return REFUSED
        result = await invoke(context, text)
        engine_of(holder).on_tool_result(tool.name, result, arguments=arguments)
        return result

    watched.on_invoke_tool = on_invoke_tool
    return watched


def _parse_arguments(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text) if text else {}
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"input": text}
