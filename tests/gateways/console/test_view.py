from __future__ import annotations

from dataclasses import dataclass

from agentserver import xmlify
from agentserver.contract import Code, SystemError
from agentserver.core.messages import Delivery, Reply
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.siblings import Siblings
from agentserver.core.state.threads import HeldDelivery, Thread, ThreadTree
from agentserver.gateways.console.view import (
    describe_state,
    format_help_lines,
    format_listener_lines,
    format_reply_lines,
    format_thread_lines,
)
from agentserver.payload.codec import Codecs
from agentserver.trace.terminal import format_paint
from agentserver.wire import envelope
from tests.gateways.payloads import Greeting, Item, Order


def text(lines):
    return [format_paint(line, colour=False) for line in lines]


def reply(rules, value):
    codec = rules.codecs.of(type(value))
    message = envelope.write("shop", "console", "t", codec.encode(value))
    return Reply("c", "r", "shop", codec.name, message, isinstance(value, SystemError))


def test_a_reply_is_shown_in_fields(rules):
    order = Order("Ada", items=[Item("a")])
    assert text(format_reply_lines(reply(rules, order), rules.codecs, raw=False)) == [
        "shop  Order",
        "  | who: Ada",
        "  | items[0]:",
        "  |   sku: a",
        "  |   count: 1",
    ]


def test_raw_adds_the_envelope(rules):
    shown = text(format_reply_lines(reply(rules, Greeting("x")), rules.codecs, raw=True))
    assert shown[1] == "  | text: x"
    assert shown[2].startswith('  | <message xmlns="urn:agentserver:envelope:v1">')


def test_text_of_a_message_cannot_leave_its_margin(rules):
    sly = Greeting("one\nconsole> \u009b31mred\u202e")
    assert text(format_reply_lines(reply(rules, sly), rules.codecs, raw=False)) == [
        "shop  Greeting",
        "  | text: one",
        "  |   console> \\x9b31mred\\u202e",
    ]


def test_a_refusal_says_whether_to_try_again(rules):
    for again, words in ((True, "may be tried again"), (False, "not to be tried again")):
        shown = text(
            format_reply_lines(reply(rules, SystemError(Code.BUSY, "later", again)), rules.codecs, raw=False)
        )
        assert shown == [f"shop  busy  ({words})", "  | later"]


def test_an_unreadable_reply_is_shown_unchanged(rules):
    unknown = Reply(
        "c", "r", "shop", "{urn:x}y", envelope.write("shop", "console", "t", '<y xmlns="urn:x"/>')
    )
    assert "<y xmlns=" in text(format_reply_lines(unknown, rules.codecs, raw=False))[1]
    broken = Reply("c", "r", "shop", "y", b"<\xff")
    assert text(format_reply_lines(broken, rules.codecs, raw=False)) == ["shop  y", "  | <\\udcff"]


def test_listeners_are_shown_with_their_payloads_and_peers(rules, takers):
    shown = text(format_listener_lines(rules.blueprint, takers))
    assert shown[:3] == [
        "@greeter  Greets.",
        '    Greet  name=<text> [loud=<true or false>]  ("@greeter some text" is Greet.name)',
        "    peers: waiter",
    ]
    assert "@both  agent  both." in shown


def delivery(thread):
    return Delivery("d", "c", "r", thread, "o", "console", "a", "x", b"", 1)


def test_threads_show_owner_state_and_queue():
    threads = [
        Thread("t0", "console", None, 0, children=Siblings(["t1", "t3"])),
        Thread(
            "t1",
            "agent",
            "t0",
            1,
            children=Siblings(["t2"]),
            held_deliveries=(HeldDelivery("w", delivery("t1")),),
        ),
        Thread("t2", "tool", "t1", 2, inbox=(delivery("t2"), delivery("t2"))),
        Thread("t3", "idle", "t0", 3),
    ]
    tree = ThreadTree("t0", {thread.id: thread for thread in threads})
    shown = text(format_thread_lines(Conversation("c", "console", tree, messages=3)))
    assert shown == [
        "conversation c, 3 messages so far",
        "console  waiting  t0",
        "  agent  waiting  1 held  t1",
        "    tool  working  1 queued  t2",
        "  idle  dormant  t3",
    ]
    assert describe_state(tree, tree.nodes["t3"]) == "dormant"


@xmlify(example={"number": 2})
@dataclass(frozen=True)
class Even:
    number: int

    def __post_init__(self):
        if self.number % 2:
            raise ValueError


def test_a_reply_that_its_class_refuses_is_shown_as_it_is():
    codecs = Codecs([Even])
    codec = codecs.of(Even)
    odd = envelope.write("shop", "console", "t", codec.encode(Even(2)).replace("2", "3"))
    shown = text(format_reply_lines(Reply("c", "r", "shop", codec.name, odd), codecs, raw=False))
    assert "<number>3</number>" in shown[1]


def test_help_names_every_command():
    assert any(line.startswith("/cancel [ID]") for line in text(format_help_lines()))


def test_a_spent_budget_says_how_to_continue(rules):
    spent = SystemError(Code.BUDGET, "spent", retry_allowed=False)
    (*_, advice) = text(format_reply_lines(reply(rules, spent), rules.codecs, raw=False))
    assert "limits.messages" in advice
    assert "/new" in advice
