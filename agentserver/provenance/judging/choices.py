"""Choices that a call makes: what is acted on, how much, when.

Owns which rule a choice breaks. Refuses to know who stands behind one: ``authority`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.provenance import matching
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.leaves import amounts
from agentserver.provenance.judging.authority import may_choose
from agentserver.provenance.policy import forms
from agentserver.provenance.policy.declarations import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.verdict import Evidence, Finding


def of_choice(case: Case, argument: Argument) -> Iterator[Finding]:
    """Findings about a choice: from untrusted text whoever sends it, of unknown origin where that is suspect.

    A quantity, a time and what is composed of several words may be computed, and so may whatever is not declared to be
    a choice: of those only what stands in an untrusted text is found.
    """
    if not case.ledger.tainted or isinstance(argument.leaf.value, bool):
        return
    if may_choose(case, argument) or case.warranted(argument):
        return
    picked = argument.rule.role is Role.SELECTOR and argument.rule.declared
    suspect = case.suspects(argument) and picked and not forms.runs_on(argument.body)
    if suspect and case.settled(Rule.SELECTOR, Rule.UNKNOWN_SELECTOR, Rule.BOUND):
        yield case.finding(Rule.UNKNOWN_SELECTOR, argument)
        return
    try:
        evidence = matching.origin(case.ledger, argument.body) or _within(case, argument.body)
        evidence = evidence or matching.commanded(case.ledger, argument.body, argument.rule.values)
        if evidence is None and argument.rule.role is Role.QUANTITY:
            evidence = _in_other_units(case, argument)
    except matching.Crowded:
        yield case.finding(Rule.BOUND, argument, "more values than are looked up")
        return
    if evidence:
        yield case.finding(Rule.SELECTOR, argument, "", evidence)
    elif suspect:
        yield case.finding(Rule.UNKNOWN_SELECTOR, argument)


def _in_other_units(case: Case, argument: Argument) -> Evidence | None:
    """An untrusted text that says an amount without its sign, or in the unit of which this one is a hundredth.

    So an amount in cents is found that a text writes in dollars; the principal's own amount stands for it likewise.
    """
    kinds = amounts(argument.leaf.value)
    if not case.ledger.asked.kinds.isdisjoint(kinds):
        return None
    found = (matching.counted(case.ledger, argument.body, kind) for kind in kinds)
    return next(filter(None, found), None)


def _within(case: Case, body: str) -> Evidence | None:
    """Untrusted words inside a composed choice, such as a command or a query."""
    return next((match.evidence for match in matching.content(case.ledger, body)), None)
