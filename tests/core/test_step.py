"""The books of one step: what is handed over must add up whatever happened in between."""

from __future__ import annotations

import pytest

from agentserver import HandlerResponse, TodoUntil
from agentserver.core.audit import Event
from agentserver.core.conversation import Conversation
from agentserver.core.messages import Moment
from agentserver.core.routing import Proposal, Route
from agentserver.core.step import PARSED_LIMIT, Step
from tests.core.paper import Answer, Ask, Paper, listener, rules

SHOP = rules(listener("a"), listener("b"), messages=5, hops=3)
OPENED = Conversation.opened("console", Moment(1.0, b"0" * 16))


def asks(to, origin=OPENED.tree.root, route=Route.PEER, text="x", element=None):
    codec = SHOP.codecs.of(Ask)
    sender = SHOP.blueprint.principal("console")
    return Proposal(sender, origin, to, route, codec.name, codec.encode(Ask(text)), element)


def step(before=OPENED):
    made = Step(before, SHOP, Moment(2.0, b"1" * 16))
    if "r" not in before.requests:
        made.requests.begin("r")
    return made


def called(*names):
    made = step()
    for name in names:
        made.send(asks(name), "r", 1)
    return made.finish()


def test_what_is_posted_is_counted_recorded_and_ready():
    outcome = called("a", "b", "a")
    assert [d.to for d in outcome.added] == ["a", "b", "a"]
    assert outcome.ready == outcome.added
    assert outcome.conversation.requests["r"].pending == 3
    assert outcome.conversation.messages == 3
    assert [(r.event, r.message) for r in outcome.records] == [(Event.SENT, d.message) for d in outcome.added]
    assert (outcome.before, outcome.conversation.version) == (0, 1)


def test_the_second_message_of_a_thread_is_not_ready():
    made = step()
    made.send(asks("a"), "r", 1)
    (child,) = made.tree.nodes[made.tree.root].children
    made.send(asks("a", child, Route.NOTICE), "r", 1)
    outcome = made.finish()
    assert (len(outcome.added), len(outcome.ready)) == (2, 1)


@pytest.mark.parametrize(("before", "hop"), [(1, 4), (5, 1)])
def test_what_overruns_a_budget_ends_its_request_within_the_step(before, hop):
    made = step()
    for _ in range(before):
        made.send(asks("a"), "r", 1)
    made.send(asks("b"), "r", hop)
    outcome = made.finish()
    assert (outcome.added, outcome.dropped, outcome.ready, outcome.parsed) == ((), (), (), {})
    assert [type(reply).__name__ for reply in outcome.replies] == ["Reply", "Done"]
    assert len(outcome.conversation.tree.nodes) == 1


def test_the_parsed_form_of_a_large_message_is_not_handed_on():
    made = step()
    element = object()
    made.send(asks("a", element=element), "r", 1)
    made.send(asks("b", text="x" * PARSED_LIMIT, element=element), "r", 1)
    outcome = made.finish()
    assert list(outcome.parsed) == [outcome.added[0].id]


def test_another_attempt_keeps_its_place_and_its_name():
    before = called("a")
    made = step(before.conversation)
    made.again(before.added[0])
    outcome = made.finish()
    assert outcome.retry == before.added[0]._replace(attempt=1)
    assert (outcome.done, outcome.ready, outcome.replies) == (None, (), ())
    assert outcome.conversation.tree.nodes[before.added[0].thread].inbox == (outcome.retry,)


def test_ending_closes_everything_and_tells_what_was_dropped():
    before = called("a", "b")
    made = step(before.conversation)
    made.end()
    outcome = made.finish(closed=True)
    assert outcome.dropped == before.added
    assert set(outcome.closed) == {d.thread for d in before.added}
    assert outcome.conversation.closed
    assert outcome.conversation.requests == {}


def test_ids_of_a_step_are_all_different_and_follow_from_its_moment():
    outcome, again = called("a", "b", "a"), called("a", "b", "a")
    ids = [each for d in outcome.added for each in (d.id, d.thread)]
    assert len(set(ids)) == len(ids)
    assert outcome == again


def test_pruning_a_thread_takes_back_what_it_held_from_below():
    def a(call):
        match call.payload:
            case Ask("hi"):
                todo = TodoUntil(wait_for=Answer, count=3, hold=True)
                return [HandlerResponse(todo, "system.todo"), *[HandlerResponse(Ask("x"), "b")] * 2,
                        HandlerResponse(Ask("c"), "c")]  # fmt: skip
            case Answer("from c"):
                return HandlerResponse.respond(Answer("done"))
        return None

    shop = rules(listener("a", "b", "c"), listener("b"), listener("c"))
    paper = Paper(
        shop,
        {
            "a": a,
            "b": lambda c: HandlerResponse.respond(Answer("from b")),
            "c": lambda c: HandlerResponse.respond(Ask("not awaited")),
        },
    )
    request = paper.say(Ask("hi"), "a")
    paper.step()
    paper.step([d.to for d in paper.waiting].index("b"))
    thread = paper.calls[0][1].metadata.thread_id
    assert len(paper.conversation.tree.nodes[thread].held) == 1
    made = Step(paper.conversation, shop, paper.moment())
    made.prune(thread)
    outcome = made.finish()
    assert outcome.conversation.tree.nodes[thread].held == ()
    assert (outcome.conversation.requests[request].pending, outcome.conversation.requests[request].held) == (
        1,
        0,
    )
    assert len(outcome.dropped) == 3
