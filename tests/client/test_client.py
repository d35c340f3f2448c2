"""The client's own rules: recipients of the token, and approvals."""

from __future__ import annotations

import ast
from pathlib import Path

import httpx
import pytest

import agentserver.client
from agentserver.client import (
    Client,
    PendingApproval,
    ProblemError,
    ProtocolError,
    Reason,
    UnreachableError,
    requests,
)
from tests.client.scripted import LOST, TOKEN, answer, script_door

pytestmark = pytest.mark.anyio

WAITS = {
    "id": "a1", "conversation": "c1", "request": "r1", "from": "desk", "to": "mail", "payload": "send",
    "value": {"to": "x@y"}, "at": 1, "until": 61.0, "digest": "d" * 64, "questions": [{"guard": "lineage", "why": ["a"]}],
}  # fmt: skip


async def test_approvals_are_values():
    more = {key: value for key, value in WAITS.items() if key != "value"} | {
        "redacted": 3,
        "questions": [{"guard": "g"}],
    }
    async with script_door(answer(200, {"approvals": [WAITS, more]})) as (_, client):
        first, second = await client.approvals()
    assert first == PendingApproval(
        "a1",
        "d" * 64,
        "c1",
        "r1",
        "desk",
        "mail",
        "send",
        1.0,
        61.0,
        (Reason("lineage", ("a",)),),
        {"to": "x@y"},
    )
    assert (second.value, second.reasons) == (None, (Reason("g", ()),))


@pytest.mark.parametrize("spoiled", [*WAITS, "list"])
async def test_an_unknown_approval_is_not_guessed_at(spoiled):
    found = (
        [1]
        if spoiled == "list"
        else [WAITS | {spoiled: object.__name__ if spoiled in {"at", "until", "questions"} else None}]
    )
    if spoiled == "value":
        return
    async with script_door(answer(200, {"approvals": found})) as (_, client):
        with pytest.raises(ProtocolError):
            await client.approvals()


async def test_an_answer_names_the_displayed_message():
    async with script_door(answer(200, {"approvals": [WAITS]}), answer(204)) as (door, client):
        (one,) = await client.approvals()
        await client.decide(one, "once")
    assert door.heard[1].path == "/v1/approvals/a1"
    assert door.heard[1].json() == {"digest": "d" * 64, "answer": "once"}


async def test_an_answer_that_may_have_arrived_is_not_given_twice():
    async with script_door(answer(200, {"approvals": [WAITS]}), LOST, answer(204)) as (door, client):
        (one,) = await client.approvals()
        with pytest.raises(UnreachableError):
            await client.decide(one, "deny")
        assert len(door.heard) == 2


async def test_a_stale_answer_is_an_error():
    async with script_door(answer(200, {"approvals": [WAITS]}), answer(409, {"detail": "Gone."})) as (
        _,
        client,
    ):
        (one,) = await client.approvals()
        with pytest.raises(ProblemError, match="409: Gone"):
            await client.decide(one, "always")


async def test_a_redirect_is_not_followed():
    async with script_door(answer(307, headers=[("location", "http://127.0.0.1:1/")])) as (door, client):
        with pytest.raises(ProblemError):
            await client.open()
        assert len(door.heard) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "http://10.0.0.1:8420",
        "ftp://127.0.0.1",
        "127.0.0.1:8420",
        "",
        "http://",
        "http://a:b@127.0.0.1",
        "http://[::",
    ],
)
def test_a_token_goes_over_no_network_in_the_clear(url):
    with pytest.raises(ValueError, match=r"https://|address"):
        Client(url, TOKEN)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1", "https://example.org/desk"]
)
def test_a_token_goes_to_this_machine_or_encrypted(url):
    assert TOKEN not in repr(vars(Client(url, TOKEN)))


def test_something_else_may_encrypt():
    Client("http://door.internal:8420", TOKEN, plain=True)


@pytest.mark.parametrize("token", ["", "a b", "a\r\nx: y", "é"])
def test_an_invalid_token_is_not_sent(token):
    with pytest.raises(ValueError, match="not a token"):
        Client("http://127.0.0.1:1", token)


async def test_a_proxy_of_the_environment_sees_nothing_that_is_not_encrypted(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with script_door(answer(201, {"conversation": "c1"})) as (_, client):
        assert (await client.open()).id == "c1"


def test_the_client_imports_no_part_of_the_server():
    folder = Path(agentserver.client.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentserver"):
                known = (
                    "agentserver.client",
                    "agentserver.codec",
                    "agentserver.extras",
                    "agentserver.foreign_json",
                )
                assert node.module.startswith(known), path


def test_a_silent_server_is_reported_in_plain_words():
    """The library's error has no text of its own; the message names its class."""
    assert requests._describe_loss(httpx.ReadTimeout("")) == "the door does not answer in time"
    assert requests._describe_loss(httpx.ReadError("")) == "ReadError"
