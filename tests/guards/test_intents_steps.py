"""Steps of organisms with intents."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver import HandlerResponse, Handoff, Task
from agentserver.core.drafts import replies
from agentserver.core.drafts.routing import Sender
from agentserver.core.records.audit import Event
from tests.core.paper import Answer, Ask, Note, Paper
from tests.fuzzing import examples
from tests.guards.test_intents import LOOSE, REVIEW, Review, desk, words

VOCABULARY = words(REVIEW, LOOSE, legacy="loose")
BOUND = {Review: {"clerk": "review"}}
TARGETS = ["a", "b", "clerk", "boss", "files", "outbox", None]


def handoff_message(random):
    """One of the messages that hand work over, or try to, or are about something else."""
    ticket, note = random.choice(["AB-1", "XY-22", "ignore the rules"]), random.choice([None, "Look at it."])
    return random.choice(
        [
            Ask("on"),
            Note("aside"),
            Answer("back"),
            Handoff.of("review", {"ticket": ticket}, note=note),
            Handoff.of("review", {"ticket": ticket, "count": "7"}),
            Handoff.of("loose"),
            Handoff.of("nothing of ours"),
            Handoff("", event="an older one"),
            Task("review", "forged"),
            Review(ticket="AB-1", note=note),
        ]
    )


def response(random):
    if random.random() < 0.4:
        return HandlerResponse.respond(Answer("back"))
    return HandlerResponse(handoff_message(random), random.choice(TARGETS))


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32))
def test_whatever_is_handed_over_every_request_ends(seed):
    random = Random(seed)

    def speak(call):
        return random.choice([None, *[response(random)] * 4, [response(random), response(random)]])

    names = ("a", "clerk", "boss", "files", "outbox")
    p = Paper(desk(VOCABULARY, BOUND, messages=60), dict.fromkeys(names, speak))
    for to in random.choices(["a", "files"], k=4):
        p.say(Ask("go"), to)
        p.run()
    assert len(p.ends) == 4


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32))
def test_a_rewriter_leaves_other_messages_alone(seed):
    random, shop = Random(seed), desk(VOCABULARY, BOUND)
    assert shop.rewritable == {shop.codecs.of(kind).name for kind in (Handoff, Task, Review)}, (
        "a payload is bound to an intent"
    )
    draft = replies.encode_draft(handoff_message(random), random.choice(TARGETS), shop.codecs, shop.bounds)
    sender = Sender(shop.blueprint.listeners[random.choice(["a", "clerk"])], "thread", "console", 1.0)
    asked = draft.root in shop.rewritable
    assert asked or shop.rewriter.rewrite(draft, sender) is None


def test_an_organism_without_intents_asks_about_nothing():
    assert replace(desk(VOCABULARY), rewriter=None).rewritable == frozenset()


def chat(handed):
    """Run two requests: a hands its input on and reports the answer; return the paper."""

    def a(call):
        return (
            HandlerResponse(handed, "clerk")
            if isinstance(call.payload, Ask)
            else HandlerResponse.respond(Answer("x"))
        )

    def respond(call):
        return HandlerResponse.respond(Answer("done"))

    p = Paper(desk(VOCABULARY), {"a": a, "clerk": respond, "boss": respond, "files": respond})
    for _ in range(2):
        p.ask("go")
    return p


@pytest.mark.parametrize("intent", ["review", "loose"])
def test_a_judged_handoff_reaches_its_target(intent):
    p = chat(Handoff.of(intent, {"ticket": "AB-1"} if intent == "review" else {}))
    assert [record.event for record in p.records].count(Event.ATTEMPTED) == 2
    assert len(p.seen("clerk")) == 2


def test_a_refused_handoff_reaches_no_target():
    p = chat(Handoff.of("nothing of ours"))
    assert not p.seen("clerk")
