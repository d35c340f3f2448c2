"""The record file against its head: tampering is found, recorded and reported, and nothing is removed."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing

import pytest

from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.engines.sqlite.handoffs import JournalHeadStore
from agentserver.handoff.audit import Flaw, HandoffEntry, Seal, seal_record
from agentserver.handoff.edge import records
from agentserver.handoff.edge.heads import ChainHead, FileHeadStore
from agentserver.handoff.edge.records import AuditFile, verify_file


def record(reason):
    return HandoffEntry((("timestamp", "t"), ("result", "reject"), ("reason", reason)))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out" / "audit.jsonl"


@pytest.fixture(params=["note", "journal"])
def heads(request, path):
    """Places of the head: in the file's folder, or in a journal that a server has open all the time."""
    if request.param == "note":
        yield FileHeadStore(path)
        return
    journal = path.parents[1] / "journal"
    with closing(open_writing(JournalOptions(journal))) as connection:
        connection.execute("begin")
        connection.execute("select * from conversation").fetchall()
        connection.execute("commit")
        yield JournalHeadStore(journal, "out/audit.jsonl")


@pytest.fixture
def reported_flaws():
    return []


@pytest.fixture
def writer(path, heads, reported_flaws):
    """Makes a writer as a server does at its start: it checks the file."""

    def make(*, check=True):
        made = AuditFile(path, reported_flaws.append, None if isinstance(heads, FileHeadStore) else heads)
        if check:
            made.check()
        return made

    return make


@pytest.fixture
def four(writer):
    made = writer()
    for reason in ("schema", "over_bound", "unknown_intent", "not_a_peer"):
        made.append(record(reason))
    return made


def lines(path):
    return path.read_text().splitlines(keepends=True)


START = Seal()


def rewrite_chain(text, start=START):
    """Records in a chain that is sound in itself, as somebody makes it who knows how."""
    made = []
    for line in text:
        members = {
            key: value for key, value in json.loads(line).items() if key not in {"seq", "previous", "hash"}
        }
        new, start = seal_record(HandoffEntry(tuple(members.items())), start)
        made.append(f"{new}\n")
    return made


def append_record(text):
    """The records, and one more that follows them soundly."""
    last = json.loads(text[-1])
    return [*text, *rewrite_chain(['{"result":"approve"}'], Seal(last["seq"], last["hash"]))]


HARM = {
    "last record cut off": (lambda a: a[:3], 4),
    "tail cut off": (lambda a: a[:1], 2),
    "tail rewritten": (lambda a: [*a[:2], *rewrite_chain([x.replace("_", "-") for x in a[2:]], Seal(2, json.loads(a[1])["hash"]))], None),
    "last record altered": (lambda a: [*a[:3], a[3].replace("not_a_peer", "schema")], 4),
    "all rewritten": (lambda a: rewrite_chain([x.replace("reject", "approve") for x in a]), None),
    "emptied": (lambda a: [], 1),
    "one more, well made": (append_record, 5),
    "one more, badly made": (lambda a: [*a, "{}\n"], 5),
    "torn": (lambda a: [*a, '{"half'], 5),
    "torn beginning of a line that was never meant": (lambda a: [*a, a[3][:20]], 5),
    "moved": (lambda a: [a[0], a[1], a[3], a[2]], 3),
    "altered": (lambda a: [a[0], a[1].replace("over_bound", "schema"), *a[2:]], 2),
    "removed": (lambda a: [a[0], *a[2:]], 2),
    "first removed": (lambda a: a[1:], 1),
    "inserted": (lambda a: [*a[:2], "noise\n", *a[2:]], 3),
    "all doubled": (lambda a: [*a, *a], 5),
}  # fmt: skip


@pytest.mark.parametrize("name", HARM)
@pytest.mark.parametrize("restarted", [True, False])
def test_tampering_stays_detected_when_the_server_continues(
    path, heads, writer, four, reported_flaws, name, restarted
):
    harm, line = HARM[name]
    path.write_text("".join(harm(lines(path))))
    left = path.read_bytes()
    assert isinstance(verify_file(path, reported_flaws.append, heads), Flaw)
    going = writer() if restarted else four
    going.append(record("schema"))
    found = verify_file(path, reported_flaws.append, heads)
    assert isinstance(found, Flaw)
    assert line in (found.line, None)
    assert [text for text in reported_flaws if f"line {found.line} " in text]
    assert path.read_bytes().startswith(left), "nothing is taken out"
    broken = [json.loads(each) for each in lines(path) if '"result":"break"' in each]
    assert len(broken) == 1
    assert (broken[0]["seq"], broken[0]["line"]) == (5, found.line)
    assert json.loads(lines(path)[-1])["seq"] == 6

    reported_flaws.clear()
    again = writer()
    again.append(record("schema"))
    assert reported_flaws == [], "a break is recorded once"
    assert json.loads(lines(path)[-1])["seq"] == 7
    assert isinstance(verify_file(path, reported_flaws.append, heads), Flaw), "and told for ever"


def test_a_change_of_the_same_length_in_the_middle_is_found_at_the_next_start(
    path, heads, writer, four, reported_flaws
):
    path.write_text(path.read_text().replace("over_bound", "over_bounD"))
    four.append(record("schema"))
    assert reported_flaws == []
    writer()
    assert "line 2 was altered" in reported_flaws[0]
    assert verify_file(path, reported_flaws.append, heads) == Flaw(2, "was altered")


@pytest.mark.parametrize("restarted", [True, False])
def test_a_file_that_is_gone_is_missed(path, heads, writer, four, reported_flaws, restarted):
    path.unlink()
    (writer() if restarted else four).append(record("schema"))
    assert "line 1 is missing: the chain had 4 records" in reported_flaws[0]
    assert [json.loads(each)["seq"] for each in lines(path)] == [5, 6]
    assert isinstance(verify_file(path, reported_flaws.append, heads), Flaw)
    path.unlink()
    assert verify_file(path, reported_flaws.append, heads).line == 1


def test_a_file_that_never_was_is_not_missed(tmp_path, reported_flaws):
    with pytest.raises(FileNotFoundError):
        verify_file(tmp_path / "never", reported_flaws.append)
    (tmp_path / "never.end").write_text("spoiled")
    assert verify_file(tmp_path / "never", reported_flaws.append).line == 1


@pytest.mark.parametrize("same", [True, False])
def test_a_file_that_is_replaced_under_a_server_is_noticed(path, heads, four, reported_flaws, same):
    other = path.with_name("other")
    made = lines(path)
    made[3] = made[3].replace("not_a_peer", "not_a_pear") if same else ""
    other.write_text("".join(made))
    other.replace(path)
    four.append(record("schema"))
    assert len(reported_flaws) == 1
    assert verify_file(path, reported_flaws.append, heads).line == 4


def test_a_file_that_comes_back_whole_is_no_break(path, heads, four, reported_flaws):
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)
    four.append(record("schema"))
    assert reported_flaws == []
    assert verify_file(path, reported_flaws.append, heads).count == 5


@pytest.mark.parametrize("written", [0, 1, 40, None])
def test_a_writer_that_died_between_head_and_file_is_distinguished_from_a_forger(
    path, heads, writer, four, reported_flaws, written
):
    """The next one ends the line that the dead one began."""
    last = json.loads(lines(path)[-1])
    line, end = seal_record(record("schema"), Seal(last["seq"], last["hash"]))
    heads.keep(ChainHead(end, line))
    with path.open("a") as file:
        file.write(f"{line}\n"[: len(line) + 1 if written is None else written])
    seen = verify_file(path, reported_flaws.append, heads)
    assert seen == (end if written is None else Seal(4, last["hash"]) if not written else seen)
    assert bool(reported_flaws) == (written == 0)
    reported_flaws.clear()
    writer().append(record("schema"))
    assert reported_flaws == []
    assert lines(path)[4] == f"{line}\n"
    assert verify_file(path, reported_flaws.append, heads).count == 6


def test_processes_of_one_organism_share_its_record(path, heads, writer, reported_flaws):
    serving, calling = writer(), writer()
    for going in (serving, calling, calling, serving, writer(check=False)):
        going.append(record("schema"))
    assert reported_flaws == []
    assert verify_file(path, reported_flaws.append, heads).count == 5


def test_two_organisms_do_not_share_a_record(path, tmp_path, reported_flaws):
    journals = [tmp_path / "one", tmp_path / "two"]
    for journal in journals:
        open_writing(JournalOptions(journal)).close()
    one, two = (
        AuditFile(path, reported_flaws.append, JournalHeadStore(journal, "a")) for journal in journals
    )
    one.append(record("schema"))
    (path.with_name(f"{path.name}.end")).unlink()  # what the other would take the file over by
    two.append(record("schema"))
    one.append(record("schema"))
    assert any(
        "is not the record" in text or "does not follow" in text or "is not known" in text
        for text in reported_flaws
    ), reported_flaws
    for journal in journals:
        assert isinstance(verify_file(path, reported_flaws.append, JournalHeadStore(journal, "a")), Flaw)


def test_a_record_of_an_earlier_server_is_taken_over_by_its_note(path, tmp_path, reported_flaws):
    before = AuditFile(path, reported_flaws.append)
    before.append(record("schema"))
    note = json.loads(path.with_name(f"{path.name}.end").read_text())
    del note["line"]  # as it was written then
    path.with_name(f"{path.name}.end").write_text(json.dumps(note))
    open_writing(JournalOptions(tmp_path / "j")).close()
    heads = JournalHeadStore(tmp_path / "j", "a")
    now = AuditFile(path, reported_flaws.append, heads)
    now.check()
    assert heads.read().end == Seal(1, note["hash"])
    now.append(record("schema"))
    assert reported_flaws == []
    assert verify_file(path, reported_flaws.append, heads).count == 2


def test_an_unknown_record_is_accepted_as_it_is_and_reported(path, tmp_path, reported_flaws):
    AuditFile(path).append(record("schema"))
    path.with_name(f"{path.name}.end").unlink()
    open_writing(JournalOptions(tmp_path / "j")).close()
    now = AuditFile(path, reported_flaws.append, JournalHeadStore(tmp_path / "j", "a"))
    now.check()
    assert "nothing says where its 1 records ended" in reported_flaws[0]
    now.append(record("schema"))
    assert len(reported_flaws) == 1


def test_a_head_that_cannot_be_kept_does_not_make_the_next_record_a_break(
    path, heads, writer, reported_flaws, monkeypatch
):
    going = writer()
    going.append(record("schema"))

    def refuse_write(*_):
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(type(heads), "keep", refuse_write)
        going.append(record("schema"))
    assert all("its end is not noted" in text for text in reported_flaws)
    reported_flaws.clear()
    going.append(record("schema"))
    assert reported_flaws == []
    assert verify_file(path, reported_flaws.append, heads).count == 3


def test_a_record_that_could_not_be_written_is_not_missed(path, heads, writer, reported_flaws, monkeypatch):
    going = writer()
    going.append(record("schema"))

    def torn(file, data):
        os.write(file, data[:9])
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(records, "_write", torn)
        going.append(record("schema"))
    assert "not kept" in reported_flaws[0]
    going.append(record("schema"))
    writer().append(record("schema"))
    assert len(reported_flaws) == 1
    assert verify_file(path, reported_flaws.append, heads).count == 3


def test_note_and_file_are_private(path, four):
    assert path.stat().st_mode & 0o077 == 0
    assert path.with_name(f"{path.name}.end").stat().st_mode & 0o077 == 0


def test_a_missing_journal_is_not_created(path, writer, reported_flaws):
    writer()
    assert not path.exists()
    assert reported_flaws == []


def test_a_journal_that_is_missing_or_of_another_program_keeps_nothing(tmp_path):
    heads = JournalHeadStore(tmp_path / "gone", "a")
    heads.keep(ChainHead(Seal(1, "x" * 64)))
    assert heads.read() is None
    (tmp_path / "text").write_text("no database, whatever its name")
    with pytest.raises(OSError, match="the end of a"):
        JournalHeadStore(tmp_path / "text", "a").read()
