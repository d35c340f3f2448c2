"""The handler of a function that may await messages."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from agentserver.contract import HandlerResponse, SystemError, invocation
from agentserver.flow.errors import FlowError, Refused, convert_answer
from agentserver.flow.lines import FlowLine
from agentserver.flow.runner import FlowRunner
from agentserver.wire import envelope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentserver.contract import Answering, HandlerMetadata, HandlerResult, Invocation
    from agentserver.flow.requests import AskRequest, FlowCoroutine
    from agentserver.payload.codec import Codecs

H = TypeVar("H")

IN_MEMORY: Final = 1000
"""Flows of one listener that stay in memory while they wait; others are run again from their log."""

PINNED: Final = 100_000
"""Waiting flows of one listener whose code stays over a reload; earlier ones are run with the present code."""

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
        earlier: handler of the listener before a reload. A flow that waited then continues with its code there, while
            the process lives; peers, guards and limits are the present ones.
    """

    def __init__(
        self,
        run: Callable[[Any], FlowCoroutine],
        codecs: Codecs,
        earlier: FlowHandler | None = None,
    ) -> None:
        self.run = run
        self.codecs = codecs
        self.earlier = earlier
        self.pinned: OrderedDict[str, None] = OrderedDict()
        self._suspended: OrderedDict[str, _WaitingFlow] = OrderedDict()

    @property
    def function(self) -> Callable[..., Any]:
        """The function that the flow runs."""
        found: Callable[..., Any] = inspect.unwrap(self.run)
        return found

    def bind(self, codecs: Codecs, earlier: FlowHandler | None = None) -> FlowHandler:
        """Return the handler for one server, which knows the payloads of all listeners.

        ``earlier``: that of the same listener before a reload.
        """
        return type(self)(self.run, codecs, earlier)

    async def __call__(self, payload: Any, metadata: HandlerMetadata) -> HandlerResult:
        """Begin a flow with a request, or continue it with an answer."""
        now = invocation()
        suspended = self._suspended.pop(metadata.thread_id, None)
        if now.answering is not None:
            pinned = self.find_pinned(metadata.thread_id)
            if pinned is not None:
                result = await pinned(_convert(payload, self.codecs, pinned.codecs), metadata)
                return _convert_result(result, pinned.codecs, self.codecs)
            return await self._resume(now, now.answering, payload, suspended)
        _clear_log(now)
        runner = FlowRunner(self.run(payload), self._encode, self._read)
        runner.ledger, runner.clock, runner.note_site = now.ledger, now.clock, now.note_site
        await runner.begin(now.idempotency_key)
        if runner.ended:
            return self._finish(now, runner, payload)
        return self._wait(now, runner, FlowLine(now.idempotency_key, self._encode(payload)))

    def find_pinned(self, thread: str) -> FlowHandler | None:
        """Return the earlier handler in which the flow of a thread waits; drop earlier ones without any flow."""
        while self.earlier is not None and not self.earlier.pinned:
            self.earlier = self.earlier.earlier
        if thread in self.pinned or self.earlier is None:
            return None
        earlier = self.earlier
        return earlier if thread in earlier.pinned else earlier.find_pinned(thread)

    def _finish(self, now: Invocation, runner: FlowRunner, payload: Any) -> HandlerResult:
        self.pinned.pop(now.metadata.thread_id, None)
        return _finish(now, runner, payload)

    async def _resume(
        self, now: Invocation, answering: Answering, payload: Any, suspended: _WaitingFlow | None
    ) -> HandlerResult:
        runner = (
            None if suspended is None or suspended.size != now.storage.size(FlowLine) else suspended.runner
        )
        if runner is None:
            lines = now.storage.log(FlowLine)
            if not lines:  # the flow has ended: a refusal of its last invocation is one of its answer
                refused = answering.refused and isinstance(payload, SystemError)
                return HandlerResponse.respond(payload) if refused else None
            runner = await self.rerun(lines)
        key, place, refused = answering.key, answering.place, answering.refused
        if not runner.waits_for(key, place, refused=refused):
            self.keep(now, runner)  # an answer to tell
            return None
        line = FlowLine(now.idempotency_key, self._encode(payload), key, place, refused)
        runner.ledger, runner.clock, runner.note_site = now.ledger, now.clock, now.note_site
        await runner.resume(line, payload)
        return self._finish(now, runner, payload) if runner.ended else self._wait(now, runner, line)

    async def rerun(self, lines: Sequence[FlowLine]) -> FlowRunner:
        """Run a flow to the end of its log. Raises FlowError."""
        runner = FlowRunner(self.run(self._decode(lines[0].received)), self._encode, self._read)
        await runner.replay(lines)
        return runner

    def _wait(self, now: Invocation, runner: FlowRunner, line: FlowLine) -> HandlerResult:
        """Record the invocation of a flow that waits, and return its messages."""
        self.pinned[now.metadata.thread_id] = None
        if len(self.pinned) > PINNED:
            self.pinned.popitem(last=False)
        line.events.extend(runner.events)
        now.storage.append(line)
        self.keep(now, runner)
        return _to_result(runner)

    def keep(self, now: Invocation, runner: FlowRunner) -> None:
        """Keep a waiting flow in memory, in place of the one that waits longest if there are too many."""
        self._suspended[now.metadata.thread_id] = _WaitingFlow(runner, now.storage.size(FlowLine))
        if len(self._suspended) > IN_MEMORY:
            self._suspended.popitem(last=False)[1].runner.close()

    def _encode(self, payload: Any) -> str:
        return self.codecs.of(type(payload)).encode(payload)

    def _decode(self, text: str, kind: type | None = None) -> Any:
        """Decode a payload of the log. ``kind`` is its likely class."""
        regular = kind is not None and self.codecs.of(kind).regular
        element = envelope.read_written(text, _BOUNDS, regular=regular)
        if not isinstance(element, envelope.Malformed):
            codec = self.codecs.for_root(str(element.tag))
            if codec is not None:
                return codec.decode(element)
        raise FlowError("a payload of the log belongs to no class that the listener knows now")

    def _read(self, request: AskRequest, text: str) -> Any:
        """Return an answer, or the exception for a refusal."""
        return convert_answer(self._decode(text, request.reply), request.to)


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
    responses = [HandlerResponse(each.payload, each.to) for each in runner.sent]
    if runner.result is not None:
        responses.append(HandlerResponse.respond(runner.result))
    return responses[0] if len(responses) == 1 else responses


def _convert(payload: Any, before: Codecs, after: Codecs) -> Any:
    """Convert a payload to the class that other codecs have for it. Raises FlowError if they have none.

    A reload that imports modules again makes new classes under the same names.
    """
    codec = before.of(type(payload))
    other = after.for_root(codec.name)
    if other is None:
        raise FlowError(f"after the reload nobody knows {codec.name}, which a waiting flow uses")
    if other.payload is type(payload):
        return payload
    element = envelope.read_written(codec.encode(payload), _BOUNDS, regular=False)
    if isinstance(element, envelope.Malformed) or not other.valid(element):
        raise FlowError(f"the reload changed {codec.name}, which a waiting flow uses")
    return other.decode(element)


def _convert_result(result: HandlerResult, before: Codecs, after: Codecs) -> HandlerResult:
    """Convert the payloads of a flow's messages as ``_convert`` does."""
    if isinstance(result, HandlerResponse):
        return replace(result, payload=_convert(result.payload, before, after))
    if not isinstance(result, list | tuple):
        return result
    return [replace(each, payload=_convert(each.payload, before, after)) for each in result]


def _clear_log(now: Invocation) -> None:
    if now.storage.size(FlowLine):
        now.storage.trim(FlowLine, 0)


def bind_flow(handler: H, codecs: Codecs, earlier: object = None) -> H | FlowHandler:
    """Bind the handler of a function to a server; return any other handler as it is.

    ``earlier``: the handler of the same listener before a reload.
    """
    if not isinstance(handler, FlowHandler):
        return handler
    return handler.bind(codecs, earlier if isinstance(earlier, FlowHandler) else None)
