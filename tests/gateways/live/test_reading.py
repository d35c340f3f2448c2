from __future__ import annotations

from types import SimpleNamespace

from agentserver.core.encoding.history import DeadLetter
from agentserver.core.messages import Delivery
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import Charge
from agentserver.gateways.live import views
from agentserver.gateways.live.views import charges
from agentserver.ports.schedules import Interval, Schedule, ScheduleOrder
from agentserver.spending import Amount
from agentserver.trace.redact import EVERY, Redaction


def charge(event, delivery, what="", tokens=0, money=0, to="agent"):
    return AuditRecord(event, 0.0, "c", "t", "a", to, delivery=delivery, detail=Charge(what, tokens, money))


def test_settled_amounts_replace_reservations():
    records = [charge(Event.RESERVED, "d", "small", 100, 9), charge(Event.SETTLED, "d", "", 42, 4)]
    assert list(charges(records)) == [("agent", "small", Amount(42, 4))]


def test_unsettled_amounts_count_as_reserved():
    records = [
        charge(Event.RESERVED, "d", "small", 100, 9),
        charge(Event.RESERVED, "e", "large", 7, 1, to="other"),
        charge(Event.SETTLED, "d", "", 42, 4),
    ]
    assert list(charges(records)) == [("agent", "small", Amount(42, 4)), ("other", "large", Amount(7, 1))]


def test_work_of_one_invocation_is_settled_in_its_order():
    records = [
        charge(Event.RESERVED, "d", "small", 100),
        charge(Event.RESERVED, "d", "large", 200),
        charge(Event.SETTLED, "d", "", 1),
        charge(Event.SETTLED, "d", "", 2),
        charge(Event.SETTLED, "d", "", 3),
    ]
    assert list(charges(records)) == [
        ("agent", "small", Amount(1)),
        ("agent", "large", Amount(2)),
        ("agent", "", Amount(3)),
    ]


class Long:
    """A reader of one conversation with many records."""

    def __init__(self, records):
        self.beginning = SimpleNamespace(id="c", principal="ann")
        self.records = lambda: records
        self.steps = ()

    def recorded_conversation(self, key):
        return self

    def list_completions(self, key):
        return []


def test_only_the_rows_that_a_page_shows_are_made(monkeypatch):
    made = []
    monkeypatch.setattr(views, "describe_row", lambda one, number, lines: made.append(one))
    records = [AuditRecord(Event.SENT, 1.0, "c", "t", "a", "b", delivery=str(n)) for n in range(3000)]
    told = views.describe_conversation(Long(records), Redaction(), "c")
    assert [one.record.delivery for one in made] == [str(n) for n in range(2000, 3000)]
    assert (len(told["rows"]), told["earlier"]) == (1000, 2000)


def test_a_viewer_does_not_see_text_of_messages_in_the_reason_of_a_dead_letter():
    delivery = Delivery("d", "c", "r", "t", "o", "inbox", "clerk", "Wish", b"<a>none of it</a>", 1)
    dead = DeadLetter(delivery, "ann", "internal: ValueError: no account XX99MALLORY", 1.0, open=True)
    reader = SimpleNamespace(
        dead=lambda limit=None, prefix="": [dead][:limit], list_discarded=lambda limit: []
    )
    assert "MALLORY" in str(views.list_dead(reader, Redaction()))
    for told in (
        views.list_dead(reader, Redaction((EVERY,)))["letters"][0],
        views.show_letter(reader, Redaction((EVERY,)), "d"),
    ):
        assert told["reason"] == "internal"
        assert "MALLORY" not in str(told)


def test_schedules_are_listed_by_their_next_due_time_with_orders_of_operators():
    hourly, often = (Schedule(name, "a", b"", Interval(s)) for name, s in (("hourly", 3600), ("often", 60)))
    orders = [ScheduleOrder("often", "paused", "eve\u202e", 5.0), ScheduleOrder("often", "run", "eve", 6.0)]
    reader = SimpleNamespace(list_schedule_orders=lambda: orders)
    rows = views.list_schedules(reader, [hourly, often], 30.0)
    assert [(row["name"], row["due"], row["paused"], row["ordered"]) for row in rows] == [
        ("often", 60.0, "eve\\u202e", 1),
        ("hourly", 3600.0, "", 0),
    ]
