"""Confidentiality checks of a call: whether its receivers may read the content, and how much its choices reveal.

Finds the receivers of a call, the private content it sends them and the choices it makes. The judge decides what
follows. Private content is checked for every sender, choices only for an exposed one.

Each count of bits is the length of a code word in a prefix code of the choices, so the sum over a conversation bounds
what a receiver can learn from all of them, the number of calls included.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from agentserver.characters.printing import truncate
from agentserver.provenance.confidentiality.origin import ANYWHERE, is_same_site, record_of, site_of
from agentserver.provenance.confidentiality.readers import admits
from agentserver.provenance.evidence.authority import find_entry
from agentserver.provenance.evidence.destinations import (
    PlaceForm,
    find_recipients,
    leads_out,
    parse_destination,
    parse_list,
)
from agentserver.provenance.evidence.folding import fold_bytes
from agentserver.provenance.evidence.inventory import hash_place, hash_spelling
from agentserver.provenance.evidence.labels import Leaf, Role, Standing, Text, strip_indices
from agentserver.provenance.evidence.leaves import format_text
from agentserver.provenance.observations.records import list_name_keys
from agentserver.provenance.policy.declarations import ArgumentRule, Effect, Rule, list_alternatives
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


CALL: Final = 1.0
"""Bits that making a call leaks."""

REFUSAL: Final = 1.0
"""Bits that a caller learns by the refusal of a call."""

FRAGMENT: Final = 8.0
"""Bits of each character in a link's fragment, which the authority form omits."""


class Choice(NamedTuple):
    """Choice that a call made.

    Args:
        what: a description for people.
        bits: bits that it can carry, at least 0.
    """

    what: str
    bits: float


def sum_bits(parts: Iterable[Choice]) -> float:
    """Sum the bits of several choices."""
    return math.fsum(part.bits for part in parts)


def count_choice_bits(offered: int, chosen: int = 1) -> float:
    """Count the bits in an unordered selection from ``offered`` things."""
    offered = max(offered, chosen)
    return max(0.0, _compute_log2(offered) - _compute_log2(chosen) - _compute_log2(offered - chosen))


def order_bits(count: int) -> float:
    """Count the bits in the order of some things."""
    return _compute_log2(count)


def count_number_bits(value: int) -> float:
    """Count the bits of a number from 0, as the length of its Elias gamma code."""
    return 2.0 * (value + 1).bit_length() - 1


def count_case_bits(letters: str) -> float:
    """Count the bits in the case of letters."""
    return float(sum(char.upper() != char.lower() for char in letters))


def count_spelling_bits(place: Destination) -> float:
    """Count the bits in a link's case, port, last slash, scheme and fragment, beyond its authority form."""
    if place.written == place.key:
        return 0.0
    plain, _, fragment = place.written.partition("#")
    head = plain[: len(plain) - len(place.path) - len(place.query)]
    bits = 1.0 + FRAGMENT * len(fragment) + bool(fragment)
    return bits + (count_case_bits(head) if head != head.lower() else 0.0)


def _compute_log2(count: int) -> float:
    """Compute the binary logarithm of a factorial."""
    return math.lgamma(count + 1) / math.log(2)


EXCERPT: Final = 160
"""Longest quotation of private content, in characters."""

RECEIVERS: Final = 1000
"""Maximum receivers of one call that are checked. With more of them, no private content may be sent."""


LINK_TEXTS: Final = 64
"""Maximum texts with one link whose origin is checked."""

DIGITS: Final = 20
"""Maximum digits of a value that is counted as a number."""

_FLAG: Final = (True, False)
_FETCHED: Final = ArgumentRule("", Role.DESTINATION)
_SENT_ALONG: Final = ArgumentRule("", Role.PAYLOAD)
_RESOLVED_ROLES: Final = {Role.SELECTOR, Role.OPTION}
"""Roles whose values the listener resolves if they are declared, so that the receiver does not read them."""


RuledArgument: TypeAlias = tuple[Leaf, ArgumentRule]
"""Argument of a call with its rule."""


class Breach(NamedTuple):
    """Rule about confidentiality that a call breaks, with the argument that breaks it if there is one."""

    rule: Rule
    leaf: Leaf | None
    detail: str
    evidence: Evidence | None = None


def find_breaches(
    ledger: Ledger, policy: Policy, call: Call, arguments: Sequence[RuledArgument]
) -> Iterator[Breach]:
    """Find every rule about confidentiality that a call breaks.

    Choices are reported from half of their budget on, or always if the policy declares an effect for them.

    Args:
        ledger: what the conversation has seen.
        policy: the declared policy.
        call: the call to judge.
        arguments: its non-blank arguments, with their rules.
    """
    kind = policy.classify(call.sink)
    if not ledger.private and (not ledger.tainted or (kind.sink and not kind.source)):
        return
    ruled = apply_exit_rules(kind, arguments)
    if not any(rule.role is Role.DESTINATION for _, rule in ruled):
        return
    yield from find_leaks(ledger, ruled)
    parts = list_choices(ledger, policy, call, ruled)
    if not parts:
        return
    bits, spent = sum_bits(parts), ledger.exit_bits
    detail = f"{bits:.1f} bits ({', '.join(f'{part.what} {part.bits:.1f}' for part in parts)}); "
    sums = f"{spent + bits:.1f} of {policy.exit_budget:g} with those before"
    if spent + bits > policy.exit_budget:
        yield Breach(Rule.EXIT_BUDGET, None, detail + sums)
    elif spent + bits >= policy.exit_budget / 2 or policy.declares(Rule.CHOICES, call.sink):
        yield Breach(Rule.CHOICES, None, detail + sums)


def drop_idle_choices(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Drop findings about choices if the call is refused for another reason, since it then reveals nothing."""
    found = tuple(findings)
    refused = any(one.effect is Effect.BLOCK and one.rule is not Rule.CHOICES for one in found)
    return tuple(one for one in found if not refused or one.rule is not Rule.CHOICES)


def count_bits(
    ledger: Ledger, policy: Policy, call: Call, arguments: Sequence[RuledArgument] | None = None
) -> float:
    """Count the bits that a call reveals by its choices, given the knowledge before it.

    ``arguments`` are the non-blank arguments with their rules, for a caller that has them.
    """
    if not ledger.tainted or not (call.exposed or ledger.private.pools):
        return 0.0
    if arguments is None:
        leaves = (leaf for leaf in call.arguments if format_text(leaf.value).strip())
        arguments = tuple((leaf, policy.argument_rule(call, leaf)) for leaf in leaves)
    chosen = sum(count_option_bits(ledger, call, leaf, rule) for leaf, rule in arguments)
    choices = list_choices(ledger, policy, call, apply_exit_rules(policy.classify(call.sink), arguments))
    return chosen + sum_bits(choices)


def count_option_bits(ledger: Ledger, call: Call, leaf: Leaf, rule: ArgumentRule) -> float:
    """Count the bits of a choice among the values that a schema lists, unless the principal made it.

    A truth value is one if it is declared as an option.
    """
    flag = isinstance(leaf.value, bool) and rule.role is Role.OPTION
    listed = _FLAG if flag else call.options and list_alternatives(call, leaf)
    suspect = call.exposed and (not call.put_in or leaf.path in call.put_in) and leaf.path not in call.filled
    return (
        math.log2(len(listed))
        if listed and suspect and not ledger.asked.chooses(format_text(leaf.value))
        else 0.0
    )


def apply_exit_rules(kind: ListenerClass, arguments: Sequence[RuledArgument]) -> Sequence[RuledArgument]:
    """Apply the rules of an exit to the arguments of a call.

    At a listener without consequences every value that leads out is a destination, regardless of its field's name, and
    every other value is sent along with it.
    """
    return (
        arguments
        if kind.sink
        else tuple((leaf, _make_exit_rule(kind, leaf, rule)) for leaf, rule in arguments)
    )


def _make_exit_rule(kind: ListenerClass, leaf: Leaf, rule: ArgumentRule) -> ArgumentRule:
    if rule.declared:
        return rule
    body = format_text(leaf.value)
    leads = (kind.source or "://" in body) and leads_out(body)
    return _FETCHED if leads else _SENT_ALONG


def list_choices(
    ledger: Ledger, policy: Policy, call: Call, ruled: Sequence[RuledArgument]
) -> tuple[Choice, ...]:
    """List the choices that the receivers of a call can see and the principal did not make.

    Choices count only for an exposed sender, and only if the content is restricted: by a link that a text or record
    offered, or by a receiver who may not read some of this conversation.
    """
    kind, pools = policy.classify(call.sink), ledger.private.pools
    showing = kind.source or not kind.sink
    if not (call.exposed and ledger.tainted and (showing or pools)):
        return ()
    receivers = list_receivers(ruled)
    restricted = any(_find_first_refused(ledger, pool.readers, receivers) for pool in pools)
    if not (restricted or (receivers and showing)):
        return ()
    places = tuple(place for _, place in receivers if not _is_allowed(policy, place))
    links = [place for place in places if place.form is PlaceForm.LINK]
    parts = [part for place in links for part in _link_choices(ledger, policy, place)]
    if any(is_link_offered(ledger, place) for place in links):
        parts += [_measure_argument_choice(ledger, leaf) for leaf, rule in ruled if rule is _SENT_ALONG]
    alternatives = {
        place.key
        for place in places
        if place.form is not PlaceForm.LINK and not _is_requested(ledger, policy, place)
    }
    if alternatives and restricted:
        known = ledger.records.places
        parts.append(Choice("which receivers", CALL + count_choice_bits(known, len(alternatives))))
        parts.append(Choice("their order", order_bits(len(alternatives))))
    return tuple(part for part in parts if part.bits)


def _is_allowed(policy: Policy, place: Destination) -> bool:
    """Check whether the operator allows a receiver, so that choices may reveal anything to it."""
    return find_entry(policy.allow, place) is not None


def _is_requested(ledger: Ledger, policy: Policy, place: Destination) -> bool:
    return policy.query_authorises and ledger.asked.names(place)


def _link_choices(ledger: Ledger, policy: Policy, place: Destination) -> Iterator[Choice]:
    """List the choices in one link, unless the operator allows it."""
    if _is_requested(ledger, policy, place):
        if place.written != place.key and not ledger.asked.mentions(place.written):
            yield Choice("spelling", count_spelling_bits(place))
    elif is_link_offered(ledger, place):
        yield Choice("which link", CALL + count_choice_bits(_count_alternatives(ledger, place)))
        if not ledger.untrusted.has_place(hash_spelling(place.written)):
            yield Choice("spelling", 1.0)
    elif any(_find_place_records(ledger, place)):
        yield Choice("which place", CALL + count_choice_bits(ledger.records.places))
        yield Choice("spelling", count_spelling_bits(place))


def _count_alternatives(ledger: Ledger, place: Destination) -> int:
    """Count the links that this one was chosen from: all links of every place that holds it."""
    texts = ledger.untrusted.find_texts_with(hash_place(place.written), LINK_TEXTS)
    return sum(map(ledger.untrusted.offers, {text.origin.place for text in texts}))


def _measure_argument_choice(ledger: Ledger, leaf: Leaf) -> Choice:
    """Measure the choice of another argument that is sent along when a link is followed."""
    body = format_text(leaf.value).strip()
    if isinstance(leaf.value, bool):
        return Choice(leaf.path, CALL)
    if body.isascii() and body.isdecimal() and len(body) <= DIGITS:
        return Choice(leaf.path, CALL + count_number_bits(int(body)) + (body != str(int(body))))
    words = len(ledger.asked.shapes)
    if ledger.asked.mentions(body):
        return Choice(leaf.path, CALL + count_choice_bits(words))
    if ledger.asked.mentions(body, any_case=True):
        return Choice(leaf.path, CALL + count_choice_bits(words) + count_case_bits(body))
    return Choice(leaf.path, CALL + count_choice_bits(len(ledger.records.entries)))


def list_receivers(ruled: Iterable[RuledArgument]) -> tuple[tuple[Leaf, Destination], ...]:
    """List the places that the destinations of a call name, each with its argument."""
    return tuple(
        (leaf, place)
        for leaf, rule in ruled
        if rule.role is Role.DESTINATION
        for place in find_recipients(format_text(leaf.value))
    )


def find_leaks(ledger: Ledger, ruled: Sequence[RuledArgument]) -> Iterator[Breach]:
    """Find private content that a call would send to a receiver who may not read it, except the principal's own words.

    Args:
        ledger: what the conversation has seen.
        ruled: the arguments of the call with their rules. A call without a destination is no exit.
    """
    places = list_receivers(ruled) if ledger.private else ()
    if not places:
        return
    if ledger.private.overflow:
        yield Breach(Rule.BOUND, None, "more private text was read than is tracked")
    refused = {
        pool.readers: _find_first_refused(ledger, pool.readers, places) for pool in ledger.private.pools
    }
    pools = [pool for pool in ledger.private.pools if refused[pool.readers] is not None]
    sent = [leaf for leaf, rule in ruled if _is_disclosed(rule) and not _is_chosen(ledger, leaf, rule)]
    pieces = [format_text(leaf.value) for leaf in sent]
    for leaf, _ in ruled:
        if keys := _list_keys(leaf):
            sent.append(leaf)
            pieces.append(keys)
    reported: set[tuple[int, str, str, int]] = set()
    for found in ledger.private.find_matches(pieces, pools):
        origin = found.text.origin
        key = (found.piece, origin.source, origin.path, origin.step)
        if key not in reported and not ledger.asked.says(fold_bytes(found.excerpt)):
            reported.add(key)
            detail = _describe_refusal(refused[found.readers], found.readers)
            yield Breach(Rule.READERS, sent[found.piece], detail, _make_evidence(found))


def _is_disclosed(rule: ArgumentRule) -> bool:
    """Check whether the receiver can read a value: its form alone does not say that the listener resolves it."""
    return rule.role not in _RESOLVED_ROLES or not rule.declared


def _list_keys(leaf: Leaf) -> str:
    """List the keys inside an argument on the way to a value, which its sender may have made up."""
    return "\n".join(key for key in strip_indices(leaf.path).split(".")[1:] if key.isidentifier())


def _find_first_refused(
    ledger: Ledger, readers: Groups, places: Sequence[tuple[Leaf, Destination]]
) -> Destination | None:
    """Find the first receiver that is not among these readers."""
    if len(places) > RECEIVERS:
        return places[0][1]
    return next(
        (place for _, place in places if not admits(readers, place, _find_place_records(ledger, place))), None
    )


def _find_place_records(ledger: Ledger, place: Destination) -> tuple[Text, ...]:
    return tuple(ledger.records.find(f"place {place.key}"))


def _is_chosen(ledger: Ledger, leaf: Leaf, rule: ArgumentRule) -> bool:
    """Check whether a destination was chosen from offered ones rather than written by the sender.

    It must match an offered destination as a whole: a display name next to an address was not offered with it.
    """
    if rule.role is not Role.DESTINATION:
        return False
    text = format_text(leaf.value)
    places = find_recipients(text)
    bare = b"".join(fold_bytes(place.written) for place in places) == fold_bytes(text)
    return (
        bool(places)
        and bare
        and all(place.form is not PlaceForm.NONE and _is_offered(ledger, place) for place in places)
    )


def _is_offered(ledger: Ledger, place: Destination) -> bool:
    if ledger.asked.names(place) or (
        place.form is not PlaceForm.LINK and any(_find_place_records(ledger, place))
    ):
        return True
    return place.form is PlaceForm.LINK and is_link_offered(ledger, place)


def is_link_offered(ledger: Ledger, place: Destination) -> bool:
    """Check whether a text that was read holds a link exactly as spelled, or the link is in authority form.

    Changed letter case, a fragment or a port that no text contains could carry information out.
    """
    if not ledger.untrusted.has_place(hash_place(place.written)):
        return False
    return place.written == place.key or ledger.untrusted.has_place(hash_spelling(place.written))


def may_follow(ledger: Ledger, policy: Policy, place: Destination) -> bool:
    """Check whether a link may be followed because a text that was read contains it as spelled.

    A text may steer a call back to the site it was fetched from. Another site needs the request or a directory to vouch
    for it; if the text has no known site, the request must have named the text.
    """
    if not policy.follow_links or place.scheme not in {"http", "https"} or not is_link_offered(ledger, place):
        return False
    home = parse_destination(site_of(place))
    if policy.query_authorises and ledger.asked.names(home):
        return True
    if any(True for _ in ledger.records.find_directory(home)):
        return True
    texts = ledger.untrusted.find_texts_with(hash_place(place.written), LINK_TEXTS)
    return any(
        text.asked if text.origin.place == ANYWHERE else is_same_site(text.origin, place) for text in texts
    )


def is_in_selected_record(ledger: Ledger, selectors: Iterable[Leaf], place: Destination) -> bool:
    """Check whether a place is a whole field of the record that a selector of the same call names.

    This lets a reply go to the participants of its thread. The author of a message decides who they are, so the content
    is left to the checks of readers and evidence.
    """
    texts = ledger.untrusted.find_texts_with(hash_place(place.written), LINK_TEXTS)
    fields = [text.origin for text in _find_place_records(ledger, place)]
    fields += [text.origin for text in texts if place in parse_list(text.body)]
    records = {record_of(origin) for origin in fields if not origin.via}
    chosen = (format_text(leaf.value).strip() for leaf in selectors)
    keys = {key for body in chosen for key in list_name_keys(body)} if records else set()
    ids = (text for key in keys for text in ledger.records.find(key) if text.standing is not Standing.PROSE)
    return any(record_of(text.origin) in records for text in ids)


def _describe_refusal(place: Destination | None, readers: Groups) -> str:
    """Name the receiver that may not read the content, and its readers."""
    allowed = " and ".join(", ".join(group) if group else "no receiver" for group in readers)
    return f"'{place.written if place else ''}' is not among its readers: {allowed}"


def _make_evidence(found: PrivateMatch) -> Evidence:
    via = " then ".join(part for part in (found.text.origin.via, found.via) if part)
    body = " ".join(found.text.body.split())
    return Evidence(
        truncate(" ".join(found.excerpt.split()), EXCERPT), found.text, truncate(body, EXCERPT), via
    )
