"""Checks whether the principal's words support a call as a whole, so that no text steered its sender into it."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.judging.answers import has_no_other_address, is_answered, quotes_only
from agentserver.provenance.judging.authority import (
    find_records,
    is_anybodys_record,
    is_judged_as_moment,
    is_recorded,
    is_requested,
    list_homes,
    may_choose,
)
from agentserver.provenance.judging.destinations import read_places
from agentserver.provenance.judging.disclosures import find_disclosures
from agentserver.provenance.judging.links import find_strange_links
from agentserver.provenance.judging.lookups import is_found_by_agent, is_only_found
from agentserver.provenance.judging.moments import is_ordered_for_moment
from agentserver.provenance.judging.returns import (
    acts_on_named_page,
    is_below_named_page,
    is_on_authors_site,
    is_on_card,
    is_part_of_named_page,
)
from agentserver.provenance.judging.support import (
    LETTERS,
    find_inside,
    goes_back,
    is_founded,
    is_of_named_page,
)
from agentserver.provenance.judging.swaps import find_swapped
from agentserver.provenance.observations.occurrences import SHORT, TooManyValues
from agentserver.provenance.policy import forms
from agentserver.provenance.policy.declarations import Rule
from agentserver.provenance.request.asking import only_asks_questions
from agentserver.provenance.verdict import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.verdict import Finding

CODE: Final = 4
"""Minimum characters of a number that identifies a record: a shorter one is in most pages."""

_NO_CHOICE: Final = {Role.PAYLOAD, Role.INERT}


def check_foundation(case: Case) -> Iterator[Finding]:
    """Find a steered call of a sink that the principal's words do not support.

    Such a call either has no arguments of its own or repeats untrusted words. It is supported if the principal's words
    hold a destination, a choice or the name of the sink, or if the principal named the document that a choice comes
    from; an option supports a call only if it is all of it. A destination that the operator allows or that is the
    principal's own counts as well, and so does a field of a trusted record that the principal's words chose. A value
    that is always allowed counts neither way. An answer to the author of the named documents needs nothing else.
    """
    if not case.steered:
        return
    unasked = _find_unasked(case)
    if unasked is not None:
        yield unasked
        return
    if any(is_founded(case, each) for each in case.arguments):
        yield from _check_order(case) if case.listener.known else ()
        return
    if case.ledger.asked.mentions(case.call.sink) or any(
        _answers_author(case, each) for each in case.arguments
    ):
        return
    passes = _passes_on_named(case)
    if not passes and (found := _find_looked_up(case)) is not None:
        yield case.make_finding(Rule.UNFOUNDED, found, "only a look-up by other words names it")
    elif not passes or case.orders_nothing:
        yield from _check_telling(case)


def _check_telling(case: Case) -> Iterator[Finding]:
    """Find an argument that makes a call without support a stranger's."""
    passed = [argument for argument in case.arguments if argument.leaf.path not in case.call.filled]
    telling = [argument for argument in passed if argument.rule.role not in {Role.INERT, Role.OPTION}]
    if acts_on_named_page(case):
        telling = [each for each in telling if not is_of_named_page(case, each)]
    elif not telling and case.listener.known:
        yield case.make_finding(Rule.UNFOUNDED, None, "it takes nothing from the request")
    elif any(map(is_judged_as_moment, telling)) and is_ordered_for_moment(case):
        telling = [each for each in telling if not is_judged_as_moment(each)]
    aimed = next((each for each in telling if each.rule.role is Role.DESTINATION), None)
    if aimed is not None and not case.listener.known and not (_leads_back(case, aimed) or _is_meant(case)):
        yield case.make_finding(Rule.UNFOUNDED, aimed, "only a record names it")
        return
    chosen = (each for each in telling if each.rule.role is not Role.DESTINATION)
    dictated = (_find_dictated(case, each) for each in chosen if each.body not in each.rule.values)
    yield from islice(filter(None, dictated), 1)


def _find_looked_up(case: Case) -> Argument | None:
    """Find a receiver that only a look-up by other words names."""
    only_found = (
        each
        for each in case.receivers
        if any(is_only_found(case, place) for place in read_places(case, each))
    )
    return next(only_found, None)


def _passes_on_named(case: Case) -> bool:
    """Check whether persons whom the agent looked up get only words, which quote only documents that were named."""
    places = [place for each in case.receivers for place in read_places(case, each)]
    if not (case.content and places and all(is_found_by_agent(case, place) for place in places)):
        return False
    only_words = all(each.rule.role in {Role.DESTINATION, *_NO_CHOICE} for each in case.arguments)
    return only_words and quotes_only(case, lambda text: text.asked)


def _find_unasked(case: Case) -> Finding | None:
    """Find a call that nobody asked for.

    It follows a question, discloses a record, has a stranger's text in place of what was given or chosen, or has a
    stranger's link.
    """
    answers = case.listener.source  # a shell or a data base may be what the question is answered with
    if case.listener.known and not answers and case.ledger.asked.derive_once(only_asks_questions):
        return case.make_finding(Rule.UNFOUNDED, None, "the request only asks a question")
    disclosed = next(find_disclosures(case), None) if case.listener.known else None
    if disclosed is not None:
        return case.make_finding(Rule.UNFOUNDED, disclosed[0], "nobody asked to send this record")
    if case.listener.known and (swapped := _find_swapped(case)) is not None:
        return swapped
    strange = next(find_strange_links(case), None)
    if strange is None:
        return None
    argument, link, text = strange
    return case.make_finding(
        Rule.UNFOUNDED, argument, "nobody asked for this link", Evidence(link, text, link)
    )


def _find_swapped(case: Case) -> Finding | None:
    """Find a stranger's text in place of a value of the request or of a record that it chose."""
    try:
        found = next(find_swapped(case), None)
    except TooManyValues:
        return case.make_finding(Rule.BOUND, None, "more values than are looked up")
    if found is None:
        return None
    return case.make_finding(
        Rule.UNFOUNDED, found[0], "the request or the record that was chosen says otherwise", found[1]
    )


def _check_order(case: Case) -> Iterator[Finding]:
    """Find a call of a declared sink that is about a thing of the request, but that the request may not want."""
    if case.orders_nothing and not _is_said_beyond(case):
        yield case.make_finding(Rule.UNFOUNDED, None, "the request only asks for information")
    elif (amount := _find_unfounded_amount(case)) is not None:
        yield case.make_finding(Rule.UNFOUNDED, amount, "nobody gave this amount")


def _find_unfounded_amount(case: Case) -> Argument | None:
    """Find an amount of unknown origin in a call about a thing that only a document names.

    The request holds no value of the call, and no number from which the amount may be computed. A number of up to two
    digits may be a count.
    """
    if any(is_requested(case, each) for each in case.arguments) or case.receivers or case.said_amounts:
        return None
    amounts = (
        each for each in case.arguments if each.rule.role is Role.QUANTITY and not forms.is_count(each.body)
    )
    return next((each for each in amounts if not (may_choose(case, each) or goes_back(case, each))), None)


def _is_said_beyond(case: Case) -> bool:
    """Check whether the principal's words support more of a call than which thing it is about.

    Who asks about a thing has to name it. A receiver, an amount, a time or a content that was said is more, and a call
    on the page that was read last is how a page is read.
    """
    chosen = {Role.SELECTOR, Role.OPTION}
    return acts_on_named_page(case) or any(
        each.rule.role not in chosen and is_founded(case, each) for each in case.arguments
    )


def _answers_author(case: Case, argument: Argument) -> bool:
    """Check whether a call answers the author of the named documents, and gives it nothing but content."""
    roles = {Role.DESTINATION, Role.PAYLOAD, Role.INERT}
    if argument.rule.role is not Role.DESTINATION or any(
        each.rule.role not in roles for each in case.arguments
    ):
        return False
    return any(is_answered(case, argument, place) for place in read_places(case, argument))


def _find_dictated(case: Case, argument: Argument) -> Finding | None:
    """Find an argument that repeats untrusted words, or a choice that they name too, even if a record holds it.

    A short choice occurs in many texts, so an untrusted one among them proves nothing. Records of a source, declared or
    not, only exist: a stranger's text may say which one. At an undeclared listener a single word without an
    author counts as dictated, but for a day, which may be computed; so does text if the listener gets nothing else. A
    stranger's command among others is one wherever the call has nothing else.
    """
    choice = argument.rule.role is not Role.PAYLOAD
    if not case.listener.known:
        is_word = argument.rule.role is Role.SELECTOR and not is_judged_as_moment(argument)
        if is_word and not _has_author(case, argument):
            return case.make_finding(Rule.UNFOUNDED, argument, "it has no known author")
        choice = _is_all_content(case)
        if not choice:
            return None
    try:
        evidence = _find_content(case, argument.body)
        if evidence is None and choice and len(fold_bytes(argument.body)) >= SHORT:
            evidence = matching.find_origin(case.ledger, argument.body)
            evidence = evidence or matching.find_command(case.ledger, argument.body, argument.rule.values)
        own = evidence is not None and _is_own_record(case, argument)
        if (evidence is None or own) and choice and _is_any_record(case, argument):
            return case.make_finding(Rule.UNFOUNDED, argument, "nobody chose this record")
        if evidence is None and not choice:
            evidence = _find_holder(case, argument)
            if evidence is None and _is_all_content(case):
                evidence = matching.find_command(case.ledger, argument.body, argument.rule.values)
            own = evidence is not None and _is_own_record(case, argument)
    except TooManyValues:
        return case.make_finding(Rule.BOUND, argument, "more values than are looked up")
    if evidence is None or own:
        return None
    return case.make_finding(Rule.UNFOUNDED, argument, "an untrusted text says so", evidence)


def _is_all_content(case: Case) -> bool:
    """Check whether a call has nothing but content that nobody declared, so that it may be a command."""
    rules = [each.rule for each in case.arguments]
    content = {Role.PAYLOAD, Role.INERT, Role.OPTION}
    return all(rule.role in content and not (rule.role is Role.PAYLOAD and rule.declared) for rule in rules)


def _find_content(case: Case, body: str) -> Evidence | None:
    """Find untrusted words in an argument. Where the decision is enough, the evidence may lack the words."""
    if case.decision_only and (text := matching.find_said_last(case.ledger, body)) is not None:
        return Evidence("", text, "")
    return find_inside(case, body)


def _has_author(case: Case, argument: Argument) -> bool:
    """Check whether somebody made a choice, or it is a handle of the page that the principal named."""
    return (
        may_choose(case, argument)
        or case.ledger.asked.mentions_plainly(argument.body)
        or is_part_of_named_page(case, argument)
    )


def _leads_back(case: Case, argument: Argument) -> bool:
    """Check whether a link leads below the page that the principal named, or to a named author's own site."""
    return all(
        is_below_named_page(case, argument, place) or is_on_authors_site(case, argument, place)
        for place in read_places(case, argument)
    )


def _is_meant(case: Case) -> bool:
    """Check whether all receivers are persons that the principal named.

    Each is the only entry that a search by the principal's words found. The content repeats no text that the principal
    did not name, and has no other address. All else in the call has an author, and there is content, so that it neither
    pays nor grants.
    """
    rest = (each for each in case.arguments if each.rule.role not in {*_NO_CHOICE, Role.DESTINATION})
    if not (case.content and all(_has_author(case, each) for each in rest)):
        return False
    places = [place for each in case.receivers for place in read_places(case, each)]
    if not (all(is_on_card(case, place) for place in places) and has_no_other_address(case, places)):
        return False
    return quotes_only(case, lambda text: text.asked)


def _is_own_record(case: Case, argument: Argument) -> bool:
    """Check whether a value is a record's, and untrusted texts hold it only in the links of that record."""
    if not is_recorded(case, argument):
        return False
    homes = list_homes(find_records(case, argument))
    return not matching.occurs_in_longer_text(case.ledger, argument.body, homes)


def _is_any_record(case: Case, argument: Argument) -> bool:
    """Check whether a choice is a source's record that nobody chose: long enough to be dictated, or with a digit."""
    body = argument.body.strip()
    telling = len(fold_bytes(body)) >= SHORT or (len(body) >= CODE and any(map(str.isdigit, body)))
    return telling and argument.rule.role is Role.SELECTOR and is_anybodys_record(case, argument)


def _aims(case: Case, argument: Argument) -> bool:
    """Check whether an argument is a receiver, or a trusted record that the principal did not choose."""
    if argument.rule.role is not Role.SELECTOR:
        return argument.rule.role is Role.DESTINATION
    found = (text for text in find_records(case, argument) if not (text.chosen or text.asked))
    return any(not case.is_of_source(text) for text in found)


def _find_holder(case: Case, argument: Argument) -> Evidence | None:
    """Find an untrusted text that holds the whole argument, however short.

    A single letter is in every text. If the call aims at nothing, a single word proves nothing either, and a
    document that the principal named may say more.
    """
    if len(argument.body.strip()) < LETTERS:
        return None
    evidence = matching.find_origin(case.ledger, argument.body)
    if evidence is None or any(map(partial(_aims, case), case.arguments)):
        return evidence
    return evidence if len(argument.body.split()) > 1 and not evidence.text.asked else None
