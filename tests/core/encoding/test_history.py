"""Sums of charges, and decisions of people, from the records of steps."""

from __future__ import annotations

from agentserver.core.encoding.history import Charges, ChargeSum, read_decided_approval
from agentserver.core.messages import Moment
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import ApprovalGiven, Charge
from agentserver.spending import Amount


def record(event=Event.RESERVED, detail=None, to="writer"):
    return AuditRecord(event, 5.0, "c", "t", "desk", to, "Letter", detail=detail)


def moment(number):
    return Moment(float(number), bytes([number]) * 16)


def test_a_settled_reservation_counts_its_cost_and_an_open_one_what_it_may_cost():
    charges = Charges()
    for number, (to, tokens) in enumerate([("writer", 100), ("writer", 200), ("reader", 900)]):
        charges.reserve("ada", moment(number), record(detail=Charge("m at backend", tokens, tokens), to=to))
    charges.reserve("ada", moment(9), record(detail=None))  # no charge
    charges.settle("ada", moment(0).id(0), Amount(10, 10))
    charges.settle("bob", "unknown", Amount(1, 1))
    assert charges.sums() == (
        ChargeSum("reader", "m", "ada", 1, 900, 900),
        ChargeSum("writer", "m", "ada", 2, 210, 210),
        ChargeSum("", "", "bob", 1, 1, 1),
    )
    assert charges.sums() == charges.sums()


def test_a_decision_says_who_decided_and_when_or_why_the_message_went():
    given = read_decided_approval("c", "ada", "a1", record(Event.APPROVED, ApprovalGiven("bob", "once")))
    assert (given.answer, given.by, given.at) == ("once", "bob", 5.0)
    gone = read_decided_approval("c", "ada", "a1", record(Event.WITHDRAWN))
    assert (gone.answer, gone.by) == ("", "")
