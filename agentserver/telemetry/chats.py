"""The spans and metrics of completions.

Owns their facts: the models, the backends that were asked, tokens, the end of the answer. Refuses to hold a word of the
prompt or of the answer.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from opentelemetry import context as contexts
from opentelemetry.trace import NonRecordingSpan, SpanContext, get_current_span, set_span_in_context

from agentserver.completion import CompletionError, Finish
from agentserver.telemetry.names import Attribute, Operation
from agentserver.telemetry.spans import About, Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from agentserver.completion import Attempt, Backend, Completer, Completion, LanguageModels, Request
    from agentserver.telemetry.client import ClientMetrics
    from agentserver.telemetry.spans import Pair

FAILED: Final = "backend_failed"
"""The event of a span for a backend that gave no whole answer."""

FINISHES: Final[Mapping[Finish, str]] = MappingProxyType({Finish.FILTER: "content_filter"})
"""The ends of an answer that the conventions call otherwise."""


@dataclass(slots=True)
class _Outcome:
    """A completion that is over: its answer or its failure."""

    done: Completion | None = None
    error: BaseException | None = None

    @property
    def answer(self) -> Completion | None:
        """The answer, whole or partial."""
        return self.error.partial if isinstance(self.error, CompletionError) else self.done

    @property
    def attempts(self) -> Sequence[Attempt]:
        """The backends that were asked."""
        if isinstance(self.error, CompletionError):
            return self.error.attempts
        return () if self.done is None else self.done.attempts

    @property
    def fault(self) -> str:
        """The kind of the failure; empty for none."""
        if self.error is None:
            return ""
        return (
            self.error.fault.value if isinstance(self.error, CompletionError) else type(self.error).__name__
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """A completer whose completions have spans and count in metrics."""

    completer: Completer
    models: LanguageModels | None
    add: Callable[[Span], None]
    metrics: ClientMetrics | None

    async def complete(self, model: str, request: Request) -> Completion:
        """The answer of the completer. Raises what it does."""
        with _Observed(self, model) as observed:
            observed.outcome.done = await self.completer.complete(model, request)
            return observed.outcome.done

    def over(self, observed: _Observed, seconds: float) -> None:
        """Tell of a completion that is over."""
        model, outcome, above = observed.model, observed.outcome, observed.above
        if observed.sampled:
            ids = above.trace_id.to_bytes(16), observed.own, above.span_id.to_bytes(8)
            self.add(self._span(model, outcome, ids, observed.began))
        self._count(model, outcome, seconds)

    def _span(self, model: str, outcome: _Outcome, ids: tuple[bytes, bytes, bytes], began: float) -> Span:
        backend = self._backend(model, outcome)
        asked = model if backend is None else backend.model
        about = About(
            f"{Operation.CHAT} {asked}",
            ((Attribute.OPERATION, Operation.CHAT), (Attribute.REQUEST_MODEL, asked)),
        )
        ended = time.time()
        events = [_failed(one, ended) for one in outcome.attempts if one.fault is not None]
        more = self._facts(model, backend, outcome.answer)
        return Span(*ids, about, began, ended, more, events, outcome.fault, client=True)

    def _facts(self, model: str, backend: Backend | None, answer: Completion | None) -> list[Pair]:
        """The attributes of a span, those of a partial answer among them."""
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
        """The backend that was asked last, or else the first one of the model."""
        choice = None if self.models is None else self.models.models.get(model)
        if choice is None or self.models is None or not choice.backends:
            return None
        attempts = outcome.attempts
        name = attempts[-1].backend if attempts else choice.backends[0]
        return self.models.backends.get(name)

    def _count(self, model: str, outcome: _Outcome, seconds: float) -> None:
        if self.metrics is None:
            return
        from agentserver.telemetry.client import Operated  # is there since the metrics are

        backend, answer = self._backend(model, outcome), outcome.answer
        asked = model if backend is None else backend.model
        read, written = (0, 0) if answer is None else (answer.usage.input_tokens, answer.usage.output_tokens)
        answered = "" if answer is None else answer.model
        self.metrics.record(
            Operated(_provider(backend), asked, answered, seconds, read, written, outcome.fault)
        )


class _Observed:
    """A completion that runs. Its span is the current one, if the request around it is sampled."""

    def __init__(self, asked: Asked, model: str) -> None:
        self.model, self.outcome = model, _Outcome()
        self.above, self.own = get_current_span().get_span_context(), os.urandom(8)
        self.sampled = self.above.is_valid and self.above.trace_flags.sampled
        self._asked = asked

    def __enter__(self) -> Self:
        self._token = contexts.attach(_within(self.above, self.own)) if self.sampled else None
        self.began, self._since = time.time(), time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.outcome.error = error
        if self._token is not None:
            contexts.detach(self._token)
        self._asked.over(self, time.monotonic() - self._since)


def _provider(backend: Backend | None) -> str:
    return "unknown" if backend is None else backend.provider


def _within(above: SpanContext, own: bytes) -> contexts.Context:
    """The context in which a span of this id is the current one."""
    number = int.from_bytes(own)
    spanned = SpanContext(above.trace_id, number, is_remote=False, trace_flags=above.trace_flags)
    return set_span_in_context(NonRecordingSpan(spanned))


def _failed(one: Attempt, at: float) -> SpanEvent:
    """The event for a backend that gave no whole answer."""
    told: list[Pair] = [(Attribute.BACKEND, one.backend)]
    if one.fault is not None:
        told.append((Attribute.ERROR, one.fault.value))
    if one.status is not None:
        told.append((Attribute.STATUS, one.status))
    return SpanEvent(FAILED, at, tuple(told))
