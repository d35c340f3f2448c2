"""Authors of the documents that the principal named, by the addresses that fill fields of them.

A source's words may steer a call back to their author: to what an own search finds under the author's address, and to
links of the author's own site. Texts that nobody named have no author here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import item_of
from agentserver.provenance.evidence.destinations import (
    NETWORK_SCHEMES,
    PlaceForm,
    parse_destination,
    parse_list,
)
from agentserver.provenance.request.languages import is_common
from agentserver.provenance.request.trusted_words import strip_marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.request.trusted_words import TrustedWords

TEXTS: Final = 64
"""Maximum untrusted texts of a conversation in which an author is looked for; with more of them no author is found."""
FIELD: Final = 640
"""Maximum characters of a field that consists of addresses."""
WORD: Final = 4
"""Minimum letters of a word that names an author."""

_QUALIFIED: Final = re.compile(r"([A-Za-z]{2,16}(?:_[A-Za-z]{1,16})?):([^\s:]{3,128})")
"""Term of a search query with its qualifier: a word of letters alone, so that little goes along in it."""


def parse_qualified_address(text: str) -> Destination | None:
    """Parse the address behind a qualifier, as in the search term ``from:ann@corp.example``; None for other texts.

    A scheme of a network is no qualifier.
    """
    found = _QUALIFIED.fullmatch(text.strip())
    if found is None or found[1].lower() in NETWORK_SCHEMES:
        return None
    place = parse_destination(found[2])
    return place if place.form is PlaceForm.ADDRESS and place.host else None


def list_addresses(body: str) -> tuple[Destination, ...]:
    """List the addresses that a field consists of; empty for running text."""
    found = parse_list(body) if "@" in body and len(body) <= FIELD else ()
    return found if all(each.form is PlaceForm.ADDRESS for each in found) else ()


def imitates(place: Destination, named: str) -> bool:
    """Check whether an address looks like a named one: the same host or mailbox but for letters that look alike.

    One letter may be another one, lacking or one too many, in names of some length.

    Args:
        place: the address.
        named: an address that the principal named.
    """
    if place.form is not PlaceForm.ADDRESS or place.alike[-1] == named:
        return False
    (mailbox, _, host), (own, _, other) = place.alike[-1].rpartition("@"), named.rpartition("@")
    if host == other:
        return mailbox != own and _draw(mailbox) == _draw(own)
    return _is_nearly(_draw(host.rpartition(".")[0]), _draw(other.rpartition(".")[0]))


_DRAWN: Final = (
    ("rn", "m"),
    ("vv", "w"),
    ("cl", "d"),
    ("0", "o"),
    ("1", "l"),
    ("i", "l"),
    ("5", "s"),
    ("-", ""),
)
"""Letters that look alike; an address may have the ones for the others."""


def _draw(name: str) -> str:
    for written, drawn in _DRAWN:
        name = name.replace(written, drawn)
    return name


def _is_nearly(one: str, other: str) -> bool:
    """Check whether two names differ by at most one letter."""
    if min(len(one), len(other)) < WORD or abs(len(one) - len(other)) > 1:
        return one == other
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if at is None:
        return True
    return one[at + 1 :] == other[at + 1 :] or one[at + 1 :] == other[at:] or one[at:] == other[at + 1 :]


def list_address_keys(body: str) -> frozenset[str]:
    """List the loosest keys of the addresses that a field consists of."""
    return frozenset(place.alike[-1] for place in list_addresses(body))


def list_name_words(body: str) -> frozenset[str]:
    """List the longer words of the name before the one address of a field; empty without a name."""
    shown, mark, _ = body.partition("<")
    words = shown.split() if mark and body.count("@") == 1 else ()
    return frozenset(word for each in words if len(word := each.strip('",.').casefold()) >= WORD)


def is_on_named_authors_site(request: TrustedWords, texts: Sequence[Text], link: Destination) -> bool:
    """Check whether a link of a named document leads to the site of the document's author, which the words name.

    The site is the host of the author's address or below it. The principal said a word that begins one of the names
    in the host and is in the author's name, so that neither a host of many authors nor another author's is one.

    Args:
        request: the principal's words.
        texts: all untrusted texts of the conversation.
        link: a link that one of them spells so.
    """
    author = find_named_author(request, texts)
    if author is None or link.form is not PlaceForm.LINK or link.scheme != "https" or link.port:
        return False
    if not author.host or not f".{link.host}".endswith(f".{author.host}"):
        return False
    own = [text for text in texts if text.asked and author.alike[-1] in list_address_keys(text.body)]
    words = frozenset(word for text in own for word in list_name_words(text.body))
    names = re.split(r"[.-]", author.host.rpartition(".")[0])
    said = [strip_marks(word) for word in words if request.mentions_plainly(word) and not is_common(word)]
    records = {(text.origin.step, item) for text in own for item in ("", item_of(text.origin.path))}
    holds = any(
        text.asked and (text.origin.step, item_of(text.origin.path)) in records and link.written in text.body
        for text in texts
    )
    return holds and any(name.startswith(word) for name in names for word in said)


def find_named_author(request: TrustedWords, texts: Sequence[Text]) -> Destination | None:
    """Find the only author of the documents that the principal named.

    It is the only address of their fields that shows a word of the request in its name. Without such a word it is their
    only address.

    Args:
        request: the principal's words.
        texts: all untrusted texts of the conversation.
    """
    if len(texts) > TEXTS:
        return None
    fields = [text for text in texts if text.asked and text.origin.path]
    shown = [(text, place) for text in fields for place in list_addresses(text.body)]
    said = [
        (text, place)
        for text, place in shown
        if any(map(request.mentions_plainly, list_name_words(text.body)))
    ]
    authors = {place.alike[-1]: place for _, place in said or shown}
    return next(iter(authors.values())) if len(authors) == 1 else None
