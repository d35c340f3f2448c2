"""Export of spans to a collector, by OTLP over HTTP.

Two threads have a bounded queue each: one makes spans of committed steps, the other sends them. A collector that is
slow or gone costs spans, which are counted and logged once, and never a message.
"""

from __future__ import annotations

import logging
import math
import ssl
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final, Protocol

from agentserver.supervision import QueueThread
from agentserver.telemetry.otlp import Encoder, count_rejected
from agentserver.trace.traceparent import find_caller

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.telemetry.spans import Span
    from agentserver.telemetry.story import OpenRequests
    from agentserver.trace.traceparent import Traceparent

STEPS: Final = 5_000
"""Committed steps that may wait; the spans of later ones are lost."""

WOKEN: Final = 64
"""Waiting steps at which the thread that makes spans wakes early."""

SPANS: Final = 8_192
"""Spans that may wait to be sent."""

BATCH: Final = 512
"""Spans in one request."""

PAUSE: Final = 0.5
"""Seconds before another attempt, doubled with each."""

TIMEOUT: Final = 10.0
"""Seconds to wait for a collector."""

ATTEMPTS: Final = 3
"""Times that spans are sent to a collector that is busy or gone."""

ANSWER: Final = 1 << 16
"""Bytes of its answer that are read."""

BUSY: Final = frozenset({429, 502, 503, 504})
"""Statuses after which a request is repeated."""

logger = logging.getLogger("agentserver.telemetry")


class Collector(Protocol):
    """Collector of spans."""

    @property
    def url(self) -> str:
        """Address for spans, whole."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that it requires; they may hold secrets."""

    @property
    def certificate(self) -> str:
        """Path of the certificates that verify its own; empty for those of the system."""


class UnsentSpansError(Exception):
    """A collector did not accept spans.

    Args:
        again: whether another attempt may succeed.
    """

    def __init__(self, reason: str, *, again: bool) -> None:
        super().__init__(reason)
        self.retryable = again


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler that refuses redirects: the headers are for this collector."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Sender:
    """Sender to one collector. Raises OSError if its certificates cannot be read."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        context = ssl.create_default_context(cafile=collector.certificate or None)
        self._opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))

    def send(self, body: bytes) -> int:
        """Send a request. Returns how many of its spans were rejected. Raises UnsentSpansError."""
        headers = {**self._collector.headers, "Content-Type": "application/x-protobuf"}
        request = urllib.request.Request(self._collector.url, body, headers, method="POST")  # noqa: S310 - the loader has checked that it is HTTP
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                return count_rejected(answer.read(ANSWER))
        except urllib.error.HTTPError as error:
            error.close()
            raise UnsentSpansError(f"it answered {error.code}", again=error.code in BUSY) from None
        except (OSError, HTTPException) as error:
            raise UnsentSpansError(type(error).__name__, again=True) from None
        except ValueError as error:
            raise UnsentSpansError(str(error), again=False) from None


class Export:
    """Sink of records that sends their spans.

    Args:
        story: makes spans of steps.
        encoder: writes them.
        sender: sends them.
    """

    def __init__(self, story: OpenRequests, encoder: Encoder, sender: Sender) -> None:
        self._story, self._encoder, self._sender = story, encoder, sender
        self._steps: QueueThread[tuple[Sequence[AuditRecord], Traceparent | None]] = QueueThread(
            "makes spans of steps", self._make_spans, STEPS, batch=WOKEN, wake=WOKEN
        )
        self._spans = QueueThread("sends spans", self._deliver, SPANS, batch=BATCH, wake=BATCH)
        self._until = math.inf
        self._failed = self._unsent = 0
        self._warned = False

    @property
    def lost(self) -> int:
        """Lost spans, and steps without spans."""
        return self._steps.dropped + self._failed + self._unsent + self._story.forgotten

    def start(self) -> None:
        """Start the threads."""
        self._steps.start()
        self._spans.start()

    def put(self, records: Sequence[AuditRecord]) -> None:
        """Queue the records of one step. Neither blocks nor raises."""
        self._steps.put((records, find_caller()))

    def add(self, span: Span) -> None:
        """Queue a span. Neither blocks nor raises."""
        self._keep(self._encoder.encode_span(span))

    def end(self, until: float) -> None:
        """Send the queued spans until ``time.monotonic()`` reaches ``until``, then log how many were lost."""
        self._until = until
        self._steps.end(until)
        self._spans.end(until)
        self._unsent += self._spans.queue_length
        if self.lost:
            logger.warning("%d spans were lost", self.lost)

    def _keep(self, written: bytes) -> None:
        if not self._spans.put(written):
            self._lose(1, "the collector is too slow")

    def _make_spans(self, steps: Sequence[tuple[Sequence[AuditRecord], Traceparent | None]]) -> None:
        for records, link in steps:
            try:
                for span in self._story.take(records, link):
                    self._keep(self._encoder.encode_span(span))
            except Exception:
                self._failed += 1
                logger.exception("the spans of a step could not be made")

    def _deliver(self, batch: Sequence[bytes]) -> None:
        """Send a batch, repeatedly if that may help; otherwise it is lost."""
        body = self._encoder.request(batch)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                refused = self._sender.send(body)
            except UnsentSpansError as error:
                if not error.retryable or attempt == ATTEMPTS or self._await_retry(attempt):
                    self._lose(len(batch), str(error))
                    return
            else:
                if refused:
                    self._lose(refused, "the collector refused them")
                return

    def _await_retry(self, attempt: int) -> bool:
        """Wait before another attempt. Returns whether there is no time for one."""
        if self._until < math.inf:
            return time.monotonic() >= self._until
        time.sleep(PAUSE * 2**attempt)
        return False

    def _lose(self, count: int, reason: str) -> None:
        self._unsent += count
        if not self._warned:
            self._warned = True
            logger.warning("spans are lost: %s. Further ones are counted", reason)
