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
from agentserver.handoff.edge.heads import FileHeadStore
from agentserver.handoff.edge.records import AuditFile, verify_file
from tests.machine import HANGS

RECORD = HandoffEntry((("timestamp", "t"), ("result", "reject"), ("reason", "schema"), ("raw_sha256", "ab")))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out" / "audit.jsonl"


@pytest.fixture
def reported_flaws():
    return []


def read_records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_are_chained_and_private(path, reported_flaws):
    sink = AuditFile(path, reported_flaws.append)
    for _ in range(3):
        sink.append(RECORD)
    assert [each["seq"] for each in read_records(path)] == [1, 2, 3]
    assert verify_file(path) == Seal(3, read_records(path)[-1]["hash"])
    assert path.stat().st_mode & 0o077 == 0
    assert reported_flaws == []


def test_the_default_file_is_the_loops():
    assert Path("out/handoff-audit.jsonl") == records.DEFAULT


def test_several_writers_share_a_file(path, reported_flaws):
    first, second = AuditFile(path, reported_flaws.append), AuditFile(path, reported_flaws.append)
    for sink in (first, second, second, first):
        sink.append(RECORD)
    assert isinstance(verify_file(path), Seal)
    assert len(read_records(path)) == 4


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
    assert len(read_records(path)) == 120
    assert isinstance(verify_file(path), Seal)


@pytest.mark.parametrize("harm", ["remove", "alter", "swap", "cut", "empty", "insert", "bytes"])
def test_harm_to_the_file_is_found(path, reported_flaws, harm):
    sink = AuditFile(path, reported_flaws.append)
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


def test_a_torn_last_line_of_another_stays_and_is_said(path, reported_flaws):
    AuditFile(path, reported_flaws.append).append(RECORD)
    with path.open("a") as file:
        file.write('{"half')
    AuditFile(path, reported_flaws.append).append(RECORD)
    assert path.read_text().splitlines()[1] == '{"half'
    assert verify_file(path) == Flaw(2, "is no record")
    assert "the record in line 2 is no record; the chain continues" in reported_flaws[0]


def test_a_file_that_ends_in_something_else_is_said_and_stays_visible(path, reported_flaws):
    AuditFile(path, reported_flaws.append).append(RECORD)
    with path.open("a") as file:
        file.write("junk\n")
    AuditFile(path, reported_flaws.append).append(RECORD)
    assert "line 2 is no record" in reported_flaws[0]
    found = verify_file(path)
    assert isinstance(found, Flaw)
    assert found.line == 2


def test_a_file_that_was_emptied_is_missed(path, reported_flaws):
    AuditFile(path, reported_flaws.append).append(RECORD)
    path.write_text("")
    AuditFile(path, reported_flaws.append).append(RECORD)
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
def test_a_damaged_note_is_a_flaw_and_the_chain_restarts_after_it(path, reported_flaws, note):
    AuditFile(path, reported_flaws.append).append(RECORD)
    path.with_name("audit.jsonl.end").write_text(note)
    found = verify_file(path)
    assert isinstance(found, Flaw)
    assert (found.line, "is spoiled" in found.detail) == (1, True)
    path.write_text("")
    AuditFile(path, reported_flaws.append).append(RECORD)
    assert "a new chain starts" in reported_flaws[-1]
    assert verify_file(path).count == 1


def test_a_missing_note_is_reported(path, reported_flaws):
    AuditFile(path, reported_flaws.append).append(RECORD)
    assert isinstance(verify_file(path, reported_flaws.append), Seal)
    path.with_name("audit.jsonl.end").unlink()
    assert reported_flaws == []
    assert isinstance(verify_file(path, reported_flaws.append), Seal)
    assert "audit.jsonl.end: missing" in reported_flaws[0]


def test_a_disk_that_fails_is_reported_and_nothing_is_raised(path, reported_flaws, monkeypatch):
    sink = AuditFile(path, reported_flaws.append)
    sink.append(RECORD)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(records, "_write", full)
        sink.append(RECORD)
    assert reported_flaws == [f"handoff audit: {path}: No space left on device; not kept: t reject schema ab"]
    sink.append(RECORD)
    assert len(read_records(path)) == 2
    assert isinstance(verify_file(path), Seal)


def test_a_half_written_line_is_taken_back(path, reported_flaws, monkeypatch):
    sink = AuditFile(path, reported_flaws.append)
    sink.append(RECORD)

    def half(file, data):
        os.write(file, data[:20])
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(records, "_write", half)
        sink.append(RECORD)
    assert path.read_text().endswith("}\n")
    sink.append(RECORD)
    assert len(read_records(path)) == 2
    assert isinstance(verify_file(path), Seal)


def test_an_unwritable_note_is_reported_separately(path, reported_flaws, monkeypatch):
    def refuse_write(*_):
        raise OSError

    monkeypatch.setattr(FileHeadStore, "keep", refuse_write)
    AuditFile(path, reported_flaws.append).append(RECORD)
    assert len(read_records(path)) == 1
    assert "not noted" in reported_flaws[0]


def test_a_folder_in_the_way_and_a_link_are_reported(path, reported_flaws, tmp_path):
    path.mkdir(parents=True)
    AuditFile(path, reported_flaws.append).append(RECORD)
    target = tmp_path / "elsewhere"
    link = tmp_path / "link.jsonl"
    link.symlink_to(target)
    AuditFile(link, reported_flaws.append).append(RECORD)
    assert len(reported_flaws) == 2
    assert not target.exists()


def test_without_a_listener_it_is_logged(tmp_path, caplog):
    (tmp_path / "x").mkdir()
    AuditFile(tmp_path / "x").append(RECORD)
    assert "handoff audit:" in caplog.text


def test_a_missing_file_is_the_outside_worlds_fault(path):
    with pytest.raises(FileNotFoundError):
        verify_file(path)
