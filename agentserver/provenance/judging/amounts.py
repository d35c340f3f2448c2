"""Amounts that the request leaves to the documents that it names, and those that it gives itself.

The amounts of the documents are candidates, without numbers that name a thing, those that make a total, and those that
a trusted record of the call has next to the new one. If one is left, the request leaves it to them, unless it gives an
amount that the call does not use and that is no limit, or chose another record for its amount.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.authority import build_mention_pattern
from agentserver.provenance.evidence.leaves import format_text
from agentserver.provenance.evidence.readings import (
    build_amount_key,
    list_currencies,
    read_amount_key,
    read_amount_places,
    read_amounts,
    read_moment,
)
from agentserver.provenance.evidence.totals import CENTS, find_total, list_amounts, split_paragraphs
from agentserver.provenance.judging.authority import list_chosen_fields
from agentserver.provenance.request.limits import find_number_words
from agentserver.provenance.request.trusted_words import split_sentences

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.request.limits import Limits

LENGTH: Final = 1 << 14
"""Maximum characters of all texts in which an integer is looked for, at about 1 µs for each."""
NUMBERS: Final = 8
"""Maximum numbers from which an amount is computed."""

_YEAR: Final = re.compile(r"(?:19|20)\d\d")


def is_within_limits(case: Case, argument: Argument) -> bool:
    """Check whether an amount is within the limits that the request gives."""
    limits = case.limits
    amounts = map(read_amount_key, read_amounts(argument.leaf.value))
    return limits is not None and all(map(limits.allow, amounts))


def is_computed(case: Case, argument: Argument) -> bool:
    """Check whether an amount is a sum, difference, product or share of up to three numbers.

    They are of the request, which has two or more, and of the records that it chose.
    """
    if len(case.said_amounts) <= 1:
        return False
    chosen = (key for text in case.records if text.chosen for key in read_amounts(text.body))
    said = {*case.said_amounts, *case.ledger.asked.derive_once(find_number_words), *chosen}
    if len(said) > NUMBERS:
        return False
    numbers = [*map(read_amount_key, sorted(said))]
    made = {*numbers}
    for _ in range(2):
        made |= {value for one in made for other in numbers for value in _combine(one, other)}
    return not read_amounts(argument.leaf.value).isdisjoint(map(build_amount_key, made))


def _combine(one: Decimal, other: Decimal) -> Iterator[Decimal]:
    share = one * other / 100
    yield from (
        round(each, CENTS)
        for each in (one + other, one - other, one * other, share, one - share, one + share)
    )


def is_only_amount(case: Case, argument: Argument) -> bool:
    """Check whether an amount is the only one of the named documents, and the request leaves it to them.

    An amount that the request gives with two readings is one of both. An integer may be in the smaller unit.
    """
    limits = case.limits
    if limits is None or not case.named_text or _is_looked_up(case):
        return False
    stated = read_amounts(argument.leaf.value)
    currencies = list_currencies(case.named_text)
    if limits.is_open:
        if case.said_currencies and not currencies <= case.said_currencies:
            return False
    elif limits.given and not stated <= {*map(build_amount_key, limits.given)}:
        return False
    left, shares = _list_left(case, argument, limits)
    if list_given_amounts(case, argument) - shares or len(left) != 1:
        return False
    [only] = left
    if len(only) > 1 and not (limits.is_open or case.listener.known):
        return False
    return (bool(stated) and stated <= only) or _is_in_smaller_unit(case, argument, only)


def _is_in_smaller_unit(case: Case, argument: Argument, only: frozenset[str]) -> bool:
    """Check whether an integer is the hundredfold of a number with decimals, and no text says this integer.

    It is not if the texts are too long to be read for that.
    """
    value = argument.leaf.value
    if len(only) != 1 or not isinstance(value, int) or isinstance(value, bool):
        return False
    [key] = only
    stated = read_amounts(value)
    if "." not in key or stated != {build_amount_key(read_amount_key(key).scaleb(2))}:
        return False
    bodies, pattern = [text.body for text in case.read_texts], build_mention_pattern(str(value))
    if sum(map(len, bodies)) > LENGTH or any(map(pattern.search, bodies)):
        return False
    places = (place for body in bodies for place in read_amount_places(body, money=False))
    return all(map(stated.isdisjoint, places))


def _is_looked_up(case: Case) -> bool:
    """Check whether the request chose a trusted record with an amount, and the call has no field of it.

    *At the top of the band for the controller*: the agent looked this up for its amount.
    """
    held = {each.body.strip() for each in case.arguments}
    chosen: dict[tuple[str, int, str], list[Text]] = {}
    for text in case.chosen_records:
        chosen.setdefault(record_of(text.origin), []).append(text)
    idle = (texts for texts in chosen.values() if held.isdisjoint(text.body.strip() for text in texts))
    return any(read_amounts(text.body) for texts in idle for text in texts)


def _list_left(case: Case, argument: Argument, limits: Limits) -> tuple[set[frozenset[str]], frozenset[str]]:
    """List the amounts of the named documents from which one is left, and the percentages that made a total.

    If one has a currency, no other of its paragraph counts, and of other paragraphs only those with cents. The amounts
    of a list or a sentence with a total are this one. Neither amounts beyond the limits of the request nor numbers that
    name a thing count.
    """
    paragraphs = [part for body in case.named_texts for part in split_paragraphs(body)]
    amounts = [list_amounts(part) for part in paragraphs]
    money = any(each.money for found in amounts for each in found)
    left, shares = set[frozenset[str]](), frozenset[str]()
    for part, found in zip(paragraphs, amounts, strict=True):
        own = any(each.money for each in found)
        total = find_total(part, found, money=own)
        places = [each.keys for each in found if each.money or not (own or (money and not each.has_cents))]
        if places and total is not None:
            places, shares = [total[0]], shares | total[1]
        left.update(places)
    within = {frozenset(key for key in place if limits.allow(read_amount_key(key))) for place in left}
    labels = _list_labels(case, argument)
    left = {place for place in within if not place <= labels}
    return left - _list_replaced(case, argument, left), shares


def _list_replaced(case: Case, argument: Argument, left: set[frozenset[str]]) -> set[frozenset[str]]:
    """List the amounts that a chosen trusted record of the call has, and that only the sentence of the argument says.

    *From 112 to 85*: one person wrote both.
    """
    if len(left) == 1:
        return set()
    stated = read_amounts(argument.leaf.value)
    texts = list_chosen_fields(case, (each for each in case.arguments if each is not argument))
    known = {key for text in texts if not case.is_of_source(text) for key in read_amounts(text.body)}
    sentences = [
        read_amount_places(sentence, money=False)
        for body in case.named_texts
        for sentence in split_sentences(body)
    ]
    own = [places for places in sentences if any(stated <= place for place in places)]
    others = [place for places in sentences if places not in own for place in places]
    return {
        place
        for place in left
        if len(own) == 1 and place <= known and place in own[0] and place not in others
    }


def list_given_amounts(case: Case, argument: Argument) -> set[str]:
    """List the amounts of the request but limits, and those that name a thing or that the call has elsewhere.

    *Set case 1402 to what report 8813 asks for* gives none for the value.
    """
    limits = case.limits
    given = {*case.said_amounts, *case.ledger.asked.derive_once(find_number_words)}
    if limits is not None and limits.is_open:
        given = (given | limits.bare).difference(map(build_amount_key, limits.most | limits.least))
    if not given:
        return given
    others = (format_text(each.leaf.value) for each in case.arguments if each is not argument)
    return given.difference(_list_labels(case, argument), *map(read_amounts, others))


def _list_labels(case: Case, argument: Argument) -> frozenset[str]:
    """List the numbers that are no amounts, as keys of amounts.

    They are in the name of a document, or a year of a chosen record of the call, or a day in figures that a moment of
    the call is.
    """
    others = [each for each in case.arguments if each is not argument]
    years = (text.body for text in list_chosen_fields(case, others) if _YEAR.fullmatch(text.body))
    moments = filter(None, (read_moment(each.leaf.value) for each in others))
    days = {f"{each.day.day}.{each.day.month}" for each in moments if each.day is not None}
    written = (day for day in days if f"{day}." in case.named_text)  # *12.5* may be the amount
    return frozenset[str]().union(*map(read_amounts, (*case.document_names, *years, *written)))
