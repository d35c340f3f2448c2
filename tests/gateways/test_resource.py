"""A client of a protected resource finds the issuers of its tokens, and reaches the resource with one."""

from __future__ import annotations

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from agentserver.gateways.http import DoorPart
from agentserver.gateways.resource import describe_resource
from tests.gateways.principals.oidc import provider
from tests.gateways.principals.test_identity import door, known

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
