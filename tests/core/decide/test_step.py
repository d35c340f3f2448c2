"""One step: whatever happened in between, its outputs add up."""

from __future__ import annotations

from operator import methodcaller
from types import SimpleNamespace

import pytest

from agentserver import HandlerResponse, TodoUntil
from agentserver.contract import Code
from agentserver.core.decide.lives import ImpossibleError
from agentserver.core.decide.step import Step
from agentserver.core.drafts.routing import Proposal, Route
from agentserver.core.messages import ConversationClosing, HandlerFailure, Moment
from agentserver.core.records.audit import Event
from agentserver.core.records.details import Failure
from agentserver.core.state.conversation import Conversation
from tests.core.paper import Answer, Ask, Paper, listener, rules

SHOP = rules(listener("a"), listener("b"), messages=5, hops=3)
OPENED = Conversation.begin("console", Moment(1.0, b"0" * 16))
FAILED = HandlerFailure(Code.INTERNAL, Failure("x"))


def asks(to, origin=OPENED.tree.root, route=Route.PEER, text="x", element=None, hop=1):
    codec = SHOP.codecs.of(Ask)
    sender = SHOP.blueprint.make_principal("console")
    proposal = Proposal(sender, origin, to, route, codec.name, codec.encode(Ask(text)), element)
    return methodcaller("send", proposal, "r", hop)


def step(*changes, before=OPENED):
    made = Step(before, SHOP, Moment(2.0, bytes([1 + before.version]) * 16), ConversationClosing("a test"))
    if "r" not in before.requests:
        made.begin("r")
    for change in changes:
        change(made)
    return made.finish()


def take(delivery):
    return methodcaller("take", delivery)


def retry(delivery):
    return methodcaller("retry", delivery, FAILED)


def bury(delivery):
    return methodcaller("bury", delivery, FAILED)


def step_with_calls(*names):
    return step(*(asks(name) for name in names))


def test_a_sent_message_is_counted_recorded_and_ready():
    outcome = step_with_calls("a", "b", "a")
    assert [d.to for d in outcome.added] == ["a", "b", "a"]
    assert outcome.ready == outcome.added
    assert outcome.conversation.requests["r"].pending == 3
    assert outcome.conversation.messages == 3
    assert [(r.event, r.message) for r in outcome.records] == [(Event.SENT, d.message) for d in outcome.added]
    assert (outcome.before, outcome.conversation.version) == (0, 1)


def test_the_second_message_of_a_thread_is_not_ready():
    before = step_with_calls("a")
    (child,) = before.conversation.tree.nodes[OPENED.tree.root].children
    outcome = step(asks("a", child, Route.NOTICE), before=before.conversation)
    assert (len(outcome.added), len(outcome.ready)) == (1, 0)


@pytest.mark.parametrize(("before", "hop"), [(1, 4), (5, 1)])
def test_overrunning_a_budget_ends_its_request_within_the_step(before, hop):
    outcome = step(*(asks("a") for _ in range(before)), asks("b", hop=hop))
    assert (outcome.added, outcome.dropped, outcome.ready, outcome.parsed) == ((), (), (), {})
    assert [type(reply).__name__ for reply in outcome.replies] == ["Reply", "Done"]
    assert len(outcome.conversation.tree.nodes) == 1


def test_the_parsed_form_travels_with_the_sent_message():
    element = object()
    outcome = step(asks("a", element=element), asks("b", element=element))
    assert outcome.parsed == {delivery.id: element for delivery in outcome.added}


def test_another_attempt_keeps_its_place_and_its_name():
    before = step_with_calls("a")
    outcome = step(retry(before.added[0]), before=before.conversation)
    assert outcome.retry == before.added[0]._replace(attempt=1)
    assert (outcome.done, outcome.ready, outcome.replies) == (None, (), ())
    assert outcome.conversation.tree.nodes[before.added[0].thread].inbox == (outcome.retry,)


def test_ending_closes_everything_and_reports_dropped_messages():
    before = step_with_calls("a", "b")
    outcome = step(methodcaller("close", "over"), before=before.conversation)
    assert outcome.dropped == before.added
    assert set(outcome.closed) == {d.thread for d in before.added}
    assert outcome.conversation.closed
    assert outcome.conversation.requests == {}


def test_ids_of_a_step_are_all_different_and_follow_from_its_moment():
    outcome, again = step_with_calls("a", "b", "a"), step_with_calls("a", "b", "a")
    ids = [each for d in outcome.added for each in (d.id, d.thread)]
    assert len(set(ids)) == len(ids)
    assert outcome == again


def test_a_step_leaves_the_conversation_as_it_was():
    before = step_with_calls("a").conversation
    kept = (dict(before.tree.nodes), dict(before.requests))
    step(asks("b"), methodcaller("close", "over"), before=before)
    assert (dict(before.tree.nodes), dict(before.requests)) == kept


# Moves that a life does not allow


@pytest.mark.parametrize("command", [take, retry, bury])
@pytest.mark.parametrize("which", ["behind another", "gone"])
def test_only_running_work_is_taken_retried_or_abandoned(command, which):
    before = step_with_calls("a").conversation
    (child,) = before.tree.nodes[OPENED.tree.root].children
    if which == "gone":
        delivery = step_with_calls("a").added[0]._replace(id="another")
    else:
        sent = step(asks("a", child, Route.NOTICE), before=before)
        before, (delivery,) = sent.conversation, sent.added
    with pytest.raises(ImpossibleError):
        step(command(delivery), before=before)


def test_a_delivery_is_done_once():
    before = step_with_calls("a")
    with pytest.raises(ImpossibleError, match="done"):
        step(take(before.added[0]), take(before.added[0]), before=before.conversation)


def test_finished_work_may_still_be_abandoned_and_is_counted_once():
    before = step_with_calls("a")
    outcome = step(take(before.added[0]), bury(before.added[0]), before=before.conversation)
    assert [r.event for r in outcome.records[:2]] == [Event.HANDLED, Event.FAILED]
    assert outcome.conversation.requests == {}
    assert outcome.grown == -len(before.added[0].message)


def test_a_waiting_message_is_not_requeued():
    before = step_with_calls("a")
    with pytest.raises(ImpossibleError, match="requeue: a delivery that is running"):
        step(methodcaller("requeue", before.added[0], None), before=before.conversation)


def test_a_question_that_does_not_wait_is_not_answered():
    before = step_with_calls("a")
    approval = SimpleNamespace(id="q", delivery=before.added[0])
    with pytest.raises(ImpossibleError, match="no question q"):
        step(methodcaller("approve", approval, "ada"), before=before.conversation)


def test_pruning_a_thread_releases_the_replies_held_below_it():
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
    assert len(paper.conversation.tree.nodes[thread].held_deliveries) == 1
    made = Step(paper.conversation, shop, paper.moment(), ConversationClosing("a test"))
    made.prune(thread)
    outcome = made.finish()
    assert outcome.conversation.tree.nodes[thread].held_deliveries == ()
    assert (
        outcome.conversation.requests[request].pending,
        outcome.conversation.requests[request].held_count,
    ) == (
        1,
        0,
    )
    assert len(outcome.dropped) == 3
