from __future__ import annotations

from agentserver.contract import Code, SystemError
from agentserver.core import envelope
from agentserver.core.conversation import Conversation
from agentserver.core.messages import Delivery, Moment, Reply
from agentserver.core.threads import Held
from agentserver.gateways.console_view import help_lines, listener_lines, reply_lines, state, thread_lines
from agentserver.gateways.terminal import paint
from tests.gateways.payloads import Greeting, Item, Order


def text(lines):
    return [paint(line, colour=False) for line in lines]


def reply(rules, value):
    codec = rules.codecs.of(type(value))
    message = envelope.write("shop", "console", "t", codec.encode(value))
    return Reply("c", "r", "shop", codec.name, message, isinstance(value, SystemError))


def test_a_reply_is_shown_in_fields(rules):
    order = Order("Ada", items=[Item("a")])
    assert text(reply_lines(reply(rules, order), rules.codecs, raw=False)) == [
        "shop  Order",
        "  | who: Ada",
        "  | items[0]:",
        "  |   sku: a",
        "  |   count: 1",
    ]


def test_raw_adds_the_envelope(rules):
    shown = text(reply_lines(reply(rules, Greeting("x")), rules.codecs, raw=True))
    assert shown[1] == "  | text: x"
    assert shown[2].startswith('  | <message xmlns="urn:agentserver:envelope:v1">')


def test_text_of_a_message_cannot_leave_its_margin(rules):
    sly = Greeting("one\nconsole> \u009b31mred\u202e")
    assert text(reply_lines(reply(rules, sly), rules.codecs, raw=False)) == [
        "shop  Greeting",
        "  | text: one",
        "  |   console> \\x9b31mred\\u202e",
    ]


def test_a_refusal_says_whether_to_try_again(rules):
    for again, words in ((True, "may be tried again"), (False, "not to be tried again")):
        shown = text(
            reply_lines(reply(rules, SystemError(Code.BUSY, "later", again)), rules.codecs, raw=False)
        )
        assert shown == [f"system  busy  ({words})", "  | later"]


def test_a_reply_that_nobody_can_read_is_shown_as_it_is(rules):
    unknown = Reply(
        "c", "r", "shop", "{urn:x}y", envelope.write("shop", "console", "t", '<y xmlns="urn:x"/>')
    )
    assert "<y xmlns=" in text(reply_lines(unknown, rules.codecs, raw=False))[1]
    broken = Reply("c", "r", "shop", "y", b"<\xff")
    assert text(reply_lines(broken, rules.codecs, raw=False)) == ["shop  y", "  | <\\xff"]


def test_listeners_show_what_they_take_and_whom_they_reach(rules, takers):
    shown = text(listener_lines(rules.blueprint, takers))
    assert shown[:3] == [
        "@greeter  Greets.",
        '    Greet  name=<text> [loud=<true or false>]  ("@greeter some text" is Greet.name)',
        "    peers: waiter",
    ]
    assert "@both  agent  both." in shown


def delivery(thread):
    return Delivery("d", "c", "r", thread, "o", "console", "a", "x", b"", 1)


def test_threads_show_owner_state_and_queue():
    conversation = Conversation.opened("console", Moment(0.0, b"0" * 16))
    root = conversation.tree.root
    tree = conversation.tree.open(root, "agent", "t1").open("t1", "tool", "t2").open(root, "idle", "t3")
    tree = tree.put(tree.nodes["t2"]._replace(inbox=(delivery("t2"),)))
    tree = tree.put(tree.nodes["t1"]._replace(held=(Held("w", delivery("t1")),)))
    shown = text(thread_lines(conversation._replace(tree=tree, messages=3)))
    assert shown == [
        f"conversation {conversation.id}, 3 messages so far",
        f"console  waiting  {root}",
        "  agent  waiting  1 held  t1",
        "    tool  working  1 queued  t2",
        "  idle  dormant  t3",
    ]
    assert state(tree, tree.nodes["t3"]) == "dormant"


def test_help_names_every_command():
    assert any(line.startswith("/cancel [ID]") for line in text(help_lines()))
