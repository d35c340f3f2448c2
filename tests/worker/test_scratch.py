"""The folder of a worker: untouched only when nothing can have been made in it."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentserver.worker.scratch import DEEPEST, MOST_FILES, TICK, Scratch, clear, measure

ROOT = Path(__file__).resolve().parents[2]
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p


@pytest.fixture
def scratch():
    made = Scratch()
    yield made
    made.remove()
    assert not made.path.exists()


def settled_scratch(scratch):
    time.sleep(2 * TICK / 1e9)
    scratch.empty()
    return scratch


def test_a_fresh_folder_counts_as_touched_until_it_was_looked_at(scratch):
    assert scratch.touched
    scratch.empty()
    assert scratch.touched, "a file made within the same tick would leave its time as it is"
    assert not settled_scratch(scratch).touched


@pytest.mark.parametrize("make", ["file", "folder", "link", "gone", "renamed"])
def test_whatever_is_made_shows(scratch, make):
    settled_scratch(scratch)
    place = scratch.path / "made"
    match make:
        case "folder":
            place.mkdir()
            (place / "inner").write_text("x")
        case "link":
            place.symlink_to("/etc/passwd")
        case _:
            place.write_text("x")
    if make == "gone":
        place.unlink()
    if make == "renamed":
        place.rename(scratch.path / "other")
    assert scratch.touched
    scratch.empty()
    assert list(scratch.path.iterdir()) == []
    assert not settled_scratch(scratch).touched


def test_a_clock_that_was_set_back_makes_no_folder_untouched(scratch):
    ahead = time.time() + 3600
    os.utime(scratch.path, (ahead, ahead))
    scratch.empty()
    assert scratch.touched


def test_links_are_removed_and_not_followed(scratch, tmp_path):
    (tmp_path / "kept").write_text("x")
    (scratch.path / "out").symlink_to(tmp_path)
    scratch.empty()
    assert (tmp_path / "kept").exists()


def test_its_size_counts_everything_below(scratch):
    (scratch.path / "deep").mkdir()
    (scratch.path / "deep" / "file").write_bytes(b"x" * 100_000)
    assert 100_000 <= measure(scratch._place, 10**6).bytes < 200_000


def nest_folders(scratch, levels, mode=0o777):
    """Make folders in one another, by descriptors as a hostile process does."""
    place = os.open(scratch.path, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", mode, dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)


def test_folders_nested_1500_deep_are_a_breach_and_are_removed(scratch):
    nest_folders(scratch, 1500)
    assert scratch.describe_breach(10**6) == f"it nested folders more than {DEEPEST} deep"
    scratch.empty()
    assert list(scratch.path.iterdir()) == []
    nest_folders(scratch, 1500)  # the fixture removes them with the folder


def test_folders_nested_beyond_the_permitted_depth_are_refused(scratch):
    nest_folders(scratch, DEEPEST)
    assert scratch.describe_breach(10**6) == ""


def test_more_files_than_are_counted_are_a_breach(scratch):
    for number in range(MOST_FILES + 1):
        os.mknod(scratch.path / str(number))
    assert scratch.describe_breach(10**6) == f"it made more than {MOST_FILES} files and folders"


def test_descriptors_are_given_back(scratch):
    (scratch.path / "a" / "b").mkdir(parents=True)
    nest_folders(scratch, DEEPEST + 1)
    before = len(list(Path("/proc/self/fd").iterdir()))
    scratch.describe_breach(10**6)
    scratch.describe_breach(0)
    scratch.empty()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


UNREADABLE = """
import os, sys
sys.path[:0] = [sys.argv[1]]
from agentserver.worker.scratch import Scratch
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
scratch = Scratch()
(scratch.path / "in" / "deep").mkdir(parents=True)
(scratch.path / "in" / "deep" / "file").write_text("x")
(scratch.path / "in" / "deep").chmod(0o300)
print(scratch.describe_breach(10**6))
(scratch.path / "in" / "deep").chmod(0)
(scratch.path / "in").chmod(0)
print(scratch.describe_breach(10**6))
scratch.remove()
print(scratch.path.exists())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user, who is refused what root is not")
def test_a_folder_that_cannot_be_read_is_a_breach_and_is_removed():
    done = subprocess.run(
        [sys.executable, "-c", UNREADABLE, str(ROOT)], capture_output=True, text=True, check=True
    )
    refused = "its folder cannot be measured: Permission denied"
    assert done.stdout.splitlines() == [refused, refused, "False"]


def test_unlinked_files_count_while_they_are_open_or_mapped(scratch):
    size = 300_000
    with (scratch.path / "file").open("w+b") as file:
        file.write(bytes(size))
        file.flush()
        (scratch.path / "file").unlink()
        assert scratch.describe_breach(size - 100_000, os.getpid()).startswith("it wrote more than")
        assert scratch.describe_breach(size, os.getpid()) == ""
        place = map_page(file.fileno())
    assert scratch.describe_breach(size, os.getpid()) == "", "one file is as large as one may be"
    with (scratch.path / "another").open("wb") as file:
        file.write(bytes(size))
    assert scratch.describe_breach(size, os.getpid()).startswith("it wrote more than"), (
        "it is mapped and open no more"
    )
    LIBC.munmap(place, mmap.PAGESIZE)
    assert scratch.describe_breach(size, os.getpid()) == ""


def map_page(descriptor):
    """Map one page without a descriptor of it, which Python's own maps keep."""
    place = LIBC.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    assert place != ctypes.c_void_p(-1).value
    return ctypes.c_void_p(place)


def test_an_ended_process_breaches_nothing(scratch):
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    assert scratch.describe_breach(10**6, process.pid) == ""


def test_a_process_that_creates_endless_files_delays_no_other(scratch):
    for number in range(101):
        os.mknod(scratch.path / str(number))
    with pytest.raises(OSError, match="more than 100 files and folders"):
        clear(scratch._place, 100)
