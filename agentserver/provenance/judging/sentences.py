"""Values that one sentence of the request leaves to the one document that it names.

*Move the dry cows to the paddock that the notes on F-03 call ready* says what is moved and who knows where to. A
sentence that asks a question leaves nothing open, and neither do two sentences together: *what does the manual of WM-14
say? The machine is dev-wm* names a document and a machine, and wants nothing done with it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.lexicon import find_words
from agentserver.provenance.judging.authority import is_requested, list_chosen_fields, list_homes
from agentserver.provenance.judging.rows import CODE
from agentserver.provenance.observations.choosing import LETTERS
from agentserver.provenance.policy.forms import is_single_digit
from agentserver.provenance.request.trusted_words import has_form_of, list_telling_words, split_sentences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.request.trusted_words import TrustedWords

PEERS: Final = 8
"""Maximum other choices, amounts and times of the call."""
LENGTH: Final = 1 << 14
"""Maximum characters of the document."""

_CHOSEN: Final = {Role.SELECTOR, Role.QUANTITY, Role.TIME}


def is_left_to_sentence(case: Case, argument: Argument) -> bool:
    """Check whether a sentence of the request leaves a code to the one document that it names.

    The sentence asks no question and holds every other choice, amount and time of the call, and one of them is not the
    document's name. The document is one record. It has no other code of this shape, or one sentence with such a code
    that has a word of the request; words that name the document or a record of the call do not count. The request has
    no code of this shape, with its letters, itself.
    """
    body = argument.body.strip()
    if argument.rule.role is not Role.SELECTOR or argument.rule.id or not CODE.fullmatch(body):
        return False
    if case.ledger.overflow or case.receivers:
        return False
    said = " ".join(case.ledger.asked.audible)
    shape = _shape(body, letters=True)
    if any(_shape(match[0], letters=True) == shape for match in CODE.finditer(said)):
        return False
    peers = [each for each in case.arguments if each is not argument and _is_peer(case, each)]
    if not 0 < len(peers) <= PEERS:
        return False
    orders = (order for order in case.orders if all(_is_said_in(case, order, each) for each in peers))
    return any(_leaves_open(case, order, peers, body) for order in orders)


def _is_peer(case: Case, argument: Argument) -> bool:
    """Check whether an argument has to be said: one of several listed values, and a single digit, are judged alone."""
    is_weighty = argument.rule.role in _CHOSEN and not is_single_digit(argument.body)
    return is_weighty and not case.is_listed_option(argument)


def _find_codes_like(case: Case, code: str, text: str) -> frozenset[str]:
    """Find the codes of a text with the shape of another one, but those that the request gives."""
    codes = {match[0] for match in CODE.finditer(text) if _shape(match[0]) == _shape(code)}
    return frozenset(each for each in codes if not case.ledger.asked.mentions(each, any_case=True))


def _shape(code: str, *, letters: bool = False) -> str:
    """Return a code with one mark for each run of digits, and for each run of letters as well unless they count."""
    shape = re.sub(r"\d+", "0", code.casefold())
    return shape if letters else re.sub(r"[^\W\d_]+", "a", shape)


def _is_said_in(case: Case, order: TrustedWords, peer: Argument) -> bool:
    """Check whether a sentence of the request holds a value, or names the chosen record that the value is from."""
    if is_requested(case.copy_for_words(order), peer):
        return True
    homes = list_homes(list_chosen_fields(case, [peer]))
    return any(record_of(text.origin) in homes for text in _list_chosen(case, order))


def _list_chosen(case: Case, order: TrustedWords) -> list[Text]:
    """List the fields of chosen records that a sentence of the request holds."""
    fields = (text for text in case.records if text.chosen and len(text.body.strip()) >= LETTERS)
    return [text for text in fields if order.mentions(text.body, any_case=True)]


def _leaves_open(case: Case, order: TrustedWords, peers: Sequence[Argument], code: str) -> bool:
    """Check whether the document that a sentence names gives a code alone, or in the only sentence that is meant."""
    own = frozenset(word for each in peers for word in _list_own_words(case, each))
    texts = _list_named(case, order, own)
    is_single = len(list_homes(texts)) == 1
    if not is_single or sum(len(text.body) for text in texts) > LENGTH:
        return False
    units = [unit for text in texts for unit in split_sentences(text.body)]
    found = {unit: codes for unit in units if (codes := _find_codes_like(case, code, unit))}
    if all(codes == {code} for codes in found.values()):
        return bool(found)
    names = " ".join(name for text in texts for name in text.names)
    said = list_telling_words(" ".join(order.queries)) - own - list_telling_words(names)
    meant = [codes for unit, codes in found.items() if has_form_of(unit, said)]
    return meant == [{code}]


def _list_own_words(case: Case, peer: Argument) -> Iterator[str]:
    """List the words of an argument, and of the chosen record that it is from."""
    fields = (text.body for text in list_chosen_fields(case, [peer]))
    return (word for body in (peer.body, *fields) for word in _list_words(body))


def _list_named(case: Case, order: TrustedWords, own: frozenset[str]) -> list[Text]:
    """List the texts of the documents, and of the records of sources, that a sentence of the request names.

    A name is no word of the call's own: what is found under these is about the thing, not what the sentence speaks of.
    A record needs a field with a digit, which is an id.
    """
    fields = [text for text in _list_chosen(case, order) if any(map(str.isdigit, text.body))]
    homes = list_homes(text for text in fields if _names_more(text.body, own))
    return [
        text
        for text in case.read_texts
        if record_of(text.origin) in homes
        or (
            text.asked and any(order.mentions_plainly(name) and _names_more(name, own) for name in text.names)
        )
    ]


def _names_more(name: str, own: frozenset[str]) -> bool:
    return any(word not in own for word in _list_words(name))


def _list_words(text: str) -> Iterator[str]:
    """List the folded words of a text, and its numbers."""
    yield from (word for word, _, _ in find_words(text))
    yield from re.findall(r"\d+", text)
