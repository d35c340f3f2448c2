"""Metadata of a protected resource (RFC 9728): where a client of a path gets a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import JSONResponse
from starlette.routing import Route

from agentserver.gateways.http import DoorPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

_PLACE: Final = "/.well-known/oauth-protected-resource"


class DescribedResource(NamedTuple):
    """Resource whose clients can find its issuers.

    Args:
        part: the open routes of its metadata.
        challenge: WWW-Authenticate of its 401 answers, which names the metadata.
    """

    part: DoorPart
    challenge: str


def describe_resource(url: str, path: str, issuers: Sequence[str]) -> DescribedResource:
    """Describe a resource of the door: at its own place, and at the place of the host for older clients.

    Args:
        url: of the door, without a path.
        path: of the resource.
        issuers: of the tokens that it accepts.
    """
    told = {
        "resource": f"{url}{path}",
        "authorization_servers": list(issuers),
        "bearer_methods_supported": ["header"],
    }

    async def answer(_: Request) -> JSONResponse:
        return JSONResponse(told)

    routes = [Route(place, answer, methods=["GET"]) for place in (f"{_PLACE}{path}", _PLACE)]
    challenge = f'Bearer resource_metadata="{url}{_PLACE}{path}"'
    return DescribedResource(DoorPart(f"metadata of {path}", routes, open=True), challenge)
