"""Strangers' texts in place of what the request gives or chose, such as where a customer lives.

A call that nobody declared takes a postal address as content. The request chose the customer, whose record has one, and
a mail asks for another: *deliver to No. 121, please*. A line calls the value of a field content, and the request gives
it; a mail spells the link otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.evidence.authority import find_tokens
from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.readings import read_amount_key, read_amounts
from agentserver.provenance.judging.amounts import list_given_amounts
from agentserver.provenance.judging.authority import is_requested
from agentserver.provenance.policy.forms import is_long, is_single_digit, names_receiver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.verdict import Evidence

WORDS: Final = 2
"""Minimum words without a digit of a text with a number, such as an address."""


def find_swapped(case: Case) -> Iterator[tuple[Argument, Evidence]]:
    """Find content that a stranger wrote and that has the form of what the request gives or chose.

    The form is that of a postal address in a trusted record that was chosen: a short text of words with a number. A
    declaration of the argument, the request, or a chosen record with the same text allows it. Content by declaration
    has the form of an amount, or of an address or a link, and the request gives one that the call has not.

    Raises:
        TooManyValues: the content has more values than are looked up.
    """
    yield from _find_swapped_values(case)
    yield from _find_swapped_fields(case)


def _find_swapped_fields(case: Case) -> Iterator[tuple[Argument, Evidence]]:
    """Find undeclared content that is another postal address than that of a record that was chosen."""
    suspects = [
        each
        for each in case.content
        if not each.rule.declared and _is_address(each.body) and not is_requested(case, each)
    ]
    if not suspects or not case.ledger.records.has_chosen:
        return
    own = {fold(text.body) for text in case.chosen_records if _is_address(text.body)}
    for argument in suspects if own else ():
        evidence = None if fold(argument.body) in own else matching.find_origin(case.ledger, argument.body)
        if evidence is not None:
            yield argument, evidence


def _find_swapped_values(case: Case) -> Iterator[tuple[Argument, Evidence]]:
    """Find declared content that is another amount, address or link than the one that the request gives."""
    for argument in case.content:
        if not argument.rule.declared or is_requested(case, argument):
            continue
        amounts = read_amounts(argument.leaf.value)
        if amounts:
            # A single word may be no number: *the one in the mail*. A single digit may count or name anything.
            said = list_given_amounts(case, argument) & case.said_amounts
            given = {key for key in said if not is_single_digit(str(read_amount_key(key)))}
            is_other = bool(given) and not amounts <= given
        else:
            is_other = names_receiver(argument.body) and bool(_list_given_receivers(case))
        evidence = matching.find_origin(case.ledger, argument.body) if is_other else None
        if evidence is not None:
            yield argument, evidence


def _list_given_receivers(case: Case) -> set[str]:
    """List the addresses and links of the request but those that name a document or that the call has."""
    said = {
        token
        for words in case.ledger.asked.audible
        for token, _ in find_tokens(words)
        if names_receiver(token)
    }
    return {
        token
        for token in said - case.document_names
        if not any(token in each.body for each in case.arguments)
    }


def _is_address(body: str) -> bool:
    """Check whether a text is short and has words and a number, as a postal address has in any language with spaces."""
    words = [] if is_long(body) else body.split()
    numbers = sum(any(map(str.isdigit, word)) for word in words)
    return 0 < numbers <= len(words) - WORDS
