"""Checks the destinations of a call, and links and hosts that lead out.

``authority`` knows who vouches for a destination.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.evidence.authority import find_barring_entry, find_entry
from agentserver.provenance.evidence.destinations import (
    HOST,
    LISTED,
    NETWORK_SCHEMES,
    Destination,
    PlaceForm,
    find_recipients,
    join_link,
    leads_out,
    parse_destination,
)
from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.inventory import SCHEME, is_file
from agentserver.provenance.evidence.labels import Role, Standing, strip_indices
from agentserver.provenance.exits import may_follow
from agentserver.provenance.judging.answers import is_answered
from agentserver.provenance.judging.authority import (
    is_id_of_requested_document,
    is_part_of_named_path,
    is_passed_over,
    may_choose,
    may_receive,
)
from agentserver.provenance.judging.lookups import may_receive_as_found
from agentserver.provenance.judging.members import is_kept_member
from agentserver.provenance.judging.returns import (
    is_below_named_page,
    is_below_said_host,
    is_on_authors_site,
)
from agentserver.provenance.observations.authors import parse_qualified_address
from agentserver.provenance.policy.declarations import ArgumentRule, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.verdict import Finding

HALVES: Final = 4096
"""Maximum pairs of arguments that are joined to look for a link."""

_TAIL: Final = re.compile(r"[.\u3002\uff0e\uff61][^\W_][^\s]*$")
_GAP: Final = re.compile(r"\s")
_SCHEMES: Final = NETWORK_SCHEMES | {""}
"""Schemes that reach a place; any other one begins an id of some system."""
_WEB: Final = {"http", "https"}
_UNDECLARED: Final = ArgumentRule("", Role.DESTINATION, declared=False)
_COUNTS: Final = frozenset(map(str, range(1000)))
"""Numbers that reveal next to nothing, such as a page or a limit."""


def check_destination(case: Case, argument: Argument) -> Iterator[Finding]:
    """Check an argument that says who receives."""
    if len(argument.body) > LISTED:
        yield case.make_finding(Rule.BOUND, argument, "longer than any list of destinations")
    elif entry := find_denied(case, argument.body):
        yield case.make_finding(Rule.DENIED, argument, f"'{entry}' is on the deny list")
    elif _is_of_other_record(case, argument):
        yield case.make_finding(Rule.UNKNOWN_DESTINATION, argument, "the request chose another record")
    elif not case.is_warranted(argument):
        places = read_places(case, argument)
        found = [each for place in places for each in _check_place(case, argument, place)]
        yield from found or _check_parts(case, argument, places[0])


def _is_of_other_record(case: Case, argument: Argument) -> bool:
    """Check whether a text says a receiver, off the allow list, whose record the request passed over."""
    if case.is_warranted(argument) or not (case.is_suspect(argument) and is_passed_over(case, argument)):
        return False
    if all(find_entry(case.policy.allow, place) for place in read_places(case, argument)):
        return False
    return not matching.is_absent(case.ledger, argument.body)


def read_places(case: Case, argument: Argument) -> tuple[Destination, ...]:
    """Read every recipient of one argument; several names in one text each need an authority."""
    if id(argument) not in case.places:  # the argument is kept with them, so that no other one has its id
        case.places[id(argument)] = argument, _split_recipients(case, argument)
    return case.places[id(argument)][1]


def _split_recipients(case: Case, argument: Argument) -> tuple[Destination, ...]:
    recipients = find_recipients(argument.body)
    if (
        len(recipients) != 1
        or recipients[0].form not in {PlaceForm.NAME, PlaceForm.NONE}
        or may_receive(case, argument.rule, recipients[0])
    ):
        return recipients
    names = [name.strip() for name in re.split(r"[,;]", recipients[0].written) if name.strip()]
    places = tuple(map(parse_destination, names))
    hosts = all(place.host == place.written for place in places)
    return places if len(places) > 1 and (hosts or recipients[0].form is PlaceForm.NAME) else recipients


def _check_place(case: Case, argument: Argument, place: Destination) -> Iterator[Finding]:
    """Check a recipient that has no authority.

    One from untrusted text is always found, one of unknown origin only if the argument is suspect.
    """
    if (
        not case.ledger.tainted
        or may_receive(case, argument.rule, place)
        or may_receive_as_found(case, place)
    ):
        return
    if _is_of_named_document(case, argument, place) or is_kept_member(case, argument, place):
        return
    if is_part_of_named_path(case, argument):
        return
    suspect = case.is_suspect(argument)
    if suspect and case.is_settled(Rule.DESTINATION, Rule.UNKNOWN_DESTINATION):
        yield case.make_finding(Rule.UNKNOWN_DESTINATION, argument)
        return
    forms = dict.fromkeys((place.written, SCHEME.sub("", place.key)))
    evidence = next(filter(None, (matching.find_tracked_origin(case.ledger, form) for form in forms)), None)
    if not suspect and all(matching.is_absent(case.ledger, form) for form in forms):
        return
    detail = describe_lookalike(case, place) or (
        "it is no single destination" if place.form is PlaceForm.NONE else ""
    )
    yield case.make_finding(
        Rule.DESTINATION if evidence else Rule.UNKNOWN_DESTINATION, argument, detail, evidence
    )


def _is_of_named_document(case: Case, argument: Argument, place: Destination) -> bool:
    """Check whether a destination goes back to a document that the principal named."""
    return (
        is_answered(case, argument, place)
        or is_below_named_page(case, argument, place)
        or is_on_authors_site(case, argument, place)
        or is_below_said_host(case, argument, place)
        or (place.form is PlaceForm.NAME and is_id_of_requested_document(case, argument))
    )


def find_denied(case: Case, text: str) -> str | None:
    """Find the deny entry for a text. Lookalikes are denied too: folding is safe for refusing, not for allowing."""
    deny = case.policy.deny
    shapes = {fold(place.written) for place in find_recipients(text)} if deny else set()
    return find_barring_entry(deny, text) or next(
        (entry for entry in deny if fold(entry) in shapes - {""}), None
    )


def describe_lookalike(case: Case, place: Destination) -> str:
    """Name the allowed destination that a refused one merely looks like."""
    shape = fold(place.written)
    alike = (entry for entry in case.policy.allow if fold(entry) == shape)
    known = (*alike, *filter(None, (case.ledger.asked.shapes.get(shape),)))
    like = next((entry for entry in known if parse_destination(entry) != place), None)
    return f"looks like '{like}' and is another place" if like else ""


def check_exits(case: Case) -> Iterator[Finding]:
    """Check a listener that is no sink: a link without an author can carry data out in any field."""
    fetches = case.listener.source
    for argument in case.arguments:
        declared = argument.rule.declared
        if (argument.rule.role is Role.DESTINATION and declared) or (
            not declared
            and (fetches or "://" in argument.body)
            and leads_out(argument.body)
            and not _is_qualified_address(case, argument)
        ):
            yield from _check_exit(case, argument)
    if fetches:
        yield from check_halves(case)


def _is_qualified_address(case: Case, argument: Argument) -> bool:
    """Check whether a search term is an address with a qualifier before it, such as ``from:ann@corp.example``.

    It leads nowhere: the qualifier is no scheme of a network, and a text or the request holds the address.
    An address by itself is no exit either.
    """
    place = parse_qualified_address(argument.body)
    if place is None:
        return False
    return (
        case.ledger.asked.names(place) or matching.find_tracked_origin(case.ledger, place.written) is not None
    )


def _check_exit(case: Case, argument: Argument) -> Iterator[Finding]:
    """Check a link or host that is fetched, or a destination of a listener that is no sink."""
    if len(argument.body) > LISTED:
        yield case.make_finding(Rule.BOUND, argument, "longer than any list of destinations")
        return
    if entry := find_denied(case, argument.body):
        yield case.make_finding(Rule.DENIED, argument, f"'{entry}' is on the deny list")
    if entry or not case.exposed:
        return
    places = read_places(case, argument)
    known = not case.is_suspect(argument) or may_follow(case.ledger, case.policy, places[0])
    known = known or _is_chosen_name(case, argument) or case.is_warranted(argument)
    known = known or _is_recorded_link(case, argument, places[0])
    if known or all(may_receive(case, argument.rule, place) for place in places):
        yield from _check_parts(case, argument, places[0])
    else:
        yield case.make_finding(Rule.EXIT, argument, "no text, record or request holds this link")


def _check_parts(case: Case, argument: Argument, place: Destination) -> Iterator[Finding]:
    """Find another argument that may redirect an allowed link or send data along with it."""
    other = next((each for each in case.arguments if _carries(case, argument, place, each)), None)
    if other is not None and (case.is_suspect(argument) or case.is_suspect(other)):
        detail = f"it may be a part of the link in {strip_indices(argument.leaf.path)}"
        yield case.make_finding(Rule.EXIT, other, detail)


def check_halves(case: Case) -> Iterator[Finding]:
    """Find a host that two arguments form together, such as ``evil`` and ``.example/x``, and neither alone."""
    if not case.exposed:
        return
    if not [argument for argument in case.arguments if _TAIL.match(argument.body.strip())]:
        return
    parts = sorted(case.arguments, key=case.is_suspect)  # of two that say the same the suspect one counts
    bodies = [(argument, argument.body.strip()) for argument in parts]
    heads = {body: argument for argument, body in bodies if len(body) <= HOST and not _GAP.search(body)}
    tails = [one for one in bodies if _TAIL.match(one[1]) and not one[0].rule.declared]
    if len(heads) * len(tails) > HALVES:
        yield case.make_finding(Rule.BOUND, tails[0][0], "more parts of links than are looked at")
        return
    for argument, body in tails:
        pairs = ((head, other) for head, other in heads.items() if other is not argument)
        suspect = ((head, case.is_suspect(argument) or case.is_suspect(other)) for head, other in pairs)
        if any(doubted and _leads_to_unknown_host(case, head + body) for head, doubted in suspect):
            yield case.make_finding(Rule.EXIT, argument, "with another argument it makes a link")


def _leads_to_unknown_host(case: Case, body: str) -> bool:
    """Check whether a text leads to a host that nothing allows. A file name leads nowhere."""
    place = parse_destination(body)
    known = may_follow(case.ledger, case.policy, place) or may_receive(case, _UNDECLARED, place)
    return leads_out(body) and not is_file(body) and not known


def _is_recorded_link(case: Case, argument: Argument, place: Destination) -> bool:
    """Check whether a link is, as it is spelled, a field of a trusted listener's record that repeats no stranger.

    Which one is followed counts in the budget of exits. Nobody but the listener wrote it, so that it takes nothing else
    along; whether the principal chose the record matters for receivers.
    """
    if place.form is not PlaceForm.LINK or place.scheme not in _WEB:
        return False
    texts = case.ledger.records.find(f"place {place.key}")
    return any(
        text.body.strip() == argument.body.strip()
        and text.standing is Standing.RECORD
        and not case.is_of_source(text)
        for text in texts
    )


def _is_chosen_name(case: Case, argument: Argument) -> bool:
    """Check whether an apparent host is a chosen file name, or a chosen id with a scheme of its own."""
    own = parse_destination(argument.body).scheme not in _SCHEMES
    return (is_file(argument.body) or own) and may_choose(case, argument)


def _carries(case: Case, argument: Argument, place: Destination, other: Argument) -> bool:
    """Check whether another argument may redirect a link, or send data without an author to an unknown place."""
    if (
        other is argument
        or place.form is not PlaceForm.LINK
        or other.rule.declared
        or _is_checked_alone(case, other)
    ):
        return False
    if not may_receive(case, argument.rule, place):
        telling = not (isinstance(other.leaf.value, bool) or other.body in _COUNTS)
        return telling and not may_choose(case, other)
    return any(not may_receive(case, other.rule, each) for each in join_link(place, other.body))


def _is_checked_alone(case: Case, argument: Argument) -> bool:
    """Check whether an argument is checked as a destination or exit of its own."""
    return argument.rule.role is Role.DESTINATION if case.listener.sink else leads_out(argument.body)
