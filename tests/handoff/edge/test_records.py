"""The record as a file: chained, shared, and no reason to stop."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentserver.handoff.audit import Flaw, HandoffEntry, Seal
from agentserver.handoff.edge import records
from agentserver.handoff.edge.heads import NoteHeads
from agentserver.handoff.edge.records import AuditFile, verify_file
from tests.machine import HANGS

RECORD = HandoffEntry((("timestamp", "t"), ("result", "reject"), ("reason", "schema"), ("raw_sha256", "ab")))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out" / "audit.jsonl"


@pytest.fixture
def told():
    return []


def kept(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_are_chained_and_private(path, told):
    sink = AuditFile(path, told.append)
    for _ in range(3):
        sink.append(RECORD)
    assert [each["seq"] for each in kept(path)] == [1, 2, 3]
    assert verify_file(path) == Seal(3, kept(path)[-1]["hash"])
    assert path.stat().st_mode & 0o077 == 0
    assert told == []


def test_the_default_file_is_the_loops():
    assert Path("out/handoff-audit.jsonl") == records.DEFAULT


def test_several_writers_share_a_file(path, told):
    first, second = AuditFile(path, told.append), AuditFile(path, told.append)
    for sink in (first, second, second, first):
        sink.append(RECORD)
    assert isinstance(verify_file(path), Seal)
    assert len(kept(path)) == 4


def test_several_processes_share_a_file(path):
    code = (
        "import sys;from pathlib import Path;from agentserver.handoff.audit import HandoffEntry;"
        "from agentserver.handoff.edge.records import AuditFile;s=AuditFile(Path(sys.argv[1]));"
        "[s.append(HandoffEntry((('n',n),))) for n in range(40)]"
    )
    root = str(Path(__file__).parents[3])
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], env={"PYTHONPATH": root}) for _ in range(3)
    ]
    assert [process.wait(HANGS) for process in running] == [0, 0, 0]
    assert len(kept(path)) == 120
    assert isinstance(verify_file(path), Seal)


@pytest.mark.parametrize("harm", ["remove", "alter", "swap", "cut", "empty", "insert", "bytes"])
def test_harm_to_the_file_is_found(path, told, harm):
    sink = AuditFile(path, told.append)
    for _ in range(4):
        sink.append(RECORD)
    lines = path.read_text().splitlines(keepends=True)
    harmed = {
        "remove": [lines[0], *lines[2:]],
        "alter": [lines[0], lines[1].replace("schema", "params"), *lines[2:]],
        "swap": [lines[1], lines[0], *lines[2:]],
        "cut": lines[:3],
        "empty": [],
        "insert": [*lines[:2], lines[1], *lines[2:]],
        "bytes": ["\x00\udcff", *lines[1:]],
    }[harm]
    path.write_bytes("".join(harmed).encode("utf-8", "surrogateescape"))
    assert isinstance(verify_file(path), Flaw)


def test_a_torn_last_line_of_another_stays_and_is_said(path, told):
    AuditFile(path, told.append).append(RECORD)
    with path.open("a") as file:
        file.write('{"half')
    AuditFile(path, told.append).append(RECORD)
    assert path.read_text().splitlines()[1] == '{"half'
    assert verify_file(path) == Flaw(2, "is no record")
    assert "the record in line 2 is no record; the chain continues" in told[0]


def test_a_file_that_ends_in_something_else_is_said_and_stays_visible(path, told):
    AuditFile(path, told.append).append(RECORD)
    with path.open("a") as file:
        file.write("junk\n")
    AuditFile(path, told.append).append(RECORD)
    assert "line 2 is no record" in told[0]
    found = verify_file(path)
    assert isinstance(found, Flaw)
    assert found.line == 2


def test_a_file_that_was_emptied_is_missed(path, told):
    AuditFile(path, told.append).append(RECORD)
    path.write_text("")
    AuditFile(path, told.append).append(RECORD)
    assert isinstance(verify_file(path), Flaw)


@pytest.mark.parametrize(
    "note",
    [
        "[]",
        "{",
        '{"count": 1}',
        '{"count": "x", "hash": ""}',
        "[" * 99_999,
        '{"count":1,"hash":"","line":"\\ud800"}',
    ],
)
def test_a_damaged_note_is_a_flaw_and_the_chain_restarts_after_it(path, told, note):
    AuditFile(path, told.append).append(RECORD)
    path.with_name("audit.jsonl.end").write_text(note)
    found = verify_file(path)
    assert isinstance(found, Flaw)
    assert (found.line, "is spoiled" in found.detail) == (1, True)
    path.write_text("")
    AuditFile(path, told.append).append(RECORD)
    assert "a new chain starts" in told[-1]
    assert verify_file(path).count == 1


def test_a_missing_note_is_reported(path, told):
    AuditFile(path, told.append).append(RECORD)
    assert isinstance(verify_file(path, told.append), Seal)
    path.with_name("audit.jsonl.end").unlink()
    assert told == []
    assert isinstance(verify_file(path, told.append), Seal)
    assert "audit.jsonl.end: missing" in told[0]


def test_a_disk_that_fails_is_reported_and_nothing_is_raised(path, told, monkeypatch):
    sink = AuditFile(path, told.append)
    sink.append(RECORD)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(records, "_write", full)
        sink.append(RECORD)
    assert told == [f"handoff audit: {path}: No space left on device; not kept: t reject schema ab"]
    sink.append(RECORD)
    assert len(kept(path)) == 2
    assert isinstance(verify_file(path), Seal)


def test_a_half_written_line_is_taken_back(path, told, monkeypatch):
    sink = AuditFile(path, told.append)
    sink.append(RECORD)

    def half(file, data):
        os.write(file, data[:20])
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(records, "_write", half)
        sink.append(RECORD)
    assert path.read_text().endswith("}\n")
    sink.append(RECORD)
    assert len(kept(path)) == 2
    assert isinstance(verify_file(path), Seal)


def test_an_unwritable_note_is_reported_separately(path, told, monkeypatch):
    def refused(*_):
        raise OSError

    monkeypatch.setattr(NoteHeads, "keep", refused)
    AuditFile(path, told.append).append(RECORD)
    assert len(kept(path)) == 1
    assert "not noted" in told[0]


def test_a_folder_in_the_way_and_a_link_are_reported(path, told, tmp_path):
    path.mkdir(parents=True)
    AuditFile(path, told.append).append(RECORD)
    target = tmp_path / "elsewhere"
    link = tmp_path / "link.jsonl"
    link.symlink_to(target)
    AuditFile(link, told.append).append(RECORD)
    assert len(told) == 2
    assert not target.exists()


def test_without_a_listener_it_is_logged(tmp_path, caplog):
    (tmp_path / "x").mkdir()
    AuditFile(tmp_path / "x").append(RECORD)
    assert "handoff audit:" in caplog.text


def test_a_missing_file_is_the_outside_worlds_fault(path):
    with pytest.raises(FileNotFoundError):
        verify_file(path)
