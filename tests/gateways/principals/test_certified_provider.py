"""Sign-in and machine clients at a certified OpenID provider that is not of this project (npm: oidc-provider)."""

from __future__ import annotations

import html
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote_plus

import anyio
import httpx
import pytest
from anyio.streams.text import TextReceiveStream
from anyio.to_thread import run_sync

from agentserver.gateways.live.entrance import COOKIE, SIGN_IN
from tests.gateways.principals.oidc import AUDIENCE, CLIENT, SECRET
from tests.gateways.principals.test_sign_in import cookie, desk
from tests.machine import HANGS, PLAIN
from tests.node import find_node

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).with_name("certified_provider.cjs")


@dataclass(frozen=True)
class Issuer:
    """The provider. ``issuer`` is its address."""

    issuer: str


@asynccontextmanager
async def certified():
    node, environ = await run_sync(find_node, "oidc-provider", "the certified provider")
    command = [node, str(PROGRAM), CLIENT, SECRET, AUDIENCE]
    async with await anyio.open_process(command, env=environ, stderr=None) as process:
        try:
            with anyio.fail_after(HANGS):
                line = await TextReceiveStream(process.stdout).receive()
            yield Issuer(line.split()[0])
        finally:
            process.kill()


async def sign_in(browser, address, user):
    """Sign in as a person does in the pages of the provider; returns the address that leads back."""
    answer = await browser.get(address)
    for _ in range(10):
        if answer.is_redirect:
            address = str(answer.next_request.url)
            if "/live/signed-in" in address:
                return address
            answer = await browser.get(address)
            continue
        action = html.unescape(re.search(r'<form[^>]*action="([^"]+)"', answer.text)[1])
        prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)[1]
        filled = {"prompt": prompt, "login": user, "password": "any"}
        answer = await browser.post(str(answer.url.join(action)), data=filled)
    raise AssertionError(answer.text)


async def begin(at, idp, browser, user):
    """Begin at the live view; returns the cookie of the sign-in and the address that leads back."""
    began = await at.client.get("/live/sign-in", params={"issuer": idp.issuer})
    return cookie(began, SIGN_IN), await sign_in(browser, began.headers["location"], user)


async def test_a_person_signs_in_at_a_certified_provider_and_a_code_counts_once(tmp_path):
    async with (
        certified() as idp,
        desk(tmp_path, idp) as at,
        httpx.AsyncClient(timeout=HANGS, verify=PLAIN) as browser,
    ):
        key, back = await begin(at, idp, browser, "olga")
        signed = await at.finish(key, back)
        session = await at.session(cookie(signed, COOKIE))
        assert (session["name"], session["role"]) == (f"oidc:{idp.issuer}#olga", "operator")
        assert not cookie(await at.finish(key, back), COOKIE)
        async with httpx.AsyncClient(timeout=HANGS, verify=PLAIN) as other:
            user = await at.finish(*await begin(at, idp, other, "ada"))
            assert not cookie(user, COOKIE)  # her role does not see the live view


async def test_a_program_of_a_certified_provider_gets_in_by_a_token_for_this_server_alone(tmp_path):
    async with certified() as idp, desk(tmp_path, idp) as at:

        async def fetch(**form):
            answer = await at.client.post(
                f"{idp.issuer}/token",
                data={"grant_type": "client_credentials", **form},
                auth=("nightly", quote_plus(SECRET)),
            )
            assert answer.status_code == 200, answer.text
            headers = {"authorization": f"Bearer {answer.json()['access_token']}"}
            return (await at.client.post("/v1/conversations", headers=headers)).status_code

        assert await fetch(resource=AUDIENCE) == 201
        assert await fetch(resource="https://other.example") == 401
        assert await fetch() == 401  # an opaque token
