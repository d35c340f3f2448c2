"""From records to spans: parents, ends, events, and omitted values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.messages import Moment
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import Charge, Failure, Ground, GuardNote
from agentserver.telemetry import story
from agentserver.telemetry.story import OpenRequests, is_sampled, span_id, trace_id
from agentserver.trace.redact import Redaction
from agentserver.trace.traceparent import Traceparent

IDS = [Moment(1.0, b"s" * 16).id(n) for n in range(8)]
REQUEST, FIRST, SECOND, THIRD, *_ = IDS
SHOP = {"a": True, "b": False}
LINK = Traceparent(b"t" * 16, b"s" * 8)


def record(event, delivery="", to="a", at=1.0, **more):
    return AuditRecord(event, at, "c", "t", to=to, delivery=delivery, request=REQUEST, **more)


def receive_step(at=1.0):
    entered = record(Event.RECEIVED, at=at, sender="ada")
    return (entered, record(Event.SENT, FIRST, at=at, sender="ada", message=b"<ask>hunter2</ask>"))


def take_spans(*steps, **more):
    shop = OpenRequests("shop", SHOP, **more)
    return [span for step in steps for span in shop.take(step)]


def pairs(span):
    return dict((*span.about.attributes, *span.attributes))


def test_ids_are_those_of_the_messages():
    assert trace_id(REQUEST).hex() == REQUEST.replace("-", "")
    assert span_id(FIRST).hex() == FIRST.replace("-", "")[:16]


@given(st.text(st.characters(codec=None)))
def test_any_id_gives_one_that_a_collector_takes(text):
    assert len(trace_id(text)) == 16
    assert len(span_id(text)) == 8
    assert any(trace_id(text))
    assert any(span_id(text))


def test_a_delivery_lies_below_the_one_that_was_handled_when_it_was_sent():
    spans = take_spans(
        receive_step(),
        (record(Event.HANDLED, FIRST, at=3.0, took=1.5), record(Event.SENT, SECOND, "b", at=3.0, sender="a")),
        (record(Event.HANDLED, SECOND, "b", at=4.0, took=0.5, sender="a"), record(Event.SENT, THIRD, at=4.0)),
        (
            record(Event.HANDLED, THIRD, at=5.0, took=0.1),
            record(Event.ANSWERED, to="ada", at=5.0, sender="a"),
        ),
    )
    assert [(span.about.name, span.id, span.parent) for span in spans] == [
        ("invoke_agent a", span_id(FIRST), span_id(REQUEST)),
        ("execute_tool b", span_id(SECOND), span_id(FIRST)),
        ("invoke_agent a", span_id(THIRD), span_id(SECOND)),
        ("invoke_workflow shop", span_id(REQUEST), b""),
    ]
    assert {span.trace for span in spans} == {trace_id(REQUEST)}
    first, second, _, whole = spans
    assert (first.began, first.ended, pairs(first)["agentserver.waited"]) == (1.5, 3.0, 0.5)
    assert pairs(second) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "b",
        "gen_ai.conversation.id": "c",
        "agentserver.sender": "a",
        "agentserver.payload": "",
        "agentserver.waited": 0.5,
    }
    assert (whole.began, whole.ended) == (1.0, 5.0)


def test_a_failure_has_its_code_and_attempts_are_counted():
    (found,) = take_spans(
        receive_step(),
        (record(Event.RETRIED, FIRST, at=2.0, code="internal", detail=Failure("boom")),),
        (
            record(Event.FAILED, FIRST, at=3.0, code="timeout", took=0.5, detail=Ground.LATE.of("1")),
            record(Event.SENT, SECOND, at=3.0),
        ),
    )
    assert (found.error, pairs(found)["agentserver.attempts"]) == ("timeout", 2)
    assert [(one.name, dict(one.attributes)) for one in found.events] == [
        ("retried", {"agentserver.code": "internal", "agentserver.rule": "failure"})
    ]


def test_a_refusal_is_an_event_of_the_delivery_that_it_answers():
    (found,) = take_spans(
        receive_step(),
        (
            record(Event.HANDLED, FIRST, at=2.0),
            record(Event.FLAGGED, "", "b", at=2.0, detail=GuardNote("hours", "hunter2")),
            record(Event.REFUSED, FIRST, "b", at=2.0, code="denied", detail=Ground.NO_PEER.of("hunter2")),
            record(Event.SENT, SECOND, at=2.0),
        ),
    )
    assert [(one.name, dict(one.attributes)) for one in found.events] == [
        ("flagged", {"agentserver.rule": "hours"}),
        ("refused", {"agentserver.code": "denied", "agentserver.rule": "no peer"}),
    ]
    assert "hunter2" not in str(found)
    assert found.error == ""


def test_a_message_that_is_refused_at_the_door_is_a_request_that_failed():
    (found,) = take_spans(
        (
            record(Event.REFUSED, to="b", code="routing", detail=Ground.NO_TAKER.of("x"), sender="ada"),
            record(Event.ANSWERED, to="ada", root="SystemError"),
        )
    )
    assert (found.about.name, found.error) == ("invoke_workflow shop", "routing")
    assert [one.name for one in found.events] == ["refused", "answered"]


def test_a_request_whose_beginning_is_unknown_has_no_span_of_its_own():
    (found,) = take_spans((record(Event.HANDLED, SECOND, "b", took=0.5), record(Event.ANSWERED, to="ada")))
    assert (found.id, found.parent, found.trace) == (span_id(SECOND), span_id(REQUEST), trace_id(REQUEST))


def test_a_withdrawn_question_to_a_person_is_exported_with_its_events():
    (found,) = take_spans(
        receive_step(),
        (record(Event.ASKED, FIRST),),
        (record(Event.WITHDRAWN, FIRST, at=9.0), record(Event.DROPPED, FIRST, at=9.0), record(Event.SENT, SECOND, at=9.0)),
    )  # fmt: skip
    assert [one.name for one in found.events] == ["asked", "withdrawn"]
    assert pairs(found)["agentserver.result"] == "dropped"


def test_the_cost_of_a_delivery_is_exported():
    (found, _) = take_spans(
        receive_step(),
        (record(Event.RESERVED, FIRST, detail=Charge("small", 100, 9)),),
        (record(Event.SETTLED, FIRST, detail=Charge("", 40, 2_000_000)),),
        (record(Event.HANDLED, FIRST), record(Event.ANSWERED, to="ada")),
    )
    assert (pairs(found)["agentserver.tokens"], pairs(found)["agentserver.cost_usd"]) == (40, 2.0)


def test_a_caller_is_a_link_of_the_request_and_chooses_no_id():
    shop = OpenRequests("shop", SHOP)
    first, *_ = receive_step()
    (found,) = [span for step in (((first,), LINK),) for span in shop.take(*step)]
    assert (found.link, found.trace) == (LINK, trace_id(REQUEST))


STEPS = (
    receive_step(),
    (
        record(Event.HANDLED, FIRST, at=2.0, took=0.5, sender="ada"),
        record(Event.SENT, SECOND, "b", at=2.0, sender="a", message=b"<card>4711</card>"),
    ),
    (
        record(Event.FAILED, SECOND, "b", at=3.0, code="internal", detail=Failure("hunter2 4711")),
        record(Event.ANSWERED, to="ada", at=3.0, root="SystemError", message=b"<no>hunter2</no>"),
    ),
)


def test_no_content_is_exported_unless_asked_for():
    assert "4711" not in str(take_spans(*STEPS))
    assert "hunter2" not in str(take_spans(*STEPS))


def test_content_is_exported_without_secrets_and_in_the_form_of_its_kind():
    clean = Redaction(secrets=lambda text: text.replace("hunter2", "[redacted]"))
    spans = take_spans(*STEPS, content=clean)
    agent, tool, _ = map(pairs, spans)
    assert agent["gen_ai.input.messages"] == (
        '[{"role": "user", "parts": [{"type": "text", "content": "<ask>[redacted]</ask>"}]}]'
    )
    assert "4711" in agent["gen_ai.output.messages"]
    assert tool["gen_ai.tool.call.arguments"] == "<card>4711</card>"
    assert tool["gen_ai.tool.call.result"] == "<no>[redacted]</no>"
    assert "hunter2" not in str(spans)


def test_fields_that_are_redacted_are_in_no_span():
    spans = take_spans(*STEPS, content=Redaction(("*",)))
    assert "4711" not in str(spans)
    assert "hunter2" not in str(spans)


def test_a_share_of_requests_is_exported_and_always_the_same_one():
    chosen = [trace_id(Moment(1.0, bytes([n]) * 16).id(0)) for n in range(200)]
    half = [trace for trace in chosen if is_sampled(trace, 0.5)]
    assert 60 < len(half) < 140
    assert all(is_sampled(trace, 0.9) for trace in half)
    assert not any(is_sampled(trace, 0.0) for trace in chosen)
    assert all(is_sampled(trace, 1.0) for trace in chosen)
    assert take_spans(*STEPS, share=0.0) == []


def test_idle_requests_leave_nothing_and_others_are_bounded(monkeypatch):
    shop = OpenRequests("shop", SHOP)
    for step in STEPS:
        shop.take(step)
    assert not shop.open
    monkeypatch.setattr(story, "REQUESTS", 3)
    for n in range(9):
        shop.take([one._replace(request=f"r{n}") for one in receive_step()])
    assert (len(shop.open), shop.forgotten) == (3, 6)


EVENTS = st.builds(
    AuditRecord,
    st.sampled_from(Event),
    st.floats(0, 1e10),
    st.just("c"),
    st.just("t"),
    st.text(max_size=3),
    st.sampled_from(["a", "b", "gone", "\ud800"]),
    st.sampled_from(["Ask", "SystemError"]),
    st.just(1),
    st.sampled_from(["", "internal"]),
    st.none() | st.just(Failure("x")) | st.just(Charge("x", 1, 1)),
    st.sampled_from(["", *IDS[1:4]]),
    st.just(b"<x/>"),
    st.sampled_from(["", REQUEST, IDS[5], "no id"]),
    st.none() | st.floats(0, 10),
)


@given(st.lists(st.lists(EVENTS, max_size=5), max_size=8), st.booleans())
def test_no_order_of_records_raises_and_each_span_has_a_parent_or_is_a_request(steps, content):
    shop = OpenRequests("shop", SHOP, content=Redaction() if content else None)
    for step in steps:
        for span in shop.take(step):
            assert (span.parent == b"") == (span.about.name == "invoke_workflow shop")
            assert len(span.events) <= story.EVENTS


def test_a_cancelled_request_is_marked_and_ended():
    dropped, whole = take_spans(
        receive_step(), (record(Event.CANCELLED, to="ada", at=2.0), record(Event.DROPPED, FIRST, at=2.0))
    )
    assert pairs(dropped)["agentserver.result"] == "dropped"
    assert [one.name for one in whole.events] == ["cancelled"]


def test_a_listener_that_a_reload_adds_is_exported_under_its_kind():
    shop = OpenRequests("shop", SHOP)
    shop.know({"a": False, "c": True})
    assert next(span.about.name for step in received_by("c") for span in shop.take(step)) == "invoke_agent c"


def received_by(name):
    first, sent = receive_step()
    yield first._replace(to=name), sent._replace(to=name)
    yield (record(Event.HANDLED, FIRST, name),)
