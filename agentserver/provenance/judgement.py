"""Decides on one call, as a pure function of the ledger, the policy and the call.

Orders the checks and applies the sink's mode. The decision stops at the first finding that settles it; all findings are
computed lazily from the same three values. Callers do the blocking, asking and recording. No model is asked; adding
labels never removes a finding.

A value may have several origins (the request, the operator's lists, a directory, a record, an untrusted text), and each
is shown to a person who decides, as well as the untrusted texts that the call answers. Everything is bounded; the rest
is counted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Final

from agentserver.findings import AnsweredText, Origins, RecordText, ValueOrigin
from agentserver.provenance import matching
from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.authority import find_entry
from agentserver.provenance.evidence.destinations import PlaceForm
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.labels import Mode, Role, Standing, means, split_name, strip_indices
from agentserver.provenance.evidence.leaves import build_amount_keys
from agentserver.provenance.evidence.readings import read_moment
from agentserver.provenance.exits import count_option_bits, drop_idle_choices, find_breaches
from agentserver.provenance.judging import returns
from agentserver.provenance.judging.authority import (
    climbs_out,
    collect_record,
    find_delegation,
    find_records,
    is_anybodys_record,
    is_chosen,
    is_chosen_place,
    is_command_of_said_word,
    is_composed,
    is_in_requested_document,
    is_judged_as_moment,
    is_listed,
    is_ordered,
    is_part_of_named_path,
    is_passed_over,
    is_recorded,
    is_requested,
    is_said_path,
    list_homes,
    may_choose,
)
from agentserver.provenance.judging.case import Case
from agentserver.provenance.judging.destinations import (
    check_destination,
    check_exits,
    check_halves,
    read_places,
)
from agentserver.provenance.judging.disclosures import find_disclosures
from agentserver.provenance.judging.endorsing import digest_row, find_pattern, is_endorsed
from agentserver.provenance.judging.links import find_strange_links
from agentserver.provenance.judging.moments import is_moment_left_open, is_ordered_for_moment
from agentserver.provenance.judging.returns import (
    acts_on_named_page,
    has_no_other_address,
    is_answered_author,
    is_answered_list,
    is_below_named_page,
    is_code_of_named_document,
    is_count_on_named_page,
    is_currency_of_amount,
    is_left_open,
    is_on_authors_site,
    is_on_card,
    is_option_of_said_label,
    is_part_of_named_page,
    is_title_code,
)
from agentserver.provenance.judging.rows import is_in_named_row
from agentserver.provenance.judging.sentences import is_left_to_sentence
from agentserver.provenance.ledger import PARTS
from agentserver.provenance.observations.lazy import Lazy
from agentserver.provenance.policy import forms
from agentserver.provenance.policy.declarations import Effect, PlanSource, Rule, list_alternatives
from agentserver.provenance.request.asking import only_asks_questions
from agentserver.provenance.request.trusted_words import list_home_paths
from agentserver.provenance.verdict import NO_FINDINGS, Decision, Evidence, Outline, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Call, Text
    from agentserver.provenance.judging.case import Argument
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.policy.declarations import Policy
    from agentserver.provenance.verdict import Finding

BEGINNING: Final = 2048
"""Maximum characters of a call that are searched for untrusted words once it has passed."""

CODE: Final = 4
"""Minimum characters of a number that identifies a record: a shorter one is in most pages."""
LETTERS: Final = 2
"""Minimum characters of a value whose occurrence in a text is significant: a single letter is in every text."""


def check_content(case: Case) -> Iterator[Finding]:
    """Find untrusted words in the content that the call sends."""
    for argument in case.content:
        try:
            for match in matching.find_content(case.ledger, argument.body):
                rule = Rule.LINK if match.link else Rule.CONTENT
                yield case.make_finding(rule, argument, "", match.evidence)
        except matching.TooManyValues:
            if not case.reports_only:
                yield case.make_finding(Rule.BOUND, argument, "more values than are looked up")
    for left, right in pairwise(case.content):
        for evidence in matching.find_across(case.ledger, left.body, right.body):
            yield case.make_finding(Rule.CONTENT, right, "split over two arguments", evidence)


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


def check_foundation(case: Case) -> Iterator[Finding]:
    """Find a steered call of a sink that the principal's words do not support.

    Such a call either has no arguments of its own or repeats untrusted words. It is supported if the principal's words
    hold a destination, a choice or the name of the sink, or if the principal named the document that a choice comes
    from; an option supports a call only if it is all of it. A destination that the operator allows or that is the
    principal's own counts as well, and so does a field of a trusted record that the principal's words chose. A value
    that is always allowed counts neither way. An answer to the only author of the named documents needs nothing else.
    """
    if not case.steered:
        return
    unasked = _find_unasked(case)
    if unasked is not None:
        yield unasked
        return
    if any(_is_founded(case, each) for each in case.arguments):
        yield from _check_order(case) if case.listener.known else ()
        return
    if any(_answers_author(case, each) for each in case.arguments):
        return
    if case.ledger.asked.mentions(case.call.sink):
        return
    passed = [argument for argument in case.arguments if argument.leaf.path not in case.call.filled]
    telling = [argument for argument in passed if argument.rule.role not in {Role.INERT, Role.OPTION}]
    if acts_on_named_page(case):
        telling = [each for each in telling if not _is_of_named_page(case, each)]
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


def _find_unasked(case: Case) -> Finding | None:
    """Find a call after a question, a record for nobody in particular, or a stranger's link, which nobody asked for."""
    answers = case.listener.source  # a shell or a data base may be what the question is answered with
    if case.listener.known and not answers and case.ledger.asked.check_once(only_asks_questions):
        return case.make_finding(Rule.UNFOUNDED, None, "the request only asks a question")
    disclosed = next(find_disclosures(case), None) if case.listener.known else None
    if disclosed is not None:
        return case.make_finding(Rule.UNFOUNDED, disclosed[0], "nobody asked to send this record")
    strange = next(find_strange_links(case), None)
    if strange is None:
        return None
    argument, link, text = strange
    return case.make_finding(
        Rule.UNFOUNDED, argument, "nobody asked for this link", Evidence(link, text, link)
    )


def _is_founded(case: Case, argument: Argument) -> bool:
    if argument.rule.role is Role.DESTINATION:
        places = read_places(case, argument)
        if is_part_of_named_path(case, argument):
            return True
        return any(is_ordered(case, place) or is_chosen_place(case, place) for place in places)
    if argument.rule.role is Role.OPTION and any(
        each.rule.role not in {Role.INERT, Role.OPTION} for each in case.arguments
    ):
        return False
    if argument.rule.role is Role.INERT or len(argument.body.strip()) < LETTERS:
        return False
    return is_requested(case, argument) or (
        argument.rule.role is Role.SELECTOR
        and (
            is_chosen(case, argument)
            or is_in_requested_document(case, argument)
            or is_in_named_row(case, argument)
            or is_composed(case, argument, supports=True)
            or is_said_path(case, argument)
        )
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
    if any(is_requested(case, each) for each in case.arguments) or case.receivers:
        return None
    if any(key.startswith("amount ") for key in case.ledger.asked.read_values(case.policy.conventions)):
        return None
    amounts = (
        each for each in case.arguments if each.rule.role is Role.QUANTITY and not forms.is_count(each.body)
    )
    return next((each for each in amounts if not (may_choose(case, each) or _goes_back(case, each))), None)


def _is_said_beyond(case: Case) -> bool:
    """Check whether the principal's words support more of a call than which thing it is about.

    Who asks about a thing has to name it. A receiver, an amount, a time or a content that was said is more, and a call
    on the page that was read last is how a page is read.
    """
    chosen = {Role.SELECTOR, Role.OPTION}
    return acts_on_named_page(case) or any(
        each.rule.role not in chosen and _is_founded(case, each) for each in case.arguments
    )


def _answers_author(case: Case, argument: Argument) -> bool:
    """Check whether a receiver is the only author of all that was read, and the call gives it nothing but content.

    The content quotes no text but the author's own, so that a mail that asks for a document does not get it.
    """
    if argument.rule.role is not Role.DESTINATION or any(
        each.rule.role not in {Role.DESTINATION, Role.PAYLOAD, Role.INERT} for each in case.arguments
    ):
        return False
    return any(
        (is_answered_author(case, argument, place) or is_answered_list(case, argument, place))
        and _quotes_only_author(case, place)
        for place in read_places(case, argument)
    )


def _quotes_only_author(case: Case, place: Destination) -> bool:
    steps = returns.list_authored_steps(case, place)
    return _quotes_only(case, lambda text: text.origin.step in steps)


def _quotes_only(case: Case, is_own: Callable[[Text], bool]) -> bool:
    """Check whether the content repeats no untrusted text but some; False if it has too many values to look up."""
    found = (match for each in case.content for match in matching.find_content(case.ledger, each.body))
    try:
        return all(is_own(match.evidence.text) for match in found)
    except matching.TooManyValues:
        return False


def _find_dictated(case: Case, argument: Argument) -> Finding | None:
    """Find an argument that repeats untrusted words, or a choice that they name too, even if a record holds it.

    A short choice occurs in many texts, so an untrusted one among them proves nothing. Records of a source, declared or
    not, only exist: a stranger's text may say which one. At an undeclared listener a single word without an
    author counts as dictated; so does text if the listener gets nothing else. A stranger's command among others is one
    wherever the call has nothing else.
    """
    choice = argument.rule.role is not Role.PAYLOAD
    if not case.listener.known:
        if argument.rule.role is Role.SELECTOR and not _has_author(case, argument):
            return case.make_finding(Rule.UNFOUNDED, argument, "it has no known author")
        choice = _is_all_content(case)
        if not choice:
            return None
    try:
        evidence = _find_content(case, argument.body)
        if evidence is None and choice and len(fold_bytes(argument.body)) >= matching.SHORT:
            evidence = matching.find_origin(case.ledger, argument.body)
            evidence = evidence or matching.find_command(case.ledger, argument.body, argument.rule.values)
        own = evidence is not None and _is_own_record(case, argument)
        if (evidence is None or own) and choice and _is_any_record(case, argument):
            return case.make_finding(Rule.UNFOUNDED, argument, "nobody chose this record")
        if evidence is None and not choice:
            evidence = _find_repeated(case, argument)
            if evidence is None and _is_all_content(case):
                evidence = matching.find_command(case.ledger, argument.body, argument.rule.values)
            own = evidence is not None and _is_own_record(case, argument)
    except matching.TooManyValues:
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
    return _find_inside(case, body)


def _has_author(case: Case, argument: Argument) -> bool:
    """Check whether somebody made a choice, or it is a handle of the page that the principal named."""
    return (
        may_choose(case, argument)
        or case.ledger.asked.mentions_plainly(argument.body)
        or is_part_of_named_page(case, argument)
    )


def _is_of_named_page(case: Case, argument: Argument) -> bool:
    """Check whether a value is a handle or label of the named page, an option of it, or a code that goes there."""
    return (
        is_part_of_named_page(case, argument)
        or is_option_of_said_label(case, argument)
        or is_code_of_named_document(case, argument)
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
    return _quotes_only(case, lambda text: text.asked)


_NO_CHOICE: Final = {Role.PAYLOAD, Role.INERT}


def _is_own_record(case: Case, argument: Argument) -> bool:
    """Check whether a value is a record's, and untrusted texts hold it only in the links of that record."""
    if not is_recorded(case, argument):
        return False
    homes = list_homes(find_records(case, argument))
    return not matching.occurs_in_longer_text(case.ledger, argument.body, homes)


def _is_any_record(case: Case, argument: Argument) -> bool:
    """Check whether a choice is a source's record that nobody chose: long enough to be dictated, or with a digit."""
    body = argument.body.strip()
    telling = len(fold_bytes(body)) >= matching.SHORT or (len(body) >= CODE and any(map(str.isdigit, body)))
    return telling and argument.rule.role is Role.SELECTOR and is_anybodys_record(case, argument)


def _aims(case: Case, argument: Argument) -> bool:
    """Check whether an argument is a receiver, or a trusted record that the principal did not choose."""
    if argument.rule.role is not Role.SELECTOR:
        return argument.rule.role is Role.DESTINATION
    found = (text for text in find_records(case, argument) if not (text.chosen or text.asked))
    return any(not case.policy.classify(text.origin.source).source for text in found)


def _find_repeated(case: Case, argument: Argument) -> Evidence | None:
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
    if may_choose(case, argument) or _goes_back(case, argument):
        return
    picked = argument.rule.role is Role.SELECTOR and argument.rule.declared
    picked = picked and not (_may_be_computed(case, argument) or case.is_listed_option(argument))
    suspect = picked and case.is_suspect(argument)
    if suspect and case.is_settled(Rule.SELECTOR, Rule.UNKNOWN_SELECTOR, Rule.BOUND):
        yield case.make_finding(Rule.UNKNOWN_SELECTOR, argument)
        return
    try:
        evidence = _find_dictation(case, argument)
    except matching.TooManyValues:
        yield case.make_finding(Rule.BOUND, argument, "more values than are looked up")
        return
    if evidence:
        yield case.make_finding(Rule.SELECTOR, argument, "", evidence)
    elif suspect:
        yield case.make_finding(Rule.UNKNOWN_SELECTOR, argument)


def _describe_stray(case: Case, argument: Argument) -> str:
    """Describe how a choice leaves what the principal named; empty if it does not."""
    if is_passed_over(case, argument):
        return "the request chose another record"
    return "it leaves a folder that it names" if climbs_out(case, argument) else ""


def _may_be_computed(case: Case, argument: Argument) -> bool:
    return forms.is_running_text(argument.body) or is_command_of_said_word(case, argument)


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
        if not (may_choose(case, argument) or _goes_back(case, argument)):
            yield case.make_finding(Rule.UNKNOWN_AMOUNT, argument)


def _find_dictation(case: Case, argument: Argument) -> Evidence | None:
    """Find an untrusted text that holds a choice in any spelling or unit, a piece of it, or a command in it."""
    spellings = (argument.body, *list_home_paths(argument.body))
    evidence = next(filter(None, (matching.find_origin(case.ledger, each) for each in spellings)), None)
    evidence = evidence or _find_inside(case, argument.body)
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


def _goes_back(case: Case, argument: Argument) -> bool:
    """Check whether a choice is a part of the named page, or the request leaves the value to the named document.

    The principal's words or a chosen record support something else in the call.
    """
    is_part = len(case.arguments) <= PARTS and _is_of_named_page(case, argument)
    if is_part or is_count_on_named_page(case, argument):
        return True
    if len(case.arguments) > returns.ARGUMENTS:
        return False
    if is_currency_of_amount(case, argument) or is_left_to_sentence(case, argument):
        return True
    named = is_in_named_row(case, argument)
    if argument.rule.role is Role.SELECTOR and (
        named or (_pays_as_ordered(case) and is_title_code(case, argument))
    ):
        return True
    if is_judged_as_moment(argument):
        is_open = named or is_moment_left_open(case, argument)
        return is_open and (is_ordered_for_moment(case) or _is_founded_beside(case, argument))
    return (named or is_left_open(case, argument)) and _is_founded_beside(case, argument)


def _pays_as_ordered(case: Case) -> bool:
    """Check whether a call gives an amount with an author to receivers that the principal named or chose."""
    amounts = [each for each in case.arguments if each.rule.role is Role.QUANTITY]
    if not (case.receivers and amounts and all(_is_founded(case, each) for each in case.receivers)):
        return False
    return all(may_choose(case, each) or _goes_back(case, each) for each in amounts)


def _is_founded_beside(case: Case, argument: Argument) -> bool:
    """Check whether the request supports something else in the call. Next to an amount a choice is meant itself."""
    founded = (each for each in case.arguments if each is not argument and _is_founded(case, each))
    amount = argument.rule.role is Role.QUANTITY
    return any(
        not amount or each.rule.role is not Role.SELECTOR or _is_meant_itself(case, each) for each in founded
    )


def _is_meant_itself(case: Case, argument: Argument) -> bool:
    """Check whether the words hold or choose a thing itself, which a named document may only refer to."""
    return is_requested(case, argument) or is_chosen(case, argument)


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
    open_ = listed and not case.receivers and _is_mentioned(case, argument.rule.name, case.call.sink)
    open_ = open_ and not _gives_other_option(case, argument)
    for finding in check_choice(case, argument):
        requested = finding.evidence is not None and finding.evidence.text.asked
        if not (open_ and requested):
            yield finding


def _gives_other_option(case: Case, argument: Argument) -> bool:
    """Check whether the principal's words give the argument another value, beside its name, as *light fare* does."""
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


def _find_inside(case: Case, body: str) -> Evidence | None:
    """Find untrusted words inside a composed value, such as a command or a query."""
    return next((match.evidence for match in matching.find_content(case.ledger, body)), None)


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
        outline = outline._replace(repeated=_find_repeated_text(case))
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
        _check_sink(case) if case.listener.sink else check_exits(case), _check_confidentiality(case)
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


ARGUMENTS: Final = 50
"""Maximum arguments of a call whose origins are shown."""
EACH: Final = 4
"""Maximum origins of one value that are shown."""
ANSWERED: Final = 3
"""Maximum untrusted texts that are shown."""
FIELDS: Final = 50
"""Maximum fields of one of them that are shown."""
SHOWN: Final = 4_000
"""Maximum characters of one of them, and of the request."""


def find_origins(ledger: Ledger, policy: Policy, call: Call) -> Origins:
    """Find the origins of each value of a call, and the texts that it answers."""
    case = Case(ledger, policy, call)
    shown = case.arguments[:ARGUMENTS]
    found = [(argument, [*islice(_find_holders(case, argument), EACH)]) for argument in shown]
    values = tuple(one for argument, holders in found for one in _describe(argument, holders))
    holders = (text for _, each in found for _, text in each)
    strange = [text for text in holders if text is not None and policy.classify(text.origin.source).source]
    return Origins(
        _collect_latest_queries(ledger.queries),
        values,
        _list_answered(ledger, strange),
        len(case.arguments) - len(shown),
    )


def _describe(argument: Argument, holders: list[tuple[str, Text | None]]) -> Iterator[ValueOrigin]:
    path, value = strip_indices(argument.leaf.path), argument.body[:SHOWN]
    for kind, text in holders or [("nothing", None)]:
        if text is None:
            yield ValueOrigin(path, value, kind)
        else:
            yield ValueOrigin(
                path,
                value,
                kind,
                text.origin.source,
                strip_indices(text.origin.path),
                text.origin.step,
                text.origin.trace,
            )


def _find_holders(case: Case, argument: Argument) -> Iterator[tuple[str, Text | None]]:
    """Find the kind of each origin of a value, and the text that holds it."""
    if argument.rule.role is Role.DESTINATION:
        yield from _find_place_holders(case, argument)
    else:
        if is_requested(case, argument):
            yield "request", None
        if argument.body in argument.rule.values:
            yield "operator", None
        records = (text for text in find_records(case, argument) if text.standing is not Standing.DIRECTORY)
        yield from (("record", text) for text in islice(records, 1))
    try:
        yield from (("stranger", text) for text in _find_untrusted(case.ledger, argument.body))
        known = not case.ledger.overflow
    except matching.TooManyValues:
        known = False
    if not known:
        yield "unknown", None


def _find_place_holders(case: Case, argument: Argument) -> Iterator[tuple[str, Text | None]]:
    places = [place for place in read_places(case, argument) if place.form is not PlaceForm.NONE]
    if any(case.ledger.asked.names(place) for place in places):
        yield "request", None
    if any(find_entry(case.policy.allow, place) or place.written in argument.rule.values for place in places):
        yield "operator", None
    texts = (text for place in places for text in case.ledger.records.find_directory(place))
    yield from (("directory", text) for text in islice(texts, 1))


def _find_untrusted(ledger: Ledger, body: str) -> Iterator[Text]:
    """Find the untrusted texts that hold a value or a piece of it, one of each record. Raises TooManyValues."""
    complete = matching.find_origin(ledger, body)
    pieces = () if complete else tuple(islice(matching.find_content(ledger, body), EACH))
    texts = [complete.text] if complete else [match.evidence.text for match in pieces]
    yield from {record_of(text.origin): text for text in texts}.values()


def _list_answered(ledger: Ledger, texts: list[Text]) -> tuple[AnsweredText, ...]:
    """List the records that hold values of a call, or the last record read if there are no such records."""
    last = [] if texts else [*ledger.texts[-1:]]
    chosen = {record_of(text.origin): text for text in (*texts, *last)}
    return tuple(
        _show_record(record, collect_record(ledger, text), holds=bool(texts))
        for record, text in islice(chosen.items(), ANSWERED)
    )


def _show_record(record: tuple[str, int, str], texts: Sequence[Text], *, holds: bool) -> AnsweredText:
    """Cut a record to the bounds of the display."""
    room = SHOWN
    shown: list[RecordText] = []
    for text in texts[:FIELDS]:
        if room > 0:
            shown.append(RecordText(strip_indices(text.origin.path), text.body[:room]))
        room -= len(text.body)
    return AnsweredText(*record, tuple(shown), holds, cut=room < 0 or len(texts) > FIELDS)


def _collect_latest_queries(queries: tuple[str, ...]) -> str:
    """Collect the principal's latest words, each cut only at its end so that secrets are still recognised."""
    room = SHOWN
    shown: list[str] = []
    for query in reversed(queries[-EACH:]):
        if room > 0:
            shown.append(query[:room])
        room -= len(query) + 1
    return "\n".join(reversed(shown))
