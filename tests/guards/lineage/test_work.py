"""A hop between listeners that nobody declared costs the same however long the conversation is: counted, not timed."""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter
from dataclasses import fields, replace
from random import Random
from statistics import median

import pytest

from agentserver import HandlerResponse
from agentserver.core.blueprint import Limits
from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.policy.declarations import Policy
from tests.core.paper import Ask, Note, listener
from tests.guards.lineage.test_indexing import StoringPaper
from tests.guards.lineage.watched import watch_listeners

OWN = "please look up what the weather is like in Aarhus"
LONG = f"{OWN}; " * 80
CALLS = {"own": 420, "new": 640, "long": 445}
"""Calls of Python functions that a step takes at most; some more than it took when this was written."""
BUDGETS = ("hops", "messages", "queue", "principal", "conversation")
"""What the names of limits begin with that a long conversation would reach."""


def count_calls(paper):
    """Calls of Python functions in one step."""
    seen = Counter()
    sys.setprofile(lambda _, event, __: seen.update([event]))
    paper.step()
    sys.setprofile(None)
    return seen["call"]


def count_bytes(paper):
    """Bytes that one step holds at most beside those from before it."""
    tracemalloc.start()
    paper.step()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return held


def count_work(paper):
    """The work of a step in the middle of many, since indexes are built with some of them."""
    return [median(count(paper) for _ in range(40)) for count in (count_calls, count_bytes)]


def talk(words):
    """Two listeners that say the principal's own words to each other, many or few, or new ones, for ever."""
    said, own = Random(1), LONG if words == "long" else OWN

    def say(call):
        text = " ".join(f"{said.randrange(10**8):x}" for _ in range(8)) if words == "new" else own
        answer = call.metadata.from_id == "a"
        return HandlerResponse.respond(Note(text)) if answer else HandlerResponse(Note(text), "b")

    rules = watch_listeners(
        Policy(mode=Mode.AUDIT),
        listener("a", "b", payloads=(Ask, Note)),
        listener("b", payloads=(Note,)),
        payloads=(Ask, Note),
    )
    budgets = {each.name: 1 << 40 for each in fields(Limits) if each.name.startswith(BUDGETS)}
    blueprint = replace(rules.blueprint, limits=replace(rules.blueprint.limits, **budgets))
    paper = StoringPaper(replace(rules, blueprint=blueprint), {"a": say, "b": say})
    paper.watched = False
    paper.say(Ask(own), "a")
    return paper


@pytest.mark.parametrize("words", ["new", "own", "long"])
def test_a_hop_between_undeclared_listeners_costs_the_same_after_a_thousand(words):
    paper = talk(words)
    for _ in range(100):
        paper.step()
    early = count_work(paper)
    for _ in range(900):
        paper.step()
    late = count_work(paper)
    assert late[0] <= early[0] * 1.05
    assert late[1] <= early[1] * 1.25
    assert late[0] <= CALLS[words]
