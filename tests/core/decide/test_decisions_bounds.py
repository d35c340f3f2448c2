"""Conversations at their bounds: sizes, budgets, refusals in a row, concurrent requests."""

from __future__ import annotations

import inspect
import sys

import pytest

from agentserver import HandlerResponse, SystemError
from agentserver.contract import Code
from agentserver.core.decide import decisions
from agentserver.core.messages import Done, HandlerFailure, Reply
from agentserver.core.records.audit import DETAIL, Event
from agentserver.core.records.wording import WORDING
from agentserver.core.refusals import make_system_error
from agentserver.wire.envelope import write
from tests.core.paper import Answer, Ask, LateHandler, Note, Paper, errors, listener, rules

respond = HandlerResponse.respond


def to(name, payload=None):
    return HandlerResponse(payload or Ask("go"), name)


def answer(call):
    return respond(Answer(f"re: {call.payload.text}"))


def silent(call):
    return None


def pick(paper, name):
    return [delivery.to for delivery in paper.waiting].index(name)


# Sizes


def test_a_payload_as_large_as_the_bound_is_delivered():
    shop = rules(listener("a", "b"), listener("b"))
    most = shop.bounds.bytes - len(shop.codecs.of(Ask).encode(Ask("")))
    texts = iter([Ask("x" * most), Ask("x" * (most + 1))])
    paper = Paper(
        shop,
        {
            "a": lambda c: to("b", next(texts)) if isinstance(c.payload, Ask) else respond(c.payload),
            "b": lambda c: respond(Answer(str(len(c.payload.text)))),
        },
    ).ask()
    assert paper.replies == [Answer(str(most))]
    paper.ask()
    assert errors(paper.replies) == ["validation"]
    assert str(shop.bounds.bytes) in paper.replies[-1].message


def test_an_outside_message_whose_canonical_form_is_too_long_is_refused_before_it_is_accepted():
    paper = Paper(rules(listener("a")), {"a": answer})
    name = paper.rules.codecs.of(Ask).name
    namespace = name[1:].partition("}")[0]
    markup = f'<Ask xmlns="{namespace}"><text>{"]>" * (paper.rules.bounds.bytes // 3)}</text></Ask>'.encode()
    assert len(markup) < paper.rules.bounds.bytes
    paper.say(markup, "a")
    assert errors(paper.replies) == ["validation"]
    assert not paper.waiting


def test_a_document_as_deep_and_wide_as_the_bounds_is_read_back_from_an_engine():
    from dataclasses import replace

    shop = rules(listener("a"))
    shop = type(shop)(
        shop.blueprint, shop.codecs, shop.guards, replace(shop.bounds, depth=2, elements=2, bytes=200)
    )
    paper = Paper(shop, {"a": answer})
    paper.say(Ask("x" * 100), "a")
    (delivery,) = paper.waiting
    delivery = delivery._replace(
        message=write("p" * 256, "l" * 256, "t" * 36, shop.codecs.of(Ask).encode(Ask("x")))
    )
    assert not isinstance(decisions.accept(paper.conversation, delivery, shop), HandlerFailure)


# Turns


def test_a_delivery_is_accepted_only_while_it_is_its_threads_first():
    paper = Paper(rules(listener("a")), {"a": silent})
    paper.say(Ask("1"), "a")
    (delivery,) = paper.waiting
    assert decisions.accept(paper.conversation, delivery, paper.rules) is not None
    paper.run()
    assert decisions.accept(paper.conversation, delivery, paper.rules) is None


# Refusals in a row


def test_a_thread_that_was_given_up_starts_its_next_task_with_all_its_chances():
    paper = Paper(rules(listener("a"), refusals=2), {"a": lambda call: to("nobody")})
    for _ in range(2):
        paper.calls.clear()
        paper.ask()
        assert [p.retry_allowed for p in paper.seen("a")[1:]] == [True, False]
    assert errors(paper.replies) == ["internal", "internal"]


def test_a_crash_ends_a_row_of_refusals():
    def handler(call):
        if len(paper.calls) % 3 == 0:
            raise RuntimeError
        return to("nobody")

    paper = Paper(rules(listener("a"), refusals=2), {"a": handler})
    for _ in range(2):
        paper.ask()
    assert [p.retry_allowed for p in paper.seen("a") if isinstance(p, SystemError)] == [True, False] * 2


def test_silence_ends_a_row_of_refusals():
    turns = iter([to("nobody"), None, to("nobody"), None, to("nobody"), None])
    paper = Paper(rules(listener("a"), refusals=2), {"a": lambda call: next(turns)})
    for _ in range(3):
        paper.ask()
    assert [p.retry_allowed for p in paper.seen("a") if isinstance(p, SystemError)] == [True] * 3


# Budgets


def test_the_budget_of_one_request_leaves_another_that_took_over_its_thread():
    members = [listener("a", "c", payloads=(Note,), broadcast=True)]
    members.append(listener("b", "b", payloads=(Note, Ask), broadcast=True))

    def a(call):
        if call.payload == Note("second"):
            return to("c")
        return respond(Answer("done" if isinstance(call.payload, Answer) else "first"))

    paper = Paper(rules(*members, listener("c"), hops=5), {"a": a, "b": lambda c: to("b"), "c": answer})
    paper.say(Note("first"), request="first")
    paper.step(pick(paper, "a"))
    paper.say(Note("second"), "a", request="second")
    paper.step(pick(paper, "a"))
    while any(delivery.to == "b" for delivery in paper.waiting):
        paper.step(pick(paper, "b"))
    assert paper.ends == {"first": True}
    paper.run()
    assert paper.replies == [Answer("first"), make_system_error(Code.BUDGET), Answer("done")]
    assert paper.ends == {"first": True, "second": True}


def test_two_requests_that_shared_a_thread_can_both_overrun():
    shop = rules(
        listener("a", "a", payloads=(Note, Ask), broadcast=True),
        listener("b", "b", payloads=(Note, Ask), broadcast=True),
        hops=4,
    )

    def a(call):
        return respond(Answer("first")) if call.payload == Note("first") else to("a")

    paper = Paper(shop, {"a": a, "b": lambda c: to("b")})
    paper.say(Note("first"), request="first")
    paper.step(pick(paper, "a"))
    paper.say(Note("second"), "a", request="second")
    while any(delivery.to == "a" for delivery in paper.waiting):
        paper.step(pick(paper, "a"))
    paper.run()
    assert errors(paper.replies) == ["budget", "budget"]
    assert len(paper.conversation.tree.nodes) == 1


@pytest.mark.parametrize("messages", range(1, 9))
def test_an_exhausted_budget_leaves_no_delivery_and_no_waiting_caller(messages):
    def a(call):
        return [to("b", Ask(str(n))) for n in range(3)] if call.payload == Ask("hi") else respond(Answer("x"))

    paper = Paper(rules(listener("a", "b"), listener("b"), messages=messages), {"a": a, "b": answer})
    request = paper.say(Ask("hi"), "a")
    paper.run()
    assert paper.ends == {request: True}
    assert len(paper.replies) == 1
    assert not any(thread.list_waiting() for thread in paper.conversation.tree.nodes.values())
    for outcome in paper.outcomes:
        assert set(outcome.parsed) <= {delivery.id for delivery in outcome.added}


def test_a_spent_budget_inside_an_answer_is_reported_to_the_opener_and_not_to_the_caller():
    paper = Paper(
        rules(listener("a", "b"), listener("b"), messages=2),
        {"a": lambda c: to("b") if c.payload == Ask("hi") else respond(Answer("never")), "b": answer},
    ).ask()
    assert errors(paper.replies) == ["budget"]
    assert len(paper.seen("a")) == 1


# Quiescence


def test_a_request_with_only_a_pending_retry_is_not_idle():
    def late(call):
        if call.attempt == 0:
            raise LateHandler

    paper = Paper(rules(listener("a", retries=1)), {"a": late})
    request = paper.say(Ask("hi"), "a")
    paper.step()
    assert paper.ends == {}
    paper.run()
    assert paper.ends == {request: False}


def test_a_pending_retry_keeps_a_held_reply_held():
    from agentserver import TodoUntil

    def a(call):
        if call.payload == Ask("hi"):
            todo = TodoUntil(wait_for=Answer, count=2, hold=True)
            return [to("system.todo", todo), to("b", Ask("ok")), to("b", Ask("late"))]
        return None

    def b(call):
        if call.payload == Ask("late") and call.attempt == 0:
            raise RuntimeError
        return answer(call)

    paper = Paper(rules(listener("a", "b"), listener("b", retries=1)), {"a": a, "b": b})
    paper.say(Ask("hi"), "a")
    paper.step()
    paper.step(pick(paper, "a"))
    paper.step()
    paper.step()
    assert [(d.to, d.attempt) for d in paper.waiting] == [("b", 1)]
    paper.run()
    assert [p.text for p in paper.seen("a") if isinstance(p, Answer)] == ["re: ok", "re: late"]


def test_the_caller_learns_once_of_a_crash_while_a_reply_is_handled():
    def b(call):
        if call.payload != Ask("go"):
            raise RuntimeError
        return [to("c"), to("c")]

    def a(call):
        return to("b") if call.payload == Ask("hi") else respond(Answer(type(call.payload).__name__))

    paper = Paper(rules(listener("a", "b"), listener("b", "c"), listener("c")), {"a": a, "b": b, "c": answer})
    request = paper.say(Ask("hi"), "a")
    paper.run()
    assert errors(paper.seen("a")) == ["internal"]
    assert paper.replies == [Answer("SystemError")]
    assert paper.ends == {request: True}


def test_the_opener_of_a_closed_conversation_is_notified_of_every_request_once():
    paper = Paper(rules(listener("a", "a")), {"a": lambda c: to("a")})
    requests = [paper.say(Ask("hi"), "a") for _ in range(3)]
    paper.step()
    paper.apply(decisions.close(paper.conversation, paper.rules, paper.moment(), "test"))
    assert [(e.request, e.answered) for e in paper.events if isinstance(e, Done)] == [
        (r, False) for r in requests
    ]
    assert not any(isinstance(event, Reply) for event in paper.events)


# Privacy


def test_a_message_to_the_principals_name_from_deep_inside_is_undeliverable():
    paper = Paper(
        rules(listener("a", "b"), listener("b")),
        {
            "a": lambda c: to("b") if c.payload == Ask("hi") else None,
            "b": lambda c: to("console", Answer("x")) if isinstance(c.payload, Ask) else None,
        },
    ).ask()
    assert paper.seen("b")[1:] == [make_system_error(Code.ROUTING)]
    assert paper.replies == []


@pytest.mark.parametrize("several", [False, True])
def test_whatever_cannot_be_delivered_is_refused_with_identical_bytes(several):
    shop = rules(
        listener("a", "c", "d", "e"),
        listener("b", payloads=(Note,)),
        listener("c", payloads=(Answer,)),
        *(listener(name, payloads=(Note,)) for name in "de"),
    )
    attempts = [
        *(
            to(name)
            for name in ("nobody", "b", "c", "system", "system.nothing", "system.todo", "", "x" * 9999)
        ),
        b'<unknown xmlns="urn:x"/>',
        shop.codecs.of(Note).encode(Note("two take it")).encode(),
    ]

    def describe_delivery(attempt):
        value = (
            [to("c", Answer("fine")), attempt]
            if several and isinstance(attempt, HandlerResponse)
            else attempt
        )
        paper = Paper(shop, {"a": lambda call: value, "c": silent})
        paper.say(Ask("hi"), "a")
        paper.step()
        (delivery,) = paper.waiting
        return delivery.message, delivery.about

    assert len({describe_delivery(attempt) for attempt in attempts}) == 1
    assert describe_delivery(attempts[0])[1] == ""


def test_records_keep_a_bounded_line_of_a_senders_text():
    paper = Paper(rules(listener("a")), {"a": lambda c: to("x\n" * 5000)})
    paper.say(Ask("hi"), "a")
    paper.say(Ask("hi"), "y\x1b[2J" * 5000)
    paper.run()
    refused = [record for record in paper.records if record.event is Event.REFUSED]
    assert len(refused) > 1
    for record in refused:
        assert len(record.to) <= DETAIL
        assert len(WORDING.join_lines(record.detail)) <= DETAIL
        assert record.to.isprintable()


def test_records_keep_a_bounded_line_of_an_exceptions_text():
    def crash(call):
        raise RuntimeError("line\n" * 5000)

    paper = Paper(rules(listener("a")), {"a": crash}).ask()
    (failed,) = (record for record in paper.records if record.event is Event.FAILED)
    assert WORDING.join_lines(failed.detail).startswith("line line ")
    assert len(WORDING.join_lines(failed.detail)) == DETAIL


# Determinism and cost


def test_a_thousand_calls_at_once_cost_each_thread_a_bounded_number_of_looks(monkeypatch):
    from agentserver.core.state import threads

    looks = 0
    below = threads.ThreadTree.iter_descendants

    def count_nodes(self, thread):
        nonlocal looks
        for node in below(self, thread):
            looks += 1
            yield node

    monkeypatch.setattr(threads.ThreadTree, "iter_descendants", count_nodes)

    def a(call):
        return [to("b", Ask(str(n))) for n in range(1000)] if call.payload == Ask("hi") else None

    paper = Paper(rules(listener("a", "b"), listener("b"), messages=5000), {"a": a, "b": answer})
    paper.say(Ask("hi"), "a")
    paper.step()
    assert len(paper.conversation.tree.nodes) == 1002
    assert looks < 5000


def test_a_chain_of_self_calls_deeper_than_the_stack_unwinds():
    depth, frames = 400, len(inspect.stack(0))

    def a(call):
        if isinstance(call.payload, Ask) and call.payload.text != str(depth):
            return to("a", Ask(str(int(call.payload.text) + 1)))
        return respond(Answer("up"))

    paper = Paper(rules(listener("a"), hops=5000, messages=5000), {"a": a})
    request = paper.say(Ask("0"), "a")
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(frames + depth // 2)
    try:
        paper.run()
    finally:
        sys.setrecursionlimit(before)
    assert paper.ends == {request: True}
    assert paper.replies == [Answer("up")]
    assert len(paper.conversation.tree.nodes) == 2
