"""The decision about one call: pure, over a ledger, a policy and the call.

Owns the order of the questions and what the mode makes of the answers. Refuses to act: blocking, asking and recording
are its callers'. No model is asked anything; adding labels never removes a finding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.provenance.evidence.labels import Mode, Role
from agentserver.provenance.exits import broken, without_idle_choices
from agentserver.provenance.judging.case import Case
from agentserver.provenance.judging.choices import of_choice
from agentserver.provenance.judging.content import of_content, of_prose, unfounded
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
    case = Case(ledger, policy, call)
    found = (*(_of_sink(case) if case.listener.sink else exits(case)), *_of_exits(case))
    findings = without_idle_choices(one for one in found if one.effect is not Effect.IGNORE)
    mode = policy.mode_of(call.sink)
    return Verdict(call, mode, _decide(mode, findings), Later.of(findings))


def _decide(mode: Mode, findings: tuple[Finding, ...]) -> Decision:
    effects = {finding.effect for finding in findings}
    if mode is Mode.AUDIT or not effects & {Effect.BLOCK, Effect.ASK}:
        return Decision.ALLOW
    if mode is Mode.CONFIRM:
        return Decision.ASK
    return Decision.DENY if Effect.BLOCK in effects else Decision.ALLOW


def _of_sink(case: Case) -> Iterator[Finding]:
    found = [*_of_run(case)]
    for argument in case.arguments:
        question = _ASKED.get(argument.rule.role)
        found += question(case, argument) if question else ()
    found += () if case.listener.known else halves(case)
    spoken = [*of_content(case)] if case.ledger.tainted else []
    found += () if found or case.plan else unfounded(case)
    if spoken and not found and case.policy.mode_of(case.call.sink) is Mode.CONFIRM:
        found += of_prose(case)
    yield from (*found, *spoken)


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
    for rule, leaf, detail, evidence in broken(case.ledger, case.policy, case.call):
        yield case.finding(rule, case.argument(leaf), detail, evidence)
