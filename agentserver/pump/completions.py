"""Records the completions of handlers with their conversations, as ``llm: prompts:`` says."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING, Any, Final

from agentserver.characters.printing import truncate_counting
from agentserver.codec import write_json
from agentserver.completion import (
    CompletionContent,
    CompletionError,
    OfferedTool,
    PromptMessage,
    Recorded,
    RecordedCompletion,
    Tool,
    ToolCall,
    Usage,
)
from agentserver.payload.names import local
from agentserver.ports import EngineError
from agentserver.supervision import run_errand
from agentserver.trace.completions import map_content
from agentserver.trace.text import jsonable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from agentserver.completion import Attempt, Completer, Completion, PromptRecording, Request, Words
    from agentserver.core.messages import Delivery
    from agentserver.ports import Clock, Engine

TEXT: Final = 65_536
"""Characters of one text that are recorded."""

TOTAL: Final = 1_048_576
"""Characters of the messages of one prompt that are recorded, the last messages first."""

logger = logging.getLogger("agentserver.pump")


@dataclass(frozen=True, slots=True)
class CompletionLog:
    """Recorder of the completions of one edition.

    Args:
        wanted: the extent, share and retention of the records.
        engine: stores them.
        clock: time.
        redact: removes secrets from a text.
    """

    wanted: PromptRecording
    engine: Engine
    clock: Clock
    redact: Callable[[str], str]

    def wrap(self, completer: Completer, delivery: Delivery) -> Completer:
        """Return the completer for the handler of a delivery, which records if its request is sampled."""
        if not is_sampled(delivery.request, self.wanted.sample):
            return completer
        return RecordingCompleter(completer, self, delivery)

    async def record(self, done: RecordedCompletion) -> None:
        """Store a completion. A failure is logged and costs the handler nothing."""
        try:
            await self.engine.record_completion(done, done.at + self.wanted.retention)
        except EngineError as error:
            logger.warning("a completion of %s is not recorded: %s", done.listener, error)


@dataclass(frozen=True, slots=True)
class RecordingCompleter:
    """Completer of one handler, whose completions are recorded."""

    completer: Completer
    log: CompletionLog
    delivery: Delivery

    async def complete(self, model: str, request: Request) -> Completion:
        """Return the answer of the completer, once it is recorded. Raises its errors."""
        async with _RunningCompletion(self, model, request) as running:
            running.answer = await self.completer.complete(model, request)
        return running.answer

    def locate(self, found: RecordedCompletion) -> RecordedCompletion:
        """Add the place, and remove secrets or all texts."""
        delivery, content = self.delivery, None
        if self.log.wanted.recorded is Recorded.FULL and found.content is not None:
            redact = self.log.redact
            content = map_content(found.content, lambda text: truncate_counting(redact(text), TEXT))
        return replace(
            found,
            conversation=delivery.conversation,
            request=delivery.request,
            delivery=delivery.id,
            listener=delivery.to,
            tools=tuple(map(self.log.redact, found.tools)),
            content=content,
        )


class _RunningCompletion:
    """Completion that is recorded when it ends, however it ends."""

    answer: Completion

    def __init__(self, completer: RecordingCompleter, model: str, request: Request) -> None:
        self._completer, self._model, self._request = completer, model, request
        clock = completer.log.clock
        self._at, self._began = clock.moment().now, clock.steady()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        log = self._completer.log
        found = describe_completion(self._model, self._request, error or self.answer)
        took = max(0.0, log.clock.steady() - self._began)
        recording = log.record(self._completer.locate(replace(found, at=self._at, took=took)))
        if error is None or isinstance(error, Exception):
            await recording
        else:  # the handler was cancelled, and must not wait
            run_errand(recording, "records a completion")


def is_sampled(request: str, share: float) -> bool:
    """Return whether the completions of a request are recorded; always the same for the same request."""
    if share >= 1:
        return True
    drawn = blake2b(request.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(drawn) < share * 2**64


def describe_completion(
    model: str, request: Request, ended: Completion | BaseException
) -> RecordedCompletion:
    """Describe a completion by its answer or its failure, without its place and times."""
    attempts: Sequence[Attempt] = ()
    match ended:
        case CompletionError():
            fault, said, attempts = ended.fault.value, ended.partial, ended.attempts
        case BaseException():
            fault, said = type(ended).__name__, None
        case _:
            fault, said, attempts = "", ended, ended.attempts
    messages = tuple(map(_read_message, request.messages))
    tools = _list_tools(request)
    prompt = write_json([[one.role, one.content, *map(_plain_call, one.calls)] for one in messages])
    return RecordedCompletion(
        "",
        "",
        "",
        "",
        model,
        0.0,
        0.0,
        answered_by="" if said is None else said.model,
        finish=None if said is None else said.finish,
        fault=fault,
        attempts=tuple(attempts),
        usage=Usage(calls=0) if said is None else said.usage,
        tools=tuple(one.name for one in tools),
        messages=len(messages),
        characters=sum(map(_count, messages)),
        digest=sha256(prompt).hexdigest(),
        content=_content(messages, tools, said),
    )


def _content(
    messages: Sequence[PromptMessage], tools: Sequence[OfferedTool], said: Completion | None
) -> CompletionContent:
    kept: list[PromptMessage] = []
    left = TOTAL
    for one in reversed(messages):
        size = _count(one)
        shown = (
            one if size <= left else replace(one, content=f"[{size:,} characters are not recorded]", calls=())
        )
        left -= min(size, left)
        kept.append(shown)
    if said is None:
        return CompletionContent(tuple(kept[::-1]), tuple(tools))
    output = "" if said.output is None else write_json(jsonable(said.output)).decode()
    return CompletionContent(tuple(kept[::-1]), tuple(tools), said.content, said.calls, output)


def _list_tools(request: Request) -> list[OfferedTool]:
    answer = () if request.output is None else (request.output,)
    return [_describe_tool(one) for one in (*request.tools, *answer)]


def _describe_tool(one: Tool | type) -> OfferedTool:
    if isinstance(one, Tool):
        return OfferedTool(one.name, one.description, json.dumps(dict(one.schema)))
    return OfferedTool(local(str(vars(one).get("__xml_name__", one.__name__))), (one.__doc__ or "").strip())


def _read_message(one: PromptMessage | Words) -> PromptMessage:
    """Read a message leniently: the completer refuses a wrong one."""
    if isinstance(one, PromptMessage):
        return one
    calls = tuple(_read_call(call) for call in one.get("calls") or ())
    return PromptMessage(
        one.get("role", "user"),
        str(one.get("content") or ""),
        calls,
        str(one.get("id") or ""),
        str(one.get("name") or ""),
    )


def _read_call(call: Any) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    said = dict(call)
    arguments = said.get("arguments", "{}")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
    return ToolCall(str(said.get("id", "")), str(said.get("name", "")), text)


def _count(one: PromptMessage) -> int:
    return len(one.content) + sum(len(call.name) + len(call.arguments) for call in one.calls)


def _plain_call(call: ToolCall) -> list[str]:
    return [call.id, call.name, call.arguments]
