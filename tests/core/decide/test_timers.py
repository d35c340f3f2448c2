"""Delayed messages wait for their time, are judged again then, and are dropped with their request."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agentserver import HandlerResponse, TodoComplete, TodoRegistered, TodoUntil
from agentserver.contract import (
    CancelTimer,
    Code,
    DelayedResponse,
    Invocation,
    SetTimer,
    TimerFired,
    TodoOverdue,
)
from agentserver.core.decide import timers
from agentserver.core.encoding import decision_codec
from agentserver.core.encoding.snapshot import restore, take
from agentserver.core.guard import DenyVerdict
from agentserver.core.messages import Done, DueDelivery
from agentserver.core.records.audit import Event
from agentserver.core.records.details import Ground
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer as Said
from agentserver.core.state.threads import TIMERS
from agentserver.guards.builtin import ApprovalGuard, PeersGuard
from tests.core.paper import Answer, Ask, Note, Paper, errors, listener, rules

DAY = 86_400.0


class Switch:
    """A guard whose policy changes while a message waits."""

    name = "switch"

    def __init__(self):
        self.denies = False

    def observe(self, memory, delivery, element, at):
        return memory

    def judge(self, memory, proposal, at):
        return DenyVerdict(Code.DENIED, Ground.BUSY.of(1, "a")) if self.denies else None

    def approve(self, memory, about):
        return memory


def respond(call):
    return HandlerResponse.respond(Answer(f"re: {call.payload.text}"))


def delay_input(call):
    """Send what comes from outside to the sink a day later; pass on what comes back."""
    if isinstance(call.payload, Ask):
        return [DelayedResponse(Ask(call.payload.text), "sink", DAY)]
    text = getattr(call.payload, "text", getattr(call.payload, "code", ""))
    return HandlerResponse.respond(Answer(f"told: {text}"))


def paper(a=delay_input, guards=None, payloads=(Answer, Note), **limits):
    shop = rules(
        listener("a", "b", "sink"),
        listener("b", "sink"),
        listener("sink"),
        guards=guards or [PeersGuard()],
        payloads=payloads,
        **limits,
    )
    p = Paper(shop, {"a": a, "b": respond, "sink": respond})
    p.say(Ask("hi"), "a")
    return p.run()


def wake(p, timer=None):
    """Let the time of the first delayed message come; None when none of that id waits."""
    timer = timer or p.conversation.timers[0]
    outcome = timers.wake(p.conversation, DueDelivery(timer.delivery), p.rules, p.moment())
    return None if outcome is None else p.apply(outcome)


def test_a_delayed_message_waits_and_is_delivered_once():
    p = paper()
    (timer,) = p.conversation.timers
    assert timer.due_at == pytest.approx(p.conversation.touched + DAY)
    assert p.conversation.sleeps_until == timer.due_at
    assert not p.seen("sink")
    assert not p.ends, "its request is open"
    wake(p)
    p.run()
    assert p.seen("sink") == [Ask("hi")]
    assert p.replies == [Answer("told: re: hi")]
    assert list(p.ends.values()) == [True]
    assert wake(p, timer) is None, "it no longer waits"


def test_each_step_of_a_delayed_message_can_be_replayed():
    p = paper()
    wake(p)
    p.run()
    deliveries = {d.id: d for outcome in p.outcomes for d in outcome.added}
    now = p.outcomes[0].since
    for outcome in p.outcomes:
        data = decision_codec.dump_cause(outcome)
        sent = decision_codec.list_sent_messages(outcome)
        cause = decision_codec.load_cause(data, deliveries, sent, p.rules)
        again = decision_codec.decide(now, cause, p.rules, outcome.moment)
        assert again.conversation == outcome.conversation
        now = again.conversation


def test_the_trace_says_until_when_a_message_waits():
    p = paper()
    (record,) = [record for record in p.records if record.event is Event.DELAYED]
    assert WORDING.first(record.detail) == "it waits until 1970-01-02 00:16:43 UTC"


def test_a_refusal_at_its_time_comes_to_the_sender():
    guard = Switch()
    p = paper(guards=[PeersGuard(), guard])
    guard.denies = True
    outcome = wake(p)
    guard.denies = False
    p.run()
    assert not p.seen("sink")
    assert [d.root for d in outcome.dropped] == [d.root for o in p.outcomes for d in o.dropped]
    assert [one.delivery for one in p.records if one.event is Event.REFUSED] == [outcome.dropped[0].id]
    assert errors(p.seen("a")) == [Code.DENIED]
    assert p.replies == [Answer("told: denied")]


def test_a_question_is_asked_when_the_time_has_come():
    p = paper(guards=[PeersGuard(), ApprovalGuard({"sink": {}})])
    assert not p.conversation.approvals(), "a person is not asked about what may never be sent"
    outcome = wake(p)
    assert (outcome.asking, outcome.delaying) == (1, -1)
    p.decide(Said.ONCE)
    p.run()
    assert p.replies == [Answer("told: re: hi")]


def test_an_answer_drops_the_delayed_messages_of_its_thread():
    def a(call):
        if isinstance(call.payload, Ask):
            return [DelayedResponse(Ask("late"), "sink", DAY), HandlerResponse(Ask("now"), "b")]
        return HandlerResponse.respond(Answer("done"))

    p = paper(a)
    assert not p.conversation.timers
    assert p.replies == [Answer("done")]
    assert list(p.ends.values()) == [True]


def test_a_message_delayed_with_an_answer_outlives_it():
    p = paper(
        lambda call: [DelayedResponse(Ask("late"), "sink", DAY), HandlerResponse.respond(Answer("done"))]
    )
    assert p.replies == [Answer("done")]
    assert not p.ends
    wake(p)
    p.waiting.pop()
    assert p.conversation.timers == ()


def set_timer(then):
    def a(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(SetTimer(5.0), "system.timer")
        return then(call)

    return a


def test_a_timer_comes_back_to_its_thread_with_the_call_that_set_it():
    p = paper(set_timer(lambda call: HandlerResponse.respond(Answer("woken"))))
    ((_, first),) = p.calls
    wake(p)
    p.run()
    (_, call) = p.calls[-1]
    assert call.payload == TimerFired(5.0)
    assert call.metadata.from_id == "system.timer"
    assert (call.answering.key, call.answering.place) == (first.key, 0)
    assert p.replies == [Answer("woken")]


def test_a_cancelled_timer_never_fires():
    def a(call):
        if isinstance(call.payload, Ask):
            return [HandlerResponse(SetTimer(5.0), "system.timer"), HandlerResponse(Ask("x"), "b")]
        return HandlerResponse(CancelTimer(p_key[0]), "system.timer")

    p_key = []

    def first(call):
        p_key.append(call.key) if isinstance(call.payload, Ask) else None
        return a(call)

    p = paper(first)
    assert not p.conversation.timers
    assert [type(event) for event in p.events] == [Done]


def test_a_thread_that_waits_for_its_time_is_not_called_again():
    p = paper(set_timer(lambda call: None)).ask("again")
    assert len(p.conversation.timers) == 2
    assert len({timer.thread for timer in p.conversation.timers}) == 2


def await_with_reminder(then, **more):
    """Wait for the answer of b, with a reminder after a minute."""

    def a(call):
        if isinstance(call.payload, Ask):
            until = TodoUntil(Answer, "b", remind_after=timedelta(minutes=1), **more)
            return [HandlerResponse(until, "system.todo"), DelayedResponse(Ask("x"), "b", DAY)]
        return then(call)

    return a


def test_a_todo_that_is_incomplete_after_its_time_is_reminded_of_once():
    p = paper(await_with_reminder(lambda call: None))
    early, late = p.conversation.timers
    assert late.due_at - early.due_at == pytest.approx(DAY - 60)
    stored = take(p.conversation, p.rules.guards)
    assert restore(stored, p.rules.guards) == p.conversation
    wake(p, early)
    p.run()
    (registered,) = [each for each in p.seen("a") if isinstance(each, TodoRegistered)]
    assert p.seen("a")[-1] == TodoOverdue(registered.watcher_id)
    assert p.conversation.timers == (late._replace(place=0),)
    assert p.conversation.todos.watchers, "the todo stays open"
    wake(p, late)
    p.run()
    assert p.seen("a")[-1] == Answer("re: x")
    assert not p.conversation.timers


def test_a_complete_todo_is_not_reminded_of():
    p = paper(await_with_reminder(lambda call: None))
    wake(p, p.conversation.timers[1])
    p.run()
    assert p.seen("a")[-1] == Answer("re: x")
    assert not p.conversation.timers
    assert not any(isinstance(each, TodoOverdue) for each in p.seen("a"))


def test_a_closed_todo_is_not_reminded_of():
    def close(call):
        asked = isinstance(call.payload, TodoRegistered)
        return HandlerResponse(TodoComplete(call.payload.watcher_id), "system.todo") if asked else None

    p = paper(await_with_reminder(close))
    assert [p.conversation.tree.nodes[one.thread].owner for one in p.conversation.timers] == ["b"]


def test_the_answer_of_a_thread_drops_its_reminders():
    def answer(call):
        return HandlerResponse.respond(Answer("done")) if isinstance(call.payload, TodoRegistered) else None

    p = paper(await_with_reminder(answer))
    assert p.replies == [Answer("done")]
    assert not p.conversation.timers


def test_a_conversation_sleeps_only_while_nothing_else_waits():
    p = paper()
    assert p.conversation.sleeps_until is not None
    p.say(Ask("again"), "sink")
    assert p.conversation.sleeps_until is None
    p.run()
    assert p.conversation.sleeps_until is not None


@pytest.mark.parametrize(
    "late",
    [
        DelayedResponse.respond(Answer("x")),
        DelayedResponse(SetTimer(1.0), "system.timer", 1.0),
        DelayedResponse(Ask("x"), "nobody", DAY),
    ],
)
def test_an_impossible_delay_is_refused_at_once(late):
    late = DelayedResponse(late.payload, late.to, DAY)
    p = paper(lambda call: late if isinstance(call.payload, Ask) else None)
    assert len(errors(p.seen("a"))) == 1
    assert not p.conversation.timers


def test_a_conversation_keeps_a_bounded_number_of_timers():
    many = [HandlerResponse(SetTimer(5.0), "system.timer")] * (TIMERS + 1)
    p = paper(lambda call: many if isinstance(call.payload, Ask) else None, messages=10_000)
    assert errors(p.seen("a")) == [Code.VALIDATION]


def test_timers_are_listed_in_the_order_of_their_times():
    late = [HandlerResponse(SetTimer(float(s)), "system.timer") for s in (3, 1, 2, 1)]
    p = paper(lambda call: late if isinstance(call.payload, Ask) else None)
    due = [timer.due_at for timer in p.conversation.timers]
    assert due == sorted(due)
    p.handlers["a"] = lambda call: None
    while p.conversation.timers:
        wake(p)
    p.run()
    assert [one.seconds for one in p.seen("a")[1:]] == [1.0, 1.0, 2.0, 3.0]


def test_later_validates_its_arguments():
    delayed = []
    now = Invocation(None, None, None, None, (), "key", 0, delay=delayed.append)
    with pytest.raises(TypeError, match="only a HandlerResponse"):
        now.later(Ask("x"), after=timedelta(1))
    with pytest.raises(ValueError, match="0 seconds to ten years"):
        now.later(HandlerResponse(Ask("x"), "b"), after=timedelta(-1))
    now.later(HandlerResponse(Ask("x"), "b"), after=timedelta(1))
    assert delayed == [DelayedResponse(Ask("x"), "b", DAY)]
