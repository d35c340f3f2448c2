"""The spans of a running server: made of what it commits, and current while its handlers run.

Owns the context that a handler starts in, so that spans of its own lie below its delivery's, and the spans of
completions. Refuses to set anything that is global: another server in the process has another one of all this.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import anyio
from anyio import to_thread
from opentelemetry import context as contexts
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    set_span_in_context,
)

from agentserver.extras import find_version
from agentserver.supervision import Ending, start_errand
from agentserver.telemetry.chats import Asked
from agentserver.telemetry.export import Collector, Export, Sender
from agentserver.telemetry.names import Attribute
from agentserver.telemetry.otlp import Encoder
from agentserver.telemetry.past import left
from agentserver.telemetry.story import Story, sampled, span_id, trace_id
from agentserver.telemetry.turns import RunningTurns
from agentserver.trace.redact import Redaction

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from agentserver.completion import Completer, LanguageModels
    from agentserver.core.messages import Delivery
    from agentserver.ports import Engine
    from agentserver.telemetry.client import ClientMetrics

CHECKOUT: Final = "0+checkout"
"""The version of a server that is not installed."""

PATIENCE: Final = 5.0
"""Seconds that a server which stops gives its spans."""

_TOLD, _UNTOLD = TraceFlags(TraceFlags.SAMPLED), TraceFlags(TraceFlags.DEFAULT)


class Wanted(Collector, Protocol):
    """The choice of what is told, and where."""

    @property
    def metrics(self) -> str:
        """The address to which metrics go, whole; empty for none."""
        ...

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
        metrics: of completions; None where they go nowhere.
    """

    def __init__(
        self, share: float, story: Story, export: Export, metrics: ClientMetrics | None = None
    ) -> None:
        self._share, self._story, self._export, self._metrics = share, story, export, metrics
        self._turns = RunningTurns(story.begun)
        self.sink = export.put

    @property
    def lost(self) -> int:
        """Spans that were lost."""
        return self._export.lost

    def enter(self, delivery: Delivery) -> None:
        """Make a delivery's span, or that of its agent's turn, the current one of this context."""
        trace = trace_id(delivery.request)
        flags = _TOLD if sampled(trace, self._share) else _UNTOLD
        own = span_id(delivery.id)
        if self._story.agents.get(delivery.to):
            own = self._turns.span(delivery, own)
        ids = int.from_bytes(trace), int.from_bytes(own)
        spanned = SpanContext(*ids, is_remote=False, trace_flags=flags)
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
        """The completer, each of whose completions has a span and counts in the metrics."""
        return Asked(completer, models, self._export.add, self._metrics)


@asynccontextmanager
async def tracing(
    organism: str,
    agents: Mapping[str, bool],
    wanted: Wanted,
    secrets: Callable[[str], str],
    *,
    asks: bool = False,
) -> AsyncIterator[Tracing]:
    """Spans for as long as the context is open; leaving it waits for PATIENCE at most.

    Args:
        organism: its name.
        agents: by the name of each listener, whether it is an agent.
        wanted: what is told, and where.
        secrets: takes values that are not for reading out of a text.
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
        yield Tracing(wanted.sample, story, export, metrics)
    finally:
        with anyio.CancelScope(shield=True):
            await _end(export, metrics)


async def _end(export: Export, metrics: ClientMetrics | None) -> None:
    """Send what waits, both at once."""
    alone = anyio.CapacityLimiter(2)  # handlers that hang may hold every thread of the usual one
    end = partial(to_thread.run_sync, limiter=alone)
    async with anyio.create_task_group() as ending:
        spans = partial(end, export.end, time.monotonic() + PATIENCE)
        start_errand(ending, "sends the last spans", Ending.OWNER, spans)
        if metrics is not None:
            start_errand(ending, "sends the last metrics", Ending.OWNER, partial(end, metrics.end, PATIENCE))


def _metrics(wanted: Wanted, resource: Mapping[str, str], own: str) -> ClientMetrics:
    from agentserver.telemetry.client import ClientMetrics, Wanted  # takes long, and most ask no model

    return ClientMetrics(Wanted(wanted.metrics, wanted.headers, wanted.certificate), resource, own)
