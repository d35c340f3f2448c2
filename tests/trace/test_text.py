from __future__ import annotations

import json

import pytest
from lxml import etree

from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import ApprovalGiven, FreeText
from agentserver.core.records.wording import WORDING
from agentserver.trace.terminal import Style
from agentserver.trace.text import (
    REQUESTS,
    TraceReader,
    format_line,
    format_tree,
    format_tree_text,
    is_quiet,
    iter_json_lines,
    read_trace,
    render_page,
)
from tests.core.samples import SAMPLES, alter_words, handoff


def rec(event, at, thread, sender="", to="", root="", **more):
    if more.get("detail"):
        more["detail"] = FreeText(more["detail"]) if isinstance(more["detail"], str) else more["detail"]
    return AuditRecord(event, at, "c", thread, sender, to, root, **more)


CALL = [
    rec(Event.RECEIVED, 10.0, "root", "console", "agent", "Ask"),
    rec(Event.SENT, 10.0, "t1", "console", "agent", "Ask", delivery="d1", message=b"<m/>"),
    rec(Event.HANDLED, 10.5, "t1", "console", "agent", "Ask", delivery="d1", took=0.5),
    rec(Event.SENT, 10.5, "t2", "agent", "tool", "Add", delivery="d2"),
    rec(Event.HANDLED, 10.6, "t2", "agent", "tool", "Add", delivery="d2", took=0.1),
    rec(Event.SENT, 10.6, "t1", "tool", "agent", "Sum", delivery="d3"),
    rec(Event.HANDLED, 10.7, "t1", "tool", "agent", "Sum", delivery="d3", took=0.1),
    rec(Event.CLOSED, 10.7, "t2", to="tool"),
    rec(Event.ANSWERED, 10.7, "root", "agent", "console", "Answer"),
]


def test_a_call_is_nested_in_its_caller_and_its_answer_is_on_the_same_level():
    depths = [(hop.record.root, hop.depth) for hop in read_trace(CALL) if hop.record.event is Event.SENT]
    assert depths == [("Ask", 0), ("Add", 1), ("Sum", 1)]


def test_a_deep_call_has_its_depth_as_a_number_and_stays_within_the_terminal():
    records = [rec(Event.SENT, 10.0, f"t{at}", "a", "a", "Ask", delivery=f"d{at}") for at in range(301)]
    causes = [rec(Event.HANDLED, 10.0, f"t{at}", "a", "a", "Ask", delivery=f"d{at}") for at in range(301)]
    hops = list(read_trace(each for pair in zip(records, causes, strict=True) for each in pair))
    lines = {
        hop.depth: "".join(text for _, text in format_line(hop))
        for hop in hops
        if hop.record.event is Event.SENT
    }
    assert lines[20].endswith(f"s  {'  ' * 20}a -> a  Ask")
    assert lines[299].endswith(f"s  {'  ' * 20}(299) a -> a  Ask")


def test_a_reader_drops_closed_threads_and_bounds_its_requests():
    reader = TraceReader()

    def count_after(requests):
        for number in requests:
            for record in CALL:
                ids = {"request": f"r{number}", "delivery": f"{record.delivery}.{number}"}
                thread = f"t2.{number}" if record.thread == "t2" else record.thread
                reader.take(record._replace(thread=thread, **ids))
        return sum(len(held) for held in vars(reader).values() if isinstance(held, dict))

    full = count_after(range(REQUESTS))
    assert full <= REQUESTS + 2
    assert count_after(range(REQUESTS, 2 * REQUESTS)) == full


def test_the_tree_leaves_out_repetitions_of_the_next_line():
    assert format_tree_text(CALL).splitlines() == [
        "   +0.000s  console -> agent  Ask",
        "   +0.500s    agent -> tool  Add  500 ms",
        "   +0.600s    tool -> agent  Sum  100 ms",
        "   +0.700s    closed tool",
        "   +0.700s  answered agent -> console  Answer  100 ms",
    ]


def test_an_invocation_that_sends_nothing_is_shown():
    silent = [*CALL[:3], rec(Event.ENDED, 10.5, "root", to="console")]
    assert format_tree_text(silent).splitlines()[1:] == [
        "   +0.500s  handled console -> agent  Ask  500 ms",
        "   +0.500s  ended console",
    ]


def test_refusals_and_failures_show_code_and_detail_without_control_characters():
    records = [
        *CALL[:3],
        rec(
            Event.REFUSED,
            10.5,
            "t1",
            "agent",
            "\x1b[31mnobody",
            code="routing",
            detail="not a peer",
            delivery="d1",
        ),
        rec(Event.SENT, 10.5, "t1", "system", "agent", "SystemError", delivery="d4"),
        rec(
            Event.FAILED,
            10.6,
            "t1",
            "system",
            "agent",
            "SystemError",
            code="internal",
            detail="x" * 501,
            delivery="d4",
            took=0.1,
        ),
    ]
    lines = format_tree_text(records).splitlines()
    assert lines[1] == "   +0.500s  refused agent -> \\x1b[31mnobody  routing: not a peer"
    assert lines[3].endswith("  100 ms  internal: " + "x" * 490 + " ... (11 more)")


def test_a_refused_outside_message_that_named_nobody():
    assert (
        format_tree_text([rec(Event.REFUSED, 1.0, "root", "console", code="routing")])
        == "   +0.000s  refused console -> ?  routing"
    )


def test_each_outside_message_starts_the_clock_again():
    assert format_tree_text(
        [*CALL[:2], rec(Event.RECEIVED, 99.0, "root"), rec(Event.SENT, 99.2, "t1", "console", "agent")]
    ).endswith("+0.200s  console -> agent")


def test_json_lines_hold_everything():
    first, second = (json.loads(line) for line in list(iter_json_lines(CALL))[1:3])
    assert first == {
        "event": "sent", "at": 10.0, "conversation": "c", "thread": "t1", "sender": "console", "to": "agent", "root": "Ask",
        "hop": 0, "code": "", "detail": None, "delivery": "d1", "message": "<m/>", "request": "", "took": None, "began": None,
        "text": "",
        "depth": 0,
    }  # fmt: skip
    assert second["event"] == "handled"


ASKED = [
    *CALL[:3],
    rec(Event.SENT, 10.5, "t2", "agent", "till", "Pay", delivery="d2", message=b"<m/>"),
    rec(
        Event.ASKED,
        10.5,
        "t2",
        "agent",
        "till",
        "Pay",
        detail="agent wants to pay\n30 came from\n  a \x1b page",
    ),
    rec(
        Event.APPROVED,
        70.5,
        "t2",
        "agent",
        "till",
        "Pay",
        detail=ApprovalGiven("ada", "always"),
        delivery="d2",
    ),
    rec(Event.FLAGGED, 70.6, "t1", "agent", "till", detail="look\nhere"),
    rec(
        Event.WITHDRAWN,
        80.5,
        "t2",
        "agent",
        "till",
        "Pay",
        detail=ApprovalGiven("no answer in time", "deny"),
        delivery="d3",
    ),
    rec(Event.ATTEMPTED, 80.6, "t1", "agent", "till", detail="an account of a handoff"),
]


def test_a_question_its_answer_and_remarks_of_guards_have_their_own_lines():
    assert format_tree_text(ASKED).splitlines()[1:] == [
        "   +0.500s    agent -> till  Pay  500 ms",
        "   +0.500s    asked agent -> till  Pay  agent wants to pay",
        "                | 30 came from",
        "                |   a \\x1b page",
        "  +60.500s    approved agent -> till  Pay  approved by ada, always",
        "  +60.600s  flagged agent -> till  look",
        "              | here",
        "  +70.500s    withdrawn agent -> till  Pay  denied: no answer in time",
        "  +70.600s  attempted agent -> till  an account of a handoff",
    ]


def test_the_page_tells_them_too():
    shown = etree.fromstring(render_page("x", ASKED), etree.HTMLParser())
    rows = {row.get("class"): row.text for row in shown.iter("div") if row.get("class")}
    assert rows["asked"].endswith(
        "agent wants to pay\n                | 30 came from\n                |   a \\x1b page"
    )
    assert rows["approved"].endswith("approved by ada, always")
    assert rows["flagged"].endswith("look\n              | here")


def test_json_lines_keep_a_detail_whole():
    details = {
        fields["event"]: (fields["detail"], fields["text"])
        for fields in map(json.loads, iter_json_lines(ASKED))
    }
    words = "agent wants to pay\n30 came from\n  a \x1b page"
    assert details["asked"] == ({"kind": "text", "text": words}, words)
    assert details["approved"] == (
        {"kind": "answered", "by": "ada", "answer": "always"},
        "approved by ada, always",
    )


def attempted_record(account):
    return rec(Event.ATTEMPTED, 1.0, "t1", "agent", "counsel", detail=handoff(account))


@pytest.mark.parametrize(
    ("account", "told"),
    [
        ({"result": "approve", "intent": "review", "reason": None}, "approve review"),
        ({"result": "reject", "intent": "review", "reason": "word_budget"}, "reject review: word_budget"),
        (
            {"result": "reject", "intent": {"len": 9, "sha256": "0" * 64}, "reason": "unknown_intent"},
            "reject: unknown_intent",
        ),
        ({"result": "reject", "intent": None, "reason": "invalid_json"}, "reject: invalid_json"),
    ],
)
def test_a_handoff_is_described_as_text(account, told):
    assert format_tree_text([attempted_record(account)]) == f"   +0.000s  attempted agent -> counsel  {told}"


def test_a_live_view_leaves_a_rejected_handoff_to_its_refusal():
    granted = attempted_record({"result": "approve", "intent": "review"})
    assert not is_quiet(granted)
    assert is_quiet(attempted_record({"result": "reject", "reason": "schema"}))
    assert not is_quiet(rec(Event.ATTEMPTED, 1.0, "t1", "agent", "counsel", detail="an account of a handoff"))
    assert is_quiet(CALL[0])
    assert not is_quiet(CALL[1])
    assert format_line(next(read_trace([granted])))[-1] == (Style.GOOD, "approve review")


# A change of wording

DETAILED = [
    *CALL[:3],
    *(
        AuditRecord(Event.FLAGGED, 11.0, "c", "t1", "agent", "till", detail=detail, request="r", took=0.25)
        for detail in SAMPLES
    ),
]
"""A record with each kind of detail."""


def layout(lines):
    """The margin and the styles of each line."""
    return [(each[0][1] if each[0][0] is Style.DIM else "", [style for style, _ in each]) for each in lines]


def test_another_wording_changes_neither_layout_nor_data():
    other = alter_words()
    assert layout(format_tree(DETAILED)) == layout(format_tree(DETAILED, wording=other))
    rows, others = ([len(row.text.split("\n")) for row in etree.fromstring(
        render_page("x", DETAILED, wording=words), etree.HTMLParser()).iter("div") if row.get("class")] for words in (WORDING, other))  # fmt: skip
    assert rows == others
    for one, two in zip(iter_json_lines(DETAILED), iter_json_lines(DETAILED, wording=other), strict=True):
        assert {**json.loads(one), "text": ""} == {**json.loads(two), "text": ""}


def test_nothing_that_is_shown_reads_words():
    """Records of kept text with our own phrases in them stay the lines that they are."""
    words = "\n".join(WORDING.describe_lines(SAMPLES[-4]))
    lines = format_tree([rec(Event.FLAGGED, 1.0, "t1", "agent", "till", detail=words)])
    assert len(lines) == len(words.split("\n"))


def test_durations_are_numbers():
    took = [rec(Event.HANDLED, 3.0, "t1", "a", "b", took=0.25), rec(Event.SENT, 3.0, "t2", "b", "c")]
    assert [hop.took for hop in read_trace(took)] == [0.25, 0.25]
    first = json.loads(next(iter_json_lines(took)))
    assert (first["took"], first["began"]) == (0.25, 2.75)


def test_each_request_has_a_heading_and_its_own_clock():
    def one(request, at, event=Event.REFUSED, took=None):
        return rec(event, at, "root", "console", "agent", "Ask", request=request, delivery=request, took=took)

    first, second = "aaaaaaaa-1", "bbbbbbbb-2"
    records = [
        one(first, 10.0, Event.SENT),
        one(second, 12.0),
        one(first, 13.0, Event.HANDLED, took=3.0),
        one(first, 13.0, Event.ENDED),
        rec(Event.ANSWERED, 12.5, "root", "system", "console", "SystemError", request=second),
        rec(Event.CLOSED, 14.0, "root", to="agent"),
    ]
    assert format_tree_text(records).splitlines() == [
        "request aaaaaaaa at 00:00:10 UTC",
        "   +0.000s  console -> agent  Ask",
        "   +3.000s  handled console -> agent  Ask  3000 ms",
        "   +3.000s  ended console -> agent  Ask",
        "request bbbbbbbb at 00:00:12 UTC",
        "   +0.000s  refused console -> agent  Ask",
        "   +0.500s  answered system -> console  SystemError",
        "   +2.000s  closed agent",
    ]


def test_a_request_to_the_todo_service_comes_before_its_answer():
    answered = rec(Event.SENT, 10.0, "t1", "system.todo", "agent", "TodoRegistered", delivery="d")
    assert format_tree_text([answered]).splitlines() == [
        "   +0.000s  agent -> system.todo  TodoUntil",
        "   +0.000s  system.todo -> agent  TodoRegistered",
    ]
