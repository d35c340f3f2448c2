"""Members of a list that a call writes back whole, such as the guests of an event when one more is invited.

The call names the record by an id of the declared kind and takes all members of one of its lists along, so that for
them nothing changes. It carries no content and no amount, which would reach them. Without a declared kind a letter with
the id as its subject would be such a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import item_of
from agentserver.provenance.evidence.destinations import PlaceForm, strip_mark
from agentserver.provenance.evidence.labels import Role, strip_indices
from agentserver.provenance.evidence.leaves import build_typed_key
from agentserver.provenance.judging.authority import find_records
from agentserver.provenance.observations.authors import list_address_keys, list_addresses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case

MEMBERS: Final = 64
"""Maximum arguments of a call that writes a list back."""

_QUIET: Final = {Role.DESTINATION, Role.SELECTOR, Role.TIME, Role.INERT, Role.OPTION}
"""Roles of arguments that say nothing to a member and give it nothing."""


def is_kept_member(case: Case, argument: Argument, place: Destination) -> bool:
    """Check whether an address is a member of a list of the record that the call names, which it writes back whole."""
    if place.form is not PlaceForm.ADDRESS or not 1 < len(case.arguments) <= MEMBERS or case.ledger.foreign:
        return False
    if any(each.rule.role not in _QUIET for each in case.arguments) or case.ledger.overflow:
        return False
    field = strip_indices(argument.leaf.path)
    peers = [each for each in case.arguments if strip_indices(each.leaf.path) == field]
    given = {key for each in peers for key in list_address_keys(each.body)}
    return any(
        place.alike[-1] in members and members <= given
        for each in case.arguments
        if each.rule.role is Role.SELECTOR and each.rule.id
        for members in _find_lists(case, each)
    )


def _find_lists(case: Case, selector: Argument) -> Iterator[frozenset[str]]:
    """Find the lists of addresses in the record with an id, as it was read last, if one source alone has the id."""
    sources = {text.origin.source for text in find_records(case, selector) if text.origin.path}
    if len(sources) != 1 or not case.has_all_records:
        return
    # The index has only the first record with each value of a field.
    own = (text for text in case.records if text.origin.source in sources and _has_id(text, selector))
    holders = [text for text in own if case.ledger.records.is_independent(text)]
    latest = max(holders, key=lambda text: text.origin.step)
    if len({item_of(text.origin.path) for text in holders if text.origin.step == latest.origin.step}) > 1:
        return
    lists: dict[str, list[Text]] = {}
    home = item_of(latest.origin.path)
    for text in case.read_texts:
        path = text.origin.path
        if text.origin.step == latest.origin.step and path.startswith(home) and "[" in path[len(home) :]:
            lists.setdefault(strip_indices(path), []).append(text)
    for texts in lists.values():
        members = [list_addresses(text.body) for text in texts]
        if all(len(each) == 1 for each in members):
            yield frozenset(each[0].alike[-1] for each in members)


def _has_id(text: Text, selector: Argument) -> bool:
    """Check whether a field is the id of a call."""
    if not text.origin.path or text.id != selector.rule.id:
        return False
    one, other = text.body.strip().lower(), selector.body.strip().lower()
    kind = build_typed_key(selector.leaf.value)
    return one in {other, strip_mark(other)} or (kind is not None and kind == build_typed_key(text.body))
