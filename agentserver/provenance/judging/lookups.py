"""Receivers of records that a look-up by other words than the principal's found.

A stranger's word did not select the record, but a paraphrase may have caused the look-up. Such a receiver gets what a
call about the request gives it, and is no reason for a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.labels import Finder, Role
from agentserver.provenance.judging.answers import find_repeated, has_no_other_address
from agentserver.provenance.judging.authority import is_listed, list_homes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.destinations import Destination
    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Case


def may_receive_as_found(case: Case, place: Destination) -> bool:
    """Check whether a destination is of the sole record that a look-up found, and the call gives it no more than words.

    An amount goes to who is on each document that the principal named, and to nobody that the agent's words found. A
    document does not say who is written to. The content has no other address and repeats no value of a trusted
    listener except those of the receiver's record and of the records that the principal chose.
    """
    pays = any(each.rule.role is Role.QUANTITY for each in case.arguments)
    wanted = Finder.DOCUMENT if pays else Finder.AGENT
    found = [text for text in _find_texts(case, place) if text.found_by is wanted]
    if not found or case.ledger.foreign:
        return False
    homes = list_homes((*found, *(text for text in case.records if text.chosen)))
    repeated = find_repeated(case, case.content)
    return has_no_other_address(case, [place]) and all(record_of(text.origin) in homes for text in repeated)


def is_ordered_document(case: Case, place: Destination) -> bool:
    """Check whether the documents that the principal named have a receiver, and an order speaks of the sink."""
    return case.speaks_of_sink and any(text.found_by is Finder.DOCUMENT for text in _find_texts(case, place))


def is_only_found(case: Case, place: Destination) -> bool:
    """Check whether nothing but a look-up by other words names a receiver."""
    return any(_find_texts(case, place)) and not is_listed(case, place)


def is_found_by_agent(case: Case, place: Destination) -> bool:
    """Check whether a receiver is of a record that the agent's own words found."""
    return any(text.found_by is Finder.AGENT for text in _find_texts(case, place))


def _find_texts(case: Case, place: Destination) -> Iterator[Text]:
    if not case.ledger.records.has_found:
        return iter(())
    return (text for text in case.ledger.records.find_holders(place) if text.found_by is not None)
