"""A message is indexed once, a long one before the decision that needs it, and no pattern is made without a reason."""

from __future__ import annotations

import pytest

from agentserver import HandlerResponse
from agentserver.core.decide import decisions
from agentserver.core.pieces import run_pieces
from agentserver.core.records.audit import Event
from agentserver.guards.lineage.guard import LineageGuard
from agentserver.guards.lineage.reading import ElementReader
from agentserver.provenance import arrays
from agentserver.provenance.evidence import authority
from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.judging import authority as judging
from agentserver.provenance.ledger import Ledger
from agentserver.provenance.observations import untrusted_texts
from agentserver.provenance.policy.declarations import Effect, Policy, Rule
from agentserver.provenance.request import trusted_words
from agentserver.provenance.request.trusted_words import TrustedWords
from agentserver.pump.parsing import ParsedPayloads
from tests.core.paper import Ask, Note, Paper, listener
from tests.guards.lineage.watched import watch_listeners

NOBODY = Policy(mode=Mode.AUDIT)
SEARCHED = Policy(mode=Mode.AUDIT, effects=((Rule.CONTENT, Effect.ASK), (Rule.UNFOUNDED, Effect.REPORT)))
"""Content is searched, since nothing decides a call before that."""
DECLARED = Policy(mode=Mode.ENFORCE, sources=("web",), relays=("agent",))


class OncePaper(Paper):
    """Takes each step once, and does first what the guards want done before it."""

    def __init__(self, rules, handlers, indexed):
        super().__init__(rules, handlers)
        self.indexed = indexed
        self.early: list[list[str]] = []
        self.late: list[list[str]] = []

    def conclude(self, finished):
        self.indexed.clear()
        moment = self.moment()
        work = self.rules.prepare(self.conversation, finished, moment)
        if work is not None:
            work()
        self.early.append([*self.indexed])
        self.indexed.clear()
        outcome = self.apply(
            run_pieces(decisions.conclude_in_pieces(self.conversation, finished, self.rules, moment))
        )
        self.late.append([*self.indexed])
        return outcome


@pytest.fixture
def indexed_texts(monkeypatch):
    """List the texts whose spans were indexed."""
    found: list[str] = []
    index = untrusted_texts._extend_spans

    def watch(known, bodies):
        found.extend(bodies)
        return index(known, bodies)

    monkeypatch.setattr(untrusted_texts, "_extend_spans", watch)
    return found


def talk(policy, page, indexed, kind=None):
    """An agent reads a page, tells a helper about it, and answers."""

    def agent(call):
        if isinstance(call.payload, Ask):
            return HandlerResponse(Ask("read"), "web")
        if call.metadata.from_id == "web":
            return HandlerResponse(Note(f"I have read {len(page)} characters for you"), "helper")
        return HandlerResponse.respond(call.payload)

    listeners = [
        listener("agent", "web", "helper", payloads=(Ask, Note)),
        listener("web"),
        listener("helper", payloads=(Note,)),
    ]
    handlers = {
        "agent": agent,
        "web": lambda _: HandlerResponse.respond(Note(page)),
        "helper": lambda _: HandlerResponse.respond(Note("thank you for telling me this")),
    }
    rules = watch_listeners(policy, *listeners, payloads=(Ask, Note))
    paper = kind(rules, handlers) if kind else OncePaper(rules, handlers, indexed)
    paper.ask("Read the page and tell the helper.", "agent")
    return paper


def test_text_indexed_to_judge_a_message_is_not_indexed_again_on_arrival(indexed_texts):
    page = "the vault stands open behind the old mill tonight"
    paper = talk(SEARCHED, page, indexed_texts)
    looked = [body for step in paper.late for body in step]
    assert page in looked
    assert sorted(looked) == sorted(set(looked))


def test_a_text_that_its_own_sender_repeats_is_judged_without_an_index(indexed_texts):
    paper = talk(NOBODY, "the vault stands open behind the old mill tonight", indexed_texts)
    assert paper.late == [[]] * len(paper.late)
    flagged = [record for record in paper.records if record.event is Event.FLAGGED]
    assert flagged
    assert all(record.noted.outline.tainted for record in flagged)


@pytest.mark.parametrize("policy", [NOBODY, DECLARED], ids=["nobody declared", "declared"])
def test_a_long_message_is_indexed_before_the_decision(policy, indexed_texts):
    page = "".join(f"sentence {number} of a page that is rather long. " for number in range(1000))
    paper = talk(policy, page, indexed_texts)
    assert sum(early.count(page) for early in paper.early) == 1
    assert all(page not in late for late in paper.late)


def test_a_short_message_is_indexed_in_the_decision(indexed_texts):
    paper = talk(DECLARED, "a short page about nothing in particular", indexed_texts)
    assert paper.early == [[]] * len(paper.early)


def test_arrays_are_imported_before_the_first_decision_and_once(indexed_texts, monkeypatch):
    monkeypatch.setattr(arrays, "np", type(arrays.np)())
    worked: list[bool] = []
    prepare = LineageGuard.prepare

    def watch(guard, memory, finished, at):
        work = prepare(guard, memory, finished, at)
        worked.append(work is not None)
        return work

    monkeypatch.setattr(LineageGuard, "prepare", watch)
    talk(DECLARED, "a short page about nothing in particular", indexed_texts)
    assert worked == [True] + [False] * (len(worked) - 1)
    assert arrays.is_numpy_imported()


def test_indexing_in_a_thread_changes_no_decision(indexed_texts):
    page = "".join(f"sentence {number} of a page, see https://a.example/{number}. " for number in range(1000))
    paper = talk(NOBODY, page, indexed_texts)
    other = Paper(paper.rules, paper.handlers).ask("Read the page and tell the helper.", "agent")
    assert [outcome.records for outcome in paper.outcomes] == [outcome.records for outcome in other.outcomes]


@pytest.mark.parametrize("name", ["nobody said this", "x" * 10_000, "...", "Zürich, where it rains"])
def test_no_pattern_is_made_of_a_name_that_no_word_begins_like(monkeypatch, name):
    def fail(*_, **__):
        raise AssertionError("a pattern is made")

    words = TrustedWords().add("read the page and mail it")
    for module in (authority, trusted_words, judging):
        monkeypatch.setattr(module, "build_mention_pattern", fail)
    assert not words.mentions(name)
    with pytest.raises(AssertionError, match="a pattern is made"):
        words.mentions("page")


class StoringPaper(Paper):
    """Paper that keeps the elements of queued deliveries, as the pump does; a plain one parses them again."""

    def __init__(self, rules, handlers):
        super().__init__(rules, handlers)
        self.parsed = ParsedPayloads()

    def apply(self, outcome):
        self.parsed.keep(outcome)
        return super().apply(outcome)

    def conclude(self, finished):
        return super().conclude(finished._replace(element=self.parsed[finished.delivery.id]))


@pytest.mark.parametrize(
    ("policy", "times"), [(NOBODY, 4), (DECLARED, 2)], ids=["nobody declared", "declared"]
)
def test_a_message_is_read_and_learned_once_for_its_judgement_and_its_delivery(policy, times, monkeypatch):
    learned, read = [], []
    learn, read_leaves = Ledger.learn, ElementReader.read_leaves
    monkeypatch.setattr(Ledger, "learn", lambda *args: learned.append(args[2]) or learn(*args))
    monkeypatch.setattr(
        ElementReader, "read_leaves", lambda *args: read.append(args[1]) or read_leaves(*args)
    )
    page = "the vault stands open behind the old mill tonight"
    kept = talk(policy, page, [], StoringPaper)
    assert (len(learned), len(read)) == (times, 5)
    parsed = talk(policy, page, [], Paper)
    assert parsed.conversation.memory == kept.conversation.memory
    assert [outcome.records for outcome in parsed.outcomes] == [outcome.records for outcome in kept.outcomes]


def test_a_supposed_ledger_has_the_time_and_the_delivery_of_its_arrival():
    paper = talk(NOBODY, "the vault stands open behind the old mill tonight", [], StoringPaper)
    ledger = paper.conversation.memory["lineage"].ledger
    texts = [*ledger.texts, *ledger.records.entries]
    assert texts
    assert all(text.origin.trace and text.origin.time > 0 for text in texts)
