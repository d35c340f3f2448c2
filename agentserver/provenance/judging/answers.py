"""Answers to whoever wrote a document that the principal named.

Whoever fills the fields of a record chooses their words, but not which documents the principal names, and not the words
of the principal and of trusted listeners. So an answer goes to the one author of these documents, and takes nothing
along that is another's.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.confidentiality.origin import item_of, record_of
from agentserver.provenance.evidence.authority import build_mention_pattern
from agentserver.provenance.evidence.destinations import (
    LISTED,
    PlaceForm,
    find_recipients,
    parse_destination,
    parse_list,
)
from agentserver.provenance.evidence.folding import fold, fold_bytes
from agentserver.provenance.evidence.index import SPAN
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.evidence.lexicon import find_words
from agentserver.provenance.judging.amounts import is_computed
from agentserver.provenance.judging.authority import is_chosen, is_judged_as_moment, is_requested, list_homes
from agentserver.provenance.ledger import PAGE
from agentserver.provenance.observations.authors import (
    imitates,
    list_address_keys,
    list_addresses,
    list_name_words,
)
from agentserver.provenance.observations.choosing import begins_request
from agentserver.provenance.observations.occurrences import TooManyValues
from agentserver.provenance.policy.forms import CHOICE, has_prose, is_grouped_number, names_receiver
from agentserver.provenance.request.languages import WORD_LISTS
from agentserver.provenance.request.trusted_words import split_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case

ARGUMENTS: Final = 8
"""Maximum arguments of an answer."""
SEVERAL: Final = 2
"""Minimum addresses of a letter whose readers are answered together."""
TELLING: Final = 4
"""Minimum characters of a word or a record's value that is searched for."""

_SEVERAL: Final = frozenset((*WORD_LISTS["everybody"].split(), *WORD_LISTS["copies"].split()))
_MESSAGE: Final = re.compile(r"<?(?=(?:[^@]*\d){4})[\w.+=$/-]{12,128}@[\w.-]{1,128}>?")
"""Number of a message or an event, as its header gives it: no person's mailbox has so many digits and no name."""
_ADDRESS: Final = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}")
_CAPITAL: Final = re.compile(r"(?<![^\W_])[^\W\d_a-z][^\W\d_]{3,39}(?![^\W_])")
_JUDGED: Final = {Role.DESTINATION, Role.INERT, Role.OPTION, Role.TIME}
"""Roles of arguments that have rules of their own: who receives, moments, values that a schema lists."""
_PART: Final = re.compile(r"[,;:.!?\n]")


def is_answered(case: Case, argument: Argument, place: Destination) -> bool:
    """Check whether a call answers the author of the named documents, or all of a letter, and takes nothing else along.

    The call has content, or gives one author what the request says, and the request orders something. The number of its
    message may receive together with an address.
    """
    if argument.rule.id or len(case.arguments) > ARGUMENTS or not case.has_all_records:
        return False
    if case.ledger.foreign or case.orders_nothing or not (case.content or _is_all_given(case)):
        return False
    mailed = [each for each in case.receivers if not _MESSAGE.fullmatch(each.body.strip())]
    places = [one for each in mailed for one in parse_list(each.body) if not case.ledger.asked.names(one)]
    if not places or any(one.form is not PlaceForm.ADDRESS for one in places):
        return False
    if argument not in mailed:
        return _is_number_of_answered(case, argument, places)
    if len(places) == 1:
        own = _find_texts_of_author(case, places[0])
    else:
        own = _find_letter(case, places) if case.content and case.ledger.asked.says_any(_SEVERAL) else []
    if not own or place not in places:
        return False
    return not (_is_another_meant(case, own, places) or _takes_along(case, own, places))


def _is_all_given(case: Case) -> bool:
    """Check whether all choices and amounts of a call are the request's, and there is one.

    An amount may be computed from several numbers of the request, unless a text has it. Options and moments have
    rules of their own.
    """
    given = [each for each in case.arguments if each.rule.role not in _JUDGED]
    return bool(given) and all(_is_given(case, each) for each in given)


def _is_given(case: Case, argument: Argument) -> bool:
    if is_judged_as_moment(argument) or is_requested(case, argument) or is_chosen(case, argument):
        return True
    return argument.rule.role is Role.QUANTITY and is_computed(case, argument)


def _find_letter(case: Case, places: Sequence[Destination]) -> list[Text]:
    """Find the fields of the only letter with addresses, if all of them receive but for one at most.

    That one may be the reader's own. No reader gets the answer alone, and neither does one of another letter. One
    output shows the letter as a single record. In another its headers may be records of their own.
    """
    fields = _list_address_fields(case)
    steps = {text.origin.step for text in fields}
    keys = {step: _list_keys(text for text in fields if text.origin.step == step) for step in steps}
    reached = {place.alike[-1] for place in places}
    if len({*keys.values()}) != 1 or not all(_is_named(case, text) for text in fields):
        return []
    known = next(iter(keys.values()))
    single = any(case.ledger.count_items(text.origin) <= 1 for text in fields)
    return fields if single and reached <= known and len(reached) >= max(SEVERAL, len(known) - 1) else []


def _list_address_fields(case: Case) -> list[Text]:
    """List the fields of all that was read that consist of addresses, without the numbers of messages."""
    fields = (text for text in list_all_authored(case) if text.origin.path and list_addresses(text.body))
    return [text for text in fields if not _MESSAGE.fullmatch(text.body.strip())]


def _list_keys(texts: Iterable[Text]) -> frozenset[str]:
    return frozenset[str]().union(*(list_address_keys(text.body) for text in texts))


def _find_texts_of_author(case: Case, place: Destination) -> list[Text]:
    """Find the texts that show an address, if the principal means its owner.

    One of them is a named document. The address is the only one in the fields of all that was read that shows a name of
    the request, but for other persons. One without a name may be the same person's. Where none shows such a name, it is
    the only address of all, or in the only line with a name of the request, and the content has something that only the
    principal said.
    """
    key, fields = place.alike[-1], _list_address_fields(case)
    said = [text for text in fields if _shows_said_name(case, text)]
    if said:
        homes = list_homes(said)
        meant = [text for text in fields if text not in said and _may_be_meant(case, text, homes)]
        fields = [*meant, *_list_rivals(case, said, key)]
    elif _says_more(case, frozenset()):
        fields = [text for text in fields if not _is_outside_list(case, text)]
    else:
        return []
    own = [text for text in fields if key in list_address_keys(text.body)]
    if (own or said) and _list_keys(fields) != {key}:
        return []
    own = own or _find_row(case, key)
    return own if any(_is_named(case, text) for text in own) else []


def _is_outside_list(case: Case, text: Text) -> bool:
    """Check whether a field is outside of a list of records, such as its owner's, and the words name nothing there."""
    if item_of(text.origin.path) or not case.ledger.count_items(text.origin):
        return False
    shown = (each for each in case.ledger.list_texts_of_step(text.origin.step) if len(each.body) <= CHOICE)
    return not any(case.ledger.asked.chooses(each.body) for each in shown if not item_of(each.origin.path))


def _find_row(case: Case, key: str) -> list[Text]:
    """Find the text with an address in the only line of all that has an address and a name from the request.

    The line has no other address. A name has a capital in the line and in the request, and begins no request.
    """
    texts = list_all_authored(case)
    if sum(len(text.body) for text in texts) > PAGE:
        return []
    rows = {line.strip(): text for text in texts for line in text.body.split("\n") if "@" in line}
    naming = [line for line in rows if _shows_said_capital(case, _ADDRESS.sub(" ", line))]
    found = [parse_destination(each).alike[-1] for line in naming for each in _ADDRESS.findall(line)]
    return [rows[naming[0]]] if len(naming) == 1 and found == [key] else []


def _shows_said_capital(case: Case, line: str) -> bool:
    request = case.ledger.asked
    words = (match[0] for match in _CAPITAL.finditer(line))
    return any(request.mentions(word) and not begins_request(request, word) for word in words)


def list_all_authored(case: Case) -> Sequence[Text]:
    """List all untrusted texts, with the addresses that a declaration calls records: their author fills them too."""
    texts = case.read_texts
    return (*texts, *(text for text in case.records if _is_authored(case, text))) if texts else ()


def _is_authored(case: Case, text: Text) -> bool:
    """Check whether a record is an address that a source's author fills. Without a declaration it would be a text."""
    if text.standing is not Standing.RECORD or text.formed or not list_addresses(text.body):
        return False
    return case.is_of_source(text)


def _is_named(case: Case, text: Text) -> bool:
    """Check whether the principal named a text, or its output has the records of a named author."""
    return text.asked or any(each.asked for each in case.ledger.list_texts_of_step(text.origin.step))


def _shows_said_name(case: Case, text: Text) -> bool:
    """Check whether the name before an address, or a longer word of it, is one of the request."""
    shown = _read_name(text)
    names = (*list_name_words(text.body), *((shown,) if len(shown) >= TELLING else ()))
    return any(case.ledger.asked.mentions(each, any_case=True) for each in names) or _has_said_name(
        case, text
    )


def _read_name(text: Text) -> str:
    """Read the name before an address; empty without one."""
    name, mark, _ = text.body.partition("<")
    return name.strip(' "') if mark else ""


def _has_said_name(case: Case, text: Text) -> bool:
    """Check whether the request, or a trusted record that it chose, has the name before an address as a whole.

    It has several words with capitals.
    """
    name = _read_name(text)
    if len(name.split()) < SEVERAL or not all(word[0].isupper() for word in name.split()):
        return False
    if case.ledger.asked.mentions(name):
        return True
    return build_mention_pattern(name).search(case.chosen_things) is not None


def _list_rivals(case: Case, said: Sequence[Text], key: str) -> list[Text]:
    """List the fields with a name that was said, but for those of other persons than the owner of an address.

    Another person has another record and another name, and both names are as a whole in the request or in a record that
    it chose.
    """
    own = [text for text in said if key in list_address_keys(text.body)]
    if not own or not all(_has_said_name(case, text) for text in own):
        return [*said]
    homes, words = list_homes(own), frozenset[str]().union(*(list_name_words(text.body) for text in own))
    return [
        each
        for each in said
        if record_of(each.origin) in homes
        or not words.isdisjoint(list_name_words(each.body))
        or not _has_said_name(case, each)
    ]


def _may_be_meant(case: Case, text: Text, homes: frozenset[tuple[str, int, str]]) -> bool:
    """Check whether an address without a name may belong to the person who is named in some records.

    It is of another record, or has a word of the request itself.
    """
    if "<" in text.body:
        return False
    words = _list_words(text.body)
    return record_of(text.origin) not in homes or any(
        case.ledger.asked.mentions(each, any_case=True) for each in words
    )


def _says_more(case: Case, avoided: frozenset[str]) -> bool:
    """Check whether the content has a word of the principal's that none of the texts that were read holds.

    A text that dictates an answer dictates its words. Parts of the request with one of the ``avoided`` words do not
    count.
    """
    parts = (_list_words(part) for words in case.ledger.asked.audible for part in _PART.split(words))
    said = frozenset[str]().union(*(words for words in parts if words.isdisjoint(avoided)))
    sent = frozenset[str]().union(*(_list_words(each.body[:PAGE]) for each in case.content))
    texts = (*case.read_texts, *(text for text in case.records if text.formed))
    read = frozenset[str]().union(*(_list_words(text.body[:PAGE]) for text in texts))
    return not (sent & said) <= read


def _list_words(text: str) -> frozenset[str]:
    return frozenset(word for word, _, _ in find_words(text) if len(word) >= TELLING)


def _is_another_meant(case: Case, own: Sequence[Text], places: Sequence[Destination]) -> bool:
    """Check whether a trusted listener has another address under a name that the author shows and the request says.

    So does an address that looks like one of the request. If the request chose a trusted one, the content has
    something that the principal said of nobody there. Without content, nobody else is in the request.
    """
    if not case.content and _names_another(case, own):
        return True
    named = [key for form, key in case.ledger.asked.places if form is PlaceForm.ADDRESS]
    if any(imitates(place, key) for key in named for place in places):
        return True
    keys = {place.alike[-1] for place in places}
    trusted = [text for text in case.records if not case.is_of_source(text)]
    others = [text for text in trusted if not list_address_keys(text.body) <= keys]
    if not others:
        return False
    claimed = {word for word in _list_words_of(case, own) if case.ledger.asked.mentions(word, any_case=True)}
    if not claimed.isdisjoint(_list_words_of(case, others)):
        return True
    chosen = [text for text in others if text.chosen]
    return bool(chosen) and not _says_more(case, _list_words_of(case, chosen))


def _names_another(case: Case, own: Sequence[Text]) -> bool:
    """Check whether the request has an address, or a name that is neither the author's nor of a thing that was read.

    A record with another address is no thing, and what the author's record says next to the name does not count.
    """
    request, keys = case.ledger.asked, _list_keys(own)
    if any(form is PlaceForm.ADDRESS for form, _ in request.places):
        return True
    texts = [*case.read_texts, *case.records]
    apart = list_homes((*own, *(text for text in texts if not list_address_keys(text.body) <= keys)))
    short = (text for text in texts if len(text.body) <= CHOICE and not has_prose(text.body))
    things = (text.body for text in short if record_of(text.origin) not in apart)
    known = frozenset(word for body in (*map(_read_name, own), *things) for word, _, _ in find_words(body))
    names = request.derive_once(_list_names)
    return any(known.isdisjoint(word for word, _, _ in find_words(name)) for name in names)


def _list_names(texts: Iterable[str]) -> tuple[str, ...]:
    """List the words in capitals, those in a row together, but for the first of each sentence.

    A script without small letters has nothing else.
    """
    parts = (
        part
        for text in texts
        for each in split_sentences(text)
        for part in _PART.split(f"{each[:1].lower()}{each[1:]}")
    )
    runs = (groupby(part.split(), _begins_as_name) for part in parts)
    return tuple(" ".join(words) for run in runs for is_name, words in run if is_name)


def _begins_as_name(word: str) -> bool:
    letters = word.strip("\"'()’“”„«»")
    return (
        len(letters) >= SEVERAL
        and not any(map(str.isdigit, letters))
        and letters[0].isalpha()
        and not letters[0].islower()
    )


def _list_words_of(case: Case, texts: Sequence[Text]) -> frozenset[str]:
    """List the words in the fields of the records of some texts, but for prose."""
    homes, steps = list_homes(texts), {text.origin.step for text in texts}
    fields = (text for step in steps for text in case.ledger.list_texts_of_step(step))
    bodies = (text.body for text in fields if record_of(text.origin) in homes and not has_prose(text.body))
    return frozenset[str]().union(*map(_list_words, bodies))


def _takes_along(case: Case, own: Sequence[Text], places: Sequence[Destination]) -> bool:
    """Check whether an answer has something that is another's: an address, a stranger's words, or a trusted value.

    The words chose a record to speak of it, so that only its addresses, numbers and accounts count.
    """
    homes = {(source, step, each) for source, step, item in list_homes(own) for each in ("", item)}
    written = [fold(text.body) for text in case.read_texts if record_of(text.origin) in homes]
    repeated = (
        text
        for text in find_repeated(case, [each for each in case.arguments if each not in case.receivers])
        if not text.chosen or names_receiver(text.body) or is_grouped_number(text.body.strip())
    )
    return (
        not has_no_other_address(case, places)
        or any(not any(fold(text.body) in form for form in written) for text in repeated)
        or not quotes_only(case, lambda text: record_of(text.origin) in homes)
    )


def has_no_other_address(case: Case, places: Sequence[Destination]) -> bool:
    """Check whether the content of a call has no address but those of some receivers and named ones.

    Content with another address may be more than content: a subject with a second line adds a receiver.
    """
    content = [each.body for each in case.content]
    if any(len(body) > LISTED for body in content):
        return False
    known = {place.alike[-1] for place in places}
    others = [each for body in content for each in find_recipients(body) if "@" in each.written]
    return all(each.alike[-1] in known or case.ledger.asked.names(each) for each in others)


def quotes_only(case: Case, is_own: Callable[[Text], bool]) -> bool:
    """Check whether the content repeats no untrusted text but some; False if it has too many values to look up."""
    found = (match for each in case.content for match in matching.find_content(case.ledger, each.body))
    try:
        return all(is_own(match.evidence.text) for match in found)
    except TooManyValues:
        return False


def find_repeated(case: Case, arguments: Sequence[Argument]) -> Iterator[Text]:
    """Find the values of trusted listeners that some arguments repeat, and that the principal did not say.

    A part of running text is a value as well, unless the principal said it.
    """
    sent = [fold(each.body) for each in arguments]
    parts: frozenset[bytes] | None = None
    for text in case.records:
        form = fold(text.body)
        repeats = len(form) >= TELLING and any(form in each for each in sent)
        if not repeats and has_prose(text.body):
            parts = _list_own_parts(case, arguments) if parts is None else parts
            repeats = not parts.isdisjoint(_list_parts(text.body))
        if repeats and not (case.is_of_source(text) or case.ledger.asked.mentions(text.body, any_case=True)):
            yield text


def _list_own_parts(case: Case, arguments: Sequence[Argument]) -> frozenset[bytes]:
    """List the parts of some arguments that the principal did not say."""
    sent = frozenset[bytes]().union(*(_list_parts(each.body) for each in arguments))
    return sent.difference(*map(_list_parts, case.ledger.asked.audible))


def _list_parts(text: str) -> frozenset[bytes]:
    """List the parts of a text, each as long as a span of an untrusted text that counts as evidence."""
    form = fold_bytes(text[:LISTED])
    return frozenset(form[at : at + SPAN] for at in range(len(form) - SPAN + 1))


def _is_number_of_answered(case: Case, argument: Argument, places: Sequence[Destination]) -> bool:
    """Check whether a value is the number of a message whose record shows an address that receives.

    The number looks like an address. At worst it is one of whoever wrote the message, who is the receiver.
    """
    body, texts = argument.body.strip(), list_all_authored(case)
    homes = list_homes(text for text in texts if text.asked and text.body.strip() == body)
    shown = _list_keys(text for text in texts if record_of(text.origin) in homes)
    return not shown.isdisjoint(place.alike[-1] for place in places)
