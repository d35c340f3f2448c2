"""A step costs as much as it changes, in a conversation of ten threads or requests and in one of a thousand."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver import HandlerResponse
from agentserver.core.decide import decisions
from agentserver.core.messages import Delivery
from agentserver.core.state import overlay, siblings
from agentserver.core.state.requests import OpenRequest
from agentserver.core.state.threads import ThreadTree, TreeChange
from tests.core.encoding.test_snapshot import live_conversation
from tests.core.paper import Answer, Ask, Paper, listener, rules
from tests.fuzzing import examples

FEW, MANY = 10, 1000
STEPS = 90
CLOSE = 1.2


def pingpong(threads=0, requests=0):
    """Two listeners that answer each other, in a conversation that holds other threads or requests."""
    shop = rules(
        listener("a", "b", payloads=(Ask, Answer)),
        listener("b"),
        hops=10**6,
        messages=10**6,
        conversation_messages=10**6,
    )
    handlers = {
        "a": lambda call: HandlerResponse(Ask("on"), "b"),
        "b": lambda call: HandlerResponse.respond(Answer("back")),
    }
    paper = Paper(shop, handlers)
    paper.watched = False
    paper.say(Ask("go"), "a")
    before = paper.conversation
    change = TreeChange(before.tree)
    elsewhere = change.open(before.tree.root, "elsewhere", "above").id
    for number in range(threads):
        change.open(elsewhere, "elsewhere", f"t{number}")
    more = {f"q{number}": OpenRequest(f"q{number}", (), 1) for number in range(requests)}
    paper.conversation = before._replace(tree=change.build_result(), requests={**before.requests, **more})
    return paper


def costs(act):
    """The median of the Python calls, and of the bytes needed at most, of one act.

    The collector is off meanwhile: others leave functions with it that it would call in the middle of an act.
    """
    calls, peaks = [], []

    def count(_frame, event, _arg):
        calls[-1] += event == "call"

    gc.disable()
    for _ in range(STEPS):
        calls.append(0)
        sys.setprofile(count)
        act()
        sys.setprofile(None)
    gc.enable()
    tracemalloc.start()
    for _ in range(STEPS):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        act()
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return median(calls), median(peaks)


def delivery(thread):
    return Delivery("d", "c", "r", thread, "root", "a", "b", "{n}x", b"", 1)


def close(few, many):
    assert many[0] <= few[0] * CLOSE
    assert many[1] <= few[1] * CLOSE + (overlay.FEW << 7)


@pytest.mark.parametrize("what", ["threads", "requests"])
def test_a_step_costs_the_same_in_a_large_conversation(what):
    def one(number):
        paper = pingpong(**{what: number})

        def act():
            for _ in "ask", "answer":  # a median of single steps would be that of the one or the other
                asked = paper.conversation, paper.invoke(paper.waiting.pop()), paper.rules, paper.moment()
                paper.apply(decisions.conclude(*asked))
                del paper.outcomes[:], paper.records[:], paper.calls[:]

        return costs(act)

    close(one(FEW), one(MANY))


@pytest.mark.parametrize("resting", [True, False], ids=["on a thread at rest", "on a new one"])
def test_an_outside_message_costs_the_same_among_many_requests(resting):
    def one(number):
        paper = pingpong(requests=number)
        if resting:
            change = TreeChange(paper.conversation.tree)
            change.open(change.tree.root, "b", "resting")
            paper.conversation = paper.conversation._replace(tree=change.build_result())

        def act():
            del paper.outcomes[:], paper.records[:], paper.waiting[:]
            paper.say(Ask("again"), "b", f"again {paper.seeds}")
            paper.conversation = before

        before = paper.conversation
        return costs(act)

    close(one(FEW), one(MANY))


class CountedLooks(dict):
    """Threads, and how many of them are looked at."""

    looks = 0

    def __getitem__(self, key):
        CountedLooks.looks += 1
        return super().__getitem__(key)


def looks(act):
    """The lookups of threads in one act."""
    CountedLooks.looks = 0
    act()
    return CountedLooks.looks


@pytest.mark.parametrize("working", [True, False], ids=["working", "one at rest"])
@pytest.mark.parametrize("below", [True, False], ids=["below", "itself"])
@pytest.mark.parametrize("count", [siblings.FEW + 1, MANY])
def test_an_idle_child_is_found_without_a_scan_of_the_others(count, below, working):
    change = TreeChange(ThreadTree.plant("root", "console"))
    for number in range(count):
        change.open("root", "a", f"t{number}")
        at = change.open(f"t{number}", "b", f"u{number}").id if below else f"t{number}"
        change.put(change.tree.nodes[at]._replace(refusals=1, inbox=(delivery(at),)))
    if not working:
        change.put(change.tree.nodes[at]._replace(inbox=()))
    tree = change.build_result()
    tree = tree._replace(nodes=CountedLooks(tree.nodes))
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentserver.core.state.threads.copy_changeable", CountedLooks)
        again = TreeChange(tree)
        assert looks(lambda: found.append(again.take_resting("root", "a"))) <= 2
    assert (found[0] and found[0].id) == (None if working else f"t{count - 1}")


@settings(max_examples=examples(30))
@given(st.integers(0, 2**32))
def test_decisions_do_not_depend_on_the_representation(seed):
    usual = [outcome._replace(parsed={}, cause=None) for outcome in live_conversation(seed).outcomes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overlay, "FEW", 1)
        patch.setattr(siblings, "FEW", 1)
        overlaid = [outcome._replace(parsed={}, cause=None) for outcome in live_conversation(seed).outcomes]
    assert overlaid == usual
    for one, other in zip(usual, overlaid, strict=True):
        assert list(one.conversation.tree.nodes) == list(other.conversation.tree.nodes)
