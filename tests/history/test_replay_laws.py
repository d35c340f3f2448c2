"""What holds for every conversation, whatever its listeners did."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.contract import Code
from agentserver.core.decide import decisions
from agentserver.core.guard import DenyVerdict
from agentserver.history import export
from agentserver.history.policy_diff import Disposition, compare_what_if
from agentserver.history.replay import replay
from tests.core.decide.test_decisions_laws import ASKING, SHOP, answer, whims
from tests.core.paper import Ask, Note, Paper
from tests.engines.stories import story_of
from tests.fuzzing import examples


class Nothing:
    """Denies every message."""

    name = "nothing"

    def observe(self, memory, delivery, element, at):
        return (memory or 0) + 1

    def approve(self, memory, about):
        return memory

    def judge(self, memory, proposal, at):
        return DenyVerdict(Code.DENIED, "nothing at all")


both = pytest.mark.parametrize("rules", [SHOP, ASKING], ids=["nobody is asked", "somebody is asked"])


def story(seed, rules):
    """A conversation of listeners that follow their whims, and of a person who does the same."""
    random = Random(seed)
    paper = Paper(rules, whims(random))
    for _ in range(2):
        paper.say(*random.choice([(Ask("go"), "a"), (Ask("go"), "b"), (Note("go"), None)]))
        for _ in range(40):
            if paper.waiting:
                paper.step(random.randrange(len(paper.waiting)))
            if paper.conversation.approvals() and random.random() < 0.3:
                answer(paper, random)
    if random.random() < 0.5:
        paper.apply(decisions.close(paper.conversation, paper.rules, paper.moment(), "test"))
    return story_of(paper)


@both
@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_every_conversation_is_decided_again_as_it_was_also_from_a_file(rules, seed):
    told = story(seed, rules)
    assert replay(told, rules) is None
    assert replay(export.load(export.dump(told)), rules) is None


@both
@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_the_same_rules_never_say_anything_else(rules, seed):
    told = story(seed, rules)
    report = compare_what_if(told, rules, rules)
    assert not report.differs
    assert report.steps == len(told.steps)


@both
@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_rules_that_deny_everything_would_have_blocked_every_message(rules, seed):
    told = story(seed, rules)
    report = compare_what_if(told, rules, replace(rules, guards=(Nothing(),)))
    assert report.lost is None
    assert {one.now for one in report.differences} == {Disposition.BLOCKED}
    same = compare_what_if(told, rules, rules)
    passed = [one[:5] for one in same.differences if one.recorded is not Disposition.BLOCKED]
    assert passed == [one[:5] for one in report.differences if one.differs and one.root]
