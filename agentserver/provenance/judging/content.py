"""Checks the content that a call sends to any receiver: untrusted words in it, and calls that nothing else supports."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.evidence.authority import find_entry
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.judging.authority import (
    is_in_requested_document,
    is_listed,
    is_ordered,
    is_recorded,
    is_recorded_by_form,
    is_requested,
    may_choose,
)
from agentserver.provenance.judging.destinations import read_places
from agentserver.provenance.policy.declarations import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.verdict import Evidence, Finding


BEGINNING: Final = 2048
"""Maximum characters of a call that are searched for untrusted words once it has passed."""

LETTERS: Final = 2
"""Minimum characters of a value whose occurrence in a text is significant: a single letter is in every text."""


def check_content(case: Case) -> Iterator[Finding]:
    """Find untrusted words in the content that the call sends."""
    spoken = _list_payloads(case)
    for argument in spoken:
        try:
            for match in matching.find_content(case.ledger, argument.body):
                rule = Rule.LINK if match.link else Rule.CONTENT
                yield case.make_finding(rule, argument, "", match.evidence)
        except matching.TooManyValues:
            if not case.reports_only:
                yield case.make_finding(Rule.BOUND, argument, "more values than are looked up")
    for left, right in pairwise(spoken):
        for evidence in matching.find_across(case.ledger, left.body, right.body):
            yield case.make_finding(Rule.CONTENT, right, "split over two arguments", evidence)


def check_crowding(case: Case) -> Iterator[Finding]:
    """Find arguments with more values than are looked up, without looking any of them up."""
    for argument in _list_payloads(case):
        if matching.has_too_many_values(argument.body):
            yield case.make_finding(Rule.BOUND, argument, "more values than are looked up")


def check_beginnings(case: Case) -> Iterator[Finding]:
    """Find untrusted words that occur verbatim in the first BEGINNING characters of the content."""
    left = BEGINNING
    for argument in _list_payloads(case):
        for match in matching.find_verbatim(case.ledger, argument.body[:left]):
            yield case.make_finding(Rule.LINK if match.link else Rule.CONTENT, argument, "", match.evidence)
        left -= len(argument.body)
        if left <= 0:
            return


def _list_payloads(case: Case) -> list[Argument]:
    return [argument for argument in case.arguments if argument.rule.role is Role.PAYLOAD]


def check_prose(case: Case) -> Iterator[Finding]:
    """Find a recipient that only the request's prose authorises, when the call carries untrusted content."""
    for argument in case.arguments:
        for place in read_places(case, argument) if argument.rule.role is Role.DESTINATION else ():
            if not is_listed(case, place) and not find_entry(case.policy.allow, place):
                yield case.make_finding(Rule.PROSE, argument, "only the wording of the request names it")


def check_foundation(case: Case) -> Iterator[Finding]:
    """Find a steered call of a sink that the principal's words do not support.

    Such a call either has no arguments of its own or repeats untrusted words. It is supported if the principal's words
    hold a destination, a choice or the name of the sink, or if the principal named the document that a choice comes
    from. A destination that the operator allows or that is the principal's own counts as well. A value that is always
    allowed counts neither way.
    """
    if not case.steered or any(_is_founded(case, each) for each in case.arguments):
        return
    if case.ledger.asked.mentions(case.call.sink):
        return
    sent = [argument for argument in case.arguments if argument.leaf.path not in case.call.filled]
    telling = [argument for argument in sent if argument.rule.role is not Role.INERT]
    if not telling and case.listener.known:
        yield case.make_finding(Rule.UNFOUNDED, None, "it takes nothing from the request")
    aimed = next((each for each in telling if each.rule.role is Role.DESTINATION), None)
    if aimed is not None and not case.listener.known:
        yield case.make_finding(Rule.UNFOUNDED, aimed, "only a record names it")
        return
    chosen = (each for each in telling if each.rule.role is not Role.DESTINATION)
    dictated = (_find_dictated(case, each) for each in chosen if each.body not in each.rule.values)
    yield from islice(filter(None, dictated), 1)


def _is_founded(case: Case, argument: Argument) -> bool:
    if argument.rule.role is Role.DESTINATION:
        places = read_places(case, argument)
        return any(is_ordered(case, place) for place in places)
    if argument.rule.role is Role.INERT or len(argument.body.strip()) < LETTERS:
        return False
    return is_requested(case, argument) or (
        argument.rule.role is Role.SELECTOR and is_in_requested_document(case, argument)
    )


def _find_dictated(case: Case, argument: Argument) -> Finding | None:
    """Find an argument that repeats untrusted words, or a choice that they name too, even if a record holds it.

    A short choice occurs in many texts, so an untrusted one among them proves nothing. A longer choice that is a record
    only by the form of an undeclared field may be a stranger's. At an undeclared listener a single word without an
    author counts as dictated; so does text if the listener gets nothing else, such as a command.
    """
    choice = argument.rule.role is not Role.PAYLOAD
    if not case.listener.known:
        if argument.rule.role is Role.SELECTOR and not may_choose(case, argument):
            return case.make_finding(Rule.UNFOUNDED, argument, "it has no known author")
        choice = all(each.rule.role in {Role.PAYLOAD, Role.INERT} for each in case.arguments)
        if not choice:
            return None
    try:
        evidence = next((match.evidence for match in matching.find_content(case.ledger, argument.body)), None)
        if evidence is None and choice and len(fold_bytes(argument.body)) >= matching.SHORT:
            evidence = matching.find_origin(case.ledger, argument.body)
            evidence = evidence or matching.find_command(case.ledger, argument.body, argument.rule.values)
            if (
                evidence is None
                and argument.rule.role is Role.SELECTOR
                and is_recorded_by_form(case, argument)
            ):
                return case.make_finding(
                    Rule.UNFOUNDED, argument, "only a field that anyone can fill holds it"
                )
        if evidence is None and not choice:
            evidence = _find_repeated(case, argument)
    except matching.TooManyValues:
        return case.make_finding(Rule.BOUND, argument, "more values than are looked up")
    if evidence is None or (
        is_recorded(case, argument) and not matching.occurs_in_longer_text(case.ledger, argument.body)
    ):
        return None
    return case.make_finding(Rule.UNFOUNDED, argument, "an untrusted text says so", evidence)


def _find_repeated(case: Case, argument: Argument) -> Evidence | None:
    """Find an untrusted text that holds the whole argument, however short.

    A single letter is in every text. If the call has no destination, a single word proves nothing either, and a
    document that the principal named may say more.
    """
    if len(argument.body.strip()) < LETTERS:
        return None
    evidence = matching.find_origin(case.ledger, argument.body)
    if evidence is None or any(each.rule.role is Role.DESTINATION for each in case.arguments):
        return evidence
    return evidence if len(argument.body.split()) > 1 and not evidence.text.asked else None
