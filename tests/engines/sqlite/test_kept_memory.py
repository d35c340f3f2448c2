"""What guards remember is the same in memory, as the journal gives it back, and decided again, after every verb."""

from __future__ import annotations

import tempfile
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentserver.contract import Code
from agentserver.core.decide import answers, decisions
from agentserver.core.decide.requeue import requeue
from agentserver.core.encoding import decision_codec
from agentserver.core.encoding.snapshot import add_new_guards, restore, take
from agentserver.core.guard import open_memories
from agentserver.core.messages import (
    AbandonedDelivery,
    FinishedInvocation,
    HandlerFailure,
    OutsideMessage,
    Question,
    RequeuedLetter,
)
from agentserver.core.records.details import Failure
from agentserver.core.state.approvals import Answer as Said
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.engines.sqlite.writer import Writer
from agentserver.guards.builtin import ApprovalGuard, PeersGuard
from agentserver.guards.lineage.guard import LineageGuard, TrustSettings
from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.policy.declarations import PlanSource, Policy, SinkRule
from tests.core.decide.test_decisions_laws import SHOP, whims
from tests.core.paper import Ask, Note, Paper
from tests.fuzzing import examples

POLICY = Policy(
    mode=Mode.CONFIRM,
    sources=("b",),
    sinks=(SinkRule("c"), SinkRule("e")),
    relays=("a", "c.d"),
    plan=PlanSource.REQUIRED,
)
GUARDS = (
    PeersGuard(),
    ApprovalGuard({"c.d": {}, "e": {}}),
    LineageGuard(TrustSettings(POLICY, viewers=frozenset({"a"})), SHOP.blueprint.listeners, SHOP.codecs),
)
WATCHED = replace(SHOP, guards=GUARDS)


class JournalledPaper:
    """A conversation on paper, committed to a journal and decided again in memory, step by step."""

    def __init__(self, connection, path, random):
        self.writer = Writer(connection, path, GUARDS)
        self.reader = Reader(connection, GUARDS)
        self.random = random
        self.paper = Paper(WATCHED, whims(random))
        self.again = self.paper.conversation
        self.deliveries = {}
        self.done = set()

    def take(self, verb, outcome):
        """Commit an outcome and compare. A step that cannot be taken is None."""
        if outcome is None:
            return
        self.done.add(verb)
        self.paper.apply(outcome)
        assert self.writer.commit([outcome]) == [None]
        self.deliveries.update({one.id: one for one in outcome.added})
        cause = decision_codec.load_cause(
            decision_codec.dump_cause(outcome),
            self.deliveries,
            decision_codec.list_sent_messages(outcome),
            WATCHED,
        )
        self.again = decision_codec.decide(self.again, cause, WATCHED, outcome.moment).conversation
        now = self.paper.conversation
        assert self.again == now
        assert set(now.memory) == {guard.name for guard in GUARDS}
        assert restore(take(now, GUARDS), GUARDS) == now
        read = self.reader.load(now.id)
        assert read == (None if now.closed else now)
        assert not now.memory["lineage"].ledger.overflow or "miss" in self.done

    def verbs(self):
        """The verbs that there are now, by name."""
        paper, random = self.paper, self.random
        now, moment = paper.conversation, paper.moment()
        asked = now.approvals()
        dead = [letter.delivery for letter in self.reader.dead()]
        found = {"receive": self.receive, "turn away": self.turn_away}
        if not now.version:
            found["open"] = lambda _: decisions.open_conversation(now, WATCHED, moment)
        if paper.waiting:
            found |= dict.fromkeys(("conclude", "conclude ", "crash", "give up", "miss"), self.conclude)
        for answer in Said if asked else ():
            one = random.choice(asked)
            told = ApprovalAnswer(one.id, one.digest, answer, "ann")
            found[f"decide {answer}"] = lambda _, told=told: answers.decide(now, told, WATCHED, moment)
        if dead:
            found["requeue"] = lambda _: requeue(
                now, RequeuedLetter(random.choice(dead), "ops"), WATCHED, moment
            )
        if now.version > 30:
            found["close"] = lambda _: decisions.close(
                now, WATCHED, moment, random.choice(["idle", "asked to"])
            )
        return found

    def receive(self, _):
        to = self.random.choice(["a", "b", "c.d", "c", "e", None])
        payload = Note("go") if to in {"e", None} else Ask("go")
        data = WATCHED.codecs.of(type(payload)).encode(payload).encode()
        outside = OutsideMessage(data, f"r{self.paper.seeds}", to)
        return decisions.receive(self.paper.conversation, outside, WATCHED, self.paper.moment())

    def turn_away(self, _):
        outside = OutsideMessage(b"?", f"r{self.paper.seeds}", None)
        return decisions.turn_away(self.paper.conversation, outside, Code.BUSY, WATCHED, self.paper.moment())

    def conclude(self, verb):
        delivery = self.paper.waiting.pop(self.random.randrange(len(self.paper.waiting)))
        finished = self.paper.invoke(delivery)
        if finished is None:
            return None
        moment = self.paper.moment()
        if verb in {"give up", "miss"}:
            unseen = verb == "miss"
            given_up = AbandonedDelivery(
                delivery, Failure("odd"), None if unseen else finished.element, unseen
            )
            return decisions.give_up(self.paper.conversation, given_up, WATCHED, moment)
        if verb == "crash":
            finished = FinishedInvocation(
                delivery, finished.element, HandlerFailure(Code.INTERNAL, Failure("crash"))
            )
        return decisions.conclude(self.paper.conversation, finished, WATCHED, moment)


def live_through(seed, steps):
    """The verbs that a conversation of that many steps went through."""
    random = Random(seed)
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(open_writing(JournalOptions(Path(folder) / "j"))) as connection,
    ):
        kept = JournalledPaper(connection, Path(folder) / "j", random)
        for _ in range(steps):
            found = kept.verbs()
            verb = random.choice(list(found))
            with suppress(LookupError):
                kept.take(verb.strip(), found[verb](verb))
            if kept.paper.conversation.closed:
                break
        return kept.done


@settings(max_examples=examples(25))
@given(st.integers(0, 2**32))
def test_stored_and_replayed_decisions_equal_the_original(seed):
    live_through(seed, 40)


def test_the_verbs_are_all_taken():
    answers = {f"decide {answer}" for answer in Said}
    taken = set().union(*(live_through(seed, 60) for seed in range(8)))
    assert (
        taken
        == {"open", "receive", "turn away", "conclude", "crash", "give up", "miss", "requeue", "close"}
        | answers
    )


def test_a_guard_added_before_the_first_message_has_missed_nothing():
    paper = Paper(SHOP, {"a": lambda call: None})
    paper.apply(decisions.open_conversation(paper.conversation, SHOP, paper.moment()))
    kept = take(paper.conversation, SHOP.guards)
    assert restore(kept, GUARDS).memory["lineage"] == open_memories(GUARDS)["lineage"]
    assert add_new_guards(paper.conversation, GUARDS).memory["lineage"] == open_memories(GUARDS)["lineage"]
    paper.say(Ask("go"), "a")
    assert add_new_guards(paper.conversation, GUARDS).memory["lineage"].ledger.overflow


@pytest.mark.parametrize("kept", [True, False], ids=["after a restart", "without one"])
def test_an_approval_before_anything_was_seen_makes_no_guard_a_later_one(kept):
    """The principal's own message is asked about and approved for good before any listener was given anything."""
    paper = Paper(WATCHED, {"c.d": lambda call: None})
    paper.say(Ask("go"), "c.d")
    paper.decide(Said.ALWAYS)
    if kept:
        paper.conversation = restore(take(paper.conversation, GUARDS), GUARDS)
    paper.run()
    memory = paper.conversation.memory["lineage"]
    assert memory.step == 1
    assert not memory.ledger.overflow


def test_no_verb_drops_the_memory_of_an_absent_guard():
    paper = Paper(WATCHED, {"a": lambda call: None})
    paper.say(Ask("go"), "a")
    memory = {**open_memories(GUARDS), "gone": "something"}
    fewer = replace(WATCHED, guards=GUARDS[:1])
    finished = paper.invoke(paper.waiting[0])
    remembering = paper.conversation._replace(memory=memory)
    seen = fewer.note_seen(remembering, finished.delivery, finished.element, 1.0)
    assert {name: seen[name] for name in ("gone", "lineage")} == {
        name: memory[name] for name in ("gone", "lineage")
    }
    assert fewer.note_missed(memory) == memory
    assert fewer.approve(memory, (Question("lineage", Failure("?"), ("x",)),)) == memory


def test_a_guard_added_later_counts_messages_that_it_has_not_seen():
    paper = Paper(WATCHED, {})
    paper.say(Ask("go"), "a")
    some = take(paper.conversation._replace(memory={"peers": None}), GUARDS)
    assert restore(some, GUARDS).memory["lineage"].ledger.overflow
