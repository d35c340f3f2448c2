"""What holds for every guard of a program, whatever it answers or raises, and for every conversation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.guards import Guard, ask, deny, note
from agentserver.guards.hosting import host_guards
from agentserver.history import export
from agentserver.history.replay import replay
from tests.core.decide.test_decisions_laws import ASKING, SHOP
from tests.fuzzing import examples
from tests.history import test_replay_laws as laws
from tests.history.test_replay_laws import story

STRICTER = ("let through", "let through with a note", "asked about", "blocked")
"""The treatments of a message, each stricter than the one before."""


@dataclass(frozen=True)
class Whimsical(Guard):
    """Answers by a digest of all that it is shown: the same to the same, and anything at all."""

    seed: int

    def observe(self, message, memory):
        self._whim("observe", message)
        return [*(memory or []), message.to][-3:]

    def judge(self, message, memory):
        return self._whim("judge", message, memory)

    def _whim(self, *about):
        shown = [
            (one.sender, one.to, one.thread, one.root, one.at) if hasattr(one, "sender") else one
            for one in about
        ]
        number = sha256(repr((self.seed, shown)).encode()).digest()[0]
        if number < 10:
            raise [ValueError("whim"), SystemExit(1), RecursionError(), KeyError("whim")][number % 4]
        choices = [
            None,
            None,
            None,
            note("seen"),
            ask("may it?"),
            ask("may it?", ["it"]),
            deny("no"),
            True,
            "pass",
            self,
        ]
        return choices[number % len(choices)] if about[0] == "judge" else None


def add_guards(rules, seed):
    theirs = host_guards({"whimsical": Whimsical(seed)}, rules.codecs, rules.blueprint.listeners)
    return replace(rules, guards=(*rules.guards, *theirs))


both = pytest.mark.parametrize("rules", [SHOP, ASKING], ids=["nobody is asked", "somebody is asked"])
seeds = st.integers(0, 2**32)


@both
@settings(max_examples=examples(60))
@given(seeds, seeds)
def test_a_guard_of_a_program_only_makes_the_rules_stricter(rules, seed, whim):
    report = laws.compare_what_if(story(seed, rules), rules, add_guards(rules, whim))
    assert report.lost is None
    for one in report.differences:
        assert STRICTER.index(one.now) >= STRICTER.index(one.recorded), one


@both
@settings(max_examples=examples(60))
@given(seeds, seeds)
def test_a_guard_of_a_program_is_replayed_alike(rules, seed, whim):
    strict = add_guards(rules, whim)
    told = story(seed, strict)
    assert replay(told, strict) is None
    assert replay(export.load(export.dump(told)), strict) is None
