"""Durations of handlers in an overview."""

from __future__ import annotations

from types import SimpleNamespace

from agentserver.core.encoding.history import ConversationPage, ListedConversation, Summary
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.history.overview import TIMED_STEPS, HandlerTime, describe_servers, measure_handlers
from agentserver.ports.servers import ServerReport, ServerState, WorkerState


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


def test_waiting_for_a_slow_listener_is_no_time_of_the_caller():
    sent = AuditRecord(Event.SENT, 1.0, "c", "t", "desk", "ledger")
    reader = Kept((4, [_call("desk", 0.001), sent, _call("ledger", 1.5)]), (2, [_call("ledger", 0.5)]))
    assert measure_handlers(reader, 0.0) == {
        "desk": HandlerTime(1, 0.001, 0.001),
        "ledger": HandlerTime(2, 2.0, 1.5),
    }


def test_a_bounded_number_of_steps_is_read():
    reader = Kept(*[(TIMED_STEPS // 2, [_call("desk", 1.0)])] * 5)
    assert measure_handlers(reader, 0.0)["desk"].calls == reader.read == 2


def _server(silent, *, ended=False, workers=()):
    return ServerState(1, "desk-1", 100.0, 900.0, silent, 9.0, ended, ServerReport(3, 1, 2, workers))


def test_a_server_is_late_once_it_missed_two_heartbeats():
    servers = [_server(5.9), _server(6.1), _server(0.0, ended=True), _server(99.0)._replace(lease=0.0)]
    assert [each["state"] for each in describe_servers(servers)] == ["alive", "late", "ended", "alive"]


def test_a_silent_worker_is_late_and_one_of_an_ended_server_has_ended():
    workers = tuple(
        WorkerState("bank", name, 100.0, seen, 7.5, 0) for name, seen in (("a", 899.0), ("b", 890.0))
    )
    states = [
        [worker["state"] for worker in each["workers"]]
        for each in describe_servers(
            [_server(0.0, workers=workers), _server(0.0, ended=True, workers=workers)]
        )
    ]
    assert states == [["alive", "late"], ["ended", "ended"]]
