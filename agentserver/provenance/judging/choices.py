"""Checks the choices, amounts, times and options of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.provenance import matching
from agentserver.provenance.evidence.labels import Role, split_name
from agentserver.provenance.evidence.leaves import build_amount_keys
from agentserver.provenance.evidence.readings import read_moment
from agentserver.provenance.exits import count_option_bits
from agentserver.provenance.judging.authority import (
    climbs_out,
    is_command_of_said_word,
    is_dictated_record,
    is_passed_over,
    may_choose,
)
from agentserver.provenance.judging.counts import is_coincidence
from agentserver.provenance.judging.support import find_inside, goes_back
from agentserver.provenance.observations.occurrences import TooManyValues
from agentserver.provenance.policy import forms
from agentserver.provenance.policy.declarations import Rule, list_alternatives
from agentserver.provenance.request.trusted_words import list_home_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.verdict import Evidence, Finding


def check_choice(case: Case, argument: Argument) -> Iterator[Finding]:
    """Check a value that selects a thing to act on, an amount or a time.

    A value from untrusted text is always found, one of unknown origin only if it is suspect. Quantities, times, values
    of several words and undeclared selectors may be computed, so they are found only in untrusted text.
    """
    if not case.ledger.tainted or case.is_warranted(argument):
        return
    if isinstance(argument.leaf.value, bool):
        yield from _check_grant(case, argument)
        return
    if case.is_suspect(argument) and (strayed := _describe_stray(case, argument)):
        yield case.make_finding(Rule.UNKNOWN_SELECTOR, argument, strayed)
        return
    if may_choose(case, argument) or goes_back(case, argument):
        return
    suspect = _needs_author(case, argument) and case.is_suspect(argument)
    if suspect and case.is_settled(Rule.SELECTOR, Rule.UNKNOWN_SELECTOR, Rule.BOUND):
        yield case.make_finding(Rule.UNKNOWN_SELECTOR, argument)
        return
    try:
        evidence = _find_dictation(case, argument)
    except TooManyValues:
        yield case.make_finding(Rule.BOUND, argument, "more values than are looked up")
        return
    if evidence and not is_coincidence(case, argument):
        yield case.make_finding(Rule.SELECTOR, argument, "", evidence)
    elif suspect:
        yield case.make_finding(Rule.UNKNOWN_SELECTOR, argument)


def _describe_stray(case: Case, argument: Argument) -> str:
    """Describe how a choice leaves what the principal named; empty if it does not."""
    if is_passed_over(case, argument):
        return "the request chose another record"
    if is_dictated_record(case, argument):
        return "a text that the request does not name says which record"
    return "it leaves a folder that it names" if climbs_out(case, argument) else ""


def _needs_author(case: Case, argument: Argument) -> bool:
    """Check whether a value is a declared choice that is neither computed nor one of several listed values."""
    if argument.rule.role is not Role.SELECTOR or not argument.rule.declared:
        return False
    is_computed = forms.is_running_text(argument.body) or is_command_of_said_word(case, argument)
    return not (is_computed or case.is_listed_option(argument))


def check_amounts(case: Case) -> Iterator[Finding]:
    """Find a declared amount or time of unknown origin that a suspect sender gives to a receiver.

    It may have been computed, so that by default a person is asked about it, and nothing is blocked.
    """
    if not case.receivers:
        return
    for argument in case.arguments:
        weighty = argument.rule.declared and argument.rule.role in {Role.QUANTITY, Role.TIME}
        if not weighty or not case.is_suspect(argument) or case.is_warranted(argument):
            continue
        if not (may_choose(case, argument) or goes_back(case, argument)):
            yield case.make_finding(Rule.UNKNOWN_AMOUNT, argument)


def _find_dictation(case: Case, argument: Argument) -> Evidence | None:
    """Find an untrusted text that holds a choice in any spelling or unit, a piece of it, or a command in it."""
    spellings = (argument.body, *list_home_paths(argument.body))
    evidence = next(filter(None, (matching.find_origin(case.ledger, each) for each in spellings)), None)
    evidence = evidence or find_inside(case, argument.body)
    evidence = evidence or matching.find_command(case.ledger, argument.body, argument.rule.values)
    if evidence is None and argument.rule.role is Role.QUANTITY:
        evidence = _find_in_other_units(case, argument)
    return evidence or _find_other_time(case, argument)


def _find_other_time(case: Case, argument: Argument) -> Evidence | None:
    """Find an untrusted text with the time of day of a moment whose day the request gives with another time."""
    moment = read_moment(argument.leaf.value) if argument.rule.role in {Role.SELECTOR, Role.TIME} else None
    if moment is None or moment.clock is None:
        return None
    keys = case.ledger.asked.read_values(case.policy.conventions)
    if not moment.is_at_other_time(keys, case.call.time):
        return None
    found = (matching.find_origin(case.ledger, each) for each in moment.clock.list_spellings())
    return next(filter(None, found), None)


def _check_grant(case: Case, argument: Argument) -> Iterator[Finding]:
    """Check a flag that is declared as a choice, such as ``public``: the principal's words must hold its name."""
    chosen = argument.rule.role in {Role.SELECTOR, Role.OPTION}
    granted = argument.leaf.value is True and argument.rule.declared and chosen
    if not granted or not case.is_suspect(argument) or case.is_warranted(argument):
        return
    name = " ".join(split_name(argument.rule.name))
    if not (argument.body in argument.rule.values or case.ledger.asked.mentions(name, any_case=True)):
        yield case.make_finding(Rule.UNKNOWN_SELECTOR, argument)


def check_option(case: Case, argument: Argument) -> Iterator[Finding]:
    """Check a choice among the values that the tool's schema lists.

    A document that the principal named may make it while the conversation's budget lasts, in a call without a receiver,
    if the principal's words also name the argument or the sink: nothing but such a name tells a state from a grant, and
    a grant needs an author. Where the role is declared, any text may. A truth value chooses once the budget is spent.
    """
    bits = sum(count_option_bits(case.ledger, case.call, each.leaf, each.rule) for each in case.arguments)
    affordable = case.ledger.exit_bits + bits <= case.policy.exit_budget
    if isinstance(argument.leaf.value, bool):
        yield from () if affordable else _check_grant(case, argument)
        return
    listed = bool(list_alternatives(case.call, argument.leaf)) and affordable
    if listed and argument.rule.declared:
        return
    is_open = listed and not case.receivers and _is_mentioned(case, argument.rule.name, case.call.sink)
    is_open = is_open and not _gives_other_option(case, argument)
    for finding in check_choice(case, argument):
        if not (is_open and finding.evidence is not None and finding.evidence.text.asked):
            yield finding


def _gives_other_option(case: Case, argument: Argument) -> bool:
    """Check whether the principal's words give the argument another value before its name, as *light fare* does."""
    name = " ".join(split_name(argument.rule.name))
    given = (
        f"{each} {name}" for each in list_alternatives(case.call, argument.leaf) if each != argument.body
    )
    return _is_mentioned(case, *given)


def _is_mentioned(case: Case, *names: str) -> bool:
    """Check whether the principal's words hold a name of an argument or a sink, as written or in words."""
    request = case.ledger.asked
    return any(
        request.mentions(form, any_case=True) for name in names for form in (name, " ".join(split_name(name)))
    )


def _find_in_other_units(case: Case, argument: Argument) -> Evidence | None:
    """Find an untrusted text with the same amount unsigned or in a unit 100 times as large.

    An amount in cents is thus found in a text that gives dollars; the principal's own amount counts in either unit.
    """
    kinds = build_amount_keys(argument.leaf.value)
    if not case.ledger.asked.kinds.isdisjoint(kinds):
        return None
    found = (matching.find_number(case.ledger, argument.body, kind) for kind in kinds)
    return next(filter(None, found), None)
