"""Successive steps of several requests. ``Paper`` holds each to the lives."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver import HandlerResponse
from tests.core.paper import Answer, Ask, Paper, errors, listener, rules
from tests.fuzzing import examples


class CountGuard:
    """A guard that remembers how much it has seen, and how often each listener was given something."""

    name = "counting"

    def observe(self, memory, delivery, element, at):
        seen = dict(memory or {})
        seen[delivery.to] = (*seen.get(delivery.to, ()), (element.tag, at))
        return seen

    def judge(self, memory, proposal, at):
        return None

    def approve(self, memory, about):
        return memory


WATCHED = rules(
    *(listener(f"s{n}", f"s{n + 1}", f"s{n + 2}") for n in range(8)), listener("s8"), guards=[CountGuard()]
)


@settings(max_examples=examples(50))
@given(st.integers(0, 2**32))
def test_whatever_listeners_gather_every_request_ends(seed):
    random = Random(seed)

    def handler(number):
        peers = [f"s{number + 1}", f"s{number + 2}"]
        return lambda call: random.choice(
            [
                None,
                None,
                HandlerResponse.respond(Answer("back")),
                [HandlerResponse(Ask("many"), to) for to in peers * random.randint(1, 3)],
            ]
        )

    paper = Paper(WATCHED, {f"s{number}": handler(number) for number in range(10)})
    for _ in range(3):
        paper.say(Ask("go"), "s0")
        paper.say(Ask("too"), "s0")
        while paper.waiting:
            paper.step(random.randrange(len(paper.waiting)))
    assert len(paper.ends) == 6


@pytest.mark.parametrize("limits", [{"hops": 0}, {"messages": 0}, {"conversation_messages": 0}], ids=str)
def test_a_request_for_which_there_is_no_room_is_refused(limits):
    paper = Paper(rules(listener("a"), **limits), {"a": lambda call: None})
    paper.say(Ask("go"), "a")
    assert paper.waiting == []
    assert errors(paper.replies) == ["budget"]


def both():
    """Two listeners of one payload."""
    shop = rules(listener("a", broadcast=True), listener("b", broadcast=True))
    return Paper(shop, dict.fromkeys("ab", lambda call: HandlerResponse.respond(Answer("x"))))


def begun_on(paper):
    """The open request of each thread, as the threads have it."""
    nodes = paper.conversation.tree.nodes.values()
    found = {}
    for node in nodes:
        if node.request:
            found.setdefault(node.request, set()).add(node.id)
    assert found == {one.id: set(one.threads) for one in paper.conversation.requests.values() if one.threads}
    return {node.owner: node.request for node in nodes if node.parent is not None}


def test_a_request_takes_over_the_thread_of_an_earlier_one():
    paper = both()
    paper.say(Ask("one"), None, "r1")
    paper.step()
    assert begun_on(paper) == {"a": "r1", "b": "r1"}
    paper.say(Ask("two"), "a", "r2")
    assert begun_on(paper) == {"a": "r2", "b": "r1"}
    paper.run()
    assert begun_on(paper) == {"a": "", "b": ""}
    assert not paper.conversation.requests


def test_a_request_on_an_idle_thread_leaves_others_alone():
    paper = both()
    paper.say(Ask("one"), "a", "r1")
    paper.run()
    paper.say(Ask("two"), "b", "r2")
    paper.say(Ask("three"), "a", "r3")
    assert begun_on(paper) == {"a": "r3", "b": "r2"}
    paper.run()
    assert begun_on(paper) == {"a": "", "b": ""}
    assert not paper.conversation.requests
