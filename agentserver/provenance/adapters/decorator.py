"""Adapter for agents without a framework: wraps plain functions, coroutines and generators as tracked tools.

The call is judged before the tool's first line runs. Outputs, chunks and error texts are labelled before the caller
sees them; neither the arguments nor the result change.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from agentserver.provenance.library.compat import TaintViolationError
from agentserver.provenance.library.session import OVERLAP, Engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from types import TracebackType


class EngineHolder(Protocol):
    """Object that knows the engine of the current run."""

    @property
    def engine(self) -> Engine:
        """Engine of the current run."""


def engine_of(holder: Engine | EngineHolder) -> Engine:
    """Look up the engine of the current run; call it at each use, because runs change."""
    return holder if isinstance(holder, Engine) else holder.engine


@dataclass(frozen=True, slots=True)
class ErrorLabels:
    """Context manager that labels the text of an error that a tool raises, which a model may read."""

    engine: Engine
    tool: str
    given: dict[str, Any]

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, TaintViolationError):
            self.engine.on_tool_result(self.tool, str(error), arguments=self.given)


@dataclass(frozen=True, slots=True)
class _Tool:
    """Tool to wrap: its function, its name, and the engine that judges it."""

    holder: Engine | EngineHolder
    name: str
    fn: Callable[..., Any]
    signature: inspect.Signature

    def bind_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Bind the arguments to their names, with defaults and with ``**kwargs`` merged in."""
        call = self.signature.bind(*args, **kwargs)
        call.apply_defaults()
        arguments = dict(call.arguments)
        for parameter in self.signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                arguments.update(arguments.pop(parameter.name))
        arguments.pop("self", None)
        return arguments

    def find_defaulted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[str]:
        """Find the arguments that have the default of the tool's author."""
        passed = self.signature.bind(*args, **kwargs).arguments
        return frozenset(self.signature.parameters.keys() - passed.keys())


def tracked_tool(
    engine: Engine | EngineHolder, name: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a tool. ``engine`` may be a ``Sleuth``; ``name`` defaults to the function's."""

    def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
        tool_name = name or str(getattr(fn, "__name__", type(fn).__name__))
        tool = _Tool(engine, tool_name, fn, inspect.signature(fn))
        kind = next((build for suits, build in _KINDS if suits(fn)), _wrap_function)
        return functools.wraps(fn)(kind(tool))

    return wrap


def _wrap_function(tool: _Tool) -> Callable[..., Any]:
    def call_tool(*args: Any, **kwargs: Any) -> Any:
        engine, arguments = engine_of(tool.holder), tool.bind_arguments(args, kwargs)
        engine.on_tool_call(tool.name, arguments, tool.find_defaulted(args, kwargs))
        with ErrorLabels(engine, tool.name, arguments):
            result = tool.fn(*args, **kwargs)
        return _label_result(engine, tool.name, arguments, result)

    return call_tool


def _wrap_coroutine(tool: _Tool) -> Callable[..., Any]:
    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        engine, arguments = engine_of(tool.holder), tool.bind_arguments(args, kwargs)
        await engine.acall(tool.name, arguments, tool.find_defaulted(args, kwargs))
        with ErrorLabels(engine, tool.name, arguments):
            result = await tool.fn(*args, **kwargs)
        return _label_result(engine, tool.name, arguments, result)

    return call_tool


def _wrap_generator(tool: _Tool) -> Callable[..., Any]:
    def stream_tool(*args: Any, **kwargs: Any) -> Iterator[Any]:
        engine, arguments = engine_of(tool.holder), tool.bind_arguments(args, kwargs)
        engine.on_tool_call(tool.name, arguments, tool.find_defaulted(args, kwargs))
        yield from _label_chunks(engine, tool.name, arguments, tool.fn(*args, **kwargs))

    return stream_tool


def _wrap_async_generator(tool: _Tool) -> Callable[..., Any]:
    async def stream_tool(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        engine, arguments = engine_of(tool.holder), tool.bind_arguments(args, kwargs)
        await engine.acall(tool.name, arguments, tool.find_defaulted(args, kwargs))
        async for chunk in _label_async_chunks(engine, tool.name, arguments, tool.fn(*args, **kwargs)):
            yield chunk

    return stream_tool


_KINDS: Final[tuple[tuple[Callable[[Any], bool], Callable[[_Tool], Callable[..., Any]]], ...]] = (
    (inspect.isasyncgenfunction, _wrap_async_generator),
    (inspect.isgeneratorfunction, _wrap_generator),
    (inspect.iscoroutinefunction, _wrap_coroutine),
)


def _label_result(engine: Engine, tool: str, arguments: dict[str, Any], result: Any) -> Any:
    """Label a result; label an iterator or awaitable of a plain function as it is consumed."""
    if inspect.isawaitable(result):
        return _label_awaited(engine, tool, arguments, result)
    if inspect.isasyncgen(result):
        return _label_async_chunks(engine, tool, arguments, result)
    if inspect.isgenerator(result):
        return _label_chunks(engine, tool, arguments, result)
    engine.on_tool_result(tool, result, arguments=arguments)
    return result


async def _label_awaited(engine: Engine, tool: str, arguments: dict[str, Any], result: Any) -> Any:
    with ErrorLabels(engine, tool, arguments):
        answer = await result
    return _label_result(engine, tool, arguments, answer)


def _label_chunks(
    engine: Engine, tool: str, arguments: dict[str, Any], chunks: Iterator[Any]
) -> Iterator[Any]:
    tail = ""
    with ErrorLabels(engine, tool, arguments):
        for chunk in chunks:
            tail = _label_chunk(engine, tool, arguments, tail, chunk)
            yield chunk


async def _label_async_chunks(
    engine: Engine, tool: str, arguments: dict[str, Any], chunks: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    tail = ""
    with ErrorLabels(engine, tool, arguments):
        async for chunk in chunks:
            tail = _label_chunk(engine, tool, arguments, tail, chunk)
            yield chunk


def _label_chunk(engine: Engine, tool: str, arguments: dict[str, Any], tail: str, chunk: Any) -> str:
    """Label a chunk together with the end of the preceding text, and return the new end."""
    if not isinstance(chunk, str):
        engine.on_tool_result(tool, chunk, arguments=arguments)
        return ""
    text = tail + chunk
    engine.on_tool_result(tool, text, arguments=arguments)
    return text[-OVERLAP:]
