"""Decides on one call, as a pure function of the ledger, the policy and the call.

Orders the checks and applies the sink's mode. The decision stops at the first finding that settles it; all findings are
computed lazily from the same three values. Callers do the blocking, asking and recording. No model is asked; adding
labels never removes a finding.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.evidence.authority import find_entry
from agentserver.provenance.evidence.labels import Mode, Role, means
from agentserver.provenance.exits import drop_idle_choices, find_breaches
from agentserver.provenance.judging.authority import find_delegation, is_listed
from agentserver.provenance.judging.case import Case
from agentserver.provenance.judging.choices import check_amounts, check_choice, check_option
from agentserver.provenance.judging.destinations import (
    check_destination,
    check_exits,
    check_halves,
    read_places,
)
from agentserver.provenance.judging.endorsing import digest_row, find_pattern, is_endorsed
from agentserver.provenance.judging.foundation import check_foundation
from agentserver.provenance.observations.lazy import Lazy
from agentserver.provenance.observations.occurrences import TooManyValues
from agentserver.provenance.policy.declarations import Effect, PlanSource, Rule
from agentserver.provenance.verdict import NO_FINDINGS, Decision, Outline, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from agentserver.provenance.evidence.labels import Call, Text
    from agentserver.provenance.judging.case import Argument
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.verdict import Finding

BEGINNING: Final = 2048
"""Maximum characters of a call that are searched for untrusted words once it has passed."""


def check_content(case: Case) -> Iterator[Finding]:
    """Find untrusted words in the content that the call sends."""
    for argument in case.content:
        try:
            for match in matching.find_content(case.ledger, argument.body):
                rule = Rule.LINK if match.link else Rule.CONTENT
                yield case.make_finding(rule, argument, "", match.evidence)
        except TooManyValues:
            if not case.reports_only:
                yield case.make_finding(Rule.BOUND, argument, "more values than are looked up")
    for left, right in pairwise(case.content):
        for evidence in matching.find_across(case.ledger, left.body, right.body):
            yield case.make_finding(Rule.CONTENT, right, "split over two arguments", evidence)


def check_unread(case: Case) -> Iterator[Finding]:
    """Find arguments that cannot be read, so that they may name anybody; a declared role of content settles it."""
    listener, ledger = case.listener, case.ledger
    leads_out = listener.sink or listener.source
    if not (leads_out and (ledger.tainted or ledger.private or case.policy.deny)):
        return
    for argument in case.arguments:
        rule = argument.rule
        if argument.leaf.unread and not (rule.declared and rule.role in {Role.PAYLOAD, Role.INERT}):
            yield case.make_finding(
                Rule.BOUND, argument, "it cannot be read; if it says nothing, declare it inert"
            )


def check_crowding(case: Case) -> Iterator[Finding]:
    """Find arguments with more values than are looked up, without looking any of them up."""
    for argument in case.content:
        if matching.has_too_many_values(argument.body):
            yield case.make_finding(Rule.BOUND, argument, "more values than are looked up")


def check_beginnings(case: Case) -> Iterator[Finding]:
    """Find untrusted words that occur verbatim in the first BEGINNING characters of the content."""
    room = BEGINNING
    for argument in case.content:
        for match in matching.find_verbatim(case.ledger, argument.body[:room]):
            yield case.make_finding(Rule.LINK if match.link else Rule.CONTENT, argument, "", match.evidence)
        room -= len(argument.body)
        if room <= 0:
            return


def _find_repeated_text(case: Case) -> Text | None:
    """Find an untrusted text that content is, without a search; then ``check_beginnings`` has findings."""
    if case.policy.effect_of(Rule.CONTENT, case.call.sink) is Effect.IGNORE:
        return None
    room = BEGINNING
    for argument in case.content:
        found = matching.find_said_last(case.ledger, argument.body, room) if room > 0 else None
        if found is not None:
            return found
        room -= len(argument.body)
    return None


def check_prose(case: Case) -> Iterator[Finding]:
    """Find a recipient that only the request's prose authorises, when the call carries untrusted content."""
    for argument in case.receivers:
        for place in read_places(case, argument):
            if not is_listed(case, place) and not find_entry(case.policy.allow, place):
                yield case.make_finding(Rule.PROSE, argument, "only the wording of the request names it")


_QUESTIONS: dict[Role, Callable[[Case, Argument], Iterator[Finding]]] = {
    Role.DESTINATION: check_destination,
    Role.SELECTOR: check_choice,
    Role.QUANTITY: check_choice,
    Role.TIME: check_choice,
    Role.OPTION: check_option,
}
"""Check for each role of an argument. Roles that are not listed need no check of their own."""


def judge(
    ledger: Ledger, policy: Policy, call: Call, arguments: tuple[Argument, ...] | None = None
) -> Verdict:
    """Decide on ``call``, given everything that the conversation has seen.

    ``arguments`` are those that ``list_arguments`` lists, for a caller that has them.
    """
    mode = policy.mode_of(call.sink)
    case = Case(ledger, policy, call, arguments)
    if mode is Mode.AUDIT:
        return _audit(case)
    weighed = Lazy(lambda: drop_idle_choices(_find_decisive(case)))
    reported = Lazy(lambda: tuple(_find_reported(case, check_content)))
    noticed = Lazy(lambda: tuple(_find_noticed(case)))
    decision, silent = _decide(mode, _find_decisive(case.copy_for_decision()))
    delegated = Lazy(
        lambda: find_delegation(ledger, call, weighed.value) if decision is Decision.ASK else None
    )
    verdict = Verdict(call, mode, decision, NO_FINDINGS if silent else weighed, reported, noticed, delegated)
    if decision is not Decision.ASK:
        return verdict
    return replace(
        verdict,
        pattern=Lazy(lambda: find_pattern(case, weighed.value)),
        endorsed=Lazy(lambda: bool(ledger.endorsements.known) and is_endorsed(case, weighed.value)),
        row=Lazy(lambda: digest_row(case)),
    )


def _audit(case: Case) -> Verdict:
    """Allow a call, and outline its findings."""
    reports = case.listener.sink and case.ledger.tainted and case.reports_only
    outline = _outline(_find_decisive(case.copy_for_decision()))
    if reports and outline.quiet:
        outline = Outline(None, quiet=True, repeated=_find_repeated_text(case))
    weighed = NO_FINDINGS if outline.quiet else Lazy(lambda: drop_idle_choices(_find_decisive(case)))
    reported = Lazy(lambda: tuple(_find_reported(case, check_content))) if reports else NO_FINDINGS
    noticed = Lazy(lambda: tuple(_find_reported(case, check_beginnings))) if reports else NO_FINDINGS
    return Verdict(case.call, Mode.AUDIT, Decision.ALLOW, weighed, reported, noticed, outline=outline)


def _outline(findings: Iterable[Finding]) -> Outline:
    """Find the first finding that blocks, or else the first that asks."""
    asking, quiet = None, True
    for finding in findings:
        if finding.effect is Effect.BLOCK:
            return Outline(finding, quiet=False)
        asking = asking or (finding if finding.effect is Effect.ASK else None)
        quiet = False
    return Outline(asking, quiet)


def _decide(mode: Mode, findings: Iterator[Finding]) -> tuple[Decision, bool]:
    """Decide by the first finding that settles it, and report whether there was no finding at all."""
    silent = True
    for finding in findings:
        silent = False
        if mode is Mode.CONFIRM and finding.effect in {Effect.BLOCK, Effect.ASK}:
            return Decision.ASK, False
        if finding.effect is Effect.BLOCK:
            return Decision.DENY, False
    return Decision.ALLOW, silent


def _find_decisive(case: Case) -> Iterator[Finding]:
    """Find the findings that can affect the decision."""
    found = chain(
        _check_sink(case) if case.listener.sink else check_exits(case),
        check_unread(case),
        _check_confidentiality(case),
    )
    return (finding for finding in found if finding.effect is not Effect.IGNORE)


def _find_reported(case: Case, content: Callable[[Case], Iterator[Finding]]) -> Iterator[Finding]:
    """Find untrusted content in a call whose policy only reports it."""
    if case.listener.sink and case.ledger.tainted and case.reports_only:
        yield from (finding for finding in content(case) if finding.effect is not Effect.IGNORE)


def _find_noticed(case: Case) -> Iterator[Finding]:
    """Find reported content with bounded work, if calls that pass are to be reported."""
    if any(case.policy.declares(rule, case.call.sink) for rule in (Rule.CONTENT, Rule.LINK)):
        yield from _find_reported(case, check_beginnings)


def _check_sink(case: Case) -> Iterator[Finding]:
    quiet = True
    for finding in _check_call(case):
        quiet = False
        yield finding
    if quiet and not case.plan:
        for finding in check_foundation(case):
            quiet = False
            yield finding
    if not case.ledger.tainted:
        return
    asks = quiet and case.policy.mode_of(case.call.sink) is Mode.CONFIRM
    if asks or (quiet and case.policy.declares(Rule.UNKNOWN_AMOUNT, case.call.sink)):
        yield from check_amounts(case)
    if asks:
        prose = [*check_prose(case)]
        yield from prose if prose and any(True for _ in check_content(case)) else ()
    yield from check_crowding(case) if case.reports_only else check_content(case)


def _check_call(case: Case) -> Iterator[Finding]:
    """Check the conversation, and each argument by its role."""
    yield from _check_conversation(case)
    for argument in case.arguments:
        question = _QUESTIONS.get(argument.rule.role)
        yield from question(case, argument) if question else ()
    yield from () if case.listener.known else check_halves(case)


def _check_conversation(case: Case) -> Iterator[Finding]:
    """Check the conversation as a whole."""
    ledger, policy = case.ledger, case.policy
    refused = (entry for entry in policy.deny if entry.startswith("listener:"))
    if entry := next((entry for entry in refused if means(entry[9:], case.call.sink)), None):
        yield case.make_finding(Rule.DENIED, None, f"'{entry}' is on the deny list")
    if ledger.overflow:
        yield case.make_finding(Rule.BOUND, None, "more untrusted text was read than is tracked")
    if ledger.spent > policy.budget:
        yield case.make_finding(Rule.BUDGET, None, f"{ledger.spent:.1f} of {policy.budget:g} bits are spent")
    if policy.strict and ledger.tainted:
        yield case.make_finding(Rule.STRICT, None, "untrusted text was read in this run")
    if policy.plan in {PlanSource.REQUIRED, PlanSource.CONFIRMED} and ledger.plan is None:
        yield case.make_finding(Rule.PLAN, None, "no plan was made")
    elif case.plan is not None and (objection := case.plan.find_objection(case.call, ledger, case.find_role)):
        yield case.make_finding(Rule.PLAN, None, objection)


def _check_confidentiality(case: Case) -> Iterator[Finding]:
    """Check for private content sent to a receiver who may not read it, and for choices that reveal too much."""
    ruled = [(argument.leaf, argument.rule) for argument in case.arguments]
    for rule, leaf, detail, evidence in find_breaches(case.ledger, case.policy, case.call, ruled):
        yield case.make_finding(rule, case.find_argument(leaf), detail, evidence)
