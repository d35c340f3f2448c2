from __future__ import annotations

from types import SimpleNamespace

import pytest

from agentserver.assembly import build
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import FreeText
from agentserver.gateways.live.feed import MOST, FeedBatch
from agentserver.gateways.principals import Role
from agentserver.trace.redact import EVERY, Redaction
from tests.gateways.http.desk import person
from tests.gateways.live.hostile import organism

RULES = build(organism()).rules
HOST = SimpleNamespace(rules=RULES, queues=lambda: {"mouth": (0, 1)}, approvals=lambda: ())
SECRETS = Redaction((), lambda text: text.replace("hunter2", "[redacted]"))


def record(event=Event.SENT, sender="mouth", to="porter", **more):
    return AuditRecord(event, 1.0, "c", "t", sender, to, "Carry", **more)


@pytest.fixture
def news():
    return FeedBatch(HOST, SECRETS, person("olga", Role.OPERATOR))


def test_the_first_event_tells_the_state_and_then_only_news(news):
    first = news.take()
    assert (first["queues"], first["waiting"], first["hops"]) == ({"mouth": (0, 1)}, 0, [])
    assert news.take() is None
    news.add((record(),))
    assert [hop["to"] for hop in news.take()["hops"]] == ["porter"]
    assert news.take() is None


def test_events_too_many_to_draw_are_counted(news):
    news.add(tuple(record() for _ in range(MOST + 5)))
    news.add((record(to="till"), record(sender="x" * 999, to="y" * 999)))
    told = news.take()
    assert len(told["hops"]) == MOST
    assert sorted(told["counted"]) == [
        ["", "", "sent", 1],
        ["mouth", "porter", "sent", 5],
        ["mouth", "till", "sent", 1],
    ]
    assert news.take() is None


def test_missed_steps_are_reported(news):
    news.take()
    news.miss(3)
    assert news.take()["missed"] == 3


def test_neither_content_of_messages_nor_a_secret_is_sent(news):
    news.add(
        (record(Event.REFUSED, to="hunter2", message=b"hunter2 said", detail=FreeText("it is hunter2")),)
    )
    told = str(news.take())
    assert "hunter2" not in told
    assert "said" not in told


def test_a_viewer_gets_no_text_of_a_sender():
    news = FeedBatch(HOST, Redaction((EVERY,)), person("vera", Role.VIEWER))
    wrote = record(Event.REFUSED, to="tell eve", detail=FreeText("tell eve"))
    news.add((wrote._replace(root="TellEve"), record(Event.FAILED, code="internal")))
    refused, failed = news.take()["hops"]
    assert (refused["to"], refused["root"], refused["why"]) == ("", "", "")
    assert (failed["to"], failed["root"], failed["code"]) == ("porter", "Carry", "internal")


def test_a_name_is_shown_whole_up_to_a_bound_and_seen(news):
    news.add((record(Event.REFUSED, to="a\u202eb" + "x" * 500),))
    (hop,) = news.take()["hops"]
    assert hop["to"].startswith(r"a\u202eb")
    assert len(hop["to"]) < 150
