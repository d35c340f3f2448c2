"""Metrics of completions, as the semantic conventions define them for clients of language models.

The SDK of OpenTelemetry sends them by OTLP over HTTP; nothing global is set. A collector that is gone costs metrics and
never a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from agentserver.telemetry.spans import Attribute, Operation

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKENS: Final = "gen_ai.client.token.usage"
DURATION: Final = "gen_ai.client.operation.duration"

TIMEOUT: Final = 5.0
"""Seconds to wait for a collector."""

TOKEN_BOUNDS: Final = tuple(float(4**power) for power in range(14))
SECOND_BOUNDS: Final = tuple(0.01 * 2**power for power in range(14))
"""Upper bounds of the buckets that the conventions define."""


class MetricsDestination(NamedTuple):
    """Destination of metrics.

    Args:
        url: of the collector, whole.
        headers: that it requires; they may hold secrets.
        certificate: path of the certificates that verify its own; empty for those of the system.
    """

    url: str
    headers: Mapping[str, str]
    certificate: str


class FinishedCompletion(NamedTuple):
    """Finished completion."""

    provider: str
    asked: str
    answered: str
    seconds: float
    input_tokens: int
    output_tokens: int
    error: str


class ClientMetrics:
    """Recorder of completions. Blocks for its imports and certificates: make it in a thread."""

    def __init__(self, wanted: MetricsDestination, resource: Mapping[str, Any], version: str) -> None:
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

    def record(self, done: FinishedCompletion) -> None:
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
        """Send the rest, within this time."""
        self._provider.shutdown(timeout_millis=seconds * 1000)
