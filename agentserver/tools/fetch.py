"""The tool that fetches a page of the web. Needs the extra ``tools``.

Owns where it connects: a host is resolved once, each of its addresses is judged, and the connection goes to one of
those under the host's name, so that a name cannot come to mean another machine in between. A redirect is judged as the
first address was. Bounded in bytes, time and redirects. Reads pages and refuses to understand them.

Declare it as ``trust: source``: anybody may have written what it brings. Its argument is a ``Link``, so that an agent
which was given untrusted text fetches no address of its own making.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import anyio
import anyio.to_thread
from annotated_types import Ge, Gt, Le, MaxLen

from agentserver.contract import HandlerMetadata, HandlerResponse, Pattern
from agentserver.extras import require
from agentserver.payload.xmlify import xmlify
from agentserver.provenance.evidence.labels import Standing
from agentserver.provenance.policy.marks import Link  # noqa: TC001 - a field's type
from agentserver.tools import addresses, pages
from agentserver.tools.given import require_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

__all__ = ["Fetch", "FetchProblem", "FetchSettings", "FetchedPage", "PageLink", "fetch"]

EVERY: Final = "*"
"""Among the hosts: every host of the public internet."""

LINKS: Final = 50
"""Links of one page that are passed on."""

LONGEST: Final = 2000
"""Characters of an address."""

URL: Final = r"https?://[!-~]+"

_URL: Final = re.compile(URL)
_HTML: Final = ("text/html", "application/xhtml+xml")
_PLAIN: Final = ("application/json", "application/xml")
_SUCCESS: Final = range(200, 300)
_MOVED: Final = (301, 302, 303, 307, 308)


class FetchProblem(StrEnum):
    """The reasons why there is no page."""

    FORBIDDEN = "forbidden"  # the settings, or the address, forbid it
    UNREACHABLE = "unreachable"
    REDIRECTS = "redirects"
    STATUS = "status"  # the server answered with something else than success
    TYPE = "type"  # no text
    SIZE = "size"
    TIME = "time"


@xmlify(namespace="urn:agentserver-tools:fetch")
@dataclass(frozen=True, slots=True)
class Fetch:
    """A page that is wanted.

    Args:
        url: its address.
    """

    url: Annotated[Link, MaxLen(LONGEST), Pattern(URL)]


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link of a page. Its author chose both.

    Args:
        label: the text of it.
        url: the address, whole.
    """

    label: Annotated[str, MaxLen(200), Standing.PROSE]
    url: Annotated[str, MaxLen(LONGEST), Standing.PROSE]


@xmlify(namespace="urn:agentserver-tools:fetch")
@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page as a reader sees it, or the reason why there is none.

    Args:
        url: the address that was asked for.
        status: of the last answer; 0 without one.
        title: of a page with markup.
        text: what it says.
        links: the first of a page with markup, to ``http`` and ``https``.
        problem: the reason why there is none.
    """

    url: Annotated[str, MaxLen(LONGEST), Standing.PROSE]
    status: int = 0
    title: Annotated[str, MaxLen(200), Standing.PROSE] = ""
    text: Annotated[str, Standing.PROSE] = ""
    links: Annotated[list[PageLink], MaxLen(LINKS)] = field(default_factory=list)
    problem: FetchProblem | None = None


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The rules of what may be fetched.

    Args:
        hosts: that may be asked: ``example.org``, ``*.example.org`` for those below it, ``*`` for every public one.
            None by default.
        ports: that may be asked.
        networks: beside the public internet, such as ``10.1.0.0/16``. None by default: private, loopback and
            link-local addresses are refused, whatever name they have.
        seconds: for one page, redirects and all.
        size: most bytes of one page.
        redirects: followed for one page.
        characters: of text that are passed on.
        authorities: a PEM file of certificate authorities to trust instead of the system's.
    """

    hosts: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=lambda: [80, 443])
    networks: list[str] = field(default_factory=list)
    seconds: Annotated[float, Gt(0)] = 15.0
    size: Annotated[int, Gt(0)] = 2_000_000
    redirects: Annotated[int, Ge(0), Le(20)] = 5
    characters: Annotated[int, Gt(0)] = 20_000
    authorities: str | None = None

    def __post_init__(self) -> None:
        """Read the networks once. Raises ValueError for one that is none."""
        addresses.parse_networks(self.networks)

    def asks(self, host: str, port: int) -> bool:
        """True when the host may be asked at the port."""
        named = any(
            pattern == EVERY
            or host == pattern.lower()
            or (pattern.startswith("*.") and host.endswith(pattern[1:].lower()))
            for pattern in self.hosts
        )
        return named and port in self.ports


async def fetch(payload: Fetch, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - a handler's signature
    """Answer with the page, or with the reason why there is none."""
    require("the tool that fetches pages", "tools")
    settings = require_settings(FetchSettings)
    found = FetchedPage(payload.url, problem=FetchProblem.TIME)
    with anyio.move_on_after(settings.seconds):
        web: Any = await anyio.to_thread.run_sync(import_module, "httpx")
        found = await _PageRequest(web, settings).page(payload.url)
    return HandlerResponse.respond(found)


class _RefusedError(Exception):
    def __init__(self, problem: FetchProblem) -> None:
        super().__init__(problem)
        self.problem = problem


class _PageRequest:
    """One page on its way.

    Args:
        web: the module httpx.
        settings: what may be fetched.
    """

    def __init__(self, web: Any, settings: FetchSettings) -> None:
        self._web = web
        self._settings = settings
        self._networks = addresses.parse_networks(settings.networks)

    async def page(self, url: str) -> FetchedPage:
        """The page of an address, or the reason why there is none."""
        try:
            target = self._web.URL(url)
            for _ in range(self._settings.redirects + 1):
                found = await self._ask(url, target)
                if isinstance(found, FetchedPage):
                    return found
                target = self._follow(target, found)
        except _RefusedError as refused:
            return FetchedPage(url, problem=refused.problem)
        except (self._web.HTTPError, self._web.InvalidURL, OSError, UnicodeError):
            return FetchedPage(url, problem=FetchProblem.UNREACHABLE)
        return FetchedPage(url, problem=FetchProblem.REDIRECTS)

    def _follow(self, target: httpx.URL, location: str) -> httpx.URL:
        """The target of a redirect. What was asked for in secret is not told in the open."""
        following = target.join(location)
        if target.scheme == "https" and following.scheme != "https":
            raise _RefusedError(FetchProblem.FORBIDDEN)
        return following

    async def _ask(self, url: str, target: httpx.URL) -> FetchedPage | str:
        """The page, or where the answer says that it is."""
        port = target.port or (443 if target.scheme == "https" else 80)
        host = target.raw_host.decode("ascii").rstrip(".").lower()
        asked = target.scheme in {"http", "https"} and not target.userinfo and self._settings.asks(host, port)
        if not asked:
            raise _RefusedError(FetchProblem.FORBIDDEN)
        address = await self._address(host, port)
        # One client for each: a connection must not be used again for another host at the same address.
        async with self._web.AsyncClient(
            verify=await self._trust(target), trust_env=False, timeout=self._settings.seconds
        ) as client:
            request = client.build_request(
                "GET",
                target.copy_with(host=address, port=port, fragment=None),
                headers={"Host": target.netloc.decode("ascii"), "Accept-Encoding": "identity"},
                extensions={"sni_hostname": host},
            )
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                if response.status_code in _MOVED and "location" in response.headers:
                    return str(response.headers["location"])
                return await self._read(url, target, response)
            finally:
                await response.aclose()

    async def _address(self, host: str, port: int) -> str:
        """The address to connect to. One that is forbidden forbids them all: such a name means no good."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host.strip("[]"), port, type=1)  # SOCK_STREAM
        there: Sequence[str] = list(dict.fromkeys(str(where[4][0]) for where in found))
        if not there or not all(addresses.is_allowed(one, self._networks) for one in there):
            raise _RefusedError(FetchProblem.FORBIDDEN)
        return there[0]

    async def _trust(self, target: httpx.URL) -> ssl.SSLContext:
        """The certificates that count; none at all where the connection has no secrets to keep."""
        if target.scheme != "https":
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return await anyio.to_thread.run_sync(
            lambda: ssl.create_default_context(cafile=self._settings.authorities)
        )

    async def _read(self, url: str, target: httpx.URL, response: httpx.Response) -> FetchedPage:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        status = response.status_code
        if status not in _SUCCESS:
            return FetchedPage(url, status, problem=FetchProblem.STATUS)
        # Compression was not asked for; undoing it would let a small answer grow without bound.
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        if packed or not (kind.startswith("text/") or kind in (*_HTML, *_PLAIN)):
            return FetchedPage(url, status, problem=FetchProblem.TYPE)
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._settings.size:
                return FetchedPage(url, status, problem=FetchProblem.SIZE)
        text = body.decode(pages.encoding(response.charset_encoding or "utf-8"), errors="replace")
        if kind not in _HTML:
            return FetchedPage(url, status, "", pages.printable(text)[: self._settings.characters])
        seen = await anyio.to_thread.run_sync(pages.render_page, text)
        links = [link for one in seen.links if (link := self._link(target, *one)) is not None]
        told = seen.text[: self._settings.characters]
        return FetchedPage(url, status, seen.title[:200], told, links[:LINKS])

    def _link(self, page: httpx.URL, label: str, href: str) -> PageLink | None:
        """A link of a page; None for one that leads to no page."""
        try:
            url = str(page.join(href).copy_with(fragment=None))
        except (self._web.InvalidURL, ValueError):
            return None
        return PageLink(label[:200], url) if label and _URL.fullmatch(url) and len(url) <= LONGEST else None
