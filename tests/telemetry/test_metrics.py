"""Metrics: what a scrape tells of a server at work, and which words may be labels."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from agentserver import HandlerResponse
from agentserver.assembly import build
from agentserver.contract import invocation
from agentserver.core.blueprint import Limits
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import Charge
from agentserver.spending import Amount
from agentserver.telemetry.metrics import BOUNDS, Metrics
from agentserver.testing import listener, organism_of
from tests.core.paper import Answer, Ask
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


ORDER = ("listener", "result", "code", "le")


def scrape_samples(metrics, queues=None, approvals=0, watchers=0, lost=None):
    """The samples of a scrape: the value of each name with its labels."""
    text = metrics.text(queues or {}, approvals, watchers, lost).decode()
    return {
        (sample.name, *(sample.labels[name] for name in ORDER if name in sample.labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def answer(payload: Ask, metadata) -> HandlerResponse:
    purse = invocation().purse
    reserved = await purse.reserve(Amount(100, 5_000_000), "small")
    await purse.settle(reserved, Amount(40, 2_000_000))
    return HandlerResponse.respond(Answer(f"re: {payload.text}"))


async def crash(payload: Ask, metadata) -> HandlerResponse:
    raise ValueError("no")


async def stay(payload: Ask, metadata) -> HandlerResponse:
    await anyio.sleep_forever()
    return HandlerResponse.respond(Answer(""))


SHOP = organism_of(
    listener("a", answer, Ask, replies=[Answer]),
    listener("b", crash, Ask, replies=[Answer]),
    listener("c", stay, Ask, replies=[Answer], concurrency=1),
    limits=Limits(drain=0.01, grace=0.01),
)


async def test_a_scrape_shows_the_servers_work():
    metrics = Metrics(bound.listener.name for bound in SHOP.listeners)
    server = build(SHOP)
    server.stream.attach(metrics)
    with anyio.fail_after(HANGS):
        async with server:
            data = server.rules.codecs.of(Ask).encode(Ask("hi")).encode()
            handle = await server.open("ada")
            for to in ("a", "a", "b"):
                await handle.ask(data, to)
            await handle.send(b"<nonsense", "a")
            await handle.send(data, "nobody")
            for _ in range(3):
                other = await server.open("ada")
                await other.send(data, "c")
            found = scrape_samples(metrics, server.queues(), 2, 3)
    assert found["agentserver_deliveries_total", "a", "handled"] == 2
    assert found["agentserver_failures_total", "b", "internal"] == 1
    assert found["agentserver_deliveries_total", "b", "failed"] == 1
    assert found["agentserver_refusals_total", "validation"] == 1
    assert found["agentserver_refusals_total", "routing"] == 1
    assert found["agentserver_requests_total",] == 6
    assert found["agentserver_queued", "c"] == 2
    assert found["agentserver_running", "c"] == 1
    assert found["agentserver_tokens_total", "a"] == 80
    assert found["agentserver_cost_usd_total", "a"] == 4.0
    assert found["agentserver_handler_seconds_count", "a"] == 2
    assert found["agentserver_handler_seconds_bucket", "a", "+Inf"] == 2
    assert found["agentserver_approvals_waiting",] == 2
    assert found["agentserver_watchers",] == 3
    assert found["agentserver_commits_total",] > 6
    assert ("agentserver_spans_lost_total",) not in found


def test_lost_spans_are_reported_where_there_are_spans():
    assert scrape_samples(Metrics(["a"]), lost=7)["agentserver_spans_lost_total",] == 7


HOSTILE = st.text() | st.sampled_from(['a"} 1\nevil{x="', "a\n# TYPE evil counter", "\u202e", "\x00"])


@given(
    to=HOSTILE, code=HOSTILE, root=HOSTILE, event=st.sampled_from(Event), took=st.none() | st.floats(0, 1e9)
)
def test_no_word_of_a_message_is_a_label(to, code, root, event, took):
    metrics = Metrics(["a"])
    record = AuditRecord(event, 1.0, "c", "t", to, to, root, 1, code, Charge(to, 3, 4), "d", b"", "r", took)
    metrics((record,))
    closed = {"a", "other", "handled", "failed", "dropped", "+Inf", *map(repr, BOUNDS)}
    labels = {label for _, *labels in scrape_samples(metrics) for label in labels}
    assert labels <= closed | {"validation", "routing", "denied", "timeout", "internal", "budget", "busy"}


@given(st.lists(st.floats(0, 1e4), max_size=30))
def test_each_time_is_in_the_buckets_that_hold_it(times):
    metrics = Metrics(["a"])
    metrics(tuple(AuditRecord(Event.HANDLED, 1.0, "c", "t", to="a", took=took) for took in times))
    found = scrape_samples(metrics)
    for bound in BOUNDS if times else ():
        within = sum(took <= bound for took in times)
        assert found["agentserver_handler_seconds_bucket", "a", repr(bound)] == within
    assert found.get(("agentserver_handler_seconds_count", "a"), 0) == len(times)


def test_a_listener_that_a_reload_brings_counts_by_its_name_from_the_next_scrape_on():
    metrics = Metrics(["a"])
    (step,) = [(AuditRecord(Event.HANDLED, 1.0, "c", "t", to="b", took=0.1),)]
    metrics(step)
    assert (
        scrape_samples(metrics, {"a": (0, 0), "b": (0, 1)})[
            "agentserver_deliveries_total", "other", "handled"
        ]
        == 1
    )
    metrics(step)
    found = scrape_samples(metrics, {"b": (0, 1)})
    assert found["agentserver_deliveries_total", "b", "handled"] == 1
    assert found["agentserver_running", "b"] == 1
