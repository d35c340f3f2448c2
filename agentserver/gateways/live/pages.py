"""The files of the live view with their headers, and the sessions of browsers. The files are public."""

from __future__ import annotations

import time
from collections import OrderedDict
from hashlib import sha256
from importlib.resources import files
from secrets import token_urlsafe
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from agentserver.gateways.live.feed import LiveTokens
    from agentserver.gateways.principals import Caller

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)

HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "content-security-policy": POLICY,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
    }
)

TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "css": "text/css; charset=utf-8",
        "html": "text/html; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
)

PAGE: Final = "index.html"


class Asset(NamedTuple):
    """A file. ``tag`` is of its content."""

    body: bytes
    kind: str
    tag: str


class Assets:
    """The files by name. Making one reads them all: that is no work for an event loop."""

    def __init__(self) -> None:
        self._files = {
            each.name: _asset(each.name, each.read_bytes())
            for each in files("agentserver.gateways.live").joinpath("assets").iterdir()
            if each.name.rpartition(".")[2] in TYPES
        }

    def page(self, request: Request) -> Response:
        """Return the page."""
        return self._answer(PAGE, request)

    def file(self, request: Request) -> Response:
        """Return a file of the page."""
        return self._answer(request.path_params["name"], request)

    def _answer(self, name: str, request: Request) -> Response:
        asset = self._files.get(name)
        if asset is None:
            return Response(status_code=404, headers=dict(HEADERS))
        # Revalidated each time: after an upgrade no page runs with the scripts of another version.
        headers = {**HEADERS, "cache-control": "no-cache", "etag": asset.tag}
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=304, headers=headers)
        return Response(asset.body, media_type=asset.kind, headers=headers)


def _asset(name: str, body: bytes) -> Asset:
    return Asset(body, TYPES[name.rpartition(".")[2]], f'"{sha256(body).hexdigest()[:32]}"')


LASTS = 12 * 3600.0
"""Seconds after which one logs in again."""

MOST = 1000
"""Sessions at once: the oldest makes room for one more."""

EACH = 20
"""Sessions of one principal at once."""


class _Session(NamedTuple):
    caller: Caller
    until: float


class Sessions:
    """Browser sessions.

    Args:
        tokens: authenticates tokens, and checks that they are still valid.
        clock: seconds, monotonic.
    """

    def __init__(self, tokens: LiveTokens, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._clock = clock
        self._open: OrderedDict[str, _Session] = OrderedDict()

    def begin(self, token: str) -> tuple[str, Caller] | None:
        """Start a session for the caller of a token. Returns its id; None for an unknown token."""
        caller = self._tokens.authenticate(token)
        if caller is None:
            return None
        now = self._clock()
        for key in [key for key, each in self._open.items() if each.until <= now]:
            del self._open[key]
        own = [key for key, each in self._open.items() if each.caller.name == caller.name]
        if len(own) >= EACH:
            del self._open[own[0]]
        if len(self._open) >= MOST:
            self._open.popitem(last=False)
        key = token_urlsafe(32)
        self._open[_digest(key)] = _Session(caller, now + LASTS)
        return key, caller

    def caller(self, key: str) -> Caller | None:
        """Return the caller of a session; None without one, or if it or its token has expired."""
        found = self._open.get(_digest(key))
        if found is None:
            return None
        if found.until <= self._clock() or not self._tokens.stands(found.caller):
            self.end(key)
            return None
        return found.caller

    def end(self, key: str) -> None:
        """Log out."""
        self._open.pop(_digest(key), None)


def _digest(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
