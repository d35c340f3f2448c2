"""What guards remember is part of the conversation: committed with a step, or not at all."""

from __future__ import annotations

from lxml import etree

from agentserver import HandlerResponse
from agentserver.contract import Code
from agentserver.core.guard import DenyVerdict
from tests.core.paper import Answer, Ask, Paper, errors, listener, rules


class Taint:
    """Remembers every payload that a listener was given, and lets nothing go to a sink once it has seen poison."""

    name = "taint"

    def observe(self, memory, delivery, element, at):
        return (*(memory or ()), (delivery.to, element[0].text))

    def judge(self, memory, proposal, at):
        poisoned = any(text == "poison" for _, text in memory or ())
        return DenyVerdict(Code.DENIED, "poison") if poisoned and proposal.to == "sink" else None


def paper(a, **limits):
    shop = rules(
        listener("a", "b", "sink", retries=1), listener("b"), listener("sink"), guards=[Taint()], **limits
    )
    answering = {
        name: lambda c: HandlerResponse.respond(Answer(f"re: {c.payload.text}")) for name in ("b", "sink")
    }
    return Paper(shop, {"a": a, **answering})


def test_conversations_in_which_no_guard_remembers_anything_share_one_memory():
    shop = rules(listener("a"))
    one, other = (Paper(shop, {}).conversation for _ in range(2))
    assert shop.recall(one) == {"peers": None}
    assert shop.recall(one) is shop.recall(other)


def test_inputs_of_one_listener_count_for_the_others():
    def a(call):
        if call.payload == Ask("hi"):
            return HandlerResponse(Ask("poison"), "b")
        return HandlerResponse(Ask("x"), "sink") if isinstance(call.payload, Answer) else None

    p = paper(a).ask()
    assert p.conversation.memory["taint"][:2] == (("a", "hi"), ("b", "poison"))
    assert errors(p.seen("a")) == ["denied"]


def test_an_outside_message_is_judged_by_everything_seen_in_the_conversation():
    p = paper(lambda c: None).ask("poison")
    p.say(Ask("x"), "sink")
    assert errors(p.replies) == ["denied"]


def test_guards_observe_the_inputs_of_a_listener_before_its_crash():
    def a(call):
        raise RuntimeError

    p = paper(a)
    p.say(Ask("poison"), "a")
    p.step()
    assert p.conversation.memory == {"taint": (("a", "poison"),)}
    p.run()
    assert set(p.conversation.memory["taint"]) == {("a", "poison")}
    assert len(p.seen("a")) == 2
    p.say(Ask("x"), "sink")
    assert errors(p.replies)[-1:] == ["denied"]


class Tracer:
    """Tells its memory, the payload's text and the principal of a message, for listeners that keep notes."""

    name = "tracer"
    keepers = frozenset({"notes"})

    def observe(self, memory, delivery, element, at):
        return (memory or 0) + 1

    def judge(self, memory, proposal, at):
        return None

    def origins(self, memory, delivery, element):
        return (memory, element[0].text)

    def describe_lineage(self, memory, delivery, element, principal):
        return (memory, element[0].text, principal)


def waiting_for(name, *guards):
    """Hand a message to a listener, and return the conversation in which it waits, its delivery and the rules."""
    shop = rules(listener("notes"), listener("desk"), guards=guards)
    p = Paper(shop, {})
    p.say(Ask("hi"), name)
    (delivery,) = p.waiting
    return p.conversation, delivery, shop


def test_the_origins_of_a_waiting_message_are_asked_of_the_guard_that_traces_values():
    conversation, delivery, shop = waiting_for("desk", Tracer())
    assert shop.origins(conversation, delivery) == (None, "hi")
    conversation, delivery, shop = waiting_for("desk", Taint())
    assert shop.origins(conversation, delivery) is None


def test_only_a_message_to_a_listener_that_keeps_notes_has_its_origin_described():
    for name, expected in (("notes", (None, "hi", "console")), ("desk", None)):
        conversation, delivery, shop = waiting_for(name, Tracer())
        element = shop.codecs.of(Ask).encode(Ask("hi"))
        read = etree.fromstring(element)
        assert shop.describe_lineage(conversation, delivery, read) == expected
    assert {name for name, one in shop.receptions.items() if one.keeps} == {"notes"}
