"""The steps of a conversation are found from its last one back, or from an indexed one."""

from __future__ import annotations

from contextlib import closing

import pytest

from agentserver.core.messages import UNDECIDED, EventPlace, Reply
from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.journal.events import _OF_STEPS
from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.retention import remove_conversations
from agentserver.engines.journal.walking import APART, STEPS, STEPS_UNTIL
from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.engines.sqlite.maintenance import find_findings
from agentserver.engines.sqlite.writer import Writer
from agentserver.ports.engine import PAGE

LONG = APART + 6
"""Requests of the long conversation, each of two steps: one indexed step is in it, and some follow the next one."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "j"


@pytest.fixture
def journal(path):
    """Two conversations whose steps alternate, one of them long."""
    story = SampleConversation()
    with closing(open_writing(JournalOptions(path))) as connection:
        writer = Writer(connection, path)
        long, short = story.start(), story.start()
        for number in range(LONG):
            said = story.receive(long, f"long {number}")
            answered = story.answer(said.conversation, said.ready[0])
            other = [story.receive(short, f"short {number}")] if number < 3 else []
            assert writer.commit([said, *other, answered]) == [None] * (2 + len(other))
            long, short = answered.conversation, other[0].conversation if other else short
        yield connection, long, short


def find_versions(connection, text, *values):
    return [version for (version,) in connection.execute(f"select s.version from {text} order by 1", values)]


def test_the_steps_after_a_version_are_those_of_one_conversation(journal):
    connection, long, short = journal
    assert find_versions(connection, STEPS, 1, 0) == [*range(1, long.version + 1)]
    assert find_versions(connection, STEPS, 2, 0) == [*range(1, short.version + 1)]
    for version in (1, APART - 1, APART, APART + 1, long.version - 1, long.version):
        assert find_versions(connection, STEPS, 1, version) == [*range(version + 1, long.version + 1)]


def test_steps_up_to_a_version_begin_at_the_next_indexed_one(journal):
    connection, long, _ = journal
    assert find_versions(connection, STEPS_UNTIL, 1, 0, 1) == [*range(1, APART + 1)]
    assert find_versions(connection, STEPS_UNTIL, 1, APART, APART) == []
    assert find_versions(connection, STEPS_UNTIL, 1, APART, APART + 1) == [*range(APART + 1, 2 * APART + 1)]
    assert find_versions(connection, STEPS_UNTIL, 1, 2 * APART, long.version) == [
        *range(2 * APART + 1, long.version + 1)
    ]


def test_events_are_read_from_any_place_on(journal):
    connection, long, _ = journal
    reader = Reader(connection)
    places = [event.place for event in reader.read_events(long.id, UNDECIDED, 10**6)]
    assert len(places) == 2 * LONG
    assert places == sorted(places)
    for at, place in enumerate(places):
        assert [event.place for event in reader.read_events(long.id, place, 3)] == places[at + 1 :][:3]
    assert reader.read_events(long.id, EventPlace(long.version + 9, 0), 3) == []


def test_messages_behind_a_page_are_not_read(journal):
    connection, long, _ = journal
    connection.execute("update event set message = zeroblob(?) where message is not null", (PAGE,))
    reader, sizes, place = Reader(connection), [], UNDECIDED
    rows = connection.execute(_OF_STEPS, (1, 0, APART, *UNDECIDED)).fetchall()
    assert sum(len(message or b"") for *_, message, _ in rows) <= 2 * PAGE
    while page := reader.read_events(long.id, place, 10**6):
        sizes.append(sum(len(event.message) for event in page if isinstance(event, Reply)))
        place = page[-1].place
    assert sizes == [PAGE] * LONG


def test_a_conversation_is_removed_with_all_its_steps(journal, path):
    connection, *_ = journal
    remove_conversations(connection, [1])
    assert connection.execute("select count(*), min(conversation) from step").fetchone() == (3, 2)
    assert [*find_findings(path)] == []


@pytest.mark.parametrize("named", ["number", "number + 1", "0", "9999"])
def test_a_step_that_names_a_wrong_one_ends_the_walk_and_is_noticed(journal, path, named):
    connection, long, _ = journal
    connection.execute(f"update step set previous = {named} where conversation = 1 and version = 9")
    assert find_versions(connection, STEPS, 1, 0) == [*range(9, long.version + 1)]
    assert "breaks the chain" in "".join(find_findings(path))
