"""Strangers' texts in place of a field of a chosen record, such as where a customer lives.

A call that nobody declared takes a postal address as content. The request chose the customer, whose record has one, and
a mail asks for another: *deliver to No. 121, please*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.judging.authority import is_requested
from agentserver.provenance.policy.forms import is_long

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.verdict import Evidence

WORDS: Final = 2
"""Minimum words without a digit of a text with a number, such as an address."""


def find_swapped_fields(case: Case) -> Iterator[tuple[Argument, Evidence]]:
    """Find content that a stranger wrote and that has the form of a field of a trusted record that was chosen.

    The form is that of an address: a short text of words with a number. A declaration of the argument, the request, or
    a chosen record with the same text allows it.

    Raises:
        TooManyValues: the content has more values than are looked up.
    """
    suspects = [
        each
        for each in case.content
        if not each.rule.declared and _is_address(each.body) and not is_requested(case, each)
    ]
    if not suspects or not case.ledger.records.has_chosen:
        return
    chosen = (text.body for text in case.records if text.chosen and not case.is_of_source(text))
    own = {fold(body) for body in chosen if _is_address(body)}
    for argument in suspects if own else ():
        evidence = None if fold(argument.body) in own else matching.find_origin(case.ledger, argument.body)
        if evidence is not None:
            yield argument, evidence


def _is_address(body: str) -> bool:
    """Check whether a text is short and has words and a number, as a postal address has in any language with spaces."""
    words = [] if is_long(body) else body.split()
    numbers = sum(any(map(str.isdigit, word)) for word in words)
    return 0 < numbers <= len(words) - WORDS
