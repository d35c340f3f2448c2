"""The content that goes out with a call: whether its receivers may read it, and what the call tells by its choices.

Owns the receivers of a call, the search for private content among what it says and the count of its choices.
Refuses to decide: it gives what it found, and the judge says what becomes of it. Exact evidence holds for every sender,
choices count for an exposed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from agentserver.characters.printing import truncate
from agentserver.provenance.confidentiality.bits import (
    CALL,
    Choice,
    case,
    choice,
    number,
    order,
    spelling,
    total,
)
from agentserver.provenance.confidentiality.origin import ANYWHERE, record_of, same_site, site
from agentserver.provenance.confidentiality.readers import admits
from agentserver.provenance.evidence.authority import matching as entry_for
from agentserver.provenance.evidence.destinations import PlaceForm, destination, leads_out, listed, recipients
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.inventory import exact, spelled
from agentserver.provenance.evidence.labels import Leaf, Role, Standing, Text
from agentserver.provenance.evidence.leaves import text_of
from agentserver.provenance.policy.declarations import ArgumentRule, Effect, Rule
from agentserver.provenance.verdict import Evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentserver.provenance.confidentiality.private import PrivateMatch
    from agentserver.provenance.confidentiality.readers import Groups
    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Call
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.policy.declarations import ListenerClass, Policy
    from agentserver.provenance.verdict import Finding

EXCERPT: Final = 160
"""Longest quotation of private content, in characters."""

RECEIVERS: Final = 1000
"""Receivers of one call that are asked about; with more of them, no private content goes out at all."""


LOOKED_AT: Final = 64
"""Texts with one link that are asked where they came from."""

DIGITS: Final = 20
"""Digits of a number that is counted as one."""

_OUT: Final = ArgumentRule("", Role.DESTINATION)
_ALONG: Final = ArgumentRule("", Role.PAYLOAD)
_TOLD: Final = {Role.DESTINATION, Role.QUANTITY, Role.TIME, Role.PAYLOAD, Role.INERT}
"""Roles of what a receiver is told. What a selector chooses, the receiving listener looks up."""


Ruled: TypeAlias = tuple[Leaf, ArgumentRule]
"""An argument of a call with its rule."""


class Broken(NamedTuple):
    """A rule about exits that a call breaks, with the argument that does where it is one."""

    rule: Rule
    leaf: Leaf | None
    detail: str
    evidence: Evidence | None = None


def broken(ledger: Ledger, policy: Policy, call: Call, said: Sequence[Ruled]) -> Iterator[Broken]:
    """Every rule about confidentiality that a call breaks.

    Choices are told from half of their budget on, or all of them where the policy says what is done about them.

    Args:
        ledger: what the conversation has seen.
        policy: what is declared.
        call: what is judged.
        said: its arguments that are not blank, with their rules.
    """
    kind = policy.classify(call.sink)
    if not ledger.private and (not ledger.tainted or (kind.sink and not kind.source)):
        return
    ruled = ruled_at_exit(kind, said)
    yield from leaks(ledger, ruled)
    parts = choices(ledger, policy, call, ruled)
    if not parts:
        return
    bits, spent = total(parts), ledger.exit_bits
    told = f"{bits:.1f} bits ({', '.join(f'{part.what} {part.bits:.1f}' for part in parts)}); "
    sums = f"{spent + bits:.1f} of {policy.exit_budget:g} with those before"
    if spent + bits > policy.exit_budget:
        yield Broken(Rule.EXIT_BUDGET, None, told + sums)
    elif spent + bits >= policy.exit_budget / 2 or policy.declares(Rule.CHOICES, call.sink):
        yield Broken(Rule.CHOICES, None, told + sums)


def without_idle_choices(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings without the choices of a call that is refused for another reason: nothing is told by it."""
    found = tuple(findings)
    refused = any(one.effect is Effect.BLOCK and one.rule is not Rule.CHOICES for one in found)
    return tuple(one for one in found if not refused or one.rule is not Rule.CHOICES)


def bits_of(ledger: Ledger, policy: Policy, call: Call) -> float:
    """The bits that a call carries out by its choices, given what was known before it."""
    if not ledger.tainted or not (call.exposed or ledger.private.pools):
        return 0.0
    leaves = (leaf for leaf in call.arguments if text_of(leaf.value).strip())
    said = tuple((leaf, policy.argument(call, leaf)) for leaf in leaves)
    return total(choices(ledger, policy, call, ruled_at_exit(policy.classify(call.sink), said)))


def ruled_at_exit(kind: ListenerClass, said: Sequence[Ruled]) -> Sequence[Ruled]:
    """The arguments of a call with their rules as of an exit.

    At a listener without consequences each value that leads out is a destination, whatever its field is called, and
    all else goes along with it.
    """
    return said if kind.sink else tuple((leaf, _at_fetch(kind, leaf, rule)) for leaf, rule in said)


def _at_fetch(kind: ListenerClass, leaf: Leaf, rule: ArgumentRule) -> ArgumentRule:
    if rule.declared:
        return rule
    body = text_of(leaf.value)
    leads = (kind.source or "://" in body) and leads_out(body)
    return _OUT if leads else _ALONG


def choices(ledger: Ledger, policy: Policy, call: Call, ruled: Sequence[Ruled]) -> tuple[Choice, ...]:
    """The choices of a call that its receivers see and the principal did not make.

    Only an exposed sender's count, and only where what may go out is restricted: a link that a text or a record
    offered, or a receiver who may not read something of this conversation.
    """
    told = receivers(ruled) if call.exposed and ledger.tainted else ()
    kind = policy.classify(call.sink)
    restricted = any(_refused(ledger, pool.readers, told) for pool in ledger.private.pools)
    if not (restricted or (told and (kind.source or not kind.sink))):
        return ()
    places = tuple(place for _, place in told if not _free(policy, place))
    links = [place for place in places if place.form is PlaceForm.LINK]
    parts = [part for place in links for part in _link(ledger, policy, place)]
    if any(offered(ledger, place) for place in links):
        parts += [_along(ledger, leaf) for leaf, rule in ruled if rule is _ALONG]
    others = {
        place.key
        for place in places
        if place.form is not PlaceForm.LINK and not _named(ledger, policy, place)
    }
    if others and restricted:
        known = ledger.records.places
        parts.append(Choice("which receivers", CALL + choice(known, len(others))))
        parts.append(Choice("their order", order(len(others))))
    return tuple(part for part in parts if part.bits)


def _free(policy: Policy, place: Destination) -> bool:
    """True for a receiver that the operator allows: there is nothing that it may not be told by a choice."""
    return entry_for(policy.allow, place) is not None


def _named(ledger: Ledger, policy: Policy, place: Destination) -> bool:
    return policy.query_authorises and ledger.asked.names(place)


def _link(ledger: Ledger, policy: Policy, place: Destination) -> Iterator[Choice]:
    """The choices in one link that is no operator's."""
    if _named(ledger, policy, place):
        if place.written != place.key and not ledger.asked.mentions(place.written):
            yield Choice("spelling", spelling(place))
    elif offered(ledger, place):
        yield Choice("which link", CALL + choice(_offers(ledger, place)))
        if not ledger.untrusted.shows(spelled(place.written)):
            yield Choice("spelling", 1.0)
    elif any(_known(ledger, place)):
        yield Choice("which place", CALL + choice(ledger.records.places))
        yield Choice("spelling", spelling(place))


def _offers(ledger: Ledger, place: Destination) -> int:
    """The number of links that this one was chosen from: those of every place that it stands in."""
    texts = ledger.untrusted.showing(exact(place.written), LOOKED_AT)
    return sum(map(ledger.untrusted.offers, {text.origin.place for text in texts}))


def _along(ledger: Ledger, leaf: Leaf) -> Choice:
    """The choice of another argument beside a link that is followed."""
    body = text_of(leaf.value).strip()
    if isinstance(leaf.value, bool):
        return Choice(leaf.path, CALL)
    if body.isascii() and body.isdecimal() and len(body) <= DIGITS:
        return Choice(leaf.path, CALL + number(int(body)) + (body != str(int(body))))
    words = len(ledger.asked.shapes)
    if ledger.asked.mentions(body):
        return Choice(leaf.path, CALL + choice(words))
    if ledger.asked.mentions(body, any_case=True):
        return Choice(leaf.path, CALL + choice(words) + case(body))
    return Choice(leaf.path, CALL + choice(len(ledger.records.entries)))


def receivers(ruled: Iterable[Ruled]) -> tuple[tuple[Leaf, Destination], ...]:
    """The places that the destinations of a call name, each with its argument."""
    return tuple(
        (leaf, place)
        for leaf, rule in ruled
        if rule.role is Role.DESTINATION
        for place in recipients(text_of(leaf.value))
    )


def leaks(ledger: Ledger, ruled: Sequence[Ruled]) -> Iterator[Broken]:
    """Everything private that a call would say to a receiver who may not read it, but for the principal's own words.

    Args:
        ledger: what the conversation has seen.
        ruled: the arguments of the call with their rules. A call without a destination is no exit.
    """
    places = receivers(ruled) if ledger.private else ()
    if not places:
        return
    if ledger.private.overflow:
        yield Broken(Rule.BOUND, None, "more private text was read than is tracked")
    refused = {pool.readers: _refused(ledger, pool.readers, places) for pool in ledger.private.pools}
    pools = [pool for pool in ledger.private.pools if refused[pool.readers] is not None]
    said = [leaf for leaf, rule in ruled if rule.role in _TOLD and not _chosen(ledger, leaf, rule)]
    told: set[tuple[int, str, str, int]] = set()
    for found in ledger.private.found([text_of(leaf.value) for leaf in said], pools):
        origin = found.text.origin
        key = (found.piece, origin.source, origin.path, origin.step)
        if key not in told and not ledger.asked.says(fold_bytes(found.excerpt)):
            told.add(key)
            detail = _detail(refused[found.readers], found.readers)
            yield Broken(Rule.READERS, said[found.piece], detail, _evidence(found))


def _refused(
    ledger: Ledger, readers: Groups, places: Sequence[tuple[Leaf, Destination]]
) -> Destination | None:
    """The first receiver that may not read what has these readers."""
    if len(places) > RECEIVERS:
        return places[0][1]
    return next((place for _, place in places if not admits(readers, place, _known(ledger, place))), None)


def _known(ledger: Ledger, place: Destination) -> tuple[Text, ...]:
    return tuple(ledger.records.find(f"place {place.key}"))


def _chosen(ledger: Ledger, leaf: Leaf, rule: ArgumentRule) -> bool:
    """True for a destination that stands as a whole where it was offered: it was chosen, not written.

    A display name beside an address was not offered with it.
    """
    if rule.role is not Role.DESTINATION:
        return False
    text = text_of(leaf.value)
    places = recipients(text)
    bare = b"".join(fold_bytes(place.written) for place in places) == fold_bytes(text)
    return (
        bool(places)
        and bare
        and all(place.form is not PlaceForm.NONE and _offered(ledger, place) for place in places)
    )


def _offered(ledger: Ledger, place: Destination) -> bool:
    if ledger.asked.names(place) or (place.form is not PlaceForm.LINK and any(_known(ledger, place))):
        return True
    return place.form is PlaceForm.LINK and offered(ledger, place)


def offered(ledger: Ledger, place: Destination) -> bool:
    """True when a text that was read holds a link as it is spelled here, or this is its authority form.

    Letter case, a fragment or a port that no text has would take something along.
    """
    if not ledger.untrusted.shows(exact(place.written)):
        return False
    return place.written == place.key or ledger.untrusted.shows(spelled(place.written))


def followed(ledger: Ledger, policy: Policy, place: Destination) -> bool:
    """True when a link may be followed because a text that was read holds it, as it is spelled there.

    A text may steer a call back to the site that it was fetched from, and to no other that nobody vouches for: the
    request, a directory, or that the request named the text, where it was fetched from no place that is known.
    """
    if not policy.follow_links or place.scheme not in {"http", "https"} or not offered(ledger, place):
        return False
    home = destination(site(place))
    if policy.query_authorises and ledger.asked.names(home):
        return True
    if any(True for _ in ledger.records.directory(home)):
        return True
    texts = ledger.untrusted.showing(exact(place.written), LOOKED_AT)
    return any(
        text.asked if text.origin.place == ANYWHERE else same_site(text.origin, place) for text in texts
    )


def answers(ledger: Ledger, selectors: Iterable[Leaf], place: Destination) -> bool:
    """True when a place is a whole field of the very record that a selector of the same call names.

    So a reply goes to those who take part in its thread. Who that is, the author of a message decides: what may be told
    them is for readers, and for the evidence of content.
    """
    named = ledger.untrusted.showing(exact(place.written), LOOKED_AT)
    fields = [text.origin for text in _known(ledger, place)]
    fields += [text.origin for text in named if place in listed(text.body)]
    records = {record_of(origin) for origin in fields if not origin.via}
    chosen = (text_of(leaf.value).strip() for leaf in selectors)
    keys = {f"name {form}" for body in chosen for form in (body, body.lower())} if records else set()
    ids = (text for key in keys for text in ledger.records.find(key) if text.standing is not Standing.PROSE)
    return any(record_of(text.origin) in records for text in ids)


def _detail(place: Destination | None, readers: Groups) -> str:
    """The receiver that may not read it, and who may."""
    who = " and ".join(", ".join(group) if group else "no receiver" for group in readers)
    return f"'{place.written if place else ''}' is none of its readers: {who}"


def _evidence(found: PrivateMatch) -> Evidence:
    via = " then ".join(part for part in (found.text.origin.via, found.via) if part)
    body = " ".join(found.text.body.split())
    return Evidence(
        truncate(" ".join(found.excerpt.split()), EXCERPT), found.text, truncate(body, EXCERPT), via
    )
