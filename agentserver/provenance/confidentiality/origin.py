"""The place that a text was fetched from, and how much it offers: what it may steer a call back to.

Owns origins in the sense of links (scheme, host and port), the counts of what was offered to choose from, and which
leaves belong to one record. Refuses to decide: it says what came from where.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.destinations import LONGEST, PlaceForm, parse_destination
from agentserver.provenance.evidence.inventory import is_file
from agentserver.provenance.evidence.leaves import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Leaf, TextOrigin

ANYWHERE: Final = ""
"""The key of links in texts that were fetched from no place that is known."""

_WEB: Final = {"http", "https"}


def site_of(place: Destination) -> str:
    """The origin of a link: ``https://news.example``. Empty for what is no link on a host."""
    if place.form is not PlaceForm.LINK or not place.host:
        return ""
    return f"{place.scheme}://{place.host}{':' * bool(place.port)}{place.port}"


def find_fetched_site(arguments: Iterable[Leaf]) -> str:
    """The site that a call with these arguments fetched from; empty unless they name exactly one."""
    sites = {where for leaf in arguments if (where := find_link_site(text_of(leaf.value)))}
    return sites.pop() if len(sites) == 1 else ""


def find_link_site(text: str) -> str:
    """The site of a link to a page; empty for any other text, the name of a file included."""
    body = text.strip()
    if "." not in body or len(body) > LONGEST or is_file(body):
        return ""
    place = parse_destination(body)
    return site_of(place) if place.scheme in _WEB else ""


def is_same_site(origin: TextOrigin, place: Destination) -> bool:
    """True when a link leads back to the very scheme, host and port that a text was fetched from."""
    return bool(origin.place) and origin.place == site_of(place)


def record_of(origin: TextOrigin) -> tuple[str, int, str]:
    """The record that a leaf belongs to: the leaves of one observation below one outermost item, else all of them.

    ``[3].sender`` and ``[3].id`` are of one record, ``mails[0].to[1]`` and ``mails[0].id`` too, and so is a value among
    the headers that one message lists.
    """
    return origin.source, origin.step, item_of(origin.path)


def item_of(path: str) -> str:
    """The outermost item of a list that a path lies in; empty for one that lies in none."""
    item = re.search(r"\[\d+\](?=\.)", path)
    return path[: item.end()] if item else ""


@dataclass(frozen=True, slots=True)
class Offers:
    """The number of links that each site offered: never less than there were.

    Chunks of like size merge, so that adding stays cheap.
    """

    chunks: tuple[Mapping[str, int], ...] = ()

    def add(self, counted: Mapping[str, int]) -> Offers:
        """The same with more offers."""
        if not counted:
            return self
        chunks = [*self.chunks, counted]
        while len(chunks) > 1 and len(chunks[-2]) <= 2 * len(chunks[-1]):
            newer, older = chunks.pop(), chunks.pop()
            both = {key: older.get(key, 0) + newer.get(key, 0) for key in {**older, **newer}}
            chunks.append(MappingProxyType(both))
        return Offers(tuple(chunks))

    def count(self, key: str) -> int:
        """The number of offers under a site, or ``ANYWHERE``."""
        return sum(chunk.get(key, 0) for chunk in self.chunks)


def count_offers(texts: Iterable[tuple[str, str]]) -> Mapping[str, int]:
    """Count the offers of texts by the site that they came from; each text is its site and its body."""
    found: dict[str, int] = {}
    for key, body in texts:
        host = key.rpartition("://")[2]
        own = host and "xn--" not in host
        offers = body.lower().count(host) if own else _links(body)
        if offers:
            found[key] = found.get(key, 0) + offers
    return found


def _links(body: str) -> int:
    """A bound on the links of a text: each has a dot that ends no sentence, or says its scheme."""
    return body.count("://") + body.count(".") - body.count(". ") - body.count(".\n") - body.endswith(".")
