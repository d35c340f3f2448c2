"""Several messages of one result: each is decided once, in pieces."""

from __future__ import annotations

import pytest

from agentserver import HandlerResponse
from agentserver.core.decide import decisions
from agentserver.core.guard import NoteVerdict
from tests.core.paper import Answer, Ask, Paper, errors, listener, rules


def fan(many, **limits):
    """A paper on which one listener asks two others so often, and answers when all have."""
    left = []

    def gather(call):
        if isinstance(call.payload, Ask):
            left.extend(range(many))
            return [HandlerResponse(Ask("on"), "bc"[number % 2]) for number in range(many)]
        if left:
            left.pop()
        return None if left else HandlerResponse.respond(Answer("all"))

    def answer(call):
        return HandlerResponse.respond(Answer("x"))

    shop = rules(listener("a", "b", "c"), listener("b"), listener("c"), **limits)
    return Paper(shop, {"a": gather, "b": answer, "c": answer})


@pytest.mark.parametrize("many", [2, 3, 40, 90])
def test_each_message_of_a_fan_out_has_a_thread_that_the_next_one_uses_again(many):
    paper = fan(many)
    for _ in range(2):
        paper.ask("go")
    assert list(paper.ends.values()) == [True, True]
    assert len(paper.seen("b") + paper.seen("c")) == 2 * many


@pytest.mark.parametrize("limits", [{"messages": 5}, {"conversation_messages": 5}, {"hops": 1}], ids=str)
def test_a_fan_out_for_which_there_is_no_room_ends_its_request(limits):
    paper = fan(5, **limits).ask("go")
    assert errors(paper.replies) == ["budget"]


class RemarkGuard:
    """A guard that has something to say about each message, and counts how often it is asked."""

    name = "remarking"

    def __init__(self):
        self.judged = self.observed = 0

    def observe(self, memory, delivery, element, at):
        self.observed += 1
        return (memory or 0) + 1

    def judge(self, memory, proposal, at):
        self.judged += 1
        return NoteVerdict("seen")

    def approve(self, memory, about):
        return memory


@pytest.mark.parametrize("many", [1, 2, 40])
def test_a_flagged_message_is_judged_and_observed_once(many):
    guard = RemarkGuard()
    shop = rules(listener("a", "b"), listener("b"), guards=[guard])
    paper = Paper(shop, {"a": lambda call: [HandlerResponse(Ask("on"), "b")] * many, "b": lambda call: None})
    paper.say(Ask("go"), "a")
    assert (guard.judged, guard.observed) == (1, 0)
    paper.step()
    assert (guard.judged, guard.observed) == (1 + many, 1)
    paper.run()
    assert (guard.judged, guard.observed) == (1 + many, 1 + many)
    assert [record.event for record in paper.records].count("flagged") == 1 + many


@pytest.mark.parametrize(("many", "pieces"), [(0, 0), (1, 0), (2, 2), (40, 78)])
def test_there_is_a_pause_between_two_messages_and_none_for_one(many, pieces):
    paper = Paper(
        rules(listener("a", "b"), listener("b")), {"a": lambda call: [HandlerResponse(Ask("x"), "b")] * many}
    )
    paper.say(Ask("go"), "a")
    finished = paper.invoke(paper.waiting[0])
    found = decisions.conclude_in_pieces(paper.conversation, finished, paper.rules, paper.moment())
    assert sum(1 for _ in found) == pieces
