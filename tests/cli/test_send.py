"""``agentserver send`` as a process, against a door that is a script."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from types import SimpleNamespace

import anyio
import pytest

from agentserver.client import Client
from tests.client.scripted import TOKEN, answer, script_door
from tests.gateways.http.desk import desk

pytestmark = pytest.mark.anyio

OPENED = answer(201, {"conversation": "c1"})
REPLY = {
    "type": "reply", "request": "r1", "from": "greeter", "payload": "greeting", "value": {"text": "h\u00e9"},
    "place": "3-0",
}  # fmt: skip
CLOSED = answer(204)
INTERRUPTED = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    " runpy.run_module('agentserver', run_name='__main__')"
)
"""Runs the command also where the tests run in the background, whose children ignore interrupts."""


async def send(door, *words, token=TOKEN, stdin=b"", **environ):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTSERVER_")}
    kept |= {"AGENTSERVER_URL": door.url, **({"AGENTSERVER_TOKEN": token} if token else {}), **environ}
    command = [sys.executable, "-m", "agentserver", "send", *words]
    done = await anyio.run_process(command, input=stdin, env=kept, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_a_message_is_sent_and_its_answer_is_alone_on_standard_output():
    async with script_door(OPENED, answer(200, REPLY), CLOSED) as (door, _):
        assert await send(door, '{"name": "Ada"}', "--to", "greeter") == (0, '{"text": "h\\u00e9"}\n', "")
    assert door.paths == [
        "POST /v1/conversations",
        "POST /v1/conversations/c1/messages",
        "DELETE /v1/conversations/c1",
    ]
    assert door.heard[1].headers["authorization"] == f"Bearer {TOKEN}"


async def test_standard_input_may_hold_xml_and_a_file_the_token(tmp_path):
    (tmp_path / "token").write_text(f"{'f' * 43}\n", "utf-8")
    async with script_door(answer(200, REPLY)) as (door, _):
        words = ["-", "--conversation", "c9", "--token-file", str(tmp_path / "token"), "--key", "mine"]
        status, _, _ = await send(door, *words, stdin=b" <greet/>")
    assert status == 0
    (heard,) = door.heard
    assert heard.path == "/v1/conversations/c9/messages"
    assert heard.headers["authorization"] == f"Bearer {'f' * 43}"
    assert heard.headers["idempotency-key"] == "mine"
    assert (heard.headers["content-type"], heard.body) == ("application/xml", b" <greet/>")


async def test_a_conversation_can_be_kept():
    async with script_door(OPENED, answer(200, REPLY)) as (door, _):
        status, _, told = await send(door, "{}", "--keep")
    assert (status, told) == (0, "conversation c1\n")


async def test_a_refusal_of_the_server_is_printed_with_its_correction():
    faults = [{"pointer": "/name", "rule": "a text is expected"}]
    refused = answer(422, {"detail": "No.\u001b[2J", "code": "validation", "faults": faults})
    async with script_door(OPENED, refused, CLOSED) as (door, _):
        status, out, told = await send(door, "{}")
    assert (status, out) == (1, "")
    assert told.splitlines()[1] == "/name: a text is expected"
    assert "\x1b" not in told


async def test_no_answer_in_time_says_how_to_wait_for_it_again():
    told = (
        "no answer within 0.1 s; the message is still being handled\n"
        "to wait for its answer again, send the same message with --conversation c1 --key mine\n"
    )
    for before, words in (([OPENED], ()), ([], ("--conversation", "c1"))):
        async with script_door(*before, answer(202, {"request": "r1", "after": "2-0"})) as (door, _):
            assert await send(door, "{}", "--within", "0.1", "--key", "mine", *words) == (3, "", told)
        assert door.heard[-1].path.endswith("/messages"), "its conversation stays open"


async def test_the_same_message_under_a_key_is_one_payment_without_a_conversation_too():
    async with desk() as door, Client(door.url, "olga") as olga:

        async def pay():
            return await send(
                door, '{"amount": 5}', "--to", "vault", "--within", "1", "--key", "mine", token="ada"
            )

        assert [(await pay())[0], (await pay())[0]] == [4, 4]
        (waiting,) = await olga.approvals()
        await olga.decide(waiting, "once")
        assert await pay() == (0, '{"text": "paid 5"}\n', "")
        assert await pay() == (1, "", "The conversation is over.\n")
        assert door.books.paid == 1


async def test_a_payment_that_waits_for_an_approval_survives_an_interrupt():
    async with desk() as door, Client(door.url, "olga") as olga:
        environ = {**os.environ, "AGENTSERVER_URL": door.url, "AGENTSERVER_TOKEN": "ada"}
        command = [sys.executable, "-c", INTERRUPTED, "send", '{"amount": 5}', "--to", "vault"]
        async with await anyio.open_process(command, env=environ) as sending:
            while not (waiting := await olga.approvals()):  # noqa: ASYNC110 - another process tells nothing
                await anyio.sleep(0.05)
            sending.send_signal(signal.SIGINT)
            told = b"".join([piece async for piece in sending.stderr])
            assert await sending.wait() == 130
        assert f"continues in conversation {waiting[0].conversation}" in told.decode()
        assert await olga.approvals() == waiting


async def test_a_payment_that_waits_for_an_approval_lives_on_and_is_answered_later():
    async with desk() as door, Client(door.url, "olga") as olga:

        async def pay(*words):
            return await send(door, '{"amount": 5}', "--to", "vault", "--within", "1", *words, token="ada")

        status, out, told = await pay("--key", "mine")
        (waiting,) = await olga.approvals()
        assert (status, out) == (4, "")
        assert "a message to vault waits for a person until " in told
        assert f"agentserver approvals show {waiting.id} shows how to approve it\n" in told
        assert told.endswith(f"with --conversation {waiting.conversation} --key mine\n")
        again = ("--conversation", waiting.conversation, "--key", "mine")
        assert (await pay(*again))[0] == 4
        assert [one.id for one in await olga.approvals()] == [waiting.id]
        assert door.books.paid == 0
        await olga.decide(waiting, "once")
        assert await pay(*again) == (0, '{"text": "paid 5"}\n', "")
        assert door.books.paid == 1


@pytest.mark.parametrize("words", [(), ("--conversation", "c1")])
async def test_a_door_that_refuses_for_its_quota_is_asked_for_no_longer_than_within(words):
    """A retry that would come after the timeout is not made, in opening a conversation and in sending."""
    detail = "You may have 1 conversation open."
    refused = answer(429, {"status": 429, "detail": detail}, [("retry-after", "3")])
    async with script_door(*[refused] * 40) as (door, _):
        status, out, told = await send(door, "{}", "--within", "2", *words)
    assert (status, out, told) == (1, "", f"{detail}\n")
    assert len(door.heard) == 1


async def test_an_end_without_an_answer_is_said():
    async with script_door(OPENED, answer(204), CLOSED) as (door, _):
        assert await send(door, "{}") == (3, "", "ended without an answer\n")


async def test_another_server_is_no_door():
    async with script_door(answer(200, b"hello", kind="text/plain")) as (door, _):
        status, _, told = await send(door, "{}")
    assert (status, told.startswith(door.url)) == (2, True)


WRONG = {
    "not a token": (["{}"], "", "AGENTSERVER_TOKEN"),
    "a token that is none": (["{}"], "a b", "not a token"),
    "no message": (["[1]"], TOKEN, "neither a JSON object nor XML"),
    "a message without an end": (['{"a":'], TOKEN, "neither"),
    "a network": (["{}", "--url", "http://10.0.0.1"], TOKEN, "https://"),
}


@pytest.mark.parametrize(("words", "token", "told"), WRONG.values(), ids=list(WRONG))
async def test_invalid_options_send_nothing(words, token, told):
    async with script_door() as (door, _):
        status, out, said = await send(door, *words, token=token)
    assert (status, out, door.heard) == (2, "", [])
    assert told in said


async def test_a_file_without_a_token_is_named(tmp_path):
    file = tmp_path / "ada.token"
    file.write_text("\n", "utf-8")
    async with script_door() as (door, _):
        status, out, said = await send(door, "{}", "--token-file", str(file))
    assert (status, out, said.startswith(f"{file}: is empty")) == (2, "", True), said


async def test_no_option_takes_a_token():
    async with script_door() as (door, _):
        _, out, _ = await send(door, "--help")
    assert "--token-file" in out
    assert "--token " not in out
    assert json.dumps(TOKEN) not in out


async def test_a_door_that_never_answers_is_left_after_within():
    async def silent(reader, writer):
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        door = SimpleNamespace(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        said = "no conversation was opened within 0.2 s; nothing was sent\n"
        assert await send(door, "{}", "--within", "0.2") == (3, "", said)
