"""The work of a judgement, as calls of Python functions. It may become less and never more."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

from agentserver import HandlerResponse, Handoff
from agentserver.core.decide import decisions
from agentserver.core.drafts import replies
from agentserver.core.drafts.routing import Sender
from agentserver.core.records.details import HandoffAttempt
from agentserver.handoff import audit
from tests.core.paper import Ask, Paper, listener
from tests.guards.test_intents import REVIEW, desk, words

AT = 1_700_000_000.0
ALLOWED = 79
"""Calls from a valid Handoff to the valid Task, the counter's own two among them: 72 at their fewest, with a tenth of air."""


def ask_desk():
    """The rules of a desk, a handoff from a to the clerk, and its sender."""
    shop = desk(words(REVIEW))
    said = Handoff.of("review", {"ticket": "LEGAL-12", "count": "3"}, note="Look at the dates.")
    draft = replies.encode_draft(said, "clerk", shop.codecs, shop.bounds)
    return shop, draft, Sender(shop.blueprint.listeners["a"], "thread", "principal", AT)


@contextmanager
def count_calls():
    calls = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code) if event == "call" else None)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="counted on one version of Python")
def test_a_judgement_takes_as_few_calls_as_before():
    shop, draft, sender = ask_desk()
    shop.rewriter.rewrite(draft, sender)
    with count_calls() as calls:
        rewritten = shop.rewriter.rewrite(draft, sender)
    assert rewritten.result.to == "clerk"
    assert len(calls) <= ALLOWED


def test_a_listener_with_fewer_peers_is_made_once():
    shop, _, _ = ask_desk()
    narrowed = shop.narrowed("clerk", frozenset({"files", "boss"}))
    assert narrowed.listener.peers == {"files"}
    assert shop.narrowed("clerk", frozenset({"boss", "files"})) is narrowed
    assert shop.narrowed("clerk", frozenset()).listener.peers == frozenset()


def test_an_attempt_has_the_values_of_a_record_in_their_order():
    assert HandoffAttempt._fields == audit.KEYS


def test_a_step_without_intents_takes_as_few_calls_as_without_the_guard():
    def calls(shop):
        def a(call):
            return HandlerResponse(Ask("on"), "files") if isinstance(call.payload, Ask) else None

        p = Paper(shop, {"a": a})
        p.say(Ask("go"), "a")
        asked = (p.conversation, p.invoke(p.waiting[0]), p.rules, p.moment())
        with count_calls() as found:
            decisions.conclude(*asked)
        return [code.co_name for code in found if "agentserver" in code.co_filename]

    shop = desk(words(REVIEW))
    listeners = {**shop.blueprint.listeners, "a": listener("a", "clerk", "files")}
    shop = replace(shop, blueprint=replace(shop.blueprint, listeners=listeners))
    assert calls(shop) == calls(replace(shop, rewriter=None))
