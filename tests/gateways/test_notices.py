"""Notices of waiting approvals over real commands and webhooks: signed, tried again, and without the message."""

from __future__ import annotations

import base64
import json
import logging
import os
import signal
import sys
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import anyio
import pytest

from agentserver.assembly import build
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.gateways import notices
from agentserver.gateways.hooks import verify
from agentserver.gateways.notices import LATEST, Notice, NoticeBook, NoticeRunner, sign
from agentserver.ports.hooks import Hook
from agentserver.ports.notices import Notifier
from tests.gateways.http.desk import Books, Pay, ReadingApprover, organism
from tests.pump.desk import wait_until

KEY = b"k" * 32
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


def waiting(name="a", to="vault", at=100.0):
    return SimpleNamespace(id=name, delivery=SimpleNamespace(to=to), at=at)


ONE, SOME = (Notifier("one"),), ((waiting(), 200.0),)


def due(book, now, steady=0.0, notifiers=ONE, some=SOME):
    return list(book.list_due(notifiers, some, now, steady))


def test_a_notice_is_due_from_its_time_until_the_message_is_refused():
    escalation = (Notifier("first"), Notifier("second", after=30.0))
    names = [[each.notifier.name for each in due(NoticeBook(), now, notifiers=escalation)] for now in (99, 100, 129, 130, 199, 200)]  # fmt: skip
    assert names == [[], ["first"], ["first"], ["first", "second"], ["first", "second"], []]


def test_a_notifier_may_be_for_some_listeners():
    some = (Notifier("all"), Notifier("till", listeners=("till",)))
    assert [each.notifier.name for each in due(NoticeBook(), 100.0, notifiers=some)] == ["all"]


def test_a_sent_notice_is_not_due_again_and_a_failed_one_waits_longer_each_time():
    book = NoticeBook()
    (notice,) = due(book, 100.0)
    steady, pauses = 0.0, []
    for _ in range(12):
        book.mark_failed(notice, steady)
        assert due(book, 100.0, steady) == []
        pause = next(
            each for each in (1, 2, 4, 8, 16, 32, 64, 128, 256, LATEST) if due(book, 100.0, steady + each)
        )
        pauses.append(pause)
        steady += pause
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, LATEST, LATEST, LATEST]
    book.mark_sent(notice)
    assert due(book, 199.0, steady + 1e9) == []
    assert due(book, 100.0, some=()) == []  # answered, and forgotten
    assert book._known == {}


def test_the_id_is_the_same_at_each_server_and_differs_for_each_notifier():
    one = Notice(Notifier("one"), waiting(), 1.0)
    assert one.id == Notice(Notifier("one"), waiting(at=7.0), 2.0).id
    assert (
        len(
            {
                one.id,
                Notice(Notifier("two"), waiting(), 1.0).id,
                Notice(Notifier("one"), waiting("b"), 1.0).id,
            }
        )
        == 3
    )


def test_the_example_of_standard_webhooks_is_signed_alike():
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    found = sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@contextmanager
def receiver(*statuses):
    """A web server that answers with these statuses, then with 204; yields its address and the requests."""
    left, taken = list(statuses), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            taken.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(left.pop(0) if left else 204)
            self.send_header("location", "http://127.0.0.1:9/")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/approvals?team=1", taken
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@asynccontextmanager
async def vault(tmp_path, *notifiers):
    """A server on which one payment waits, and a runner of its notices."""
    made = await anyio.to_thread.run_sync(lambda: organism(Books()))
    async with build(made, approver=ReadingApprover()) as server:
        handle = await server.open("ada")
        await handle.send(
            f'<Pay xmlns="{Pay.__xml_name__[1:].split("}")[0]}"><amount>4711</amount></Pay>'.encode(), "vault"
        )
        await wait_until(server.approvals)
        clock = [0.0]
        runner = NoticeRunner(
            server, lambda: notifiers, "desk", tmp_path, "https://desk.example", steady=lambda: clock[0]
        )
        yield SimpleNamespace(server=server, runner=runner, clock=clock, one=server.approvals()[0])


@pytest.mark.anyio
async def test_a_webhook_is_signed_and_tried_again_under_the_same_id(tmp_path, caplog):
    with receiver(500, 302) as (url, taken):
        async with vault(tmp_path, Notifier("oncall", webhook=url, key=KEY)) as v:
            for at in (0.0, 1.0, 2.9, 3.0, 500.0):
                v.clock[0] = at
                await v.runner.look()
    assert len(taken) == 3
    hook = Hook("one", "greeter", "", "standard", SECRET)
    for path, headers, body in taken:
        assert path == "/approvals?team=1"
        verify(hook, lambda name, headers=headers: headers.get(name.decode(), ""), body, v.runner.clock())
    assert len({(headers["webhook-id"], body) for _, headers, body in taken}) == 1
    told = json.loads(taken[0][2])
    assert told["type"] == "approval.waiting"
    wanted = {"notifier": "oncall", "organism": "desk", "approval": v.one.id, "principal": "ada", "to": "vault",
              "payload": "Pay", "approvers": "anyone", "page": f"https://desk.example/#/approvals/{v.one.id}"}  # fmt: skip
    assert wanted.items() <= told["data"].items()
    assert b"4711" not in taken[0][2]
    (line,) = [each.getMessage() for each in caplog.records if each.name == "agentserver.notify"]
    assert "oncall yet: it answered 500" in line
    assert url not in caplog.text


@pytest.mark.anyio
async def test_nothing_is_announced_after_the_answer(tmp_path):
    with receiver() as (url, taken):
        async with vault(tmp_path, Notifier("oncall", webhook=url, key=KEY)) as v:
            answer = ApprovalAnswer(v.one.id, v.one.digest, Answer.DENY, "olga")
            assert await v.server.answer(v.one.delivery.conversation, answer)
            await v.runner.look()
    assert taken == []


@pytest.mark.anyio
async def test_a_command_gets_the_notice_on_its_input_and_no_shell_reads_its_arguments(tmp_path, monkeypatch):
    monkeypatch.setenv("PAGER_TOKEN", "pager-secret")
    monkeypatch.setenv("OTHER_TOKEN", "other-secret")
    code = "import json,os,sys; json.dump([json.load(sys.stdin), sys.argv[1:], dict(os.environ)], open('told.json','w'))"
    command = (sys.executable, "-c", code, "$(touch shell); `touch shell`")
    async with vault(tmp_path, Notifier("page", command=command, env=("PAGER_TOKEN",))) as v:
        await v.runner.look()
        await v.runner.look()
    told, arguments, env = json.loads((tmp_path / "told.json").read_text())
    assert told["data"]["approval"] == v.one.id
    assert arguments == ["$(touch shell); `touch shell`"]
    assert env["PAGER_TOKEN"] == "pager-secret"
    assert "OTHER_TOKEN" not in env
    assert not (tmp_path / "shell").exists()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("/no/such/program",), "FileNotFoundError"),
        ((sys.executable, "-c", "import sys; sys.exit(3)"), "it ended with status 3"),
    ],
)
@pytest.mark.anyio
async def test_a_command_that_fails_is_tried_again(tmp_path, caplog, command, reason):
    async with vault(tmp_path, Notifier("page", command=command)) as v:
        await v.runner.look()
        assert f"is not announced by page yet: {reason}" in caplog.text
        v.clock[0] = 5.0
        await v.runner.look()
        assert v.runner._book._known["page", v.one.id].failed == 2


@pytest.mark.anyio
async def test_a_command_that_does_not_end_is_killed_with_its_children(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(notices, "TIMEOUT", 2.0)
    command = ("/bin/sh", "-c", "sleep 600 & echo $! > child; wait")
    async with vault(tmp_path, Notifier("page", command=command)) as v:
        await v.runner.look()
    assert "is not announced by page yet: it took too long" in caplog.text
    child = int((tmp_path / "child").read_text())
    await wait_until(partial(has_ended, child))


def has_ended(process):
    """Whether a process is gone, or a zombie that waits for its parent."""
    try:
        os.kill(process, signal.SIG_DFL)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.anyio
async def test_an_unreachable_webhook_is_named_without_its_address(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    url = "http://127.0.0.1:9/token-7781"
    async with vault(tmp_path, Notifier("oncall", webhook=url, key=KEY)) as v:
        await v.runner.look()
        assert "7781" not in repr(v.runner.notifiers())
    assert "is not announced by oncall yet: ConnectionRefusedError" in caplog.text
    assert "7781" not in caplog.text
