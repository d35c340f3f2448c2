"""Spans of a running server: made of its commits, and current while its handlers run.

A handler starts in a context whose current span is its delivery's, so that its own spans become children. Nothing
global is set: another server in the process has its own tracing.
"""

from __future__ import annotations

import os
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, Self

import anyio
from anyio import to_thread
from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

from agentserver.completion import CompletionError, Finish
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.extras import find_version
from agentserver.supervision import EndEffect, start_errand
from agentserver.telemetry.export import Collector, Export, Sender
from agentserver.telemetry.otlp import Encoder
from agentserver.telemetry.spans import Attribute, Operation, Span, SpanEvent, SpanKind
from agentserver.telemetry.story import OpenRequests, RunningTurns, is_sampled, span_id, trace_id
from agentserver.trace.recording import describe_completion
from agentserver.trace.redact import Redaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from types import TracebackType

    from agentserver.completion import Attempt, Backend, Completer, Completion, LanguageModels, Request
    from agentserver.contract import CodeSite
    from agentserver.core.messages import Delivery
    from agentserver.core.records.audit import AuditRecord
    from agentserver.ports import Engine, EngineReader
    from agentserver.telemetry.client import ClientMetrics, CompletionEvents
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
    """Completer whose completions have spans and events and count in metrics."""

    completer: Completer
    models: LanguageModels | None
    add: Callable[[Span], None]
    metrics: ClientMetrics | None
    events: CompletionEvents | None

    async def complete(self, model: str, request: Request) -> Completion:
        """Return the answer of the completer. Raises its errors."""
        with _RunningCompletion(self, model, request) as observed:
            observed.outcome.done = await self.completer.complete(model, request)
            return observed.outcome.done

    def finish(self, observed: _RunningCompletion, seconds: float) -> None:
        """Export a finished completion."""
        model, outcome, above = observed.model, observed.outcome, observed.above
        if observed.sampled:
            ids = above.trace_id.to_bytes(16), observed.own, above.span_id.to_bytes(8)
            self.add(self._make_span(model, outcome, ids, observed.began))
            self._record_event(observed, seconds)
        self._count(model, outcome, seconds)

    def _make_span(
        self, model: str, outcome: _Outcome, ids: tuple[bytes, bytes, bytes], began: float
    ) -> Span:
        backend = self._find_backend(model, outcome)
        requested_model = model if backend is None else backend.model
        about = SpanKind(
            f"{Operation.CHAT} {requested_model}",
            ((Attribute.OPERATION, Operation.CHAT), (Attribute.REQUEST_MODEL, requested_model)),
        )
        ended = time.time()
        events = [_failure_event(one, ended) for one in outcome.attempts if one.fault is not None]
        pairs = self._list_facts(model, backend, outcome.answer)
        return Span(*ids, about, began, ended, pairs, events, outcome.fault, client=True)

    def _record_event(self, observed: _RunningCompletion, seconds: float) -> None:
        if self.events is None:
            return
        from agentserver.telemetry.client import PROMPT  # is there since the events are

        model, outcome, request = observed.model, observed.outcome, observed.request
        backend = self._find_backend(model, outcome)
        ended = outcome.error or outcome.done
        if ended is None:
            return
        done = describe_completion(model, request, ended, PROMPT)
        facts: list[Pair] = [
            (Attribute.OPERATION, Operation.CHAT),
            (Attribute.AGENT, request.agent),
            (Attribute.REQUEST_MODEL, model if backend is None else backend.model),
            *self._list_facts(model, backend, outcome.answer),
        ]
        if outcome.fault:
            facts.append((Attribute.ERROR, outcome.fault))
        context = _make_context(observed.above, observed.own)
        self.events.record(replace(done, took=seconds), facts, context, observed.began)

    def _list_facts(self, model: str, backend: Backend | None, answer: Completion | None) -> list[Pair]:
        """Return the attributes of a span, also for a partial answer."""
        pairs: list[Pair] = [(Attribute.PROVIDER, _provider(backend))]
        choice = None if self.models is None else self.models.models.get(model)
        if choice is not None:
            pairs.append((Attribute.MAX_TOKENS, choice.max_tokens))
        if answer is None:
            return pairs
        reason = FINISHES.get(answer.finish, answer.finish.value)
        pairs += [
            (Attribute.FINISH_REASONS, (reason,)),
            (Attribute.INPUT_TOKENS, answer.usage.input_tokens),
            (Attribute.OUTPUT_TOKENS, answer.usage.output_tokens),
        ]
        if answer.model:
            pairs.append((Attribute.RESPONSE_MODEL, answer.model))
        if answer.usage.money:
            pairs.append((Attribute.COST, answer.usage.money))
        return pairs

    def _find_backend(self, model: str, outcome: _Outcome) -> Backend | None:
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

        backend, answer = self._find_backend(model, outcome), outcome.answer
        requested_model = model if backend is None else backend.model
        read, written = (0, 0) if answer is None else (answer.usage.input_tokens, answer.usage.output_tokens)
        answered = "" if answer is None else answer.model
        self.metrics.record(
            FinishedCompletion(
                _provider(backend), requested_model, answered, seconds, read, written, outcome.fault
            )
        )


class _RunningCompletion:
    """Running completion. Its span is the current one if the request around it is sampled."""

    def __init__(self, completer: TracedCompleter, model: str, request: Request) -> None:
        self.model, self.request, self.outcome = model, request, _Outcome()
        self.above, self.own = get_current_span().get_span_context(), os.urandom(8)
        self.sampled = self.above.is_valid and self.above.trace_flags.sampled
        self._completer = completer

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
        self._completer.finish(self, time.monotonic() - self._since)


def _provider(backend: Backend | None) -> str:
    return "unknown" if backend is None else backend.provider


def _make_context(above: SpanContext, own: bytes) -> contexts.Context:
    """Return a context in which the span with this id is the current one."""
    number = int.from_bytes(own)
    spanned = SpanContext(above.trace_id, number, is_remote=False, trace_flags=above.trace_flags)
    return set_span_in_context(NonRecordingSpan(spanned))


def _failure_event(one: Attempt, at: float) -> SpanEvent:
    """Return the event of a backend that returned no whole answer."""
    pairs: list[Pair] = [(Attribute.BACKEND, one.backend)]
    if one.fault is not None:
        pairs.append((Attribute.ERROR, one.fault.value))
    if one.status is not None:
        pairs.append((Attribute.STATUS, one.status))
    return SpanEvent(FAILED, at, tuple(pairs))


STEPS: Final = 20_000
"""Steps of earlier servers that are read, of all conversations together."""


def read_unsettled(reader: EngineReader) -> list[list[Sequence[AuditRecord]]]:
    """Return the records of conversations with waiting messages, step by step."""
    found: list[list[Sequence[AuditRecord]]] = []
    if not reader.recorded:
        return found
    room = STEPS
    for key in reader.active():
        try:
            now = reader.load(key)
            if now is None or now.version > room:
                continue
            room -= now.version
            recorded = reader.recorded_conversation(key)
            found.append([recorded.records_of(step) for step in recorded.steps])
        except (UnreadableError, LookupError):
            continue  # what cannot be read is suspended, and reported elsewhere
    return found


CHECKOUT: Final = "0+checkout"
"""Version of a server that is not installed."""

PATIENCE: Final = 5.0
"""Seconds that a server which stops waits for its spans."""

_SAMPLED, _UNSAMPLED = TraceFlags(TraceFlags.SAMPLED), TraceFlags(TraceFlags.DEFAULT)


(_SPAN_KEY,) = set_span_in_context(INVALID_SPAN, Context())
"""The key of the current span in a context."""


class _DeliverySpan(NonRecordingSpan):
    """Current span of a handler. Most never ask for its ids, which are read then.

    Args:
        share: of the requests that are sampled, from 0 to 1.
        request: the trace.
        delivery: its own, whose id it derives from.
        own: its id if it is that of the agent's turn.
    """

    def __init__(self, share: float, request: str, delivery: str, own: bytes = b"") -> None:
        self._share, self._request, self._delivery, self._own = share, request, delivery, own

    def get_span_context(self) -> SpanContext:
        """Return the ids, and whether the request is sampled."""
        trace = trace_id(self._request)
        flags = _SAMPLED if is_sampled(trace, self._share) else _UNSAMPLED
        own = self._own or span_id(self._delivery)
        return SpanContext(int.from_bytes(trace), int.from_bytes(own), is_remote=False, trace_flags=flags)

    def __repr__(self) -> str:
        return f"NonRecordingSpan({self.get_span_context()!r})"


class TelemetrySettings(Collector, Protocol):
    """Settings of telemetry."""

    @property
    def metrics(self) -> str:
        """Address for metrics, whole; empty without a destination."""

    @property
    def events(self) -> str:
        """Address for events of completions, whole; empty without a destination."""

    @property
    def resource(self) -> Mapping[str, str]:
        """Attributes of this server."""

    @property
    def sample(self) -> float:
        """Share of requests that are sampled, from 0 to 1."""

    @property
    def content(self) -> bool:
        """True if spans hold messages."""

    @property
    def redact(self) -> tuple[str, ...]:
        """Patterns of the names of fields that are removed from messages."""


class Tracer:
    """Tracing of a server.

    Args:
        share: of the requests that are sampled, from 0 to 1.
        story: makes spans.
        export: sends them.
        client: the metrics and events of completions; each None without a destination.
    """

    def __init__(
        self,
        share: float,
        story: OpenRequests,
        export: Export,
        client: tuple[ClientMetrics | None, CompletionEvents | None] = (None, None),
    ) -> None:
        self._share, self._story, self._export = share, story, export
        self._metrics, self._events = client
        self._turns = RunningTurns(story.find_turn)
        self._around: Context | None = None
        self.sink = export.put

    @property
    def lost(self) -> int:
        """Spans that were lost."""
        return self._export.lost

    def enter(self, delivery: Delivery) -> None:
        """Make the span of a delivery, or of its agent's turn, the current span of this context."""
        if self._story.agents.get(delivery.to):  # its turn is found now, before other deliveries of it
            own = self._turns.span(delivery, span_id(delivery.id))
            span = _DeliverySpan(self._share, delivery.request, delivery.id, own)
        else:
            span = _DeliverySpan(self._share, delivery.request, delivery.id)
        around = self._around
        if around is None:  # the same for every handler: the pump starts each in a copy of one context
            around = self._around = contexts.get_current()
        contexts.attach(Context({**around, _SPAN_KEY: span}) if around else Context({_SPAN_KEY: span}))

    def note_site(self, delivery: str, site: CodeSite) -> None:
        """Note where the flow that handles a delivery sends a message, for the span of that message."""
        self._story.note_site(delivery, site)

    def know(self, agents: Mapping[str, bool]) -> None:
        """Use the listeners of a reloaded organism; see ``open_tracing``."""
        self._story.know(agents)

    async def take_up(self, engine: Engine) -> None:
        """Read the records of an earlier server's unsettled requests, before any other step.

        Their finished spans are exported again, with the same ids, because the earlier server may not have sent them.
        Raises EngineError.
        """
        for steps in await engine.read(read_unsettled):
            spans = [span for records in steps for span in self._story.take(records)]
            still = self._story.open
            for span in spans:
                if span.trace in still:
                    self._export.add(span)

    def wrap_completer(self, completer: Completer, models: LanguageModels | None) -> Completer:
        """Wrap a completer so that its completions have spans, metrics and events."""
        return TracedCompleter(completer, models, self._export.add, self._metrics, self._events)


@asynccontextmanager
async def open_tracing(
    organism: str,
    agents: Mapping[str, bool],
    wanted: TelemetrySettings,
    secrets: Callable[[str], str],
    *,
    asks: bool = False,
) -> AsyncIterator[Tracer]:
    """Open tracing for the context; leaving it waits for PATIENCE at most.

    Args:
        organism: its name.
        agents: for each listener whether it is an agent.
        wanted: settings.
        secrets: removes secrets from a text.
        asks: whether there are language models, whose metrics and events are sent.

    Raises OSError and UnusableProxyError as ``Sender`` does.
    """
    content = Redaction(wanted.redact, secrets) if wanted.content else None
    story = OpenRequests(organism, agents, wanted.sample, content)
    own = await to_thread.run_sync(find_version) or CHECKOUT
    named = {Attribute.SDK: "agentserver", Attribute.LANGUAGE: "python", Attribute.VERSION: own}
    resource = {**{str(name): value for name, value in named.items()}, **wanted.resource}
    sender = await to_thread.run_sync(Sender, wanted)
    export = Export(story, Encoder(resource, own), sender)
    metrics, events = None, None
    if asks and wanted.metrics:
        metrics = await to_thread.run_sync(_make_metrics, wanted, resource, own)
    if asks and wanted.events:
        events = await to_thread.run_sync(_make_events, wanted, resource, own, secrets)
    export.start()
    try:
        yield Tracer(wanted.sample, story, export, (metrics, events))
    finally:
        with anyio.CancelScope(shield=True):
            await _end(export, metrics, events)


async def _end(export: Export, *clients: ClientMetrics | CompletionEvents | None) -> None:
    """Send the queued spans, metrics and events, all at once."""
    alone = anyio.CapacityLimiter(2)  # handlers that hang may hold every thread of the usual one
    end = partial(to_thread.run_sync, limiter=alone)
    async with anyio.create_task_group() as ending:
        start_errand(ending, "sends the last spans", EndEffect.OWNER, partial(export.end, PATIENCE))
        for client in clients:
            if client is None:
                continue
            start_errand(
                ending,
                "sends the last metrics and events",
                EndEffect.OWNER,
                partial(end, client.end, PATIENCE),
            )


def _make_metrics(wanted: TelemetrySettings, resource: Mapping[str, str], own: str) -> ClientMetrics:
    from agentserver.telemetry.client import (  # takes long, and most ask no model
        ClientDestination,
        ClientMetrics,
    )

    return ClientMetrics(ClientDestination(wanted.metrics, wanted.headers, wanted.certificate), resource, own)


def _make_events(
    wanted: TelemetrySettings, resource: Mapping[str, str], own: str, secrets: Callable[[str], str]
) -> CompletionEvents:
    from agentserver.telemetry.client import ClientDestination, CompletionEvents

    destination = ClientDestination(wanted.events, wanted.headers, wanted.certificate)
    return CompletionEvents(destination, resource, own, secrets, covered=bool(wanted.redact))
