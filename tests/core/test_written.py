from __future__ import annotations

from agentserver.core.conversation import Conversation
from agentserver.core.messages import Moment
from agentserver.core.threads import TreeChange
from agentserver.core.written import CONVERSATIONS, LARGE, Written


def conversation(number, threads=LARGE):
    opened = Conversation.opened("p", Moment(0.0, number.to_bytes(16, "big")))
    change = TreeChange(opened.tree)
    for thread in range(threads - 1):
        change.open(opened.tree.root, "a", str(thread))
    return opened._replace(tree=change.result())


def test_a_large_conversation_is_remembered_until_it_closes():
    written, large = Written(), conversation(1)
    written.of(large)["x"] = "y"
    assert written.of(large) == {"x": "y"}
    assert written.of(large._replace(closed=True)) == {}
    assert written.of(large) == {}


def test_a_small_one_is_not():
    written, small = Written(), conversation(1, LARGE - 1)
    written.of(small)["x"] = "y"
    assert written.of(small) == {}


def test_only_those_written_last_are_remembered():
    written, many = Written(), [conversation(number) for number in range(CONVERSATIONS + 1)]
    for one in many:
        written.of(one)["x"] = one.id
    assert written.of(many[0]) == {}
    assert written.of(many[-1]) == {"x": many[-1].id}
