"""Sums of charges, and decisions of people, from the records of steps."""

from __future__ import annotations

from agentserver.core.encoding.history import (
    Charges,
    ChargeSum,
    ListedConversation,
    Summary,
    read_decided_approval,
    sum_activity,
)
from agentserver.core.encoding.search import Facet
from agentserver.core.messages import Moment
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import ApprovalGiven, Charge
from agentserver.spending import Amount


def record(event=Event.RESERVED, detail=None, to="writer"):
    return AuditRecord(event, 5.0, "c", "t", "desk", to, "Letter", detail=detail)


def moment(number):
    return Moment(float(number), bytes([number]) * 16)


def test_a_settled_reservation_counts_its_cost_and_an_open_one_its_maximum_for_each_set_of_payers():
    charges = Charges()
    for number, (to, tokens) in enumerate([("writer", 100), ("writer", 200), ("reader", 900)]):
        charges.reserve(
            "ada", (), moment(number), record(detail=Charge("m at backend", tokens, tokens), to=to)
        )
    charges.reserve("ada", (), moment(9), record(detail=None))  # no charge
    charges.settle("ada", (), moment(0).id(0), Amount(10, 10))
    charges.settle("bob", (), "unknown", Amount(1, 1))
    charges.settle("bob", ("g",), "unknown", Amount(2, 0))
    assert charges.list_sums() == (
        ChargeSum("reader", "m", "ada", 1, 900, 900),
        ChargeSum("writer", "m", "ada", 2, 210, 210),
        ChargeSum("", "", "bob", 1, 1, 1),
        ChargeSum("", "", "bob", 1, 2, 0, ("g",)),
    )
    assert charges.list_sums() == charges.list_sums()


def test_a_decision_says_who_decided_and_when_or_why_the_message_went():
    given = read_decided_approval("c", "ada", "a1", record(Event.APPROVED, ApprovalGiven("bob", "once")))
    assert (given.answer, given.by, given.at) == ("once", "bob", 5.0)
    gone = read_decided_approval("c", "ada", "a1", record(Event.WITHDRAWN))
    assert (gone.answer, gone.by) == ("", "")


def list_conversation(number, principal, opened, lasted=1.0, **facets):
    summary = Summary(f"c{number}", principal, opened, opened + lasted, None, 1, 0, 0, tokens=10, money=2)
    found = [Facet(kind, value) for kind, values in facets.items() for value in values]
    return ListedConversation(summary, "finished").with_facets(found)


def test_activity_is_summed_by_time_principal_and_listener_the_most_active_first():
    rows = [
        list_conversation(1, "ada", 0.0, 2.0, listener=["writer"], mark=["refused"]),
        list_conversation(2, "bob", 5.0, 4.0, listener=["writer", "reader"], mark=["failed"]),
        list_conversation(3, "bob", 9.0, listener=["writer"]),
        list_conversation(4, "eve", 10.0),  # after the end
    ]
    found = sum_activity(rows, 0.0, 10.0, 2)
    assert [(one.kind, one.name, one.start, one.conversations) for one in found] == [
        ("time", "", 0.0, 1),
        ("time", "", 5.0, 2),
        ("principal", "bob", 0.0, 2),
        ("principal", "ada", 0.0, 1),
        ("listener", "writer", 0.0, 3),
        ("listener", "reader", 0.0, 1),
    ]
    writer = next(one for one in found if one.name == "writer")
    assert (writer.refused, writer.failed, writer.tokens, writer.money) == (1, 1, 30, 6)
    assert (writer.seconds, writer.longest) == (7.0, 4.0)
    assert [one.name for one in sum_activity(rows, 0.0, 10.0, 1, owner="ada") if one.name] == [
        "ada",
        "writer",
    ]
