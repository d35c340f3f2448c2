"""Journals that were recorded long ago stay readable for ever: each is opened, traced and decided again.

``NAME-VERSION.sqlite`` was written by the organism in the folder ``NAME``. ``shop`` was stopped; ``market`` was killed at
work: handlers running, replies held, todos open, dead letters in open conversations, replies that nobody took. The
number is the version of the journal: since the ninth a step has its changes, and the state is no more in its row; since
the tenth a delivery has the call that it answers. ``bank``
is of the last server whose records had their reasons as texts: findings, questions, answers, attempts to hand work over.
"""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentserver.assembly import build
from agentserver.cli import cli
from agentserver.config import load
from agentserver.core.decide import decisions
from agentserver.core.messages import Moment, Outside
from agentserver.core.records.audit import Event
from agentserver.core.records.details import Answered, HandoffAttempt, KeptText
from agentserver.core.records.wording import WORDING
from agentserver.engines.sqlite.care.maintenance import broken_link
from agentserver.engines.sqlite.care.restore import export
from agentserver.engines.sqlite.file import JournalOptions, open_reading, open_writing
from agentserver.engines.sqlite.proof.seal import FORM
from agentserver.engines.sqlite.proof.verify import findings
from agentserver.engines.sqlite.reader import Reader
from agentserver.engines.sqlite.rows import DeliveryEnd
from agentserver.engines.sqlite.schema import MIGRATIONS
from agentserver.engines.sqlite.writer import Writer
from agentserver.guards.intents import HandoffRecord
from agentserver.handoff.audit import Seal, sealed, verify
from agentserver.history.replay import replay
from tests.engines.endings import endings

FIXTURES = Path(__file__).parents[2] / "fixtures" / "journals"
JOURNALS = sorted(FIXTURES.glob("*.sqlite"))


@pytest.fixture(params=JOURNALS, ids=lambda path: path.stem)
def old(request, tmp_path, monkeypatch):
    """The path of a copy, brought up to date, beside the organism that wrote it."""
    name = request.param.stem.rpartition("-")[0]
    home = tmp_path / name
    shutil.copytree(FIXTURES / name, home, ignore=shutil.ignore_patterns("__pycache__", "out"))
    path = home / "out" / "journal.sqlite"
    path.parent.mkdir()
    shutil.copy(request.param, path)
    open_writing(JournalOptions(path)).close()
    monkeypatch.chdir(home)
    monkeypatch.delitem(sys.modules, f"{name}_handlers", raising=False)
    yield path
    sys.modules.pop(f"{name}_handlers", None)


def verb(*args):
    done = CliRunner().invoke(cli, [*map(str, args)])
    assert done.exit_code == 0, done.output + done.stderr
    return done.output


def test_there_are_journals_of_a_clean_stop_and_of_a_kill():
    assert {path.stem for path in JOURNALS} >= {"shop-1", "market-1", "market-8", "market-9", "bank-8"}


def test_every_decision_is_taken_again_as_it_was(old):
    rules = build(load(Path("organism.yaml"), environ={})).rules
    steps = 0
    with closing(open_reading(old)) as connection:
        (version,) = connection.execute("pragma user_version").fetchone()
        assert version == len(MIGRATIONS)
        reader = Reader(connection)
        for one in reader.conversations():
            story = reader.recorded_conversation(one.id)
            assert broken_link(story) is None
            assert replay(story, rules) is None
            assert story.records()
            steps += len(story.steps)
    assert steps > 10


def test_what_is_open_is_taken_up_as_it_was_left(old):
    guards = build(load(Path("organism.yaml"), environ={})).rules.guards
    with closing(open_reading(old)) as connection:
        reader = Reader(connection, guards)
        active = set(reader.active())
        for one in reader.conversations():
            conversation = reader.load(one.id)
            assert (conversation is None) == (one.closed is not None)
            if conversation is None:
                continue
            assert (conversation.version, conversation.principal) == (one.steps, one.principal)
            nodes = conversation.tree.nodes.values()
            waiting = {delivery.id for node in nodes for delivery in node.waiting()}
            queued = {
                key for key, ending in endings(connection, one.id).items() if ending is DeliveryEnd.QUEUED
            }
            assert waiting == queued
            assert len(waiting) == one.waiting
            assert (one.id in active) == bool(waiting)


def test_it_can_be_looked_into(old):
    rows = [json.loads(row) for row in verb("conversations", "--json").splitlines()]
    for row in rows:
        assert f"{row['principal']} -> " in verb("trace", row["id"])
        assert verb("trace", row["id"], "--html").startswith("<!DOCTYPE html>")
    assert f"{len(rows)} conversation" in verb("replay")
    assert verb("dead", "list")


def test_it_goes_on_as_a_journal_of_today(old, tmp_path):
    rules = build(load(Path("organism.yaml"), environ={})).rules
    ends = {}
    with closing(open_writing(JournalOptions(old))) as connection:
        going = _steps(connection)
        writer, reader = Writer(connection, old, rules.guards), Reader(connection, rules.guards)
        for one in list(reader.conversations()):
            conversation = reader.load(one.id)
            for number in range(3 if conversation else 0):
                data = Outside(f"no xml {number}".encode(), f"new {number}")
                outcome = decisions.receive(conversation, data, rules, Moment(2e9, bytes([number]) * 16))
                assert writer.commit([outcome]) == [None]
                conversation = outcome.conversation
                assert reader.load(one.id) == conversation
                going += 1
            ends[one.id] = conversation
            assert replay(reader.recorded_conversation(one.id), rules) is None
        assert _steps(connection) == going
    assert list(findings(old)) == []
    copy = tmp_path / "copy.sqlite"
    export(old, copy)
    assert list(findings(copy)) == []
    with closing(open_reading(copy)) as connection:
        reader = Reader(connection, rules.guards)
        assert {one.id: reader.load(one.id) for one in reader.conversations()} == ends


def _steps(connection):
    """The number of steps that have their changes."""
    (count,) = connection.execute("select count(*) from step where form = ?", (FORM,)).fetchone()
    return count


@pytest.mark.parametrize("killed", ["market-1", "market-9"])
def test_the_killed_one_had_everything_in_it(tmp_path, killed):
    path = tmp_path / "journal.sqlite"
    shutil.copy(FIXTURES / f"{killed}.sqlite", path)
    with closing(open_writing(JournalOptions(path))) as connection:
        reader = Reader(connection)
        found = [one for each in reader.conversations() if (one := reader.load(each.id)) is not None]
        nodes = [node for one in found for node in one.tree.nodes.values()]
        assert any(node.held for node in nodes)
        assert any(node.storage for node in nodes)
        assert any(one.todos.watchers for one in found)
        assert any(letter.open for letter in reader.dead())
        assert any(reader.outbox(one.id, reader.last_event()) for one in found)


# Records with their reasons as texts


@pytest.fixture
def bank(tmp_path):
    path = tmp_path / "journal.sqlite"
    shutil.copy(FIXTURES / "bank-8.sqlite", path)
    open_writing(JournalOptions(path)).close()
    with closing(open_reading(path)) as connection:
        reader = Reader(connection)
        keys = sorted((one.opened, one.id) for one in reader.conversations())
        yield [record for _, key in keys for record in reader.recorded_conversation(key).records()]


def test_a_reason_that_was_kept_as_a_text_is_told_as_it_was(bank):
    told = {(record.event, WORDING.first(record.detail)) for record in bank if record.detail is not None}
    assert told >= {
        ("asked", "clerk wants to send this to vault, which needs an approval."),
        ("asked", "ASKED: post() called with tainted inputs"),
        ("withdrawn", "denied: ada"),
        ("approved", "approved by ada, always"),
        ("flagged", "ASKED: post() called with tainted inputs"),
        ("attempted", "approve review"),
        ("attempted", "reject review: params_schema"),
        ("refused", "cellar is no peer of clerk"),
        ("refused", "handoff: params_schema"),
        ("failed", "ValueError: no such order at all"),
        ("closed", "closed by its gateway"),
    }
    kinds = {record.event: type(record.detail) for record in bank if record.detail is not None}
    assert kinds == {
        Event.ASKED: KeptText, Event.WITHDRAWN: Answered, Event.APPROVED: Answered, Event.FLAGGED: KeptText,
        Event.ATTEMPTED: HandoffAttempt, Event.REFUSED: KeptText, Event.FAILED: KeptText, Event.CLOSED: KeptText,
    }  # fmt: skip


def test_the_chain_over_old_attempts_is_what_it_was(bank):
    class Lines:
        def __init__(self):
            self.lines, self.seal = [], Seal()

        def append(self, record):
            line, self.seal = sealed(record, self.seal)
            self.lines.append(line)

    sink = Lines()
    HandoffRecord(sink).observe(bank)
    assert sink.lines == (FIXTURES / "bank" / "handoff-audit.jsonl").read_text("utf-8").splitlines()
    assert verify(sink.lines) == sink.seal
