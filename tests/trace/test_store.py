from __future__ import annotations

from agentserver.core.records.audit import AuditRecord, Event
from agentserver.trace import store
from agentserver.trace.store import CONVERSATIONS, RECORDS, TraceBook


def record(conversation, at=0.0, message=b""):
    return AuditRecord(Event.SENT, at, conversation, "t", message=message)


def test_records_are_kept_by_conversation_in_order():
    book = TraceBook()
    book((record("a", 1),))
    book((record("b", 2),))
    book(())
    book((record("a", 3), record("a", 4)))
    assert [r.at for r in book.list_records("a")] == [1, 3, 4]
    assert book.list_records("unknown") == ()
    assert book.conversations() == ("b", "a")


def test_memory_of_traces_is_bounded():
    book = TraceBook()
    for number in range(CONVERSATIONS + 3):
        book((record(f"c{number}"),))
        book((record("busy"),) * (RECORDS // CONVERSATIONS + 1))
    assert len(book.conversations()) == CONVERSATIONS
    assert "c0" not in book.conversations()
    assert len(book.list_records("busy")) == RECORDS


def test_memory_of_long_messages_in_traces_is_bounded(monkeypatch):
    monkeypatch.setattr(store, "BYTES", 1000)
    book = TraceBook()
    book((record("a", 1, b"x" * 300), record("a", 2, b"x" * 300)))
    book((record("b", 3, b"x" * 600),))
    assert [r.at for r in book.list_records("a")] == [2]
    for at in range(10):
        book((record("b", at, b"x" * 400),))
    assert book.conversations() == ("b",)
    assert [r.at for r in book.list_records("b")] == [8, 9]
    book((record("c", 0, b"x" * 2000),))
    assert book.conversations() == ()
    book((record("b", 11),))
    assert [r.at for r in book.list_records("b")] == [11]
