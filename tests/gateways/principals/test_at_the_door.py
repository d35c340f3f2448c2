"""Principals at a real server: real tokens in a real file, rates by a manual clock."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import httpx
import pytest
from anyio.to_thread import run_sync

from agentserver.assembly import build
from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bind, serve
from agentserver.gateways.principals import Caller, Rate, Rates, Role, Tokens, tokens
from agentserver.gateways.principals.document import PrincipalFile
from tests.gateways.http.desk import Books, ReadingApprover, organism
from tests.gateways.principals.people import ManualClock
from tests.machine import HANGS, PLAIN

pytestmark = pytest.mark.anyio


class Town:
    """A door with people who were added to a file."""

    def __init__(self, port, path, clock, server):
        self.port, self.path, self.clock, self.server = port, path, clock, server
        self.tokens = {}

    async def add(self, name, role=Role.USER, rate="1000/s", most=20, may=("cashier", "pauser", "vault")):
        caller = Caller(Principal(name, Trust.ORDERS, may), role, Rate.parse(rate), most)
        self.tokens[name] = await run_sync(tokens.add, PrincipalFile(self.path), caller)

    def client(self, name):
        headers = {"authorization": f"Bearer {self.tokens[name]}"}
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=HANGS, verify=PLAIN
        )


@asynccontextmanager
async def town(tmp_path, *people):
    made = await run_sync(lambda: organism(Books()))
    server, clock, path = build(made, approver=ReadingApprover()), ManualClock(), tmp_path / "principals"
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    options = DoorOptions(*names(port, local=True, secure=False))
    known, found = Tokens(PrincipalFile(path)), Town(port, path, clock, server)
    for each in people:
        await found.add(*each)
    async with server, known.watch(0.05):
        door = HttpDoor(server, options, TokenKeeper(known, Rates(clock)))
        async with door.open(), serve(door, listening, None, door.connections):
            yield found


async def refresh(client, wanted):
    """Wait until the door has taken a change of the file."""
    with anyio.fail_after(HANGS):
        while (await client.get("/v1/approvals")).status_code != wanted:  # noqa: ASYNC110 - over HTTP
            await anyio.sleep(0.02)


async def test_an_unknown_a_revoked_and_a_malformed_token_get_the_same_bytes(tmp_path):
    async with town(tmp_path, ["ada"], ["olga", Role.OPERATOR]) as here:
        await run_sync(tokens.revoke, PrincipalFile(here.path), "olga")
        async with here.client("olga") as client:
            await refresh(client, 401)
        shown = {
            "revoked": here.tokens["olga"],
            "unknown": "A" * 43,
            "short": "x",
            "long": "A" * 4000,
            "odd": "~!~",
        }
        answers = {}
        for why, token in shown.items():
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{here.port}", verify=PLAIN) as client:
                answer = await client.get("/v1/approvals", headers={"authorization": f"Bearer {token}"})
            headers = {name: value for name, value in answer.headers.items() if name != "date"}
            answers[why] = (answer.status_code, answer.content, tuple(headers.items()))
        assert len(set(answers.values())) == 1, answers
        assert answers["unknown"][0] == 401


async def test_revoking_ends_the_streams_of_that_token_and_no_others(tmp_path):
    async with town(tmp_path, ["ada"], ["bob"]) as here:
        opened, ended = [], []

        async def watch(name):
            async with here.client(name) as client:
                path = (await client.post("/v1/conversations")).headers["location"]
                async with client.stream("GET", f"{path}/events") as answer:
                    opened.append(name)
                    ended.extend([name async for line in answer.aiter_lines() if "revoked" in line])

        async def wait_until(there):
            with anyio.fail_after(HANGS):
                while not there():  # noqa: ASYNC110 - over HTTP
                    await anyio.sleep(0.02)

        async with anyio.create_task_group() as tasks:
            for name in ("ada", "ada", "bob"):
                tasks.start_soon(watch, name)
            await wait_until(lambda: len(opened) == 3)
            await run_sync(tokens.revoke, PrincipalFile(here.path), "ada")
            await wait_until(lambda: len(ended) == 2)
            await anyio.sleep(0.5)
            assert ended == ["ada", "ada"]
            tasks.cancel_scope.cancel()


async def test_a_flooding_principal_has_to_wait_and_another_is_served(tmp_path):
    async with town(tmp_path, ["ada", Role.USER, "3/s"], ["eve", Role.USER, "3/s"]) as here:
        eve, ada = here.client("eve"), here.client("ada")
        async with eve, ada:
            flood = [await eve.post("/v1/conversations") for _ in range(8)]
            assert [answer.status_code for answer in flood] == [201] * 3 + [429] * 5
            assert flood[-1].headers["retry-after"] == "1"
            assert [(await ada.post("/v1/conversations")).status_code for _ in range(3)] == [201] * 3
            here.clock.now += 1 / 3
            assert [(await eve.post("/v1/conversations")).status_code for _ in range(2)] == [201, 429]


async def test_a_principal_has_as_many_conversations_open_as_it_may(tmp_path):
    async with town(tmp_path, ["ada", Role.USER, "1000/s", 2], ["bob"]) as here:
        ada, bob = here.client("ada"), here.client("bob")
        async with ada, bob:
            made = [await ada.post("/v1/conversations") for _ in range(3)]
            assert [answer.status_code for answer in made] == [201, 201, 429]
            assert (await bob.post("/v1/conversations")).status_code == 201
            assert (await ada.delete(made[0].headers["location"])).status_code == 204
            assert (await ada.post("/v1/conversations", headers={"idempotency-key": "k"})).status_code == 201
            assert (await ada.post("/v1/conversations", headers={"idempotency-key": "l"})).status_code == 429
            assert (await ada.post("/v1/conversations", headers={"idempotency-key": "k"})).status_code == 201


# The table of docs/principals.md: what each role is answered about its own and another's.

MINE = {
    ("POST", "/messages?to=cashier"): (200, 200, 403),
    ("GET", "/trace"): (200, 200, 404),
    ("DELETE", "/requests/x"): (404, 404, 403),
    ("DELETE", ""): (204, 204, 403),
}
FOREIGN = {
    ("POST", "/messages?to=cashier"): (404, 404, 403),
    ("GET", "/trace"): (404, 200, 200),
    ("DELETE", "/requests/x"): (404, 404, 403),
    ("DELETE", ""): (404, 204, 403),
}
ROLES = ("user", "operator", "viewer")


async def answers(client, location, routes):
    found = {}
    for method, path in routes:
        body = {"json": {"amount": 1}} if method == "POST" else {}
        found[method, path] = (await client.request(method, location + path, **body)).status_code
    return found


async def test_each_role_sees_and_does_exactly_its_row_of_the_table(tmp_path):
    async with town(tmp_path, ["ada"], *([f"the {role}", Role(role)] for role in ROLES)) as here:
        for column, role in enumerate(ROLES):
            async with here.client(f"the {role}") as client, here.client("ada") as ada:
                foreign = (await ada.post("/v1/conversations")).headers["location"]
                await ada.post(f"{foreign}/messages?to=cashier", json={"amount": 1})
                made = await client.post("/v1/conversations")
                assert made.status_code == (201, 201, 403)[column]
                mine = made.headers.get("location", "/v1/conversations/none")
                found = (await answers(client, mine, MINE), await answers(client, foreign, FOREIGN))
                wanted = [{key: row[column] for key, row in table.items()} for table in (MINE, FOREIGN)]
                assert list(found) == wanted, role
                assert (await client.get("/v1/approvals")).status_code == (403, 200, 200)[column]
                answer = {"digest": "0", "answer": "once"}
                decided = await client.post("/v1/approvals/none", json=answer)
                assert decided.status_code == (403, 404, 403)[column]


async def test_who_may_address_a_listener_that_went_is_refused_and_the_log_says_why(tmp_path, caplog):
    gone = ["ada", Role.USER, "1000/s", 20, ("gone",)]
    async with town(tmp_path, gone) as here, here.client("ada") as client:
        answer = await client.post("/v1/conversations")
    assert answer.status_code == 403
    assert "gone" not in answer.text
    assert "ada may address gone: there is no such listener" in caplog.text
