"""Two servers on one Postgres, with an identity provider: people and programs of tenants begin at one and continue at the other."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import pytest
from anyio.to_thread import run_sync

from agentserver.engines.postgres.connection import PostgresOptions
from agentserver.engines.postgres.engine import PostgresEngine
from agentserver.engines.postgres.principals import SessionTable
from agentserver.gateways.live.entrance import COOKIE
from tests.gateways.principals.oidc import provider
from tests.gateways.principals.test_sign_in import OURS, desk
from tests.gateways.test_tenants import RULES, bearer, comparable, signed_in, waiting
from tests.machine import HANGS

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("postgres")]


@asynccontextmanager
async def pair(tmp_path, database, idp):
    """Two servers with an engine and a table of sessions each, on one database."""
    async with AsyncExitStack() as stack:
        found = []
        for name in ("a", "b"):
            options = PostgresOptions(database, name=name)
            engine = PostgresEngine(options)
            store = await run_sync(SessionTable, database, options.schema)
            stack.push_async_callback(run_sync, store.close)
            folder = tmp_path / name
            folder.mkdir()
            opened = desk(folder, idp, rules=RULES, engine=engine, store=store)
            found.append(await stack.enter_async_context(opened))
        yield found


async def test_who_signs_in_at_one_server_works_at_the_other_within_its_tenant(tmp_path, database):
    async with provider() as idp, pair(tmp_path, database, idp) as (one, other):
        here = await signed_in(one, idp, "heads", "acme")
        there = await signed_in(one, idp, "heads", "rival")
        key = here["cookie"].partition("=")[2]
        assert (await other.session(key))["name"].startswith("oidc:acme/")

        ada = bearer(idp, "ada", "desk", "acme")
        began = await one.client.post("/v1/conversations", headers=ada)
        place = began.headers["location"]
        message = {"json": {"amount": 7}, "headers": ada}
        sent = await other.client.post(f"{place}/messages?to=vault&wait=0", **message)
        assert sent.status_code == 202, sent.text
        shown = await waiting(other, here, "/live/approvals", "waiting")
        assert (await other.client.get("/live/approvals", headers=there)).json()["waiting"] == []
        conversation = place.rpartition("/")[2]
        missing = f"{'0' * 8}{conversation[8:]}"
        theirs, nothing = [
            comparable(await other.client.get(f"/live/conversations/{each}", headers=there))
            for each in (conversation, missing)
        ]
        assert theirs == nothing

        approval = f"/live/approvals/{shown[0]['id']}"
        whole = (await other.client.get(approval, headers=here)).json()
        answer = {"digest": whole["digest"], "answer": "once"}
        decided = await other.client.post(approval, json=answer, headers={**here, **OURS})
        assert decided.status_code == 200, decided.text
        events = await one.client.get(f"{place}/events?wait=5", headers=ada)
        assert "paid 7" in events.text

        left = await other.client.delete("/live/session", headers={**OURS, "cookie": f"{COOKIE}={key}"})
        assert left.status_code == 200
        with anyio.fail_after(HANGS):
            while (await one.session(key))["name"]:  # noqa: ASYNC110 - over HTTP; a session counts FRESH seconds
                await anyio.sleep(0.1)
