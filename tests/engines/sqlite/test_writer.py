"""Rows of rare events: stored values, broken connections, finished conversations."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from agentserver.core.decide import decisions
from agentserver.core.decide.decisions import AcceptedDelivery
from agentserver.core.messages import Drafts, Effects, FinishedInvocation, HandlerReturn
from agentserver.engines.conformance.suite import SampleConversation
from agentserver.engines.journal import retention
from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.engines.sqlite.writer import Writer
from agentserver.ports import ConflictError, EngineError


@pytest.fixture
def connection(tmp_path):
    with closing(open_writing(JournalOptions(tmp_path / "j"))) as connection:
        yield connection


def store_changes(story, conversation, stored):
    """Handle the next message with these changes of the thread's storage, without an answer."""
    delivery = next(node.inbox[0] for node in conversation.tree.nodes.values() if node.inbox)
    assert isinstance(decisions.accept(conversation, delivery, story.rules), AcceptedDelivery)
    returned = HandlerReturn(Drafts(), Effects(stored))
    return decisions.conclude(
        conversation, FinishedInvocation(delivery, None, returned), story.rules, story.moment()
    )


def test_a_transaction_makes_no_temporary_file(connection, tmp_path):
    Writer(connection, tmp_path / "j")
    assert connection.execute("pragma temp_store").fetchone() == (2,)  # in memory


def test_values_are_written_when_they_change_and_removed_when_they_go(connection, tmp_path):
    story, journal, reader = SampleConversation(), Writer(connection, tmp_path / "j"), Reader(connection)
    conversation = story.start()
    changed = []
    for stored in ({"a": b"1", "b": b"2"}, {}, {"a": b"3", "b": None}):
        said = story.receive(conversation, str(len(changed)))
        outcome = store_changes(story, said.conversation, stored)
        before = connection.total_changes
        assert journal.commit([said, outcome]) == [None, None]
        changed.append(connection.total_changes - before)
        conversation = outcome.conversation
        assert reader.load(conversation.id) == conversation
    values = connection.execute("select name, data from value").fetchall()
    assert values == [
        (name, value) for n in conversation.tree.nodes.values() for name, value in n.storage.items()
    ]
    assert len(values) > 0
    assert changed[1] < changed[0], "what has not changed is not written again"
    assert journal.commit([story.close(conversation)]) == [None]
    assert connection.execute("select count(*) from value").fetchone() == (0,)


def test_nothing_is_added_to_a_finished_conversation(connection, tmp_path):
    story, journal = SampleConversation(), Writer(connection, tmp_path / "j")
    said = story.receive(story.start(), "1")
    assert journal.commit([said, story.close(said.conversation)]) == [None, None]
    late = journal.commit([story.receive(said.conversation, "late"), story.receive(story.start(), "1")])
    assert [type(error) for error in late] == [ConflictError, type(None)]


class BreakingConnection:
    """A connection whose disk goes away while it writes."""

    def __init__(self, connection):
        self._connection = connection
        self.in_transaction = True

    def execute(self, statement, *values):
        if statement in {"commit", "rollback"}:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR_WRITE"
            raise error
        return self._connection.execute(statement, *values)

    def executemany(self, statement, rows):
        return self._connection.executemany(statement, rows)


def test_after_a_transaction_that_cannot_be_undone_nothing_more_is_written(connection, tmp_path):
    story = SampleConversation()
    journal = Writer(BreakingConnection(connection), tmp_path / "j")
    found = journal.commit([story.receive(story.start(), "1"), story.receive(story.start(), "1")])
    assert {str(error) for error in found} == {
        f"{tmp_path / 'j'}: the disk cannot be read or written (SQLITE_IOERR_WRITE)"
    }
    connection.execute("rollback")
    assert journal.commit([story.receive(story.start(), "2")]) == [found[0]]
    assert list(Reader(connection).conversations()) == []


def test_an_unforgettable_conversation_stays_whole(connection, tmp_path):
    story, journal = SampleConversation(), Writer(connection, tmp_path / "j")
    said = story.receive(story.start(), "1")
    assert journal.commit([said, story.close(said.conversation)]) == [None, None]
    connection.execute("create trigger no before delete on step begin select raise(abort, 'no'); end")
    with pytest.raises(sqlite3.Error, match="no"):
        retention.expire_conversations(connection, 1e9)
    assert not connection.in_transaction
    assert len(Reader(connection).recorded_conversation(said.conversation.id).steps) == 2


def test_there_is_no_story_of_unsent_messages(connection):
    with pytest.raises(LookupError):
        Reader(connection).recorded_conversation("nobody")


def test_an_encoded_outcome_touches_nothing(connection, tmp_path):
    story, journal = SampleConversation(), Writer(connection, tmp_path / "j")
    outcome = story.receive(story.start(), "1")
    encoded = journal.encode(outcome)
    assert not isinstance(encoded, EngineError)
    assert list(Reader(connection).conversations()) == []
    assert journal.write([encoded]) == [None]
    assert isinstance(journal.write([encoded])[0], ConflictError)
