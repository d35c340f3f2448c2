"""Which call a message answers: of several to one listener, after refusals, crashes, restarts and dead letters."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver import HandlerResponse, SystemError, TodoRegistered, TodoUntil
from agentserver.contract import Answering, Code
from agentserver.core.decide.requeue import requeue
from agentserver.core.encoding import decision_codec
from agentserver.core.encoding.snapshot import restore, take
from agentserver.core.messages import NO_CALL, RequeuedLetter
from agentserver.core.state.approvals import Answer as Said
from agentserver.guards.builtin import ApprovalGuard, PeersGuard
from tests.core.paper import Answer, Ask, Note, Paper, listener, rules
from tests.fuzzing import examples

respond = HandlerResponse.respond


def to(name, text="go"):
    return HandlerResponse(Ask(text), name)


def whatever(*, count, listener="b", hold=True):
    return HandlerResponse(TodoUntil("*", listener, count=count, hold=hold), "system.todo")


def tool(call):
    """Answers with one class or the other, or crashes, as the payload asks."""
    match call.payload.text:
        case "note":
            return respond(Note("noted"))
        case "crash":
            raise RuntimeError
        case "answer":
            return respond(Answer("answered"))
    return None


def desk(a, *peers, guards=None, **handlers):
    shop = rules(listener("a", *(peers or ("b",))), *map(listener, peers or ("b",)), guards=guards)
    paper = Paper(shop, {"a": a, **dict.fromkeys(peers or ("b",), tool), **handlers})
    paper.say(Ask("hi"), "a")
    return paper


def delivered_payloads(paper, name="a"):
    """Each payload that a listener was given, with the place of the call that it answers."""
    found = [call for to, call in paper.calls if to == name]
    return [(type(call.payload).__name__, call.answering and call.answering.place) for call in found]


def fan_calls(*said):
    return lambda call: list(said) if call.payload == Ask("hi") else None


def test_three_calls_to_one_listener_two_classes_and_a_crash_are_distinguished():
    paper = desk(fan_calls(to("b", "note"), to("b", "crash"), to("b", "answer"))).run()
    assert delivered_payloads(paper) == [("Ask", None), ("Note", 0), ("SystemError", 1), ("Answer", 2)]
    key = paper.calls[0][1].key
    assert {call.answering for to, call in paper.calls if to == "a"} == {
        None,
        *(Answering(key, place) for place in range(3)),
    }


@settings(max_examples=examples(25))
@given(st.integers(0, 2**32))
def test_held_they_come_in_the_order_of_the_calls_whoever_is_done_first(seed):
    random = Random(seed)
    texts = random.choices(["note", "crash", "answer"], k=4)
    paper = desk(fan_calls(whatever(count=4), *(to("b", text) for text in texts)))
    paper.step()
    while paper.waiting:
        paper.step(random.randrange(len(paper.waiting)))
    kinds = {"note": "Note", "crash": "SystemError", "answer": "Answer"}
    assert delivered_payloads(paper)[2:] == [(kinds[text], place) for place, text in enumerate(texts, 1)]
    assert delivered_payloads(paper)[1] == ("TodoRegistered", 0)


def test_an_answer_that_waits_still_names_its_own_call_when_its_thread_is_called_again():
    """The thread that answered is idle, and is called again before its first answer is read."""

    def a(call):
        match call.payload:
            case Ask():
                return [to("b", "note"), to("c", "answer")]
            case Note() if call.metadata.from_id == "b":
                return None
        return to("b", "answer") if call.metadata.from_id == "c" else None

    paper = desk(a, "b", "c")
    paper.step()
    b, c = paper.waiting
    paper.step(paper.waiting.index(c))
    paper.step(paper.waiting.index(b))  # its answer is behind that of c, which a has not read yet
    paper.step()  # a reads the answer of c, and calls b again
    paper.run()
    notes = [call for to, call in paper.calls if to == "a"]
    first, second = notes[0].key, notes[1].key
    assert [(type(call.payload).__name__, call.answering) for call in notes[1:]] == [
        ("Answer", Answering(first, 1)),
        ("Note", Answering(first, 0)),
        ("Answer", Answering(second, 0)),
    ]


def test_replies_of_one_listener_over_several_hops_answer_the_call_that_it_works_for():
    def b(call):
        return to("c", call.payload.text) if isinstance(call.payload, Ask) else respond(Answer("from below"))

    shop = rules(listener("a", "b"), listener("b", "c"), listener("c"))
    paper = Paper(shop, {"a": fan_calls(to("b", "note"), to("b", "crash")), "b": b, "c": tool})
    paper.say(Ask("hi"), "a")
    assert delivered_payloads(paper.run()) == [("Ask", None), ("Answer", 0), ("Answer", 1)]
    assert delivered_payloads(paper, "b") == [("Ask", None), ("Ask", None), ("Note", 0), ("SystemError", 0)]


def test_a_refusal_names_the_message_and_that_nothing_was_sent():
    paper = desk(fan_calls(to("b", "note"), to("nobody"), to("b", "answer"))).run()
    key = paper.calls[0][1].key
    assert [call.answering for _, call in paper.calls] == [None, Answering(key, 1, refused=True)]


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ([to("b"), HandlerResponse(Ask("\x00"), "b")], 1),
        ([to("b"), to("b"), HandlerResponse(SystemError(Code.BUSY, "no", retry_allowed=True), "b")], 2),
        ([to("b")] + [whatever(count=1)] * 65, 65),
        (b"<Ask xmlns='urn:none'/>", 0),
    ],
    ids=["its schema", "the system's own", "more todos than a thread may have", "deprecated bytes"],
)
def test_each_refusal_has_a_place(said, place):
    paper = desk(lambda call: said if call.payload == Ask("hi") else None).run()
    assert paper.calls[-1][1].answering == Answering(paper.calls[0][1].key, place, refused=True)
    again = [decision_codec.load_cause(*record_outcome(paper, outcome)) for outcome in paper.outcomes]
    for outcome, cause in zip(paper.outcomes, again, strict=True):
        decided = decision_codec.decide(outcome.since, cause, paper.rules, outcome.moment)
        assert decided.conversation == outcome.conversation


def record_outcome(paper, outcome):
    known = {delivery.id: delivery for each in paper.outcomes for delivery in each.added}
    return decision_codec.dump_cause(outcome), known, decision_codec.list_sent_messages(outcome), paper.rules


def test_a_denial_by_a_person_answers_the_call_that_was_denied():
    paper = desk(
        fan_calls(to("b", "note"), to("b", "answer")), guards=(PeersGuard(), ApprovalGuard({"b": {}}))
    )
    paper.step()
    first, second = paper.conversation.approvals()
    paper.decide(Said.DENY, to=second)
    paper.decide(Said.ONCE, to=first)
    assert delivered_payloads(paper.run()) == [("Ask", None), ("SystemError", 1), ("Note", 0)]
    assert not paper.calls[1][1].answering.refused


def test_the_answering_listener_is_neither_the_callers_claim_nor_the_service():
    paper = desk(fan_calls(whatever(count=1, listener=None), to("b", "silent")))
    paper.run()
    paper.ask("more")
    assert delivered_payloads(paper) == [("Ask", None), ("TodoRegistered", 0), ("Ask", None)]
    assert [
        todo.delivered
        for todo in paper.conversation.todos.list_watchers(paper.calls[0][1].metadata.thread_id)
    ] == [0]


def test_another_listener_completes_no_todo_for_whatever_one_answers():
    paper = desk(fan_calls(whatever(count=1, hold=False), to("b", "silent"), to("c", "note")), "b", "c").run()
    assert not paper.calls[-1][1].todos.get_raised_for(paper.calls[-1][1].metadata.thread_id, "a")
    paper = desk(
        fan_calls(whatever(count=2, listener=None), to("b", "crash"), to("c", "note")), "b", "c"
    ).run()
    assert delivered_payloads(paper)[2:] == [("SystemError", 1), ("Note", 2)]


def test_the_nudge_of_whatever_answers_has_words():
    said = HandlerResponse(TodoUntil("*"), "system.todo")
    paper = desk(fan_calls(said, to("b", "note"))).run()
    assert "registered for: any response" in paper.calls[-1][1].metadata.todo_nudge


def test_a_dead_letter_that_is_tried_again_answers_the_call_that_it_was():
    """Its thread has been called again in the meantime."""
    broken = ["crash"]

    def b(call):
        if call.payload.text in broken:
            raise RuntimeError
        return respond(Answer(call.payload.text))

    def a(call):
        if isinstance(call.payload, SystemError):
            return to("b", "second")
        return to("b", "crash") if call.payload == Ask("hi") else None

    paper = desk(a, b=b).run()
    broken.clear()
    letter = next(d for outcome in paper.outcomes for d in outcome.added if d.to == "b")
    paper.apply(requeue(paper.conversation, RequeuedLetter(letter, "ops"), paper.rules, paper.moment()))
    paper.run()
    assert [call.answering for to, call in paper.calls if to == "a"] == [
        None,
        Answering(paper.calls[0][1].key, 0),
        Answering(paper.calls[2][1].key, 0),
        Answering(paper.calls[0][1].key, 0),
    ]


def test_calls_and_answers_are_kept():
    paper = desk(fan_calls(whatever(count=3), to("b", "note"), to("b", "answer"), to("b", "silent")))
    while paper.waiting:
        kept = restore(take(paper.conversation, paper.rules.guards), paper.rules.guards)
        assert kept == paper.conversation
        paper.step()


def test_a_call_that_an_earlier_server_kept_is_not_made_up():
    paper = desk(fan_calls(to("b", "note"), to("b", "answer")))
    paper.step()
    tree = paper.conversation.tree
    nodes = {
        key: node._replace(call=NO_CALL._replace(order=node.call.order)) for key, node in tree.nodes.items()
    }
    paper.conversation = paper.conversation._replace(tree=tree._replace(nodes=nodes))
    paper.waiting = [delivery._replace(call=NO_CALL) for delivery in paper.waiting]
    assert delivered_payloads(paper.run()) == [("Ask", None), ("Note", None), ("Answer", None)]
    assert isinstance(paper.calls[-1][1].payload, Answer | TodoRegistered)
