"""Several messages to peers, decided directly. ``Paper`` decides every step both ways."""

from __future__ import annotations

import pytest

from agentserver import HandlerResponse
from tests.core.paper import Answer, Ask, Paper, listener, rules


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
def test_a_fan_out_is_decided_directly(many):
    paper = fan(many)
    for spread in (1, 2):
        paper.say(Ask("go"), "a")
        paper.run()
        assert paper.spread == spread
    assert list(paper.ends.values()) == [True, True]


@pytest.mark.parametrize("limits", [{"messages": 5}, {"conversation_messages": 5}, {"hops": 1}], ids=str)
def test_a_fan_out_for_which_there_is_no_room_is_not(limits):
    paper = fan(5, **limits)
    paper.say(Ask("go"), "a")
    paper.run()
    assert paper.spread == 0


def test_a_fan_out_of_which_a_message_is_denied_is_not():
    def ask(call):
        return [HandlerResponse(Ask("x"), to) for to in "bc"] if isinstance(call.payload, Ask) else None

    paper = Paper(rules(listener("a", "b"), listener("b"), listener("c")), {"a": ask})
    paper.say(Ask("go"), "a")
    paper.run()
    assert paper.spread == 0
