"""Metrics of a server in the text format of Prometheus.

Every label is a name of the configuration or of a closed set: a name that a message brings counts as ``other``. Imports
``prometheus_client``, of the extra ``http``, when a text is requested.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

from agentserver.contract import Code
from agentserver.core.records.audit import Event
from agentserver.core.records.details import Charge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from agentserver.core.records.audit import AuditRecord

    Labels: TypeAlias = tuple[str, ...]

OTHER: Final = "other"
"""Label of names that no configuration has. A listener of this name is counted with them."""

BOUNDS: Final = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets of a handler's time, in seconds."""

_CODES: Final = frozenset(map(str, Code))
_QUEUES: Final = (
    ("queued", "Deliveries that wait until their listener has room."),
    ("running", "Deliveries that a listener has, or is given next."),
)


class Metrics:
    """Sink of records that counts them.

    Args:
        listeners: the names of the organism's.
    """

    def __init__(self, listeners: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        self._buckets = {OTHER: [0] * (len(BOUNDS) + 1)}
        self._seconds = {OTHER: 0.0}
        self._know(listeners)
        self._commits = self._requests = 0
        self._deliveries: Counter[Labels] = Counter()
        self._failures: Counter[Labels] = Counter()
        self._refusals: Counter[Labels] = Counter()
        self._retries: Counter[Labels] = Counter()
        self._tokens: Counter[Labels] = Counter()
        self._money: Counter[Labels] = Counter()

    def _know(self, listeners: Iterable[str]) -> None:
        """Count listeners by name that a reload has added."""
        for name in listeners:
            if self._names.setdefault(name, name) not in self._buckets:
                self._buckets[name], self._seconds[name] = [0] * (len(BOUNDS) + 1), 0.0

    def __call__(self, records: tuple[AuditRecord, ...]) -> None:
        """Count one committed step."""
        self._commits += 1
        for record in records:
            event = record.event
            if event is Event.SENT:
                continue
            listener = self._names.get(record.to, OTHER)
            if event is Event.HANDLED:
                self._deliveries[listener, "handled"] += 1
            else:
                self._count_rare_event(record, listener)
            if record.took is not None:
                self._buckets[listener][bisect_left(BOUNDS, record.took)] += 1
                self._seconds[listener] += record.took

    def _count_rare_event(self, record: AuditRecord, listener: str) -> None:
        """Count events that do not occur at every hop."""
        match record.event:
            case Event.RECEIVED:
                self._requests += 1
            case Event.REFUSED:
                self._refusals[(_code(record),)] += 1
            case Event.DROPPED:
                self._deliveries[listener, "dropped"] += 1
            case Event.FAILED:
                self._deliveries[listener, "failed"] += 1
                self._failures[listener, _code(record)] += 1
            case Event.RETRIED:
                self._retries[(listener,)] += 1
            case Event.SETTLED if isinstance(record.detail, Charge):
                self._tokens[(listener,)] += record.detail.tokens
                self._money[(listener,)] += record.detail.money

    def text(
        self,
        queues: Mapping[str, tuple[int, int]],
        approvals: int,
        watchers: int,
        lost: int | None = None,
        differences: int = 0,
    ) -> bytes:
        """Return all metrics as text. Raises ImportError without the extra ``http``.

        Args:
            queues: for each listener the deliveries that wait for it, and those that it has. Its listeners count by
                name from now on.
            approvals: messages that wait for a person.
            watchers: readers of conversations.
            lost: spans that no collector accepted; None without tracing.
            differences: answers that differed from what was streamed of them.
        """
        from prometheus_client import CollectorRegistry, generate_latest

        self._know(queues)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_FamilyCollector(lambda: self._iter_families(queues, approvals, watchers, lost)))
        counter = _make_counter(
            "answer_differences", "Answers that differed from what was streamed.", differences
        )
        registry.register(_FamilyCollector(lambda: iter((counter,))))
        return generate_latest(registry)

    def _iter_families(
        self, queues: Mapping[str, tuple[int, int]], approvals: int, watchers: int, lost: int | None
    ) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        yield from self._iter_counters()
        yield self._make_histogram()
        for place, (name, help_text) in enumerate(_QUEUES):
            gauge = GaugeMetricFamily(f"agentserver_{name}", help_text, labels=["listener"])
            for listener in self._names:
                gauge.add_metric([listener], queues.get(listener, (0, 0))[place])
            yield gauge
        waiting = "Messages that wait for a person."
        yield GaugeMetricFamily("agentserver_approvals_waiting", waiting, approvals)
        yield GaugeMetricFamily("agentserver_watchers", "Readers of conversations.", watchers)
        if lost is not None:
            yield _make_counter("spans_lost", "Spans that no collector took.", lost)

    def _iter_counters(self) -> Iterator[Metric]:
        yield _make_counter("commits", "Committed steps.", self._commits)
        yield _make_counter("requests", "Messages from outside that were accepted.", self._requests)
        over = ("listener", "result")
        yield _make_labelled_counter("deliveries", "Finished deliveries.", over, self._deliveries)
        failed = ("listener", "code")
        yield _make_labelled_counter(
            "failures", "Deliveries that their listener failed at.", failed, self._failures
        )
        yield _make_labelled_counter(
            "retries", "Deliveries that are attempted again.", ("listener",), self._retries
        )
        yield _make_labelled_counter(
            "refusals", "Messages that were not admitted.", ("code",), self._refusals
        )
        yield _make_labelled_counter(
            "tokens", "Tokens of language models, where known.", ("listener",), self._tokens
        )
        dollars = {labels: money / 1e6 for labels, money in self._money.items()}
        yield _make_labelled_counter("cost_usd", "US dollars of priced work.", ("listener",), dollars)

    def _make_histogram(self) -> Metric:
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(
            "agentserver_handler_seconds", "Seconds of one invocation.", labels=["listener"]
        )
        for listener, counts in self._buckets.items():
            if not any(counts):
                continue
            bounds = [*(repr(bound) for bound in BOUNDS), "+Inf"]
            family.add_metric(
                [listener], [*zip(bounds, accumulate(counts), strict=True)], self._seconds[listener]
            )
        return family


class _FamilyCollector:
    """Collector of metric families for a registry."""

    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self.collect = families


def _make_counter(name: str, help_text: str, value: float) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(f"agentserver_{name}", help_text, value)


def _make_labelled_counter(
    name: str, help_text: str, labels: Labels, values: Mapping[Labels, float]
) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(f"agentserver_{name}", help_text, labels=labels)
    for labelled, value in values.items():
        family.add_metric(labelled, value)
    return family


def _code(record: AuditRecord) -> str:
    return str(record.code) if record.code in _CODES else OTHER
