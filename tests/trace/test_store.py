from __future__ import annotations

from agentserver.core.records.audit import AuditRecord, Event
from agentserver.trace.store import CONVERSATIONS, RECORDS, TraceBook


def record(conversation, at=0.0):
    return AuditRecord(Event.SENT, at, conversation, "t")


def test_records_are_kept_by_conversation_in_order():
    book = TraceBook()
    book.observe([record("a", 1), record("b", 2)])
    book.observe([record("a", 3)])
    assert [r.at for r in book.of("a")] == [1, 3]
    assert book.of("unknown") == ()
    assert book.conversations() == ("b", "a")


def test_what_is_remembered_is_bounded():
    book = TraceBook()
    for number in range(CONVERSATIONS + 3):
        book.observe([record(f"c{number}")])
        book.observe([record("busy")] * (RECORDS // CONVERSATIONS + 1))
    assert len(book.conversations()) == CONVERSATIONS
    assert "c0" not in book.conversations()
    assert len(book.of("busy")) == RECORDS


def test_watchers_see_records_until_they_stop():
    book, seen = TraceBook(), []
    stop = book.watch(seen.append)
    book.observe([record("a", 1)])
    stop()
    book.observe([record("a", 2)])
    assert [r.at for r in seen] == [1]


def test_a_watcher_may_stop_while_it_is_called():
    book, seen = TraceBook(), []

    def once(each):
        seen.append(each)
        stop()

    stop = book.watch(once)
    also = []
    book.watch(also.append)
    book.observe([record("a"), record("a")])
    assert (len(seen), len(also)) == (1, 2)
