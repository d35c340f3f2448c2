"""The approval guard by itself: the messages that it holds, and approvals for the rest of a conversation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.core.drafts.replies import encode_draft
from agentserver.core.drafts.routing import Route, Sender, resolve
from agentserver.core.guard import NeedsApproval
from agentserver.guards.builtin import ApprovalGuard
from tests.core.paper import Ask, Note, listener, rules

GUARD = ApprovalGuard({"vault": {}})
SHOP = rules(listener("a", "vault", "shelf"), listener("vault", payloads=(Ask, Note)), listener("shelf"))


def proposal(payload=None, to="vault"):
    place = Sender(SHOP.blueprint.listeners["a"], "t", "console")
    (found,) = resolve(encode_draft(payload or Ask("x"), to, SHOP.codecs, SHOP.bounds), place, SHOP.blueprint)
    return found


def approve_memory(memory, made):
    asked = ApprovalGuard({made.to: {}}).judge(memory, made, 0.0)
    return memory if asked is None else GUARD.approve(memory, asked.about)


def test_it_asks_about_its_listeners_and_nobody_else():
    assert isinstance(GUARD.judge(None, proposal(), 0.0), NeedsApproval)
    assert GUARD.judge(None, proposal(to="shelf"), 0.0) is None
    assert isinstance(GUARD.judge(None, proposal()._replace(route=Route.ANSWER), 0.0), NeedsApproval)


@pytest.mark.parametrize(("payload", "asked"), [(Ask("x"), False), (Ask("X"), True), (Note("x"), True)])
def test_an_approval_is_for_the_same_content_to_the_same_listener(payload, asked):
    memory = approve_memory(None, proposal())
    assert (GUARD.judge(memory, proposal(payload), 0.0) is not None) is asked


def test_an_approval_for_one_listener_does_not_cover_another():
    both = ApprovalGuard({"vault": {}, "shelf": {}})
    memory = approve_memory(None, proposal(to="shelf"))
    assert both.judge(memory, proposal(to="shelf"), 0.0) is None
    assert both.judge(memory, proposal(to="vault"), 0.0) is not None


def test_inputs_of_listeners_change_nothing():
    assert GUARD.observe("memory", None, None, 0.0) == "memory"


@given(st.sets(st.text(max_size=5), max_size=4))
def test_approvals_are_stored(texts):
    memory = None
    for text in sorted(texts):
        memory = approve_memory(memory, proposal(Ask("".join(char for char in text if char.isprintable()))))
    if memory is not None:
        assert GUARD.load(GUARD.dump(memory)) == memory
