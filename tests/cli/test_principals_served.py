"""A principal's whole life with the real commands: added, served, answered, revoked."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import anyio
import httpx
import pytest
from ag_ui.core import RunAgentInput, UserMessage
from anyio.to_thread import run_sync

from tests.cli.served import write
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path):
    write(tmp_path, 'http: {bind: "127.0.0.1:0", agui: true}')
    return tmp_path


async def run(home, *words, **environ):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTSERVER_")}
    command = [sys.executable, "-m", "agentserver", *words]
    done = await anyio.run_process(command, cwd=home, env=kept | environ, check=False)
    return done.returncode, done.stdout.decode().strip(), done.stderr.decode().strip()


async def wait_for_server(url, token, status):
    """Wait until the server, which looks at the file now and then, answers a token so."""
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}) as client:
        while (await client.get(f"{url}/openapi.json")).status_code != status:  # noqa: ASYNC110 - over HTTP
            await anyio.sleep(0.05)


async def test_one_who_was_added_is_served_until_revoked(home):
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "agentserver", "serve", cwd=home, stderr=asyncio.subprocess.PIPE
    )
    try:
        with anyio.fail_after(HANGS):
            url = (await server.stderr.readline()).decode().strip()
            assert url.startswith("http://127.0.0.1:"), url
            _, token, _ = await run(home, "principals", "add", "ada", "--may", "greeter")
            known = {"AGENTSERVER_URL": url, "AGENTSERVER_TOKEN": token}
            await wait_for_server(url, token, 200)
            sent = await run(home, "send", '{"name": "Ada"}', "--to", "greeter", **known)
            assert sent == (0, '{"text": "Hello, Ada"}', "")
            wrong = await run(home, "send", '{"nam": "Ada"}', "--to", "greeter", **known)
            assert wrong[0] == 1
            assert "allowed: name" in wrong[2]
            body = RunAgentInput(thread_id="t", run_id="r", messages=[UserMessage(id="m", content="Bob")])
            async with httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}) as client:
                headers = {"content-type": "application/json"}
                data = body.model_dump_json(by_alias=True)
                answer = await client.post(f"{url}/v1/agui/greeter", content=data, headers=headers)
            assert "Hello, Bob" in answer.text
            assert (await run(home, "principals", "revoke", "ada"))[0] == 0
            await wait_for_server(url, token, 401)
            refused = await run(home, "send", '{"name": "Ada"}', "--to", "greeter", **known)
            assert refused == (1, "", "A token that counts is needed: Authorization: Bearer TOKEN.")
            assert token not in await run_sync(
                (home / "out" / "journal.sqlite.principals").read_text, "utf-8"
            )
    finally:
        server.send_signal(signal.SIGTERM)
        await server.wait()
