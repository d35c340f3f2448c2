"""The operators' verbs over an engine that is no journal: a program gives them a reader of its own."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, nullcontext

import anyio
import pytest
from click.testing import CliRunner

from agentserver.assembly import build
from agentserver.cli import cli, main
from agentserver.config import forget, load
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.state.conversation import Conversation
from agentserver.engines.conformance.sample import AskingGuard, SampleConversation
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.memory.record import MemoryReader
from agentserver.ports import EngineError
from tests.cli.test_dead import JOB, _no_modules, works  # noqa: F401 - fixtures


def verb(engine, *args, status=0):
    """Run a verb over an engine; return its output, errors last."""
    done = CliRunner().invoke(cli, [*map(str, args)], obj=lambda guards=(): nullcontext(engine.reader()))
    assert done.exit_code == status, done.output
    return done.stdout + done.stderr


@pytest.fixture
def failed_engine(works, monkeypatch):  # noqa: F811 - a fixture
    """Build a memory engine in which a listener crashed permanently and its caller got the error."""
    monkeypatch.setenv("WORKS_FAIL", "crash")
    engine, organism = MemoryEngine(recorded=True), load(works / "organism.yaml", environ=os.environ)

    async def play():
        async with build(organism, engine=engine) as server:
            handle = await server.open("ada")
            await handle.ask(JOB)
            assert await server.read(lambda reader: reader.find("")) == [handle.id]
            assert not server.durable

    anyio.run(play)
    forget(organism)
    return engine


def test_a_trace_is_shown_without_secrets(failed_engine):
    (row,) = [json.loads(line) for line in verb(failed_engine, "conversations", "--json").splitlines()]
    assert (row["principal"], row["closed"]) == ("ada", None)
    traced = verb(failed_engine, "trace", row["id"][:8])
    assert "ada -> boss" in traced
    assert "worker" in traced
    letters = verb(failed_engine, "dead")
    assert "boss -> worker Part" in letters
    assert "[redacted]" in letters
    assert "s3cret" not in traced + letters


def test_it_is_decided_again_and_saved(failed_engine, tmp_path):
    assert "; 0 differ" in verb(failed_engine, "replay")
    (row,) = [json.loads(line) for line in verb(failed_engine, "conversations", "--json").splitlines()]
    assert "5 steps" in verb(failed_engine, "replay", row["id"], "--save", tmp_path / "one.json")
    assert json.loads((tmp_path / "one.json").read_text())["id"] == row["id"]


def test_nothing_waits_for_the_next_run(failed_engine):
    assert verb(failed_engine, "dead", "next") == "no delivery is queued\n"


def test_verbs_about_a_file_are_refused(failed_engine):
    (letter,) = (line.split()[0] for line in verb(failed_engine, "dead").splitlines())
    for args in (("dead", "discard", letter), ("journal", "vacuum"), ("journal", "export", "copy")):
        assert "--journal" in verb(failed_engine, *args, status=2)


def test_it_is_counted_and_verified(failed_engine):
    counted = verb(failed_engine, "journal", "stats")
    assert "open: 1\nclosed: 0\n" in counted
    assert "steps: 5\nqueued: 0\ndead: 1\nunread: 0\n" in counted
    assert "no sealed step was altered" in verb(failed_engine, "journal", "verify")


class ChangedReader(MemoryReader):
    """Finds every conversation changed, and some not to be read at all."""

    def find_altered(self, story):
        if story.beginning.principal == "ada":
            raise UnreadableError("its record is cut off")
        return 2


def test_changes_are_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    engine, story = MemoryEngine(recorded=True), SampleConversation()
    outcomes = [story.receive(Conversation.begin(who, story.moment()), "1") for who in ("ada", "bob")]
    for outcome in outcomes:
        anyio.run(engine.commit, engine.current_claim(outcome.conversation.id), outcome)
    monkeypatch.setattr(engine, "reader", lambda: ChangedReader(*MemoryEngine.reader(engine)))
    told = verb(engine, "journal", "verify", status=1)
    assert f"conversation {outcomes[0].conversation.id}: its record is cut off" in told
    assert f"conversation {outcomes[1].conversation.id}: step 2 was altered" in told
    assert "the engine: 2 faults" in told


def test_pending_approvals_are_shown_and_answered_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    engine, asked = MemoryEngine(), SampleConversation(guards=(AskingGuard(),))
    outcome = asked.receive(asked.start(), "1")
    anyio.run(engine.commit, engine.current_claim(outcome.conversation.id), outcome)
    (approval,) = outcome.conversation.approvals()
    assert "may it" in verb(engine, "approvals")
    assert approval.digest in verb(engine, "approvals", "show", approval.id)
    assert "accepts no decisions" in verb(engine, "approve", approval.digest, status=2)


def test_a_conversation_without_recorded_steps_is_refused_with_a_reason(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    engine, story = MemoryEngine(), SampleConversation()
    outcome = story.receive(story.start(), "1")
    anyio.run(engine.commit, engine.current_claim(outcome.conversation.id), outcome)
    assert "does not record steps" in verb(engine, "trace", outcome.conversation.id, status=2)


def test_an_unreadable_engine_is_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    @contextmanager
    def break_engine(guards=()):
        raise EngineError("the cluster does not answer")
        yield

    with pytest.raises(SystemExit) as ended:
        main(["conversations"], readers=break_engine)
    assert ended.value.code == 2
    assert "the cluster does not answer" in capsys.readouterr().err


class Forgetful(MemoryReader):
    """Lists a conversation that it has dropped, as when one ends its retention meanwhile."""

    def recorded_conversation(self, conversation):
        raise LookupError(conversation)


@pytest.mark.parametrize("words", [["trace"], ["trace", "--json"]], ids=" ".join)
def test_a_conversation_that_vanished_meanwhile_is_reported(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    engine, sample = MemoryEngine(recorded=True), SampleConversation()
    outcome = sample.receive(sample.start(), "1")
    anyio.run(engine.commit, engine.current_claim(outcome.conversation.id), outcome)
    monkeypatch.setattr(engine, "reader", lambda: Forgetful(*MemoryEngine.reader(engine)))
    key = outcome.conversation.id
    assert f"conversation {key} has been deleted" in verb(engine, *words, key, status=2)
