"""Choices that go back to where they came from, and values that the request leaves to one document.

Each function allows a value of an untrusted text that the principal named, in a call that carries nothing else: the
only author of all that was read, a link below the named page, a handle of that page, the only amount or day of the
named documents. Each looks at a bounded number of texts and answers no beyond it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import item_of, record_of
from agentserver.provenance.evidence.authority import build_word_pattern
from agentserver.provenance.evidence.destinations import (
    LISTED,
    PlaceForm,
    find_recipients,
    parse_destination,
    parse_list,
)
from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.inventory import hash_place
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.evidence.leaves import format_text
from agentserver.provenance.evidence.lexicon import find_words, fold_word
from agentserver.provenance.evidence.readings import (
    build_amount_key,
    find_free_amounts,
    list_currencies,
    read_amounts,
)
from agentserver.provenance.exits import LINK_TEXTS, is_link_offered
from agentserver.provenance.judging.authority import list_homes
from agentserver.provenance.judging.case import READ, TEXTS
from agentserver.provenance.ledger import PAGE, PARTS
from agentserver.provenance.observations.authors import (
    imitates,
    is_on_named_authors_site,
    list_address_keys,
    list_addresses,
    list_name_words,
)
from agentserver.provenance.observations.choosing import begins_request
from agentserver.provenance.policy.forms import HANDLE, has_prose, is_count, names_receiver
from agentserver.provenance.request.languages import WORD_LISTS, is_common
from agentserver.provenance.request.trusted_words import strip_marks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.request.limits import Limits

ARGUMENTS: Final = 8
"""Maximum arguments of a call that goes back to where it came from."""
LABEL: Final = 160
"""Maximum characters before a handle that may be its label."""
OPTIONS: Final = 640
"""Maximum characters behind a handle that may be its options."""
LABELS: Final = 4
"""Maximum places of one handle in a page."""
TELLING: Final = 4
"""Minimum characters of a record's value that is searched for."""

_MESSAGE: Final = re.compile(r"<?(?=(?:[^@]*\d){4})[\w.+=$/-]{12,128}@[\w.-]{1,128}>?")
"""Number of a message or an event, as its header gives it: no person's mailbox has so many digits and no name."""
_ADDRESS: Final = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}")
_HANDLES: Final = re.compile(rf"(?<!\w){HANDLE.pattern}(?!\w)")
_CAPITAL: Final = re.compile(r"(?<![^\W_])[^\W\d_a-z][^\W\d_]{3,39}(?![^\W_])")


def is_sole_author(case: Case, argument: Argument, place: Destination) -> bool:
    """Check whether an address is the only one that fills a field of all untrusted texts, and the principal meant it.

    The principal named all these texts. It also said the display name of the address or, if each output is one record,
    a word of it; or the content has a word of the principal's that none of these texts holds, so that none dictates it.
    A second address in any field, such as one to reply to, leaves none unless it shows an unrelated name, and so does a
    record with an address that the words chose; one that looks like an address of the request is no author's. The
    content may repeat nothing that a trusted listener said and the principal did not. A call without content is no
    answer: it may invite or pay the author.
    """
    receivers, mailed = case.receivers, _list_mailed(case)
    is_sole = len(mailed) == 1 and mailed[0].body.count("@") == 1 and len(case.arguments) <= ARGUMENTS
    if argument.rule.id or not (is_sole and case.content) or place.form is not PlaceForm.ADDRESS:
        return False
    texts = _list_all_authored(case)
    if not texts or case.ledger.foreign or not _are_all_meant(case, texts) or _imitates_named(case, place):
        return False
    if argument is not mailed[0]:
        return _is_number_of_answered(case, argument, mailed[0])
    numbers = (each for each in receivers if each is not argument)
    return (
        all(_is_number_of_answered(case, each, argument) for each in numbers)
        and _is_only_address(case, texts, place)
        and not any(repeats_record(case, each) for each in case.arguments if each not in receivers)
    )


def _list_mailed(case: Case) -> list[Argument]:
    """List the receivers that are no number of a message."""
    return [each for each in case.receivers if not _MESSAGE.fullmatch(each.body.strip())]


def is_answered_list(case: Case, argument: Argument, place: Destination) -> bool:
    """Check whether an address is one of the only letter with addresses, and the principal answers all of them.

    The words name the letter and say *all*, *everybody* or *copy*. All its addresses receive, but for one that may be
    the reader's own, so that nobody gets the answer alone, and no other letter's. The content has no other address and
    repeats nothing that a trusted listener said and the principal did not.
    """
    if argument.rule.id or not case.content or len(case.arguments) > ARGUMENTS:
        return False
    if not case.ledger.asked.says_any(_SEVERAL):
        return False
    texts = _list_all_authored(case)
    if not texts or case.ledger.foreign or not _are_all_meant(case, texts):
        return False
    known = _list_letter_keys(case, texts)
    others = _list_mailed(case)
    places = [one for each in others for one in parse_list(each.body)]
    reached = known.intersection(one.alike[-1] for one in places)
    is_number = argument not in others and any(text.body.strip() == argument.body.strip() for text in texts)
    return (
        (is_number or place.alike[-1] in known)
        and len(reached) >= max(SEVERAL, len(known) - 1)
        and all(one.alike[-1] in known or case.ledger.asked.names(one) for one in places)
        and has_no_other_address(case, places)
        and not any(repeats_record(case, each) for each in case.content)
    )


def _list_letter_keys(case: Case, texts: Sequence[Text]) -> frozenset[str]:
    """List the keys of all addresses of one letter; empty if outputs show several letters, or other addresses.

    One output shows it as a single record. In another the headers of the same letter may be records of their own.
    """
    found: dict[int, set[str]] = {}
    single = False
    for text in texts:
        if text.origin.path and not _MESSAGE.fullmatch(text.body.strip()) and list_addresses(text.body):
            single = single or case.ledger.count_items(text.origin) <= 1
            found.setdefault(text.origin.step, set()).update(list_address_keys(text.body))
    sets = {frozenset(keys) for keys in found.values()}
    return sets.pop() if single and len(sets) == 1 else frozenset()


SEVERAL: Final = 2
"""Minimum addresses of a record whose readers are answered together."""
_SEVERAL: Final = frozenset((*WORD_LISTS["everybody"].split(), *WORD_LISTS["copies"].split()))


def _imitates_named(case: Case, place: Destination) -> bool:
    """Check whether an address looks like one that the principal named, which is the one that is meant."""
    named = (key for form, key in case.ledger.asked.places if form is PlaceForm.ADDRESS)
    return any(imitates(place, key) for key in named)


def is_answered_author(case: Case, argument: Argument, place: Destination) -> bool:
    """Check whether a call goes to the only author, and its content has no address but the author's and named ones.

    Content with another address may be more than content: a subject with a second line adds a receiver.
    """
    return is_sole_author(case, argument, place) and has_no_other_address(case, [place])


def has_no_other_address(case: Case, places: Sequence[Destination]) -> bool:
    """Check whether the content of a call has no address but those of some receivers and named ones."""
    content = [each.body for each in case.content]
    if any(len(body) > LISTED for body in content):
        return False
    known = {place.alike[-1] for place in places}
    others = [each for body in content for each in find_recipients(body) if "@" in each.written]
    return all(each.alike[-1] in known or case.ledger.asked.names(each) for each in others)


def list_authored_steps(case: Case, place: Destination) -> frozenset[int]:
    """List the steps of the outputs that show the address of an author in a field."""
    texts = _list_all_authored(case)
    return frozenset(text.origin.step for text in texts if place.alike[-1] in list_address_keys(text.body))


def _are_all_meant(case: Case, texts: Sequence[Text]) -> bool:
    """Check whether the principal named each text, or its output has the records of a named author."""
    steps = {text.origin.step for text in case.records if text.asked}
    return all(text.asked or text.origin.step in steps for text in texts)


def _is_only_address(case: Case, texts: Sequence[Text], place: Destination) -> bool:
    """Check whether an address is the only one of the fields that were read, and the principal's words lead to it."""
    holders = [(text, each) for text in texts if text.origin.path for each in list_addresses(text.body)]
    trusted = (text for text in case.records if text.chosen and not _is_authored(case, text))
    if not case.has_all_records or any(list_addresses(text.body) for text in trusted):
        return False
    own = [text for text, each in holders if each.alike[-1] == place.alike[-1]]
    others = [text for text, each in holders if each.alike[-1] != place.alike[-1]]
    is_named = bool(own) and not others and any(_is_display_named(case, text) for text in own)
    return (
        is_named
        or _is_only_said(case, own, others)
        or (_is_only_shown(case, own, others) and _says_more(case))
        or (not own and _is_in_only_row(case, texts, place) and _says_more(case))
    )


def _is_number_of_answered(case: Case, argument: Argument, receiver: Argument) -> bool:
    """Check whether a value is the number of a message whose record shows the address of the call's receiver.

    The number looks like an address. At worst it is one of whoever wrote the message, who is the receiver.
    """
    body, places = argument.body.strip(), parse_list(receiver.body)
    if not _MESSAGE.fullmatch(body) or len(places) != 1:
        return False
    texts = _list_all_authored(case)
    homes = list_homes(text for text in texts if text.asked and text.body.strip() == body)
    return any(
        record_of(text.origin) in homes and places[0].alike[-1] in list_address_keys(text.body)
        for text in texts
    )


def _is_only_shown(case: Case, own: list[Text], others: list[Text]) -> bool:
    """Check whether outputs of one record show one address.

    An address outside of the records of a list, such as that of the list's owner, does not count.
    """
    within = any(item_of(text.origin.path) for text in own)
    others = [text for text in others if not (within and not item_of(text.origin.path))]
    others = [text for text in others if not _MESSAGE.fullmatch(text.body.strip())]
    single = all(case.ledger.count_items(text.origin) <= 1 for text in own)
    return bool(own) and not others and single


def _is_in_only_row(case: Case, texts: Sequence[Text], place: Destination) -> bool:
    """Check whether an address is in the only line of all texts that has an address and a name from the request.

    The line has no other address. A name has a capital in the line and in the request, and begins no request.
    """
    if sum(len(text.body) for text in texts) > PAGE:
        return False
    rows = [line for text in texts for line in text.body.split("\n") if "@" in line]
    naming = {line.strip() for line in rows if _shows_said_name(case, _ADDRESS.sub(" ", line))}
    found = [_ADDRESS.findall(line) for line in naming]
    return (
        len(found) == 1 and len(found[0]) == 1 and parse_destination(found[0][0]).alike[-1] == place.alike[-1]
    )


def _shows_said_name(case: Case, line: str) -> bool:
    request = case.ledger.asked
    words = (match[0] for match in _CAPITAL.finditer(line))
    return any(request.mentions(word) and not begins_request(request, word) for word in words)


def _says_more(case: Case) -> bool:
    """Check whether the content has a word of the principal's that none of the texts that were read holds."""
    read = {word for text in case.read_texts for word, _, _ in find_words(text.body[:PAGE])}
    sent = (word for each in case.content for word, _, _ in find_words(each.body[:PAGE]))
    telling = {word for word in sent if len(word) >= TELLING}
    return any(case.ledger.asked.mentions(word, any_case=True) for word in telling - read)


def _list_all_authored(case: Case) -> Sequence[Text]:
    """List all untrusted texts, with the addresses that a declaration calls records: their author fills them too."""
    texts = case.read_texts
    return (*texts, *(text for text in case.records if _is_authored(case, text))) if texts else ()


def _is_authored(case: Case, text: Text) -> bool:
    """Check whether a record is an address that a source's author fills. Without a declaration it would be a text."""
    if text.standing is not Standing.RECORD or text.formed or not list_addresses(text.body):
        return False
    return case.policy.classify(text.origin.source).source


def _is_display_named(case: Case, text: Text) -> bool:
    shown = text.body.partition("<")[0].strip(' "')
    return len(shown) >= TELLING and case.ledger.asked.mentions(shown, any_case=True)


def _is_only_said(case: Case, own: list[Text], others: list[Text]) -> bool:
    """Check whether one address alone shows a word that was said, and outputs of one record each hold all addresses.

    Each other address shows a name of its own, such as that of the reader, without a word of the request or of the
    first one's name. One without a name may be anyone's, but for the number of a message.
    """
    request = case.ledger.asked
    others = [text for text in others if not _MESSAGE.fullmatch(text.body.strip())]
    single = {text.body for text in (*own, *others) if case.ledger.count_items(text.origin) <= 1}
    if not own or any(text.body not in single for text in (*own, *others)):
        return False
    names = frozenset(word for text in own for word in list_name_words(text.body))
    shown = [list_name_words(text.body) for text in others]
    if not all(shown) or not any(request.mentions(word, any_case=True) for word in names):
        return False
    return not any(
        word in names or request.mentions(word, any_case=True) for words in shown for word in words
    )


def repeats_record(
    case: Case, argument: Argument, homes: frozenset[tuple[str, int, str]] = frozenset()
) -> bool:
    """Check whether content repeats a value of a trusted listener that the principal did not say, but of ``homes``."""
    request, form = case.ledger.asked, fold(argument.body)
    trusted = (
        text
        for text in case.records
        if record_of(text.origin) not in homes and not case.policy.classify(text.origin.source).source
    )
    folded = ((fold(text.body), text.body) for text in trusted)
    return any(len(one) >= TELLING and one in form and not request.mentions(body) for one, body in folded)


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
    only act on this page. A label is one of the words before the handle in its
    line, such as the name of a form's field, and the handle is an argument of the same item. An option of a tool is a
    label only inside of an item, since an option next to a handle may be a grant.
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
    handles = [each.body.strip() for each in parts if HANDLE.fullmatch(each.body.strip())]
    labels = [each.body.strip() for each in parts if not HANDLE.fullmatch(each.body.strip())]
    if argument in parts or len(handles) != 1 or len(labels) != 1 or len(labels[0]) < TELLING:
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


def is_code_of_named_document(case: Case, argument: Argument) -> bool:
    """Check whether a value is the only code of a named document that is no page, in a call on the named page.

    It has a digit, and no other text holds it, so that neither the page nor a stranger says which one.
    """
    plain = argument.rule.role is Role.SELECTOR
    body = argument.body.strip()
    if not plain or len(body) < TELLING or not acts_on_named_page(case):
        return False
    holders = [text for text in case.read_texts if body in text.body]
    if not all(text.asked and not text.origin.place for text in holders):
        return False
    return {code for text in holders for code in _list_codes(text.body[:READ])} == {body}


def _list_codes(text: str) -> Iterator[str]:
    """List the words in a text that have a digit and are no shorter than a code."""
    words = (word.strip(".!?'\"") for word in re.split(r"[\s,;:|()<>]+", text))
    return (word for word in words if len(word) >= TELLING and any(map(str.isdigit, word)))


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
    latest = case.ledger.texts[-1:]
    pattern = build_word_pattern(handle)
    for text in latest:
        page = text.body[:PAGE] if text.asked and text.origin.place else ""
        for match in islice(pattern.finditer(page), LABELS):
            line = page[max(0, match.start() - LABEL) : match.start()].rpartition("\n")[2]
            yield _HANDLES.split(line)[-1]


def is_left_open(case: Case, argument: Argument) -> bool:
    """Check whether the request gives no amount, and the documents that it named give only this one.

    If the request gives limits, one amount of these documents has to be within them. An amount that it gives with two
    readings is one of both. An amount with a currency precedes other numbers; an integer may be in the smaller unit.
    """
    limits = case.limits
    if limits is None or not (case.named_text and _may_be_amount(argument)):
        return False
    if limits.is_open:
        return _is_within_limits(case, argument, limits)
    if _list_given_amounts(case, argument) or _is_another_amount(limits, argument):
        return False
    amounts = case.named_amounts
    only = next(iter(amounts), "@")
    if len(amounts) != 1 or "@" in only:
        return False
    value = argument.leaf.value
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    cents = {build_amount_key(Decimal(only[7:]).scaleb(2))} if is_integer and "." in only else set()
    stated_amounts = read_amounts(value)
    return bool(stated_amounts) and stated_amounts <= {only, *cents}


def _list_given_amounts(case: Case, argument: Argument) -> set[str]:
    """List the amounts of the request but those that name a document or that the call has elsewhere.

    *Set case 1402 to what report 8813 asks for* gives none for the value.
    """
    values = case.ledger.asked.read_values(case.policy.conventions)
    given = {key for key in values if key.startswith("amount ")}
    if not given:
        return given
    others = (format_text(each.leaf.value) for each in case.arguments if each is not argument)
    names = (name for text in case.read_texts if text.asked for name in text.names)
    return given.difference(*map(read_amounts, (*others, *names)))


def _is_within_limits(case: Case, argument: Argument, limits: Limits) -> bool:
    """Check whether an amount is the only one of the named documents within the limits that the request gives.

    Other amounts of the request have no currency, and the call has them elsewhere. A number of a document with several
    readings may be any that is within them. The documents name no other currency than the request.
    """
    taken = {key for each in case.arguments if each is not argument for key in read_amounts(each.leaf.value)}
    currencies = list_currencies(case.named_text)
    if not limits.bare <= taken or (case.said_currencies and not currencies <= case.said_currencies):
        return False
    places: dict[int, set[Decimal]] = {}
    for each in find_free_amounts(case.named_text):
        if limits.allow(each.value):
            places.setdefault(each.start, set()).add(each.value)
    within = {frozenset(map(build_amount_key, values)) for values in places.values()}
    stated = read_amounts(argument.leaf.value)
    return len(within) == 1 and bool(stated) and stated <= next(iter(within))


def _is_another_amount(limits: Limits, argument: Argument) -> bool:
    """Check whether the request gives an amount with a currency, which is another one in each of its readings."""
    return bool(limits.given) and not read_amounts(argument.leaf.value) <= {
        *map(build_amount_key, limits.given)
    }


def _may_be_amount(argument: Argument) -> bool:
    """Check whether an argument is an amount, or an undeclared word in digits with two decimals, as prices are."""
    rule = argument.rule
    is_priced = rule.role is Role.SELECTOR and _PRICE.fullmatch(argument.body.strip())
    return rule.role is Role.QUANTITY or bool(is_priced)


_PRICE: Final = re.compile(r"\d{1,12}[.,]\d\d")


def is_currency_of_amount(case: Case, argument: Argument) -> bool:
    """Check whether a choice is the currency of the call's amount: the one that the principal's words name.

    If they name none, it may be one that a named document gives.
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
    request_words = [word for query in case.ledger.queries for word, _, _ in find_words(query)]
    return LEXICON.currencies.isdisjoint(request_words) and any(
        text.asked and len(text.body) <= READ and pattern.search(text.body)
        for text in case.ledger.texts[-TEXTS:]
    )


CODE: Final = 3
"""Letters of a currency's code."""


def is_title_code(case: Case, argument: Argument) -> bool:
    """Check whether a value is the only code in the titles of the named documents, such as the number of an invoice.

    A title is a field of two to eight words. A document that nobody named may not have a title with another code.
    """
    body = argument.body.strip()
    if argument.rule.role is not Role.SELECTOR or len(body) < TELLING:
        return False
    titles = [text for text in case.read_texts if text.origin.path and _TITLE.fullmatch(text.body.strip())]
    codes = {code for text in titles for code in _list_codes(text.body) if _may_number(code)}
    return codes == {body} and any(text.asked and body in text.body for text in titles)


def _may_number(code: str) -> bool:
    """Check whether a code may be the number of a document: no year and no address."""
    return "@" not in code and not (len(code) == TELLING and code.isdigit())


_TITLE: Final = re.compile(r"\S{1,40}(?: \S{1,40}){1,7}")
