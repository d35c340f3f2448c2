"""Durations of handlers in an overview."""

from __future__ import annotations

from types import SimpleNamespace

from agentserver.core.encoding.history import ConversationPage, ListedConversation, Summary
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.history.overview import TIMED_STEPS, HandlerTime, measure_handlers


class Kept:
    """Reader of recorded conversations, each with its steps and its records."""

    def __init__(self, *conversations):
        self._conversations = conversations
        self.read = 0

    def list_conversations(self, _chosen, _after, most):
        rows = [
            ListedConversation(Summary(str(at), "ada", 1.0, 2.0, None, steps, 0, 0), "open")
            for at, (steps, _) in enumerate(self._conversations)
        ]
        return ConversationPage(tuple(rows[:most]))

    def recorded_conversation(self, key):
        self.read += 1
        return SimpleNamespace(records=lambda: self._conversations[int(key)][1])


def _call(to, took):
    return AuditRecord(Event.HANDLED, 1.0, "c", "t", "desk", to, took=took)


def test_a_slow_listener_is_told_from_those_that_wait_for_it():
    sent = AuditRecord(Event.SENT, 1.0, "c", "t", "desk", "ledger")
    reader = Kept((4, [_call("desk", 0.001), sent, _call("ledger", 1.5)]), (2, [_call("ledger", 0.5)]))
    assert measure_handlers(reader, 0.0) == {
        "desk": HandlerTime(1, 0.001, 0.001),
        "ledger": HandlerTime(2, 2.0, 1.5),
    }


def test_a_bounded_number_of_steps_is_read():
    reader = Kept(*[(TIMED_STEPS // 2, [_call("desk", 1.0)])] * 5)
    assert measure_handlers(reader, 0.0)["desk"].calls == reader.read == 2
