"""Marks outlive the process, and what cannot be read says nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.engines.sqlite.marks import HEADER, MAGIC, MarkFile, blank, read
from agentserver.ports import NO_PREVIOUS_RUN, PreviousRun

KEY = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
OTHER = "00000000-7425-40de-944b-e07fc1f90ae7"


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "journal.sqlite"


def left_by(journal, code):
    """What a process that ended by itself in the middle left."""
    script = f"""
import asyncio, os
from pathlib import Path
from agentserver.engines.sqlite.marks import MarkFile
marks = MarkFile(Path({str(journal)!r}))
asyncio.run(marks.begin({{"s": 2, "t": 0}}, 3))
slots = [marks.enter({KEY!r}, "c"), marks.enter({OTHER!r}, "c")]
{code}
os._exit(1)
"""
    subprocess.run([sys.executable, "-c", script], check=False, cwd=Path(__file__).parents[3])
    return asyncio.run(MarkFile(journal).previous_run(1))


def test_calls_in_progress_are_known_after_the_process_died(journal):
    assert left_by(journal, "marks.leave(slots[1]); marks.acquit('t')") == PreviousRun(
        frozenset({KEY}), "", {"s": 2}
    )


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("marks.end()", PreviousRun(frozenset(), "", {"s": 2, "t": 0})),
        (
            "marks.close()",
            PreviousRun(frozenset({KEY, OTHER}), "", {"s": 2, "t": 0}),
        ),  # taken down, and none asked
        ("marks.end(); marks.close()", PreviousRun(frozenset(), "", {"s": 2, "t": 0})),
        (f"marks.hold({KEY!r})", PreviousRun(frozenset({KEY, OTHER}), KEY, {"s": 2, "t": 0})),
    ],
)
def test_whose_fault_an_end_was_is_known(journal, code, found):
    assert left_by(journal, code) == found


def previous_calls(journal):
    return asyncio.run(MarkFile(journal).previous_run(1))


def test_there_are_as_many_marks_as_there_is_room_for(journal):
    marks = MarkFile(journal)
    assert asyncio.run(marks.previous_run(1)) == NO_PREVIOUS_RUN
    asyncio.run(marks.begin({}, 2))
    slots = [marks.enter(f"{number}", "c") for number in range(3)]
    assert previous_calls(journal).running == {"0", "1"}
    for slot in slots:
        marks.leave(slot)
    assert previous_calls(journal).running == frozenset()
    assert len({marks.enter("x", "c"), marks.enter("x", "c")}) == 2
    marks.close()
    marks.close()
    marks.end()
    marks.leave(marks.enter("y", "c"))
    assert previous_calls(journal).running == {"x"}


@given(st.binary(max_size=400))
def test_any_file_can_be_read(data):
    assert isinstance(read(data), PreviousRun)
    assert isinstance(read(MAGIC + data), PreviousRun)
    whole = blank({"s": 1}, 2)
    assert isinstance(read(whole[: len(data)] + data[: len(whole) - len(data)]), PreviousRun)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"AGSVMRK1",
        b"AGSVMRK2" + blank({}, 1)[8:],
        blank({}, 1)[:-1],
        blank({}, 1) + b"x",
        HEADER.pack(MAGIC, 1 << 31, 1, 0, b"") + bytes(64),
    ],
)
def test_torn_foreign_or_outdated_marks_are_ignored(journal, data):
    (journal.parent / "journal.sqlite.marks").write_bytes(data)
    assert asyncio.run(MarkFile(journal).previous_run(1)) == NO_PREVIOUS_RUN


def test_a_path_that_is_not_a_file_is_ignored(journal, caplog):
    (journal.parent / "journal.sqlite.marks").mkdir()
    marks = MarkFile(journal)
    assert asyncio.run(marks.previous_run(1)) == NO_PREVIOUS_RUN
    asyncio.run(marks.begin({}, 1))
    assert "marks cannot be stored" in caplog.text
    marks.leave(marks.enter("x", "c"))
    marks.hold("x")
    marks.end()


@pytest.mark.parametrize(
    "made",
    [
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    ],
)
def test_an_endless_file_is_ignored_and_replaced(journal, made):
    path = journal.parent / "journal.sqlite.marks"
    made(path)
    marks = MarkFile(journal)
    assert asyncio.run(marks.previous_run(1)) == NO_PREVIOUS_RUN
    asyncio.run(marks.begin({"s": 1}, 1))
    assert previous_calls(journal) == PreviousRun(frozenset(), "", {"s": 1})
    assert path.is_file()
    assert not path.is_symlink()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_done_without(journal):
    journal.parent.chmod(0o500)
    marks = MarkFile(journal)
    asyncio.run(marks.begin({}, 1))
    journal.parent.chmod(0o700)
    assert asyncio.run(marks.previous_run(1)) == NO_PREVIOUS_RUN


def test_new_marks_report_those_of_the_server_before(journal):
    left_by(journal, "")
    before, marks = previous_calls(journal), MarkFile(journal)
    assert before.running == {KEY, OTHER}
    assert asyncio.run(marks.previous_run(1)) == before
    asyncio.run(marks.begin({"s": 2, "t": 0}, 2))
    one = marks.enter("one", "c")
    marks.enter("other", "c")
    marks.acquit("s")
    marks.leave(one)
    marks.leave(one)
    left = PreviousRun(frozenset({"other"}), "", {"t": 0})
    assert previous_calls(journal) == asyncio.run(marks.previous_run(1)) == left
    asyncio.run(marks.begin({}, 4))
    assert len({marks.enter(f"{number}", "c") for number in range(5)}) == 5
