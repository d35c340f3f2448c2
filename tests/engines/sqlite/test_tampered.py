"""A recorded conversation that was tampered with differs, and the report says where."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from agentserver.engines.conformance.suite import SampleConversation
from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.engines.sqlite.maintenance import find_findings
from agentserver.engines.sqlite.writer import Writer
from agentserver.history.replay import replay


@pytest.fixture
def told(tmp_path):
    """A story of three steps and the rules it was decided by."""
    story = SampleConversation()
    said = story.receive(story.start(), "1")
    answered = story.answer(said.conversation, said.ready[0])
    over = story.close(answered.conversation)
    with closing(open_writing(JournalOptions(tmp_path / "j"))) as connection:
        assert Writer(connection, tmp_path / "j").commit([said, answered, over]) == [None] * 3
        yield Reader(connection).recorded_conversation(said.conversation.id), story.rules


def change_story(story, number, **fields):
    steps = list(story.steps)
    steps[number] = steps[number]._replace(**fields)
    return replace(story, steps=tuple(steps))


def test_a_replay_decides_the_same(told):
    assert replay(*told) is None


def test_a_record_that_no_decision_gives(told):
    story, rules = told
    more = story.steps[2].records[:-2] + b"," + story.steps[2].records[len(b"[1,[") :]
    difference = replay(change_story(story, 2, records=more), rules)
    assert difference.version == 3
    assert (difference.recorded.split()[0], difference.now) == ("closed", "nothing more")
    fewer = replay(change_story(story, 2, records=b"[1,[]]"), rules)
    assert (fewer.recorded, fewer.now.split()[0]) == ("nothing more", "closed")


def test_another_reply(told):
    story, rules = told
    events = tuple(event._replace(request="2") for event in story.steps[1].events)
    difference = replay(change_story(story, 1, events=events), rules)
    assert (difference.version, difference.recorded) == (2, "what left the conversation")


def test_a_step_that_is_missing(told):
    story, rules = told
    difference = replay(change_story(story, 0, version=2), rules)
    assert (difference.version, difference.recorded, difference.now) == (2, "step 2", "step 1")


def test_a_decision_that_cannot_be_taken(told, monkeypatch):
    story, rules = told

    def raise_lookup(*_):
        raise LookupError("no such thing")

    monkeypatch.setattr("agentserver.history.replay.decision_codec.decide", raise_lookup)
    assert replay(story, rules).now == "none can be taken: no such thing"


REMOVAL = """insert into wordindex (wordindex, rowid, words)
    select 'delete', conversation << 20 | version, words from wordlist"""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("insert into wordindex (rowid, words) values (99, 'stray')", "1 belong to no message"),
        (REMOVAL, "0 belong to no message"),
        ("update wordindex_data set block = x'00ff00ff00ff00ff' where id > 10", "it cannot be read"),
    ],
)
def test_a_damaged_index_of_words_is_found(tmp_path, change, told):
    story, path = SampleConversation(), tmp_path / "j"
    said = story.receive(story.start(), "1")
    answered = story.answer(said.conversation, said.ready[0])
    with closing(open_writing(JournalOptions(path))) as connection:
        assert Writer(connection, path).commit([said, answered]) == [None] * 2
        assert connection.execute("select count(*) from wordlist").fetchone() != (0,)
    assert list(find_findings(path)) == []
    with closing(open_writing(JournalOptions(path))) as connection:
        connection.execute(change)
    found = list(find_findings(path))
    assert len(found) == 1
    assert told in found[0]
