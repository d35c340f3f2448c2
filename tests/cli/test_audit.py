"""``audit verify`` finds tampering with a record and names its line."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys

import pytest

from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.handoff.audit import GENESIS, HandoffEntry
from agentserver.handoff.edge.records import AuditFile
from tests.cli.conftest import ROOT

REASONS = ("schema", "over_bound", "unknown_intent", "not_a_peer")


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A record of four attempts where it is by default."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "out" / "handoff-audit.jsonl"
    sink = AuditFile(path)
    for reason in REASONS:
        sink.append(HandoffEntry((("timestamp", "t"), ("result", "reject"), ("reason", reason))))
    return path


def test_an_intact_record_shows_how_much_there_is_and_its_last_hash(command, file):
    last = json.loads(file.read_text().splitlines()[-1])["hash"]
    result = command("audit", "verify")
    told = f"out/handoff-audit.jsonl: intact, 4 records, last hash {last}\n"
    assert (result.exit_code, result.output) == (0, told)
    assert command("audit", "verify", str(file)).output == told.replace("out/", f"{file.parent}/")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda a, b, c, d: [a, b.replace("over_bound", "schema"), c, d], 2),
        (lambda a, b, c, d: [a, c, d], 2),
        (lambda a, b, c, d: [b, c, d], 1),
        (lambda a, b, c, d: [a, c, b, d], 2),
        (lambda a, b, c, d: [a, b, b, c, d], 3),
        (lambda a, b, c, d: [a, b, "noise\n", c, d], 3),
        (lambda a, b, c, d: [a, b, c], 4),
        (lambda *_: [], 1),
    ],
    ids=["altered", "removed", "first removed", "moved", "doubled", "inserted", "cut off", "emptied"],
)
def test_tampering_with_a_record_is_found(command, file, change, line):
    file.write_text("".join(change(*file.read_text().splitlines(keepends=True))))
    result = command("audit", "verify")
    assert result.exit_code == 1
    assert result.output.startswith(f"out/handoff-audit.jsonl: the record in line {line} ")


def test_without_the_note_of_its_end_the_gap_is_reported(command, file):
    file.write_text(file.read_text().splitlines(keepends=True)[0])
    (file.parent / f"{file.name}.end").unlink()
    result = command("audit", "verify")
    assert result.exit_code == 0
    assert "intact, 1 record," in result.stdout
    assert result.stderr.startswith("out/handoff-audit.jsonl.end: missing; ")


def test_a_record_without_attempts(command, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("")
    assert f"intact, 0 records, last hash {GENESIS}" in command("audit", "verify", str(path)).stdout


@pytest.mark.parametrize(("name", "said"), [("gone", "No such file or directory"), ("", "Is a directory")])
def test_an_unreadable_record_exits_2(command, tmp_path, name, said):
    result = command("audit", "verify", str(tmp_path / name))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


# What a call and a server record, and the journal that keeps its end

HANDOVER = ["call", "launch-radar", "--payload", "handoff.xml"]
HANDOFF = '<Handoff xmlns="urn:agentserver:handoff:v1"><intent>playbook_monitor</intent></Handoff>'


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """The desk of the examples, with a journal."""
    home = tmp_path / "desk"
    shutil.copytree(ROOT / "examples" / "handoff", home)
    (home / "handoff.xml").write_text(HANDOFF)
    monkeypatch.chdir(home)
    yield home
    sys.modules.pop("desk", None)  # the next test has a project of its own


@pytest.fixture
def served_desk(command, desk):
    """The command, on the desk."""

    def run(*arguments):
        done = command(*arguments)
        return done.exit_code, done.stdout, done.stderr

    return run


def test_handoffs_of_a_call_are_recorded(served_desk, desk):
    for count in (1, 2):
        status, _, told = served_desk(*HANDOVER)
        assert (status, told) == (0, "")
        status, output, _ = served_desk("audit", "verify")
        assert status == 0
        assert f"intact, {count} record" in output
    file = desk / "out/handoff-audit.jsonl"
    assert (file.with_name(f"{file.name}.end").stat().st_mode & 0o077) == 0
    file.write_text(file.read_text().splitlines(keepends=True)[0])
    status, _, told = served_desk(*HANDOVER)
    assert status == 0
    assert "line 2 is missing: the chain had 2 records" in told
    assert served_desk("audit", "verify")[0] == 1


def test_a_call_with_a_journal_and_a_forged_note(served_desk, desk):
    """The journal keeps the end: who rewrites file and note alike is found."""
    (desk / "out").mkdir(exist_ok=True)
    open_writing(JournalOptions(desk / "out/journal.sqlite")).close()
    with sqlite3.connect(desk / "out/journal.sqlite") as server:  # as a server has it open
        server.execute("select * from conversation").fetchall()
        for _ in range(3):
            assert served_desk(*HANDOVER)[0] == 0
    server.close()
    file = desk / "out/handoff-audit.jsonl"
    note = file.with_name(f"{file.name}.end")
    assert served_desk("audit", "verify")[0] == 0
    file.unlink()
    note.unlink()
    AuditFile(file).append(HandoffEntry((("timestamp", "t"), ("result", "approve"))))
    for more in ([], ["out/handoff-audit.jsonl"], ["--journal", "out/journal.sqlite"]):
        status, output, _ = served_desk("audit", "verify", *more)
        assert (status, "line 2 is missing: the chain had 3 records" in output) == (1, True)
