"""Links of strangers in the content of a call.

Who gets a summary follows the links in it: a page that is summarised for a colleague may add a login page to it. So a
link that only running text of a stranger holds goes along if it leads back to where the text came from, or if the
principal spoke of it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import record_of, site_of
from agentserver.provenance.evidence.authority import find_entry
from agentserver.provenance.evidence.destinations import PlaceForm, parse_destination
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.inventory import ValueKind, find_values, hash_place
from agentserver.provenance.exits import LINK_TEXTS
from agentserver.provenance.judging.case import TEXTS
from agentserver.provenance.judging.destinations import read_places
from agentserver.provenance.observations.authors import list_addresses
from agentserver.provenance.request.languages import WORD_LISTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case

LINKS: Final = 64
"""Maximum links of one argument that are looked at; a longer list is content that was computed or asked for."""

_SPOKEN: Final = frozenset(WORD_LISTS["links"].split())


def find_strange_links(case: Case) -> Iterator[tuple[Argument, str, Text]]:
    """Find the links in the content of a call that nobody asked for, each with a text that holds it."""
    for argument in case.content:
        if "/" not in argument.body and "www." not in argument.body:
            continue
        for link in islice(_iter_links(argument.body), LINKS):
            texts = case.ledger.untrusted.find_texts_with(hash_place(link), LINK_TEXTS)
            if not texts or _has_reason(case, argument, parse_destination(link), texts):
                continue
            if case.ledger.asked.says_any(_SPOKEN):
                return
            yield argument, link, texts[0]


def _iter_links(text: str) -> Iterator[str]:
    """Iterate over the links of a text that have a path or begin with ``www.``."""
    words = (word for word in text.split() if "." in word and ("/" in word or "www." in word))
    values = (value for word in words for value in find_values(word) if value.kind is ValueKind.LINK)
    return (value.text for value in values if "/" in value.text or value.text.startswith("www."))


def _has_reason(case: Case, argument: Argument, link: Destination, texts: list[Text]) -> bool:
    """Check whether a link may go along: its site is vouched for, or one of the texts that hold it is a reason.

    Such a text is nothing but the link, is sent whole, or is one that the link leads back to.
    """
    if link.form is not PlaceForm.LINK or find_entry(case.policy.allow, link) or _is_vouched(case, link):
        return True
    return any(
        text.body.strip() == link.written or _is_quoted(argument, text) or _leads_back(case, link, text)
        for text in texts
    )


def _is_vouched(case: Case, link: Destination) -> bool:
    """Check whether the principal or a record named the link or another page of its site, or a page of it was read."""
    site = parse_destination(site_of(link))
    if any(True for place in (link, site) for _ in case.ledger.records.find_directory(place)):
        return True
    if case.ledger.asked.names(link):
        return True
    if any(text.origin.place == site_of(link) for text in case.ledger.texts[-TEXTS:]):
        return True
    named = (key for form, key in case.ledger.asked.places if form is PlaceForm.LINK)
    return any(parse_destination(key).host == link.host for key in named)


def _is_quoted(argument: Argument, text: Text) -> bool:
    """Check whether content is, or has, all of a document that the principal named, as when it is forwarded."""
    return text.asked and fold_bytes(text.body) in fold_bytes(argument.body)


def _leads_back(case: Case, link: Destination, text: Text) -> bool:
    """Check whether a link leads to the host of the only author of its record, or the call to that record's addresses.

    A reply that quotes a letter sends its links back to whoever wrote them.
    """
    record = record_of(text.origin)
    peers = (other for other in case.ledger.texts[-TEXTS:] if record_of(other.origin) == record)
    places = [place for other in peers for place in list_addresses(other.body)]
    hosts = {place.host for place in places}
    if len(hosts) == 1 and any(host and f".{link.host}".endswith(f".{host}") for host in hosts):
        return True
    known = {place.alike[-1] for place in places}
    receivers = [place.alike[-1] for each in case.receivers for place in read_places(case, each)]
    return bool(receivers) and known.issuperset(receivers)
