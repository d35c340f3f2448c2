"""Answers through the journal's file while a server has it open."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from agentserver.core.decide import answers
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.engines.conformance.suite import AskingGuard, SampleConversation
from agentserver.engines.journal import records
from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite import maintenance
from agentserver.engines.sqlite.file import JournalOptions, open_reading, open_writing
from agentserver.engines.sqlite.lock import Lock
from agentserver.engines.sqlite.writer import Writer
from agentserver.ports import EngineError


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "journal.sqlite"
    open_writing(JournalOptions(path)).close()
    return path


def approval_answer(answer, approval="one", by="ada"):
    return ApprovalAnswer(approval, "digest", answer, by)


def leave_answer(path, answered, at):
    return maintenance.leave(path, lambda connection: records.put_answer(connection, answered, at))


def stored_answers(path):
    with closing(open_reading(path)) as connection:
        return records.read_answers(connection)


def test_an_answer_is_written_while_a_server_has_the_journal(path):
    with Lock(path), closing(open_writing(JournalOptions(path))) as server:
        assert leave_answer(path, approval_answer(Answer.ONCE), 5.0)
        assert records.read_answers(server) == [(approval_answer(Answer.ONCE), 5.0)]
        records.drop_answers(server, ["another"])
        assert records.read_answers(server)
        records.drop_answers(server, ["one"])
        assert records.read_answers(server) == []


def test_the_first_answer_wins_but_a_denial_replaces_an_approval(path):
    assert leave_answer(path, approval_answer(Answer.ONCE), 1.0)
    assert not leave_answer(path, approval_answer(Answer.ALWAYS, by="eve"), 2.0)
    assert stored_answers(path) == [(approval_answer(Answer.ONCE), 1.0)]
    assert leave_answer(path, approval_answer(Answer.DENY, by="bob"), 3.0)
    assert not leave_answer(path, approval_answer(Answer.ONCE), 4.0)
    assert stored_answers(path) == [(approval_answer(Answer.DENY, by="bob"), 3.0)]


def test_answers_come_in_the_order_in_which_they_were_given(path):
    for at, key in ((3.0, "a"), (1.0, "b"), (2.0, "c")):
        leave_answer(path, approval_answer(Answer.ONCE, key), at)
    assert [answered.approval for answered, _ in stored_answers(path)] == ["b", "c", "a"]


def test_an_answer_that_nobody_knows_is_a_denial_and_its_author_one_line(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        row = ("one", "digest", "whatever", "ada\napproval two: approved by bob\x1b[2J", 1.0)
        other.execute("insert into answer values (?, ?, ?, ?, ?, x'')", row)
    ((answered, _),) = stored_answers(path)
    assert answered.answer is Answer.DENY
    assert answered.by.isprintable()


def test_where_there_is_no_journal_there_is_nothing_to_answer(tmp_path):
    with pytest.raises(EngineError, match="there is no journal"):
        leave_answer(tmp_path / "none", approval_answer(Answer.ONCE), 1.0)
    assert not (tmp_path / "none").exists()


def test_somebody_who_holds_the_file_is_named_as_the_obstacle(path, monkeypatch):
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, **{**more, "timeout": 0.0}))
    with closing(connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(EngineError, match="another program holds the file"):
            leave_answer(path, approval_answer(Answer.ONCE), 1.0)


class Remembers(AskingGuard):
    name = "remembers"

    def approve(self, memory, about):
        return "something"

    def dump(self, memory):
        return {"it": memory.encode()}

    def load(self, parts):
        return parts["it"].decode()


def test_waiting_messages_are_read_without_the_guards_of_the_conversation(path):
    story = SampleConversation(guards=(Remembers(),))
    first = story.receive(story.start(), "1")
    answered = ApprovalAnswer(
        first.conversation.approvals()[0].id, first.conversation.approvals()[0].digest, Answer.ALWAYS, "ada"
    )
    always = answers.decide(first.conversation, answered, story.rules, story.moment())
    second = story.receive(always.conversation, "2")
    other = story.receive(story.start(), "3")
    with closing(open_writing(JournalOptions(path))) as connection:
        assert (
            Writer(connection, path, story.rules.guards).commit([first, always, second, other]) == [None] * 4
        )
    with closing(open_reading(path)) as connection:
        reader = Reader(connection)
        found = [one for key in reader.active() for one in reader.approvals(key)]
    assert found == [*second.conversation.approvals(), *other.conversation.approvals()]


def test_a_copy_of_some_conversations_holds_no_answers(path, tmp_path):
    story = SampleConversation(guards=(AskingGuard(),))
    first, second = story.receive(story.start(), "1"), story.receive(story.start(), "2")
    with closing(open_writing(JournalOptions(path))) as connection:
        Writer(connection, path).commit([first, second])
    leave_answer(path, approval_answer(Answer.ONCE), 1.0)
    maintenance.export(path, tmp_path / "all")
    maintenance.export(path, tmp_path / "some", [first.conversation.id])
    assert len(stored_answers(tmp_path / "all")) == 1
    assert stored_answers(tmp_path / "some") == []
