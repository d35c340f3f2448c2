"""Support of a call by the principal: what the words hold, chose, or leave to a document that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.judging import returns
from agentserver.provenance.judging.authority import (
    is_chosen,
    is_chosen_place,
    is_composed,
    is_in_requested_document,
    is_judged_as_moment,
    is_ordered,
    is_part_of_named_path,
    is_requested,
    is_said_path,
    may_choose,
)
from agentserver.provenance.judging.confirmed import is_confirmed
from agentserver.provenance.judging.destinations import read_places
from agentserver.provenance.judging.left import Place, is_left_to
from agentserver.provenance.judging.lookups import is_ordered_document
from agentserver.provenance.judging.moments import is_moment_left_open, is_ordered_for_moment
from agentserver.provenance.judging.returns import (
    is_count_on_named_page,
    is_currency_of_amount,
    is_option_of_said_label,
    is_part_of_named_page,
)
from agentserver.provenance.ledger import PARTS
from agentserver.provenance.observations.choosing import has_name_part

if TYPE_CHECKING:
    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.verdict import Evidence

LETTERS: Final = 2
"""Minimum characters of a value whose occurrence in a text is significant: a single letter is in every text."""


def is_founded(case: Case, argument: Argument) -> bool:
    """Check whether the principal's words hold or chose a value, or named the document that it comes from."""
    if argument.rule.role is Role.DESTINATION:
        places = read_places(case, argument)
        if is_part_of_named_path(case, argument):
            return True
        return any(
            is_ordered(case, place) or is_chosen_place(case, place) or is_ordered_document(case, place)
            for place in places
        )
    if argument.rule.role is Role.OPTION and any(
        each.rule.role not in {Role.INERT, Role.OPTION} for each in case.arguments
    ):
        return False
    if argument.rule.role is Role.INERT or len(argument.body.strip()) < LETTERS:
        return False
    if is_requested(case, argument) or has_name_part(case.ledger.asked, argument.body):
        return True
    return argument.rule.role is Role.SELECTOR and (
        is_chosen(case, argument)
        or is_in_requested_document(case, argument)
        or is_confirmed(case, argument)
        or is_left_to(case, argument, Place.ROW)
        or is_composed(case, argument, supports=True)
        or is_said_path(case, argument)
    )


def is_of_named_page(case: Case, argument: Argument) -> bool:
    """Check whether a value is a handle or label of the named page, or an option of it."""
    return is_part_of_named_page(case, argument) or is_option_of_said_label(case, argument)


def goes_back(case: Case, argument: Argument) -> bool:
    """Check whether a choice is a part of the named page, or the request leaves the value to the named document.

    The principal's words or a chosen record support something else in the call.
    """
    is_part = len(case.arguments) <= PARTS and is_of_named_page(case, argument)
    if is_part or is_count_on_named_page(case, argument):
        return True
    if len(case.arguments) > returns.ARGUMENTS:
        return False
    alone = (Place.SENTENCE, Place.COPY)
    if is_currency_of_amount(case, argument) or any(is_left_to(case, argument, place) for place in alone):
        return True
    named = is_left_to(case, argument, Place.ROW)
    if argument.rule.role is Role.SELECTOR and (
        named or (_pays_as_ordered(case) and is_left_to(case, argument, Place.TITLES))
    ):
        return True
    if is_judged_as_moment(argument):
        is_open = named or is_moment_left_open(case, argument)
        return is_open and (is_ordered_for_moment(case) or _is_founded_elsewhere(case, argument))
    return (named or is_left_to(case, argument, Place.DOCUMENTS)) and _is_founded_elsewhere(case, argument)


def _pays_as_ordered(case: Case) -> bool:
    """Check whether a call gives an amount with an author to receivers that the principal named or chose."""
    amounts = [each for each in case.arguments if each.rule.role is Role.QUANTITY]
    if not (case.receivers and amounts and all(is_founded(case, each) for each in case.receivers)):
        return False
    return all(may_choose(case, each) or goes_back(case, each) for each in amounts)


def _is_founded_elsewhere(case: Case, argument: Argument) -> bool:
    """Check whether the request supports something else in the call. Next to an amount a choice is meant itself."""
    founded = (each for each in case.arguments if each is not argument and is_founded(case, each))
    amount = argument.rule.role is Role.QUANTITY
    return any(
        not amount or each.rule.role is not Role.SELECTOR or _is_meant_itself(case, each) for each in founded
    )


def _is_meant_itself(case: Case, argument: Argument) -> bool:
    """Check whether the words hold or choose a thing itself, which a named document may only refer to."""
    return is_requested(case, argument) or is_chosen(case, argument)


def find_inside(case: Case, body: str) -> Evidence | None:
    """Find untrusted words inside a composed value, such as a command or a query."""
    return next((match.evidence for match in matching.find_content(case.ledger, body)), None)
