"""Replicas: the same log gives the same rows, however much of it comes at once; what is wrong costs no more than itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from agentserver.engines.conformance.sample import SampleConversation
from agentserver.engines.replica import opening
from agentserver.engines.replica.entries import form
from agentserver.engines.replica.entries.acts import Departing, Naming, Setting
from agentserver.engines.replica.log import BrokenLogError, LogEntry
from agentserver.engines.replica.replica import Replica
from agentserver.engines.sqlite.reader import Reader
from agentserver.engines.sqlite.rows import Left
from agentserver.engines.sqlite.steps.step import StepMaker
from agentserver.ports import ConflictError, FencedError, UnfitError


@pytest.fixture
def replica(tmp_path):
    with closing(opening.opened(tmp_path / "r.db", "o")) as connection:
        yield Replica(connection, tmp_path / "r.db")


class Told:
    """A log on paper."""

    def __init__(self):
        self.entries, self.maker, self.sample = [], StepMaker(), SampleConversation()

    def claim(self, partition=0):
        self.entries.append(LogEntry(len(self.entries) + 1, partition, len(self.entries) + 1, b"", "", 1.0))
        return self.entries[-1].place

    def say(self, *acts, epoch=None, body=None):
        place = len(self.entries) + 1
        self.entries.append(
            LogEntry(place, 0, epoch, form.dump(acts) if body is None else body, f"e{place}", 1.0)
        )
        return self.entries[-1]

    def step(self, outcome):
        encoded = self.maker.encode(outcome)
        step = self.maker.step(encoded)
        self.maker.kept(encoded, step)
        return step


def story():
    """A log with a bit of everything in it, and what is dropped by every replica."""
    told = Told()
    sample, epoch = told.sample, told.claim()
    for _ in range(4):
        said = sample.said(sample.opened(), "1")
        told.say(told.step(said), epoch=epoch)
        answered = sample.answered(said.conversation, said.ready[0])
        told.say(told.step(answered), Naming("n", said.conversation.id, 1.0), epoch=epoch)
        told.say(Departing(Left(said.conversation.id)))
    told.entries.append(told.entries[1]._replace(place=len(told.entries) + 1))  # comes twice
    told.say(body=b"nothing that can be read")
    told.say(Setting(said.conversation.id, "why", 2.0), epoch=epoch)
    told.say(told.step(sample.said(answered.conversation, "late")), epoch=epoch)
    later = told.claim()
    told.say(told.step(sample.said(sample.opened(), "2")), epoch=epoch)  # under a claim that is over
    over = sample.said(sample.opened(), "3")
    told.say(told.step(over), told.step(sample.closed(over.conversation)), epoch=later)
    told.say(told.step(over), epoch=later)
    return told.entries


def rows(connection):
    """Everything that a replica has."""
    tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
    return {table: connection.execute(f"select * from {table}").fetchall() for table in tables}


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_replicas_are_equal_however_much_comes_at_once(tmp_path, size):
    found = []
    for name, at_once in (("a", 3), ("b", size)):
        with closing(opening.opened(tmp_path / name, "o")) as connection:
            replica, entries = Replica(connection, tmp_path / name), story()
            while entries:
                replica.apply(entries[:at_once])
                entries = entries[at_once:]
            found.append(rows(connection))
    assert found[0] == found[1]
    assert len(found[0]["step"]) > 8


def test_a_replica_that_begins_anew_in_the_middle_becomes_the_same(tmp_path):
    entries = story()
    for cut in range(0, len(entries), 3):
        path = tmp_path / f"r{cut}"
        with closing(opening.opened(path, "o")) as connection:
            Replica(connection, path).apply(entries[:cut])
        with closing(opening.opened(path, "o")) as connection:
            replica = Replica(connection, path)
            assert replica.place == cut
            replica.apply(entries)  # those before are left out
            found = rows(connection)
        if cut == 0:
            whole = found
        assert found == whole


def test_what_is_appended_under_an_earlier_claim_is_dropped_by_all(replica):
    told = Told()
    first = told.claim()
    second = told.claim()
    said = told.sample.said(told.sample.opened(), "1")
    told.say(told.step(said), epoch=first)
    told.say(told.step(said), epoch=second)
    *_, late, now = replica.apply(told.entries)
    assert isinstance(late.results[0], FencedError)
    assert now.results == (None,)


def test_a_step_that_comes_twice_is_there_once(replica):
    told = Told()
    step = told.step(told.sample.said(told.sample.opened(), "1"))
    told.say(step)
    told.say(step)
    first, second = replica.apply(told.entries)
    assert first.results == (None,)
    assert isinstance(second.results[0], ConflictError)


def test_what_cannot_be_written_costs_no_more_than_itself(replica):
    told = Told()
    sample = told.sample
    good, bad, other = (told.step(sample.said(sample.opened(), str(number))) for number in range(3))
    bad = bad._replace(done="no delivery of this id")
    told.say(good, bad, other)
    (applied,) = replica.apply(told.entries)
    assert [type(one) for one in applied.results] == [type(None), UnfitError, type(None)]
    assert replica.place == 1
    more = told.say(told.step(sample.said(sample.opened(), "4")))
    assert replica.apply([more])[0].results == (None,)


def test_a_replica_reads_as_a_journal(replica, tmp_path):
    replica.apply(story())
    with closing(sqlite3.connect(tmp_path / "r.db")) as connection:
        assert len(list(Reader(connection).conversations())) == 5
        assert Reader(connection).aside()


def test_a_damaged_replica_is_made_anew(tmp_path):
    path = tmp_path / "r.db"
    path.write_bytes(b"no database" * 1000)
    with closing(opening._opened_or_anew(path, "o")) as connection:
        assert Replica(connection, path).place == 0


def test_an_entry_of_a_later_version_is_not_left_out(replica):
    """Left out it was missing from the replica for ever, and from every one that began with a copy of it."""
    told = Told()
    told.say(told.step(told.sample.said(told.sample.opened(), "1")))
    later = told.entries[0]._replace(place=2, body=b"AGE9" + told.entries[0].body[4:])
    for _ in range(2):
        with pytest.raises(BrokenLogError, match="upgrade this server"):
            replica.apply([*told.entries, later])
        assert replica.place == 0
    replica.apply(told.entries)
    assert replica.place == 1


def test_a_copy_of_a_replica_is_its_owners_alone(replica, tmp_path):
    replica.apply(story())
    opening.copy(tmp_path / "r.db", tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
