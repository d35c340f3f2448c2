"""The handler of a function that may await messages."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from agentserver.contract import HandlerResponse, SystemError, invocation
from agentserver.flow.errors import FlowError, Refused, refusal
from agentserver.flow.lines import FlowLine
from agentserver.flow.runner import FlowRunner
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.contract import Answering, HandlerMetadata, HandlerResult, Invocation
    from agentserver.flow.requests import AskRequest, FlowCoroutine
    from agentserver.payload.codec import Codecs

H = TypeVar("H")

IN_MEMORY: Final = 1000
"""Flows of one listener that stay in memory while they wait; others are run again from their log."""

_BOUNDS: Final = envelope.Bounds(bytes=9_000_000)
"""Of a line's markup, which the server has checked before."""


class _WaitingFlow(NamedTuple):
    """Flow that waits, in memory.

    Args:
        size: bytes of its log when it began to wait. A log of another size is of another step.
    """

    runner: FlowRunner
    size: int


class FlowHandler:
    """Handler that runs a function, which is out of the way while it waits for messages.

    Args:
        run: calls the function with a payload. Its coroutine returns the payload of the answer, or None.
        codecs: of requests and answers.
    """

    def __init__(self, run: Callable[[Any], FlowCoroutine], codecs: Codecs) -> None:
        self._run = run
        self._codecs = codecs
        self._waiting: OrderedDict[str, _WaitingFlow] = OrderedDict()

    def bind(self, codecs: Codecs) -> FlowHandler:
        """Return the handler for one server, which knows the payloads of all listeners."""
        return type(self)(self._run, codecs)

    async def __call__(self, payload: Any, metadata: HandlerMetadata) -> HandlerResult:
        """Begin a flow with a request, or continue it with an answer."""
        now = invocation()
        waiting = self._waiting.pop(metadata.thread_id, None)
        if now.answering is not None:
            return await self._resume(now, now.answering, payload, waiting)
        _clear_log(now)
        runner = FlowRunner(self._run(payload), self._encode, self._read)
        runner.ledger = now.ledger
        await runner.begin(now.idempotency_key)
        if runner.ended:
            return _finish(now, runner, payload)
        return self._wait(now, runner, FlowLine(now.idempotency_key, self._encode(payload)))

    async def _resume(
        self, now: Invocation, answering: Answering, payload: Any, waiting: _WaitingFlow | None
    ) -> HandlerResult:
        runner = None if waiting is None or waiting.size != now.storage.size(FlowLine) else waiting.runner
        if runner is None:
            lines = now.storage.log(FlowLine)
            if not lines:  # the flow has ended: this refuses its answer
                return HandlerResponse.respond(payload) if isinstance(payload, SystemError) else None
            runner = FlowRunner(self._run(self._decode(lines[0].received)), self._encode, self._read)
            await runner.replay(lines)
        key, place, refused = answering.key, answering.place, answering.refused
        if not runner.waits_for(key, place, refused=refused):
            self._keep(now, runner)  # an answer to tell
            return None
        line = FlowLine(now.idempotency_key, self._encode(payload), key, place, refused)
        runner.ledger = now.ledger
        await runner.resume(line)
        return _finish(now, runner, payload) if runner.ended else self._wait(now, runner, line)

    def _wait(self, now: Invocation, runner: FlowRunner, line: FlowLine) -> HandlerResult:
        """Record the invocation of a flow that waits, and return its messages."""
        line.events.extend(runner.events)
        now.storage.append(line)
        self._keep(now, runner)
        return _to_result(runner)

    def _keep(self, now: Invocation, runner: FlowRunner) -> None:
        """Keep a waiting flow in memory, in place of the one that waits longest if there are too many."""
        self._waiting[now.metadata.thread_id] = _WaitingFlow(runner, now.storage.size(FlowLine))
        if len(self._waiting) > IN_MEMORY:
            self._waiting.popitem(last=False)[1].runner.close()

    def _encode(self, payload: Any) -> str:
        return self._codecs.of(type(payload)).encode(payload)

    def _decode(self, text: str, kind: type | None = None) -> Any:
        """Decode a payload of the log. ``kind`` is its likely class."""
        regular = kind is not None and self._codecs.of(kind).regular
        element = envelope.read_written(text, _BOUNDS, regular=regular)
        if not isinstance(element, envelope.Malformed):
            codec = self._codecs.for_root(str(element.tag))
            if codec is not None:
                return codec.decode(element)
        raise FlowError("a payload of the log belongs to no class that the listener knows now")

    def _read(self, asked: AskRequest, text: str) -> Any:
        """Return an answer, or the exception for a refusal."""
        payload = self._decode(text, asked.reply)
        return refusal(payload, asked.to) if isinstance(payload, SystemError) else payload


def _finish(now: Invocation, runner: FlowRunner, payload: Any) -> HandlerResult:
    """Return the last messages of a flow, its answer among them. Raises the flow's exception.

    A refusal that the flow has just got is passed to its caller.
    """
    _clear_log(now)
    error = runner.error
    if isinstance(error, Refused) and error.error == payload:
        return HandlerResponse.respond(payload)
    if error is not None:
        raise error
    return _to_result(runner)


def _to_result(runner: FlowRunner) -> HandlerResult:
    """Convert the messages of the present invocation and the answer."""
    sent = [HandlerResponse(each.payload, each.to) for each in runner.sent]
    if runner.result is not None:
        sent.append(HandlerResponse.respond(runner.result))
    return sent[0] if len(sent) == 1 else sent


def _clear_log(now: Invocation) -> None:
    if now.storage.size(FlowLine):
        now.storage.trim(FlowLine, 0)


def bind_flow(handler: H, codecs: Codecs) -> H | FlowHandler:
    """Bind the handler of a function to a server; return any other handler as it is."""
    return handler.bind(codecs) if isinstance(handler, FlowHandler) else handler
