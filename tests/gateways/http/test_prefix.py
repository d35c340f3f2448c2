"""The door behind a prefix, called from pages of other origins, and its log of requests."""

from __future__ import annotations

import logging

import pytest

from tests.gateways.http.desk import desk, open_conversation

pytestmark = pytest.mark.anyio

APP = "https://app.example"
ASKED = {
    "origin": APP,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization",
}


@pytest.mark.parametrize("passed", ["", "/agents"])
async def test_links_have_the_prefix_whether_the_proxy_passes_it_on_or_not(passed):
    async with desk(root="/agents") as door, door.client() as ada:
        answer = await ada.post(f"{passed}/v1/conversations")
        key = answer.json()["conversation"]
        assert answer.headers["location"] == f"/agents/v1/conversations/{key}"
        (row,) = (await ada.get(f"{passed}/v1/conversations")).json()["conversations"]
        assert row["href"] == f"/agents/v1/conversations/{key}"
        one = (await ada.get(row["href"])).json()
        assert one["links"]["self"] == row["href"]
        later = await ada.post(
            f"{passed}/v1/conversations/{key}/messages/greeter?payload=Greet&wait=0", json={"name": "A"}
        )
        assert later.status_code in (200, 202)
        if later.status_code == 202:
            assert later.headers["location"].startswith("/agents/v1/")
        servers = (await ada.get(f"{passed}/openapi.json")).json()["servers"]
        assert servers == [{"url": f"{door.url}/agents"}]
        assert (await ada.get(f"{passed}/healthz")).status_code == 200


async def test_a_page_of_an_allowed_origin_may_call_with_a_token_and_no_other_page():
    async with desk(foreign=frozenset({APP})) as door, door.client() as ada, door.client("") as page:
        asked = await page.options("/v1/conversations", headers=ASKED)
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, APP)
        assert "authorization" in asked.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in asked.headers
        answer = await ada.get("/v1/conversations", headers={"origin": APP})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, APP)
        refused = await page.get("/v1/conversations", headers={"origin": APP})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, APP)
        for other in ("https://evil.example", "null", f"{APP}.evil.example"):
            for answer in (
                await page.options("/v1/conversations", headers={**ASKED, "origin": other}),
                await ada.get("/v1/conversations", headers={"origin": other}),
            ):
                assert answer.status_code == 403
                assert "access-control-allow-origin" not in answer.headers
        own = await page.options("/v1/conversations", headers={**ASKED, "origin": door.url})
        assert own.status_code == 405
        assert "origin" in answer.headers["vary"]


async def test_a_cookie_of_an_allowed_page_does_not_count():
    seen = []
    async with desk(foreign=frozenset({APP})) as door, door.client() as ada:

        async def look(scope, receive, send):
            seen.extend(name for name, _ in scope["headers"] if name == b"cookie")
            await router(scope, receive, send)

        router = door.door._gate.router
        object.__setattr__(door.door._gate, "router", look)
        for origin in (APP, door.url):
            await ada.get("/v1/conversations", headers={"origin": origin, "cookie": "agentserver=x"})
    assert seen == [b"cookie"]


async def test_each_request_is_a_line_of_the_log_without_its_query(caplog):
    caplog.set_level(logging.INFO, "agentserver.http.access")
    async with desk(logs=True) as door, door.client() as ada, door.client("") as stranger:
        path = await open_conversation(ada)
        await ada.get(f"{path}/events?wait=0&after=1-0")
        await stranger.get("/v1/conver%0Asations?token=secret")
    lines = [each.getMessage() for each in caplog.records if each.name == "agentserver.http.access"]
    assert lines[0].startswith("POST /v1/conversations 201 ")
    assert lines[0].endswith(" ms ada")
    assert lines[1].startswith(f"GET {path}/events 200 ")
    assert lines[2].startswith("GET /v1/conver%0Asations 404 ")
    assert lines[2].endswith(" ms -")
    assert "secret" not in "".join(lines)
