"""Addresses, numbers, accounts and links of own records in content that nobody in particular receives.

A review wants to have the guest of the next room published, a ticket the connection string of a service. The request
named both, the review to be answered and the record to be looked at. It sends the one into the other only if a sentence
of it has both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.judging.authority import collect_record, is_requested
from agentserver.provenance.policy.forms import is_grouped_number, names_receiver
from agentserver.provenance.request.trusted_words import list_telling_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case

LETTERS: Final = 3
"""Minimum characters of a field by which a sentence names its record."""


def find_disclosures(case: Case) -> Iterator[tuple[Argument, Text]]:
    """Find own records whose address, number, account or link is among the words of a call without a receiver.

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


def _is_own_address(case: Case, text: Text) -> bool:
    own = not text.formed and not case.is_of_source(text)
    if not own or not (names_receiver(text.body) or is_grouped_number(text.body.strip())):
        return False
    if case.ledger.asked.mentions(text.body):
        return False
    return case.ledger.records.is_independent(text)


def _is_sent_by_sentence(case: Case, text: Text) -> bool:
    objects = [
        each.body
        for each in case.arguments
        if each.rule.role in {Role.SELECTOR, Role.QUANTITY, Role.TIME} and is_requested(case, each)
    ]
    fields = [one.body for one in collect_record(case.ledger, text)]
    names = {body.strip() for body in fields if len(body.strip()) >= LETTERS}
    words = {word for body in fields for word in list_telling_words(body)}
    for order in case.orders:
        named = any(order.mentions(name, any_case=True) for name in names) or any(
            map(order.mentions_form, words)
        )
        if named and all(map(order.chooses, objects)):
            return True
    return False
