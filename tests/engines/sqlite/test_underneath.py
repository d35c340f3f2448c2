"""What happens to the journal's files beneath a server, and between two runs of one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from anyio import to_thread

from agentserver.engines.conformance.sample import keep
from agentserver.engines.conformance.suite import SampleConversation
from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite import head as journal_head
from agentserver.engines.sqlite import lock
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, Sync, open_reading, open_writing
from agentserver.engines.sqlite.lock import Lock
from agentserver.engines.sqlite.writer import Writer
from agentserver.ports import EngineError

pytestmark = pytest.mark.anyio

SUFFIXES = ("", "-wal", "-shm")


def steps(path):
    with closing(open_reading(path)) as connection:
        return sum(one.steps for one in Reader(connection).conversations())


def fill_journal(path, count=3, sync=Sync.FULL):
    """A journal of some steps, left cleanly."""
    story = SampleConversation()
    story._moments = int.from_bytes(os.urandom(4))  # no two of the same ids
    with Lock(path), closing(open_writing(JournalOptions(path, sync))) as connection:
        writer = Writer(connection, path)
        for _ in range(count):
            assert writer.commit([story.receive(story.start(), "1")]) == [None]


# Replaced beneath a server


def remove_file(path, suffix):
    Path(f"{path}{suffix}").unlink()


def replace_file(path, suffix):
    other = path.with_name("other")
    shutil.copy(f"{path}{suffix}", other)
    other.rename(f"{path}{suffix}")


def move_file(path, suffix):
    Path(f"{path}{suffix}").rename(path.with_name("elsewhere"))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("happens", [remove_file, replace_file, move_file])
async def test_nothing_is_accepted_when_another_file_has_replaced_the_journal(tmp_path, happens, suffix):
    path, story = tmp_path / "j", SampleConversation()
    async with SqliteEngine(JournalOptions(path)) as engine:
        await keep(engine, story.receive(story.start(), "1"))
        happens(path, suffix)
        for _ in range(3):
            with pytest.raises(EngineError, match="while it was in use"):
                await keep(engine, story.receive(story.start(), "1"))


async def test_a_file_that_disappears_during_a_commit_is_noticed_before_anybody_is_notified(
    tmp_path, monkeypatch
):
    path, story = tmp_path / "j", SampleConversation()
    async with SqliteEngine(JournalOptions(path)) as engine:
        await keep(engine, story.receive(story.start(), "1"))
        attempt = engine._writer._attempt

        def attempt_open(*args):
            found = attempt(*args)
            path.unlink()
            return found

        monkeypatch.setattr(engine._writer, "_attempt", attempt_open)
        with pytest.raises(EngineError, match="was removed"):
            await keep(engine, story.receive(story.start(), "1"))


async def test_a_folder_that_is_moved_is_noticed(tmp_path):
    story = SampleConversation()
    async with SqliteEngine(JournalOptions(tmp_path / "out" / "j")) as engine:
        (tmp_path / "out").rename(tmp_path / "old")
        with pytest.raises(EngineError, match="was removed"):
            await keep(engine, story.receive(story.start(), "1"))
        (tmp_path / "old").rename(tmp_path / "out")


async def test_a_server_that_goes_leaves_the_files_of_another_journal_alone(tmp_path):
    path, story = tmp_path / "j", SampleConversation()
    async with SqliteEngine(JournalOptions(path)) as engine:
        await keep(engine, story.receive(story.start(), "1"))
        connection = await to_thread.run_sync(replace_journal, path)
        log = path.with_name("j-wal").stat()
    assert path.with_name("j-wal").stat().st_ino == log.st_ino
    connection.close()
    assert await to_thread.run_sync(steps, path) == 1
    assert await to_thread.run_sync(steps, tmp_path / "old" / "j") == 1


def replace_journal(path):
    """Another journal in the place of this one, at work."""
    (path.parent / "old").mkdir()
    for suffix in (*SUFFIXES, ".head", ".lock"):
        Path(f"{path}{suffix}").rename(path.parent / "old" / f"j{suffix}")
    story, connection = SampleConversation(), open_writing(JournalOptions(path))
    assert Writer(connection, path).commit([story.receive(story.start(), "1")]) == [None]
    return connection


# The lock is the file's


def link(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    return tmp_path / "link"


def other_spelling(path, tmp_path):
    return tmp_path / "out" / ".." / "out" / path.name


def folder(path, tmp_path):
    (tmp_path / "folder").symlink_to(path.parent)
    return tmp_path / "folder" / path.name


def relative(path, tmp_path):
    return Path(os.path.relpath(path))


@pytest.mark.parametrize("name", [link, other_spelling, folder, relative])
async def test_another_name_of_the_file_lets_no_second_server_in(tmp_path, name):
    path = tmp_path / "out" / "j"
    async with SqliteEngine(JournalOptions(path)):
        other = name(path, tmp_path)
        with pytest.raises(EngineError, match=f"in use by process {os.getpid()}"):
            async with SqliteEngine(JournalOptions(other)):
                pass
    async with SqliteEngine(JournalOptions(other)) as engine:
        story = SampleConversation()
        await keep(engine, story.receive(story.start(), "1"))
    assert await to_thread.run_sync(steps, path) == 1


async def test_a_hard_link_lets_no_server_in(tmp_path):
    path = tmp_path / "j"
    story = SampleConversation()
    async with SqliteEngine(JournalOptions(path)) as engine:
        (tmp_path / "hard").hardlink_to(path)
        with pytest.raises(EngineError, match="2 names"):
            async with SqliteEngine(JournalOptions(tmp_path / "hard")):
                pass
        await keep(engine, story.receive(story.start(), "1"))
    with pytest.raises(EngineError, match="2 names"):
        async with SqliteEngine(JournalOptions(path)):
            pass


def test_the_file_itself_is_locked(tmp_path):
    """Resolve as under a name that leads elsewhere, such as that of a bind mount."""
    path = tmp_path / "j"
    code = (
        "import sys; from pathlib import Path; from agentserver.engines.sqlite.lock import Lock\n"
        "try: Lock(Path(sys.argv[1])).__enter__()\n"
        "except Exception as error: print(error)\n"
    )
    with Lock(path):
        path.with_name("j.lock").unlink()
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert "in use by another process, under another name" in done.stdout


# Committed, then missing


def test_a_head_is_stored_in_the_journal_and_next_to_it(tmp_path):
    path = tmp_path / "j"
    fill_journal(path)
    with closing(open_reading(path)) as connection:
        head = journal_head.read(connection)
    assert head.steps == 3
    assert journal_head.read_head_file(path).head == head
    assert path.with_name("j.head").stat().st_mode & 0o777 == 0o600


def killed(path, sync=Sync.FULL):
    """A journal whose data is still in the log, as after a kill."""
    story = SampleConversation()
    connection = open_writing(JournalOptions(path, sync))
    assert Writer(connection, path).commit([story.receive(story.start(), "1")]) == [None]
    home = path.with_name("killed")
    home.mkdir()
    for each in path.parent.glob(f"{path.name}*"):
        shutil.copy(each, home / each.name)
    connection.close()
    return home / path.name


def test_a_log_that_is_missing_after_a_kill_is_reported(tmp_path):
    path = killed(tmp_path / "j")
    log = path.with_name("j-wal")
    kept = log.read_bytes()
    log.unlink()
    with pytest.raises(EngineError, match=r"all of its 1 steps are missing.*accept-loss"):
        open_writing(JournalOptions(path))
    path.unlink()
    shutil.copy(path.parents[1] / "j", path)  # the journal with its log carried over
    open_writing(JournalOptions(path)).close()
    assert len(kept) > 0


@pytest.mark.parametrize("emptied", [False, True])
def test_a_journal_that_is_missing_while_its_log_exists_is_not_recreated(tmp_path, emptied):
    path = killed(tmp_path / "j")
    log, head = path.with_name("j-wal"), lock.find_companion(path, lock.HEAD)
    kept = log.read_bytes()
    head.unlink()
    if emptied:
        path.write_bytes(b"")
    else:
        path.unlink()
    with pytest.raises(EngineError, match=r"is gone, and j-wal holds its last commits"):
        open_writing(JournalOptions(path))
    assert log.read_bytes() == kept


def test_an_older_copy_of_the_journal_is_reported_with_the_amount_missing(tmp_path):
    path = tmp_path / "j"
    fill_journal(path, 2)
    shutil.copy(path, tmp_path / "copy")
    fill_journal(path, 3)
    shutil.copy(tmp_path / "copy", path)
    with pytest.raises(EngineError, match="the last 3 of its 5 steps are missing"):
        open_writing(JournalOptions(path))
    assert journal_head.accept(path)
    fill_journal(path, 4)
    assert steps(path) == 6


def test_a_missing_or_replaced_journal_is_reported(tmp_path):
    path = tmp_path / "j"
    fill_journal(path, 2)
    fill_journal(tmp_path / "other", 9)
    shutil.copy(tmp_path / "other", path)
    with pytest.raises(EngineError, match="another journal is in its place; 2 steps are missing"):
        open_writing(JournalOptions(path))
    path.unlink()
    with pytest.raises(EngineError, match="all of its 2 steps are missing"):
        open_writing(JournalOptions(path))


def test_a_copy_that_continued_elsewhere_as_long_is_reported(tmp_path):
    path = tmp_path / "j"
    fill_journal(path, 2)
    shutil.copy(path, tmp_path / "copy")
    fill_journal(path, 1)
    other = SampleConversation()
    for _ in range(7):
        said = other.receive(other.start(), "2")
    with closing(open_writing(JournalOptions(tmp_path / "copy"))) as connection:
        assert Writer(connection, tmp_path / "copy").commit([said]) == [None]
    shutil.copy(tmp_path / "copy", path)
    with pytest.raises(EngineError, match="its last step is not the one"):
        open_writing(JournalOptions(path))


def test_an_older_head_and_none_are_innocent(tmp_path):
    path = tmp_path / "j"
    fill_journal(path, 2)
    older = path.with_name("j.head").read_bytes()
    fill_journal(path, 2)
    path.with_name("j.head").write_bytes(older)
    fill_journal(path, 1)
    path.with_name("j.head").unlink()
    fill_journal(path, 1)
    assert journal_head.read_head_file(path).head.steps == 6


def test_an_unreadable_head_is_reported_and_rewritten(tmp_path, caplog):
    path = tmp_path / "j"
    fill_journal(path, 2)
    file = path.with_name("j.head")
    data = bytearray(file.read_bytes())
    for place in range(0, len(data) - 1, 7):
        damaged = data.copy()
        damaged[place] ^= 1
        file.write_bytes(damaged)
        caplog.clear()
        open_writing(JournalOptions(path)).close()
        assert "cannot be read" in caplog.text, place
    fill_journal(path, 1)
    assert journal_head.read_head_file(path).head.steps == 3


@pytest.mark.parametrize("sync", Sync)
@pytest.mark.parametrize("restarted", [True, False])
def test_only_a_loss_of_power_without_full_sync_is_innocent(tmp_path, sync, restarted, monkeypatch, caplog):
    path = tmp_path / "j"
    fill_journal(path, 2, sync)
    shutil.copy(path, tmp_path / "copy")
    fill_journal(path, 3, sync)
    shutil.copy(tmp_path / "copy", path)
    if restarted:
        (tmp_path / "boot").write_text("another\n")
        monkeypatch.setattr(journal_head, "_BOOT", tmp_path / "boot")
    if restarted and sync is Sync.NORMAL:
        fill_journal(path, 1, sync)
        assert "the last 3 of its 5 steps are missing: the machine was restarted" in caplog.text
        assert steps(path) == 3
    else:
        with pytest.raises(EngineError, match="the last 3 of its 5"):
            open_writing(JournalOptions(path, sync))
