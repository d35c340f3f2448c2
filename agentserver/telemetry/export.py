"""Export of spans to a collector, by OTLP over HTTP.

Two tasks have a bounded queue each: one makes spans of committed steps, the other sends them. Both run in the event
loop: a thread next to a busy loop is woken for the interpreter's lock again and again and seldom gets it, which costs
several times as much as the spans. A collector that is slow or gone costs spans, which are counted and logged once, and
never a message.
"""

from __future__ import annotations

import logging
import ssl
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import anyio
import httpx
from anyio import to_thread

from agentserver.supervision import QueueTask
from agentserver.telemetry.otlp import Encoder, count_rejected
from agentserver.trace.traceparent import find_caller

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.telemetry.spans import Span
    from agentserver.telemetry.story import OpenRequests
    from agentserver.trace.traceparent import Traceparent

    _Step: TypeAlias = tuple[Sequence[AuditRecord], Traceparent | None]
    """Records of a step, and the span that sent its request."""

STEPS: Final = 5_000
"""Committed steps that may wait; the spans of later ones are lost."""

TOGETHER: Final = 64
"""Steps whose spans are made at once: together they cost half as much as one by one."""

INLINE: Final = 512
"""Records whose spans are made in the event loop at once; those of more are made in a thread."""

CONTENT: Final = 512
"""Bytes of messages that take as long as a record, if spans hold messages."""

SPANS: Final = 8_192
"""Spans that may wait to be sent."""

BATCH: Final = 2_048
"""Spans in one request: about 0.6 MB. A request takes 0.6 ms of CPU, however many spans it has."""

CONTENT_BATCH: Final = 512
"""The same if spans hold messages: 8 MB at most."""

PAUSE: Final = 1.0
"""Seconds before the second attempt, doubled with each further one."""

TIMEOUT: Final = 10.0
"""Seconds to wait for a collector."""

ATTEMPTS: Final = 3
"""Times that spans are sent to a collector that is busy or gone."""

ANSWER: Final = 1 << 16
"""Bytes of its answer that are read."""

BUSY: Final = frozenset({429, 502, 503, 504})
"""Statuses after which a request is repeated."""

logger = logging.getLogger("agentserver.telemetry")

_read_records = itemgetter(0)


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


class UnusableProxyError(Exception):
    """The environment names a proxy by which nothing can be sent."""


class Sender:
    """Sender to one collector.

    Raises OSError if its certificates cannot be read, and UnusableProxyError.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        trust = ssl.create_default_context(cafile=collector.certificate or None)
        try:
            # It follows no redirect: the headers are for this collector.
            self._client = httpx.AsyncClient(verify=trust, timeout=TIMEOUT)
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise UnusableProxyError(
                f"spans cannot be sent by the proxy of the environment: {error}"
            ) from error

    async def send(self, body: bytes) -> int:
        """Send a request. Returns how many of its spans were rejected. Raises UnsentSpansError."""
        headers = {
            **self._collector.headers,
            "Content-Type": "application/x-protobuf",
            "Accept-Encoding": "identity",
        }
        try:
            with anyio.fail_after(TIMEOUT):
                return await self._post(body, headers)
        except (httpx.HTTPError, OSError) as error:
            raise UnsentSpansError(type(error).__name__, again=True) from None
        except (ValueError, httpx.InvalidURL) as error:
            raise UnsentSpansError(str(error), again=False) from None

    async def _post(self, body: bytes, headers: Mapping[str, str]) -> int:
        async with self._client.stream("POST", self._collector.url, content=body, headers=headers) as answer:
            if not answer.is_success:
                status = answer.status_code
                raise UnsentSpansError(f"it answered {status}", again=status in BUSY)
            return count_rejected(await _read_start(answer))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def _read_start(answer: httpx.Response) -> bytes:
    """Read the body of an answer up to ANSWER bytes."""
    data = bytearray()
    async for piece in answer.aiter_raw():
        data += piece
        if len(data) >= ANSWER:
            break
    return bytes(data[:ANSWER])


class Export:
    """Sink of records that sends their spans, in the event loop of its server.

    Args:
        story: makes spans of steps.
        encoder: writes them.
        sender: sends them.
    """

    def __init__(self, story: OpenRequests, encoder: Encoder, sender: Sender) -> None:
        self._story, self._encoder, self._sender = story, encoder, sender
        self._steps: QueueTask[_Step] = QueueTask(
            "makes spans of steps", self._make_spans, STEPS, batch=TOGETHER
        )
        batch = CONTENT_BATCH if story.holds else BATCH
        self._spans: QueueTask[bytes] = QueueTask("sends spans", self._deliver, SPANS, batch=batch)
        self._alone = anyio.CapacityLimiter(1)  # handlers that hang may hold every thread of the usual one
        self._failed = self._refused = self._unsent = 0
        self._warned = False

    @property
    def lost(self) -> int:
        """Lost spans, and steps without spans."""
        dropped = self._steps.dropped + self._spans.dropped
        return dropped + self._failed + self._refused + self._unsent + self._story.forgotten

    def start(self) -> None:
        """Start the tasks."""
        self._steps.start()
        self._spans.start()

    def put(self, records: Sequence[AuditRecord]) -> None:
        """Queue the records of one step. Neither blocks nor raises."""
        self._steps.put((records, find_caller()))

    def add(self, span: Span) -> None:
        """Queue a span. Neither blocks nor raises."""
        self._queue((self._encoder.encode_span(span),))

    async def end(self, seconds: float) -> None:
        """Send the queued spans for so many seconds at most, then log how many were lost."""
        until = anyio.current_time() + seconds
        await self._steps.end(until)
        await self._spans.end(until)
        await self._sender.close()
        self._unsent += self._steps.queue_length + self._spans.queue_length
        if self.lost:
            logger.warning("%d spans were lost", self.lost)

    def _queue(self, written: Sequence[bytes]) -> None:
        if self._spans.put_all(written):
            self._warn("the collector is too slow")

    async def _make_spans(self, steps: Sequence[_Step]) -> None:
        work = sum(map(len, map(_read_records, steps)))
        if self._story.holds:
            work += sum([len(record.message) for records, _ in steps for record in records]) // CONTENT
        if work > INLINE:
            made = await to_thread.run_sync(self._encode_steps, steps, limiter=self._alone)
        else:
            made = self._encode_steps(steps)
        self._queue(made)

    def _encode_steps(self, steps: Sequence[_Step]) -> list[bytes]:
        """Return the spans of steps as bytes. Never raises: a step that fails has none."""
        made: list[bytes] = []
        encode, take = self._encoder.encode_span, self._story.take
        for records, link in steps:
            try:
                made += map(encode, take(records, link))
            except Exception:
                self._failed += 1
                logger.exception("the spans of a step could not be made")
        return made

    async def _deliver(self, batch: Sequence[bytes]) -> None:
        """Send a batch, repeatedly if that may help; otherwise it is lost."""
        refused, reason = await self._send_repeatedly(self._encoder.request(batch), len(batch))
        if refused:
            self._refused += refused
            self._warn(reason)

    async def _send_repeatedly(self, body: bytes, count: int) -> tuple[int, str]:
        """Return how many spans of a request were lost, and why."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._sender.send(body), "the collector refused them"
            except UnsentSpansError as error:
                if not error.retryable or attempt == ATTEMPTS:
                    return count, str(error)
            with anyio.move_on_after(PAUSE * 2 ** (attempt - 1)):
                await self._spans.ending.wait()  # a server that ends does not wait between attempts
        raise AssertionError("the last attempt returns")

    def _warn(self, reason: str) -> None:
        """Log once that spans are lost."""
        if not self._warned:
            self._warned = True
            logger.warning("spans are lost: %s. Further ones are counted", reason)
