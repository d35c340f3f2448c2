"""A stored conversation loads to the same state, whatever has happened in it; a replay decides the same."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver import HandlerResponse
from agentserver.contract import Code
from agentserver.core.decide import decisions
from agentserver.core.decide.requeue import requeue
from agentserver.core.encoding import codecs, decision_codec, parts
from agentserver.core.encoding.decision_codec import Origin
from agentserver.core.encoding.snapshot import Snapshot, UnreadableError, restore, take
from agentserver.core.guard import DenyVerdict
from agentserver.core.messages import (
    FinishedInvocation,
    HandlerFailure,
    OutsideMessage,
    Reply,
    RequeuedLetter,
)
from agentserver.core.records.details import Failure
from agentserver.core.state.conversation import Conversation
from tests.core.decide.test_decisions_laws import SHOP, whims
from tests.core.paper import Answer, Ask, Note, Paper, listener, rules
from tests.fuzzing import examples


def live_conversation(seed, most=200, each=lambda paper: None):
    """A conversation in which anything has happened."""
    random = Random(seed)
    paper = Paper(SHOP, whims(random))
    running = []
    for _ in range(random.randrange(most)):
        choice = random.random()
        if choice < 0.1:
            paper.say(
                random.choice([Ask("go"), Note("odd"), b"\xff\xfe"]), random.choice(["a", "b", "c", "nobody"])
            )
        elif choice < 0.6 and paper.waiting:
            started = paper.invoke(paper.waiting.pop(random.randrange(len(paper.waiting))))
            running += [started] if started else []
        elif running:
            paper.conclude(running.pop(random.randrange(len(running))))
        each(paper)
    return paper


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_a_conversation_survives_its_snapshot(seed):
    def check(paper):
        conversation = paper.conversation
        snapshot = take(conversation, SHOP.guards)
        back = restore(snapshot, SHOP.guards)
        assert back == conversation
        assert list(back.tree.nodes) == list(conversation.tree.nodes)
        assert take(back, SHOP.guards) == snapshot

    live_conversation(seed, each=check)


def replay_step(story, outcome, deliveries, known=SHOP):
    """One recorded step, read and decided again."""
    cause = decision_codec.load_cause(
        decision_codec.dump_cause(outcome), deliveries, decision_codec.list_sent_messages(outcome), known
    )
    return decision_codec.decide(story, cause, known, outcome.moment)


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_a_replay_decides_the_same(seed):
    paper = live_conversation(seed)
    paper.apply(decisions.close(paper.conversation, paper.rules, paper.moment(), "test"))
    root = paper.outcomes[0].conversation.tree.root
    story = Origin(paper.conversation.id, "console", root).conversation()
    deliveries = {d.id: d for o in paper.outcomes for d in o.added}
    for outcome in paper.outcomes:
        decided = replay_step(story, outcome, deliveries)
        for field in ("conversation", "done", "added", "dropped", "ready", "retry", "closed", "replies"):
            assert getattr(decided, field) == getattr(outcome, field), field
        assert [r._replace(detail=None) for r in decided.records] == [
            r._replace(detail=None) for r in outcome.records
        ]
        story = decided.conversation


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32))
def test_records_survive_without_repeating_messages(seed):
    paper = live_conversation(seed)
    deliveries = {d.id: d for o in paper.outcomes for d in o.added}
    beginning = Origin(paper.conversation.id, "console", paper.conversation.tree.root)
    for outcome in paper.outcomes:
        data = codecs.dump_records(outcome)
        replies = [event for event in outcome.replies if isinstance(event, Reply)]
        assert (
            codecs.load_records(data, beginning.id, outcome.moment.now, deliveries, replies)
            == outcome.records
        )
        assert all(delivery.message not in data for delivery in outcome.added)


@dataclass
class Counting:
    """A guard that remembers how much it has seen."""

    name = "counting"

    def observe(self, memory, delivery, element, at):
        return (memory or 0) + 1

    def judge(self, memory, proposal, at):
        return DenyVerdict(Code.DENIED, "enough") if (memory or 0) > 2 else None

    def dump(self, memory):
        return {"seen": str(memory).encode()}

    def load(self, parts):
        return int(parts["seen"])


def observe_run(guard):
    shop = rules(listener("a"), guards=[guard])
    paper = Paper(shop, {"a": lambda call: HandlerResponse.respond(Answer("x"))})
    paper.say(Ask("x"), "a")
    return paper.run().conversation


def test_a_guards_memory_is_stored_in_its_own_encoding():
    guard = Counting()
    conversation = observe_run(guard)
    snapshot = take(conversation, [guard])
    assert snapshot.values == {("guard counting", "seen"): b"1"}
    assert restore(snapshot, [guard]).memory == {"counting": 1}


def test_a_memory_that_cannot_be_kept_is_an_error_not_a_loss():
    with pytest.raises(TypeError, match="counting has a memory"):
        take(observe_run(Counting()), [])


def test_a_guard_that_is_gone_is_not_silently_off():
    guard = Counting()
    with pytest.raises(UnreadableError, match="guard counting, which is not there"):
        restore(take(observe_run(guard), [guard]), [])


@pytest.mark.parametrize("state", [b"", b"[]", b"[2]", b"[1, 2]", b"{}", b'[1,"a"]', b"null"])
def test_an_invalid_snapshot_is_refused(state):
    with pytest.raises(UnreadableError):
        restore(Snapshot(state, {}, {}))


def test_a_snapshot_without_a_delivery_that_waits_is_refused():
    paper = Paper(rules(listener("a")), {})
    paper.say(Ask("x"), "a")
    with pytest.raises(UnreadableError):
        restore(take(paper.conversation)._replace(deliveries={}))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'["open"]',
        b'[2,["open"]]',
        b'[1,["dance"]]',
        b'[1,["conclude","x",0,true,["failed","internal"]]]',
        b'[1,["receive",[1],"r",null]]',
    ],
)
def test_an_invalid_decision_is_refused(data):
    with pytest.raises(UnreadableError):
        decision_codec.load_cause(data, {}, [], SHOP)


def test_a_step_without_a_cause_is_no_record():
    paper = Paper(rules(listener("a")), {})
    paper.say(Ask("x"), "a")
    with pytest.raises(TypeError, match="cause"):
        decision_codec.dump_cause(paper.outcomes[0]._replace(cause=None))


def test_text_that_is_no_unicode_is_recorded_as_it_was():
    paper = Paper(rules(listener("a")), {})
    paper.say(b"\xff\xfe\x00", "a")
    (outcome,) = paper.outcomes
    cause = decision_codec.load_cause(decision_codec.dump_cause(outcome), {}, [], paper.rules)
    assert cause == OutsideMessage(b"\xff\xfe\x00", "r1", "a")
    turned = decisions.turn_away(
        Conversation.begin("console", paper.moment()),
        OutsideMessage(b"x", "r", None),
        Code.BUSY,
        paper.rules,
        paper.moment(),
    )
    assert decision_codec.load_cause(decision_codec.dump_cause(turned), {}, [], paper.rules) == turned.cause


def test_every_field_of_a_conversation_is_stored_or_derived():
    stored = {*parts.StoredParts._fields} | {
        Conversation._fields[group.place] for group in parts.VALUE_GROUPS
    }
    derived = {"tree", "timers"}  # of the stored threads
    lost = [name for name in Conversation._fields if name not in stored | derived]
    assert not lost, (
        f"a restart loses {lost} of Conversation: add a group to VALUE_GROUPS of core/encoding/parts.py"
    )


def test_markup_that_was_refused_is_recorded_and_refused_again():
    shop = rules(listener("a", "b"), listener("b", payloads=(Note,)))
    paper = Paper(shop, {"a": lambda call: HandlerResponse(Ask("x"), "b")})
    paper.say(Ask("go"), "a")
    before = paper.conversation
    outcome = paper.step()
    assert b"<Ask" in decision_codec.dump_cause(outcome)
    deliveries = {d.id: d for o in paper.outcomes for d in o.added}
    assert replay_step(before, outcome, deliveries, shop).conversation == outcome.conversation


# A dead letter


def crash_once():
    calls = []

    def a(call):
        calls.append(call.payload)
        if len(calls) == 1:
            raise RuntimeError("boom")
        return HandlerResponse.respond(Answer("at last"))

    paper = Paper(rules(listener("a")), {"a": a})
    paper.say(Ask("x"), "a", "r")
    letter = paper.waiting[0]
    return paper.run(), letter


def test_a_dead_letter_runs_again_under_its_own_id_and_its_answer_goes_where_the_first_one_went():
    paper, letter = crash_once()
    assert paper.ends == {"r": True}
    outcome = paper.apply(
        requeue(paper.conversation, RequeuedLetter(letter, "ops"), paper.rules, paper.moment())
    )
    assert [d.id for d in outcome.ready] == [letter.id]
    paper.run()
    assert paper.replies[-1] == Answer("at last")
    assert [event.request for event in paper.events] == ["r"] * 4
    assert (
        decision_codec.load_cause(decision_codec.dump_cause(outcome), {letter.id: letter}, [], paper.rules)
        == outcome.cause
    )


def test_a_delivery_for_a_listener_that_is_gone_fails():
    paper = Paper(rules(listener("a")), {})
    paper.say(Ask("x"), "a")
    paper.rules = rules(listener("b"))
    finished = paper.waiting.pop()
    paper.conclude(
        FinishedInvocation(finished, None, HandlerFailure(Code.INTERNAL, Failure("no listener is called a")))
    )
    assert [reply.code for reply in paper.replies] == ["internal"]
