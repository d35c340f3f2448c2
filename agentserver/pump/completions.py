"""Records the completions of handlers with their conversations, as ``llm: prompts:`` says."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from agentserver.characters.printing import truncate_counting
from agentserver.completion import RecordedCompletion, RecordingExtent
from agentserver.ports import EngineError
from agentserver.supervision import run_errand
from agentserver.trace.completions import map_content
from agentserver.trace.recording import describe_completion

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from agentserver.completion import Completer, Completion, PromptRecording, Request
    from agentserver.core.messages import Delivery
    from agentserver.ports import Clock, Engine

TEXT: Final = 65_536
"""Characters of one text that are recorded."""

logger = logging.getLogger("agentserver.pump")


@dataclass(frozen=True, slots=True)
class CompletionLog:
    """Recorder of the completions of one edition.

    Args:
        recording: the extent, share and retention of the records.
        engine: stores them.
        clock: time.
        redact: removes secrets from a text.
    """

    recording: PromptRecording
    engine: Engine
    clock: Clock
    redact: Callable[[str], str]

    def wrap(self, completer: Completer, delivery: Delivery) -> Completer:
        """Return the completer for the handler of a delivery, which records if its request is sampled."""
        if not is_sampled(delivery.request, self.recording.sample):
            return completer
        return RecordingCompleter(completer, self, delivery)

    async def record(self, done: RecordedCompletion) -> None:
        """Store a completion. A failure is logged and costs the handler nothing."""
        try:
            await self.engine.record_completion(done, done.at + self.recording.retention)
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
        if self.log.recording.recorded is RecordingExtent.FULL and found.content is not None:
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
