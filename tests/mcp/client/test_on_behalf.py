"""Tools of a server that is called for users: each call shows a token of its own user, or is not made."""

from __future__ import annotations

import socket
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from secrets import token_hex

import anyio
import asyncpg
import httpx
import jwt
import mcp_types as types
import pytest
import uvicorn
from anyio.to_thread import run_sync
from mcp.server.lowlevel import Server

from agentserver import config
from agentserver.assembly import build
from agentserver.config.code.tools import lock_path
from agentserver.config.glimpse import read_servers
from agentserver.delegation import DelegationError
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bind, serve
from agentserver.gateways.principals import Rates, Tokens
from agentserver.gateways.principals.delegation import UserDelegations
from agentserver.gateways.principals.document import PrincipalFile
from agentserver.gateways.principals.identity import IdentityTokens
from agentserver.mcp.client.connection import ask
from agentserver.mcp.client.process import plain
from agentserver.payload.foreign.lock import write_lock
from tests.gateways.http.desk import ReadingApprover
from tests.gateways.principals.oidc import AUDIENCE, CLIENT, SECRET, provider
from tests.gateways.principals.people import MachineClock
from tests.machine import HANGS, PLAIN

pytestmark = pytest.mark.anyio

LOCK = "token-of-the-lock"

YAML = """
name: desk
{journal}
provenance: {{mode: enforce}}
http: {{}}
identity:
  - issuer: {issuer}
    audience: {audience}
    loopback: true
    exchange: {{client: {client}, secret: "${{SECRET}}", resources: ["{url}"]}}
    rules:
      - {{when: {{groups: desk}}, trust: orders, may: all, rate: 1000/s, open: 1000}}
listeners:
  - {{name: pages, handler: {module}.read, description: Reads., trust: source}}
  - {{name: clerk, handler: {module}.work, description: Works., peers: [pages, far.echo], trust: relay}}
mcp:
  - name: far
    url: {url}
    token: ${{LOCK}}
    on_behalf: true
    scope: mail.send
    tools: [{{name: echo, trust: sink}}]
"""

HANDLERS = """
from dataclasses import dataclass

from agentserver import HandlerResponse, xmlify

@xmlify
@dataclass
class Page:
    address: str

@xmlify
@dataclass
class Text:
    text: str

@xmlify
@dataclass
class Work:
    address: str

async def read(payload: Page, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Text("eve@evil.example"))

CALLED = []

async def work(payload: Work | Text, metadata) -> HandlerResponse:
    if isinstance(payload, Work):
        return HandlerResponse(Page(payload.address), "pages")
    return HandlerResponse(CALLED[0](to=payload.text, text="hello"), "far.echo") if isinstance(payload, Text) else HandlerResponse.respond(payload)
"""


@dataclass
class Far:
    """A server of the protocol that checks tokens as a resource does. ``calls`` has the claims of each call."""

    url: str
    idp: object
    calls: list = field(default_factory=list)
    shown: list = field(default_factory=list)

    async def on_list(self, ctx, params):
        fields = {name: {"type": "string", "description": f"The {name}."} for name in ("to", "text")}
        schema = {"type": "object", "properties": fields, "required": [*fields]}
        return types.ListToolsResult(
            tools=[types.Tool(name="echo", description="Says it.", input_schema=schema)]
        )

    async def on_call(self, ctx, params):
        self.calls.append((self.shown[-1], params.arguments["text"]))
        return types.CallToolResult(content=[types.TextContent(type="text", text="said")])

    def app(self):
        inner = Server(
            "far", version="1", on_list_tools=self.on_list, on_call_tool=self.on_call
        ).streamable_http_app()

        async def guard_app(scope, receive, send):
            if scope["type"] == "http":
                token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
                claims = self.check(token)
                if claims is None:
                    await send({"type": "http.response.start", "status": 401, "headers": []})
                    await send({"type": "http.response.body", "body": b""})
                    return
                self.shown.append(claims)
            await inner(scope, receive, send)

        return guard_app

    def check(self, token):
        if token == LOCK:
            return {"sub": "lock"}
        key = self.idp.keys["first"].public_key()
        try:
            return jwt.decode(token, key, algorithms=["RS256"], audience=self.url, issuer=self.idp.issuer)
        except jwt.PyJWTError:
            return None


@asynccontextmanager
async def far_server(idp):
    listening = socket.create_server(("127.0.0.1", 0))
    far = Far(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", idp)
    server = uvicorn.Server(uvicorn.Config(far.app(), log_level="error", timeout_graceful_shutdown=1))
    server.install_signal_handlers = lambda: None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: server.serve(sockets=[listening]))
        with anyio.fail_after(HANGS):
            while not server.started:  # noqa: ASYNC110 - a library's
                await anyio.sleep(0.01)
        yield far
        server.should_exit = True


def load_locked(root, idp, far, journal="journal: none"):
    """Lock the tools, and load the organism."""
    module = f"handlers_{token_hex(4)}"  # a process has one module of a name
    (root / f"{module}.py").write_text(HANDLERS)
    text = YAML.format(
        module=module, issuer=idp.issuer, audience=AUDIENCE, url=far.url, client=CLIENT, journal=journal
    )
    (root / "organism.yaml").write_text(text)
    environ = {"SECRET": SECRET, "LOCK": LOCK}
    found, directory, mistakes = read_servers(root / "organism.yaml", environ)
    assert mistakes == ()
    path = root / lock_path("far")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(write_lock(ask(found[0], directory, plain).lock))
    organism = config.load(root / "organism.yaml", environ=environ)
    called = next(
        each.listener.payloads[0] for each in organism.listeners if each.listener.name == "far.echo"
    )
    sys.modules[module].CALLED.append(called)
    return organism


@asynccontextmanager
async def serving(root, organism, now=time.time, **more):
    """A server of the organism at its door: client, delegations."""
    server = build(organism, approver=ReadingApprover(), **more)
    tokens = IdentityTokens(Tokens(PrincipalFile(root / "principals")), organism.identity, now=now)
    server.delegations = delegations = UserDelegations(tokens, now)
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    options = DoorOptions(*names(port, local=True, secure=False))
    door = HttpDoor(server, options, TokenKeeper(tokens, Rates(time.monotonic)))
    async with (
        server,
        tokens.watch(),
        door.open(),
        serve(door, listening, None, door.connections),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=HANGS, verify=PLAIN) as client,
    ):
        for each in tokens.providers.values():
            await each.refresh()
        yield client, delegations


@asynccontextmanager
async def desk(root):
    """The organism at its door: client, provider, far server, and delegations."""
    async with provider() as idp, far_server(idp) as far:
        organism = await run_sync(load_locked, root, idp, far)
        async with serving(root, organism) as (client, delegations):
            yield client, idp, far, delegations


async def say(client, token, to, /, **fields):
    """Send a message of a user; return the answer."""
    headers = {"authorization": f"Bearer {token}"}
    began = await client.post("/v1/conversations", headers=headers)
    assert began.status_code == 201, began.text
    sent = await client.post(f"{began.headers['location']}/messages?to={to}", json=fields, headers=headers)
    return sent.json()


async def test_each_call_shows_a_token_of_its_user_for_this_server_only(tmp_path):
    async with desk(tmp_path) as (client, idp, far, _):
        far.shown.clear()
        for user in ("ada", "bob", "ada"):
            told = await say(
                client, idp.token(sub=user), "far.echo", to="bob@desk.example", text=f"from {user}"
            )
            assert "said" in str(told), told
        assert [(claims["sub"], text) for claims, text in far.calls] == [
            ("ada", "from ada"),
            ("bob", "from bob"),
            ("ada", "from ada"),
        ]
        assert {claims["sub"] for claims in far.shown} == {
            "ada",
            "bob",
        }  # neither the lock's token nor a shared one
        for claims, _ in far.calls:
            assert (claims["aud"], claims["act"], claims["scope"]) == (far.url, {"sub": CLIENT}, "mail.send")


async def test_a_call_needs_the_delegation_of_the_user_and_an_origin_that_may_authorise_it(tmp_path):
    async with desk(tmp_path) as (client, idp, far, _):
        idp.other["/token"] = b'{"error":"invalid_target"}'
        told = await say(client, idp.token(), "far.echo", to="bob@desk.example", text="mine")
        assert "[delegation:refused]" in str(told)
        del idp.other["/token"]
        asked = len(idp.asked)
        told = await say(client, idp.token(), "clerk&payload=Work", address="https://evil.example")
        assert "denied" in str(told)
        assert (far.calls, len(idp.asked)) == ([], asked)
        assert "said" in str(await say(client, idp.token(), "far.echo", to="bob@desk.example", text="mine"))
        assert [text for _, text in far.calls] == ["mine"]


REFUSED = {
    "another user's": lambda idp, far: {"access_token": idp.token(sub="olga", aud=far.url)},
    "for another server": lambda idp, far: {"access_token": idp.token(aud="https://other.example")},
    "for every server": lambda idp, far: {"access_token": idp.token()},
    "expired": lambda idp, far: {"access_token": idp.token(aud=far.url, exp=int(time.time()) - 100)},
    "of another kind": lambda idp, far: {
        "issued_token_type": "urn:ietf:params:oauth:token-type:refresh_token"
    },
    "bound to a key": lambda idp, far: {"token_type": "DPoP"},
    "no text": lambda idp, far: {"access_token": 7},
    "two lines": lambda idp, far: {"access_token": "a\nb"},
    "too long": lambda idp, far: {"access_token": "x" * 20_000},
}


async def test_an_exchanged_token_is_checked_and_an_unreachable_provider_calls_nothing(tmp_path):
    async with desk(tmp_path) as (client, idp, far, _):
        for why, change in REFUSED.items():
            idp.says = lambda answer, change=change: {**answer, **change(idp, far)}
            told = await say(client, idp.token(), "far.echo", to="bob@desk.example", text="mine")
            assert "[delegation:refused]" in str(told), (why, told)
        idp.says = lambda answer: answer
        for answer in (b"[" * 3000, b'{"access_token":"' + b"x" * 300_000 + b'"}'):
            idp.other["/token"] = answer
            assert "[delegation:refused]" in str(
                await say(client, idp.token(), "far.echo", to="bob@desk.example", text="mine")
            )
        idp.other.clear()
        idp.lost = True
        assert "[delegation:refused]" in str(
            await say(client, idp.token(), "far.echo", to="bob@desk.example", text="mine")
        )
        assert far.calls == []


async def test_a_token_is_exchanged_once_while_it_lasts_and_not_at_all_without_the_users_own(tmp_path):
    async with desk(tmp_path) as (client, idp, far, delegations):
        token = idp.token()
        await say(client, token, "far.echo", to="bob@desk.example", text="one")
        await say(client, token, "far.echo", to="bob@desk.example", text="two")
        assert len(idp.asked) == 1
        await say(
            client, idp.token(extra="x"), "far.echo", to="bob@desk.example", text="three"
        )  # another token of the same user
        assert len(idp.asked) == 2
        name = f"oidc:{idp.issuer}#ada"
        assert await delegations.exchange(name, far.url, "mail.send")
        for principal, resource in (
            ("ada", far.url),
            (f"oidc:{idp.issuer}#bob", far.url),
            (name, "https://x.example"),
        ):
            with pytest.raises(DelegationError):
                await delegations.exchange(principal, resource, "mail.send")
        idp.rotate("second")
        await delegations._tokens.providers[idp.issuer].refresh()
        with pytest.raises(DelegationError, match="expired"):
            await delegations.exchange(name, far.url, "mail.send")


async def read_tables(database):
    """Read all that a database holds, as one text; bytes are in hexadecimal."""
    connection = await asyncpg.connect(database)
    try:
        tables = await connection.fetch(
            "select format('%I.%I', schemaname, tablename) as name from pg_tables"
            " where schemaname not in ('pg_catalog', 'information_schema')"
        )
        rows = [await connection.fetch(f"select t::text as text from {each['name']} t") for each in tables]
    finally:
        await connection.close()
    return "\n".join(row["text"] for each in rows for row in each)


async def test_a_token_counts_at_the_server_that_it_came_to_and_is_in_no_database(tmp_path, database):
    clock = MachineClock()
    async with provider() as idp, far_server(idp) as far:
        shared = f"engine: {{postgres: {{url: '{database}'}}}}"
        organism = await run_sync(load_locked, tmp_path, idp, far, shared)
        opened = [serving(tmp_path, organism, clock, durable=True) for _ in "ab"]
        async with opened[0] as (here, _), opened[1] as (there, _):
            later = int(time.time()) + 9000
            tokens = [idp.token(), idp.token(exp=later), idp.token(aud=far.url, exp=later)]
            old, new = ({"authorization": f"Bearer {token}"} for token in tokens[:2])
            idp.says = lambda answer: {**answer, "access_token": tokens[2]}
            place = (await here.post("/v1/conversations", headers=old)).headers["location"]
            call = {"json": {"to": "bob@desk.example", "text": "mine"}}
            to = f"{place}/messages?to=far.echo"
            assert "said" in (await there.post(to, headers=old, **call)).text
            clock.moved = 5000.0
            refused = await there.post(to, headers=new, **call)
            assert "[delegation:expired]" in refused.text, refused.text
            assert "this server" in refused.text
            assert (await here.get(f"{place}/events?wait=0", headers=new)).status_code == 200
            assert "said" in (await there.post(to, headers=new, **call)).text
        assert len(far.calls) == 2
        stored = await read_tables(database)
        assert b"bob@desk.example".hex() in stored
        for token in tokens:
            assert token not in stored
            assert token.encode().hex() not in stored
