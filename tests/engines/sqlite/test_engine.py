from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from agentserver.contract import Code
from agentserver.core.decide import decisions
from agentserver.core.decide.requeue import requeue
from agentserver.core.messages import Done, FinishedInvocation, HandlerFailure, OutsideMessage, RequeuedLetter
from agentserver.core.records.details import Failure
from agentserver.engines.conformance.sample import idle, keep, list_open
from agentserver.engines.conformance.suite import CHECKS, BrokenPromiseError, SampleConversation, Subject
from agentserver.engines.conformance.whole import SampleOrganism
from agentserver.engines.journal import retention
from agentserver.engines.journal.reader import Reader
from agentserver.engines.journal.rows import Acknowledgement
from agentserver.engines.sqlite import maintenance
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import APPLICATION, JournalOptions, open_reading, open_writing
from agentserver.engines.sqlite.lock import Lock
from agentserver.engines.sqlite.writer import Writer
from agentserver.ports import ConflictError, EngineError, UnstorableError
from tests.engines.endings import endings
from tests.engines.outcomes import Journal, fill_conversation

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_journal_keeps_every_promise(check, tmp_path):
    path = tmp_path / "out" / "journal.sqlite"
    journal = Journal(path)
    subject = Subject(
        journal, durable=True, guarded=journal, retaining=lambda seconds: Journal(path, retention=seconds)()
    )
    await check(subject)


# Broken engines


class Hasty(SqliteEngine):
    """Says committed before it is."""

    async def commit(self, claim, outcome):
        task = asyncio.ensure_future(super().commit(claim, outcome))
        task.add_done_callback(lambda done: done.exception())
        await asyncio.sleep(0)


class RepeatingEngine(SqliteEngine):
    """Hands out again what a gateway has had."""

    def acknowledge(self, conversation, place):
        pass


class UnmarkedEngine(SqliteEngine):
    """Does not mark the end of a request as a possible repetition."""

    async def outbox(self, conversation):
        async for event in super().outbox(conversation):
            yield event._replace(redelivered=False) if isinstance(event, Done) else event


class HoardingEngine(SqliteEngine):
    """Knows nobody's conversations."""

    async def conversations_of(self, principal):
        return
        yield


class Oblivious(SqliteEngine):
    """Takes decisions about a new conversation as new, though an earlier server has stored that conversation."""

    async def __aenter__(self):
        await super().__aenter__()
        self._earlier = {key for key, _ in await list_open(self)}
        return self

    def commit(self, claim, outcome):
        if outcome.before or outcome.conversation.id not in self._earlier:
            return super().commit(claim, outcome)
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


class Fresh(SqliteEngine):
    """Shows operators no dead letter of an earlier server."""

    async def __aenter__(self):
        await super().__aenter__()
        self._earlier = await super().read(lambda reader: reader.dead())
        return self

    async def read(self, work):
        found = await super().read(work)
        return [] if self._earlier and found == self._earlier else found


@pytest.mark.parametrize("broken", [Hasty, RepeatingEngine, UnmarkedEngine, HoardingEngine, Oblivious, Fresh])
async def test_a_broken_journal_is_found_out(broken, tmp_path):
    for number, check in enumerate(CHECKS):
        place = JournalOptions(tmp_path / f"{number}.sqlite")
        try:
            await check(Subject(lambda place=place: broken(place), durable=True))
        except (BrokenPromiseError, ConflictError):
            return
    pytest.fail("every check passes")


# Operators


async def test_operators_read_in_a_thread_of_their_own(tmp_path):
    story = SampleConversation()
    async with Journal(tmp_path / "j")() as engine:
        one = story.receive(story.start(), "1")
        await keep(engine, one)
        writes = await engine._do(threading.get_ident)
        reads = await engine.read(lambda _reader: threading.get_ident())
        assert len({writes, reads, threading.get_ident()}) == 3
        assert await engine.read(lambda reader: reader.load(one.conversation.id)) == one.conversation


async def test_a_journal_that_cannot_be_read_is_an_error_of_the_engine(tmp_path):
    def broken(_reader):
        raise sqlite3.OperationalError("disk I/O error")

    async with Journal(tmp_path / "j")() as engine:
        with pytest.raises(EngineError, match="disk I/O error"):
            await engine.read(broken)
        with pytest.raises(LookupError):
            await engine.read(lambda reader: reader.recorded_conversation("unknown"))


# Groups


def writer(path):
    return Writer(open_writing(JournalOptions(path)), path)


def test_a_conflict_in_a_group_leaves_the_others_alone(tmp_path):
    story = SampleConversation()
    mine, theirs, other = story.start(), story.start(), story.start()
    first = story.receive(mine, "1")
    found = writer(tmp_path / "j").commit(
        [
            first,
            story.receive(mine, "stale"),
            story.receive(theirs, "1"),
            story.receive(first.conversation, "2"),
            story.receive(other, "1"),
        ]
    )
    assert [type(error) for error in found] == [type(None), ConflictError, type(None), type(None), type(None)]
    with closing(open_reading(tmp_path / "j")) as connection:
        assert [one.steps for one in Reader(connection).conversations()] == [1, 2, 1]


def test_an_outcome_that_cannot_be_written_leaves_the_others_alone(tmp_path):
    story = SampleConversation()
    fine = story.receive(story.start(), "1").cause.data
    bad = decisions.receive(
        story.start(), OutsideMessage(fine, "\ud800", "worker"), story.rules, story.moment()
    )
    good = story.receive(story.start(), "1")
    found = writer(tmp_path / "j").commit([story.receive(story.start(), "1"), bad, good])
    assert [type(error) for error in found] == [type(None), UnstorableError, type(None)]


def test_an_outcome_without_a_cause_or_a_moment_is_refused(tmp_path):
    story, journal = SampleConversation(), writer(tmp_path / "j")
    outcome = story.receive(story.start(), "1")
    for broken in (outcome._replace(cause=None), outcome._replace(moment=None)):
        (error,) = journal.commit([broken])
        assert isinstance(error, EngineError)
    assert journal.commit([outcome]) == [None]


async def test_commits_of_one_turn_share_a_transaction(tmp_path):
    story = SampleConversation()
    async with Journal(tmp_path / "j")() as engine:
        seen = []
        engine._connection.set_trace_callback(lambda text: seen.append(text.lower()))
        await asyncio.gather(*(keep(engine, story.receive(story.start(), "1")) for _ in range(50)))
        engine._connection.set_trace_callback(None)
    assert seen.count("commit") <= 2


async def test_who_gives_up_waiting_for_a_commit_does_not_undo_it(tmp_path):
    story = SampleConversation()
    outcome = story.receive(story.start(), "1")
    async with Journal(tmp_path / "j")() as engine:
        task = asyncio.ensure_future(keep(engine, outcome))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        assert await engine.load(outcome.conversation.id) == outcome.conversation


async def test_an_outcome_that_has_no_bytes_is_refused_at_once(tmp_path):
    story = SampleConversation()
    outcome = story.receive(story.start(), "1")
    async with Journal(tmp_path / "j")() as engine:
        with pytest.raises(EngineError, match="no step has decided"):
            await keep(engine, outcome._replace(moment=None))
        await keep(engine, outcome)


async def test_a_defect_of_the_writer_reaches_everybody_who_waits(tmp_path, monkeypatch):
    story = SampleConversation()

    def broken(*_):
        raise RuntimeError("defect")

    async with Journal(tmp_path / "j")() as engine:
        monkeypatch.setattr(engine._writer, "write", broken)
        waiting = [keep(engine, story.receive(story.start(), "1")) for _ in range(2)]
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in found] == [RuntimeError] * 2
        monkeypatch.undo()
        await keep(engine, story.receive(story.start(), "1"))


async def test_an_unreadable_row_is_the_engines_error(tmp_path):
    story = SampleConversation()
    outcome = story.receive(story.start(), "1")
    async with Journal(tmp_path / "j")() as engine:
        await keep(engine, outcome)
        engine._connection.execute("update conversation set state = cast('[99]' as blob), seal = x''")
        with pytest.raises(EngineError, match="fail their seal"):
            await engine.load(outcome.conversation.id)
        engine._connection.execute("drop table value")
        with pytest.raises(EngineError, match="its tables are not those of this agentserver"):
            await engine.load(outcome.conversation.id)


# A file that cannot be used


async def test_a_second_server_on_the_same_journal_is_refused(tmp_path):
    async with Journal(tmp_path / "j")():
        with pytest.raises(EngineError, match=rf"in use by process {os.getpid()}: a journal has one writer"):
            async with Journal(tmp_path / "j")():
                pass
    async with Journal(tmp_path / "j")():
        pass


def test_the_lock_dies_with_its_holder(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from agentserver.engines.sqlite.lock import Lock\n"
        "Lock(Path(sys.argv[1])).__enter__(); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, tmp_path / "j"], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(EngineError, match=f"process {holder.pid}"), Lock(tmp_path / "j"):
        pass
    holder.kill()
    holder.communicate()
    with Lock(tmp_path / "j"):
        pass


async def test_a_database_of_another_program_is_not_changed(tmp_path):
    with closing(sqlite3.connect(tmp_path / "j")) as other:
        other.execute("create table theirs (x)")
    before = (tmp_path / "j").read_bytes()
    with pytest.raises(EngineError, match="another program"):
        async with Journal(tmp_path / "j")():
            pass
    assert (tmp_path / "j").read_bytes() == before


async def test_a_file_that_is_no_database_is_not_changed(tmp_path):
    (tmp_path / "j").write_bytes(b"my thesis " * 1000)
    with pytest.raises(EngineError, match="no journal"):
        async with Journal(tmp_path / "j")():
            pass
    assert (tmp_path / "j").read_bytes() == b"my thesis " * 1000


async def test_a_journal_of_another_format_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "j")) as later:
        later.executescript(
            f"pragma application_id = {APPLICATION}; pragma user_version = 99; create table t (x)"
        )
    with pytest.raises(EngineError, match=r"not a journal of format 1 \(it has 99\)"):
        async with Journal(tmp_path / "j")():
            pass


async def test_a_damaged_journal_is_refused_with_advice(tmp_path):
    story = SampleConversation()
    async with Journal(tmp_path / "j")() as engine:
        for _ in range(50):
            await keep(engine, story.receive(story.start(), "1"))
    data = bytearray((tmp_path / "j").read_bytes())
    data[8192:30000] = os.urandom(30000 - 8192)
    (tmp_path / "j").write_bytes(data)
    with pytest.raises(EngineError, match=r"damaged.*restore a backup"):
        async with Journal(tmp_path / "j")():
            pass


async def test_a_place_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match="file"):
        async with Journal(tmp_path / "file" / "j")():
            pass
    (tmp_path / "folder").mkdir()
    with pytest.raises(EngineError, match="folder"):
        async with Journal(tmp_path / "folder")():
            pass


async def test_on_a_full_disk_nothing_is_half_stored_and_work_continues_when_there_is_room(tmp_path):
    story = SampleConversation()
    first = story.receive(story.start(), "1")
    async with Journal(tmp_path / "j")() as engine:
        await keep(engine, first)
        (pages,) = engine._connection.execute("pragma page_count").fetchone()
        engine._connection.execute(f"pragma max_page_count = {pages}")
        refused = story.receive(first.conversation, "x" * 20_000)
        with pytest.raises(EngineError, match="the disk is full"):
            await keep(engine, refused)
        assert await engine.load(first.conversation.id) == first.conversation
        engine._connection.execute("pragma max_page_count = 100000")
        await keep(engine, refused)
    async with Journal(tmp_path / "j")() as engine:
        assert await engine.load(first.conversation.id) == refused.conversation


async def test_a_journal_that_turns_read_only_refuses_and_keeps_its_content(tmp_path):
    story = SampleConversation()
    first = story.receive(story.start(), "1")
    async with Journal(tmp_path / "j")() as engine:
        await keep(engine, first)
        engine._connection.execute("pragma query_only = on")
        with pytest.raises(EngineError, match="cannot be written"):
            await keep(engine, story.receive(first.conversation, "2"))
        assert await engine.load(first.conversation.id) == first.conversation
        engine._connection.execute("pragma query_only = off")


def test_after_an_error_of_the_disk_nothing_more_is_written(tmp_path):
    """A real one: the process may not write files beyond a size, which SQLite meets as an I/O error."""
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from agentserver.engines.conformance.suite import SampleConversation\n"
        "from agentserver.engines.sqlite.file import JournalOptions, open_writing\n"
        "from agentserver.engines.sqlite.writer import Writer\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "path = Path(sys.argv[1]); story = SampleConversation(); writer = Writer(open_writing(JournalOptions(path)), path)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)); found = []\n"
        "while not found or found[-1] is None: found += writer.commit([story.receive(story.start(), '1')])\n"
        "print(len(found) - 1, found[-1], writer.commit([story.receive(story.start(), '1')])[0] is found[-1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "j"], capture_output=True, text=True, check=True
    )
    kept, *text, again = done.stdout.split()
    assert "SQLITE_IOERR" in " ".join(text)
    assert again == "True"
    with closing(open_writing(JournalOptions(tmp_path / "j"))) as connection:
        assert len(list(Reader(connection).conversations())) == int(kept) > 0


# The outbox, dead letters, ageing out


async def test_replies_of_this_run_are_not_marked_and_those_of_the_last_one_are(tmp_path):
    story = SampleConversation()
    one = story.receive(story.start(), "1")
    answered = story.answer(one.conversation, one.ready[0])
    async with Journal(tmp_path / "j")() as engine:
        await keep(engine, one)
        await keep(engine, answered)
        assert [event async for event in engine.outbox(one.conversation.id)] == list(answered.replies)
        engine.acknowledge(one.conversation.id, answered.replies[1].place)
    async with Journal(tmp_path / "j")() as engine:
        assert [event async for event in engine.outbox(one.conversation.id)] == [
            answered.replies[0]._replace(redelivered=True)
        ]
        assert [key async for key in engine.conversations_of("console")] == [one.conversation.id]
        assert [key async for key in engine.conversations_of("somebody")] == []


def test_an_acknowledgement_is_written_though_its_commit_holds_an_unwritable_step(tmp_path):
    story = SampleConversation()
    one = story.receive(story.start(), "1")
    answered = story.answer(one.conversation, one.ready[0])
    with closing(open_writing(JournalOptions(tmp_path / "j"))) as connection:
        writer, reader = Writer(connection, tmp_path / "j"), Reader(connection)
        assert writer.commit([one, answered]) == [None, None]
        key = one.conversation.id
        bad = decisions.receive(
            story.start(), OutsideMessage(one.cause.data, "\ud800", "worker"), story.rules, story.moment()
        )
        fine, refused = writer.commit(
            [story.receive(story.start(), "2"), bad], [Acknowledgement(key, *answered.replies[0].place)]
        )
        assert (fine, type(refused)) == (None, UnstorableError)
        assert reader.outbox(key, lambda number: False) == list(answered.replies[1:])
        assert [type(error) for error in writer.commit([bad], [Acknowledgement(key)])] == [UnstorableError]
        assert len(reader.outbox(key, lambda number: False)) == 1, "nothing could be committed"
        assert writer.commit([story.receive(story.start(), "3")]) == [None]
        assert reader.outbox(key, lambda number: False) == []


def test_a_recorded_conversation_is_read_in_few_statements(tmp_path):
    office, statements = SampleOrganism(), []
    with closing(open_writing(JournalOptions(tmp_path / "journal"))) as connection:
        outcomes = office.outcomes()
        assert set(Writer(connection, tmp_path / "journal", office.rules.guards).commit(outcomes)) == {None}
        connection.set_trace_callback(statements.append)
        recorded = Reader(connection).recorded_conversation(outcomes[-1].conversation.id)
    assert len(recorded.steps) == len(outcomes) > 50
    assert len(statements) == 4, "the conversation, its steps, their deliveries and their events"


def fail_step(story, conversation, delivery):
    finished = FinishedInvocation(delivery, None, HandlerFailure(Code.INTERNAL, Failure("boom")))
    return decisions.conclude(conversation, finished, story.rules, story.moment())


async def test_a_failed_delivery_is_a_dead_letter_until_it_is_queued_again_or_discarded(tmp_path):
    story = SampleConversation()
    one, two = fill_conversation(story)[0], fill_conversation(story)[0]
    async with Journal(tmp_path / "j")() as engine:
        for outcome in (one, two):
            await keep(engine, outcome)
            await keep(engine, fail_step(story, outcome.conversation, outcome.ready[0]))
        letters = await engine._do(engine._reader.dead)
        assert [(letter.delivery, letter.reason) for letter in letters] == [
            (one.ready[0], "internal: boom"),
            (two.ready[0], "internal: boom"),
        ]
        conversation = await engine.load(one.conversation.id)
        revived = requeue(
            conversation, RequeuedLetter(letters[0].delivery, "ops"), story.rules, story.moment()
        )
        await keep(engine, revived)
        assert await engine.load(one.conversation.id) == revived.conversation
        discard = lambda: retention.discard_letter(engine._connection, two.ready[0].id, "ops", 9.0)  # noqa: E731
        assert await engine._do(discard)
        assert not await engine._do(discard)
        reader = engine._reader
        assert await engine._do(reader.dead) == []
        found = await engine._do(lambda: endings(engine._connection, one.conversation.id))
        assert found == {one.ready[0].id: None}
        assert (
            retention.find_broken_link(
                await engine._do(lambda: reader.recorded_conversation(one.conversation.id))
            )
            is None
        )
        with pytest.raises(EngineError):
            await keep(
                engine,
                requeue(
                    await engine.load(two.conversation.id),
                    RequeuedLetter(two.ready[0], "ops"),
                    story.rules,
                    story.moment(),
                ),
            )


async def test_closed_conversations_age_out_and_their_room_is_used_again(tmp_path):
    story, path = SampleConversation(), tmp_path / "j"
    sizes = []
    async with Journal(path, retention=10.0)() as engine:
        kept = story.receive(story.start(), "open")
        await keep(engine, kept)
        for _ in range(6):
            for _ in range(40):
                one = story.receive(story.start(), "x" * 500)
                await keep(engine, one)
                await keep(engine, story.close(one.conversation))
            now = one.conversation.touched + 100
            assert await engine.expire(now) <= 40
            engine._connection.execute("pragma wal_checkpoint").fetchall()
            sizes.append(path.stat().st_size)
        assert await engine.load(kept.conversation.id) == kept.conversation
        assert await idle(engine, now) == [kept.conversation.id]
    assert sizes[-1] <= sizes[1]

    def look():
        with closing(open_writing(JournalOptions(path))) as connection:
            maintenance.vacuum(connection)
            counts = [
                connection.execute(f"select count(*) from {table}").fetchone()[0]
                for table in ("step", "delivery", "event", "conversation")
            ]
        return counts, path.stat().st_size, maintenance.collect_stats(path)

    counts, size, stats = await asyncio.to_thread(look)
    assert counts == [1, 1, 0, 1]
    assert size < sizes[-1]
    assert stats[3:8] == (1, 0, 1, 1, 0)


async def test_without_a_retention_everything_is_kept(tmp_path):
    async with Journal(tmp_path / "j")() as engine:
        assert await engine.expire(1e12) == 0


async def test_a_copy_is_whole_and_may_be_of_some_conversations(tmp_path):
    story, path = SampleConversation(), tmp_path / "j"
    ones = [story.receive(story.start(), str(n)) for n in range(3)]
    async with Journal(path)() as engine:
        for one in ones:
            await keep(engine, one)

        def copy(name, *conversations):
            return engine._do(lambda: maintenance.export(path, tmp_path / name, conversations))

        await copy("all")
        await copy("one", ones[1].conversation.id)
        with pytest.raises(EngineError, match="exists"):
            await copy("one")
        with pytest.raises(LookupError):
            await copy("none", "nobody")
    async with Journal(tmp_path / "one")() as engine:
        assert await engine.load(ones[1].conversation.id) == ones[1].conversation
        assert await engine.load(ones[0].conversation.id) is None
    assert (await asyncio.to_thread(maintenance.collect_stats, tmp_path / "all")).open == 3


async def test_a_step_that_was_changed_on_the_disk_is_found(tmp_path):
    story, path = SampleConversation(), tmp_path / "j"
    outcomes = fill_conversation(story, 3)
    async with Journal(path)() as engine:
        for outcome in outcomes:
            await keep(engine, outcome)

        def story_of():
            return engine._do(lambda: engine._reader.recorded_conversation(outcomes[0].conversation.id))

        assert retention.find_broken_link(await story_of()) is None
        engine._connection.execute("update delivery set message = cast('forged' as blob) where number = 2")
        assert retention.find_broken_link(await story_of()) == 2


def test_there_is_nothing_to_read_where_no_journal_is(tmp_path):
    with pytest.raises(EngineError, match="there is no journal"):
        open_reading(tmp_path / "j")
    (tmp_path / "k").write_bytes(b"x" * 5000)
    with pytest.raises(EngineError, match="no journal"):
        open_reading(tmp_path / "k")
    sqlite3.connect(tmp_path / "l").close()
    (tmp_path / "l").touch()
    with pytest.raises(EngineError, match="it is empty"):
        open_reading(tmp_path / "l")
    with closing(sqlite3.connect(tmp_path / "m")) as other:
        other.execute("create table another (kind)")
    with pytest.raises(EngineError, match="a database of another program"):
        open_reading(tmp_path / "m")
