from __future__ import annotations

import pytest

from agentserver.core.messages import Delivery, Question
from agentserver.core.records.details import Ground, GuardAsks, GuardNote, GuardQuestions
from agentserver.core.state.approvals import Approval
from agentserver.findings import FindingFacts, Findings, Trail, TrailHop
from agentserver.gateways.live import views

TRAIL = Trail("inbox", "text", 5, "XX99", "pay XX99", "base64", (TrailHop("reader", "a", 7), TrailHop("reader", "b", 7), TrailHop("clerk", "c", 9)))  # fmt: skip
BLOCKED = Findings("bank", 10, "enforce", "deny", (FindingFacts("destination", "block", "iban", "XX99", "destination", trail=TRAIL),
                                                     FindingFacts("strict", "block", "", "")))  # fmt: skip


def test_a_way_leads_from_the_source_over_each_that_passed_it_on_to_the_sink():
    (way,) = views.list_ways(BLOCKED)
    assert way["source"] == {"listener": "inbox", "field": "text", "step": 5}
    assert way["hops"] == [{"listener": "reader", "step": 7}, {"listener": "clerk", "step": 9}]
    assert way["sink"] == {"listener": "bank", "field": "iban", "step": 10}
    assert way["blocked"]
    assert (way["excerpt"], way["via"], way["rule"]) == ("XX99", "base64", "destination from untrusted text")


def test_ways_of_questions_are_those_of_the_asked_message():
    asked = GuardQuestions((GuardAsks("lineage", BLOCKED), GuardAsks("mine", GuardNote("mine", "x"))))
    assert views.list_ways(asked) == views.list_ways(BLOCKED)
    assert views.list_ways(None) == views.list_ways(GuardNote("mine", "x")) == []


@pytest.mark.parametrize(
    ("became", "decision", "blocked"), [("", "deny", True), ("", "ask", False), ("approved", "ask", False), ("deny", "ask", True)]
)  # fmt: skip
def test_a_way_is_blocked_when_the_call_was(became, decision, blocked):
    (way,) = views.list_ways(BLOCKED._replace(became=became, decision=decision))
    assert way["blocked"] is blocked


def test_always_describes_its_scope():
    asks = (
        Question("lineage", BLOCKED._replace(findings=(*BLOCKED.findings, FindingFacts("content", "report", "text", "z")))),
        Question("approval", Ground.APPROVAL.of("clerk", "bank")),
        Question("mine", GuardNote("mine", "sure?")),
    )  # fmt: skip
    delivery = Delivery("d", "c", "r", "t", "o", "clerk", "bank", "{n}Pay", b"", 2)
    covered = [text for one in asks for text in views._covers(one, Approval("a", delivery, asks, 0.0, ""))]
    assert covered == [
        '"XX99" as iban of bank',
        "this very call of bank, for: tainted run",
        "the same content to bank",
        "what the guard mine takes for the same",
    ]
