"""The bridge against a server that speaks the managed agents' protocol, through the real SDK."""

from __future__ import annotations

import json
import time
from itertools import islice

import pytest

pytest.importorskip("anthropic")

from agentserver.handoff.judgement import ApprovedRequest, JudgementContext, judge
from agentserver.handoff.managed.agents import (
    CursorPosition,
    FailureWindow,
    ManagedOutput,
    SessionCursor,
    SourceLost,
    SteeringEvent,
)
from agentserver.handoff.managed.orchestrate import Desk, reference, run
from agentserver.handoff.requests import RequestRefusal, read_text
from tests.handoff.edge.service import Connection, begin_event, delta, serve_fake
from tests.machine import HANGS


@pytest.fixture
def fake():
    with serve_fake() as pair:
        yield pair


class Sink:
    def __init__(self):
        self.records = []

    def append(self, record):
        self.records.append(dict(record.members))


def request(ticket="LEGAL-12", target="launch-radar", **payload):
    payload = {"intent": "launch_review", "params": {"ticket_id": ticket}, **payload}
    return {"type": "handoff_request", "target_agent": target, "payload": payload}


def desk(sink):
    return Desk(sink=sink, clock=lambda: "2026-07-02T00:00:00+00:00")


def listen(client, waits=None, **options):
    patience = FailureWindow(sleep=(waits if waits is not None else []).append)
    return [
        attempt.request
        for attempt in ManagedOutput(client, "sesn_src", patience=patience, **options).attempts()
    ]


def tickets(requests):
    return [dict(each.params).get("ticket_id") if each.fault is None else each.fault for each in requests]


def test_a_message_becomes_a_message_to_the_target_with_the_words_in_a_block_of_their_own(fake):
    service, client = fake
    text = f"Handing over.\n```json\n{json.dumps(request(event='see ticket'))}\n```"
    service.script = [Connection([service.message(text), service.idle(), service.over()])]
    sink = Sink()
    run("sesn_src", {"launch-radar": "sesn_t"}, "triage", client=client, desk=desk(sink))
    ((session, (event,)),) = service.sent
    assert session == "sesn_t"
    assert event["type"] == "user.message"
    steering, data = (block["text"] for block in event["content"])
    assert "LEGAL-12" in steering
    assert "see ticket" not in steering
    assert data.startswith("<handoff-data")
    assert "| see ticket" in data
    assert 'source="triage"' in data
    assert [(each["result"], each["reason"]) for each in sink.records] == [("approve", None)]


def test_earlier_messages_are_ignored(fake):
    service, client = fake
    service.history = [service.message(json.dumps(request("OLD-1"))), service.idle()]
    service.script = [Connection([service.message(json.dumps(request("NEW-1"))), service.over()])]
    assert tickets(listen(client)) == ["NEW-1"]


def listen_attempts(client, folder, most=100):
    """The tickets of up to so many attempts of a listener with a cursor, which then ends as a killed process does."""
    cursor = SessionCursor("sesn_src", folder)
    attempts = ManagedOutput(
        client, "sesn_src", patience=FailureWindow(sleep=[].append), cursor=cursor
    ).attempts()
    return tickets([attempt.request for attempt in islice(attempts, most)])


def test_a_request_made_without_a_listener_is_found_at_the_next_start(fake, tmp_path):
    service, client = fake
    ask = lambda ticket: service.message(json.dumps(request(ticket)))  # noqa: E731
    service.history = [ask("OLD-1"), service.idle()]
    service.script = [Connection([ask("ONE-1"), service.idle(), ask("TWO-1"), ask("TWO-2")], ends="open")]
    assert listen_attempts(client, tmp_path, 2) == ["ONE-1", "TWO-1"]
    service.over_now.set()
    service.history += [ask("TWO-3"), service.call({**request("TWO-4")["payload"], "target_agent": "x"})]
    service.script = [Connection([ask("NEW-1"), service.over()])]
    assert listen_attempts(client, tmp_path) == ["TWO-1", "TWO-2", "TWO-3", "TWO-4", "NEW-1"]
    service.script = [Connection([service.over()])]
    assert listen_attempts(client, tmp_path) == []


def test_a_request_that_spans_messages_is_read_whole_by_a_listener_that_starts_between_them(fake, tmp_path):
    service, client = fake
    text = json.dumps(request("SPAN-1"))
    first = [service.message(json.dumps(request("ONE-1"))), service.message(text[:40]), service.message("")]
    service.script = [Connection([*first, service.call({"target_agent": "x"})], ends="open")]
    assert listen_attempts(client, tmp_path, 2) == ["ONE-1", "schema"]
    service.over_now.set()
    service.script = [Connection([service.message(text[40:]), service.idle(), service.over()])]
    assert listen_attempts(client, tmp_path) == ["schema", "SPAN-1"]


def test_a_call_that_waits_for_its_answer_is_taken_by_the_first_listener(fake, tmp_path):
    service, client = fake
    asked = {**request("WAITS-1")["payload"], "target_agent": "launch-radar"}
    answered, waiting = service.call(asked), service.call(asked)
    result = service.event("user.custom_tool_result", custom_tool_use_id=answered["id"], content=[])
    service.history = [service.message(json.dumps(request("OLD-1"))), answered, result, waiting]
    service.script = [Connection([service.over()])]
    kept = Desk(sink=Sink(), cursor=SessionCursor("sesn_src", tmp_path))
    run("sesn_src", {"launch-radar": "sesn_t"}, client=client, desk=kept)
    assert [(to, events[0]["type"]) for to, events in service.sent] == [
        ("sesn_t", "user.message"), ("sesn_src", "user.custom_tool_result")
    ]  # fmt: skip
    assert service.sent[1][1][0]["custom_tool_use_id"] == waiting["id"]


def test_a_cursor_that_is_spoiled_is_named(fake, tmp_path):
    cursor = SessionCursor("sesn_src", tmp_path)
    cursor.keep(CursorPosition("2026-07-02T00:00:01+00:00", ("a",)))
    assert cursor.read() == CursorPosition("2026-07-02T00:00:01+00:00", ("a",))
    cursor.path.write_text("{")
    with pytest.raises(ValueError, match="no note of how far"):
        listen_attempts(fake[1], tmp_path)


def test_a_typed_call_is_taken_and_answered(fake):
    service, client = fake
    arguments = {
        "target_agent": "launch-radar",
        "intent": "launch_review",
        "params": {"ticket_id": "LEGAL-7"},
    }
    good, bad = service.call(arguments), service.call({**arguments, "intent": "pay"})
    other = service.call({"x": 1}, name="search")
    service.script = [Connection([good, bad, other, service.over()])]
    sink = Sink()
    run("sesn_src", {"launch-radar": "sesn_t"}, client=client, desk=desk(sink))
    to = [(session, event["type"]) for session, events in service.sent for event in events]
    assert to == [
        ("sesn_t", "user.message"),
        ("sesn_src", "user.custom_tool_result"),
        ("sesn_src", "user.custom_tool_result"),
    ]
    results = [events[0] for session, events in service.sent if session == "sesn_src"]
    assert [(each["custom_tool_use_id"], each["is_error"]) for each in results] == [
        (good["id"], False),
        (bad["id"], True),
    ]
    assert "intent" not in results[1]["content"][0]["text"]  # the reason is for the record
    assert sink.records[1]["reason"] == "unknown_intent"


def test_a_request_may_be_spread_over_the_messages_of_a_turn(fake):
    service, client = fake
    raw = json.dumps(request())
    cuts = [raw[:9], raw[9:50], raw[50:]]
    service.script = [Connection([*map(service.message, cuts), service.idle(), service.over()])]
    assert tickets(listen(client)) == ["LEGAL-12"]


def test_a_turn_that_ends_in_a_request_reports_it(fake):
    service, client = fake
    cut = service.message(json.dumps(request())[:-3])
    service.script = [Connection([cut, service.idle(), service.message("}}}"), service.over()])]
    assert tickets(listen(client)) == [RequestRefusal.INVALID_JSON]


def test_a_dropped_connection_is_resumed_without_duplicates(fake):
    service, client = fake
    one, two, three, four = (service.message(json.dumps(request(f"LEGAL-{n}"))) for n in range(1, 5))
    service.script = [
        Connection([one], ends="cut", happens=[]),
        Connection([three], happens=[two], ends="close"),
        Connection([], ends="status", status=503),
        Connection([two, three, four, service.over()]),
    ]
    waits = []
    assert tickets(listen(client, waits)) == ["LEGAL-1", "LEGAL-2", "LEGAL-3", "LEGAL-4"]
    assert waits == [0.5, 0.5, 1.0]


def test_events_between_history_and_stream_are_read_once(fake):
    service, client = fake
    first = service.message(json.dumps(request("LEGAL-1")))
    service.script = [Connection([first, service.over()], happens=[first])]
    assert tickets(listen(client)) == ["LEGAL-1"]


def test_a_session_that_ended_meanwhile_is_not_waited_for(fake):
    service, client = fake
    happened = [service.message(json.dumps(request())), service.over()]
    service.script = [Connection([], ends="open", happens=happened)]
    started = time.monotonic()
    assert tickets(listen(client)) == ["LEGAL-12"]
    assert time.monotonic() - started < HANGS, "it waits for the end of the stream"


def test_a_history_of_many_pages_is_read_to_its_end(fake):
    service, client = fake
    missed = [service.message(json.dumps(request(f"LEGAL-{n}"))) for n in range(7)]
    service.script = [Connection([], happens=missed), Connection([service.over()])]
    assert tickets(listen(client)) == [f"LEGAL-{n}" for n in range(7)]


def test_a_rate_limited_stream_waits_the_stated_time(fake):
    service, client = fake
    service.script = [
        Connection([], ends="status", status=429, headers={"retry-after": "7"}),
        Connection([], ends="status", status=500),
        Connection([service.over()]),
    ]
    waits = []
    assert listen(client, waits) == []
    assert waits == [7.0, 1.0]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_session_that_cannot_be_read_is_said_so(fake, status):
    service, client = fake
    service.script = [Connection([], ends="status", status=status)]
    with pytest.raises(SourceLost, match=str(status)):
        listen(client)


def test_previews_give_a_request_once_and_before_its_message(fake):
    service, client = fake
    raw = json.dumps(request())
    whole = service.message(f"Now: {raw} and more")
    identity = whole["id"]
    pieces = [delta(identity, part) for part in ("Now: ", raw[:30], raw[30:], " and")]
    service.script = [Connection([begin_event(identity), *pieces, whole, service.over()])]
    assert tickets(listen(client, previews=True)) == ["LEGAL-12"]
    assert service.opened[0]["event_deltas[]"] == ["agent.message"]


def test_a_preview_that_was_cut_short_is_completed_by_its_message(fake):
    service, client = fake
    raw = json.dumps(request())
    whole = service.message(f"{raw} {raw}")
    service.script = [
        Connection(
            [begin_event(whole["id"]), delta(whole["id"], raw), delta(whole["id"], raw[:9])], ends="cut"
        ),
        Connection([whole, service.over()]),
    ]
    assert tickets(listen(client, previews=True)) == ["LEGAL-12", "LEGAL-12"]


def test_a_target_without_an_id_is_on_record(fake):
    service, client = fake
    service.script = [Connection([service.message(json.dumps(request())), service.over()])]
    sink = Sink()
    run("sesn_src", {}, client=client, desk=desk(sink))
    assert service.sent == []
    assert [(each["result"], each["reason"]) for each in sink.records] == [("reject", "no_deployed_agent_id")]


def test_the_allowlist_comes_before_the_agent_ids(fake):
    service, client = fake
    service.script = [Connection([service.message(json.dumps(request(target="mailer"))), service.over()])]
    sink = Sink()
    run("sesn_src", {"mailer": "sesn_m"}, client=client, desk=desk(sink))
    assert service.sent == []
    assert sink.records[0]["reason"] == "target_not_allowlisted"
    assert sink.records[0]["target"]["len"] == len("mailer")


def test_an_agent_id_gets_a_session_of_its_own(fake):
    service, client = fake
    service.script = [Connection([service.message(json.dumps(request())), service.over()])]
    run("sesn_src", {"launch-radar": "agent_1"}, client=client, environment_id="env_1", desk=desk(Sink()))
    (created,) = service.created
    assert (created["agent"], created["environment_id"]) == ("agent_1", "env_1")
    assert created["initial_events"][0]["type"] == "user.message"


@pytest.fixture
def approved_verdict():
    verdict = judge(reference(), read_text(json.dumps(request())), JudgementContext("s", "t"))
    assert isinstance(verdict, ApprovedRequest)
    return verdict


def test_a_rate_limited_delivery_is_sent_again(fake, approved_verdict):
    service, client = fake
    service.refusals = [(429, {"retry-after": "3"}), (529, {})]
    waits = []
    assert SteeringEvent(client, patience=FailureWindow(sleep=waits.append)).steer("sesn_t", approved_verdict)
    assert waits == [3.0, 1.0]
    assert len(service.sent) == 1


@pytest.mark.parametrize("status", [400, 404, 500, 0])
def test_a_delivery_that_may_have_arrived_or_never_will_is_not_sent_again(fake, approved_verdict, status):
    service, client = fake
    service.refusals = [(status, {})]
    assert not SteeringEvent(client, patience=FailureWindow(sleep=pytest.fail)).steer(
        "sesn_t", approved_verdict
    )
    assert service.sent == []


def test_patience_ends(fake, approved_verdict):
    service, client = fake
    service.refusals = [(429, {})] * 5
    waits = []
    assert not SteeringEvent(client, patience=FailureWindow(sleep=waits.append)).steer(
        "sesn_t", approved_verdict
    )
    assert waits == [0.5, 1.0, 2.0, 4.0]


def test_a_failed_delivery_is_on_record(fake):
    service, client = fake
    service.refusals = [(404, {})]
    service.script = [Connection([service.message(json.dumps(request())), service.over()])]
    sink = Sink()
    run("sesn_src", {"launch-radar": "sesn_gone"}, client=client, desk=desk(sink))
    assert [each["reason"] for each in sink.records] == ["delivery_failed"]


def test_an_answer_that_cannot_be_sent_does_not_stop_the_loop(fake):
    service, client = fake
    service.refusals = [(500, {})]
    bad = service.call({"target_agent": "nobody"})
    service.script = [Connection([bad, service.message(json.dumps(request())), service.over()])]
    sink = Sink()
    run("sesn_src", {"launch-radar": "sesn_t"}, client=client, desk=desk(sink))
    assert [each["result"] for each in sink.records] == ["reject", "approve"]


def test_words_of_the_agent_in_tool_results_are_not_listened_to(fake):
    service, client = fake
    content = [{"type": "text", "text": json.dumps(request())}]
    events = [
        service.event("agent.tool_result", tool_use_id="x", content=content, is_error=False),
        service.event("user.message", content=content),
        service.event("agent.message", content=[{"type": "redacted"}]),
        service.over(),
    ]
    service.script = [Connection(events)]
    assert listen(client) == []
