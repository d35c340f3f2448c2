"""The decision about one call: pure, over a ledger, a policy and the call.

Owns the order of the questions and what the mode makes of the answers. A decision stops at the first answer that
settles it; all findings, with their evidence, follow from the same three values when somebody reads them. Refuses to
act: blocking, asking and recording are its callers'. No model is asked anything; adding labels never removes a finding.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from agentserver.provenance.evidence.labels import Mode, Role
from agentserver.provenance.exits import broken, without_idle_choices
from agentserver.provenance.judging.case import Case
from agentserver.provenance.judging.choices import of_choice
from agentserver.provenance.judging.content import crowds, of_beginnings, of_content, of_prose, unfounded
from agentserver.provenance.judging.delegation import delegation
from agentserver.provenance.judging.destinations import exits, halves, of_destination
from agentserver.provenance.policy.declarations import Effect, PlanSource, Rule
from agentserver.provenance.policy.paths import means
from agentserver.provenance.seen.derived import Later
from agentserver.provenance.verdict import Decision, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agentserver.provenance.evidence.labels import Call
    from agentserver.provenance.judging.case import Argument
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.verdict import Finding

_ASKED: dict[Role, Callable[[Case, Argument], Iterator[Finding]]] = {
    Role.DESTINATION: of_destination,
    Role.SELECTOR: of_choice,
    Role.QUANTITY: of_choice,
    Role.TIME: of_choice,
}
"""The question that each role of an argument raises; the other roles raise none by themselves."""


def judge(ledger: Ledger, policy: Policy, call: Call) -> Verdict:
    """Decide on ``call``, given everything the conversation has seen."""
    mode = policy.mode_of(call.sink)
    case = Case(ledger, policy, call)
    weighed = Later(lambda: without_idle_choices(_questions(case)))
    reported = Later(lambda: tuple(_reports(case, of_content)))
    noticed = Later(lambda: tuple(_noticed(mode, case)))
    if mode is Mode.AUDIT:
        return Verdict(call, mode, Decision.ALLOW, weighed, reported, noticed)
    decision, silent = _decide(mode, _questions(case.briefly()))
    delegated = Later(lambda: delegation(ledger, call, weighed.value) if decision is Decision.ASK else None)
    return Verdict(call, mode, decision, Later.of(()) if silent else weighed, reported, noticed, delegated)


def _decide(mode: Mode, findings: Iterator[Finding]) -> tuple[Decision, bool]:
    """The decision by the first finding that settles it, and whether there is none at all."""
    silent = True
    for finding in findings:
        silent = False
        if mode is Mode.CONFIRM and finding.effect in {Effect.BLOCK, Effect.ASK}:
            return Decision.ASK, False
        if finding.effect is Effect.BLOCK:
            return Decision.DENY, False
    return Decision.ALLOW, silent


def _questions(case: Case) -> Iterator[Finding]:
    """The findings that could decide something."""
    found = chain(_of_sink(case) if case.listener.sink else exits(case), _of_exits(case))
    return (finding for finding in found if finding.effect is not Effect.IGNORE)


def _reports(case: Case, content: Callable[[Case], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings about untrusted content, where the policy lets them decide nothing."""
    if case.listener.sink and case.ledger.tainted and case.telling:
        yield from (finding for finding in content(case) if finding.effect is not Effect.IGNORE)


def _noticed(mode: Mode, case: Case) -> Iterator[Finding]:
    """The part of them that bounded work finds, where somebody asked to be told of calls that are let through."""
    if mode is Mode.AUDIT or any(
        case.policy.declares(rule, case.call.sink) for rule in (Rule.CONTENT, Rule.LINK)
    ):
        yield from _reports(case, of_beginnings)


def _of_sink(case: Case) -> Iterator[Finding]:
    quiet = True
    for finding in _of_call(case):
        quiet = False
        yield finding
    if quiet and not case.plan:
        for finding in unfounded(case):
            quiet = False
            yield finding
    if not case.ledger.tainted:
        return
    if quiet and case.policy.mode_of(case.call.sink) is Mode.CONFIRM:
        prose = [*of_prose(case)]
        yield from prose if prose and any(True for _ in of_content(case)) else ()
    yield from crowds(case) if case.telling else of_content(case)


def _of_call(case: Case) -> Iterator[Finding]:
    """Findings about the conversation, and about each argument by its role."""
    yield from _of_run(case)
    for argument in case.arguments:
        question = _ASKED.get(argument.rule.role)
        yield from question(case, argument) if question else ()
    yield from () if case.listener.known else halves(case)


def _of_run(case: Case) -> Iterator[Finding]:
    """Findings about the conversation as a whole."""
    ledger, policy = case.ledger, case.policy
    refused = (entry for entry in policy.deny if entry.startswith("listener:"))
    if entry := next((entry for entry in refused if means(entry[9:], case.call.sink)), None):
        yield case.finding(Rule.DENIED, None, f"'{entry}' is on the deny list")
    if ledger.overflow:
        yield case.finding(Rule.BOUND, None, "more untrusted text was read than is tracked")
    if ledger.spent > policy.budget:
        yield case.finding(Rule.BUDGET, None, f"{ledger.spent:.1f} of {policy.budget:g} bits are spent")
    if policy.strict and ledger.tainted:
        yield case.finding(Rule.STRICT, None, "untrusted text was read in this run")
    if policy.plan in {PlanSource.REQUIRED, PlanSource.CONFIRMED} and ledger.plan is None:
        yield case.finding(Rule.PLAN, None, "no plan was made")
    elif case.plan is not None and (why := case.plan.refuses(case.call, ledger, case.role)):
        yield case.finding(Rule.PLAN, None, why)


def _of_exits(case: Case) -> Iterator[Finding]:
    """Confidentiality: private content for a receiver who may not read it, and choices that tell too much."""
    said = [(argument.leaf, argument.rule) for argument in case.arguments]
    for rule, leaf, detail, evidence in broken(case.ledger, case.policy, case.call, said):
        yield case.finding(rule, case.argument(leaf), detail, evidence)
