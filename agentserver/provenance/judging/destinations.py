"""Destinations of a call, and the ways out that links and hosts are.

Owns which rule a recipient, a link or a part of a link breaks. Refuses to know who stands behind one: ``authority``
does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.evidence.authority import barred
from agentserver.provenance.evidence.destinations import (
    HOST,
    LISTED,
    Destination,
    PlaceForm,
    destination,
    joined,
    leads_out,
    recipients,
)
from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.inventory import SCHEME, is_file
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.exits import followed
from agentserver.provenance.judging.authority import may_choose, may_receive
from agentserver.provenance.policy.declarations import ArgumentRule, Rule
from agentserver.provenance.policy.paths import bare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.judging.case import Argument, Case
    from agentserver.provenance.verdict import Finding

HALVES: Final = 4096
"""Pairs of arguments that are looked at together for a link."""

_TAIL: Final = re.compile(r"[.\u3002\uff0e\uff61][^\W_][^\s]*$")
_GAP: Final = re.compile(r"\s")
_REACHED: Final = {
    "",
    "http",
    "https",
    "ws",
    "wss",
    "ftp",
    "ftps",
    "sftp",
    "ssh",
    "git",
    "file",
    "mailto",
    "data",
    "blob",
}
"""Schemes by which something is reached; any other one begins the ids of some system."""
_UNDECLARED: Final = ArgumentRule("", Role.DESTINATION, declared=False)
_COUNTS: Final = frozenset(map(str, range(1000)))
"""Numbers that tell next to nothing: a page, a limit."""


def of_destination(case: Case, argument: Argument) -> Iterator[Finding]:
    """Findings about an argument that says who receives."""
    if len(argument.body) > LISTED:
        yield case.finding(Rule.BOUND, argument, "longer than any list of destinations")
    elif entry := denied(case, argument.body):
        yield case.finding(Rule.DENIED, argument, f"'{entry}' is on the deny list")
    elif not case.warranted(argument):
        places = places_of(case, argument)
        found = [each for place in places for each in _of_place(case, argument, place)]
        yield from found or _of_parts(case, argument, places[0])


def places_of(case: Case, argument: Argument) -> tuple[Destination, ...]:
    """Every recipient of one argument; several names in one text each need an authority."""
    if id(argument) not in case.places:  # the argument is kept with them, so that no other one has its id
        case.places[id(argument)] = argument, _read(case, argument)
    return case.places[id(argument)][1]


def _read(case: Case, argument: Argument) -> tuple[Destination, ...]:
    whole = recipients(argument.body)
    if len(whole) != 1 or whole[0].form is not PlaceForm.NAME or may_receive(case, argument.rule, whole[0]):
        return whole
    names = [name.strip() for name in re.split(r"[,;]", whole[0].written) if name.strip()]
    return tuple(map(destination, names)) if len(names) > 1 else whole


def _of_place(case: Case, argument: Argument, place: Destination) -> Iterator[Finding]:
    """A recipient without authority: from untrusted text whoever sends it, of unknown origin where that is suspect."""
    if not case.ledger.tainted or may_receive(case, argument.rule, place):
        return
    suspect = case.suspects(argument)
    if suspect and case.settled(Rule.DESTINATION, Rule.UNKNOWN_DESTINATION):
        yield case.finding(Rule.UNKNOWN_DESTINATION, argument)
        return
    forms = dict.fromkeys((place.written, SCHEME.sub("", place.key)))
    evidence = next(filter(None, (matching.found(case.ledger, form) for form in forms)), None)
    if not suspect and all(matching.absent(case.ledger, form) for form in forms):
        return
    detail = resembles(case, place) or ("it is no single destination" if place.form is PlaceForm.NONE else "")
    yield case.finding(Rule.DESTINATION if evidence else Rule.UNKNOWN_DESTINATION, argument, detail, evidence)


def denied(case: Case, text: str) -> str | None:
    """Deny entries also mean what looks the same: refusing may fold, allowing may not."""
    deny = case.policy.deny
    shapes = {fold(place.written) for place in recipients(text)} if deny else set()
    return barred(deny, text) or next((entry for entry in deny if fold(entry) in shapes - {""}), None)


def resembles(case: Case, place: Destination) -> str:
    """Names the allowed destination that a refused one merely looks like."""
    shape = fold(place.written)
    alike = (entry for entry in case.policy.allow if fold(entry) == shape)
    known = (*alike, *filter(None, (case.ledger.asked.shapes.get(shape),)))
    like = next((entry for entry in known if destination(entry) != place), None)
    return f"looks like '{like}' and is another place" if like else ""


def exits(case: Case) -> Iterator[Finding]:
    """Findings about a listener that is no sink: a link without an author carries something in it, in any field."""
    fetches = case.listener.source
    for argument in case.arguments:
        declared = argument.rule.declared
        if (argument.rule.role is Role.DESTINATION and declared) or (
            not declared and (fetches or "://" in argument.body) and leads_out(argument.body)
        ):
            yield from _of_exit(case, argument)
    if fetches:
        yield from halves(case)


def _of_exit(case: Case, argument: Argument) -> Iterator[Finding]:
    """A link or a host that is fetched, or a destination of that which is no sink."""
    if len(argument.body) > LISTED:
        yield case.finding(Rule.BOUND, argument, "longer than any list of destinations")
        return
    if entry := denied(case, argument.body):
        yield case.finding(Rule.DENIED, argument, f"'{entry}' is on the deny list")
    if entry or not case.exposed:
        return
    places = places_of(case, argument)
    known = not case.suspects(argument) or followed(case.ledger, case.policy, places[0])
    known = known or _opens(case, argument) or case.warranted(argument)
    if known or all(may_receive(case, argument.rule, place) for place in places):
        yield from _of_parts(case, argument, places[0])
    else:
        yield case.finding(Rule.EXIT, argument, "no text, record or request holds this link")


def _of_parts(case: Case, argument: Argument, place: Destination) -> Iterator[Finding]:
    """Another argument that may make an allowed link lead elsewhere, or take something along."""
    other = next((each for each in case.arguments if _carries(case, argument, place, each)), None)
    if other is not None and (case.suspects(argument) or case.suspects(other)):
        detail = f"it may be a part of the link in {bare(argument.leaf.path)}"
        yield case.finding(Rule.EXIT, other, detail)


def halves(case: Case) -> Iterator[Finding]:
    """A host that two arguments make, as ``evil`` and ``.example/x`` do, while neither is one by itself."""
    if not case.exposed:
        return
    parts = sorted(case.arguments, key=case.suspects)  # of two that say the same the suspect one counts
    said = [(argument, argument.body.strip()) for argument in parts]
    heads = {body: argument for argument, body in said if len(body) <= HOST and not _GAP.search(body)}
    tails = [one for one in said if _TAIL.match(one[1]) and not one[0].rule.declared]
    if len(heads) * len(tails) > HALVES:
        yield case.finding(Rule.BOUND, tails[0][0], "more parts of links than are looked at")
        return
    for argument, body in tails:
        others = ((head, other) for head, other in heads.items() if other is not argument)
        suspect = ((head, case.suspects(argument) or case.suspects(other)) for head, other in others)
        if any(doubted and _strange(case, head + body) for head, doubted in suspect):
            yield case.finding(Rule.EXIT, argument, "with another argument it makes a link")


def _strange(case: Case, body: str) -> bool:
    """True when a text leads to a host that nothing allows. The name of a file leads nowhere."""
    place = destination(body)
    known = followed(case.ledger, case.policy, place) or may_receive(case, _UNDECLARED, place)
    return leads_out(body) and not is_file(body) and not known


def _opens(case: Case, argument: Argument) -> bool:
    """True when what looks like a host is the name of a file, or an id with a scheme of its own, that was chosen."""
    own = destination(argument.body).scheme not in _REACHED
    return (is_file(argument.body) or own) and may_choose(case, argument)


def _carries(case: Case, argument: Argument, place: Destination, other: Argument) -> bool:
    """True when another argument may make a link lead elsewhere, or take along to a stranger what has no author."""
    if (
        other is argument
        or place.form is not PlaceForm.LINK
        or other.rule.declared
        or _by_itself(case, other)
    ):
        return False
    if not may_receive(case, argument.rule, place):
        telling = not (isinstance(other.leaf.value, bool) or other.body in _COUNTS)
        return telling and not may_choose(case, other)
    return any(not may_receive(case, other.rule, each) for each in joined(place, other.body))


def _by_itself(case: Case, argument: Argument) -> bool:
    """True when an argument is judged as a destination or an exit of its own."""
    return argument.rule.role is Role.DESTINATION if case.listener.sink else leads_out(argument.body)
