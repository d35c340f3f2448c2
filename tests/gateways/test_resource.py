"""A client of a protected resource finds the issuers of its tokens, and reaches the resource with one."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from agentserver.core.state.principals import Trust
from agentserver.gateways.http import DoorPart
from agentserver.gateways.http.parts import describe_resource
from agentserver.ports.identity import ClaimRule
from tests.gateways.principals.oidc import AUDIENCE, CLIENT, SECRET, provider
from tests.gateways.principals.test_identity import door, known
from tests.machine import PLAIN

pytestmark = pytest.mark.anyio


async def test_the_challenge_of_a_resource_leads_to_its_issuers_and_other_parts_name_none(tmp_path):
    async def answer(_):
        return PlainTextResponse("done")

    url = "https://desk.example"
    async with provider() as idp, known(tmp_path, idp) as found:
        described = describe_resource(url, "/mcp", [idp.issuer])
        resource = DoorPart("mcp", (Route("/mcp", answer, methods=["POST"]),), challenge=described.challenge)
        async with door(tmp_path, found, (described.part, resource)) as client:
            refused = await client.post("/mcp")
            place = f"{url}/.well-known/oauth-protected-resource/mcp"
            assert (refused.status_code, refused.headers["www-authenticate"]) == (
                401,
                f'Bearer resource_metadata="{place}"',
            )
            for path in (place.removeprefix(url), "/.well-known/oauth-protected-resource"):
                assert (await client.get(path)).json() == {
                    "resource": f"{url}/mcp",
                    "authorization_servers": [idp.issuer],
                    "bearer_methods_supported": ["header"],
                }
            allowed = await client.post("/mcp", headers={"authorization": f"Bearer {idp.token()}"})
            assert allowed.text == "done"
            other = await client.post(
                "/mcp", headers={"authorization": f"Bearer {idp.token(aud=url + '/other')}"}
            )
            assert (other.status_code, other.content) == (401, refused.content)
            assert (await client.post("/v1/conversations")).headers["www-authenticate"] == "Bearer"


async def test_a_token_opens_the_resource_that_it_is_for_and_no_other(tmp_path):
    async def answer(_):
        return PlainTextResponse("done")

    here, other = "https://desk.example/mcp", "https://desk.example/tools"
    for changed, audience in (({}, here), ({"mcp_audience": (other,)}, other)):
        async with provider() as idp, known(tmp_path, idp, mcp=here, **changed) as found:
            part = DoorPart("mcp", (Route("/mcp", answer, methods=["POST"]),), resource="/mcp")
            async with door(tmp_path, found, (part,)) as client:

                async def ask(path, aud, idp=idp, client=client):
                    shown = {"authorization": f"Bearer {idp.token(aud=aud)}"}
                    return (await client.post(path, headers=shown)).status_code

                assert [await ask("/mcp", audience), await ask("/v1/conversations", audience)] == [200, 401]
                assert [await ask("/mcp", AUDIENCE), await ask("/v1/conversations", AUDIENCE)] == [401, 201]
                both = [AUDIENCE, audience]
                assert [await ask("/mcp", both), await ask("/v1/conversations", both)] == [200, 201]
                assert await ask("/mcp", other if audience == here else here) == 401


async def test_a_program_signs_in_by_client_credentials_and_is_a_principal_by_its_client(tmp_path):
    rule = ClaimRule({"client_id": (CLIENT,)}, "user", Trust.ORDERS, ("greeter",))
    async with (
        provider() as idp,
        known(tmp_path, idp, rules=(rule,)) as found,
        door(tmp_path, found) as client,
    ):
        async with httpx.AsyncClient(verify=PLAIN) as program:
            form = {"grant_type": "client_credentials", "resource": AUDIENCE}
            basic = httpx.BasicAuth(quote(CLIENT, safe=""), quote(SECRET, safe=""))
            token = (await program.post(f"{idp.issuer}/token", data=form, auth=basic)).json()["access_token"]
            refused = await program.post(
                f"{idp.issuer}/token", data=form, auth=httpx.BasicAuth(CLIENT, "guess")
            )
            assert refused.status_code == 400
        opened = await client.post("/v1/conversations", headers={"authorization": f"Bearer {token}"})
        assert opened.status_code == 201
        assert found.authenticate(token).name == f"oidc:{idp.issuer}#{CLIENT}"
        other = {
            "authorization": f"Bearer {idp.token()}"
        }  # a person's, whose claims this rule does not match
        assert (await client.post("/v1/conversations", headers=other)).status_code == 401
