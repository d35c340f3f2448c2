"""Adapter for agents without a framework: wraps plain functions, coroutines and generators as tracked tools.

The call is judged before the tool's first line runs. Outputs, chunks and error texts are labelled before the caller
sees them; neither the arguments nor the result change.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Generator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from agentserver.provenance.library.compat import TaintViolationError
from agentserver.provenance.library.session import OVERLAP, Engine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
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
            parts = _list_parts(error)
            self.engine.on_tool_result(self.tool, parts if parts[1:] else error, arguments=self.given)


def _list_parts(error: BaseException) -> list[Any]:
    """List an error, those before it and within it, and what their texts leave out: a traceback shows all of it."""
    parts: list[Any] = []
    queue: list[BaseException | None] = [error]
    known: set[int] = set()
    while queue:
        one = queue.pop(0)
        if one is None or id(one) in known or isinstance(one, TaintViolationError):
            continue
        known.add(id(one))
        parts += [one, *(one.args if type(one).__str__ is not BaseException.__str__ else ())]
        queue += [
            one.__cause__,
            one.__context__,
            *(one.exceptions if isinstance(one, BaseExceptionGroup) else ()),
        ]
    return parts


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
        first = next(iter(call.arguments), "")
        if self._is_owner(call.arguments.get(first)):
            del arguments[first]
        return arguments

    def _is_owner(self, value: Any) -> bool:
        """Check whether a value is the object, or the class, whose method the tool is. A static method has neither."""
        owner, _, name = str(getattr(self.fn, "__qualname__", "")).rpartition(".")
        classes = value.__mro__ if isinstance(value, type) else type(value).__mro__
        owners = [
            each for each in classes if (each.__qualname__, each.__module__) == (owner, self.fn.__module__)
        ]
        kinds = (self.fn, *(vars(each).get(name) for each in owners))
        return bool(owners) and not any(isinstance(kind, staticmethod) for kind in kinds)

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
    def stream_tool(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        engine, arguments = engine_of(tool.holder), tool.bind_arguments(args, kwargs)
        engine.on_tool_call(tool.name, arguments, tool.find_defaulted(args, kwargs))
        return (yield from _label_chunks(engine, tool.name, arguments, tool.fn(*args, **kwargs)))

    return stream_tool


def _wrap_async_generator(tool: _Tool) -> Callable[..., Any]:
    async def stream_tool(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        engine, arguments = engine_of(tool.holder), tool.bind_arguments(args, kwargs)
        await engine.acall(tool.name, arguments, tool.find_defaulted(args, kwargs))
        chunks, sent = _label_async_chunks(engine, tool.name, arguments, tool.fn(*args, **kwargs)), None
        async with aclosing(chunks):
            while (chunk := await _send(chunks, sent)) is not _END:
                sent = yield chunk

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
    engine: Engine, tool: str, arguments: dict[str, Any], chunks: Generator[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    return (yield from _LabelledChunks(engine, tool, arguments, chunks))


@dataclass(slots=True)
class _LabelledChunks(Generator[Any, Any, Any]):
    """Chunks of a generator, each labelled before it is handed on, and its last value as well."""

    engine: Engine
    tool: str
    arguments: dict[str, Any]
    chunks: Generator[Any, Any, Any]
    tail: str = ""

    def send(self, value: Any) -> Any:
        """Continue the tool with a value. Raises StopIteration at its end."""
        return self._take(partial(self.chunks.send, value))

    def throw(self, kind: Any, *rest: Any) -> Any:
        """Raise an error within the tool. Raises StopIteration at its end."""
        error = next((each for each in rest if isinstance(each, BaseException)), kind)
        return self._take(partial(self.chunks.throw, error))

    def _take(self, step: Callable[[], Any]) -> Any:
        with ErrorLabels(self.engine, self.tool, self.arguments):
            try:
                chunk = step()
            except StopIteration as end:
                last = end.value
            else:
                self.tail = _label_chunk(self.engine, self.tool, self.arguments, self.tail, chunk)
                return chunk
        if last is not None:
            last = _label_result(self.engine, self.tool, self.arguments, last)
        raise StopIteration(last)


async def _label_async_chunks(
    engine: Engine, tool: str, arguments: dict[str, Any], chunks: AsyncGenerator[Any, Any]
) -> AsyncGenerator[Any, Any]:
    tail, sent = "", None
    async with aclosing(chunks):
        with ErrorLabels(engine, tool, arguments):
            while (chunk := await _send(chunks, sent)) is not _END:
                tail = _label_chunk(engine, tool, arguments, tail, chunk)
                sent = yield chunk


_END: Final = object()
"""Result after the last chunk."""


async def _send(chunks: AsyncGenerator[Any, Any], value: Any) -> Any:
    """Continue an async generator with a value. Returns ``_END`` at its end."""
    try:
        return await chunks.asend(value)
    except StopAsyncIteration:
        return _END


def _label_chunk(engine: Engine, tool: str, arguments: dict[str, Any], tail: str, chunk: Any) -> str:
    """Label a chunk together with the end of the preceding text, and return the new end."""
    if not isinstance(chunk, str):
        engine.on_tool_result(tool, chunk, arguments=arguments)
        return ""
    text = tail + chunk
    engine.on_tool_result(tool, text, arguments=arguments)
    return text[-OVERLAP:]
