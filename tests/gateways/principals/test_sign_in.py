"""Sign-in to the live view at an identity provider, which runs on loopback, through the real door."""

from __future__ import annotations

import os
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx
import pytest
from anyio.to_thread import run_sync

from agentserver.assembly import build
from agentserver.cli.serve import PARTS, DoorServing
from agentserver.gateways.http import DoorOptions, HttpDoor, TokenKeeper
from agentserver.gateways.http.options import names
from agentserver.gateways.http.serving import bind, serve
from agentserver.gateways.live.entrance import COOKIE, SIGN_IN
from agentserver.gateways.live.pages import POLICY
from agentserver.gateways.principals import Rates, Tokens, sessions
from agentserver.gateways.principals.document import PrincipalFile
from agentserver.gateways.principals.identity import IdentityTokens
from agentserver.gateways.principals.sign_in import SignInClient
from agentserver.ports.identity import SignIn
from tests.gateways.http.desk import Books, ReadingApprover, organism
from tests.gateways.principals.oidc import CLIENT, SECRET, provider
from tests.gateways.principals.people import MachineClock
from tests.gateways.principals.test_identity import entry
from tests.machine import HANGS, PLAIN, chromium, report_missing

pytestmark = pytest.mark.anyio

OURS = {"x-agentserver": "live", "content-type": "application/json"}


@dataclass
class Desk:
    """A server with its live view. ``url`` is its address, ``clock`` its clock."""

    client: httpx.AsyncClient
    url: str
    clock: MachineClock
    found: IdentityTokens
    store: object
    server: object

    async def session(self, key):
        return (await self.client.get("/live/session", headers={"cookie": f"{COOKIE}={key}"})).json()

    async def begin(self, idp):
        """Go to the provider; returns the cookie of the sign-in and the address that leads back."""
        began = await self.client.get("/live/sign-in", params={"issuer": idp.issuer})
        assert began.status_code == 303
        back = await self.client.get(began.headers["location"])
        return cookie(began, SIGN_IN), back.headers["location"]

    async def finish(self, key, back):
        return await self.client.get(back, headers={"cookie": f"{SIGN_IN}={key}"})

    async def sign_in(self, idp):
        """Sign in; returns the session's cookie."""
        return cookie(await self.finish(*await self.begin(idp)), COOKIE)


def cookie(answer, name):
    """The value of a cookie that an answer sets; empty without it."""
    for line in answer.headers.get_list("set-cookie"):
        if line.startswith(f"{name}="):
            return line.partition("=")[2].partition(";")[0].strip('"')
    return ""


@asynccontextmanager
async def desk(tmp_path, *idps, store=None, engine=None, **changed):
    clock, store = MachineClock(), store or sessions.MemorySessions()
    made = await run_sync(lambda: organism(Books()))
    client = SignIn(CLIENT, SECRET, "openid offline_access")
    found = IdentityTokens(
        Tokens(PrincipalFile(tmp_path / "principals")),
        [entry(each, skew=0.0, **({"sign_in": client} | changed)) for each in idps],
        now=clock,
    )
    server = build(made, engine=engine, approver=ReadingApprover())
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    keeper = TokenKeeper(found, Rates(time.monotonic))
    kept = sessions.Sessions(found, store, SignInClient(found, url), clock)
    shown = DoorServing(server, made, found, kept, keeper, 100_000, url)
    parts = await run_sync(lambda: [part for each in PARTS for part in each(shown)])
    options = DoorOptions(*names(port, local=True, secure=False))
    opened = HttpDoor(server, options, keeper, parts, metrics=lambda: b"counted")
    async with (
        server,
        found.watch(),
        opened.open(),
        serve(opened, listening, None, opened.connections),
        httpx.AsyncClient(base_url=url, timeout=HANGS, verify=PLAIN) as asking,
    ):
        for each in found.providers.values():
            await each.refresh()
        yield Desk(asking, url, clock, found, store, server)


async def test_an_operator_signs_in_sees_the_view_and_its_cookies_are_the_strictest_there_are(tmp_path):
    async with provider() as idp, desk(tmp_path, idp) as at:
        offered = (await at.client.get("/live/session")).json()
        assert offered == {"name": "", "issuers": [idp.issuer]}
        began = await at.client.get("/live/sign-in", params={"issuer": idp.issuer})
        asked = parse_qs(urlsplit(began.headers["location"]).query)
        assert asked["code_challenge_method"] == ["S256"]
        assert asked["redirect_uri"] == [f"{at.url}/live/signed-in"]
        assert len({asked[name][0] for name in ("state", "nonce", "code_challenge")}) == 3
        flags = began.headers["set-cookie"].lower()
        for flag in ("__host-", "httponly", "secure", "path=/;", "samesite=lax", "max-age=600"):
            assert flag in flags
        assert "domain" not in flags
        back = await at.client.get(began.headers["location"])
        done = await at.finish(cookie(began, SIGN_IN), back.headers["location"])
        assert (done.status_code, done.headers["location"]) == (303, "/")
        assert done.headers["content-security-policy"] == POLICY
        line = next(each.lower() for each in done.headers.get_list("set-cookie") if each.startswith(COOKIE))
        for flag in ("httponly", "secure", "path=/", "samesite=strict"):
            assert flag in line
        assert f'{SIGN_IN}="";' in " ".join(done.headers.get_list("set-cookie"))
        me = await at.session(cookie(done, COOKIE))
        assert (me["name"], me["role"]) == (f"oidc:{idp.issuer}#olga", "operator")
        shown = await at.client.get(
            "/live/conversations", headers={"cookie": f"{COOKIE}={cookie(done, COOKIE)}"}
        )
        assert shown.status_code == 200


def drop_parameters(back, **changed):
    """The address with other parameters; None leaves one out."""
    asked = {name: value[0] for name, value in parse_qs(urlsplit(back).query).items()} | changed
    return str(
        httpx.URL(back).copy_with(params={name: each for name, each in asked.items() if each is not None})
    )


TRICKS = {
    "another browser's sign-in": lambda key, back: ("x" * 43, back),
    "no cookie": lambda key, back: ("", back),
    "a cookie of another length": lambda key, back: (key + "x", back),
    "another state": lambda key, back: (key, drop_parameters(back, state="x" * 43)),
    "no state": lambda key, back: (key, drop_parameters(back, state=None)),
    "a code of nothing": lambda key, back: (key, drop_parameters(back, code="made-up")),
    "no code": lambda key, back: (key, drop_parameters(back, code=None)),
    "a code that is too long": lambda key, back: (key, drop_parameters(back, code="x" * 9000)),
    "an error": lambda key, back: (key, drop_parameters(back, code=None, error="access_denied")),
    "another issuer": lambda key, back: (key, drop_parameters(back, iss="https://evil.example")),
    "no issuer": lambda key, back: (key, drop_parameters(back, iss=None)),
    "a state twice": lambda key, back: (key, f"{back}&state=x"),
}


async def test_a_browser_that_comes_back_with_anything_else_is_not_signed_in(tmp_path):
    async with provider() as idp, desk(tmp_path, idp) as at:
        for why, change in TRICKS.items():
            key, back = await at.begin(idp)
            done = await at.finish(*change(key, back))
            assert (done.status_code, cookie(done, COOKIE)) == (401, ""), why
            assert "evil" not in done.text, why
        assert (
            await at.client.get("/live/sign-in", params={"issuer": "https://evil.example"})
        ).status_code == 404


async def test_a_code_counts_once_even_if_its_provider_takes_it_twice(tmp_path):
    async with provider() as idp, desk(tmp_path, idp) as at:
        key, back = await at.begin(idp)
        codes = dict(idp.codes)
        first = await at.finish(key, back)
        assert cookie(first, COOKIE)
        assert (await at.finish(key, back)).status_code == 401  # the provider refuses it
        idp.codes |= codes
        again = await at.finish(key, back)
        assert (again.status_code, cookie(again, COOKIE)) == (401, "")
        await at.client.delete(
            "/live/session", headers={**OURS, "cookie": f"{COOKIE}={cookie(first, COOKIE)}"}
        )


async def test_a_code_of_one_provider_is_not_sent_to_another(tmp_path):
    async with provider() as honest, provider() as evil, desk(tmp_path, honest, evil) as at:
        key, back = await at.begin(honest)
        mixed = await at.finish(key, drop_parameters(back, iss=evil.issuer))
        assert mixed.status_code == 401
        assert not evil.asked
        assert not honest.asked
        for idp in (honest, evil):  # neither names itself: then no code can be told from the other's
            idp.other = {
                "/.well-known/openid-configuration": idp.metadata(
                    authorization_response_iss_parameter_supported=None
                )
            }
            await at.found.providers[idp.issuer].refresh()
        key, back = await at.begin(honest)
        assert (await at.finish(key, drop_parameters(back, iss=None))).status_code == 401
        assert not honest.asked


FAULTY = {
    "another nonce": {"nonce": "x"},
    "no nonce": {"nonce": None},
    "another audience": {"aud": "other"},
    "the audience of the API": {"aud": "https://desk.example"},
    "two audiences and no party": {"aud": [CLIENT, "other"]},
    "another party": {"azp": "other"},
    "another issuer": {"iss": "https://evil.example"},
    "expired": {"exp": int(time.time()) - 60},
    "no subject": {"sub": None},
    "no rule": {"groups": ["sales"]},
    "an access token": {"header": {"typ": "at+jwt"}},
    "a logout token": {"header": {"typ": "logout+jwt"}},
}


async def test_an_id_token_with_any_fault_begins_no_session(tmp_path):
    async with provider() as idp, desk(tmp_path, idp) as at:
        for why, changed in FAULTY.items():
            key, back = await at.begin(idp)
            nonce = next(reversed(idp.codes.values()))["nonce"]
            token = idp.current(**({**idp.user, "aud": CLIENT, "nonce": nonce} | changed))
            idp.says = lambda answer, token=token: {**answer, "id_token": token}
            done = await at.finish(key, back)
            assert (done.status_code, cookie(done, COOKIE)) == (401, ""), why
        for answer in ({}, {"id_token": 7}, {"id_token": "x" * 9000}):
            idp.says = lambda _, answer=answer: answer
            assert (await at.finish(*await at.begin(idp))).status_code == 401


async def test_a_user_without_a_role_for_the_view_gets_no_session(tmp_path):
    async with provider() as idp, desk(tmp_path, idp) as at:
        idp.user = {"sub": "ada", "groups": ["desk"]}
        done = await at.finish(*await at.begin(idp))
        assert (done.status_code, cookie(done, COOKIE)) == (403, "")


async def test_a_session_is_renewed_before_its_token_expires_and_ends_when_the_provider_refuses(tmp_path):
    async with provider() as idp, desk(tmp_path, idp) as at:
        key = await at.sign_in(idp)
        before = len(idp.asked)
        assert (await at.session(key))["name"]
        assert len(idp.asked) == before
        idp.now = at.clock
        for _ in range(3):  # each refresh token counts once
            at.clock.moved += 250
            await anyio.sleep(sessions.FRESH)
            assert (await at.session(key))["name"]
        assert len(idp.asked) == before + 3
        idp.refreshes.clear()
        at.clock.moved += 250
        await anyio.sleep(sessions.FRESH)
        assert not (await at.session(key))["name"]


async def test_a_logout_of_the_provider_ends_the_session_that_it_names_within_a_second_at_every_server(
    tmp_path,
):
    async with provider() as idp, desk(tmp_path, idp) as at, desk(tmp_path, idp, store=at.store) as other:
        first = await at.sign_in(idp)
        idp.user["sid"] = "s2"
        second = await at.sign_in(idp)
        assert (await other.session(first))["name"]  # a session counts at every server
        faulty = {
            "an ID token": idp.current(aud=CLIENT, sid="s1", sub="olga"),
            "without the event": idp.logout_token(events={}),
            "with a nonce": idp.logout_token(nonce="x"),
            "of another client": idp.logout_token(aud="other"),
            "expired": idp.logout_token(exp=int(time.time()) - 60),
            "of nobody": idp.logout_token(sid=None),
            "of nothing": "x",
            "too long": "x" * 20_000,
        }
        for why, token in faulty.items():
            told = await at.client.post("/live/signed-out", data={"logout_token": token})
            assert told.status_code == 400, why
        assert (await at.session(first))["name"]
        told = await other.client.post("/live/signed-out", data={"logout_token": idp.logout_token()})
        assert told.status_code == 200
        assert "no-store" in told.headers["cache-control"]
        assert not (await other.session(first))["name"]
        await anyio.sleep(sessions.FRESH)
        assert not (await at.session(first))["name"]
        assert (await at.session(second))["name"]
        named = idp.logout_token(sid=None, sub="olga")
        assert (await at.client.post("/live/signed-out", data={"logout_token": named})).status_code == 200
        assert not (await at.session(second))["name"]


async def test_who_logs_out_is_sent_to_the_provider_and_the_cookie_counts_nowhere(tmp_path):
    async with provider() as idp, desk(tmp_path, idp) as at, desk(tmp_path, idp, store=at.store) as other:
        key = await at.sign_in(idp)
        shown = {"cookie": f"{COOKIE}={key}"}
        assert (await at.client.delete("/live/session", headers=shown)).status_code == 403  # not of our page
        left = await other.client.delete("/live/session", headers={**OURS, **shown})
        url = urlsplit(left.json()["leave"])
        asked = parse_qs(url.query)
        assert f"{url.scheme}://{url.netloc}{url.path}" == f"{idp.issuer}/leave"
        assert asked["post_logout_redirect_uri"] == [f"{other.url}/"]
        assert asked["id_token_hint"][0].count(".") == 2
        await anyio.sleep(sessions.FRESH)
        for each in (at, other):
            assert not (await each.session(key))["name"]
            assert (await each.client.get("/live/conversations", headers=shown)).status_code == 401


async def test_while_the_provider_is_away_a_session_counts_until_its_token_expires(tmp_path):
    async with provider() as idp, desk(tmp_path, idp) as at:
        key = await at.sign_in(idp)
        shown = {"cookie": f"{COOKIE}={key}"}
        idp.lost = True
        at.clock.moved += 250
        await anyio.sleep(sessions.FRESH)
        assert (await at.client.get("/live/conversations", headers=shown)).status_code == 200
        at.clock.moved += 60
        await anyio.sleep(sessions.FRESH)
        assert (await at.client.get("/live/conversations", headers=shown)).status_code == 503
        assert (await at.finish(*("x" * 43, f"{at.url}/live/signed-in?code=x&state=x"))).status_code == 401
        idp.lost, idp.now = False, at.clock
        at.clock.moved += 10
        assert (await at.client.get("/live/conversations", headers=shown)).status_code == 200


@pytest.mark.parametrize(
    "answer",
    [b"[" * 3000, b'{"id_token":"' + b"x" * 300_000 + b'"}', b"<html>", b'{"id_token":"x","id_token":"y"}'],
)
async def test_an_answer_of_a_token_endpoint_is_bounded(tmp_path, answer):
    async with provider() as idp, desk(tmp_path, idp) as at:
        idp.other = {"/token": answer}
        assert (await at.finish(*await at.begin(idp))).status_code == 503


async def test_the_store_alone_reveals_no_token_and_a_changed_state_is_no_session(tmp_path):
    async with provider() as idp, desk(tmp_path, idp) as at:
        issued = []
        idp.says = lambda answer: issued.append(answer) or answer
        key = await at.sign_in(idp)
        (kept,) = vars(at.store)["_open"].values()
        assert key not in repr(kept)
        for secret in (
            issued[0]["refresh_token"],
            issued[0]["id_token"],
            issued[0]["id_token"].split(".")[2],
        ):
            assert secret.encode() not in kept.data
        vars(at.store)["_open"][kept.key] = kept._replace(data=b"[1,[]]")
        await anyio.sleep(sessions.FRESH)
        assert not (await at.session(key))["name"]


async def test_a_browser_signs_in_sees_the_organism_and_leaves_by_the_provider(tmp_path):
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        report_missing("the sign-in is tried with playwright, which is not installed")
    path = chromium()
    if path is None:
        report_missing("the sign-in is tried in chromium, which is not installed here")
    async with provider() as idp, desk(tmp_path, idp) as at, async_playwright() as playwright:
        idp.other |= {"/leave": b"<p>signed out</p>", "/favicon.ico": b""}
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(
            executable_path=path, args=[*sandbox, "--disable-dev-shm-usage"]
        )
        page = await browser.new_page()
        page.set_default_timeout(120_000)
        await page.goto(at.url)
        await page.get_by_role("button", name="Sign in at 127.0.0.1").click()
        await page.get_by_role("navigation", name="Pages").wait_for()
        assert await page.get_by_text("#olga, operator").count() == 1
        kept = {each["name"]: each for each in await page.context.cookies()}
        assert (kept[COOKIE]["httpOnly"], kept[COOKIE]["secure"], kept[COOKIE]["sameSite"]) == (
            True,
            True,
            "Strict",
        )
        assert SIGN_IN not in kept
        await page.get_by_role("button", name="Log out").click()
        await page.wait_for_url(f"{idp.issuer}/leave*")
        await page.goto(at.url)
        await page.get_by_role("button", name="Sign in at 127.0.0.1").wait_for()
        await browser.close()
