"""Files below a folder are reachable, and no other file is, by no name, no link and in no race."""

from __future__ import annotations

import os
import threading
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentserver.tools import below
from agentserver.tools.below import OutsideError
from agentserver.tools.files import (
    FileContent,
    FileEntry,
    FileList,
    FileProblem,
    FileSettings,
    FileWritten,
    ListFiles,
    ReadFile,
    WriteFile,
    list_files,
    read,
    write,
)
from tests.core.paper import listener
from tests.pump.desk import desk

pytestmark = pytest.mark.anyio


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "today.txt").write_text("milk\nbread\n")
    (folder / "a.txt").write_text("alpha")
    (tmp_path / "secret.txt").write_text("SECRET")
    (tmp_path / "root-too").mkdir()
    (tmp_path / "root-too" / "x.txt").write_text("SECRET")
    return folder


@asynccontextmanager
async def shelf(root, **more):
    settings = FileSettings(str(root), **more)
    pairs = [
        (listener("read", payloads=(ReadFile,)), read),
        (listener("list", payloads=(ListFiles,)), list_files),
        (listener("write", payloads=(WriteFile,)), write),
    ]
    async with desk(*pairs, settings=settings, payloads=(FileContent, FileList, FileWritten)) as d:
        yield d


async def test_a_file_is_read_and_listed_and_written(root):
    async with shelf(root) as d:
        assert await d.ask(ReadFile("notes/today.txt"), "read") == FileContent(
            "notes/today.txt", "milk\nbread\n"
        )
        assert await d.ask(ListFiles(), "list") == FileList(
            [FileEntry("a.txt", 5), FileEntry("notes/today.txt", 11)]
        )
        assert await d.ask(WriteFile("notes/new.txt", "caf\u00e9"), "write") == FileWritten(
            "notes/new.txt", 5
        )
    assert (root / "notes" / "new.txt").read_text() == "caf\u00e9"
    assert {path.name for path in (root / "notes").iterdir()} == {"new.txt", "today.txt"}


async def test_an_existing_file_is_not_overwritten_unless_the_settings_say_so(root):
    async with shelf(root) as d:
        assert (await d.ask(WriteFile("a.txt", "beta"), "write")).problem is FileProblem.EXISTS
        assert (await d.ask(WriteFile("a.txt", "alpha"), "write")).problem is None, "a repetition"
        assert (await d.ask(WriteFile("notes", "x"), "write")).problem is FileProblem.EXISTS
        assert (await d.ask(WriteFile("more/a.txt", "x"), "write")).problem is FileProblem.MISSING
    async with shelf(root, replace=True, folders=True) as d:
        assert (await d.ask(WriteFile("a.txt", "beta"), "write")).problem is None
        assert (await d.ask(WriteFile("more/below/a.txt", "x"), "write")).problem is None
        assert (await d.ask(WriteFile("notes", "x"), "write")).problem is FileProblem.FAILED
    assert ((root / "a.txt").read_text(), (root / "more/below/a.txt").read_text()) == ("beta", "x")
    assert not [path for path in root.rglob("*") if path.name.startswith(below.UNFINISHED)]


async def test_bounds_and_binary_files(root):
    (root / "b.bin").write_bytes(b"\xff\xfe")
    (root / "c.txt").write_bytes(b"a\x00b\r\nc")
    async with shelf(root, size=10, files=2) as d:
        assert (await d.ask(ReadFile("notes/today.txt"), "read")).problem is FileProblem.SIZE
        assert (await d.ask(ReadFile("b.bin"), "read")).problem is FileProblem.TYPE
        assert (await d.ask(ReadFile("c.txt"), "read")).text == "a\N{REPLACEMENT CHARACTER}b\nc"
        assert (await d.ask(ReadFile("notes"), "read")).problem is FileProblem.FORBIDDEN
        assert (await d.ask(ReadFile("none"), "read")).problem is FileProblem.MISSING
        assert (await d.ask(WriteFile("new", "x" * 11), "write")).problem is FileProblem.SIZE
        found = await d.ask(ListFiles(), "list")
        assert ([entry.file for entry in found.files], found.more) == (["a.txt", "b.bin"], True)


NAMES = ["../secret.txt", "/etc/passwd", "notes/../../secret.txt", "..", ".", "", "./a.txt", "notes//today.txt", "a.txt/", "notes/..", "../root-too/x.txt", "a\0b", f"{below.UNFINISHED}x"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_out(root, name):
    with pytest.raises(OutsideError):
        below.read_file(str(root), name, 100)
    with pytest.raises(OutsideError):
        below.write_file(str(root), name, b"x", replace=True, make=True)


def test_no_link_leads_out(root):
    outside = root.parent
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "dir").symlink_to(outside)
    (root / "within").symlink_to(root / "notes")
    os.link(outside / "secret.txt", root / "hard.txt")
    os.mkfifo(root / "pipe")
    for name in ("link.txt", "dir/secret.txt", "within/today.txt", "hard.txt", "pipe"):
        with pytest.raises(OutsideError):
            below.read_file(str(root), name, 100)
    for name in ("dir/secret.txt", "within/x.txt"):
        with pytest.raises(OutsideError):
            below.write_file(str(root), name, b"x", replace=True, make=True)
    assert below.list_tree(str(root), 100) == ([("a.txt", 5), ("notes/today.txt", 11)], False)


def test_a_link_in_the_place_of_the_file_is_replaced_and_not_followed(root):
    (root / "link.txt").symlink_to(root.parent / "secret.txt")
    os.link(root.parent / "secret.txt", root / "hard.txt")
    for name in ("link.txt", "hard.txt"):
        with pytest.raises(FileExistsError):
            below.write_file(str(root), name, b"x", replace=False, make=False)
        below.write_file(str(root), name, b"x", replace=True, make=False)
        assert (root / name).read_text() == "x"
    assert (root.parent / "secret.txt").read_text() == "SECRET"


def test_who_exchanges_a_folder_for_a_link_meanwhile_gains_nothing(root):
    """A thread does so as fast as it can while files are read and written."""
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "today.txt").write_text("SECRET")
    over = threading.Event()

    def exchange():
        (root / "evil").symlink_to(outside)
        while not over.is_set():
            (root / "notes").rename(root / "aside")
            (root / "evil").rename(root / "notes")
            (root / "notes").rename(root / "evil")
            (root / "aside").rename(root / "notes")

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        seen = set()
        for number in range(400):
            with suppress(OutsideError, OSError):
                seen.add(below.read_file(str(root), "notes/today.txt", 100))
            with suppress(OutsideError, OSError):
                below.write_file(str(root), f"notes/{number}", b"x", replace=True, make=False)
            seen.update(name.encode() for name, _ in below.list_tree(str(root), 1000)[0] if "evil" in name)
    finally:
        over.set()
        thread.join()
    assert seen <= {b"milk\nbread\n"}
    assert [path.name for path in outside.iterdir()] == ["today.txt"]


@given(st.text(max_size=30))
def test_no_name_reads_a_file_outside_the_folder(tmp_path_factory, name):
    top = tmp_path_factory.getbasetemp() / "names"
    (top / "root").mkdir(parents=True, exist_ok=True)
    (top / "secret").write_text("SECRET")
    with suppress(OutsideError, OSError, ValueError):
        assert below.read_file(str(top / "root"), name, 100) != b"SECRET"


async def test_names_that_no_payload_carries_are_left_out(root):
    (root / "b\x01.txt").write_text("x")
    os.close(os.open(os.fsencode(root) + b"/\xff.txt", os.O_CREAT))
    async with shelf(root) as d:
        assert [entry.file for entry in (await d.ask(ListFiles(), "list")).files] == [
            "a.txt",
            "notes/today.txt",
        ]


def test_deep_folders_are_listed_so_far(root):
    deep = root.joinpath(*["d"] * (below.DEPTH + 2))
    deep.mkdir(parents=True)
    (deep / "x").write_text("x")
    assert below.list_tree(str(root), 100)[1]


def test_the_folder_itself_may_be_a_link(root, tmp_path):
    (tmp_path / "named").symlink_to(root)
    assert below.read_file(str(tmp_path / "named"), "a.txt", 10) == b"alpha"
    assert Path(root).is_dir()
