"""Files of a folder as messages: each once, whole, bounded, and from a stranger."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from agentserver import HandlerMetadata, HandlerResponse, xmlify
from agentserver.assembly import build
from agentserver.core.state.principals import Trust
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, Sync
from agentserver.gateways.inbox import (
    DONE,
    FAILED,
    FileVersion,
    FileWatch,
    InboxFolder,
    InboxRunner,
    is_taken,
)
from agentserver.ports import RejectReason, SubmitResult
from agentserver.ports.hooks import Inbox
from agentserver.rulebook import build_rules
from agentserver.testing import listener, organism_of
from tests.pump.desk import wait_until


@xmlify
@dataclass(frozen=True)
class Order:
    item: str
    count: int = 1


@xmlify
@dataclass(frozen=True)
class Note:
    name: str
    text: str


ORDERS = Inbox("orders", "in", "clerk", Order.__xml_name__, fields={"item": "order.item"}, settle=0.0)
NOTES = Inbox("notes", "in", "scribe", Note.__xml_name__, format="text", settle=0.0)


@dataclass
class Office:
    """A server whose folder is looked at when the test says so."""

    path: Path
    server: object
    runner: InboxRunner
    tasks: object
    taken: list

    async def look(self, inbox=ORDERS, times=1):
        for _ in range(times):
            await self.runner.look(inbox, self.tasks)

    def names(self, folder="."):
        found = (
            [each.name for each in (self.path / folder).iterdir()] if (self.path / folder).exists() else []
        )
        return sorted(set(found) - {DONE, FAILED})

    def put(self, name, text):
        self.path.mkdir(exist_ok=True)
        (self.path / name).write_text(text)


@asynccontextmanager
async def office(root, taken=None, now=lambda: 0.0):
    taken = [] if taken is None else taken

    async def take(payload: Order | Note, metadata: HandlerMetadata) -> HandlerResponse:
        taken.append(payload)
        return HandlerResponse.respond(payload)

    made = await anyio.to_thread.run_sync(
        lambda: organism_of(listener("clerk", take, Order), listener("scribe", take, Note))
    )
    decided_by = await anyio.to_thread.run_sync(build_rules, made)
    engine = SqliteEngine(JournalOptions(root / "journal.sqlite", Sync.NORMAL), decided_by.guards)
    async with build(made, engine=engine) as server, anyio.create_task_group() as tasks:
        yield Office(root / "in", server, InboxRunner(server, lambda: (ORDERS,), root, now), tasks, taken)
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_file_becomes_one_message_of_a_stranger_and_moves_to_done(tmp_path):
    async with office(tmp_path) as o:
        seen = []
        opened = o.server.open

        async def watch(principal, **more):
            seen.append(principal)
            return await opened(principal, **more)

        o.server.open = watch
        o.put("a.json", '{"order": {"item": "tea"}, "count": 3}')
        await o.look(times=3)
        await wait_until(lambda: o.taken)
        assert o.taken == [Order("tea", 3)]
        assert (o.names(), o.names(DONE), o.names(FAILED)) == ([], ["a.json"], [])
        assert [(each.name, each.trust, each.may) for each in seen] == [
            ("inbox-orders", Trust.STRANGER, ("clerk",))
        ]


@pytest.mark.anyio
async def test_a_file_of_text_is_its_name_and_content(tmp_path):
    async with office(tmp_path) as o:
        o.put("a b.txt", "Grüße")
        await o.look(NOTES)
        await wait_until(lambda: o.taken)
        assert o.taken == [Note("a b.txt", "Grüße")]


@pytest.mark.anyio
async def test_a_file_is_sent_once_when_the_server_ends_between_sending_and_moving(tmp_path):
    taken = []
    async with office(tmp_path, taken) as o:
        o.put("a.json", '{"order": {"item": "tea"}}')
        info = (o.path / "a.json").stat()
        await o.look()
        await wait_until(lambda: taken)
    (tmp_path / "in" / DONE / "a.json").rename(tmp_path / "in" / "a.json")  # as if it had never been moved
    os.utime(tmp_path / "in" / "a.json", ns=(info.st_atime_ns, info.st_mtime_ns))
    async with office(tmp_path, taken) as o:
        await o.look()
        assert o.names(DONE) == ["a.json"]
        await o.server.drain()
        assert len(taken) == 1
        o.put("a.json", '{"order": {"item": "tea"}}')  # the next file of that name is another one
    async with office(tmp_path, taken) as o:
        await o.look()
        await wait_until(lambda: len(taken) == 2)
        assert len(o.names(DONE)) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "(value):"),
        ('{"order": {"item": "tea"}, "count": "secret"}', "/count:"),
        ("{}", "missing member item"),
        ('{"order": {"item": "%s"}}' % ("x" * 1_000_000), "has 1000023 bytes, more than 1000000"),
    ],
)
@pytest.mark.anyio
async def test_a_faulty_file_moves_to_failed_with_its_reason(tmp_path, text, reason):
    async with office(tmp_path) as o:
        o.put("a.json", text)
        await o.look()
        assert (o.names(), o.names(FAILED)) == ([], ["a.json", "a.json.reason"])
        told = (o.path / FAILED / "a.json.reason").read_text()
        assert reason in told
        assert "secret" not in told
        assert o.taken == []


@pytest.mark.anyio
async def test_links_pipes_and_folders_are_refused(tmp_path):
    (tmp_path / "outside.json").write_text('{"order": {"item": "secret"}}')
    async with office(tmp_path) as o:
        o.path.mkdir()
        (o.path / "soft.json").symlink_to(tmp_path / "outside.json")
        (o.path / "hard.json").hardlink_to(tmp_path / "outside.json")
        os.mkfifo(o.path / "pipe.json")
        (o.path / "folder.json").mkdir()
        await o.look()
        assert (o.names(), o.taken) == ([], [])
        reasons = {
            name: (o.path / FAILED / name).read_text().strip()
            for name in o.names(FAILED)
            if ".reason" in name
        }
        assert reasons == {
            "soft.json.reason": "is a symbolic link",
            "hard.json.reason": "is a hard link",
            "pipe.json.reason": "is no file",
            "folder.json.reason": "is no file",
        }
        assert (tmp_path / "outside.json").exists()


@pytest.mark.anyio
async def test_done_may_not_be_a_link(tmp_path, caplog):
    (tmp_path / "elsewhere").mkdir()
    async with office(tmp_path) as o:
        o.put("a.json", '{"order": {"item": "tea"}}')
        (o.path / DONE).symlink_to(tmp_path / "elsewhere")
        await o.look(times=2)
        assert o.taken == []
        assert caplog.text.count("the inbox orders cannot be read") == 1


@pytest.mark.parametrize("why", [RejectReason.UNKEPT, RejectReason.STOPPING])
@pytest.mark.anyio
async def test_a_file_waits_while_the_server_takes_none(tmp_path, why):
    async with office(tmp_path) as o:
        submit = o.server.submit

        async def refuse(*_, **__):
            return SubmitResult("", why)

        o.server.submit = refuse
        o.put("a.json", '{"order": {"item": "tea"}}')
        await o.look()
        assert o.names() == ["a.json"]
        o.server.submit = submit
        await o.look()
        await wait_until(lambda: o.taken)


def test_a_file_is_read_once_it_has_kept_its_size_and_time():
    watch, first, grown = FileWatch(), FileVersion(1, 10, 5), FileVersion(1, 20, 5)
    assert watch.list_settled({"a": first}, 0.0, 2.0) == []
    assert watch.list_settled({"a": grown}, 2.0, 2.0) == []
    assert watch.list_settled({"a": grown}, 3.9, 2.0) == []
    assert watch.list_settled({"a": grown, "b": first}, 4.0, 2.0) == ["a"]
    assert watch.list_settled({}, 5.0, 2.0) == []
    assert watch.list_settled({"a": grown}, 6.0, 2.0) == []


def test_a_file_that_grows_while_it_is_read_is_left(tmp_path, monkeypatch):
    path = tmp_path / "in"
    with InboxFolder(path) as folder:
        (path / "a.json").write_text("{}")
        real, calls = os.fstat, []

        def grow(at):
            calls.append(at)
            if len(calls) == 2:
                (path / "a.json").write_text("{ }")
            return real(at)

        monkeypatch.setattr(os, "fstat", grow)
        assert folder.read(ORDERS, "a.json") is None


def test_a_file_that_was_replaced_after_reading_is_not_moved(tmp_path):
    path = tmp_path / "in"
    with InboxFolder(path) as folder:
        (path / "a.json").write_text("{}")
        file = folder.read(ORDERS, "a.json")
        (path / "b").write_text("{} ")
        (path / "b").rename(path / "a.json")
        assert folder.move("a.json", DONE, file.version) == ""
        assert (path / "a.json").exists()


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("a.json", True),
        (".a.json", False),
        ("a.json.part", False),
        ("a.tmp", False),
        ("done", False),
        ("a.txt", False),
    ],
)
def test_names_of_files_that_are_taken(name, taken):
    assert (
        is_taken(
            Inbox("i", "in", "clerk", "r", match="*.json" if "json" in name or "txt" in name else "*"), name
        )
        is taken
    )


@pytest.mark.anyio
async def test_a_running_command_takes_files_from_its_folders(tmp_path):
    async with office(tmp_path) as o:
        inboxes = [ORDERS]
        runner = InboxRunner(o.server, lambda: inboxes, tmp_path, pause=0.01)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runner.run)
            o.put("a.json", '{"order": {"item": "tea"}}')
            await wait_until(lambda: o.names(DONE) == ["a.json"])
            inboxes[:] = [replace(NOTES, folder="notes")]  # as a reload does
            await wait_until((tmp_path / "notes" / DONE).exists)
            (tmp_path / "notes" / "n.txt").write_text("hello")
            await wait_until(lambda: Note("n.txt", "hello") in o.taken)
            tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_file_that_comes_while_the_queue_is_full_is_taken_once_later(tmp_path):
    now = [0.0]
    async with office(tmp_path, now=lambda: now[0]) as o:
        accounts = o.server._pump._accounts
        admits, asked = accounts.admits, []
        accounts.admits = lambda *_: asked.append(1)
        o.put("a.json", '{"order": {"item": "tea"}}')
        for now[0] in (0.0, 0.5, 1.0, 2.9, 3.0):  # it waits longer each time
            await o.look()
        assert (len(asked), o.names(), o.names(DONE), o.names(FAILED)) == (1 + 2 + 3, ["a.json"], [], [])
        accounts.admits = admits
        now[0] = 100.0
        await o.look()
        await wait_until(lambda: o.taken)
        assert (o.names(DONE), o.taken) == (["a.json"], [Order("tea")])


@pytest.mark.anyio
async def test_a_file_that_cannot_be_moved_does_not_hold_up_those_behind_it(tmp_path, monkeypatch, caplog):
    move = InboxFolder.move

    def refuse(self, name, *more):
        if name == "a.json":
            raise PermissionError(1, "Operation not permitted", name)
        return move(self, name, *more)

    monkeypatch.setattr(InboxFolder, "move", refuse)
    now = [0.0]
    async with office(tmp_path, now=lambda: now[0]) as o:
        o.put("a.json", '{"order": {"item": "tea"}}')
        o.put("b.json", '{"order": {"item": "milk"}}')
        for now[0] in (0.0, 100.0, 200.0):
            await o.look()
        await wait_until(lambda: len(o.taken) == 2)
        assert (o.names(), o.names(DONE)) == (["a.json"], ["b.json"])
        assert sorted(o.taken, key=str) == [Order("milk"), Order("tea")]
        assert caplog.text.count("cannot be read") == 1
