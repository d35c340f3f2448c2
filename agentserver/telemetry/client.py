"""The metrics of completions, as the semantic conventions have them for clients of language models.

Owns their names, units and buckets, and the reader that sends them by OTLP over HTTP, all of the SDK of OpenTelemetry.
Refuses to set anything that is global. A collector that is gone costs metrics and never a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from agentserver.telemetry.names import Attribute, Operation

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKENS: Final = "gen_ai.client.token.usage"
DURATION: Final = "gen_ai.client.operation.duration"

TIMEOUT: Final = 5.0
"""Seconds that a collector may be silent for."""

TOKEN_BOUNDS: Final = tuple(float(4**power) for power in range(14))
SECOND_BOUNDS: Final = tuple(0.01 * 2**power for power in range(14))
"""Upper bounds of the buckets that the conventions ask for."""


class Wanted(NamedTuple):
    """The place to which metrics go.

    Args:
        url: of the collector, whole.
        headers: that it asks for; they may hold secrets.
        certificate: the path of the certificates that its own is checked by; empty for those of the system.
    """

    url: str
    headers: Mapping[str, str]
    certificate: str


class Operated(NamedTuple):
    """A completion that is over."""

    provider: str
    asked: str
    answered: str
    seconds: float
    input_tokens: int
    output_tokens: int
    error: str


class ClientMetrics:
    """Records completions. Blocks for its imports and certificates: make it in a thread."""

    def __init__(self, wanted: Wanted, resource: Mapping[str, Any], version: str) -> None:
        session = requests.Session()
        session.max_redirects = 0  # the headers are for this collector alone
        exporter = OTLPMetricExporter(
            wanted.url,
            certificate_file=wanted.certificate or None,
            headers=dict(wanted.headers),
            timeout=TIMEOUT,
            session=session,
        )
        reader = PeriodicExportingMetricReader(exporter)
        self._provider = MeterProvider([reader], Resource(dict(resource)), shutdown_on_exit=False)
        meter = self._provider.get_meter("agentserver", version)
        self._tokens = meter.create_histogram(
            TOKENS,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=TOKEN_BOUNDS,
        )
        self._seconds = meter.create_histogram(
            DURATION,
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=SECOND_BOUNDS,
        )

    def record(self, done: Operated) -> None:
        """Record one completion. Neither blocks nor raises."""
        named: dict[str, str] = {
            Attribute.OPERATION.value: Operation.CHAT.value,
            Attribute.PROVIDER.value: done.provider,
            Attribute.REQUEST_MODEL.value: done.asked,
        }
        if done.answered:
            named[Attribute.RESPONSE_MODEL.value] = done.answered
        for kind, count in (("input", done.input_tokens), ("output", done.output_tokens)):
            if count:
                self._tokens.record(count, {**named, Attribute.TOKEN_TYPE.value: kind})
        if done.error:
            named[Attribute.ERROR.value] = done.error
        self._seconds.record(done.seconds, named)

    def end(self, seconds: float) -> None:
        """Send the rest, within so many seconds."""
        self._provider.shutdown(timeout_millis=seconds * 1000)
