"""The folder of a worker: untouched only when nothing can have been made in it."""

from __future__ import annotations

import os
import time

import pytest

from agentserver.worker.scratch import TICK, Scratch


@pytest.fixture
def scratch():
    made = Scratch()
    yield made
    made.remove()
    assert not made.path.exists()


def settled(scratch):
    time.sleep(2 * TICK / 1e9)
    scratch.empty()
    return scratch


def test_a_fresh_folder_counts_as_touched_until_it_was_looked_at(scratch):
    assert scratch.touched
    scratch.empty()
    assert scratch.touched, "a file made within the same tick would leave its time as it is"
    assert not settled(scratch).touched


@pytest.mark.parametrize("make", ["file", "folder", "link", "gone", "renamed"])
def test_whatever_is_made_shows(scratch, make):
    settled(scratch)
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
    assert not settled(scratch).touched


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


def test_its_size_counts_what_lies_below(scratch):
    (scratch.path / "deep").mkdir()
    (scratch.path / "deep" / "file").write_bytes(b"x" * 100_000)
    assert 100_000 <= scratch.size(10**6) < 200_000
