"""Claims of external effects: who may claim and conclude one, and when its outcome is unknown."""

from __future__ import annotations

import pytest

from agentserver.core.decide import ledger
from agentserver.core.messages import ClaimRequest, ConcludeRequest, EffectVerdict
from agentserver.core.state.ledger import EffectState
from tests.core.paper import Ask, Paper, listener, rules


@pytest.fixture
def paper():
    """A conversation in which `a` has a message and has not answered."""
    made = Paper(rules(listener("a")), {})
    made.say(Ask("hi"), "a")
    return made


def claim(paper, key="k", delivery=None):
    asked = ClaimRequest(delivery or paper.waiting[0], key, 1)
    outcome = ledger.claim(paper.conversation, asked, paper.rules, paper.moment())
    if outcome is not None:
        paper.conversation = outcome.conversation
    return ledger.find(paper.conversation, asked)


def conclude(paper, effect, answer, delivery=None):
    done = ConcludeRequest(delivery or paper.waiting[0], effect.id, answer)
    outcome = ledger.conclude(paper.conversation, done, paper.rules, paper.moment())
    if outcome is not None:
        paper.conversation = outcome.conversation
    return outcome


def test_a_claimed_effect_is_done_once_and_a_second_claim_makes_it_unknown(paper):
    first = claim(paper)
    assert first.state is EffectState.CLAIMED
    assert claim(paper).state is EffectState.UNKNOWN
    other = claim(paper, "other")
    assert conclude(paper, other, '"done"') is not None
    done = claim(paper, "other")  # changes nothing
    assert (done.state, done.answer, done.label) == (EffectState.DONE, '"done"', "untrusted")
    assert conclude(paper, done, '"again"') is None


def test_a_withdrawn_claim_leaves_nothing(paper):
    effect = claim(paper)
    assert conclude(paper, effect, None) is not None
    assert paper.conversation.ledger == {}


def test_only_the_running_invocation_claims_and_concludes(paper):
    ended = paper.waiting[0]._replace(id="another")
    assert claim(paper, delivery=ended) is None
    assert "has ended" in ledger.find_objection(paper.conversation, ClaimRequest(ended, "k", 1))
    effect = claim(paper)
    assert conclude(paper, effect, "1", delivery=ended) is None
    assert conclude(paper, effect, "1", delivery=paper.waiting[0]._replace(attempt=7)) is None
    assert conclude(paper, effect, "1", delivery=paper.waiting[0]._replace(to="b")) is None


def test_a_full_ledger_takes_no_further_effect_and_still_knows_its_own(paper, monkeypatch):
    monkeypatch.setattr(ledger, "MOST_EFFECTS", 1)
    claim(paper)
    assert claim(paper, "more") is None
    asked = ClaimRequest(paper.waiting[0], "more", 1)
    assert "holds 1 effects" in ledger.find_objection(paper.conversation, asked)
    assert ledger.find_objection(paper.conversation, asked._replace(key="k")) == ""


def test_a_verdict_counts_for_an_unknown_effect_alone(paper):
    effect = claim(paper)
    verdict = EffectVerdict(effect.id, '"seen"', "ada")
    assert ledger.settle(paper.conversation, verdict, paper.rules, paper.moment()) is None
    claim(paper)
    settled = ledger.settle(paper.conversation, verdict, paper.rules, paper.moment()).conversation
    assert settled.ledger[effect.id].answer == '"seen"'
    dropped = ledger.settle(
        paper.conversation, verdict._replace(answer=None), paper.rules, paper.moment()
    ).conversation
    assert dropped.ledger == {}
