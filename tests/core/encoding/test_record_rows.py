"""The kept form of records is compact and complete."""

from __future__ import annotations

import json

import pytest

from agentserver import HandlerResponse
from agentserver.core.encoding.codecs import dump_records, load_records
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.messages import Reply
from agentserver.core.records.audit import NOTED, AuditRecord, Event
from agentserver.core.records.details import Failure
from tests.core.paper import Answer, Ask, Paper, listener, rules

ATTEMPT = json.dumps({"timestamp": "t", "result": "reject", "intent": "review", "reason": "schema"})


def relay(call):
    return (
        HandlerResponse(call.payload, "b")
        if isinstance(call.payload, Ask)
        else HandlerResponse.respond(call.payload)
    )


@pytest.fixture
def paper():
    handlers = {"a": relay, "b": lambda call: HandlerResponse.respond(Answer(call.payload.text))}
    made = Paper(rules(listener("a", "b"), listener("b")), handlers)
    made.say(Ask("hi"), "a")
    return made.run()


def record_rows(paper, outcome):
    _, rows = json.loads(dump_records(outcome))
    return rows


def load_rows(paper, outcome, rows):
    deliveries = {each.id: each for one in paper.outcomes for each in one.added}
    replies = [event for event in outcome.replies if isinstance(event, Reply)]
    data = json.dumps([1, rows]).encode()
    return load_records(data, paper.conversation.id, outcome.moment.now, deliveries, replies)


def test_the_record_of_a_plain_hop_has_no_detail_and_repeats_nothing(paper):
    hop = paper.outcomes[1]
    assert [record.event for record in hop.records] == [Event.HANDLED, Event.SENT]
    assert [record.detail for record in hop.records] == [None, None]
    assert record_rows(paper, hop) == [["handled", hop.done], ["sent", hop.added[0].id]]


def test_a_record_knows_its_request(paper):
    of_request = [record for one in paper.outcomes for record in one.records if record.event not in NOTED]
    assert of_request
    assert {record.request for record in of_request} == {paper.outcomes[0].added[0].request}


def test_how_long_a_handler_took_is_kept(paper):
    hop = paper.outcomes[1]
    slow = hop._replace(records=tuple(record._replace(took=0.5) for record in hop.records))
    assert load_rows(paper, slow, record_rows(paper, slow)) == slow.records
    assert slow.records[0].began == slow.records[0].at - 0.5


def test_state_made_and_dropped_in_one_step_is_stored_whole(paper):
    gone = paper.outcomes[0].records[-1]
    assert gone.event is Event.SENT
    step = paper.outcomes[1]._replace(
        records=(gone, gone._replace(event=Event.DROPPED, message=b"")), added=()
    )
    deliveries = {}
    assert load_records(dump_records(step), gone.conversation, gone.at, deliveries, ()) == step.records


def test_a_failure_is_kept_with_its_detail(paper):
    hop = paper.outcomes[1]
    failed = hop.records[0]._replace(event=Event.FAILED, code="internal", detail=Failure("boom"), took=1.5)
    rows = record_rows(paper, hop._replace(records=(failed,)))
    assert rows == [["failed", failed.delivery, 1.5, "internal", ["failure", "boom"]]]
    assert load_rows(paper, hop, rows) == (failed,)


def test_a_record_of_a_delivery_that_is_nowhere_is_damage(paper):
    with pytest.raises(UnreadableError):
        load_records(b'[1,[["handled","x"]]]', "c", 1.0, {}, ())


def test_a_new_record_has_nothing():
    record = AuditRecord(Event.SENT, 1.0, "c", "t")
    assert (record.detail, record.request, record.took, record.began) == (None, "", None, None)
