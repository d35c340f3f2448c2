"""The tool that fetches a web page. Needs the extra ``tools``.

Resolves a host once, checks every address, and connects to one of them under the host's name, so DNS rebinding cannot
redirect it. Redirects are checked like the first address. Bytes, time and redirects are bounded.

Declare it as ``trust: source``: any stranger may have written the page; its argument is a ``Link``, so an agent with
untrusted text cannot fetch an address of its own making.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import anyio
import anyio.to_thread
from annotated_types import Ge, Gt, Le, MaxLen

from agentserver.contract import HandlerMetadata, HandlerResponse, Pattern
from agentserver.extras import require
from agentserver.payload.xmlify import xmlify
from agentserver.provenance.evidence.labels import Standing
from agentserver.provenance.policy.marks import Link  # noqa: TC001 - a field's type
from agentserver.tools import pages, require_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from ipaddress import IPv4Network

    import httpx

    Address: TypeAlias = IPv4Address | IPv6Address
    Network: TypeAlias = IPv4Network | IPv6Network

__all__ = ["Fetch", "FetchProblem", "FetchSettings", "FetchedPage", "PageLink", "fetch"]


EVERY: Final = "*"
"""The entry of ``hosts`` that allows every host of the public internet."""

LINKS: Final = 50
"""Links of one page that are returned."""

LONGEST: Final = 2000
"""Characters of an address."""

URL: Final = r"https?://[!-~]+"

_URL: Final = re.compile(URL)
_HTML: Final = ("text/html", "application/xhtml+xml")
_PLAIN: Final = ("application/json", "application/xml")
_SUCCESS: Final = range(200, 300)
_MOVED: Final = (301, 302, 303, 307, 308)


class FetchProblem(StrEnum):
    """Reason for not returning a page."""

    FORBIDDEN = "forbidden"  # forbidden by the settings or the address
    UNREACHABLE = "unreachable"
    REDIRECTS = "redirects"
    STATUS = "status"  # an HTTP status other than success
    TYPE = "type"  # not text
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
    """The text of a page, or the reason for not having one.

    Args:
        url: the requested address.
        status: of the last response; 0 without one.
        title: of an HTML page.
        text: the visible text.
        links: the first ``http`` and ``https`` links of an HTML page.
        problem: the reason for not having a page.
    """

    url: Annotated[str, MaxLen(LONGEST), Standing.PROSE]
    status: int = 0
    title: Annotated[str, MaxLen(200), Standing.PROSE] = ""
    text: Annotated[str, Standing.PROSE] = ""
    links: Annotated[list[PageLink], MaxLen(LINKS)] = field(default_factory=list)
    problem: FetchProblem | None = None


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Limits on fetching.

    Args:
        hosts: allowed hosts: ``example.org``, ``*.example.org`` for its subdomains, ``*`` for every public host.
            Empty by default.
        ports: allowed ports.
        networks: allowed in addition to the public internet, such as ``10.1.0.0/16``. Empty by default: private,
            loopback and link-local addresses are refused, under any name.
        seconds: timeout for one page, including redirects.
        size: maximum bytes of one page.
        redirects: maximum for one page.
        characters: maximum of returned text.
        authorities: a PEM file of certificate authorities that replaces the system's.
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
        """Parse the networks. Raises ValueError for an invalid one."""
        parse_networks(self.networks)

    def asks(self, host: str, port: int) -> bool:
        """Check whether the settings allow the host and port."""
        named = any(
            pattern == EVERY
            or host == pattern.lower()
            or (pattern.startswith("*.") and host.endswith(pattern[1:].lower()))
            for pattern in self.hosts
        )
        return named and port in self.ports


async def fetch(payload: Fetch, metadata: HandlerMetadata) -> HandlerResponse:  # noqa: ARG001 - a handler's signature
    """Answer with the page, or with the reason for not having one."""
    require("the tool that fetches pages", "tools")
    settings = require_settings(FetchSettings)
    found = FetchedPage(payload.url, problem=FetchProblem.TIME)
    with anyio.move_on_after(settings.seconds):
        web: Any = await anyio.to_thread.run_sync(import_module, "httpx")
        found = await _PageRequest(web, settings).fetch_page(payload.url)
    return HandlerResponse.respond(found)


class _RefusedError(Exception):
    def __init__(self, problem: FetchProblem) -> None:
        super().__init__(problem)
        self.problem = problem


class _PageRequest:
    """One page request.

    Args:
        web: the module httpx.
        settings: the limits on fetching.
    """

    def __init__(self, web: Any, settings: FetchSettings) -> None:
        self._web = web
        self._settings = settings
        self._networks = parse_networks(settings.networks)

    async def fetch_page(self, url: str) -> FetchedPage:
        """Fetch the page of an address, or give the reason for not having it."""
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
        """Resolve a redirect, and refuse one from https to http."""
        following = target.join(location)
        if target.scheme == "https" and following.scheme != "https":
            raise _RefusedError(FetchProblem.FORBIDDEN)
        return following

    async def _ask(self, url: str, target: httpx.URL) -> FetchedPage | str:
        """Request the page. Returns it, or the target of a redirect."""
        port = target.port or (443 if target.scheme == "https" else 80)
        host = target.raw_host.decode("ascii").rstrip(".").lower()
        allowed = (
            target.scheme in {"http", "https"} and not target.userinfo and self._settings.asks(host, port)
        )
        if not allowed:
            raise _RefusedError(FetchProblem.FORBIDDEN)
        address = await self._resolve_address(host, port)
        # A client per request: a connection must not be reused for another host at the same address.
        async with self._web.AsyncClient(
            verify=await self._load_trust(target), trust_env=False, timeout=self._settings.seconds
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

    async def _resolve_address(self, host: str, port: int) -> str:
        """Resolve the address to connect to. One forbidden address refuses the host, whose name is then suspect."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host.strip("[]"), port, type=1)  # SOCK_STREAM
        addresses: Sequence[str] = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        if not addresses or not all(is_allowed(one, self._networks) for one in addresses):
            raise _RefusedError(FetchProblem.FORBIDDEN)
        return addresses[0]

    async def _load_trust(self, target: httpx.URL) -> ssl.SSLContext:
        """Load the trusted certificates; not used for http."""
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
        # Compression was not requested; decoding it could make a small response grow without bound.
        packed = response.headers.get("content-encoding", "identity").lower() != "identity"
        if packed or not (kind.startswith("text/") or kind in (*_HTML, *_PLAIN)):
            return FetchedPage(url, status, problem=FetchProblem.TYPE)
        body = bytearray()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > self._settings.size:
                return FetchedPage(url, status, problem=FetchProblem.SIZE)
        text = body.decode(pages.find_encoding(response.charset_encoding or "utf-8"), errors="replace")
        if kind not in _HTML:
            return FetchedPage(url, status, "", pages.printable(text)[: self._settings.characters])
        seen = await anyio.to_thread.run_sync(pages.render_page, text)
        links = [link for one in seen.links if (link := self._link(target, *one)) is not None]
        told = seen.text[: self._settings.characters]
        return FetchedPage(url, status, seen.title[:200], told, links[:LINKS])

    def _link(self, page: httpx.URL, label: str, href: str) -> PageLink | None:
        """Make a link of a page; None if it leads to no page."""
        try:
            url = str(page.join(href).copy_with(fragment=None))
        except (self._web.InvalidURL, ValueError):
            return None
        return PageLink(label[:200], url) if label and _URL.fullmatch(url) and len(url) <= LONGEST else None


_TRANSLATED: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
"""IPv6 prefixes whose last four bytes are an IPv4 address that a router or an old system will connect to."""

_ISATAP: Final = 0x5EFE
"""The third quarter of an ISATAP address (RFC 5214, 6.1), which embeds IPv4 under any prefix."""
_NOT_UNIVERSAL: Final = 0xFDFF_FFFF
"""All bits of that quarter except the universal/local bit."""

_ASSIGNED: Final = (IPv6Network("2000::/3"), IPv6Network("64:ff9b::/96"))
"""The public IPv6 internet (IANA, IPv6 Global Unicast Address Space) and its gateway to IPv4.

Outside it are site-local addresses and further IPv4 gateways that the library does not report as private.
"""


def parse_networks(named: Iterable[str]) -> tuple[Network, ...]:
    """Parse an operator's list. Raises ValueError for an entry that is not a network, or has host bits set."""
    return tuple(ip_network(text) for text in named)


def is_allowed(text: str, networks: Iterable[Network] = ()) -> bool:
    """Check whether an address belongs to the public internet or to one of these networks.

    An address that embeds another one (mapped, translated, tunnelled) must pass for both. Raises ValueError for
    anything that is not an address.
    """
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    networks = tuple(networks)
    return all(_public(one) or any(one in network for network in networks) for one in _expand(address))


def _expand(address: Address) -> list[Address]:
    """List the address and the IPv4 addresses embedded in it; for a mapped one only the latter."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    found: list[Address] = [address]
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found += address.teredo
    low = int(address)
    if (
        any(address in network for network in _TRANSLATED) and low > 1
    ) or low >> 32 & _NOT_UNIVERSAL == _ISATAP:
        found.append(IPv4Address(low & 0xFFFFFFFF))
    return found


def _public(address: Address) -> bool:
    known = isinstance(address, IPv4Address) or any(address in network for network in _ASSIGNED)
    return known and address.is_global and not address.is_multicast
