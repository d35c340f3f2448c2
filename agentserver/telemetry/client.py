"""Metrics and events of completions, as the semantic conventions define them for clients of language models.

The SDK of OpenTelemetry sends them by OTLP over HTTP; nothing global is set. A collector that is gone costs metrics and
events, never a message.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import requests
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from agentserver.characters.printing import truncate_counting
from agentserver.telemetry.spans import Attribute, Operation
from agentserver.trace.completions import map_content, summarize_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opentelemetry.context import Context

    from agentserver.completion import (
        CompletionContent,
        OfferedTool,
        PromptMessage,
        RecordedCompletion,
        ToolCall,
    )
    from agentserver.telemetry.spans import Pair

TOKENS: Final = "gen_ai.client.token.usage"
DURATION: Final = "gen_ai.client.operation.duration"

TIMEOUT: Final = 5.0
"""Seconds to wait for a collector."""

TOKEN_BOUNDS: Final = tuple(float(4**power) for power in range(14))
SECOND_BOUNDS: Final = tuple(0.01 * 2**power for power in range(14))
"""Upper bounds of the buckets that the conventions define."""


DETAILS: Final = "gen_ai.client.inference.operation.details"
"""The event of a completion."""

TEXT: Final = 8000
"""Characters of one text of an event."""

PROMPT: Final = 65_536
"""Characters of the messages of one event, the last messages first."""

QUEUE, BATCH = 256, 16
"""Events that wait, and those that are sent together: each may be large."""


class ClientDestination(NamedTuple):
    """Destination of metrics or of events.

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
    requested_model: str
    response_model: str
    seconds: float
    input_tokens: int
    output_tokens: int
    error: str


class ClientMetrics:
    """Recorder of completions. Blocks for its imports and certificates: make it in a thread."""

    def __init__(self, wanted: ClientDestination, resource: Mapping[str, Any], version: str) -> None:
        exporter = OTLPMetricExporter(
            wanted.url,
            certificate_file=wanted.certificate or None,
            headers=dict(wanted.headers),
            timeout=TIMEOUT,
            session=_make_session(),
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
            Attribute.REQUEST_MODEL.value: done.requested_model,
        }
        if done.response_model:
            named[Attribute.RESPONSE_MODEL.value] = done.response_model
        for kind, count in (("input", done.input_tokens), ("output", done.output_tokens)):
            if count:
                self._tokens.record(count, {**named, Attribute.TOKEN_TYPE.value: kind})
        if done.error:
            named[Attribute.ERROR.value] = done.error
        self._seconds.record(done.seconds, named)

    def end(self, seconds: float) -> None:
        """Send the rest, within this time."""
        self._provider.shutdown(timeout_millis=seconds * 1000)


def _make_session() -> requests.Session:
    session = requests.Session()
    session.max_redirects = 0  # the headers are for this collector alone
    return session


class CompletionEvents:
    """Exporter of an event for each completion, with its prompt and answer.

    Blocks for its imports and certificates: make it in a thread.

    Args:
        wanted: the destination.
        resource: attributes of this server.
        version: of this server.
        secrets: removes secrets from a text.
        covered: whether fields are redacted. A prompt may quote one anywhere, so each text is then replaced by its
            length and SHA-256.
    """

    def __init__(
        self,
        wanted: ClientDestination,
        resource: Mapping[str, Any],
        version: str,
        secrets: Callable[[str], str],
        *,
        covered: bool,
    ) -> None:
        self._exporter = OTLPLogExporter(
            wanted.url,
            certificate_file=wanted.certificate or None,
            headers=dict(wanted.headers),
            timeout=TIMEOUT,
            session=_make_session(),
        )
        self._provider = LoggerProvider(Resource(dict(resource)), shutdown_on_exit=False)
        self._provider.add_log_record_processor(
            BatchLogRecordProcessor(self._exporter, max_queue_size=QUEUE, max_export_batch_size=BATCH)
        )
        self._logger = self._provider.get_logger("agentserver", version)
        self._secrets, self._covered = secrets, covered

    def record(self, done: RecordedCompletion, facts: Iterable[Pair], context: Context, at: float) -> None:
        """Record one completion, which began at a time in seconds, below the span of a context. Does not block."""
        content = map_content(done.content, lambda text: truncate_counting(self._secrets(text), TEXT))
        if self._covered:
            content = summarize_texts(content)
        named = {str(name): value for name, value in facts}
        if content is not None:
            named |= describe_content(replace(done, content=content), content)
        self._logger.emit(
            timestamp=int((at + done.took) * 1e9),
            context=context,
            severity_number=SeverityNumber.DEBUG,
            attributes=named,
            event_name=DETAILS,
        )

    def end(self, seconds: float) -> None:
        """Send the rest, within this time."""
        self._provider.force_flush(int(seconds * 1000))
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # a collector that is gone is not asked again
        self._provider.shutdown()


def describe_content(done: RecordedCompletion, content: CompletionContent) -> dict[str, Any]:
    """Describe a prompt and its answer by the attributes of the conventions."""
    system = [one for one in content.messages if one.role == "system"]
    others = [one for one in content.messages if one.role != "system"]
    answer = [*_collect_texts(content.text or content.output), *_collect_calls(content.calls)]
    found = {
        Attribute.INSTRUCTIONS: [part for one in system for part in _collect_texts(one.content)],
        Attribute.INPUT: [{"role": one.role, "parts": _collect_parts(one)} for one in others],
        Attribute.OUTPUT: [
            {
                "role": "assistant",
                "parts": answer,
                "finish_reason": "error" if done.finish is None else done.finish.value,
            }
        ]
        if answer
        else [],
        Attribute.TOOLS: list(map(_build_define_tool, content.tools)),
    }
    return {name.value: value for name, value in found.items() if value}


def _collect_texts(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "content": text}] if text else []


def _collect_calls(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    return [
        {"type": "tool_call", "id": one.id, "name": one.name, "arguments": one.arguments} for one in calls
    ]


def _collect_parts(one: PromptMessage) -> list[dict[str, Any]]:
    if one.role == "tool":
        return [{"type": "tool_call_response", "id": one.id, "response": one.content}]
    return [*_collect_texts(one.content), *_collect_calls(one.calls)]


def _build_define_tool(one: OfferedTool) -> dict[str, Any]:
    function = {"type": "function", "name": one.name, "description": one.description}
    return {**function, "parameters": one.schema} if one.schema else function
