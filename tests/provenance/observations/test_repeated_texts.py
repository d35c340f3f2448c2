"""A text that repeats a recent one is found by its first occurrence: no verdict changes, and little is indexed."""

from __future__ import annotations

from random import Random

import pytest

from agentserver.provenance import Call, Ledger, Mode, Observation, Policy, explain, judge, leaves
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.labels import Leaf, Role, Standing, Text, TextOrigin
from agentserver.provenance.evidence.leaves import find_typed_keys
from agentserver.provenance.matching import occurs_in_longer_text
from agentserver.provenance.observations import untrusted_texts
from agentserver.provenance.observations.untrusted_texts import UntrustedTexts
from agentserver.provenance.policy.declarations import ArgumentRule, SinkRule

WORDS = ["the vault", "stands open", "mallory@evil.example", "https://news.example/a?b=1", "on 3 May 2027"]
WORDS += [
    "4,711.50",
    "key-4711-a-9",
    "DE44 5001 0517 5407 3249 31",
    "bmV4dCB0dWVzZGF5IGF0IHRoZSBtaWxs",
    "pay it",
]
POLICIES = (
    Policy(mode=Mode.AUDIT),
    Policy(mode=Mode.CONFIRM, sources=("web", "book")),
    Policy(
        mode=Mode.ENFORCE,
        sources=("web",),
        sinks=(
            SinkRule(
                "send",
                (
                    ArgumentRule("to", Role.DESTINATION, ("book.mail",)),
                    ArgumentRule("id", Role.SELECTOR),
                    ArgumentRule("body", Role.PAYLOAD),
                ),
            ),
        ),
    ),
)


def write_page(chosen, run):
    return " ".join(chosen.choices([*WORDS, run, f"{chosen.random():.9f}"], k=chosen.choice([2, 4, 30])))


def write_pages(chosen, run, most):
    """Return texts many of which repeat an earlier one."""
    pages = []
    for _ in range(chosen.randrange(2, most)):
        pages.append(chosen.choice(pages) if pages and chosen.random() < 0.7 else write_page(chosen, run))
    return pages


def cut(chosen, pages):
    page = chosen.choice(pages)
    start = chosen.randrange(len(page))
    return chosen.choice([page, page[start : start + chosen.randrange(1, 200)], chosen.choice(WORDS)])


def outline(verdict):
    """Return the decision with what was found where."""
    return verdict.decision, [(one.rule, one.effect, one.path, one.detail) for one in verdict.findings]


def judge_all(seed, policy, run, most):
    """Judge calls after each part of a conversation."""
    chosen, told = Random(seed), []
    pages = write_pages(chosen, run, most)
    ledger = Ledger().ask(f"read it and send {cut(chosen, pages)} to bob@corp.com")
    for step, page in enumerate(pages):
        source, name = chosen.choice([("web", "text"), ("book", "mail"), ("helper", "note")])
        seen = Observation(source, leaves({name: page, "id": cut(chosen, pages)}), step, float(step))
        ledger = ledger.observe(policy, seen)
        if chosen.random() < 0.4:
            body = {"to": cut(chosen, pages), "id": cut(chosen, pages), "body": cut(chosen, pages)}
            verdict = judge(ledger, policy, Call("send", leaves(body), step))
            before = chosen.randrange(len(ledger.texts) + 1)
            asked = (
                ledger.untrusted.is_filled_only(body["id"]),
                ledger.untrusted.may_contain(body["body"], before),
                occurs_in_longer_text(ledger, body["id"]),
            )
            told.append(((outline(verdict), asked), (verdict.findings, explain(verdict))))
    return told


def judge_both(monkeypatch, conversation):
    """Judge a conversation as usual, and with every text indexed by itself."""
    usual = judge_all(*conversation)
    with monkeypatch.context() as patches:
        patches.setattr(untrusted_texts, "_may_be_repeated", lambda _: False)
        patches.setattr(untrusted_texts, "LONGEST_SCANNED", 0)
        return usual, judge_all(*conversation)


@pytest.mark.parametrize("policy", POLICIES, ids=["audit", "confirm", "enforce"])
@pytest.mark.parametrize("seed", range(20))
def test_no_verdict_changes_because_a_text_was_repeated(policy, seed, monkeypatch):
    conversation = seed, policy, "a run of two dozen letters", 12
    for (one, shown), (other, shown_then) in zip(*judge_both(monkeypatch, conversation), strict=True):
        assert one == other
        assert shown == shown_then


@pytest.mark.parametrize("policy", POLICIES, ids=["audit", "confirm", "enforce"])
@pytest.mark.parametrize("seed", range(10))
def test_beyond_the_candidates_that_are_compared_only_the_evidence_may_be_another(policy, seed, monkeypatch):
    conversation = seed, policy, "x" * 30, 30
    for (one, _), (other, _) in zip(*judge_both(monkeypatch, conversation), strict=True):
        assert one == other


def make_text(number, body):
    return Text(TextOrigin("agent", "note", number), body, Standing.PROSE)


def test_a_repeated_text_takes_no_place_in_the_index_and_is_read_once(monkeypatch):
    read = []
    monkeypatch.setattr(
        untrusted_texts, "find_typed_keys", lambda body: read.append(body) or find_typed_keys(body)
    )
    pages = [f"page {number} says that the vault stands open. " * 10 for number in range(3)]
    known = UntrustedTexts()
    for number in range(300):
        known = known.add_and_index([make_text(number, pages[number % 3])])
        known.index_all()
    assert known.index.size < 2 * sum(map(len, pages))
    assert known.index.texts == 300
    assert sorted(read) == sorted(pages)


def count_repeat(body, monkeypatch):
    """Return the work that a repeated text counts as, and how many bytes were read for it."""
    known = UntrustedTexts().add([make_text(0, body)])
    known.index_all()
    again, read = known.add([make_text(1, body)]), []
    with monkeypatch.context() as patches:
        for name in ("_scan", "_find_kinds", "unwrap"):
            original = getattr(untrusted_texts, name)
            patches.setattr(
                untrusted_texts,
                name,
                lambda text, original=original: read.append(len(text)) or original(text),
            )
        work = again.waiting
        again.index_all()
    return work, sum(read)


def test_a_repeated_text_that_is_read_again_is_work_for_a_thread(monkeypatch):
    page = "the vault stands open behind the old mill tonight. "
    body = page * (untrusted_texts.LONGEST_SCANNED // len(page) + 1)
    work, read = count_repeat(body, monkeypatch)
    assert read >= len(body)
    assert work == len(fold_bytes(body))


def test_a_repeated_text_that_is_full_of_values_is_work_for_a_thread(monkeypatch):
    body = " ".join(f"box{number}@corp{number}.example" for number in range(2000))
    work, read = count_repeat(body, monkeypatch)
    assert read == 0
    assert work > 2 * untrusted_texts.SLICE


def test_a_text_that_came_among_the_latest_ones_is_not_read_again(monkeypatch):
    """However long ago it came for the first time."""
    pages = [f"page {number} says that the vault stands open. " * 10 for number in range(12)]
    known = UntrustedTexts()
    for number in (0, 1, 2, 3, 4, 5, 6, 7, 0, 8, 9):
        known = known.add([make_text(0, pages[number])])
        known.index_all()
    size, read = known.index.size, []
    monkeypatch.setattr(
        untrusted_texts, "find_typed_keys", lambda body: read.append(body) or find_typed_keys(body)
    )
    known = known.add([make_text(0, pages[0])])
    assert known.waiting <= 2 * untrusted_texts.REPEATED
    known.index_all()
    assert (known.index.size, read) == (size, [])


def test_a_text_after_many_repeats_has_its_own_number():
    page = "the vault stands open behind the old mill tonight. " * 8
    known = UntrustedTexts()
    for number in range(50):
        known = known.add([make_text(number, page if number != 40 else "nobody is at the gate before nine")])
        known.index_all()
    found = judge(
        Ledger(untrusted=known),
        Policy(mode=Mode.ENFORCE),
        Call("send", (Leaf("body", "nobody is at the gate before nine"),), 99),
    )
    steps = {finding.evidence.text.origin.step for finding in found.findings if finding.evidence}
    assert steps == {40}
