"""Successive steps: requests, calls, answers and gathered replies. ``Paper`` holds each to the lives."""

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


CHAIN = rules(
    *(listener(f"s{n}", f"s{n + 1}", f"s{n + 2}") for n in range(8)), listener("s8"), listener("s9")
)
WATCHED = rules(
    *(listener(f"s{n}", f"s{n + 1}", f"s{n + 2}") for n in range(8)), listener("s8"), guards=[CountGuard()]
)


@pytest.mark.parametrize("shop", [CHAIN, WATCHED], ids=["peers", "a guard with a memory"])
@settings(max_examples=examples(25))
@given(st.integers(0, 2**32))
def test_whatever_listeners_say_every_request_ends(shop, seed):
    random = Random(seed)

    def handler(number):
        peers = [f"s{number + 1}", f"s{number + 2}"]
        return lambda call: random.choice(
            [
                HandlerResponse.respond(Answer("back")),
                *(HandlerResponse(Ask("on"), to) for to in peers),
                [HandlerResponse(Ask("both"), to) for to in peers],
                HandlerResponse(Ask("self"), f"s{number}") if random.random() < 0.1 else None,
            ]
        )

    paper = Paper(shop, {f"s{number}": handler(number) for number in range(10)})
    for _ in range(3):
        paper.say(Ask("go"), "s0")
        paper.run()
    assert len(paper.ends) == 3
    assert not paper.conversation.requests


def test_answers_are_gathered_until_the_last_has_come():
    shop = rules(listener("a", "b"), listener("b"))
    left = []

    def gather(call):
        if isinstance(call.payload, Ask):
            left.extend(range(5))
            return [HandlerResponse(Ask("on"), "b") for _ in left]
        left.pop()
        return None if left else HandlerResponse.respond(Answer("all"))

    paper = Paper(shop, {"a": gather, "b": lambda call: HandlerResponse.respond(Answer("x"))})
    paper.say(Ask("go"), "a")
    paper.run()
    assert len(paper.calls) == 11
    assert list(paper.ends.values()) == [True]


def test_silence_ends_a_request_without_an_answer():
    shop = rules(listener("a"), listener("b"))
    paper = Paper(shop, dict.fromkeys("ab", lambda call: None))
    paper.say(Ask("one"), "a", "r1")
    paper.say(Ask("two"), "a", "r2")
    paper.run()
    assert paper.ends == {"r1": False, "r2": False}
    assert not paper.conversation.requests


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


def test_an_answer_that_leaves_ends_its_request_when_nothing_else_is_under_way():
    shop = rules(listener("a"), listener("b"))
    paper = Paper(shop, dict.fromkeys("ab", lambda call: HandlerResponse.respond(Answer("x"))))
    paper.say(Ask("one"), "a", "r1")
    paper.say(Ask("two"), "b", "r2")
    paper.run()
    assert paper.ends == {"r1": True, "r2": True}
    assert not paper.conversation.requests


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
