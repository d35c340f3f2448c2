"""The spans of a running server: made of what it commits, and current while its handlers run.

Owns the context that a handler starts in, so that spans of its own lie below its delivery's, and the spans of
completions. Refuses to set anything that is global: another server in the process has another one of all this.
"""

from __future__ import annotations

import os
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, Self

import anyio
from anyio import to_thread
from opentelemetry import context as contexts
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

from agentserver.completion import CompletionError
from agentserver.telemetry.export import Collector, Export, Sender
from agentserver.telemetry.names import Attribute, Operation
from agentserver.telemetry.otlp import Encoder
from agentserver.telemetry.past import left
from agentserver.telemetry.story import About, Span, Story, sampled, span_id, trace_id
from agentserver.trace.redact import Redaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from types import TracebackType

    from agentserver.completion import Backend, Completer, Completion, LanguageModels, Request
    from agentserver.core.messages import Delivery
    from agentserver.ports import Engine
    from agentserver.telemetry.story import Pair

PATIENCE: Final = 5.0
"""Seconds that a server which stops gives its spans."""

_TOLD, _UNTOLD = TraceFlags(TraceFlags.SAMPLED), TraceFlags(TraceFlags.DEFAULT)


class Wanted(Collector, Protocol):
    """The choice of what is told, and where."""

    @property
    def resource(self) -> Mapping[str, str]:
        """Attributes of this server."""
        ...

    @property
    def sample(self) -> float:
        """The share of requests that are told, from 0 to 1."""
        ...

    @property
    def content(self) -> bool:
        """True when spans hold messages."""
        ...

    @property
    def redact(self) -> tuple[str, ...]:
        """Patterns of the names of fields that are taken out of them."""
        ...


class Tracing:
    """Tells spans.

    Args:
        share: of the requests that are told, from 0 to 1.
        story: what is told.
        export: the way to the collector.
    """

    def __init__(self, share: float, story: Story, export: Export) -> None:
        self._share, self._story, self._export = share, story, export
        self.observe = export.observe

    @property
    def lost(self) -> int:
        """Spans that were lost."""
        return self._export.lost

    def enter(self, delivery: Delivery) -> None:
        """Make a delivery's span the current one of this context."""
        trace = trace_id(delivery.request)
        flags = _TOLD if sampled(trace, self._share) else _UNTOLD
        own = int.from_bytes(span_id(delivery.id))
        spanned = SpanContext(int.from_bytes(trace), own, is_remote=False, trace_flags=flags)
        contexts.attach(set_span_in_context(NonRecordingSpan(spanned)))

    def know(self, agents: Mapping[str, bool]) -> None:
        """Learn of the listeners of an organism that was reloaded; see ``tracing``."""
        self._story.know(agents)

    async def take_up(self, engine: Engine) -> None:
        """Learn what an earlier server has kept of requests that are not at rest, before anything else is told.

        Their spans that are over are told again, under the same ids: the earlier server may not have come to send
        them. Raises EngineError.
        """
        for steps in await engine.read(left):
            over = [span for records in steps for span in self._story.take(records)]
            still = self._story.open
            for span in over:
                if span.trace in still:
                    self._export.add(span)

    def asked(self, completer: Completer, models: LanguageModels | None) -> Completer:
        """The completer, each of whose completions has a span."""
        return _Asked(completer, models, self._export.add)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A completer whose completions are told."""

    completer: Completer
    models: LanguageModels | None
    tell: Callable[[Span], None]

    async def complete(self, model: str, request: Request) -> Completion:
        """The answer of the completer. Raises what it does."""
        above = get_current_span().get_span_context()
        if not (above.is_valid and above.trace_flags.sampled):
            return await self.completer.complete(model, request)
        with _Chat(self, model, above) as chat:
            chat.done = await self.completer.complete(model, request)
            return chat.done

    def told(self, model: str, done: Completion | None) -> tuple[About, tuple[Pair, ...]]:
        """The words of a span about a completion: of the backend that answered, or else of the first."""
        backends = self._backends(model)
        named = [one for one in backends if done is not None and done.model.startswith(one.model)]
        backend = next(iter(named or backends), None)
        asked = model if backend is None else backend.model
        about = About(
            f"{Operation.CHAT} {asked}",
            ((Attribute.OPERATION, Operation.CHAT), (Attribute.REQUEST_MODEL, asked)),
        )
        provider = Attribute.PROVIDER, "unknown" if backend is None else backend.provider
        if done is None:
            return about, (provider,)
        usage = done.usage
        more: list[Pair] = [
            provider,
            (Attribute.INPUT_TOKENS, usage.input_tokens),
            (Attribute.OUTPUT_TOKENS, usage.output_tokens),
        ]
        if done.model:
            more.append((Attribute.RESPONSE_MODEL, done.model))
        if usage.money:
            more.append((Attribute.COST, usage.money))
        return about, tuple(more)

    def _backends(self, model: str) -> list[Backend]:
        choice = None if self.models is None else self.models.models.get(model)
        return (
            []
            if choice is None or self.models is None
            else [self.models.backends[one] for one in choice.backends]
        )


class _Chat:
    """One completion. A context manager, within which its span is the current one.

    Args:
        asked: what tells it.
        model: as the organism calls it.
        above: the span around it.
    """

    def __init__(self, asked: _Asked, model: str, above: SpanContext) -> None:
        self._asked, self._model, self._above = asked, model, above
        self._own = os.urandom(8)
        self.done: Completion | None = None

    def __enter__(self) -> Self:
        above, own = self._above, int.from_bytes(self._own)
        spanned = SpanContext(above.trace_id, own, is_remote=False, trace_flags=above.trace_flags)
        self._token = contexts.attach(set_span_in_context(NonRecordingSpan(spanned)))
        self._began = time.time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        contexts.detach(self._token)
        named = "" if kind is None else kind.__name__
        fault = error.fault.value if isinstance(error, CompletionError) else named
        about, more = self._asked.told(self._model, self.done)
        ids = self._above.trace_id.to_bytes(16), self._own, self._above.span_id.to_bytes(8)
        self._asked.tell(Span(*ids, about, self._began, time.time(), more, (), fault, client=True))


@asynccontextmanager
async def tracing(
    organism: str, agents: Mapping[str, bool], wanted: Wanted, secrets: Callable[[str], str]
) -> AsyncIterator[Tracing]:
    """Spans for as long as the context is open; leaving it waits for PATIENCE at most.

    Args:
        organism: its name.
        agents: by the name of each listener, whether it is an agent.
        wanted: what is told, and where.
        secrets: takes values that are not for reading out of a text.

    Raises OSError for certificates that cannot be read.
    """
    content = Redaction(wanted.redact, secrets) if wanted.content else None
    story = Story(organism, agents, wanted.sample, content)
    resource = {Attribute.SDK: "agentserver", Attribute.LANGUAGE: "python", **wanted.resource}
    sender = await to_thread.run_sync(Sender, wanted)
    export = Export(story, Encoder(resource), sender)
    export.start()
    try:
        yield Tracing(wanted.sample, story, export)
    finally:
        alone = anyio.CapacityLimiter(1)  # handlers that hang may hold every thread of the usual one
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(export.end, time.monotonic() + PATIENCE, limiter=alone)
