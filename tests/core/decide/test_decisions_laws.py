"""Laws that hold whatever handlers do and in whatever order the pump comes to it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver import HandlerResponse, SystemError, TodoComplete, TodoUntil
from agentserver.contract import Code
from agentserver.core.decide import decisions
from agentserver.core.encoding.snapshot import restore, take
from agentserver.core.messages import Cancellation, Done, OutsideMessage
from agentserver.core.state.approvals import Answer as Answered
from agentserver.guards.builtin import ApprovalGuard
from tests.core.paper import Answer, Ask, Note, Paper, listener, rules
from tests.fuzzing import examples

SHOP = rules(
    listener("a", "b", "c.d", "c", "e", agent=True),
    listener("b", "c.d", "a", "e"),
    listener("c.d", "c", retries=1),
    listener("c", payloads=(Ask, Note), broadcast=True),
    listener("e", "c", payloads=(Note,), broadcast=True),
    messages=40,
    conversation_messages=60,
    hops=25,
    refusals=2,
)

ASKING = replace(SHOP, guards=(*SHOP.guards, ApprovalGuard({"c.d": {}, "e": {}})))
"""The same, but a person has to approve what two of them are sent."""


def whims(random):
    """Handlers that do anything the contract allows, and sometimes break it."""
    return {
        name: whim(random, [*sorted(one.peers), name, "system.todo"])
        for name, one in SHOP.blueprint.listeners.items()
    }


def log(storage, random):
    if random.random() < 0.3:
        storage.append(random.choice([Note("entry"), Ask("entry")]))
    if random.random() < 0.1:
        storage.trim(random.choice([Note, Ask]), random.randint(0, 2))


def whim(random, reachable):
    apart = Random(hash(random.getstate()[1]))  # so that a seed stays good for what it was chosen for

    def response():
        to = random.choice([*reachable * 4, "c", "console", "nobody"])
        if to == "system.todo":
            until = TodoUntil(
                "Answer", random.choice([None, "b", "c.d"]), "", random.randint(1, 3), random.random() < 0.7
            )
            return HandlerResponse(until, to)
        made = [
            HandlerResponse(Ask("x"), to),
            HandlerResponse.respond(Answer("y")),
            HandlerResponse(Note("z"), to),
        ]
        return random.choices(made, [15, 6, 1])[0]

    def handler(call):
        if random.random() < 0.05:
            raise RuntimeError("whim")
        if random.random() < 0.2:
            call.storage.set(Note("kept"))
        log(call.storage, apart)
        for watcher in call.todos.get_raised_for(call.metadata.thread_id, None):
            call.todos.close(watcher.watcher_id)
        if random.random() < 0.1:
            text = random.choice([Ask("x"), Note("z"), Answer("y")])
            return SHOP.codecs.of(type(text)).encode(text).encode()
        known = [watcher.watcher_id for watcher in call.todos._watchers]
        if known and random.random() < 0.1:
            return HandlerResponse(TodoComplete(random.choice(known)), "system.todo")
        number = random.choice([0, 1, 1, 1, 2, 3])
        made = [response() for _ in range(number)]
        return None if not made else made[0] if number == 1 else made

    return handler


def answer(paper, random):
    paper.decide(random.choice(list(Answered)), random.choice(paper.conversation.approvals()))


def check_books(paper):
    conversation = paper.conversation
    waiting = [d for node in conversation.tree.nodes.values() for d in node.list_waiting()]
    assert len({d.id for d in waiting}) == len(waiting)
    for request in conversation.requests.values():
        mine = [d for d in waiting if d.request == request.id]
        held = [
            h
            for n in conversation.tree.nodes.values()
            for h in n.held_deliveries
            if h.delivery.request == request.id
        ]
        assert (request.pending, request.held_count) == (len(mine), len(held))
        assert request.pending > request.held_count
        assert all(thread in conversation.tree.nodes for thread in request.threads)
    assert {d.request for d in waiting} <= set(conversation.requests)
    assert set(conversation.todos.watchers) <= set(conversation.tree.nodes)
    began = [thread for request in conversation.requests.values() for thread in request.threads]
    assert len(set(began)) == len(began)
    for node in conversation.tree.nodes.values():
        assert all(d.thread == node.id and d.to == node.owner for d in node.list_waiting())
    asked = [approval.delivery for approval in conversation.approvals()]
    assert sum(outcome.asking for outcome in paper.outcomes) == len(asked)
    waiting = [d for thread in paper.conversation.tree.nodes.values() for d in thread.list_waiting()]
    assert sum(outcome.grown for outcome in paper.outcomes) == sum(len(d.message) for d in waiting)
    assert not {d.id for d in asked} & {d.id for d in paper.waiting}
    assert not conversation.tree.nodes[conversation.tree.root].inbox
    assert conversation.messages <= SHOP.blueprint.limits.conversation_messages


@pytest.mark.parametrize("rules", [SHOP, ASKING], ids=["unasked", "asked"])
@settings(max_examples=examples(150))
@given(st.integers(0, 2**32))
def test_nothing_is_lost_or_done_twice_and_every_request_ends(rules, seed):
    random = Random(seed)
    paper = Paper(rules, whims(random))
    running, requests = [], []
    for _ in range(400):
        choice = random.random()
        if choice < 0.1 and len(requests) < 4:
            first = random.choice([(Ask("go"), "a"), (Ask("go"), "b"), (Note("go"), None), (Note("go"), "e")])
            requests.append(paper.say(*first))
        elif choice < 0.6 and paper.waiting:
            started = paper.invoke(paper.waiting.pop(random.randrange(len(paper.waiting))))
            running += [started] if started else []
        elif choice < 0.7 and paper.conversation.approvals():
            answer(paper, random)
        elif running:
            paper.conclude(running.pop(random.randrange(len(running))))
        check_books(paper)
    for finished in running:
        paper.conclude(finished)
    paper.run()
    while paper.conversation.approvals():
        answer(paper, random)
        paper.run()
    check_books(paper)
    assert not paper.conversation.requests
    ends = [event.request for event in paper.events if isinstance(event, Done)]
    assert sorted(ends) == sorted(requests)
    added = [d.id for o in paper.outcomes for d in o.added]
    gone = [o.done for o in paper.outcomes if o.done] + [d.id for o in paper.outcomes for d in o.dropped]
    assert len(set(added)) == len(added)
    assert sorted(added) == sorted(gone)


@settings(max_examples=examples(50))
@given(st.integers(0, 2**32))
def test_the_stored_state_after_any_step_equals_the_real_one(seed):
    random = Random(seed)
    paper = Paper(ASKING, whims(random))
    for _ in range(3):
        paper.say(Ask("go"), "a")
    for _ in range(60):
        if paper.conversation.approvals() and random.random() < 0.3:
            answer(paper, random)
        elif paper.waiting:
            paper.step(random.randrange(len(paper.waiting)))
        assert restore(take(paper.conversation, ASKING.guards), ASKING.guards) == paper.conversation


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32))
def test_a_thread_never_has_two_deliveries_runnable(seed):
    random = Random(seed)
    paper = Paper(SHOP, whims(random))
    for _ in range(3):
        paper.say(Ask("go"), "a")
    for _ in range(200):
        if not paper.waiting:
            break
        threads = [d.thread for d in paper.waiting]
        assert len(set(threads)) == len(threads)
        paper.step(random.randrange(len(paper.waiting)))


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32))
def test_closing_at_any_point_leaves_nothing(seed):
    random = Random(seed)
    paper = Paper(SHOP, whims(random))
    request = paper.say(Ask("go"), "a")
    for _ in range(random.randrange(20)):
        if paper.waiting:
            paper.step(random.randrange(len(paper.waiting)))
    outcome = paper.apply(decisions.close(paper.conversation, paper.rules, paper.moment(), "test"))
    assert outcome.conversation.closed
    assert list(paper.conversation.tree.nodes) == [paper.conversation.tree.root]
    assert list(paper.ends) == [request]
    assert paper.waiting == []


@given(st.integers(0, 2**32))
@settings(max_examples=examples(30))
def test_no_handler_learns_a_name_it_did_not_hear_from(seed):
    random = Random(seed)
    paper = Paper(SHOP, whims(random))
    paper.say(Ask("go"), "a")
    for _ in range(40):
        if paper.waiting:
            paper.step()
    for _, call in paper.calls:
        if isinstance(call.payload, SystemError):
            assert not any(
                name in call.payload.message.split() for name in (*SHOP.blueprint.listeners, "nobody")
            )


class LeapingClocks(Paper):
    """Each decision is taken by a clock of its own: of another machine, or set meanwhile."""

    def __init__(self, rules, handlers, random):
        self.random = random
        super().__init__(rules, handlers)

    def moment(self):
        leap = self.random.choice([0.0, 0.0, 3600.0, -3600.0, -1e9])
        return super().moment()._replace(now=max(1000.0 + self.seeds + leap, 0.0))


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_time_never_runs_backwards_within_a_conversation_whatever_clocks_say(seed):
    random = Random(seed)
    paper = LeapingClocks(ASKING, whims(random), random)
    requests = [paper.say(Ask("go"), "a") for _ in range(3)]
    for _ in range(60):
        choice = random.random()
        if choice < 0.05 and requests:
            said = Cancellation(requests.pop())
            outcome = decisions.cancel(paper.conversation, said, paper.rules, paper.moment())
            if outcome is not None:
                paper.apply(outcome)
        elif choice < 0.1:
            outside = OutsideMessage(b"no message", f"r{random.random()}")
            paper.apply(
                decisions.turn_away(paper.conversation, outside, Code.BUSY, paper.rules, paper.moment())
            )
        elif choice < 0.3 and paper.conversation.approvals():
            answer(paper, random)
        elif paper.waiting:
            paper.step(random.randrange(len(paper.waiting)))
    paper.apply(decisions.close(paper.conversation, paper.rules, paper.moment(), "test"))
    times = [outcome.moment.now for outcome in paper.outcomes]
    assert times == sorted(times)
    assert [outcome.conversation.touched for outcome in paper.outcomes] == times
