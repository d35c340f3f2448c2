"""LangChain adapter: callback handlers for any agent, and middleware for ``create_agent``.

The handlers set ``raise_error``: without it LangChain logs a refusal and runs the tool.
"""

from __future__ import annotations

import ast
import asyncio
import json
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler

from agentserver.provenance.adapters.decorator import EngineHolder, ErrorLabels, engine_of
from agentserver.provenance.library.compat import REFUSED, TaintViolationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from uuid import UUID

    from agentserver.provenance.library.session import Engine

__all__ = ["AsyncIFCCallbackHandler", "IFCCallbackHandler", "TaintViolationStop", "middleware"]


class _RunningCalls:
    """Tool name and arguments of each running call."""

    def __init__(self) -> None:
        self._calls: dict[UUID, tuple[str, dict[str, Any]]] = {}

    def begin(
        self, run_id: UUID, serialized: dict[str, Any] | None, text: str, options: dict[str, Any]
    ) -> str:
        name = (serialized or {}).get("name") or options.get("name") or "tool"
        self._calls[run_id] = (name, _parse_arguments(text, options.get("inputs")))
        return str(name)

    def arguments(self, run_id: UUID) -> dict[str, Any]:
        return self._calls[run_id][1]

    def end(self, run_id: UUID) -> tuple[str, dict[str, Any]]:
        return self._calls.pop(run_id, ("tool", {}))


def _parse_arguments(text: str, inputs: Any) -> dict[str, Any]:
    """Parse the arguments into a mapping; older versions pass only their text."""
    if isinstance(inputs, dict):
        return inputs
    for parse in (json.loads, ast.literal_eval):
        try:
            read = parse(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(read, dict):
            return read
    return {"input": text}


def _loses_exceptions(handler: Callable[..., Any]) -> bool:
    """Return whether LangChain runs the handler's coroutine as a separate task, whose exceptions it drops."""
    task = asyncio.current_task()
    coroutine = task.get_coro() if task else None
    return getattr(coroutine, "cr_code", None) is handler.__code__


def _unwrap_message(output: Any) -> Any:
    """Return a tool's output without the message around it."""
    content = getattr(output, "content", output)
    artifact = getattr(output, "artifact", None)
    return content if artifact is None else {"content": content, "artifact": artifact}


class IFCCallbackHandler(BaseCallbackHandler):
    """Callback handler for sync and async agents: pass it in ``config={"callbacks": [...]}``, or use ``Sleuth.run``."""

    raise_error = True
    run_inline = True

    def __init__(self, engine: Engine | EngineHolder) -> None:
        self._holder = engine
        self._runs = _RunningCalls()

    def on_tool_start(
        self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Judge the call; an exception stops the tool."""
        name = self._runs.begin(run_id, serialized, input_str, kwargs)
        try:
            engine_of(self._holder).on_tool_call(name, self._runs.arguments(run_id))
        except TaintViolationError:
            self._runs.end(run_id)
            raise

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Label the output before the model sees it."""
        name, arguments = self._runs.end(run_id)
        engine_of(self._holder).on_tool_result(
            name, _unwrap_message(output), trace_id=str(run_id), arguments=arguments
        )

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Label the error's text, which a stranger may have written."""
        name, arguments = self._runs.end(run_id)
        if not isinstance(error, TaintViolationError):
            engine_of(self._holder).on_tool_result(
                name, str(error), trace_id=str(run_id), arguments=arguments
            )


class TaintViolationStop(BaseException):
    """Refusal that LangChain cannot drop as it drops each ``Exception`` when an async handler judges a sync tool.

    ``__cause__`` is the ``TaintViolationError``.
    """


class AsyncIFCCallbackHandler(AsyncCallbackHandler):
    """Callback handler for async agents whose confirmation must be awaited.

    Raises:
        TaintViolationError: from an async tool.
        TaintViolationStop: from a sync tool that ``ainvoke`` runs in a thread, whose callbacks' exceptions LangChain
            logs and drops.
    """

    raise_error = True
    run_inline = True

    def __init__(self, engine: Engine | EngineHolder) -> None:
        self._holder = engine
        self._runs = _RunningCalls()

    async def on_tool_start(
        self, serialized: dict[str, Any], input_str: str, *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Judge the call, and await an approval where one is needed."""
        name = self._runs.begin(run_id, serialized, input_str, kwargs)
        try:
            await engine_of(self._holder).acall(name, self._runs.arguments(run_id))
        except TaintViolationError as refused:
            self._runs.end(run_id)
            if _loses_exceptions(type(self).on_tool_start):
                raise TaintViolationStop from refused
            raise

    async def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        """Label the output before the model sees it."""
        name, arguments = self._runs.end(run_id)
        engine_of(self._holder).on_tool_result(
            name, _unwrap_message(output), trace_id=str(run_id), arguments=arguments
        )

    async def on_tool_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Label the error's text, which a stranger may have written."""
        name, arguments = self._runs.end(run_id)
        if not isinstance(error, TaintViolationError):
            engine_of(self._holder).on_tool_result(
                name, str(error), trace_id=str(run_id), arguments=arguments
            )


def middleware(engine: Engine | EngineHolder, *, stop: bool = True) -> Any:
    """Build middleware for ``langchain.agents.create_agent``.

    Args:
        engine: the engine, or a ``Sleuth``.
        stop: end the run on a refusal, which reaches the caller as an exception; otherwise the model only learns that
            the call was not permitted, and continues.
    """
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.messages import ToolMessage

    def refuse(request: Any) -> Any:
        return ToolMessage(content=REFUSED, tool_call_id=request.tool_call["id"], status="error")

    class ProvenanceMiddleware(AgentMiddleware):  # type: ignore[type-arg,misc,unused-ignore]
        """Middleware that judges and labels every tool call of its agent."""

        def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
            call = request.tool_call
            try:
                engine_of(engine).on_tool_call(call["name"], call["args"])
            except TaintViolationError:
                if stop:
                    raise
                return refuse(request)
            with ErrorLabels(engine_of(engine), call["name"], call["args"]):
                result = handler(request)
            engine_of(engine).on_tool_result(call["name"], _unwrap_message(result), arguments=call["args"])
            return result

        async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
            call = request.tool_call
            try:
                await engine_of(engine).acall(call["name"], call["args"])
            except TaintViolationError:
                if stop:
                    raise
                return refuse(request)
            with ErrorLabels(engine_of(engine), call["name"], call["args"]):
                result = await handler(request)
            engine_of(engine).on_tool_result(call["name"], _unwrap_message(result), arguments=call["args"])
            return result

    return ProvenanceMiddleware()
