"""The files of the live view with their headers. The files are public."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

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
            each.name: _make_asset(each.name, each.read_bytes())
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


def _make_asset(name: str, body: bytes) -> Asset:
    return Asset(body, TYPES[name.rpartition(".")[2]], f'"{sha256(body).hexdigest()[:32]}"')
