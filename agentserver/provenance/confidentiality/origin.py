"""Sites that texts were fetched from, and the number of links that each site offered.

A text may steer a call back to its own site only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.destinations import LONGEST, PlaceForm, parse_destination
from agentserver.provenance.evidence.inventory import is_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import TextOrigin

ANYWHERE: Final = ""
"""Key of links in texts whose site is unknown."""
IN_ITEM: Final = "]."
"""Part of each path within an item of a list, as ``item_of`` finds it."""

_WEB: Final = {"http", "https"}


def site_of(place: Destination) -> str:
    """Return the origin of a link, such as ``https://news.example``; empty if it has no host."""
    if place.form is not PlaceForm.LINK or not place.host:
        return ""
    return f"{place.scheme}://{place.host}{':' * bool(place.port)}{place.port}"


def find_fetched_site(sites: Iterable[str]) -> str:
    """Find the site that a call fetched from, by those of its arguments; empty unless they name exactly one."""
    named = {*filter(None, sites)}
    return named.pop() if len(named) == 1 else ""


def find_link_site(text: str) -> str:
    """Find the site of a link to a page; empty for other texts, file names included."""
    body = text.strip()
    if "." not in body or len(body) > LONGEST or is_file(body):
        return ""
    place = parse_destination(body)
    return site_of(place) if place.scheme in _WEB else ""


def is_same_site(origin: TextOrigin, place: Destination) -> bool:
    """Return whether a link has the scheme, host and port that a text was fetched from."""
    return bool(origin.place) and origin.place == site_of(place)


def record_of(origin: TextOrigin) -> tuple[str, int, str]:
    """Identify the record of a leaf: the leaves of one observation within the same outermost list item.

    ``[3].sender`` and ``[3].id`` share a record, and so do ``mails[0].to[1]`` and ``mails[0].id``, and the headers of
    one message. Leaves outside of lists form one record.
    """
    return origin.source, origin.step, item_of(origin.path)


def item_of(path: str) -> str:
    """Return the path of the outermost list item around a path; empty outside of lists."""
    item = re.search(r"\[\d+\](?=\.)", path)
    return path[: item.end()] if item else ""


@dataclass(frozen=True, slots=True)
class LinkCounts:
    """Number of links that each site offered at most. Chunks merge geometrically, so that adding is cheap."""

    chunks: tuple[Mapping[str, int], ...] = ()

    def add(self, counted: Mapping[str, int]) -> LinkCounts:
        """Add further counts."""
        if not counted:
            return self
        chunks = [*self.chunks, counted]
        while len(chunks) > 1 and len(chunks[-2]) <= 2 * len(chunks[-1]):
            newer, older = chunks.pop(), chunks.pop()
            both = {key: older.get(key, 0) + newer.get(key, 0) for key in {**older, **newer}}
            chunks.append(MappingProxyType(both))
        return LinkCounts(tuple(chunks))

    def count(self, key: str) -> int:
        """Count the offers of a site, or of ``ANYWHERE``."""
        return sum(chunk.get(key, 0) for chunk in self.chunks)


def count_offers(texts: Iterable[tuple[str, str]]) -> Mapping[str, int]:
    """Count offers by site in pairs of a text's site and body."""
    found: dict[str, int] = {}
    for key, body in texts:
        host = key.rpartition("://")[2]
        own = host and "xn--" not in host
        offers = body.lower().count(host) if own else _links(body)
        if offers:
            found[key] = found.get(key, 0) + offers
    return found


def _links(body: str) -> int:
    """Bound the links in a text: each has a scheme, or a dot that ends no sentence."""
    return body.count("://") + body.count(".") - body.count(". ") - body.count(".\n") - body.endswith(".")
