"""Routes by which a browser signs in to the live view at an identity provider, and the provider signs it out."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import parse_qsl

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from agentserver.gateways.http.parts import path_to
from agentserver.gateways.live.pages import HEADERS
from agentserver.gateways.principals.identity import RefusedTokenError
from agentserver.ports.principals import InvalidPrincipalsError

if TYPE_CHECKING:
    from starlette.requests import Request

    from agentserver.gateways.principals.sessions import Sessions

COOKIE: Final = "__Host-agentserver-session"
"""A browser sends it over TLS alone, or to the machine it runs on, and to no other host or path."""

SIGN_IN: Final = "__Host-agentserver-sign-in"
"""The cookie of a sign-in, from its begin to its end. The provider's page leads back with it."""

PATIENCE: Final = 600
"""Seconds for which a sign-in may take."""

BODY: Final = 16_384
"""Bytes of a logout."""

_LOG: Final = logging.getLogger(__name__)

_PAGES: Final = {
    401: "The sign-in did not succeed.",
    403: "The live view is for operators and viewers.",
    404: "No such provider.",
    503: "The identity provider does not answer at present.",
}


def set_cookie(
    answer: Response,
    name: str,
    value: str,
    samesite: Literal["lax", "strict"] = "strict",
    age: int | None = None,
) -> None:
    """Set a cookie that no script and no other site can read."""
    answer.set_cookie(name, value, age, path="/", secure=True, httponly=True, samesite=samesite)


def list_sign_in_routes(sessions: Sessions) -> list[Route]:
    """List the routes of the sign-in; none without a provider."""
    entrance = _Entrance(sessions)
    if sessions.client is None or not sessions.client.issuers:
        return []
    return [
        Route("/live/sign-in", entrance.begin, methods=["GET"]),
        Route("/live/signed-in", entrance.finish, methods=["GET"]),
        Route("/live/signed-out", entrance.end, methods=["POST"]),
    ]


class _Entrance:
    """Sign-in of browsers."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def begin(self, request: Request) -> Response:
        """Send the browser to its provider."""
        assert self._sessions.client is not None
        try:
            key, url = self._sessions.client.begin(request.query_params.get("issuer", ""))
        except LookupError:
            return _show_page(404)
        except InvalidPrincipalsError as error:
            _LOG.warning("no sign-in: %s", error)
            return _show_page(503)
        answer = _redirect(url)
        set_cookie(
            answer, SIGN_IN, key, "lax", PATIENCE
        )  # the provider's page leads back: no strict cookie comes
        return answer

    async def finish(self, request: Request) -> Response:
        """Begin the session of a browser that comes back from its provider."""
        answer = await self._finish(request)
        answer.delete_cookie(SIGN_IN, path="/", secure=True, httponly=True, samesite="lax")
        return answer

    async def _finish(self, request: Request) -> Response:
        assert self._sessions.client is not None
        query = request.query_params.multi_items()
        if len(dict(query)) < len(query):  # OAuth 2.0, 3.1: no parameter occurs twice
            return _show_page(401)
        try:
            signed = await self._sessions.client.finish(request.cookies.get(SIGN_IN, ""), dict(query))
            if not signed.caller.oversees:
                return _show_page(403)
            key = await self._sessions.begin_signed_in(signed)
        except RefusedTokenError as error:
            _LOG.warning("the token of an identity provider %s", error)
            return _show_page(401)
        except InvalidPrincipalsError as error:
            _LOG.warning("no sign-in: %s", error)
            return _show_page(503)
        if not key:
            return _show_page(401)
        answer = _redirect(path_to(request, "/"))
        set_cookie(answer, COOKIE, key)
        return answer

    async def end(self, request: Request) -> Response:
        """End the sessions that a provider names (OpenID Connect Back-Channel Logout)."""
        try:
            await self._sessions.end_login(await _read_logout(request))
        except (RefusedTokenError, ValueError) as error:
            if isinstance(error, InvalidPrincipalsError):
                return Response(status_code=503, headers=_build_headers())
            _LOG.warning("a provider's logout is refused: the token %s", error)
            return Response(status_code=400, headers=_build_headers())
        return Response(status_code=200, headers=_build_headers())


async def _read_logout(request: Request) -> str:
    """Read the token of a logout. Raises ValueError."""
    data = b""
    async for piece in request.stream():
        data += piece
        if len(data) > BODY:
            raise ValueError(f"comes with more than {BODY} bytes")
    form = dict(parse_qsl(data.decode("ascii", "replace"), max_num_fields=20))
    return form.get("logout_token", "")


def _show_page(status: int) -> Response:
    return PlainTextResponse(f"{_PAGES[status]}\n", status, _build_headers())


def _redirect(url: str) -> Response:
    return RedirectResponse(url, 303, _build_headers())


def _build_headers() -> dict[str, str]:
    return {**HEADERS, "cache-control": "no-store"}
