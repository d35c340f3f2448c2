"""Readers and choices in conversations on paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import pytest

from agentserver import HandlerResponse, SystemError, xmlify
from agentserver.core.encoding.snapshot import restore, take
from agentserver.core.records.audit import Event
from agentserver.guards.lineage.memory import Memory
from agentserver.provenance import Mode, Policy, Readers
from agentserver.provenance.confidentiality.readers import ReaderRule
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.declarations import PlanSource, SinkRule
from tests.core.paper import Ask, Note, Paper, errors, listener
from tests.guards.lineage.watched import watch_listeners

SECRET = "The safe of the desk opens with 4417-9928."
HOME = "https://news.example/"
PAGE = " ".join(f"{HOME}p{number}" for number in range(16))


@xmlify
@dataclass(frozen=True)
class Letter:
    to: Annotated[str, Role.DESTINATION]
    body: Annotated[str, Role.PAYLOAD]


@xmlify
@dataclass(frozen=True)
class Code:
    name: str
    number: Annotated[str, Readers("@desk.example")]


@xmlify
@dataclass(frozen=True)
class Get:
    url: str


PAYLOADS = (Letter, Code, Get, Ask, Note)
BASE = Policy(
    mode=Mode.ENFORCE,
    sources=("web",),
    sinks=(SinkRule("post"),),
    plan=PlanSource.OFF,
    trusted=("vault",),
    relays=("agent", "helper"),
    allow=("@desk.example", "@else.example"),
    readers=(ReaderRule("vault", "*", ("@desk.example",)),),
)


def story(agent, policy=BASE, vault=Note(SECRET)):  # noqa: B008 - a frozen value
    """An agent, a vault that has readers, a relay between the agent and the post, and a page."""
    agents = [
        listener("agent", "vault", "post", "helper", "web", payloads=(Ask, Note, Code)),
        listener("vault", payloads=(Ask,)),
        listener("helper", "post", payloads=(Note,)),
        listener("post", payloads=(Letter,)),
        listener("web", payloads=(Get,)),
    ]
    shop = watch_listeners(policy, *agents, payloads=PAYLOADS)
    handlers = {
        "agent": agent,
        "vault": lambda call: HandlerResponse.respond(vault),
        "helper": lambda call: (
            HandlerResponse(Letter("bob@else.example", call.payload.text), "post")
            if isinstance(call.payload, Note)
            else None
        ),
        "post": lambda call: HandlerResponse.respond(Note("sent")),
        "web": lambda call: HandlerResponse.respond(Note(PAGE)),
    }
    return Paper(shop, handlers).ask("What opens the safe?", "agent")


def send_after(source, *then):
    """An agent that asks a source, and with its first answer sends messages."""
    left = list(then)

    def handle(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(Ask("all") if source == "vault" else Get(HOME), source)
        if call.metadata.from_id == source and left:
            return HandlerResponse(*left.pop())
        return HandlerResponse.respond(Note("done"))

    return handle


def memory(p) -> Memory:
    return p.conversation.memory["lineage"]


@pytest.mark.parametrize(("to", "sent"), [("kim@desk.example", 1), ("bob@else.example", 0)])
def test_a_listeners_text_goes_to_its_readers_alone(to, sent):
    p = story(send_after("vault", (Letter(to, f"Listen: {SECRET[4:]}"), "post")))
    assert len(p.seen("post")) == sent
    assert errors(p.seen("agent")) == ["denied"] * (1 - sent)


def test_nothing_untrusted_is_needed_for_that():
    p = story(send_after("vault", (Letter("bob@else.example", "44179928"), "post")))
    assert p.seen("post") == []
    assert not memory(p).ledger.texts
    (record,) = [one for one in p.records if one.event is Event.REFUSED]
    assert [(one.rule, one.trail.source) for one in record.detail.findings] == [("readers", "vault")]


def test_a_relay_takes_nothing_along_to_another():
    p = story(send_after("vault", (Note(f"Do tell Bob: {SECRET}"), "helper")))
    assert [type(payload) for payload in p.seen("helper")] == [Note, SystemError]
    assert p.seen("post") == []


@pytest.mark.parametrize(("said", "sent"), [("Safe", 1), ("44179928", 0)])
def test_the_type_of_a_payload_says_who_may_read_its_fields(said, sent):
    policy = replace(BASE, readers=())
    agent = send_after("vault", (Letter("bob@else.example", said), "post"))
    assert len(story(agent, policy, Code("Safe", "4417-9928")).seen("post")) == sent


def test_it_holds_after_a_restart():
    p = story(send_after("vault"))
    kept = restore(take(p.conversation, p.rules.guards), p.rules.guards)
    assert kept.memory["lineage"] == memory(p)
    assert kept.memory["lineage"].ledger.private.pools
    assert not kept.memory["lineage"].clean


def test_a_fetch_carries_nothing_private_in_its_link():
    policy = replace(BASE, allow=("news.example",))
    p = story(send_after("vault", (Get(f"{HOME}?c=44179928"), "web")), policy)
    assert p.seen("web") == []
    assert len(story(send_after("vault", (Get(f"{HOME}?c=1"), "web")), policy).seen("web")) == 1


def follow_links(count):
    """An agent that follows so many links of a page, one after the other."""
    left = [f"{HOME}p{number % 16}" for number in range(count)]

    def handle(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(Get(HOME), "web")
        if call.metadata.from_id == "web" and left:
            return HandlerResponse(Get(left.pop()), "web")
        return HandlerResponse.respond(Note("done"))

    return handle


def test_the_choices_of_a_conversation_are_summed_and_end_at_the_budget():
    p = story(follow_links(4))
    assert len(p.seen("web")) == 1 + 4
    spent = memory(p).ledger.exit_bits
    assert 4 * 5 <= spent <= 4 * 8
    assert len(story(follow_links(100)).seen("web")) <= 1 + 64 // 5
    assert errors(story(follow_links(100)).seen("agent")) == ["denied"]


def at_once(*payloads, to="web"):
    """An agent that reads a page and then sends all of these messages in one result."""

    def handle(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(Get(HOME), "web")
        if isinstance(call.payload, SystemError):
            return HandlerResponse.respond(Note("done"))
        if call.metadata.from_id == "web" and call.metadata.thread_id not in read:
            read.add(call.metadata.thread_id)
            return [HandlerResponse(each, to) for each in payloads]
        return None

    read = set()
    return handle


def test_the_messages_of_one_result_share_the_budget():
    links = [Get(f"{HOME}p{number}") for number in range(16)]
    few = story(at_once(*links[:4]))
    assert len(few.seen("web")) == 1 + 4
    assert 4 * 5 <= memory(few).ledger.exit_bits <= 4 * 8
    many = story(at_once(*links))
    assert len(many.seen("web")) == 1
    assert errors(many.seen("agent")) == ["denied"]


@pytest.mark.parametrize(("messages", "bits"), [(1, 1.0), (3, 2.0)])
def test_what_a_refusal_tells_an_exposed_sender_counts(messages, bits):
    sent = [Get(f"https://evil.example/{number}") for number in range(messages)]
    p = story(at_once(*sent))
    assert memory(p).ledger.exit_bits == bits


def test_refusals_by_different_rules_are_the_same_bytes():
    def told(*agent):
        p = story(send_after("web", *agent), replace(BASE, deny=("denied.example",)))
        return [repr(each) for each in p.seen("agent") if isinstance(each, SystemError)]

    answers = [told((Get(f"https://{host}/p3"), "web")) for host in ("evil.example", "denied.example")]
    assert len(answers[0]) == 1
    assert answers[0] == answers[1]


def test_a_link_to_another_host_is_not_followed():
    p = story(send_after("web", (Get("https://news.example/p3"), "web")))
    assert len(p.seen("web")) == 2
    q = story(send_after("web", (Get("https://evil.example/p3"), "web")))
    assert len(q.seen("web")) == 1
