"""Spans of a running server: made of its commits, and current while its handlers run.

A handler starts in a context whose current span is its delivery's, so that its own spans become children. Nothing
global is set: another server in the process has its own tracing.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import anyio
from anyio import to_thread
from opentelemetry import context as contexts
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.extras import find_version
from agentserver.supervision import EndEffect, start_errand
from agentserver.telemetry.chats import TracedCompleter
from agentserver.telemetry.export import Collector, Export, Sender
from agentserver.telemetry.otlp import Encoder
from agentserver.telemetry.spans import Attribute
from agentserver.telemetry.story import Story, is_sampled, span_id, trace_id
from agentserver.telemetry.turns import RunningTurns
from agentserver.trace.redact import Redaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from agentserver.completion import Completer, LanguageModels
    from agentserver.core.messages import Delivery
    from agentserver.core.records.audit import AuditRecord
    from agentserver.ports import Engine, EngineReader
    from agentserver.telemetry.client import ClientMetrics


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
            kept = reader.recorded_conversation(key)
            found.append([kept.records_of(step) for step in kept.steps])
        except (UnreadableError, LookupError):
            continue  # what cannot be read is set aside, and told of elsewhere
    return found


CHECKOUT: Final = "0+checkout"
"""Version of a server that is not installed."""

PATIENCE: Final = 5.0
"""Seconds that a server which stops waits for its spans."""

_TOLD, _UNTOLD = TraceFlags(TraceFlags.SAMPLED), TraceFlags(TraceFlags.DEFAULT)


class TelemetrySettings(Collector, Protocol):
    """Settings of telemetry."""

    @property
    def metrics(self) -> str:
        """Address for metrics, whole; empty without a destination."""
        ...

    @property
    def resource(self) -> Mapping[str, str]:
        """Attributes of this server."""
        ...

    @property
    def sample(self) -> float:
        """Share of requests that are sampled, from 0 to 1."""
        ...

    @property
    def content(self) -> bool:
        """True if spans hold messages."""
        ...

    @property
    def redact(self) -> tuple[str, ...]:
        """Patterns of the names of fields that are removed from messages."""
        ...


class Tracer:
    """Tracing of a server.

    Args:
        share: of the requests that are sampled, from 0 to 1.
        story: makes spans.
        export: sends them.
        metrics: of completions; None without a destination.
    """

    def __init__(
        self, share: float, story: Story, export: Export, metrics: ClientMetrics | None = None
    ) -> None:
        self._share, self._story, self._export, self._metrics = share, story, export, metrics
        self._turns = RunningTurns(story.find_turn)
        self.sink = export.put

    @property
    def lost(self) -> int:
        """Spans that were lost."""
        return self._export.lost

    def enter(self, delivery: Delivery) -> None:
        """Make the span of a delivery, or of its agent's turn, the current span of this context."""
        trace = trace_id(delivery.request)
        flags = _TOLD if is_sampled(trace, self._share) else _UNTOLD
        own = span_id(delivery.id)
        if self._story.agents.get(delivery.to):
            own = self._turns.span(delivery, own)
        ids = int.from_bytes(trace), int.from_bytes(own)
        spanned = SpanContext(*ids, is_remote=False, trace_flags=flags)
        contexts.attach(set_span_in_context(NonRecordingSpan(spanned)))

    def know(self, agents: Mapping[str, bool]) -> None:
        """Use the listeners of a reloaded organism; see ``open_tracing``."""
        self._story.know(agents)

    async def take_up(self, engine: Engine) -> None:
        """Read the records of an earlier server's unsettled requests, before any other step.

        Their finished spans are exported again, with the same ids, because the earlier server may not have sent them.
        Raises EngineError.
        """
        for steps in await engine.read(read_unsettled):
            over = [span for records in steps for span in self._story.take(records)]
            still = self._story.open
            for span in over:
                if span.trace in still:
                    self._export.add(span)

    def wrap_completer(self, completer: Completer, models: LanguageModels | None) -> Completer:
        """Wrap a completer so that its completions have spans and metrics."""
        return TracedCompleter(completer, models, self._export.add, self._metrics)


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
        asks: whether there are language models, whose metrics are sent.

    Raises OSError for certificates that cannot be read.
    """
    content = Redaction(wanted.redact, secrets) if wanted.content else None
    story = Story(organism, agents, wanted.sample, content)
    own = await to_thread.run_sync(find_version) or CHECKOUT
    named = {Attribute.SDK: "agentserver", Attribute.LANGUAGE: "python", Attribute.VERSION: own}
    resource = {**{str(name): value for name, value in named.items()}, **wanted.resource}
    sender = await to_thread.run_sync(Sender, wanted)
    export = Export(story, Encoder(resource, own), sender)
    metrics = None
    if asks and wanted.metrics:
        metrics = await to_thread.run_sync(_metrics, wanted, resource, own)
    export.start()
    try:
        yield Tracer(wanted.sample, story, export, metrics)
    finally:
        with anyio.CancelScope(shield=True):
            await _end(export, metrics)


async def _end(export: Export, metrics: ClientMetrics | None) -> None:
    """Send the queued spans and metrics, both at once."""
    alone = anyio.CapacityLimiter(2)  # handlers that hang may hold every thread of the usual one
    end = partial(to_thread.run_sync, limiter=alone)
    async with anyio.create_task_group() as ending:
        spans = partial(end, export.end, time.monotonic() + PATIENCE)
        start_errand(ending, "sends the last spans", EndEffect.OWNER, spans)
        if metrics is not None:
            start_errand(
                ending, "sends the last metrics", EndEffect.OWNER, partial(end, metrics.end, PATIENCE)
            )


def _metrics(wanted: TelemetrySettings, resource: Mapping[str, str], own: str) -> ClientMetrics:
    from agentserver.telemetry.client import (  # takes long, and most ask no model
        ClientMetrics,
        MetricsDestination,
    )

    return ClientMetrics(
        MetricsDestination(wanted.metrics, wanted.headers, wanted.certificate), resource, own
    )
