"""The way of spans to a collector, by OTLP over HTTP.

Owns two threads and two bounded queues: one thread makes spans of committed steps, the other sends them. A collector
that is slow or gone costs spans, which are counted and of which the log tells once, and never a message. Refuses to
know what spans say.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final, Protocol

from agentserver.supervision import Ending, start_thread
from agentserver.telemetry.otlp import Encoder, rejected
from agentserver.trace.traceparent import caller

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.telemetry.spans import Span
    from agentserver.telemetry.story import Story
    from agentserver.trace.traceparent import Traceparent

STEPS: Final = 5_000
"""Committed steps that may wait to be told; those beyond them cost their spans."""

WOKEN: Final = 64
"""Steps after which the thread that tells them is woken before its time."""

SPANS: Final = 8_192
"""Spans that may wait to be sent."""

BATCH: Final = 512
"""Spans that are sent at once."""

PAUSE: Final = 0.5
"""Seconds between two looks at what waits."""

TIMEOUT: Final = 10.0
"""Seconds that a collector may be silent for."""

ATTEMPTS: Final = 3
"""Times that spans are sent to a collector that is busy or not there."""

ANSWER: Final = 1 << 16
"""Bytes of its answer that are read."""

BUSY: Final = frozenset({429, 502, 503, 504})
"""Statuses of a collector that wants to be asked again."""

logger = logging.getLogger("agentserver.telemetry")


class Collector(Protocol):
    """A place that takes spans."""

    @property
    def url(self) -> str:
        """The address to which they go, whole."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that it asks for; they may hold secrets."""
        ...

    @property
    def certificate(self) -> str:
        """The path of the certificates that its own is checked by; empty for those of the system."""
        ...


class UnsentSpansError(Exception):
    """A collector did not take spans.

    Args:
        again: whether another attempt may succeed.
    """

    def __init__(self, why: str, *, again: bool) -> None:
        super().__init__(why)
        self.again = again


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: the headers are for this collector."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Sender:
    """Sends to one collector. Raises OSError where its certificates cannot be read."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        context = ssl.create_default_context(cafile=collector.certificate or None)
        self._opener = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))

    def send(self, body: bytes) -> int:
        """Send a request; gives how many of its spans were not taken. Raises UnsentSpansError."""
        headers = {**self._collector.headers, "Content-Type": "application/x-protobuf"}
        request = urllib.request.Request(self._collector.url, body, headers, method="POST")  # noqa: S310 - the loader has checked that it is HTTP
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                return rejected(answer.read(ANSWER))
        except urllib.error.HTTPError as error:
            error.close()
            raise UnsentSpansError(f"it answered {error.code}", again=error.code in BUSY) from None
        except (OSError, HTTPException) as error:
            raise UnsentSpansError(type(error).__name__, again=True) from None
        except ValueError as error:
            raise UnsentSpansError(str(error), again=False) from None


class Export:
    """Two threads, which end with the process if they must.

    Args:
        story: makes spans of steps.
        encoder: writes them.
        sender: sends them.
    """

    def __init__(self, story: Story, encoder: Encoder, sender: Sender) -> None:
        self._story, self._encoder, self._sender = story, encoder, sender
        self._steps: deque[tuple[Sequence[AuditRecord], Traceparent | None]] = deque()
        self._spans: deque[bytes] = deque()
        self._some, self._many = threading.Event(), threading.Event()
        self._ending = False
        self._until = 0.0
        self._missed = self._unsent = 0
        self._warned = False
        self._threads: list[threading.Thread] = []

    @property
    def lost(self) -> int:
        """Spans that were lost, and steps whose spans were."""
        return self._missed + self._unsent + self._story.forgotten

    def start(self) -> None:
        """Begin to tell."""
        for name, run in (("makes spans of steps", self._tell), ("sends spans", self._send)):
            self._threads.append(start_thread(name, Ending.RESTART, run))

    def observe(self, records: Sequence[AuditRecord]) -> None:
        """Have one committed step told, later. Neither blocks nor raises."""
        waiting = len(self._steps)
        if waiting >= STEPS:
            self._missed += 1
            return
        self._steps.append((records, caller()))
        if waiting == WOKEN:
            self._some.set()

    def add(self, span: Span) -> None:
        """Have a span sent, later. Neither blocks nor raises."""
        self._keep(self._encoder.span(span))

    def end(self, until: float) -> None:
        """Send what waits, until ``time.monotonic()`` gives this; then say what was lost."""
        self._until, self._ending = until, True
        for thread, event in zip(self._threads, (self._some, self._many), strict=True):
            event.set()
            thread.join(max(0.0, until - time.monotonic()))
        self._unsent += len(self._spans)
        if self.lost:
            logger.warning("%d spans were lost", self.lost)

    def _keep(self, written: bytes) -> None:
        if len(self._spans) >= SPANS:
            self._lose(1, "the collector is too slow")
            return
        self._spans.append(written)
        if len(self._spans) == BATCH:
            self._many.set()

    def _tell(self) -> None:
        """Make spans of the steps that wait, now and then, until the end."""
        ending = False
        while not ending:
            self._some.wait(PAUSE)
            self._some.clear()
            ending = self._ending
            while self._steps:
                self._tell_step(*self._steps.popleft())

    def _tell_step(self, records: Sequence[AuditRecord], link: Traceparent | None) -> None:
        try:
            for span in self._story.take(records, link):
                self._keep(self._encoder.span(span))
        except Exception:
            self._missed += 1
            logger.exception("a step could not be told")

    def _send(self) -> None:
        """Send the spans that wait, now and then, until the end."""
        while True:
            self._many.wait(PAUSE)
            self._many.clear()
            ending = self._ending and not self._threads[0].is_alive()
            while self._spans:
                batch = [self._spans.popleft() for _ in range(min(BATCH, len(self._spans)))]
                self._deliver(batch)
            if ending:
                return

    def _deliver(self, batch: Sequence[bytes]) -> None:
        """Send a batch, more than once where that may help; what is not taken is lost."""
        body = self._encoder.request(batch)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                refused = self._sender.send(body)
            except UnsentSpansError as error:
                if not error.again or attempt == ATTEMPTS or self._rest(attempt):
                    self._lose(len(batch), str(error))
                    return
            else:
                if refused:
                    self._lose(refused, "the collector refused them")
                return

    def _rest(self, attempt: int) -> bool:
        """Wait before another attempt; True when there is no time for one."""
        if self._ending:
            return time.monotonic() >= self._until
        time.sleep(PAUSE * 2**attempt)
        return False

    def _lose(self, count: int, why: str) -> None:
        self._unsent += count
        if not self._warned:
            self._warned = True
            logger.warning("spans are lost: %s. Further ones are counted", why)
