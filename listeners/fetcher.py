"""The page fetcher: the only listener through which strangers' text enters the desk.

Fetches http and https from the hosts in the settings, with limits on size, time and redirects. It extracts text and
never interprets it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

import anyio
import httpx
from annotated_types import Ge, Gt, Le
from lxml import etree

from agentserver import HandlerMetadata, HandlerResponse, invocation
from listeners.payloads import URL, Fetch, Link, Page, PageProblem
from listeners.resources import Site

_TYPES = ("text/html", "text/plain")
_BLOCKS = ("br", "div", "h1", "h2", "h3", "h4", "h5", "h6", "li", "p", "td", "tr")
_UNREAD = ("script", "style", "template", "noscript", "title")


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """Limits of the fetcher.

    Args:
        hosts: allowed hosts, as ``example.org`` or ``example.org:8080``; subdomains are not included.
        seconds: for one page, including redirects.
        size: maximum bytes of one page.
        redirects: maximum for one page; each target must be allowed, too.
        characters: maximum length of the text in the answer.
    """

    hosts: list[str] = field(default_factory=list)
    seconds: Annotated[float, Gt(0)] = 5.0
    size: Annotated[int, Gt(0)] = 500_000
    redirects: Annotated[int, Ge(0)] = 3
    characters: Annotated[int, Gt(0), Le(10_000)] = 6000


async def fetch(payload: Fetch, metadata: HandlerMetadata) -> HandlerResponse:
    """Answer with the page, or with the problem that prevented it."""
    running = invocation()
    settings: FetcherSettings = running.settings
    allowed = {*settings.hosts, running.resource(Site).authority}
    client = running.resource(httpx.AsyncClient)
    found: Page | PageProblem = PageProblem.TIME
    with anyio.move_on_after(settings.seconds):
        found = await _page(client, payload.url, allowed, settings)
    if isinstance(found, PageProblem):
        found = Page(payload.url, problem=found)
    return HandlerResponse.respond(replace(found, url=payload.url))


async def _page(
    client: httpx.AsyncClient, url: str, allowed: Collection[str], settings: FetcherSettings
) -> Page | PageProblem:
    try:
        target = httpx.URL(url)
        for _ in range(settings.redirects + 1):
            if not _may_ask(target, allowed):
                return PageProblem.FORBIDDEN
            async with client.stream("GET", target, follow_redirects=False) as response:
                if response.next_request is None:
                    return await _read(response, settings)
                target = response.next_request.url
    except (httpx.HTTPError, httpx.InvalidURL):
        return PageProblem.UNREACHABLE
    return PageProblem.REDIRECTS


def _may_ask(url: httpx.URL, allowed: Collection[str]) -> bool:
    return url.scheme in ("http", "https") and not url.userinfo and url.netloc.decode() in allowed


async def _read(response: httpx.Response, settings: FetcherSettings) -> Page | PageProblem:
    if not response.is_success:
        return PageProblem.MISSING
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Compression was not asked for; undoing it would let a small answer grow without bound.
    if kind not in _TYPES or "content-encoding" in response.headers:
        return PageProblem.TYPE
    body = b""
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > settings.size:
            return PageProblem.SIZE
    text = body.decode(response.encoding or "utf-8", errors="replace")
    if kind == "text/plain":
        return Page(str(response.url), text=_lines(text)[: settings.characters])
    return _as_text(text, response.url, settings.characters)


def _as_text(html: str, url: httpx.URL, characters: int) -> Page:
    """Extract the text that a reader sees. Nothing that the markup references is loaded or run."""
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    root = etree.fromstring(html.encode(errors="replace") or b"<html/>", parser)
    if root is None:
        return Page(str(url))
    title = _clean(root.findtext(".//title") or "")[:200]
    links = list(dict.fromkeys(_links(root, url)))[:40]
    etree.strip_elements(root, *_UNREAD, with_tail=False)
    for block in root.iter(*_BLOCKS):
        block.tail = f"\n{block.tail or ''}"
    return Page(str(url), title, _lines(_text(root))[:characters], links)


def _links(root: etree._Element, page: httpx.URL) -> Iterator[Link]:
    for anchor in root.iterfind(".//a[@href]"):
        try:
            url = str(page.join(str(anchor.get("href"))).copy_with(fragment=None))
        except (httpx.InvalidURL, ValueError):
            continue
        label = _clean(_text(anchor))[:200]
        if label and len(url) <= 2000 and re.fullmatch(URL, url):  # noqa: PLR2004 - the bound of the payload's field
            yield Link(label, url)


def _text(element: etree._Element) -> str:
    return str(etree.tostring(element, method="text", encoding="unicode", with_tail=False))


def _lines(text: str) -> str:
    """Clean every line and drop the empty ones."""
    return "\n".join(filter(None, map(_clean, text.splitlines())))


def _clean(text: str) -> str:
    """Join a text into one line without control and invisible characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
