"""The words that a call says, for any receiver: those of strangers among them, and a call that is nothing else.

Owns which rule the content of a call breaks. Refuses to weigh who receives it.
"""

from __future__ import annotations

from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.evidence.authority import matching as entry_for
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.judging.authority import (
    asked_for,
    formed,
    listed,
    may_choose,
    ordered,
    recorded,
    said,
)
from agentserver.provenance.judging.destinations import places_of
from agentserver.provenance.policy.declarations import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.verdict import Evidence, Finding


NOTICED: Final = 2048
"""Characters of what a call says in which untrusted words are looked for once it is let through."""

LETTERS: Final = 2
"""Characters below which that a text holds it says nothing: a letter is in every text."""


def of_content(case: Case) -> Iterator[Finding]:
    """Untrusted words among those that the call says, for any receiver."""
    spoken = _spoken(case)
    for argument in spoken:
        try:
            for match in matching.content(case.ledger, argument.body):
                rule = Rule.LINK if match.link else Rule.CONTENT
                yield case.finding(rule, argument, "", match.evidence)
        except matching.Crowded:
            if not case.telling:
                yield case.finding(Rule.BOUND, argument, "more values than are looked up")
    for left, right in pairwise(spoken):
        for evidence in matching.across(case.ledger, left.body, right.body):
            yield case.finding(Rule.CONTENT, right, "split over two arguments", evidence)


def crowds(case: Case) -> Iterator[Finding]:
    """Arguments with more values than are looked up, which is known without looking any of them up."""
    for argument in _spoken(case):
        if matching.crowded(argument.body):
            yield case.finding(Rule.BOUND, argument, "more values than are looked up")


def of_beginnings(case: Case) -> Iterator[Finding]:
    """Untrusted words in the first NOTICED characters of what the call says, as they are written there."""
    left = NOTICED
    for argument in _spoken(case):
        for match in matching.noticed(case.ledger, argument.body[:left]):
            yield case.finding(Rule.LINK if match.link else Rule.CONTENT, argument, "", match.evidence)
        left -= len(argument.body)
        if left <= 0:
            return


def _spoken(case: Case) -> list[Argument]:
    return [argument for argument in case.arguments if argument.rule.role is Role.PAYLOAD]


def of_prose(case: Case) -> Iterator[Finding]:
    """A recipient that only the request's prose authorises, when the call carries untrusted content."""
    for argument in case.arguments:
        for place in places_of(case, argument) if argument.rule.role is Role.DESTINATION else ():
            if not listed(case, place) and not entry_for(case.policy.allow, place):
                yield case.finding(Rule.PROSE, argument, "only the wording of the request names it")


def unfounded(case: Case) -> Iterator[Finding]:
    """A call of a sink in which nothing is the principal's, while a stranger's words are what it says, or it is bare.

    The principal's are: a destination or a choice that its words hold, a choice from a document that it named, and the
    name of the sink itself. A destination that the operator allows, and what is the principal's own, are as good. A
    value that is always allowed speaks neither for a call nor against it.
    """
    if not case.steered or any(_founded(case, each) for each in case.arguments):
        return
    if case.ledger.asked.mentions(case.call.sink):
        return
    sent = [argument for argument in case.arguments if argument.leaf.path not in case.call.filled]
    telling = [argument for argument in sent if argument.rule.role is not Role.INERT]
    if not telling and case.listener.known:
        yield case.finding(Rule.UNFOUNDED, None, "it takes nothing from the request")
    aimed = next((each for each in telling if each.rule.role is Role.DESTINATION), None)
    if aimed is not None and not case.listener.known:
        yield case.finding(Rule.UNFOUNDED, aimed, "only a record names it")
        return
    chosen = (each for each in telling if each.rule.role is not Role.DESTINATION)
    dictated = (_dictated(case, each) for each in chosen if each.body not in each.rule.values)
    yield from islice(filter(None, dictated), 1)


def _founded(case: Case, argument: Argument) -> bool:
    if argument.rule.role is Role.DESTINATION:
        places = places_of(case, argument)
        return any(ordered(case, place) for place in places)
    if argument.rule.role is Role.INERT or len(argument.body.strip()) < LETTERS:
        return False
    return said(case, argument) or (argument.rule.role is Role.SELECTOR and asked_for(case, argument))


def _dictated(case: Case, argument: Argument) -> Finding | None:
    """A stranger's words that an argument repeats, or a choice that they name as well, whatever record holds it.

    A short choice stands in many texts: that a stranger's is among them says nothing. A longer one that is a record by
    the form of an undeclared field alone may be a stranger's as well. Of a listener of which nothing is declared, a
    single word without any author counts as dictated; text that it is told does where it is told nothing else, as a
    command is.
    """
    choice = argument.rule.role is not Role.PAYLOAD
    if not case.listener.known:
        if argument.rule.role is Role.SELECTOR and not may_choose(case, argument):
            return case.finding(Rule.UNFOUNDED, argument, "nobody is known to have chosen it")
        choice = all(each.rule.role in {Role.PAYLOAD, Role.INERT} for each in case.arguments)
        if not choice:
            return None
    try:
        evidence = next((match.evidence for match in matching.content(case.ledger, argument.body)), None)
        if evidence is None and choice and len(fold_bytes(argument.body)) >= matching.SHORT:
            evidence = matching.origin(case.ledger, argument.body)
            evidence = evidence or matching.commanded(case.ledger, argument.body, argument.rule.values)
            if evidence is None and argument.rule.role is Role.SELECTOR and formed(case, argument):
                return case.finding(Rule.UNFOUNDED, argument, "only a field that anybody may fill holds it")
        if evidence is None and not choice:
            evidence = _repeated(case, argument)
    except matching.Crowded:
        return case.finding(Rule.BOUND, argument, "more values than are looked up")
    if evidence is None or (recorded(case, argument) and not matching.elsewhere(case.ledger, argument.body)):
        return None
    return case.finding(Rule.UNFOUNDED, argument, "a stranger's words say so", evidence)


def _repeated(case: Case, argument: Argument) -> Evidence | None:
    """A stranger's text that holds what is said as a whole, however short it is.

    A letter is in every text. Where nobody else is told it, a single word says nothing either, and a document that the
    principal named may say more.
    """
    if len(argument.body.strip()) < LETTERS:
        return None
    evidence = matching.origin(case.ledger, argument.body)
    if evidence is None or any(each.rule.role is Role.DESTINATION for each in case.arguments):
        return evidence
    return evidence if len(argument.body.split()) > 1 and not evidence.text.asked else None
