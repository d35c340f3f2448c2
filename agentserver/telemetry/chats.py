"""Spans and metrics of completions: models, backends, tokens and the end of the answer, never its text."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from opentelemetry import context as contexts
from opentelemetry.trace import NonRecordingSpan, SpanContext, get_current_span, set_span_in_context

from agentserver.completion import CompletionError, Finish
from agentserver.telemetry.spans import Attribute, Operation, Span, SpanEvent, SpanKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from agentserver.completion import Attempt, Backend, Completer, Completion, LanguageModels, Request
    from agentserver.telemetry.client import ClientMetrics
    from agentserver.telemetry.spans import Pair

FAILED: Final = "backend_failed"
"""Span event of a backend that returned no whole answer."""

FINISHES: Final[Mapping[Finish, str]] = MappingProxyType({Finish.FILTER: "content_filter"})
"""Finish reasons that the conventions name differently."""


@dataclass(slots=True)
class _Outcome:
    """Finished completion: its answer or its failure."""

    done: Completion | None = None
    error: BaseException | None = None

    @property
    def answer(self) -> Completion | None:
        """The answer, whole or partial."""
        return self.error.partial if isinstance(self.error, CompletionError) else self.done

    @property
    def attempts(self) -> Sequence[Attempt]:
        """Backends that were asked."""
        if isinstance(self.error, CompletionError):
            return self.error.attempts
        return () if self.done is None else self.done.attempts

    @property
    def fault(self) -> str:
        """Kind of the failure; empty if it succeeded."""
        if self.error is None:
            return ""
        return (
            self.error.fault.value if isinstance(self.error, CompletionError) else type(self.error).__name__
        )


@dataclass(frozen=True, slots=True)
class TracedCompleter:
    """Completer whose completions have spans and count in metrics."""

    completer: Completer
    models: LanguageModels | None
    add: Callable[[Span], None]
    metrics: ClientMetrics | None

    async def complete(self, model: str, request: Request) -> Completion:
        """Return the answer of the completer. Raises its errors."""
        with _RunningCompletion(self, model) as observed:
            observed.outcome.done = await self.completer.complete(model, request)
            return observed.outcome.done

    def finish(self, observed: _RunningCompletion, seconds: float) -> None:
        """Export a finished completion."""
        model, outcome, above = observed.model, observed.outcome, observed.above
        if observed.sampled:
            ids = above.trace_id.to_bytes(16), observed.own, above.span_id.to_bytes(8)
            self.add(self._span(model, outcome, ids, observed.began))
        self._count(model, outcome, seconds)

    def _span(self, model: str, outcome: _Outcome, ids: tuple[bytes, bytes, bytes], began: float) -> Span:
        backend = self._backend(model, outcome)
        asked = model if backend is None else backend.model
        about = SpanKind(
            f"{Operation.CHAT} {asked}",
            ((Attribute.OPERATION, Operation.CHAT), (Attribute.REQUEST_MODEL, asked)),
        )
        ended = time.time()
        events = [_failure_event(one, ended) for one in outcome.attempts if one.fault is not None]
        more = self._facts(model, backend, outcome.answer)
        return Span(*ids, about, began, ended, more, events, outcome.fault, client=True)

    def _facts(self, model: str, backend: Backend | None, answer: Completion | None) -> list[Pair]:
        """Return the attributes of a span, also for a partial answer."""
        more: list[Pair] = [(Attribute.PROVIDER, _provider(backend))]
        choice = None if self.models is None else self.models.models.get(model)
        if choice is not None:
            more.append((Attribute.MAX_TOKENS, choice.max_tokens))
        if answer is None:
            return more
        reason = FINISHES.get(answer.finish, answer.finish.value)
        more += [
            (Attribute.FINISH_REASONS, (reason,)),
            (Attribute.INPUT_TOKENS, answer.usage.input_tokens),
            (Attribute.OUTPUT_TOKENS, answer.usage.output_tokens),
        ]
        if answer.model:
            more.append((Attribute.RESPONSE_MODEL, answer.model))
        if answer.usage.money:
            more.append((Attribute.COST, answer.usage.money))
        return more

    def _backend(self, model: str, outcome: _Outcome) -> Backend | None:
        """Return the backend that was asked last, otherwise the first one of the model."""
        choice = None if self.models is None else self.models.models.get(model)
        if choice is None or self.models is None or not choice.backends:
            return None
        attempts = outcome.attempts
        name = attempts[-1].backend if attempts else choice.backends[0]
        return self.models.backends.get(name)

    def _count(self, model: str, outcome: _Outcome, seconds: float) -> None:
        if self.metrics is None:
            return
        from agentserver.telemetry.client import FinishedCompletion  # is there since the metrics are

        backend, answer = self._backend(model, outcome), outcome.answer
        asked = model if backend is None else backend.model
        read, written = (0, 0) if answer is None else (answer.usage.input_tokens, answer.usage.output_tokens)
        answered = "" if answer is None else answer.model
        self.metrics.record(
            FinishedCompletion(_provider(backend), asked, answered, seconds, read, written, outcome.fault)
        )


class _RunningCompletion:
    """Running completion. Its span is the current one if the request around it is sampled."""

    def __init__(self, asked: TracedCompleter, model: str) -> None:
        self.model, self.outcome = model, _Outcome()
        self.above, self.own = get_current_span().get_span_context(), os.urandom(8)
        self.sampled = self.above.is_valid and self.above.trace_flags.sampled
        self._asked = asked

    def __enter__(self) -> Self:
        self._token = contexts.attach(_make_context(self.above, self.own)) if self.sampled else None
        self.began, self._since = time.time(), time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.outcome.error = error
        if self._token is not None:
            contexts.detach(self._token)
        self._asked.finish(self, time.monotonic() - self._since)


def _provider(backend: Backend | None) -> str:
    return "unknown" if backend is None else backend.provider


def _make_context(above: SpanContext, own: bytes) -> contexts.Context:
    """Return a context in which the span with this id is the current one."""
    number = int.from_bytes(own)
    spanned = SpanContext(above.trace_id, number, is_remote=False, trace_flags=above.trace_flags)
    return set_span_in_context(NonRecordingSpan(spanned))


def _failure_event(one: Attempt, at: float) -> SpanEvent:
    """Return the event of a backend that returned no whole answer."""
    told: list[Pair] = [(Attribute.BACKEND, one.backend)]
    if one.fault is not None:
        told.append((Attribute.ERROR, one.fault.value))
    if one.status is not None:
        told.append((Attribute.STATUS, one.status))
    return SpanEvent(FAILED, at, tuple(told))
