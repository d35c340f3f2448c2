from __future__ import annotations

import pytest

from agentserver import TodoUntil
from agentserver.contract import Code, Target
from agentserver.core.decide.admission import judge
from agentserver.core.drafts.replies import encode_draft
from agentserver.core.drafts.routing import Sender
from agentserver.core.guard import DenyVerdict
from agentserver.core.records.details import GuardNote
from agentserver.core.refusals import Refusal
from agentserver.core.state.todos import WATCHERS
from agentserver.guards.builtin import PeersGuard
from tests.core.paper import Ask, Note, listener, rules


class Denies:
    """Denies some receivers, each with a code of its own."""

    def __init__(self, **codes):
        self.codes = codes
        self.asked = []

    name = "denies"

    def observe(self, memory, delivery, element, at):
        return memory

    def judge(self, memory, proposal, at):
        self.asked.append((memory, proposal.to))
        code = self.codes.get(proposal.to)
        return None if code is None else DenyVerdict(code, f"no {proposal.to}")


def shop(*guards):
    members = [listener(name, payloads=(Note,), broadcast=True) for name in "xyz"]
    return rules(listener("a", "b", *"xyz"), listener("b"), *members, guards=guards)


def ask_guards(rules, *drafts, memory=None, todos=0):
    place = Sender(rules.blueprint.listeners["a"], "t", "console")
    made = [encode_draft(payload, to, rules.codecs, rules.bounds) for payload, to in drafts]
    found = judge(made, place, rules, memory or {}, todos)
    return found.refusal or [proposal.to for proposal in found.proposals]


def test_messages_that_nobody_denies_are_admitted_in_order():
    assert ask_guards(shop(), (Ask("1"), "b"), (Note("2"), "z"), (Note("3"), None)) == [
        "b",
        "z",
        "x",
        "y",
        "z",
    ]


def test_one_denial_is_about_all():
    refusal = ask_guards(shop(Denies(z=Code.DENIED)), (Ask("1"), "b"), (Note("2"), "z"))
    assert refusal == Refusal(Code.DENIED, GuardNote("denies", "no z"), "z", place=1)


def test_the_first_that_may_not_be_sent_is_the_reason():
    rules = shop(Denies(b=Code.DENIED, z=Code.BUDGET))
    assert ask_guards(rules, (Note("2"), "nobody"), (Ask("1"), "b")).code is Code.ROUTING
    assert ask_guards(rules, (Ask("1"), "b"), (Note("2"), "nobody")).code is Code.DENIED


def test_a_broadcast_leaves_out_forbidden_members():
    assert ask_guards(shop(Denies(y=Code.ROUTING)), (Note("x"), None)) == ["x", "z"]


@pytest.mark.parametrize(
    "codes", [{"y": Code.DENIED}, {"x": Code.ROUTING, "y": Code.DENIED, "z": Code.ROUTING}]
)
def test_a_broadcast_is_refused_when_its_content_is_denied_for_a_member(codes):
    assert ask_guards(shop(Denies(**codes)), (Note("x"), None)) == Refusal(
        Code.DENIED, GuardNote("denies", "no y")
    )


def test_a_denied_answer_names_its_receiver():
    refusal = ask_guards(shop(Denies(console=Code.DENIED)), (Note("x"), Target.CALLER))
    assert refusal == Refusal(Code.DENIED, GuardNote("denies", "no console"), "console")


def test_a_broadcast_that_reaches_nobody_is_undeliverable():
    refusal = ask_guards(shop(Denies(**dict.fromkeys("xyz", Code.ROUTING))), (Note("x"), None))
    assert (refusal.code, refusal.to) == (Code.ROUTING, "")


def test_guards_are_asked_in_order_with_their_own_memory_until_one_denies():
    first, second = Denies(b=Code.DENIED), Denies()
    second.name = "second"
    ask_guards(shop(first, second), (Note("1"), "z"), (Ask("2"), "b"), memory={"denies": 1, "second": 2})
    assert first.asked == [(1, "z"), (1, "b")]
    assert second.asked == [(2, "z")]


def test_peers_are_a_matter_of_the_sender_and_nobody_else():
    rules = shop(PeersGuard())
    assert ask_guards(rules, (Ask("1"), "b"), (Ask("2"), "a")) == ["b", "a"]
    place = Sender(rules.blueprint.listeners["b"], "t", "a")
    for to in ("x", "nobody"):
        (made,) = [encode_draft(Note("x"), to, rules.codecs, rules.bounds)]
        assert judge([made], place, rules, {}).refusal.code is Code.ROUTING


@pytest.mark.parametrize(
    ("kept", "new", "fine"), [(0, WATCHERS, True), (1, WATCHERS, False), (WATCHERS, 0, True)]
)
def test_todos_are_bounded(kept, new, fine):
    found = ask_guards(shop(), *[(TodoUntil("X"), "system.todo")] * new, (Ask("x"), "b"), todos=kept)
    assert isinstance(found, list) is fine
