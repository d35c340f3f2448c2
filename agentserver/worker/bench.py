"""Runs the handler inside the worker process: imports the project's code, decodes calls and encodes their results."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from agentserver.completion import (
    Completion,
    CompletionError,
    CompletionFault,
    Request,
)
from agentserver.config.code.settings import validate_settings
from agentserver.config.code.signature import Discovery, SignatureRefusal, read_signature
from agentserver.config.code.userland import Importer, Project, ResolveFailure
from agentserver.contract import DelayedResponse, HandlerResponse, Invocation, Target, run_in
from agentserver.core.drafts.replies import add_delayed, normalise
from agentserver.core.messages import Draft, Drafts, Effects, HandlerFailure
from agentserver.core.records.wording import WORDING
from agentserver.core.state.effects import ThreadStorage, ThreadTodos
from agentserver.core.state.logs import ThreadLog
from agentserver.core.state.requests import ResultLimits
from agentserver.effects import LedgerEntry
from agentserver.flow.handler import bind_flow
from agentserver.llm.prompts import parse_messages
from agentserver.payload.codec import Codecs
from agentserver.payload.generate import Unencodable
from agentserver.payload.xmlify import PayloadError
from agentserver.pump.editions import Supply, supply
from agentserver.pump.invoke import format_error
from agentserver.pump.ledger import find_unknown_effect
from agentserver.supervision import run_errand
from agentserver.wire.envelope import Bounds, Malformed, read_payload, read_written
from agentserver.worker.frames import (
    CallFrame,
    CompletionFrame,
    CompletionRequestFrame,
    EffectFrame,
    EffectStateFrame,
    FailedFrame,
    Frame,
    MessageFrame,
    ProgressFrame,
    Question,
    QuestionAnswer,
    ReturnedFrame,
    SetupFrame,
)
from agentserver.worker.reading import EFFECT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from contextlib import AsyncExitStack

    _Made: TypeAlias = tuple[Invocation, ThreadStorage, ThreadTodos, list[DelayedResponse]]


__all__ = ["Bench", "StartError", "open_bench", "run_attempt"]

MOST_DETAIL = 2_000


class StartError(Exception):
    """The worker cannot take calls; the message is for the log of the server."""


async def run_attempt(work: Awaitable[Frame], call: int) -> Frame:
    """Run code of the project and return its frame; any exception becomes a FailedFrame."""
    try:
        return await work
    except asyncio.CancelledError:
        return FailedFrame(call, "cancelled")
    except BaseException as error:  # noqa: BLE001 - the project's code may raise anything
        fault = error.fault.value if isinstance(error, CompletionError) else None
        unknown = find_unknown_effect(error)
        if unknown is not None:
            return FailedFrame(call, unknown.id, (), EFFECT)
        return FailedFrame(call, " ".join(format_error(error).split())[:MOST_DETAIL], (), fault)


@dataclass(frozen=True, slots=True)
class Bench:
    """A handler with the resources of its calls.

    Args:
        handler: the author's callable.
        codecs: of the payloads, replies and stored values.
        bounds: of one payload.
        storage: bytes that a thread may store.
        supply: returns the settings of each call.
        resources: of the worker's own lifespan.
    """

    handler: Callable[..., Any]
    codecs: Codecs
    bounds: Bounds
    storage: int
    supply: Supply
    resources: Sequence[object]

    async def call(self, frame: CallFrame, asker: ServerCompleter) -> Frame:
        """Call the handler as the server would, and encode its result. Raises the exceptions of the handler."""
        codec = self.codecs.for_root(frame.root)
        # The server has read it within its bounds, and it fits its schema.
        element = None if codec is None else read_written(frame.markup, self.bounds, regular=codec.regular)
        if codec is None or element is None or isinstance(element, Malformed):
            return FailedFrame(frame.call, f"{frame.root} is none of the worker's payloads")
        invocations: list[_Made] = []  # when the handler first asks for it

        def current() -> Invocation:
            if not invocations:
                invocations.append(self._make_invocation(frame, asker))
            return invocations[0][0]

        run_in(current)
        value: object = await self.handler(codec.decode(element), frame.metadata)
        if invocations:
            value = add_delayed(value, invocations[0][3])
        written = self._encode(value, frame.messages)
        if written is not None:
            return _build_returned_frame(frame.call, written, invocations)
        result = normalise(value, self.codecs, self.bounds, ResultLimits(frame.messages, frame.bytes))
        if not isinstance(result, Drafts):
            detail = str(result.code) if result.detail is None else WORDING.join_lines(result.detail)
            faults = () if isinstance(result, HandlerFailure) else tuple(result.corrections)
            return FailedFrame(frame.call, detail[:MOST_DETAIL], faults)
        return _build_returned_frame(frame.call, tuple(map(_make_said_frame, result.drafts)), invocations)

    def _encode(self, value: object, maximum: int) -> tuple[MessageFrame, ...] | None:
        """Encode a result, which the server validates again; None if it needs the general path.

        Args:
            value: the handler's result.
            maximum: messages that it may hold.
        """
        each = (value,) if isinstance(value, HandlerResponse) else value
        if not isinstance(each, list | tuple):
            return None
        some = tuple(islice(each, maximum + 1))
        if len(some) > maximum or not all(isinstance(one, HandlerResponse) for one in some):
            return None
        try:
            return tuple([self._encode_message(one) for one in some])
        except (PayloadError, Unencodable, TypeError):
            return None

    def _encode_message(self, response: HandlerResponse) -> MessageFrame:
        to: object = response.to
        if not isinstance(to, str | Target):
            raise TypeError("no target")
        markup = self.codecs.of(type(response.payload)).encode(response.payload)
        after = response.after if isinstance(response, DelayedResponse) else 0.0
        named = str.__str__(to) if isinstance(to, str) else None
        return MessageFrame(named, not isinstance(to, str), markup, after)

    def _find_storage(self, frame: CallFrame) -> ThreadStorage:
        logs = {name: ThreadLog(entries) for name, entries in frame.logs.items()}
        return ThreadStorage(frame.storage, self.codecs, self.bounds, self.storage, logs)

    def _make_invocation(self, frame: CallFrame, asker: ServerCompleter) -> _Made:
        storage, todos = self._find_storage(frame), _todos(frame)
        delayed: list[DelayedResponse] = []
        current = Invocation(
            frame.metadata,
            storage,
            todos,
            self.supply(),
            self.resources,
            frame.key,
            frame.attempt,
            frame.answering,
            time.monotonic() + frame.seconds,
            asker if frame.models else None,
            asker.tell if frame.progress else None,
            epoch=frame.epoch,
            delay=delayed.append,
            ledger=WorkerLedger(asker),
            clock=partial(_advance, frame.at, time.monotonic()),
        )
        return current, storage, todos, delayed


def _build_returned_frame(
    call: int, messages: tuple[MessageFrame, ...], invocations: Sequence[_Made]
) -> ReturnedFrame:
    """Build the frame of a result, with the effects if the handler used the thread."""
    if not invocations:
        return ReturnedFrame(call, messages)
    _, storage, todos, _ = invocations[0]
    return ReturnedFrame(call, messages, Effects(storage.changes, tuple(todos.closed), tuple(storage.logged)))


def _advance(at: float, since: float) -> float:
    """Return the server's time, which was read when this process's steady clock showed ``since``."""
    return at + time.monotonic() - since


def _todos(frame: CallFrame) -> ThreadTodos:
    return ThreadTodos(frame.metadata.thread_id, frame.metadata.own_name or "", frame.todos)


def _make_said_frame(draft: Draft) -> MessageFrame:
    find_named = isinstance(draft.to, str)
    return MessageFrame(
        str(draft.to) if find_named else None,
        not find_named and draft.to is not None,
        draft.markup,
        draft.after,
    )


async def open_bench(setup: SetupFrame, stack: AsyncExitStack) -> Bench:
    """Import the handler, and enter the worker's own lifespan. Raises StartError, and the exceptions of the code."""
    importer = Importer(Project(Path(setup.project), Path(setup.project)))

    def find_named(path: str) -> Any:
        found = importer.resolve(path)
        if isinstance(found, ResolveFailure):
            raise StartError(found.message)
        return found

    signature = read_signature(find_named(setup.handler))
    if isinstance(signature, SignatureRefusal):
        raise StartError(signature.message)
    taken = [find_named(path) for path in (*setup.payloads, *setup.replies)]
    derived = () if signature.form is None else (*signature.payloads, *signature.answers, *signature.stored)
    known = Codecs(dict.fromkeys(taken), closed=True)
    if derived and not any(known.for_root(kind.__xml_name__) for kind in signature.payloads):  # type: ignore[attr-defined]
        raise StartError(f"{setup.handler} takes none of {', '.join(setup.payloads)}")
    codecs = Codecs(
        dict.fromkeys((*taken, *derived, *Discovery().list_classes(signature.function))), closed=True
    )
    handler = bind_flow(signature.handler, codecs)
    settings = None
    if setup.settings_class is not None:
        settings = validate_settings(find_named(setup.settings_class), setup.settings or {})
    resources: tuple[object, ...] = ()
    if setup.lifespan is not None:
        provided = await stack.enter_async_context(find_named(setup.lifespan)())
        resources = tuple(provided) if isinstance(provided, list | tuple) else (provided,)
    bounds = Bounds(**setup.bounds)  # type: ignore[arg-type]  # numbers, and no names
    return Bench(handler, codecs, bounds, setup.storage, supply(settings), resources)


MOST_PROGRESS = 1_000


@dataclass(eq=False)
class ServerCompleter:
    """The Completer of one call inside a worker.

    Args:
        call: the number of the call.
        write: sends a frame to the server.
        codecs: of the worker.
        bounds: of one payload.
    """

    call: int
    write: Callable[[Question | ProgressFrame], Coroutine[Any, Any, None]]
    codecs: Codecs
    bounds: Bounds
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _futures: dict[int, asyncio.Future[QuestionAnswer]] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _telling: asyncio.Future[None] | None = None

    async def complete(self, model: str, request: Request) -> Completion:
        """Ask a model, as the port specifies."""
        number = self.take_number()
        tools = tuple(
            [self.codecs.of(tool).name if isinstance(tool, type) else tool for tool in request.tools]
        )
        output = None if request.output is None else self.codecs.of(request.output).name
        words = tuple(parse_messages(request.messages))
        answer = await self.ask(
            CompletionRequestFrame(
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
        assert isinstance(answer, CompletionFrame)
        return self._make_completion(answer, model)

    def take_number(self) -> int:
        """Return the number of the next question."""
        return next(self._numbers)

    async def ask(self, question: Question) -> QuestionAnswer:
        """Send a question to the server and wait for its answer."""
        self._futures[question.number] = asyncio.get_running_loop().create_future()
        try:
            await self.write(question)
            return await self._futures[question.number]
        finally:
            del self._futures[question.number]

    def tell(self, text: str) -> None:
        """Send a line of progress, from any thread. It is dropped while an earlier one is being sent."""
        if not isinstance(text, str):
            raise TypeError(f"progress must be text, not {type(text).__name__}")
        self.loop.call_soon_threadsafe(self._pass_on, ProgressFrame(self.call, text[:MOST_PROGRESS]))

    def _pass_on(self, frame: ProgressFrame) -> None:
        if self._telling is None or self._telling.done():
            self._telling = run_errand(self.write(frame), "tells progress", (OSError,))

    def deliver(self, answer: QuestionAnswer) -> None:
        """Deliver an answer."""
        waiting = self._futures.get(answer.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def _make_completion(self, answer: CompletionFrame, model: str) -> Completion:
        if answer.fault == "lookup":
            raise LookupError(answer.reason)
        if answer.fault == "value":
            raise ValueError(answer.reason)
        done = Completion(answer.content, answer.calls, answer.usage, answer.model, finish=answer.finish)
        if answer.fault is not None:
            partial = None if done.finish.complete else done
            raise CompletionError(CompletionFault(answer.fault), model, answer.reason, partial=partial)
        output = None
        if answer.output is not None:
            element = read_payload(answer.output.encode(), self.bounds)
            codec = None if isinstance(element, Malformed) else self.codecs.for_root(str(element.tag))
            if codec is None or isinstance(element, Malformed) or not codec.valid(element):
                raise CompletionError(CompletionFault.ANSWER, model, "it does not satisfy its schema")
            output = codec.decode(element)
        return replace(done, output=output)


@dataclass(frozen=True, slots=True)
class WorkerLedger:
    """Ledger of external effects inside a worker: the server has the records.

    Args:
        asker: of the call.
    """

    asker: ServerCompleter

    async def claim(self, key: str, *, passing: bool = False) -> LedgerEntry:
        """Claim an effect, as ``EffectLedger`` specifies."""
        answer = await self._ask(EffectFrame(self.asker.call, self.asker.take_number(), key, passing))
        return LedgerEntry(answer.effect, answer.state, answer.answer, answer.token)

    async def conclude(self, id: str, answer: str | None, *, trusted: bool = False) -> None:  # noqa: A002
        """Record an answer, as ``EffectLedger`` specifies."""
        number = self.asker.take_number()
        await self._ask(EffectFrame(self.asker.call, number, effect=id, answer=answer, trusted=trusted))

    async def _ask(self, frame: EffectFrame) -> EffectStateFrame:
        answer = await self.asker.ask(frame)
        if not isinstance(answer, EffectStateFrame) or answer.reason:
            raise RuntimeError(
                answer.reason if isinstance(answer, EffectStateFrame) else "another answer came"
            )
        return answer
