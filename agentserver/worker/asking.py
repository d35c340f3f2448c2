"""Completions and progress across the wall: a worker asks and tells, the server has the keys and the budget.

Owns both ends of one question. Refuses to let anything but the question through: classes travel as the names of
payloads, failures as their kinds.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agentserver.completion import (
    Completion,
    CompletionError,
    CompletionFault,
    Request,
    Usage,
)
from agentserver.llm.prompts import messages_of
from agentserver.supervision import run_errand
from agentserver.wire.envelope import Malformed, read_payload
from agentserver.worker.frames import CompletedFrame, CompleteFrame, ProgressFrame

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from agentserver.contract import Invocation
    from agentserver.payload.codec import Codecs
    from agentserver.wire.envelope import Bounds

__all__ = ["Asker", "answered"]

MOST_PROGRESS = 1_000


@dataclass(eq=False)
class Asker:
    """The Completer of one call inside a worker.

    Args:
        call: the number of the call.
        write: sends a frame to the server.
        codecs: of the worker.
        bounds: of one payload.
    """

    call: int
    write: Callable[[CompleteFrame | ProgressFrame], Coroutine[Any, Any, None]]
    codecs: Codecs
    bounds: Bounds
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _waiting: dict[int, asyncio.Future[CompletedFrame]] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _telling: asyncio.Future[None] | None = None

    async def complete(self, model: str, request: Request) -> Completion:
        """The answer of a model, as the port has it."""
        number = next(self._numbers)
        tools = tuple(
            [self.codecs.of(tool).name if isinstance(tool, type) else tool for tool in request.tools]
        )
        output = None if request.output is None else self.codecs.of(request.output).name
        words = tuple(messages_of(request.messages))
        self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self.write(
                CompleteFrame(
                    self.call,
                    number,
                    model,
                    words,
                    request.agent,
                    tools,
                    output,
                    request.repairs,
                    request.partial,
                )
            )
            told = await self._waiting[number]
        finally:
            del self._waiting[number]
        return self._completion(told, model)

    def tell(self, text: str) -> None:
        """Pass on a line of progress; may be called from any thread. One that is not gone by the next is let go."""
        if not isinstance(text, str):
            raise TypeError(f"progress is told as text, not as {type(text).__name__}")
        self.loop.call_soon_threadsafe(self._pass_on, ProgressFrame(self.call, text[:MOST_PROGRESS]))

    def _pass_on(self, frame: ProgressFrame) -> None:
        if self._telling is None or self._telling.done():
            self._telling = run_errand(self.write(frame), "tells progress", (OSError,))

    def hear(self, told: CompletedFrame) -> None:
        """An answer has come."""
        waiting = self._waiting.get(told.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(told)

    def _completion(self, told: CompletedFrame, model: str) -> Completion:
        if told.fault == "lookup":
            raise LookupError(told.why)
        if told.fault == "value":
            raise ValueError(told.why)
        done = Completion(told.content, told.calls, told.usage, told.model, finish=told.finish)
        if told.fault is not None:
            partial = None if done.finish.whole else done
            raise CompletionError(CompletionFault(told.fault), model, told.why, partial=partial)
        output = None
        if told.output is not None:
            element = read_payload(told.output.encode(), self.bounds)
            codec = None if isinstance(element, Malformed) else self.codecs.named(str(element.tag))
            if codec is None or isinstance(element, Malformed) or not codec.valid(element):
                raise CompletionError(CompletionFault.ANSWER, model, "it does not satisfy its schema")
            output = codec.decode(element)
        return replace(done, output=output)


async def answered(asked: CompleteFrame, current: Invocation, codecs: Codecs) -> CompletedFrame:
    """Ask a model for a worker, at the server. Failures are part of the answer.

    Args:
        asked: the question.
        current: the invocation that asks; it has the models and the budget.
        codecs: of the server.
    """
    if current.completer is None:
        return _failed(asked, "lookup", "the organism declares no language models: add llm: to the YAML")
    try:
        tools = [_class(tool, codecs) if isinstance(tool, str) else tool for tool in asked.tools]
        output = None if asked.output is None else _class(asked.output, codecs)
        question = Request(
            asked.messages,
            asked.agent,
            current.until,
            tools,
            output,
            asked.repairs,
            current.purse,
            partial=asked.partial,
        )
        done = await current.completer.complete(asked.model, question)
    except CompletionError as error:
        failed = _failed(asked, error.fault.value, error.why)
        return failed if error.partial is None else _written(asked, error.partial, failed, None)
    except LookupError as error:
        return _failed(asked, "lookup", str(error))
    except (ValueError, TypeError) as error:
        return _failed(asked, "value", str(error))
    markup = None if done.output is None else codecs.of(type(done.output)).encode(done.output)
    return _written(asked, done, None, markup)


def _written(
    asked: CompleteFrame, done: Completion, failed: CompletedFrame | None, output: str | None
) -> CompletedFrame:
    """An answer as a frame, or the partial one of a failure."""
    return CompletedFrame(
        asked.call,
        asked.number,
        done.content,
        done.calls,
        done.usage,
        done.model,
        output,
        None if failed is None else failed.fault,
        "" if failed is None else failed.why,
        done.finish,
    )


def _class(name: str, codecs: Codecs) -> type[Any]:
    codec = codecs.named(name)
    if codec is None:
        raise ValueError(f"{name} is no payload of this organism: list its class under replies")
    return codec.payload


def _failed(asked: CompleteFrame, fault: str, why: str) -> CompletedFrame:
    return CompletedFrame(asked.call, asked.number, "", (), Usage(), "", None, fault, why)
