import gc
import json
import logging
import os
import stat
import sys
import threading
from pathlib import Path

import anyio
import pytest
from anyio.to_thread import run_sync
from hypothesis import given
from hypothesis import strategies as st

from agentserver.gateways.principals import Tokens, document, tokens
from agentserver.gateways.principals.document import PrincipalFile
from tests.gateways.principals.people import caller
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


def known_by(path, do=None):
    """What ``do`` says of the tokens of a file, which it is given while they are watched."""

    async def main():
        known = Tokens(PrincipalFile(path))
        async with known.watch():
            return do(known)

    return anyio.run(main)


def known(path, *shown):
    return known_by(path, lambda known: [known.authenticate(token) for token in shown])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out" / "journal.sqlite.principals"


def test_the_caller_of_a_token_is_known_as_it_was_added(path):
    (found,) = known(path, tokens.add(PrincipalFile(path), caller()))
    assert (found.name, found.principal.may, str(found.rate)) == ("ada", ("greeter",), "10/s")


def test_a_token_has_256_bits_and_only_its_digest_is_kept(path):
    token = tokens.add(PrincipalFile(path), caller())
    assert len(token) == tokens.LENGTH
    assert token not in path.read_text("utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_a_file_nobody_is_known(path):
    assert known(path, "x" * tokens.LENGTH) == [None]
    assert tokens.list_entries(PrincipalFile(path)) == ()


def wrong(token):
    """Texts that are not the token."""
    return {
        "unknown": "A" * tokens.LENGTH,
        "short": token[:-1],
        "long": token + "A",
        "empty": "",
        "huge": "A" * 60_000,
        "padded with what pads": token[:-1] + "\0",
        "not ASCII": "é" * tokens.LENGTH,
        "a surrogate": "\udcff" * tokens.LENGTH,
        "spaces": f" {token} ",
        "the other case": token.swapcase(),
    }


def test_an_unknown_token_belongs_to_nobody(path):
    token = tokens.add(PrincipalFile(path), caller())
    assert known(path, *wrong(token).values()) == [None] * len(wrong(token))


def work(known, token):
    """What a call does, as the functions that it calls, those in C too."""
    done = []

    def note(frame, event, what):
        if event in {"call", "c_call"}:
            done.append(what.__name__ if event == "c_call" else frame.f_code.co_qualname)

    known.authenticate(token)
    gc.disable()
    sys.setprofile(note)
    try:
        known.authenticate(token)
    finally:
        sys.setprofile(None)
        gc.enable()
    return done[:-1]  # but for setprofile


def test_an_unknown_a_revoked_and_a_malformed_token_cost_the_same_work(path):
    revoked = tokens.add(PrincipalFile(path), caller("eve"))
    for number in range(50):
        token = tokens.add(PrincipalFile(path), caller(f"p{number}"))
    tokens.revoke(PrincipalFile(path), "eve")
    shown = {"revoked": revoked, "known": token, **wrong(token)}
    counted = known_by(path, lambda known: {why: work(known, text) for why, text in shown.items()})
    assert len(set(map(tuple, counted.values()))) == 1, counted
    assert counted["unknown"].count("openssl_sha256") == 1


@given(st.lists(st.text(max_size=100)))
def test_any_text_is_answered(tmp_path_factory, texts):
    assert known(tmp_path_factory.getbasetemp() / "none", *texts) == [None] * len(texts)


def test_who_is_revoked_stays_on_the_list(path):
    token = tokens.add(PrincipalFile(path), caller())
    tokens.revoke(PrincipalFile(path), "ada")
    assert known(path, token) == [None]
    (entry,) = tokens.list_entries(PrincipalFile(path))
    assert entry.revoked >= entry.added
    with pytest.raises(LookupError):
        tokens.revoke(PrincipalFile(path), "ada")


def test_a_new_token_does_not_bring_the_old_one_back(path):
    old = tokens.add(PrincipalFile(path), caller())
    tokens.revoke(PrincipalFile(path), "ada")
    new = tokens.add(PrincipalFile(path), caller())
    nobody, ada = known(path, old, new)
    assert (nobody, ada.name) == (None, "ada")
    assert len(tokens.list_entries(PrincipalFile(path))) == 1


@pytest.mark.parametrize("name", ["ada", "аda", "ADA"])
def test_a_principal_that_resembles_an_existing_one_is_refused(path, name):
    tokens.add(PrincipalFile(path), caller("ada"))
    with pytest.raises(document.DuplicateNameError):
        tokens.add(PrincipalFile(path), caller(name))


def test_no_principal_resembles_an_earlier_one(path):
    tokens.add(PrincipalFile(path), caller("ada"))
    tokens.revoke(PrincipalFile(path), "ada")
    with pytest.raises(document.DuplicateNameError):
        tokens.add(PrincipalFile(path), caller("аda"))


async def test_a_file_is_read_when_it_has_changed_and_only_then(path):
    await run_sync(tokens.add, PrincipalFile(path), caller())
    known = Tokens(PrincipalFile(path))
    for _ in range(20):
        await known.refresh()
    assert known.reads == 1
    await run_sync(tokens.add, PrincipalFile(path), caller("eve"))
    for _ in range(20):
        await known.refresh()
    assert known.reads == 2


async def test_a_file_that_is_not_there_is_looked_for_and_not_read(path):
    known = Tokens(PrincipalFile(path))
    async with known.watch():
        await known.refresh()
        assert (known.reads, known.fault) == (1, "")
        token = await run_sync(tokens.add, PrincipalFile(path), caller())
        await known.refresh()
        assert known.authenticate(token).name == "ada"


def spoil_file(path):
    data = json.loads(path.read_text("utf-8"))
    data["principals"][0]["role"] = "root"
    path.write_text(json.dumps(data), "utf-8")


def link_file(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def replaced_by_a_folder(path):
    path.unlink()
    path.mkdir()


def replaced_by_a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def swollen(path):
    path.write_bytes(path.read_bytes() + b" " * document.MOST)


HARM = [
    spoil_file, link_file, replaced_by_a_folder, replaced_by_a_pipe, swollen,
    lambda path: path.chmod(0o640), lambda path: path.chmod(0o602), lambda path: path.write_bytes(b"{"),
]  # fmt: skip


@pytest.mark.parametrize("harm", HARM)
async def test_a_file_that_cannot_be_used_knows_nobody_and_says_why(path, harm, caplog):
    token = await run_sync(tokens.add, PrincipalFile(path), caller())
    known = Tokens(PrincipalFile(path))
    async with known.watch(3600):
        await run_sync(harm, path)
        with caplog.at_level(logging.ERROR):
            await known.refresh()
            await known.refresh()
        assert known.authenticate(token) is None
    assert str(path) in known.fault
    assert len(caplog.records) == 1
    assert token not in caplog.text
    with pytest.raises(ValueError, match="principals"):
        await run_sync(tokens.list_entries, PrincipalFile(path))


async def test_a_file_that_can_be_used_again_is_used(path):
    token = await run_sync(tokens.add, PrincipalFile(path), caller())
    await run_sync(path.chmod, 0o644)
    known = Tokens(PrincipalFile(path))
    async with known.watch(3600):
        assert known.authenticate(token) is None
        await run_sync(path.chmod, 0o600)
        await known.refresh()
        assert known.authenticate(token).name == "ada"
        assert known.fault == ""


def test_those_who_add_at_the_same_time_do_not_lose_each_other(path):
    made = []
    threads = [
        threading.Thread(target=lambda n=n: made.append(tokens.add(PrincipalFile(path), caller(f"p{n}"))))
        for n in range(12)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {each.name for each in known(path, *made)} == {f"p{n}" for n in range(12)}
    assert [each.name for each in path.parent.iterdir()] == [path.name], "nothing is left over"


def test_a_failed_write_leaves_the_file_unchanged(path, monkeypatch):
    tokens.add(PrincipalFile(path), caller())
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: Path("/nowhere/at/all").stat())
    with pytest.raises(OSError, match="nowhere"):
        tokens.add(PrincipalFile(path), caller("eve"))
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


async def test_all_waiting_clients_learn_of_a_revoked_token_from_one_read(path):
    token = await run_sync(tokens.add, PrincipalFile(path), caller())
    other = await run_sync(tokens.add, PrincipalFile(path), caller("eve"))
    known, told = Tokens(PrincipalFile(path)), []

    async def wait(who):
        await known.wait_revoked(who)
        told.append(who.name)

    async with known.watch(0.01), anyio.create_task_group() as tasks:
        ada = known.authenticate(token)
        for _ in range(100):
            tasks.start_soon(wait, ada)
        tasks.start_soon(wait, known.authenticate(other))
        await anyio.wait_all_tasks_blocked()
        before = known.reads
        await run_sync(tokens.revoke, PrincipalFile(path), "ada")
        with anyio.fail_after(HANGS):
            while len(told) < 100:  # noqa: ASYNC110 - told by a task of the watcher
                await anyio.sleep(0.01)
        assert known.authenticate(token) is None
        assert not known.stands(ada)
        assert known.reads == before + 1
        assert set(told) == {"ada"}
        await known.wait_revoked(ada)  # does not wait
        tasks.cancel_scope.cancel()


def put(path, text):
    """Write the file at once: who watches it never reads half of it."""
    aside = path.with_suffix(".aside")
    aside.write_text(text, "utf-8")
    aside.chmod(0o600)
    aside.replace(path)


async def test_a_change_of_permissions_counts_as_revocation(path):
    token = await run_sync(tokens.add, PrincipalFile(path), caller())
    known = Tokens(PrincipalFile(path))
    async with known.watch(0.01):
        ada = known.authenticate(token)
        await run_sync(put, path, path.read_text("utf-8").replace("user", "operator"))
        with anyio.fail_after(HANGS):
            await known.wait_revoked(ada)
        assert known.authenticate(token).decides


async def test_nobody_is_known_by_a_file_that_is_not_watched(path):
    known = Tokens(PrincipalFile(path))
    with pytest.raises(RuntimeError):
        known.authenticate("A" * tokens.LENGTH)
    async with known.watch():
        pass
    with pytest.raises(RuntimeError):
        known.authenticate("A" * tokens.LENGTH)
    with pytest.raises(RuntimeError):
        await known.wait_revoked(caller())


async def test_a_client_that_stops_waiting_leaves_nothing(path):
    token = await run_sync(tokens.add, PrincipalFile(path), caller())
    known = Tokens(PrincipalFile(path))
    async with known.watch():
        with anyio.move_on_after(0):
            await known.wait_revoked(known.authenticate(token))
        assert not known._waiters


def test_the_file_is_next_to_the_real_journal(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "real" / "journal.sqlite")
    assert (
        document.locate_principal_file(tmp_path / "link.sqlite").path
        == tmp_path / "real" / "journal.sqlite.principals"
    )


async def test_after_a_rotation_both_tokens_work_until_the_grace_ends(path):
    now = [0.0]
    former = await run_sync(tokens.add, PrincipalFile(path), caller())
    known = Tokens(PrincipalFile(path), lambda: now[0])
    async with known.watch(1000):
        before = known.authenticate(former)
        token = await run_sync(tokens.rotate, PrincipalFile(path), "ada", 3600.0)
        (entry,) = await run_sync(tokens.list_entries, PrincipalFile(path))
        now[0] = entry.former.until - 1
        await known.refresh()
        assert known.stands(before)
        assert [known.authenticate(each).name for each in (former, token)] == ["ada", "ada"]
        assert known.authenticate(token).grant != before.grant
        told = []
        async with anyio.create_task_group() as tasks:

            async def revoked():
                await known.wait_revoked(before)
                told.append("former")

            tasks.start_soon(revoked)
            await anyio.wait_all_tasks_blocked()
            now[0] += 1
            await known.refresh()
        assert told == ["former"]
        assert not known.stands(before)
        assert (known.authenticate(former), known.authenticate(token).name) == (None, "ada")


async def test_a_second_rotation_ends_the_token_before_the_former_one(path):
    first = await run_sync(tokens.add, PrincipalFile(path), caller())
    second = await run_sync(tokens.rotate, PrincipalFile(path), "ada", 3600.0)
    third = await run_sync(tokens.rotate, PrincipalFile(path), "ada", 3600.0)
    known = Tokens(PrincipalFile(path))
    async with known.watch():
        found = [known.authenticate(each) for each in (first, second, third)]
    assert [each and each.name for each in found] == [None, "ada", "ada"]


async def test_revoking_ends_a_former_token_too(path):
    former = await run_sync(tokens.add, PrincipalFile(path), caller())
    token = await run_sync(tokens.rotate, PrincipalFile(path), "ada", 3600.0)
    await run_sync(tokens.revoke, PrincipalFile(path), "ada")
    known = Tokens(PrincipalFile(path))
    async with known.watch():
        assert [known.authenticate(each) for each in (former, token)] == [None, None]
    with pytest.raises(LookupError):
        await run_sync(tokens.rotate, PrincipalFile(path), "ada", 1.0)
