"""Damage to a journal is noticed when it is opened, loaded or verified. Nothing is silently wrong."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from random import Random

import pytest
from click.testing import CliRunner

from agentserver.cli import cli
from agentserver.completion import RecordedCompletion
from agentserver.contract import Code
from agentserver.core.decide import decisions
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.messages import (
    Drafts,
    Effects,
    FinishedInvocation,
    HandlerFailure,
    HandlerReturn,
    RequestKey,
)
from agentserver.core.records.details import Failure
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.core.state.elapsed_time import Calendar, Jump
from agentserver.engines.conformance.suite import SampleConversation
from agentserver.engines.journal import notes, records, retention, suspension
from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.rows import Acknowledgement
from agentserver.engines.sqlite import file as journal_file
from agentserver.engines.sqlite.file import (
    DRIVER,
    JournalOptions,
    Sync,
    count_opening,
    open_reading,
    open_writing,
)
from agentserver.engines.sqlite.lock import HEAD, find_companion
from agentserver.engines.sqlite.maintenance import find_findings, leave
from agentserver.engines.sqlite.writer import Writer
from agentserver.notes import (
    Eraser,
    EraserRole,
    Note,
    NoteFilter,
    NoteLimits,
    NoteScope,
    NoteSource,
    NoteSpan,
    SpanAuthor,
)
from agentserver.ports import EngineError
from tests.fuzzing import examples

TABLES = (
    "conversation",
    "step",
    "delivery",
    "queue",
    "event",
    "value",
    "receipt",
    "answer",
    "head",
    "calendar",
    "suspension",
    "state",
    "opening",
    "claim",
    "facet",
    "wordlist",
    "note",
    "note_source",
    "note_log",
    "note_head",
)
KEYS = {
    "queue": "delivery",
    "facet": "conversation",
    "wordlist": "conversation",
    "state": "conversation",
    "value": "conversation",
    "receipt": "conversation",
    "answer": "approval",
    "opening": "name",
    "note_source": "name",
    "note_head": "one",
}
"""Stands for a missing row number."""


def conclude(story, outcome, result):
    finished = FinishedInvocation(outcome.ready[0], None, result)
    return decisions.conclude(outcome.conversation, finished, story.rules, story.moment())


def send_with_key(story, said):
    """The same message under an id of its sender's."""
    outside = said.cause._replace(key=RequestKey(f"name {said.cause.request}", "content"))
    return decisions.receive(story.start(), outside, story.rules, story.moment())


@pytest.fixture
def journal(tmp_path, full_journal):
    path = tmp_path / "j"
    path.write_bytes(full_journal)
    return path


@pytest.fixture(scope="module")
def full_journal(tmp_path_factory):
    """One of everything: open and finished, kept whole and as changes, queued, done, dead, discarded, dropped, stored, taken and not."""
    path, story = tmp_path_factory.mktemp("journal") / "j", SampleConversation()
    with closing(open_writing(JournalOptions(path, Sync.NORMAL))) as connection:
        writer, outcomes = Writer(connection, path), []
        for number in range(12):
            said = story.receive(story.start(), f"some words {number}")
            if number % 3 == 1:
                said = send_with_key(story, said)
            outcomes.append(said)
            if number % 4 == 1:
                outcomes.append(story.answer(said.conversation, said.ready[0]))
            elif number % 4 == 2:
                outcomes.append(conclude(story, said, HandlerFailure(Code.INTERNAL, Failure("went wrong"))))
            elif number % 4 == 3:
                stored = {"name": b"value %d" % number, "other": bytes(99)}
                outcomes.append(conclude(story, said, HandlerReturn(Drafts(), Effects(stored))))
            if number == 0:
                outcomes[-1] = said._replace(since=None)  # so that the state is kept whole
                outcomes.append(story.receive(said.conversation, "more"))
            if number > 7:
                outcomes.append(story.close(outcomes[-1].conversation))
        left = [Acknowledgement(outcomes[2].conversation.id)]
        assert writer.commit(outcomes) == [None] * len(outcomes)
        assert writer.commit([], left) == []
        records.claim_name(connection, "name", outcomes[0].conversation.id, 5.0)
        asked = outcomes[0].conversation.id, "request", "delivery", "clerk", "model"
        records.add_completion(connection, RecordedCompletion(*asked, at=5.0, took=1.0), 99.0)
        for key in ("first", "second", "third"):
            spans = (NoteSpan("text", f"the words of {key}", SpanAuthor.STRANGER),)
            sources = (NoteSource(f"web {key}", "https://example.org"),)
            note = Note(key, NoteScope.PRINCIPAL, "ada", key, "ada", "desk", "one", 5.0, spans, sources)
            assert notes.add_note(connection, note, NoteLimits(9, 999), key.encode())
        assert (
            notes.forget_notes(connection, NoteFilter(id="second"), Eraser(EraserRole.OPERATOR, "ada"), 6.0)
            == 1
        )
        count_opening(connection)
        records.write_calendar(connection, Calendar((Jump(5.0, 9.0),), 11.0))
        for number in (3, 4, 5):
            assert writer.suspend(outcomes[number].conversation.id, "it cannot go on", 20.0) is not None
        suspension.resume(connection, Reader(connection).list_suspended()[0].id, 21.0)
        suspension.discard_suspended(connection, Reader(connection).list_suspended()[0].id, 21.0)
        retention.discard_letter(connection, Reader(connection).dead()[0].delivery.id, "ops", 9.0)
    denied = ApprovalAnswer("one", "digest", Answer.DENY, "ada")
    assert leave(path, lambda connection: records.put_answer(connection, denied, 5.0))
    assert list(find_findings(path)) == []
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    return path.read_bytes()


def content(path):
    with closing(sqlite3.connect(path)) as connection:
        return {table: sorted(map(repr, connection.execute(f"select * from {table}"))) for table in TABLES}


def find_damage(path):
    """Return the messages of opening and verifying the journal."""
    try:
        with closing(open_writing(JournalOptions(path, Sync.NORMAL))) as connection:
            said = list(map(str, Reader(connection).find_damaged()))
        return said + list(find_findings(path))
    except (EngineError, *DRIVER) as error:  # an engine makes one of the other
        return [str(error)]


def columns():
    """All but those of ``handoff``, which audit verify compares with the file that they are of."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(journal_file.TABLES)
        return [
            (table, name)
            for table in sorted(
                row[0]
                for row in fresh.execute(
                    "select name from sqlite_master where type = 'table' and name != 'handoff'"
                    " and name not glob 'wordindex*'"  # FTS5's own, made of wordlist
                    " and name not glob 'noteindex*'"  # and of note
                )
            )
            for _, name, *_ in fresh.execute(f"pragma table_info({table})")
            if (table, name)
            not in {
                ("completion", "number"),  # the order in which they came, which says nothing of one
                ("note_log", "number"),
            }
        ]


def other(value):
    match value:
        case bytes():
            return bytes([value[0] ^ 4]) + value[1:] if value else b"x"
        case str():
            return chr(ord(value[0]) ^ 1) + value[1:] if value else "x"
        case int():
            return value ^ 1 if value in (0, 1) else value + 1000
        case float():
            return value + 0.5
        case None:
            return 7.0


@pytest.mark.parametrize(("table", "column"), columns())
def test_any_column_of_any_row_that_changes_is_noticed(journal, table, column):
    before = journal.read_bytes()
    key = KEYS.get(table, "rowid")
    with closing(sqlite3.connect(journal)) as connection:
        rows = connection.execute(f"select {key}, {column} from {table} order by 1").fetchall()
    assert rows, "one of everything"
    for where, value in rows[:: max(1, len(rows) // 5)]:
        journal.write_bytes(before)
        with closing(sqlite3.connect(journal, isolation_level=None)) as connection:
            try:
                text = column in {"sender", "root"} and value is None
                changed = "x" if text else other(value)
                connection.execute(f"update {table} set {column} = ? where {key} = ?", (changed, where))
            except sqlite3.IntegrityError:
                continue
        assert find_damage(journal), (where, value)


@pytest.mark.parametrize(
    "table",
    [
        table
        for table in TABLES
        if table not in {"answer", "suspension", "head", "calendar", "opening", "claim", "wordlist"}
    ],
)
def test_any_row_that_goes_is_noticed(journal, table):
    before = journal.read_bytes()
    with closing(sqlite3.connect(journal)) as connection:
        (count,) = connection.execute(f"select count(*) from {table}").fetchone()
    for number in range(count):
        journal.write_bytes(before)
        with closing(sqlite3.connect(journal, isolation_level=None)) as connection:
            key = KEYS.get(table, "number")
            connection.execute(
                f"delete from {table} where {key} = (select {key} from {table} order by 1 limit 1 offset ?)",
                (number,),
            )
        assert find_damage(journal), number


def flip_bytes(path, before, places):
    whole = content(path)
    silent = []
    for place, bit in places:
        data = bytearray(before)
        data[place] ^= 1 << bit
        path.write_bytes(data)
        for suffix in ("-wal", "-shm"):
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
        if not find_damage(path) and content(path) != whole:
            silent.append((place, bit))
    path.write_bytes(before)
    return silent


def test_a_bit_that_flips_is_noticed_or_harmless(journal):
    before, random = journal.read_bytes(), Random(3)
    used = [place for place, byte in enumerate(before) if byte]
    places = [(place, random.randrange(8)) for place in (*range(100), *random.sample(used, examples(300)))]
    assert flip_bytes(journal, before, places) == []


@pytest.mark.soak
def test_every_bit_that_flips_is_noticed_or_harmless(journal, soak_scale):
    before, random = journal.read_bytes(), Random(4)
    places = [(random.randrange(len(before)), random.randrange(8)) for _ in range(50 * soak_scale)]
    assert flip_bytes(journal, before, places) == []


def test_a_conversation_that_is_damaged_is_unreadable_and_the_others_are_not(journal):
    with closing(open_writing(JournalOptions(journal))) as connection:
        reader = Reader(connection)
        first, second, *_ = reader.active()
        connection.execute("update conversation set touched = touched + 1 where id = ?", (first,))
        with pytest.raises(UnreadableError, match="fail their seal"):
            reader.load(first)
        assert reader.load(second) is not None
        assert [first in str(error) for error in reader.find_damaged()] == [True]


def test_invalid_text_is_unreadable(journal):
    with closing(open_writing(JournalOptions(journal))) as connection:
        reader = Reader(connection)
        key = reader.active()[0]
        connection.execute(
            "update delivery set thread = cast(x'ff' as text) where number in (select delivery from queue)"
        )
        with pytest.raises(UnreadableError, match="fail their seal"):
            reader.load(key)


def test_nothing_is_committed_on_top_of_damage(tmp_path):
    path, story = tmp_path / "j", SampleConversation()
    said = story.receive(story.start(), "1")
    with closing(open_writing(JournalOptions(path, Sync.NORMAL))) as connection:
        assert Writer(connection, path).commit([said]) == [None]
        connection.execute("update delivery set hop = 9")
        (error,) = Writer(connection, path).commit([story.answer(said.conversation, said.ready[0])])
        assert "fail their seal" in str(error)


def test_a_damaged_head_stops_the_start(journal):
    with closing(sqlite3.connect(journal, isolation_level=None)) as connection:
        connection.execute("update head set steps = steps + 1")
    with pytest.raises(EngineError, match="head fails its seal"):
        open_writing(JournalOptions(journal))


def test_the_verb_reports_the_damage_and_exits_1(journal):
    verb = ["journal", "verify", "--journal", str(journal)]
    done = CliRunner().invoke(cli, verb)
    assert (done.exit_code, done.output.strip()) == (0, f"{journal}: nothing was altered")
    with closing(sqlite3.connect(journal, isolation_level=None)) as connection:
        connection.execute("update step set at = at + 1 where number = 1")
    done = CliRunner().invoke(cli, verb)
    assert done.exit_code == 1
    assert "step 1 breaks the chain" in done.output
    assert "1 faults" in done.output


NOTES_REMOVED = "insert into noteindex (noteindex, rowid, words) select 'delete', number, words from note"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            "insert into noteindex (rowid, words) values (99, 'stray')",
            "the index of notes: 0 entries are missing and 1 belong to no note",
        ),
        (NOTES_REMOVED, "8 entries are missing and 0 belong to no note, so searches by text are wrong"),
        ("update note set number = number + 50", "8 entries are missing and 8 belong to no note"),
        (
            "update noteindex_data set block = x'00ff00ff00ff00ff' where id > 10",
            "the index of notes: it cannot be read",
        ),
    ],
)
def test_a_damaged_index_of_notes_is_found_by_the_verb(journal, change, fault):
    with closing(sqlite3.connect(journal, isolation_level=None)) as connection:
        connection.execute(change)
    done = CliRunner().invoke(cli, ["journal", "verify", "--journal", str(journal)])
    assert (done.exit_code, fault in done.output) == (1, True), done.output
    assert done.output.endswith("1 faults\n")


def test_a_journal_that_is_older_than_its_head_is_a_finding(journal):
    older = journal.read_bytes()
    story = SampleConversation()
    story._moments = 10**6
    with closing(open_writing(JournalOptions(journal))) as connection:
        assert Writer(connection, journal).commit([story.receive(story.start(), "1")]) == [None]
    journal.write_bytes(older)
    assert "the last 1 of its" in next(find_findings(journal))
    find_companion(journal, HEAD).unlink()
    assert list(find_findings(journal)) == []


def test_a_journal_at_work_can_be_verified(tmp_path):
    path, story = tmp_path / "j", SampleConversation()
    with closing(open_writing(JournalOptions(path, Sync.NORMAL))) as connection, closing(open_reading(path)):
        writer = Writer(connection, path)
        for number in range(3):
            assert writer.commit([story.receive(story.start(), str(number))]) == [None]
            assert list(find_findings(path)) == []
