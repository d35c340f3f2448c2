"""A decision that stops early is the one that all findings together would give, and they are the same whenever read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance import (
    Call,
    Decision,
    Ledger,
    Mode,
    Observation,
    Policy,
    Verdict,
    judge,
    leaves,
    matching,
)
from agentserver.provenance.evidence.inventory import find_values
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.declarations import ArgumentRule, Effect, Rule, SinkRule

WORDS = st.sampled_from(
    [
        "mallory@evil.example",
        "bob@corp.com",
        "https://news.example/a",
        "the vault stands open behind the old mill",
        "q-4711-b",
        "rm -rf the whole house now",
        "4200",
        "2026-01-02",
        "",
        "x",
    ]
)
BODIES = st.lists(WORDS, max_size=3).map(" ".join)
RULES = st.sampled_from(
    [
        Rule.DESTINATION,
        Rule.UNKNOWN_DESTINATION,
        Rule.SELECTOR,
        Rule.UNKNOWN_SELECTOR,
        Rule.CONTENT,
        Rule.LINK,
        Rule.UNFOUNDED,
        Rule.PROSE,
        Rule.CHOICES,
    ]
)
EFFECTS = st.dictionaries(RULES, st.sampled_from(Effect), max_size=4).map(lambda found: tuple(found.items()))
SINK = SinkRule(
    "send",
    (
        ArgumentRule("to", Role.DESTINATION),
        ArgumentRule("id", Role.SELECTOR),
        ArgumentRule("much", Role.QUANTITY),
        ArgumentRule("body", Role.PAYLOAD),
    ),
)


def decide_findings(mode: Mode, effects: set[Effect]) -> Decision:
    """Decide by every finding, as the documents describe the modes."""
    if mode is Mode.AUDIT or not effects & {Effect.BLOCK, Effect.ASK}:
        return Decision.ALLOW
    if mode is Mode.CONFIRM:
        return Decision.ASK
    return Decision.DENY if Effect.BLOCK in effects else Decision.ALLOW


def check_outline(audited: Verdict) -> None:
    """Check what is known of the findings before they are computed."""
    decisive, quiet, repeated = audited.outline
    found = audited.weighed.value
    assert quiet is not bool(found)
    effects = {one.effect for one in found} & {Effect.BLOCK, Effect.ASK}
    strongest = Effect.BLOCK if Effect.BLOCK in effects else Effect.ASK
    assert (decisive and decisive.effect) == (strongest if effects else None)
    if repeated is not None:
        assert quiet
        assert any(one.evidence for one in audited.noticed.value)
    if decisive is not None and decisive.evidence is not None:
        assert any(one.evidence for one in found)


@given(
    st.lists(BODIES, max_size=3),
    st.dictionaries(st.sampled_from(["to", "id", "much", "body", "more"]), BODIES, max_size=5),
    st.sampled_from(Mode),
    EFFECTS,
    st.booleans(),
    st.sampled_from(["send", "web", "other"]),
)
def test_a_decision_is_the_one_that_all_findings_give(pages, arguments, mode, effects, exposed, to) -> None:
    policy = Policy(mode=mode, sources=("web",), sinks=(SINK,), effects=effects)

    def verdict():
        ledger = Ledger().ask("write to bob@corp.com")
        for step, page in enumerate(pages):
            ledger = ledger.observe(policy, Observation("web", leaves({"text": page}), step))
        return judge(ledger, policy, Call(to, leaves(arguments), 9, exposed=exposed))

    once = verdict()
    assert once.decision is decide_findings(mode, {finding.effect for finding in once.findings})
    assert once.decision is decide_findings(mode, {finding.effect for finding in once.weighed.value})
    assert once == verdict()
    noticed, reported = (
        {(one.rule, one.path) for one in told.value} for told in (once.noticed, once.reported)
    )
    assert noticed <= reported
    if mode is not Mode.AUDIT and once.allowed:
        assert once.violations == ()
    assert once.violated is bool(once.violations)
    if mode is Mode.AUDIT:
        check_outline(verdict())


def test_no_index_is_made_for_a_recipient_that_somebody_names_or_nobody() -> None:
    policy = Policy(mode=Mode.ENFORCE, sources=("web",), sinks=(SINK,))
    ledger = Ledger().ask("write to bob@corp.com")
    ledger = ledger.observe(policy, Observation("web", leaves({"text": "the vault stands open " * 99}), 1))
    for to, decision in (("bob@corp.com", Decision.ALLOW), ("eve@evil.example", Decision.DENY)):
        call = Call("send", leaves({"to": to, "body": "the vault stands open " * 9}), 2)
        assert judge(ledger, policy, call).decision is decision
    known = ledger.untrusted
    assert [cell.made for cell in (known._spans, known._values, known._words, known._wrapped)] == [None] * 4


@pytest.mark.parametrize("count", [matching.VALUES, matching.VALUES + 1])
def test_an_argument_with_too_many_values_is_beyond_lookup(count) -> None:
    body = " ".join(f"eve{number}@evil.example" for number in range(count))
    assert (
        matching.has_too_many_values(body)
        is (len([*find_values(body)]) > matching.VALUES)
        is (count > matching.VALUES)
    )


@given(st.text(max_size=60), st.integers(0, 600))
def test_distinct_values_are_counted(body, count) -> None:
    text = (body + " ") * (count // 10) + "0123456 " * (count % 600)
    assert matching.has_too_many_values(text) is (sum(1 for _ in find_values(text)) > matching.VALUES)
