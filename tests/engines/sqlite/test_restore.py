"""Copies of a journal, made while a server runs, and restored."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing

import pytest
from click.testing import CliRunner

from agentserver.cli import cli
from agentserver.engines.conformance.suite import SampleConversation
from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite import maintenance
from agentserver.engines.sqlite.file import JournalOptions, open_reading, open_writing
from agentserver.engines.sqlite.lock import Lock
from agentserver.engines.sqlite.maintenance import find_findings
from agentserver.engines.sqlite.writer import Writer
from agentserver.ports import EngineError

SUFFIXES = ("", "-wal", "-shm", ".head", ".lock")


class JournalInUse:
    """A server's journal in use; ``killed`` returns the bytes on disk."""

    def __init__(self, path):
        self.path, self.story = path, SampleConversation()
        self.story._moments = int.from_bytes(os.urandom(4))
        self.connection = open_writing(JournalOptions(path))
        self.writer = Writer(self.connection, path)

    def say(self, times):
        outcomes = [self.story.receive(self.story.start(), "1") for _ in range(times)]
        assert self.writer.commit(outcomes) == [None] * times

    def killed(self, home):
        home.mkdir()
        for suffix in SUFFIXES:
            file = self.path.with_name(f"{self.path.name}{suffix}")
            if file.exists():
                shutil.copy(file, home / file.name)
        self.connection.close()
        return home / self.path.name


def steps(path):
    with closing(open_reading(path)) as connection:
        return sum(one.steps for one in Reader(connection).conversations())


def open_journal(path):
    """The steps of a journal that starts, or why it does not."""
    try:
        open_writing(JournalOptions(path)).close()
    except EngineError as error:
        return error
    return steps(path)


def start(path):
    with Lock(path):
        server = JournalInUse(path)
        server.say(1)
        server.connection.close()
    assert list(find_findings(path)) == []


@pytest.fixture
def server(tmp_path):
    server = JournalInUse(tmp_path / "j")
    server.say(3)
    yield server
    server.connection.close()


def test_a_copy_that_was_made_while_the_server_ran_takes_the_place_of_a_journal_that_was_killed(
    server, tmp_path
):
    maintenance.export(server.path, tmp_path / "copy")
    server.say(5)
    path = server.killed(tmp_path / "disk")
    assert path.with_name("j-wal").stat().st_size > 0
    kept = maintenance.restore(tmp_path / "copy", path)
    assert kept == path.with_name("j.before-restore-1")
    assert {each.name for each in path.parent.iterdir()} == {
        "j", "j.lock", kept.name, f"{kept.name}-wal", f"{kept.name}.head"
    }  # fmt: skip
    assert path.stat().st_mode & 0o777 == 0o600
    start(path)
    assert (steps(path), steps(kept)) == (4, 8)
    assert list(find_findings(kept)) == []
    again = maintenance.restore(kept, path)
    assert again == path.with_name("j.before-restore-2")
    start(path)
    assert steps(path) == 9


def test_a_copy_takes_the_place_of_a_journal_that_is_damaged_or_gone(server, tmp_path):
    maintenance.export(server.path, tmp_path / "copy")
    path = server.killed(tmp_path / "disk")
    path.write_bytes(b"rubbish")
    assert maintenance.restore(tmp_path / "copy", path) is not None
    start(path)
    path.unlink()
    assert maintenance.restore(tmp_path / "copy", path) is None
    start(path)
    assert steps(path) == 4


@pytest.mark.parametrize("cut", range(9))
def test_a_restore_that_is_cut_short_is_refused_at_the_start_or_has_changed_nothing(
    server, tmp_path, cut, monkeypatch
):
    """After any of the changes of directory that it makes, it can be done again."""
    maintenance.export(server.path, tmp_path / "copy")
    server.say(2)
    path, left = server.killed(tmp_path / "disk"), [cut]

    def count_changes(change):
        def change_journal(*args, **options):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return change(*args, **options)

        return change_journal

    for name in ("rename", "replace", "unlink"):
        monkeypatch.setattr(f"pathlib.Path.{name}", count_changes(getattr(type(path), name)))
    interrupted = False
    try:
        maintenance.restore(tmp_path / "copy", path)
    except KeyboardInterrupt:
        interrupted = True
    monkeypatch.undo()
    found = open_journal(path)
    assert found == (5 if interrupted else 3) or "steps are missing" in str(found)
    maintenance.restore(tmp_path / "copy", path)
    assert steps(path) == 3
    start(path)


def test_nothing_is_restored_while_a_server_runs(server, tmp_path):
    maintenance.export(server.path, tmp_path / "copy")
    before = server.path.read_bytes()
    with Lock(server.path), pytest.raises(EngineError, match="in use by process"):
        maintenance.restore(tmp_path / "copy", server.path)
    assert server.path.read_bytes() == before


def test_an_incomplete_copy_is_not_restored(server, tmp_path):
    path, copy = server.killed(tmp_path / "disk"), tmp_path / "copy"
    maintenance.export(path, copy)
    before = {each.name: each.read_bytes() for each in path.parent.iterdir()}
    with closing(open_writing(JournalOptions(copy))) as connection:
        connection.execute("update delivery set message = x'00' where number = 1")
    (tmp_path / "thesis").write_bytes(b"my thesis")
    for wrong, why in ((copy, "damaged and was not restored: conversation"), (tmp_path / "thesis", "no journal"),
                       (tmp_path / "none", "there is no journal"), (path, "the journal itself")):  # fmt: skip
        with pytest.raises(EngineError, match=why):
            maintenance.restore(wrong, path)
    assert {name: (path.parent / name).read_bytes() for name in before if name != "j.lock"} == {
        name: data for name, data in before.items() if name != "j.lock"
    }


def test_a_copy_is_its_owners_only(server, tmp_path):
    old = os.umask(0)
    try:
        maintenance.export(server.path, tmp_path / "copy")
        maintenance.export(server.path, tmp_path / "some", [Reader(server.connection).active()[0]])
    finally:
        os.umask(old)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("copy", "some")} == {0o600}
    assert (steps(tmp_path / "copy"), steps(tmp_path / "some")) == (3, 1)


def test_a_copy_that_cannot_be_made_leaves_nothing(server, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for target, why in (("j", "exists already"), ("no/copy", "No such file"), ("link", "exists already")):
        with pytest.raises(EngineError, match=why):
            maintenance.export(server.path, tmp_path / target)
    assert not (tmp_path / "nowhere").exists()
    code = (
        "import resource, signal, sys; from pathlib import Path; from agentserver.engines.sqlite import maintenance\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
        "try: maintenance.export(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    server.connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    done = subprocess.run(
        [sys.executable, "-c", code, server.path, tmp_path / "big"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("EngineError")
    assert not (tmp_path / "big").exists()
    assert steps(server.path) == 3


def test_the_verbs(server, tmp_path):
    run = lambda *args: CliRunner().invoke(cli, ["journal", *map(str, args)])  # noqa: E731
    assert run("export", tmp_path / "copy", "--journal", server.path).exit_code == 0
    path = server.killed(tmp_path / "disk")
    done = run("restore", tmp_path / "copy", "--journal", path)
    assert done.exit_code == 0, done.output
    assert f"previous journal: {path}.before-restore-1" in done.output
    path.unlink()
    path.with_name("j.head").write_bytes(server.path.with_name("j.head").read_bytes())
    done = run("vacuum", "--journal", path)
    assert done.exit_code != 0
    assert run("accept-loss", "--journal", path).exit_code == 0
    start(path)
    assert steps(path) == 1
