"""Wrapping of plain functions: the adapter for agents of one's own making.

Owns the four kinds of callable. Refuses to change what a tool takes or returns. A call is judged before the
tool's first line runs; an output, each chunk of one, or the words of an error are labelled before the caller sees them.
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
    """An object that knows the engine of the current run."""

    @property
    def engine(self) -> Engine:
        """That engine."""
        ...


def engine_of(holder: Engine | EngineHolder) -> Engine:
    """The engine to report to, looked up when it is needed: runs change."""
    return holder if isinstance(holder, Engine) else holder.engine


@dataclass(frozen=True, slots=True)
class Working:
    """Stands around a tool's work: the words of an error that leaves it are labelled, for a model may read them."""

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
    """A tool to be wrapped: its function, its name, and who is told."""

    holder: Engine | EngineHolder
    name: str
    fn: Callable[..., Any]
    signature: inspect.Signature

    def given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, defaults too; those of ``**kwargs`` beside the others."""
        call = self.signature.bind(*args, **kwargs)
        call.apply_defaults()
        named = dict(call.arguments)
        for parameter in self.signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                named.update(named.pop(parameter.name))
        named.pop("self", None)
        return named

    def filled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> frozenset[str]:
        """The arguments that have the default of the tool's author."""
        given = self.signature.bind(*args, **kwargs).arguments
        return frozenset(self.signature.parameters.keys() - given.keys())


def tracked_tool(
    engine: Engine | EngineHolder, name: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for tools. ``engine`` may be a ``Sleuth``; ``name`` defaults to the function's."""

    def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
        named = name or str(getattr(fn, "__name__", type(fn).__name__))
        tool = _Tool(engine, named, fn, inspect.signature(fn))
        kind = next((build for suits, build in _KINDS if suits(fn)), _plain)
        return functools.wraps(fn)(kind(tool))

    return wrap


def _plain(tool: _Tool) -> Callable[..., Any]:
    def called(*args: Any, **kwargs: Any) -> Any:
        engine, given = engine_of(tool.holder), tool.given(args, kwargs)
        engine.on_tool_call(tool.name, given, tool.filled(args, kwargs))
        with Working(engine, tool.name, given):
            result = tool.fn(*args, **kwargs)
        return _result(engine, tool.name, given, result)

    return called


def _coroutine(tool: _Tool) -> Callable[..., Any]:
    async def called(*args: Any, **kwargs: Any) -> Any:
        engine, given = engine_of(tool.holder), tool.given(args, kwargs)
        await engine.acall(tool.name, given, tool.filled(args, kwargs))
        with Working(engine, tool.name, given):
            result = await tool.fn(*args, **kwargs)
        return _result(engine, tool.name, given, result)

    return called


def _generator(tool: _Tool) -> Callable[..., Any]:
    def streamed(*args: Any, **kwargs: Any) -> Iterator[Any]:
        engine, given = engine_of(tool.holder), tool.given(args, kwargs)
        engine.on_tool_call(tool.name, given, tool.filled(args, kwargs))
        yield from _chunks(engine, tool.name, given, tool.fn(*args, **kwargs))

    return streamed


def _async_generator(tool: _Tool) -> Callable[..., Any]:
    async def streamed(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        engine, given = engine_of(tool.holder), tool.given(args, kwargs)
        await engine.acall(tool.name, given, tool.filled(args, kwargs))
        async for chunk in _achunks(engine, tool.name, given, tool.fn(*args, **kwargs)):
            yield chunk

    return streamed


_KINDS: Final[tuple[tuple[Callable[[Any], bool], Callable[[_Tool], Callable[..., Any]]], ...]] = (
    (inspect.isasyncgenfunction, _async_generator),
    (inspect.isgeneratorfunction, _generator),
    (inspect.iscoroutinefunction, _coroutine),
)


def _result(engine: Engine, tool: str, given: dict[str, Any], result: Any) -> Any:
    """Labels a result; an iterator or an awaitable that a plain function returned, as it is used."""
    if inspect.isawaitable(result):
        return _awaited(engine, tool, given, result)
    if inspect.isasyncgen(result):
        return _achunks(engine, tool, given, result)
    if inspect.isgenerator(result):
        return _chunks(engine, tool, given, result)
    engine.on_tool_result(tool, result, arguments=given)
    return result


async def _awaited(engine: Engine, tool: str, given: dict[str, Any], result: Any) -> Any:
    with Working(engine, tool, given):
        answer = await result
    return _result(engine, tool, given, answer)


def _chunks(engine: Engine, tool: str, given: dict[str, Any], chunks: Iterator[Any]) -> Iterator[Any]:
    tail = ""
    with Working(engine, tool, given):
        for chunk in chunks:
            tail = _chunk(engine, tool, given, tail, chunk)
            yield chunk


async def _achunks(
    engine: Engine, tool: str, given: dict[str, Any], chunks: AsyncIterator[Any]
) -> AsyncIterator[Any]:
    tail = ""
    with Working(engine, tool, given):
        async for chunk in chunks:
            tail = _chunk(engine, tool, given, tail, chunk)
            yield chunk


def _chunk(engine: Engine, tool: str, given: dict[str, Any], tail: str, chunk: Any) -> str:
    """Labels one chunk together with the end of the text before it; returns the new end."""
    if not isinstance(chunk, str):
        engine.on_tool_result(tool, chunk, arguments=given)
        return ""
    text = tail + chunk
    engine.on_tool_result(tool, text, arguments=given)
    return text[-OVERLAP:]
