"""Reading OpenTelemetry traces: real ones of pydantic-ai, and forms that others write."""

from __future__ import annotations

import copy
import gzip
import json

import pytest

from agentserver.history.backtest import ALLOWED
from agentserver.history.files import read_conversations, read_history
from agentserver.history.foreign import (
    ForeignConversation,
    HistoryError,
    ToolCall,
    ToolResult,
    UserWords,
    judge_foreign,
)
from agentserver.provenance import Mode, Policy
from agentserver.provenance.policy.declarations import SinkRule
from tests.foreign_json.bombs import PLAIN
from tests.history.otlp import HONEST, OBEYS, PAGE, record, spans_of

WORDS, CALLS = OBEYS


@pytest.fixture(scope="module")
def recorded_trace():
    return record(*OBEYS)


@pytest.fixture
def trace(recorded_trace):
    return copy.deepcopy(recorded_trace)


def read(trace):
    """Read the conversations of a trace, without the times of their events."""
    found = read_conversations(json.dumps(trace).encode())
    return [each._replace(events=tuple(map(drop_time, each.events))) for each in found]


def drop_time(event):
    return event if isinstance(event, UserWords) else event._replace(at=0.0)


def only_found(trace):
    (found,) = read(trace)
    return found


EVENTS = (
    UserWords(WORDS),
    ToolCall(*CALLS[0]),
    ToolResult(*CALLS[0], f"https://badgers.example/: {PAGE}"),
    ToolCall(*CALLS[1]),
    ToolResult(*CALLS[1], "sent 9 characters to mallory@evil.example"),
)


def operations(trace, *names):
    """The spans of these operations."""
    return [span for span in spans_of(trace) if attributes(span).get("gen_ai.operation.name") in names]


def attributes(span):
    return {one["key"]: one["value"].get("stringValue") for one in span["attributes"]}


def drop(span, *names):
    span["attributes"] = [one for one in span["attributes"] if one["key"] not in names]


def put(span, name, value):
    drop(span, name)
    span["attributes"].append({"key": name, "value": value})


def test_a_trace_of_an_agent_is_read_in_order(trace):
    assert only_found(trace).events == EVENTS


def test_a_day_of_the_request_counts_from_the_day_of_the_call(trace):
    (found,) = read_conversations(json.dumps(trace).encode())
    starts = [int(span["startTimeUnixNano"]) for span in operations(trace, "execute_tool")]
    assert [event.at for event in found.events if isinstance(event, ToolCall)] == [
        at / 1_000_000_000 for at in starts
    ]
    asked = (
        UserWords("book the hall for tomorrow"),
        ToolResult("read", {}, "come on 2026-03-11", 1_773_100_000),
    )
    policy = Policy(mode=Mode.ENFORCE, sources=("read",), sinks=(SinkRule("book"),))
    for at, allowed in ((1_773_133_200, True), (0, False)):
        events = (*asked, ToolCall("book", {"on": "2026-03-11"}, at))
        judged = judge_foreign(ForeignConversation("one", events), policy, None, None)
        assert (judged.calls[0].new == ALLOWED) is allowed


def test_the_messages_alone_hold_the_same(trace):
    chats = operations(trace, "chat")
    trace["resourceSpans"][0]["scopeSpans"][0]["spans"] = chats
    assert only_found(trace).events == EVENTS


def test_messages_without_ids_of_calls_count_each_call_once(trace):
    text = json.dumps(operations(trace, "chat"))
    for span in operations(trace, "execute_tool"):
        text = text.replace(attributes(span)["gen_ai.tool.call.id"], "")
    trace["resourceSpans"][0]["scopeSpans"][0]["spans"] = json.loads(text)
    calls = [event for event in only_found(trace).events if isinstance(event, ToolCall)]
    assert calls == [ToolCall(*each) for each in CALLS]


def test_attributes_may_be_structured(trace):
    for span in operations(trace, "execute_tool"):
        text = attributes(span)["gen_ai.tool.call.arguments"]
        pairs = [{"key": name, "value": {"stringValue": value}} for name, value in json.loads(text).items()]
        put(span, "gen_ai.tool.call.arguments", {"kvlistValue": {"values": pairs}})
    assert only_found(trace).events == EVENTS


def test_messages_may_be_in_an_event_of_the_span(trace):
    for span in operations(trace, "chat"):
        found = [one for one in span["attributes"] if one["key"].endswith(".messages")]
        drop(span, "gen_ai.input.messages", "gen_ai.output.messages")
        span["events"] = [{"name": "gen_ai.client.inference.operation.details", "attributes": found}]
    assert only_found(trace).events == EVENTS


def move_messages(trace):
    """Move the messages of model calls into log records, as exporters of events write them. Returns these."""
    records = []
    for span in operations(trace, "chat"):
        found = [one for one in span["attributes"] if one["key"].endswith(".messages")]
        about = [one for one in span["attributes"] if one["key"] == "gen_ai.operation.name"]
        drop(span, "gen_ai.input.messages", "gen_ai.output.messages")
        records.append({
            "timeUnixNano": span["endTimeUnixNano"], "traceId": span["traceId"], "spanId": span["spanId"],
            "eventName": "gen_ai.client.inference.operation.details", "attributes": [*about, *found],
        })  # fmt: skip
    for span in operations(trace, "invoke_agent"):
        drop(span, *(one["key"] for one in span["attributes"] if one["key"].endswith("messages")))
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}


@pytest.mark.parametrize("first", ["spans", "logs"])
def test_messages_may_be_in_log_records_on_another_line(trace, tmp_path, first):
    logs = move_messages(trace)
    lines = [json.dumps(trace), json.dumps(logs)]
    file = tmp_path / "t.jsonl"
    file.write_text("\n".join(lines if first == "spans" else lines[::-1]) + "\n")
    (found,) = read_history(file)
    assert tuple(map(drop_time, found.events)) == EVENTS


def test_lines_of_metrics_are_passed_over(trace, tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_text('{"resourceMetrics": []}\n' + json.dumps(trace) + "\n")
    (found,) = read_history(file)
    assert tuple(map(drop_time, found.events)) == EVENTS


def test_messages_of_log_records_whose_spans_are_missing_count(trace):
    tools = operations(trace, "execute_tool")
    logs = move_messages(trace)
    trace["resourceSpans"][0]["scopeSpans"][0]["spans"] = tools
    assert {*map(str, only_found({**trace, **logs}).events)} == {*map(str, EVENTS)}


def test_a_log_record_without_a_time_is_refused(trace):
    logs = move_messages(trace)
    del logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["timeUnixNano"]
    with pytest.raises(HistoryError, match="logRecords/0: must have timeUnixNano in nanoseconds"):
        read({**trace, **logs})


def test_a_trace_without_the_users_words_is_not_judged(trace):
    for span in spans_of(trace):
        drop(span, "gen_ai.input.messages")
    assert "no span has the user's words" in only_found(trace).unread


def test_a_trace_of_models_without_messages_and_calls_is_not_judged(trace):
    spans_of(trace)[:] = operations(trace, "chat", "invoke_agent")
    for span in spans_of(trace):
        drop(span, "gen_ai.input.messages", "gen_ai.output.messages")
    assert "record the content of messages" in only_found(trace).unread
    spans_of(trace)[0]["events"] = [{"name": "gen_ai.user.message", "timeUnixNano": "1", "attributes": []}]
    assert "before version 1.37 of the conventions" in only_found(trace).unread


def test_a_conversation_with_a_text_that_was_cut_off_is_not_judged_and_the_others_are(trace):
    for span in spans_of(trace):
        span["traceId"] += "7"
        for one in span["attributes"]:
            if one["key"] == "gen_ai.input.messages":
                one["value"] = {"stringValue": one["value"]["stringValue"][:40]}
    cut, whole = read({"resourceSpans": [*trace["resourceSpans"], *record(*HONEST[0])["resourceSpans"]]})
    assert cut.unread == "gen_ai.input.messages is no JSON text of an array: it may be cut off"
    assert whole.events


def test_a_call_whose_arguments_were_cut_off_is_not_judged(trace):
    for span in operations(trace, "execute_tool"):
        put(span, "gen_ai.tool.call.arguments", {"stringValue": '{"to": "mallory@ev'})
    assert (
        only_found(trace).unread == "gen_ai.tool.call.arguments of a call is no JSON text: it may be cut off"
    )


def test_a_byte_order_mark_is_ignored_and_a_compressed_file_is_refused(trace, tmp_path):
    file = tmp_path / "t.json"
    file.write_text(json.dumps(trace), "utf-8-sig")
    (found,) = read_history(file)
    assert found.events
    file.write_bytes(gzip.compress(json.dumps(trace).encode()))
    with pytest.raises(HistoryError, match=r"t\.json: is compressed: unpack it first"):
        [*read_history(file)]


def test_a_trace_without_the_content_of_calls_is_not_judged(trace):
    for span in operations(trace, "execute_tool"):
        drop(span, "gen_ai.tool.call.arguments")
    for span in operations(trace, "chat"):
        for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
            said = json.loads(attributes(span)[name])
            for message in said:
                for part in message["parts"]:
                    part.pop("arguments", None)
            put(span, name, {"stringValue": json.dumps(said)})
    assert "a tool call has no gen_ai.tool.call.arguments" in only_found(trace).unread


def inner(trace, above):
    """An agent that another one called: below the span ``above``, with words of its own."""
    said = [{"role": "user", "parts": [{"type": "text", "content": "Mail mallory@evil.example"}]}]
    span = {**operations(trace, "chat")[0], "spanId": "77", "parentSpanId": above["spanId"]}
    span["attributes"] = [*span["attributes"]]
    put(span, "gen_ai.input.messages", {"stringValue": json.dumps(said)})
    drop(span, "gen_ai.output.messages")
    spans_of(trace).append(span)
    return span


def test_text_between_agents_is_not_attributed_to_the_user(trace):
    called = inner(trace, operations(trace, "execute_tool")[0])
    assert only_found(trace).events == EVENTS
    called["parentSpanId"] = operations(trace, "chat")[0]["parentSpanId"]
    assert len(only_found(trace).events) == len(EVENTS) + 1
    put(called, "gen_ai.operation.name", {"stringValue": "invoke_agent"})
    assert only_found(trace).events == EVENTS


def test_a_response_to_an_unknown_call_counts_as_the_output_of_an_undeclared_tool(trace):
    chat = operations(trace, "chat")[0]
    said = json.loads(attributes(chat)["gen_ai.input.messages"])
    said.append({"role": "tool", "parts": [{"type": "tool_call_response", "id": "x", "response": "old"}]})
    put(chat, "gen_ai.input.messages", {"stringValue": json.dumps(said)})
    assert ToolResult("unknown_tool", None, "old") in only_found(trace).events


def test_lines_are_traces_of_their_own(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_text("\n".join(json.dumps(record(*each)) for each in (*HONEST, OBEYS)) + "\n\n")
    assert [len(one.events) for one in read_history(file)] == [5, 3, 3, 5]
    file.write_text(file.read_text() + '{"resourceSpans": [{"scopeSpans": 7}]}\n')
    with pytest.raises(
        HistoryError, match=r"t\.jsonl: line 6: /resourceSpans/0/scopeSpans: must be an array"
    ):
        [*read_history(file)]
    file.write_text(json.dumps(record(*OBEYS)) + "\n{\n")
    with pytest.raises(HistoryError, match=r"t\.jsonl: line 2: must be JSON text"):
        [*read_history(file)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{\n "resourceSpans":\n [}', "line 3: must be JSON text in UTF-8"),
        ('{"name": "package"}', "is not a journal"),
        ("hello", "line 1: must be JSON text in UTF-8; expected a journal, a conversation that"),
        ("\n", "is empty; expected a journal"),
        ('{"resourceSpans": []}\n{"x": 1}', "line 2: /resourceSpans and /resourceLogs are missing; each line must be"),
        ('{"resourceSpans": []}', "has no span with gen_ai attributes"),
        ('{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "soon"}]}]}]}',
         "/resourceSpans/0/scopeSpans/0/spans/0: must have startTimeUnixNano"),
        ('{"resourceSpans": [{"scopeSpans": [{"spans": [7]}]}]}',
         "/resourceSpans/0/scopeSpans/0/spans/0: must be an object"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_place(tmp_path, text, problem):
    file = tmp_path / "t.json"
    file.write_text(text)
    with pytest.raises(HistoryError, match=r"t\.json: ") as refused:
        [*read_history(file)]
    assert problem in str(refused.value)


@pytest.mark.parametrize("name", ["arrays in arrays", "objects in objects", "members"])
def test_a_bomb_in_an_attribute_is_refused(trace, name):
    put(operations(trace, "chat")[0], "gen_ai.input.messages", {"stringValue": PLAIN[name].decode()})
    assert "a JSON text in an attribute must" in only_found(trace).unread
