"""A step writes its own changes only, however large its conversation, and no state mixes two versions."""

from __future__ import annotations

from contextlib import closing
from itertools import pairwise

import pytest

from agentserver import HandlerResponse
from agentserver.core.decide import decisions
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.pieces import run_pieces
from agentserver.engines.conformance.suite import SampleConversation
from agentserver.engines.journal import step_data as steps
from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.step_rows import StepRows
from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.engines.sqlite.maintenance import find_findings
from agentserver.engines.sqlite.writer import Writer
from tests.core.paper import Answer, Ask, Note, Paper, listener, rules
from tests.core.test_sizes import FEW, MANY, pingpong

STEPS = 40


@pytest.fixture
def path(tmp_path):
    return tmp_path / "j"


@pytest.fixture
def connection(path):
    with closing(open_writing(JournalOptions(path))) as connection:
        yield connection


def fresh():
    """Two listeners that answer each other forever, from the beginning."""
    paper = pingpong()
    beginning = paper.outcomes[0].since
    assert beginning.version == 0
    paper.conversation = paper.outcomes[0].conversation
    return paper


def step(paper):
    asked = paper.conversation, paper.invoke(paper.waiting.pop()), paper.rules, paper.moment()
    return paper.apply(run_pieces(decisions.conclude_in_pieces(*asked)))


class CountedWrites:
    """Counts the rows that statements write, and the bytes of them."""

    def __init__(self, connection):
        self._connection = connection
        self._rows = self._bytes = 0
        connection.set_trace_callback(self._trace)

    def _trace(self, statement):
        if statement.split(" ", 1)[0] in {"insert", "update", "delete", "with"}:
            self._rows += 1
            self._bytes += len(statement)

    def since(self):
        found = self._rows, self._bytes
        self._rows = self._bytes = 0
        return found


def costs(path, number):
    """Measure statements and bytes of each stored step after the first, with so many idle threads."""
    with closing(open_writing(JournalOptions(path))) as connection:
        paper = pingpong(threads=number)
        writer, first = Writer(connection, path), paper.outcomes[0]
        assert writer.commit([first._replace(conversation=paper.conversation, since=None)]) == [None]
        written, found = CountedWrites(connection), []
        for _ in range(STEPS):
            assert writer.commit([step(paper)]) == [None]
            found.append(written.since())
        connection.set_trace_callback(None)
        assert Reader(connection).load(paper.conversation.id) == paper.conversation
    return found


def test_a_step_writes_six_rows_and_as_much_in_a_large_conversation_as_in_a_small_one(tmp_path):
    few, many = costs(tmp_path / "few", FEW), costs(tmp_path / "many", MANY)
    assert {rows for rows, _ in few} <= {6, 7}, (
        "its own, a delivery, two of the queue, the conversation's, the head of the journal, and a facet that is new"
    )
    assert {rows for rows, _ in many} <= {6, 7}
    assert max(size for _, size in many) <= max(size for _, size in few) * 1.05
    assert max(size for _, size in many) < 4000


def test_reading_a_conversation_costs_its_content_and_not_its_history(connection, path):
    paper, writer = fresh(), Writer(connection, path)
    assert writer.commit(paper.outcomes) == [None]
    states = set()
    for _ in range(150):
        assert writer.commit([step(paper)]) == [None]
        (since,) = connection.execute(
            "select sum(length(changes)) from step where version > coalesce((select version from state), 0)"
        ).fetchone()
        assert (since or 0) <= steps.CHANGES
        states.update(connection.execute("select version, length(data) from state"))
    assert 2 <= len(states) <= 6, "kept whole now and then"
    assert all(size < 2000 for _, size in states)
    assert Reader(connection).load(paper.conversation.id) == paper.conversation
    assert list(find_findings(path)) == []


def test_a_short_history_is_never_stored_whole(connection, path):
    paper, writer = fresh(), Writer(connection, path)
    assert writer.commit([*paper.outcomes, *(step(paper) for _ in range(5))]) == [None] * 6
    assert connection.execute("select count(*) from state").fetchone() == (0,)
    assert Reader(connection).load(paper.conversation.id) == paper.conversation


def test_a_state_with_unknown_changes_is_stored_whole(connection, path):
    story, writer, reader = SampleConversation(), Writer(connection, path), Reader(connection)
    first = story.receive(story.start(), "1")
    one, other = story.receive(first.conversation, "one"), story.receive(first.conversation, "other")
    errors = writer.commit([first, one, other])
    assert errors[:2] == [None, None]
    assert errors[2] is not None
    # It has the version of the stored state, and a different content.
    follower = story.receive(other.conversation, "follower")
    assert writer.commit([follower]) == [None]
    assert connection.execute("select version from state").fetchall() == [(3,)]
    with pytest.raises(UnreadableError):  # a delivery of the other is not stored: nothing of the two is mixed
        reader.load(first.conversation.id)


def test_after_a_restart_the_first_step_is_kept_whole(connection, path):
    paper = fresh()
    assert Writer(connection, path).commit([*paper.outcomes, step(paper), step(paper)]) == [None] * 3
    again = Writer(connection, path)
    assert again.commit([step(paper), step(paper)]) == [None, None]
    assert connection.execute("select version from state").fetchall() == [(4,)]
    assert Reader(connection).load(paper.conversation.id) == paper.conversation


def test_a_commit_that_failed_has_changed_nothing_that_the_next_builds_on(connection, path, monkeypatch):
    paper, writer = fresh(), Writer(connection, path)
    assert writer.commit(paper.outcomes) == [None]
    made = step(paper)

    def raise_value_error(self, *_):
        raise ValueError("no")

    with monkeypatch.context() as patch:
        patch.setattr(StepRows, "_add", raise_value_error)
        (error,) = writer.commit([made])
        assert error is not None
    assert writer.commit([made, step(paper)]) == [None, None]
    assert Reader(connection).load(paper.conversation.id) == paper.conversation


@pytest.mark.parametrize(
    "damage",
    [
        "update state set data = (select data from old)",
        "update state set version = version - 1",
        "delete from state",
        "update step set changes = x'' where version = (select max(version) from step)",
        "delete from step where version = (select max(version) from step)",
        "update conversation set state = zeroblob(16)",
    ],
)
def test_a_state_with_the_changes_of_another_is_refused(connection, path, monkeypatch, damage):
    monkeypatch.setattr(steps, "CHANGES", 500)
    paper, writer = fresh(), Writer(connection, path)
    assert writer.commit(paper.outcomes) == [None]
    for _ in range(12):
        assert writer.commit([step(paper)]) == [None]
        connection.execute("create temp table if not exists old as select data from state limit 0")
        connection.execute("insert into old select data from state where not exists (select 1 from old)")
    assert Reader(connection).load(paper.conversation.id) == paper.conversation
    connection.execute(damage)
    with pytest.raises(UnreadableError):
        Reader(connection).load(paper.conversation.id)
    assert list(find_findings(path)) != []


def test_finished_conversations_leave_no_state(connection, path, monkeypatch):
    monkeypatch.setattr(steps, "CHANGES", 0)
    story, writer = SampleConversation(), Writer(connection, path)
    said = story.receive(story.start(), "1")
    assert writer.commit([said]) == [None]
    assert connection.execute("select count(*) from state").fetchone() == (1,)
    assert writer.commit([story.close(said.conversation)]) == [None]
    assert connection.execute("select count(*) from state").fetchone() == (0,)
    assert list(find_findings(path)) == []


@pytest.mark.parametrize("number", [1, 3, 4, 70])
def test_many_steps_are_written_by_few_statements(connection, path, number):
    story, writer = SampleConversation(), Writer(connection, path)
    said = [story.receive(story.start(), str(one)) for one in range(number)]
    assert writer.commit(said) == [None] * number
    written = CountedWrites(connection)
    done = [story.answer(one.conversation, one.ready[0]) for one in said]
    assert writer.commit(done) == [None] * number
    connection.set_trace_callback(None)
    runs = {1: 1, 3: 3, 4: 1, 70: 4}[number]
    rests = 2 * number  # the words of a conversation that comes to rest, and their index
    assert written.since()[0] <= 5 * runs + 3 + rests, "not a row each"
    for one in done:
        assert Reader(connection).load(one.conversation.id) == one.conversation
    assert list(find_findings(path)) == []


# Logs


ENTRY = 5000
ROOM = rules(listener("a"), storage=4 << 20)


def append_to_log(trim=None):
    """A conversation in which each request makes a log longer by 5 kB."""

    def keep(call):
        call.storage.append(Note(call.payload.text * ENTRY))
        if trim is not None:
            call.storage.trim(Note, trim)
        return HandlerResponse.respond(Answer("kept"))

    return Paper(ROOM, {"a": keep})


def turn(paper, writer, number):
    before = len(paper.outcomes)
    paper.say(Ask("xyz"[number % 3]), "a")
    paper.run()
    assert writer.commit(paper.outcomes[before:]) == [None, None]


def pages(connection):
    return connection.execute(
        "select page_count * page_size from pragma_page_count, pragma_page_size"
    ).fetchone()[0]


def written_by_turns(path, numbers, **how):
    """The statements and bytes of each turn, and the size of the journal after it."""
    with closing(open_writing(JournalOptions(path))) as connection:
        paper, writer, written, found = (
            append_to_log(**how),
            Writer(connection, path),
            CountedWrites(connection),
            [],
        )
        for number in range(numbers):
            turn(paper, writer, number)
            found.append((*written.since(), pages(connection)))
        connection.set_trace_callback(None)
        assert Reader(connection).load(paper.conversation.id) == paper.conversation
    assert list(find_findings(path)) == []
    return paper, found


def test_a_turn_that_appends_writes_as_much_after_two_hundred_as_after_ten(tmp_path):
    paper, turns = written_by_turns(tmp_path / "j", 210)
    (thread,) = (node for node in paper.conversation.tree.nodes.values() if node.owner == "a")
    (log,) = thread.logs.values()
    assert len(log) == 210

    def sum_around(turn, column):
        return sum(row[column] for row in turns[turn - 5 : turn + 10]) / 15

    for column in (0, 1):
        assert sum_around(200, column) <= sum_around(10, column) * 1.2, (
            "the statements of a turn, and the bytes of them"
        )
    grown = [later[2] - sooner[2] for sooner, later in pairwise(turns)]
    assert sum(grown[190:205]) <= sum(grown[3:18]) * 1.2, "the file"
    assert sum(grown) / len(grown) < 3.5 * ENTRY


def test_a_trimmed_log_takes_the_room_of_its_remaining_entries(tmp_path):
    paper, _ = written_by_turns(tmp_path / "j", 40, trim=3)
    (thread,) = (node for node in paper.conversation.tree.nodes.values() if node.owner == "a")
    (log,) = thread.logs.values()
    assert log.numbers() == range(37, 40)
    with closing(open_writing(JournalOptions(tmp_path / "j"))) as connection:
        rows = connection.execute(
            "select owner, name, length(data) from value order by cast(name as integer)"
        ).fetchall()
        assert {owner for owner, _, _ in rows} == {f"log {thread.id} {ROOM.codecs.of(Note).name}"}
        assert [int(name) for _, name, _ in rows] == [37, 38, 39]


def test_a_log_goes_with_its_thread(tmp_path):
    paper, _ = written_by_turns(tmp_path / "j", 5)
    with closing(open_writing(JournalOptions(tmp_path / "j"))) as connection:
        paper.apply(decisions.close(paper.conversation, paper.rules, paper.moment(), "over"))
        assert Writer(connection, tmp_path / "j").commit(paper.outcomes[-1:]) == [None]
        assert connection.execute("select count(*) from value").fetchone() == (0,)
    assert list(find_findings(tmp_path / "j")) == []


def test_a_log_continues_after_a_restart(tmp_path):
    path, paper = tmp_path / "j", append_to_log(trim=3)
    for number in range(8):
        with closing(open_writing(JournalOptions(path))) as connection:
            turn(paper, Writer(connection, path), number)
            assert Reader(connection).load(paper.conversation.id) == paper.conversation


def test_one_altered_entry_is_noticed(tmp_path):
    path = tmp_path / "j"
    paper, _ = written_by_turns(path, 3)
    for damage in ("update value set data = x'00' where name = '1'", "delete from value where name = '0'"):
        with closing(open_writing(JournalOptions(path))) as connection:
            connection.execute("begin")
            connection.execute(damage)
            with pytest.raises(UnreadableError):
                Reader(connection).load(paper.conversation.id)
            connection.execute("rollback")
