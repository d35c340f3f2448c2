"""The way to a collector: one that is slow, gone or busy costs spans, which are counted, and never a message."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

import anyio
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from agentserver.core.messages import Moment
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.telemetry import export as module
from agentserver.telemetry.export import Export, Sender
from agentserver.telemetry.otlp import Encoder
from agentserver.telemetry.story import OpenRequests, span_id
from agentserver.trace.traceparent import link_requests, parse_traceparent
from tests.machine import HANGS
from tests.telemetry.collector import collect_spans

REQUEST, DELIVERY, *_ = [Moment(1.0, b"s" * 16).id(n) for n in range(3)]
pytestmark = pytest.mark.anyio
GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@dataclass
class Place:
    url: str
    headers: dict = field(default_factory=dict)
    certificate: str = ""


def step(number=0):
    return (AuditRecord(Event.HANDLED, 1.0, "c", "t", to="a", delivery=DELIVERY, request=REQUEST, took=0.1),)


def export_spans(url, **headers):
    made = Export(OpenRequests("shop", {"a": False}), Encoder({}), Sender(Place(url, headers)))
    made.start()
    return made


async def end(made, patience=HANGS):
    await made.end(patience)


async def test_spans_come_with_the_headers_that_the_collector_asks_for():
    with collect_spans() as collector:
        made = export_spans(collector.endpoint + "/v1/traces", key="k")
        made.put(step())
        await end(made)
        (span,) = collector.spans
        ((path, headers),) = collector.headers
    assert (span.span_id, made.lost) == (span_id(DELIVERY), 0)
    assert (path, headers["key"], headers["Content-Type"]) == ("/v1/traces", "k", "application/x-protobuf")


async def test_a_callers_context_becomes_a_link():
    with collect_spans() as collector:
        made = export_spans(collector.endpoint)
        with link_requests(GOOD):
            made.put(
                (
                    AuditRecord(Event.RECEIVED, 1.0, "c", "t", request=REQUEST),
                    AuditRecord(Event.ENDED, 1.0, "c", "t", request=REQUEST),
                )
            )
        await end(made)
        (span,) = collector.spans
    assert [(one.trace_id, one.span_id) for one in span.links] == [parse_traceparent(GOOD)]
    assert span.trace_id.hex() == REQUEST.replace("-", "")


@pytest.mark.parametrize("status", [400, 401, 302, 500])
async def test_spans_that_a_collector_refuses_are_lost_and_reported_once(caplog, status):
    with collect_spans() as collector:
        collector.status = status
        made = export_spans(collector.endpoint)
        for _ in range(2):
            made.put(step())
            while made._steps.queue_length or made._spans.queue_length or not made.lost:  # noqa: ASYNC110 - nothing tells of it
                await anyio.sleep(0.01)
        await end(made)
    assert made.lost == 2
    lines = [one.getMessage() for one in caplog.records]
    assert lines == [f"spans are lost: it answered {status}. Further ones are counted", "2 spans were lost"]


async def test_a_collector_that_is_busy_is_asked_again(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.01)
    with collect_spans() as collector:
        collector.status = 503
        made = export_spans(collector.endpoint)
        made.put(step())
        while not collector.headers:  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.001)
        collector.status = 200
        await end(made)
        assert len(collector.spans) == 1
    assert made.lost == 0


async def test_spans_that_a_collector_refuses_are_counted():
    with collect_spans() as collector:
        partial = ExportTracePartialSuccess(rejected_spans=1, error_message="no")
        collector.answer = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
        made = export_spans(collector.endpoint)
        made.put(step())
        await end(made)
    assert made.lost == 1


async def test_a_collector_that_is_gone_costs_spans_and_two_lines(caplog):
    with collect_spans() as collector:
        url = collector.endpoint
    made = export_spans(url)
    for _ in range(1000):
        made.put(step())
    await end(made)
    assert made.lost == 1000
    assert sum(one.levelno >= logging.WARNING for one in caplog.records) == 2


async def test_a_collector_that_never_answers_holds_up_neither_the_server_nor_its_end(monkeypatch):
    monkeypatch.setattr(module, "SPANS", 100)
    monkeypatch.setattr(module, "BATCH", 10)
    with collect_spans() as collector:
        collector.held.clear()
        made = export_spans(collector.endpoint)
        for _ in range(1000):
            made.put(step())
        began = anyio.current_time()
        await end(made, 0.3)
        assert anyio.current_time() - began < HANGS, "it waits for the collector"
        assert made._spans.queue_length <= 100
        assert made.lost == 1000, "also those of the request that is not answered"
        collector.held.set()


async def test_steps_beyond_the_queue_are_counted(monkeypatch):
    monkeypatch.setattr(module, "STEPS", 10)
    made = Export(OpenRequests("shop", {"a": False}), Encoder({}), Sender(Place("http://127.0.0.1:9")))
    for _ in range(25):
        made.put(step())
    assert (made._steps.queue_length, made.lost) == (10, 15)


async def test_the_spans_of_a_long_step_are_made_outside_of_the_event_loop_and_in_order(monkeypatch):
    monkeypatch.setattr(module, "INLINE", 1)
    story, loop = OpenRequests("shop", {"a": False}), threading.get_ident()
    taken = []

    def take(records, link):
        taken.append(threading.get_ident() == loop)
        return OpenRequests.take(story, records, link)

    monkeypatch.setattr(story, "take", take)
    monkeypatch.setattr(module, "TOGETHER", 1)
    received, sent = (
        AuditRecord(event, 1.0, "c", "t", to="a", delivery=DELIVERY, request=REQUEST)
        for event in (Event.RECEIVED, Event.SENT)
    )
    with collect_spans() as collector:
        made = Export(story, Encoder({}), Sender(Place(collector.endpoint)))
        made.start()
        made.put((received, sent))
        made.put(step())
        await end(made)
        assert {span.parent_span_id for span in collector.spans} == {b"", span_id(REQUEST)}
    assert taken == [False, True]


async def test_an_unexportable_step_loses_itself_alone(caplog):
    with collect_spans() as collector:
        made = export_spans(collector.endpoint)
        made.put((None,))
        made.put(step())
        await end(made)
        assert len(collector.spans) == 1
    assert made.lost == 1
    assert "the spans of a step could not be made" in caplog.text


async def test_steps_for_which_no_thread_can_be_started_are_counted_and_later_ones_are_exported(monkeypatch):
    monkeypatch.setattr(module, "INLINE", 0)
    monkeypatch.setattr("agentserver.supervision.SOONEST", 0.0)
    run, asked = module.to_thread.run_sync, []

    async def refuse_first(*args, **kwargs):
        asked.append(args)
        if len(asked) == 1:
            raise RuntimeError("can't start new thread")
        return await run(*args, **kwargs)

    monkeypatch.setattr(module.to_thread, "run_sync", refuse_first)
    with collect_spans() as collector:
        made = export_spans(collector.endpoint)
        made.put(step())
        while not asked:  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.01)
        made.put(step())
        await end(made)
        assert len(collector.spans) == 1
    assert made.lost == 1


async def test_an_address_that_cannot_be_asked_costs_spans_and_is_not_tried_again():
    with pytest.raises(module.UnsentSpansError) as found:
        await Sender(Place("http://127.0.0.1:none")).send(b"")
    assert not found.value.retryable


async def test_a_proxy_of_the_environment_that_cannot_be_used_is_named(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:9")
    with pytest.raises(module.UnusableProxyError, match="the proxy of the environment"):
        Sender(Place("http://127.0.0.1:9"))


async def test_a_collectors_request_appears_in_no_text_of_the_server():
    made = Sender(Place("http://127.0.0.1:9", {"authorization": "hunter2"}))
    assert "hunter2" not in repr(made) + str(vars(made).keys())
    with pytest.raises(module.UnsentSpansError) as found:
        await made.send(b"")
    assert "hunter2" not in str(found.value)
