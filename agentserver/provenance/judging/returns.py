"""Choices and receivers that go back to where they came from.

Each function allows a value of an untrusted text that the principal named: an entry of an address book, a link below
the named page or to its author's site, a handle of that page, its label, an option or a count behind it, the currency
of a named document. Each looks at a bounded number of texts and is False beyond it.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import item_of
from agentserver.provenance.evidence.authority import build_word_pattern
from agentserver.provenance.evidence.destinations import PlaceForm, parse_destination, parse_list
from agentserver.provenance.evidence.inventory import hash_place
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.evidence.lexicon import find_words, fold_word
from agentserver.provenance.exits import LINK_TEXTS, is_link_offered
from agentserver.provenance.judging.case import READ, TEXTS
from agentserver.provenance.ledger import PAGE, PARTS
from agentserver.provenance.observations.authors import is_on_named_authors_site
from agentserver.provenance.policy.forms import HANDLE, has_prose, is_count, names_receiver
from agentserver.provenance.request.languages import is_common
from agentserver.provenance.request.trusted_words import strip_marks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.judging.case import Argument, Case

ARGUMENTS: Final = 8
"""Maximum arguments of a call that goes back to where it came from."""
LABEL: Final = 160
"""Maximum characters before a handle that may be its label."""
OPTIONS: Final = 640
"""Maximum characters behind a handle that may be its options."""
LABELS: Final = 4
"""Maximum places of one handle in a page."""
SPOKEN: Final = 4
"""Minimum characters of a label that the request speaks of."""
CODE: Final = 3
"""Letters of a currency's code."""

_HANDLES: Final = re.compile(rf"(?<!\w){HANDLE.pattern}(?!\w)")


def is_on_card(case: Case, place: Destination) -> bool:
    """Check whether a receiver is the only entry that searches by the principal's words found under its name.

    Another entry that shows a word of the same name leaves it open who is meant, and so does another text that holds
    the address among words: its author may have written the entry too.
    """
    if not case.has_all_records:
        return False
    cards = [
        text
        for text in case.records
        if text.asked and text.standing is Standing.DIRECTORY and case.ledger.is_card(text.origin)
    ]
    own = {text.origin.step for text in cards if text in {*case.ledger.records.find_directory(place)}}
    others = case.ledger.untrusted.find_texts_with(hash_place(place.written), LINK_TEXTS)
    if any(text.origin.step not in own and has_prose(text.body) for text in others):
        return False
    names = {step: _list_said_names(case, step) for step in {text.origin.step for text in cards}}
    addresses = {text.origin.step: parse_destination(text.body).alike for text in cards}
    said = frozenset[str]().union(*(names[step] for step in own))
    return bool(said) and all(
        names[step].isdisjoint(said) or not set(addresses[step]).isdisjoint(place.alike) for step in names
    )


def _list_said_names(case: Case, step: int) -> frozenset[str]:
    """List the words in one output's fields that the principal said, without their marks."""
    shown = (text.body for text in case.ledger.list_texts_of_step(step) if not names_receiver(text.body))
    words = (word for body in shown for word, _, _ in find_words(body))
    return frozenset(strip_marks(word) for word in words if case.ledger.asked.mentions_plainly(word))


def is_below_named_page(case: Case, argument: Argument, place: Destination) -> bool:
    """Check whether a link of an untrusted text leads below the page that the principal named, and takes nothing along.

    Below is the page itself and what shares its folder: other folders of a host may be another author's. A query counts
    as the page spells it, so that it holds nothing but the page's own words.
    """
    if not _is_followed_alone(case, argument, place):
        return False
    texts = case.ledger.untrusted.find_texts_with(hash_place(place.written), LINK_TEXTS)
    return any(text.asked and text.origin.place for text in texts) and any(
        place.key.startswith(folder) for folder in _list_named_folders(case)
    )


def is_on_authors_site(case: Case, argument: Argument, place: Destination) -> bool:
    """Check whether a link of a named document leads to its author's own site, and takes nothing along."""
    if not _is_followed_alone(case, argument, place) or case.ledger.foreign:
        return False
    return is_on_named_authors_site(case.ledger.asked, case.read_texts, place)


def is_below_said_host(case: Case, argument: Argument, place: Destination) -> bool:
    """Check whether a host of a named document is below one that the request names and that the call is about.

    The owner of a host decides about those below it. The call has the upper host as well, and no content.
    """
    if case.content or place.form is not PlaceForm.LINK or place.host != place.written:
        return False
    others = (parse_destination(each.body) for each in case.arguments if each is not argument)
    named = [other.host for other in others if other.host == other.written and case.ledger.asked.names(other)]
    texts = case.ledger.untrusted.find_texts_with(hash_place(place.written), LINK_TEXTS)
    below = any(host and place.host.endswith(f".{host}") for host in named)
    return below and any(text.asked for text in texts)


def _is_followed_alone(case: Case, argument: Argument, place: Destination) -> bool:
    """Check whether a call does nothing but follow a link that a text spells so."""
    is_sole = all(each is argument or each.rule.role is Role.INERT for each in case.arguments)
    if not is_sole or place.form is not PlaceForm.LINK or not case.policy.follow_links:
        return False
    return is_link_offered(case.ledger, place) and case.policy.query_authorises


def _list_named_folders(case: Case) -> Iterator[str]:
    for form, key in case.ledger.asked.places:
        scheme, mark, address = key.partition("://")
        if form is PlaceForm.LINK and mark and "?" not in key:
            yield f"{key}/"
            folder, _, _ = address.rpartition("/")
            if "/" in folder:
                yield f"{scheme}://{folder}/"


def is_part_of_named_page(case: Case, argument: Argument) -> bool:
    """Check whether a choice is a short handle of a page that the principal named, or the label of that handle.

    The call has no receiver but those that the principal named, such as an address that is filled in, so that it can
    only act on this page. A label is one of the words before the handle in its line, such as the name of a form's
    field, and the handle is an argument of the same item. An option of a tool is a label only inside of an item, since
    an option next to a handle may be a grant.
    """
    is_part = argument.rule.role in {Role.SELECTOR, Role.OPTION}
    if not is_part or len(case.arguments) > PARTS:
        return False
    if not all(_is_named(case, each) for each in case.receivers):
        return False
    body = argument.body.strip()
    if argument.rule.role is Role.SELECTOR and HANDLE.fullmatch(body):
        return next(_find_labels(case, body), None) is not None
    item = item_of(argument.leaf.path)
    if argument.rule.role is Role.OPTION and not item:
        return False
    handles = {
        handle
        for each in case.arguments
        if item_of(each.leaf.path) == item and HANDLE.fullmatch(handle := each.body.strip())
    }
    pattern = build_word_pattern(body)
    return any(pattern.search(label) for handle in handles for label in _find_labels(case, handle))


def acts_on_named_page(case: Case) -> bool:
    """Check whether a call acts on a handle of the named page that was read last."""
    if len(case.arguments) > PARTS:
        return False
    return any(
        HANDLE.fullmatch(each.body.strip()) and is_part_of_named_page(case, each) for each in case.arguments
    )


def is_option_of_said_label(case: Case, argument: Argument) -> bool:
    """Check whether a value is an option of the named page, behind a handle whose label is a word of the principal's.

    The words speak of the label, such as *without the privacy add-on*; the page says which options it has. The call has
    one label and one handle. If the words name an option, no other one is meant.
    """
    if argument.rule.role is not Role.SELECTOR or len(case.arguments) > ARGUMENTS:
        return False
    parts = [each for each in case.arguments if is_part_of_named_page(case, each)]
    bodies = [each.body.strip() for each in parts]
    handles = [body for body in bodies if HANDLE.fullmatch(body)]
    labels = [body for body in bodies if not HANDLE.fullmatch(body)]
    if argument in parts or len(handles) != 1 or len(labels) != 1 or len(labels[0]) < SPOKEN:
        return False
    spoken = {word for query in case.ledger.queries for word, _, _ in find_words(query)}
    pattern = build_word_pattern(argument.body.strip())
    offered = [*_find_options(case, handles[0])]
    named = {word for options in offered for word, _, _ in find_words(options) if not is_common(word)}
    if fold_word(labels[0]) not in spoken or not (named - {fold_word(labels[0])}).isdisjoint(spoken):
        return False
    return any(map(pattern.search, offered))


def _find_options(case: Case, handle: str) -> Iterator[str]:
    """Find the words behind a handle of the page that was read last, up to the next handle."""
    pattern = build_word_pattern(handle)
    for text in case.ledger.texts[-1:]:
        for match in islice(pattern.finditer(text.body[:PAGE]), LABELS):
            behind = text.body[match.end() : match.end() + OPTIONS]
            found, *others = _HANDLES.split(behind)
            yield (found.rpartition("\n")[0] or found) if others else found


def is_count_on_named_page(case: Case, argument: Argument) -> bool:
    """Check whether a value is a number of up to two digits in a call that acts on the named page.

    As a number it would be a count that nobody asks about; a form takes text.
    """
    plain = argument.rule.role is Role.SELECTOR
    return plain and is_count(argument.body.strip()) and acts_on_named_page(case)


def _is_named(case: Case, argument: Argument) -> bool:
    """Check whether the principal's words name all receivers of an argument."""
    places = parse_list(argument.body) if len(argument.body) <= READ else ()
    return bool(places) and all(case.ledger.asked.names(place) for place in places)


def _find_labels(case: Case, handle: str) -> Iterator[str]:
    """Find the words before a handle in its line of the page that was read last, from the handle before it on."""
    pattern = build_word_pattern(handle)
    for text in case.ledger.texts[-1:]:
        page = text.body[:PAGE] if text.asked and text.origin.place else ""
        for match in islice(pattern.finditer(page), LABELS):
            line = page[max(0, match.start() - LABEL) : match.start()].rpartition("\n")[2]
            yield _HANDLES.split(line)[-1]


def is_currency_of_amount(case: Case, argument: Argument) -> bool:
    """Check whether a choice is the currency of the call's amount: the one that the principal's words name.

    If they name none, it may be one that a named document gives. A short word of the request, such as *as*, is no code.
    """
    from agentserver.provenance.evidence.lexicon import LEXICON

    body = argument.body.strip()
    if len(body) != CODE or body.casefold() not in LEXICON.currencies:
        return False
    if not any(each.rule.role is Role.QUANTITY for each in case.arguments):
        return False
    if case.said_currencies:
        return body.casefold() in case.said_currencies
    pattern = build_word_pattern(body, any_case=True)
    said = {word for query in case.ledger.queries for word, _, _ in find_words(query) if len(word) > CODE}
    return LEXICON.currencies.isdisjoint(said) and any(
        text.asked and len(text.body) <= READ and pattern.search(text.body)
        for text in case.ledger.texts[-TEXTS:]
    )
