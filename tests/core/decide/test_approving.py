"""Messages that wait for a person: bound to the displayed text, used once, and reported to their sender."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentserver import HandlerResponse, TodoUntil
from agentserver.contract import Code, DelayedResponse
from agentserver.core.decide import answers, decisions, timers
from agentserver.core.encoding import decision_codec
from agentserver.core.encoding.snapshot import restore, take
from agentserver.core.guard import Denial, DenyVerdict, NeedsApproval, NoteVerdict, Rewrite
from agentserver.core.messages import Done, DueDelivery
from agentserver.core.records.audit import Event
from agentserver.core.records.details import ApprovalGiven, Failure, GuardNote
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer as Said
from agentserver.core.state.approvals import ApprovalAnswer, digest
from agentserver.guards.builtin import ApprovalGuard, PeersGuard
from tests.core.paper import Answer, Ask, Paper, errors, listener, rules


def respond(call):
    return HandlerResponse.respond(Answer(f"re: {call.payload.text}"))


def tell(call):
    """Pass what comes from outside on to the sink, and what comes back to whoever asked."""
    if isinstance(call.payload, Ask):
        return HandlerResponse(Ask(call.payload.text), "sink")
    text = getattr(call.payload, "text", getattr(call.payload, "code", ""))
    return HandlerResponse.respond(Answer(f"told: {text}"))


def paper(a=tell, sink=respond, guards=None, **limits):
    shop = rules(
        listener("a", "b", "sink"),
        listener("b", "sink"),
        listener("sink"),
        guards=guards or [PeersGuard(), ApprovalGuard({"sink": {}})],
        **limits,
    )
    return Paper(shop, {"a": a, "b": respond, "sink": sink})


def wait_for_approval(p, text="hi", **more):
    p = paper(**more) if p is None else p
    p.ask(text)
    return p


def test_a_message_that_needs_approval_waits_unseen_by_its_listener():
    p = wait_for_approval(None)
    (approval,) = p.conversation.approvals()
    assert (approval.delivery.sender, approval.delivery.to) == ("a", "sink")
    assert approval.digest == digest(approval.delivery)
    assert "a wants to send this to sink" in WORDING.join_lines(approval.questions[0].reason)
    assert p.seen("sink") == []
    assert p.replies == []
    assert not any(isinstance(event, Done) for event in p.events)
    assert [record.event for record in p.records][-1] is Event.ASKED
    assert (p.outcomes[-1].approvals, p.outcomes[-1].asking) == ((approval,), 1)


def test_an_approved_message_is_delivered_and_answered():
    p = wait_for_approval(None)
    outcome = p.decide(Said.ONCE)
    assert outcome.asking == -1
    p.run()
    assert p.replies == [Answer("told: re: hi")]
    approved = next(record for record in p.records if record.event is Event.APPROVED)
    assert WORDING.join_lines(approved.detail) == "approved by somebody, once"


def test_denied_its_sender_learns_so_and_nothing_else():
    p = wait_for_approval(None)
    outcome = p.decide(Said.DENY)
    assert [delivery.to for delivery in outcome.dropped] == ["sink"]
    p.run()
    assert p.seen("sink") == []
    assert errors(p.seen("a")) == ["denied"]
    assert p.replies == [Answer("told: denied")]
    assert isinstance(p.events[-1], Done)


def test_an_answer_is_spent_once():
    p = wait_for_approval(None)
    (approval,) = p.conversation.approvals()
    p.decide(Said.ONCE)
    assert p.decide(Said.ONCE, approval) is None
    assert p.decide(Said.DENY, approval) is None


def test_an_answer_to_another_message_than_the_one_shown_counts_for_nothing():
    p = wait_for_approval(None)
    wait_for_approval(p, "other")
    first, second = p.conversation.approvals()
    assert p.decide(Said.ONCE, first, digest=second.digest) is None
    assert p.decide(Said.ONCE, first, approval="another") is None
    assert len(p.conversation.approvals()) == 2


def test_a_message_that_was_changed_while_it_waited_cannot_be_approved():
    p = wait_for_approval(None)
    (approval,) = p.conversation.approvals()
    thread = p.conversation.tree.nodes[approval.delivery.thread]
    forged = approval._replace(delivery=approval.delivery._replace(message=b"<other/>"))
    nodes = {**p.conversation.tree.nodes, thread.id: thread._replace(approvals=(forged,))}
    p.conversation = p.conversation._replace(tree=p.conversation.tree._replace(nodes=nodes))
    assert p.decide(Said.ONCE, approval) is None
    assert p.decide(Said.ALWAYS, approval) is None
    assert p.decide(Said.DENY, approval) is not None, "or it would wait for ever, and its sender with it"


def test_two_equal_messages_wait_for_an_answer_each():
    p = wait_for_approval(None)
    wait_for_approval(p)
    first, second = p.conversation.approvals()
    assert first.digest != second.digest
    p.decide(Said.DENY, first)
    p.decide(Said.ONCE, second)
    p.run()
    assert sorted(answer.text for answer in p.replies) == ["told: denied", "told: re: hi"]


def test_a_permanent_approval_covers_that_message_only():
    p = wait_for_approval(None)
    p.decide(Said.ALWAYS)
    wait_for_approval(p)
    assert p.conversation.approvals() == ()
    assert len(p.seen("sink")) == 2
    wait_for_approval(p, "other")
    assert len(p.conversation.approvals()) == 1


def test_once_is_not_for_good():
    p = wait_for_approval(None)
    p.decide(Said.ONCE)
    wait_for_approval(p)
    assert len(p.conversation.approvals()) == 1


def test_the_other_messages_of_the_same_handler_do_not_wait():
    def a(call):
        if isinstance(call.payload, Ask):
            return [HandlerResponse(Ask("1"), "sink"), HandlerResponse(Ask("2"), "b")]
        return None

    p = wait_for_approval(None, a=a)
    assert [call.text for call in p.seen("b")] == ["2"]
    assert len(p.conversation.approvals()) == 1


def test_a_message_from_outside_waits_too():
    p = paper().ask("x", "sink")
    assert p.seen("sink") == []
    p.decide(Said.DENY)
    assert errors(p.replies) == ["denied"]
    assert isinstance(p.events[-1], Done)


def test_an_answer_that_waits_for_a_person_waits_at_its_caller():
    """The sink asks b, whose answer to it needs an approval like everything that reaches the sink."""

    def sink(call):
        return HandlerResponse(Ask("q"), "b") if isinstance(call.payload, Ask) else None

    shop = rules(listener("sink", "b"), listener("b"), guards=[ApprovalGuard({"sink": {}})])

    def b(call):
        return None if errors([call.payload]) else respond(call)

    p = Paper(shop, {"sink": sink, "b": b})
    p.say(Ask("x"), "sink")
    p.decide(Said.ONCE)
    p.run()
    (approval,) = p.conversation.approvals()
    assert (approval.delivery.sender, approval.delivery.to) == ("b", "sink")
    p.decide(Said.DENY)
    p.run()
    assert errors(p.seen("b")) == ["denied"]
    assert len(p.seen("sink")) == 1


class Asks:
    """Asks about everything."""

    name = "asks"

    def observe(self, memory, delivery, element, at):
        return memory

    def judge(self, memory, proposal, at):
        return NeedsApproval("may it?") if proposal.sender.name != "console" else None

    def approve(self, memory, about):
        return memory


@pytest.mark.parametrize(
    "said", [HandlerResponse.respond(Answer("x")), HandlerResponse(TodoUntil("Answer"), "system.todo")]
)
def test_a_message_without_a_place_to_wait_is_denied(said):
    p = wait_for_approval(
        None, a=lambda call: said if isinstance(call.payload, Ask) else None, guards=[Asks()]
    )
    assert errors(p.seen("a")) == ["denied"]
    assert p.conversation.approvals() == ()


def test_a_waiting_message_ends_with_its_thread():
    def a(call):
        if call.payload == Ask("hi"):
            return HandlerResponse(Ask("x"), "sink")
        return HandlerResponse.respond(Answer("never mind"))

    p = paper(a=a)
    p.say(Ask("hi"), "a")
    p.step()
    (approval,) = p.conversation.approvals()
    thread = p.conversation.tree.nodes[approval.delivery.thread].parent
    before = p.conversation
    outcome = decisions.close(p.conversation, p.rules, p.moment(), "over")
    assert outcome.asking == -1
    assert approval.delivery in outcome.dropped
    assert outcome.conversation.approvals() == ()
    assert before.tree.get(thread) is not None


def test_a_thread_with_a_waiting_message_is_not_idle():
    p = wait_for_approval(None)
    (approval,) = p.conversation.approvals()
    assert not p.conversation.tree.nodes[approval.delivery.thread].quiet
    assert p.conversation.requests


def test_a_reply_that_a_todo_holds_waits_for_the_person_too():
    """The todo's other replies are not dropped because only held ones remain: another can still come."""

    def a(call):
        if isinstance(call.payload, Ask):
            return [
                HandlerResponse(TodoUntil("Answer", count=2, hold=True), "system.todo"),
                HandlerResponse(Ask("1"), "b"),
                HandlerResponse(Ask("2"), "sink"),
            ]
        return None

    p = wait_for_approval(None, a=a)
    assert [type(payload).__name__ for payload in p.seen("a")] == ["Ask", "TodoRegistered"]
    p.decide(Said.ONCE)
    p.run()
    assert [payload.text for payload in p.seen("a")[2:]] == ["re: 1", "re: 2"]


def test_a_denial_counts_for_the_todo_that_waits_for_it():
    def a(call):
        if isinstance(call.payload, Ask):
            return [
                HandlerResponse(TodoUntil("Answer", from_listener="sink"), "system.todo"),
                HandlerResponse(Ask("2"), "sink"),
            ]
        return None

    p = wait_for_approval(None, a=a)
    p.decide(Said.DENY)
    p.run()
    assert any(watcher.raised for kept in p.conversation.todos.watchers.values() for watcher in kept)


def test_budgets_end_waiting_messages():
    def a(call):
        return [HandlerResponse(Ask("x"), "sink")] + [HandlerResponse(Ask(str(n)), "b") for n in range(20)]

    p = paper(a=a, messages=10).ask()
    assert errors(p.replies) == ["budget"]
    assert p.conversation.approvals() == ()
    assert sum(outcome.asking for outcome in p.outcomes) == 0


# Stored and replayed


@pytest.mark.parametrize("answer", list(Said))
def test_an_answer_is_recorded_and_decided_again(answer):
    p = wait_for_approval(None)
    before, (approval,) = p.conversation, p.conversation.approvals()
    outcome = p.decide(answer)
    known = {approval.delivery.id: approval.delivery}
    cause = decision_codec.load_cause(
        decision_codec.dump_cause(outcome), known, decision_codec.list_sent_messages(outcome), p.rules
    )
    again = decision_codec.decide(before, cause, p.rules, outcome.moment)
    assert (again.conversation, again.records) == (outcome.conversation, outcome.records)


def test_a_denial_in_the_place_of_an_answer_keeps_the_person_apart_from_the_reason():
    p = wait_for_approval(None)
    (approval,) = p.conversation.approvals()
    before, answered = (
        p.conversation,
        ApprovalAnswer(approval.id, approval.digest, Said.DENY, "ada", undone=True),
    )
    outcome = answers.decide(before, answered, p.rules, p.moment())
    cause = decision_codec.load_cause(
        decision_codec.dump_cause(outcome), {}, decision_codec.list_sent_messages(outcome), p.rules
    )
    assert cause == answered
    (withdrawn,) = (record for record in outcome.records if record.event is Event.WITHDRAWN)
    assert withdrawn.detail == ApprovalGiven("ada", "undone")


def test_an_answer_to_nothing_is_no_decision():
    p = wait_for_approval(None)
    with pytest.raises(LookupError):
        decision_codec.decide(p.conversation, ApprovalAnswer("x", "y", Said.ONCE, "z"), p.rules, p.moment())


# Several guards


class Says:
    def __init__(self, name, verdict):
        self.name, self.verdict = name, verdict

    def observe(self, memory, delivery, element, at):
        return memory

    def judge(self, memory, proposal, at):
        return self.verdict if proposal.to == "sink" else None

    def approve(self, memory, about):
        return ("permitted", *about)


def test_questions_of_two_guards_are_one_question_with_one_answer():
    p = wait_for_approval(
        None,
        guards=[
            Says("x", NeedsApproval("one?", ("1", "2"))),
            Says("y", NeedsApproval("two?")),
            Says("z", None),
        ],
    )
    (approval,) = p.conversation.approvals()
    assert [tuple(question) for question in approval.questions] == [
        ("x", GuardNote("x", "one?"), ("1", "2")),
        ("y", GuardNote("y", "two?"), ()),
    ]
    p.decide(Said.ALWAYS)
    assert p.conversation.memory == {
        "x": ("permitted", "1", "2"),
        "y": ("permitted",),
        "z": None,
    }


def test_a_denial_is_the_last_word():
    p = wait_for_approval(
        None, guards=[Says("x", NeedsApproval("one?")), Says("y", DenyVerdict(Code.DENIED, "no"))]
    )
    assert p.conversation.approvals() == ()
    assert errors(p.seen("a")) == ["denied"]


def test_a_guards_note_is_recorded_and_the_message_is_delivered():
    p = wait_for_approval(None, guards=[Says("x", NoteVerdict("look\nhere"))])
    assert len(p.seen("sink")) == 1
    flagged = next(record for record in p.records if record.event is Event.FLAGGED)
    assert (flagged.to, flagged.sender, WORDING.join_lines(flagged.detail)) == ("sink", "a", "look\nhere")


# Peers that are not in force


def narrow_peers(*allowed):
    """A rewriter that lets b do with fewer peers what a hands it."""

    class Narrows:
        roots = frozenset([Ask.__xml_name__])

        def rewrite(self, draft, place):
            if draft.to != "b" or place.listener.name != "a":
                return None
            return Rewrite(draft, GuardNote("r", "a handoff"), frozenset(allowed))

        def describe_refusal(self, refusal, place):
            return None

    return Narrows()


def desk(b, rewriter):
    def a(call):
        return HandlerResponse(call.payload, "b") if isinstance(call.payload, Ask) else None

    shop = rules(listener("a", "b"), listener("b", "c", "sink"), listener("c", "sink"), listener("sink"))
    return Paper(replace(shop, rewriter=rewriter), {"a": a, "b": b, "c": b, "sink": respond})


def test_a_thread_with_fewer_peers_reaches_no_other_and_neither_does_anybody_below():
    def b(call):
        if call.payload == Ask("hi"):
            return HandlerResponse(Ask("below"), "c")
        return HandlerResponse(Ask("out"), "sink") if call.payload == Ask("below") else None

    p = desk(b, narrow_peers("c"))
    p.ask()
    assert p.seen("sink") == []
    assert errors(p.seen("c")) == ["routing"]
    below = [thread.allowed for thread in p.conversation.tree.nodes.values() if thread.owner in {"b", "c"}]
    assert below == [frozenset({"c"})] * 2
    assert [WORDING.join_lines(record.detail) for record in p.records if record.event is Event.ATTEMPTED] == [
        "a handoff"
    ]


def test_a_delayed_message_of_a_thread_with_fewer_peers_is_judged_by_these_when_it_is_due():
    peers = []

    class Observer(PeersGuard):
        def judge(self, memory, proposal, at):
            peers.append(frozenset(proposal.sender.peers))
            return super().judge(memory, proposal, at)

    def b(call):
        return [DelayedResponse(Ask("later"), "c", 60.0)] if call.payload == Ask("hi") else None

    p = desk(b, narrow_peers("c"))
    p.rules = replace(p.rules, guards=(Observer(),))
    p.say(Ask("hi"), "a")
    p.run()
    (timer,) = p.conversation.timers
    peers.clear()
    p.apply(timers.wake(p.conversation, DueDelivery(timer.delivery), p.rules, p.moment()))
    assert peers == [frozenset({"c"})]
    p.run()
    assert p.seen("c") == [Ask("later")]


def test_only_the_peers_in_force_are_explained():
    p = desk(lambda call: None, narrow_peers("c"))
    p.ask("1")
    (told,) = [call.metadata.usage_instructions for name, call in p.calls if name == "b"]
    assert "## c" in told
    assert "## sink" not in told
    assert "## sink" in p.rules.blueprint.usage["b"]


def test_an_idle_thread_is_reused_only_under_the_same_peers():
    def b(call):
        return None

    p = desk(b, narrow_peers("c"))
    p.ask("1")
    p.rules = replace(p.rules, rewriter=None)
    p.ask("2")
    first, second = [thread for thread in p.conversation.tree.nodes.values() if thread.owner == "b"]
    assert (first.allowed, second.allowed) == (frozenset({"c"}), None)


def test_fewer_peers_are_kept():
    p = desk(lambda call: None, narrow_peers("c"))
    p.ask("1")
    assert restore(take(p.conversation, p.rules.guards), p.rules.guards) == p.conversation


def test_a_rewriter_that_refuses_is_on_record_too():
    class Refuses:
        roots = frozenset([Ask.__xml_name__])

        def rewrite(self, draft, place):
            return (
                Rewrite(Denial(Code.DENIED, Failure("no such intent")), GuardNote("r", "refused"))
                if draft.to == "b"
                else None
            )

        def describe_refusal(self, refusal, place):
            return None

    p = desk(lambda call: None, None)
    p.rules = replace(p.rules, rewriter=Refuses())
    p.ask("1")
    assert errors(p.seen("a")) == ["denied"]
    assert [WORDING.join_lines(record.detail) for record in p.records if record.event is Event.ATTEMPTED] == [
        "refused"
    ]


def test_questions_are_bounded_in_a_conversation():
    def flood(call):
        return [HandlerResponse(Ask("x"), "sink")] * 60 if isinstance(call.payload, Ask) else None

    p = wait_for_approval(None, a=flood)
    assert len(p.conversation.approvals()) == 60
    wait_for_approval(p)
    assert len(p.conversation.approvals()) == 60
    assert errors(p.seen("a")) == ["denied"]
    assert any("more than 100 messages" in WORDING.join_lines(record.detail) for record in p.records)


@pytest.mark.parametrize(
    ("principal", "by", "counts"),
    [("ada", "ada", False), ("ada", "ADA", False), ("ada", "аdа", False), ("ada", "", False), ("ada", "bob", True),
     ("console", "bob", False), ("principal-2", "bob", False)],
)  # fmt: skip
def test_an_approval_by_whoever_asked_for_it_does_not_count_where_others_must(principal, by, counts):
    p = paper(approvers="others")
    p = wait_for_approval(Paper(p.rules, p.handlers, principal))
    (approval,) = p.conversation.approvals()
    said = ApprovalAnswer(approval.id, approval.digest, Said.ONCE, by)
    outcome = answers.decide(p.conversation, said, p.rules, p.moment())
    assert (outcome is not None) is counts
    assert answers.decide(p.conversation, said._replace(answer=Said.DENY), p.rules, p.moment()) is not None
