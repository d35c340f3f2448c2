"""Spans as bytes: what any reader of protobuf finds in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from agentserver.telemetry.otlp import LONGEST, Encoder, count_rejected
from agentserver.telemetry.spans import Span, SpanEvent, SpanKind
from agentserver.trace.traceparent import Traceparent
from tests.telemetry.collector import attributes

TEXT = st.text(st.characters(codec=None), max_size=9)
VALUES = TEXT | st.integers() | st.floats(allow_nan=False) | st.booleans()
PAIRS = st.lists(st.tuples(TEXT, VALUES), max_size=4, unique_by=lambda pair: clean(pair[0])).map(tuple)
NAMED = st.lists(st.tuples(TEXT, TEXT), max_size=4, unique_by=lambda pair: clean(pair[0])).map(tuple)
TIMES = st.floats(0, 1e10)
SPANS = st.builds(
    Span,
    st.binary(min_size=16, max_size=16),
    st.binary(min_size=8, max_size=8),
    st.just(b"") | st.binary(min_size=8, max_size=8),
    NAMED.map(lambda pairs: SpanKind(f"about {pairs}", pairs)),
    TIMES,
    TIMES,
    st.just(()),
    st.lists(st.builds(SpanEvent, TEXT, TIMES, PAIRS), max_size=3),
    st.sampled_from(["", "timeout"]),
    st.none() | st.just(Traceparent(b"t" * 16, b"s" * 8)),
    st.booleans(),
)


def clean(text):
    return text.encode("utf-8", "replace").decode()


def clean_values(pairs):
    return {
        clean(name): clean(value)
        if isinstance(value, str)
        else max(-(2**63), min(value, 2**63 - 1))
        if type(value) is int
        else value
        for name, value in pairs
    }


def read(encoder, spans):
    body = encoder.request([encoder.encode_span(span) for span in spans])
    (found,) = ExportTraceServiceRequest.FromString(body).resource_spans
    (scoped,) = found.scope_spans
    return found.resource, scoped.scope, list(scoped.spans)


@given(st.lists(SPANS, max_size=4))
def test_a_reader_finds_the_written_values(spans):
    resource, scope, found = read(Encoder({"service.name": "shop"}), [*spans, *spans])
    assert attributes(resource) == {"service.name": "shop"}
    assert scope.name == "agentserver"
    assert len(found) == 2 * len(spans)
    for span, read_ in zip([*spans, *spans], found, strict=True):
        assert (read_.trace_id, read_.span_id, read_.parent_span_id) == (span.trace, span.id, span.parent)
        assert read_.name == clean(span.about.name)
        assert read_.start_time_unix_nano == int(span.began * 1e9)
        assert read_.end_time_unix_nano == int(span.ended * 1e9)
        assert read_.kind == (3 if span.client else 1)
        error = {"error.type": span.error} if span.error else {}
        assert attributes(read_) == {**clean_values(span.about.attributes), **error}
        assert read_.status.code == (2 if span.error else 0)
        assert [(one.name, attributes(one)) for one in read_.events] == [
            (clean(one.name), clean_values(one.attributes)) for one in span.events
        ]
        assert [(one.trace_id, one.span_id) for one in read_.links] == [span.link] * (span.link is not None)


@given(NAMED, PAIRS)
def test_attributes_of_one_span_are_exported_with_those_of_its_kind(pairs, more):
    kind, own = [("kind." + n, v) for n, v in pairs], [("own." + n, v) for n, v in more]
    span = Span(b"t" * 16, b"s" * 8, b"", SpanKind("x", tuple(kind)), 1.0, 2.0, tuple(own))
    _, _, (found,) = read(Encoder({}), [span])
    assert attributes(found) == {**clean_values(kind), **clean_values(own)}


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1.0, 1e300])
def test_an_impossible_time_is_exported_as_one(at):
    span = Span(b"t" * 16, b"s" * 8, b"", SpanKind("x", ()), at, at)
    _, _, (found,) = read(Encoder({}), [span])
    assert 0 <= found.start_time_unix_nano < 2**64


def test_a_text_of_any_length_is_cut():
    span = Span(b"t" * 16, b"s" * 8, b"", SpanKind("x" * 10**6, (("a", "y" * 10**6),)), 1.0, 1.0)
    _, _, (found,) = read(Encoder({}), [span])
    assert len(found.name) == len(attributes(found)["a"]) == LONGEST


@pytest.mark.parametrize("count", [0, 1, 17, 2**40])
def test_a_collector_says_how_many_spans_it_did_not_take(count):
    said = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=count))
    assert count_rejected(said.SerializeToString()) == count


def test_an_invalid_answer_of_a_collector_is_reported_as_such():
    with pytest.raises(ValueError, match="no answer"):
        count_rejected(b"<html>")
