"""Values of own records in content that nobody in particular receives.

A review wants to have the guest of the next room published, a ticket the connection string of a service, a shared
document everybody's pay. The request named both, the review to be answered and the record to be looked at. It sends the
one into the other only if a sentence of it has both. An address, a number of a person, an account and a link count
alone, a name and another number together, unless the request chose their record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.authority import build_mention_pattern
from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.readings import read_moment
from agentserver.provenance.judging.authority import is_requested
from agentserver.provenance.observations.occurrences import find_mentions
from agentserver.provenance.policy.forms import is_grouped_number, names_receiver
from agentserver.provenance.request.trusted_words import list_telling_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case

LETTERS: Final = 3
"""Minimum characters of a field by which a sentence names its record."""


def find_disclosures(case: Case) -> Iterator[tuple[Argument, Text]]:
    """Find own records of which a call without a receiver has an address, account or link, or two values, among words.

    An untrusted text or the request may hold the value already, and one sentence of the request may have both all that
    the call chooses of the request and a field or a word of the record.
    """
    if case.receivers or not case.content:
        return
    content = [(argument, fold(argument.body)) for argument in case.content]
    for text in case.records:
        if not _is_own_address(case, text):
            continue
        form = fold(text.body)
        for argument, folded in content:
            if form in folded and form != folded and not _is_sent_by_sentence(case, text):
                yield argument, text
    for argument in case.content:
        yield from _find_records(case, argument)


def _find_records(case: Case, argument: Argument) -> Iterator[tuple[Argument, Text]]:
    """Find unchosen records of trusted listeners with two values in the content, one a number that is no moment."""
    found: dict[tuple[str, int, str], dict[str, Text]] = {}
    for text in case.records:
        body = text.body.strip()
        if len(body) < LETTERS or body not in argument.body or text.chosen or not _is_own(case, text):
            continue
        said = build_mention_pattern(body).search(argument.body, argument.body.find(body))
        if said is not None and not _is_read(case, body):
            found.setdefault(record_of(text.origin), {})[body] = text
    for values in found.values():
        has_number = any(any(map(str.isdigit, body)) and read_moment(body) is None for body in values)
        first = next(iter(values.values()))
        if len(values) > 1 and has_number and not _is_sent_by_sentence(case, first):
            yield argument, first


def _is_read(case: Case, body: str) -> bool:
    """Check whether a stranger's text has a value; not if there are too many texts, or places with its beginning."""
    return bool(case.read_texts) and any(find_mentions(case.ledger.words, case.read_texts, body))


def _is_own_address(case: Case, text: Text) -> bool:
    is_address = names_receiver(text.body) or is_grouped_number(text.body.strip())
    return is_address and _is_own(case, text)


def _is_own(case: Case, text: Text) -> bool:
    """Check whether a value is a trusted listener's alone: neither the request nor a stranger said it."""
    if text.formed or case.is_of_source(text) or case.ledger.asked.mentions(text.body):
        return False
    return case.ledger.records.is_independent(text)


def _is_sent_by_sentence(case: Case, text: Text) -> bool:
    objects = [
        each.body
        for each in case.arguments
        if each.rule.role in {Role.SELECTOR, Role.QUANTITY, Role.TIME} and is_requested(case, each)
    ]
    fields = case.fields_of_records[record_of(text.origin)]
    names = {body.strip() for body in fields if len(body.strip()) >= LETTERS}
    words = {word for body in fields for word in list_telling_words(body)}
    for order in case.orders:
        named = any(order.mentions(name, any_case=True) for name in names) or any(
            map(order.mentions_form, words)
        )
        if named and all(map(order.chooses, objects)):
            return True
    return False
