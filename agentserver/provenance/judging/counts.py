"""Counts: whole numbers of up to two digits.

Single digits are in every text, so that they prove nothing. From ten on a count decides as an amount does: *refund 42*,
*14 nights*. A text says it only as a number of its own: the 14 of *14 July* or of *14:30* is no count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.evidence.leaves import build_typed_key
from agentserver.provenance.evidence.readings import find_free_amounts, read_amounts
from agentserver.provenance.judging.case import READ
from agentserver.provenance.observations.occurrences import PLACES
from agentserver.provenance.observations.untrusted_texts import hash_kind
from agentserver.provenance.policy.forms import is_count

if TYPE_CHECKING:
    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case


def is_coincidence(case: Case, argument: Argument) -> bool:
    """Check whether untrusted texts have a count only inside of days and times of day.

    Args:
        case: the call.
        argument: a value that untrusted texts hold in some spelling.
    """
    if argument.rule.role is not Role.QUANTITY or argument.rule.declared or not is_count(argument.body):
        return False
    kind, untrusted = build_typed_key(argument.leaf.value), case.ledger.untrusted
    if kind is None or case.ledger.overflow:
        return False
    holders = untrusted.kinds.table.find_all(hash_kind(kind), PLACES)
    wrapped = untrusted.wrapped.kinds.table.find_all(hash_kind(kind), 1)
    return 0 < len(holders) < PLACES and not (
        wrapped or any(_says_count(untrusted.texts[number], argument) for number in holders)
    )


def _says_count(text: Text, argument: Argument) -> bool:
    """Check whether a text says a count outside of days and times; a number in words or a long text may."""
    if len(text.body) > READ or str(int(float(argument.body))) not in text.body:
        return True
    said = {key for each in find_free_amounts(text.body) for key in read_amounts(str(each.value))}
    return not said.isdisjoint(read_amounts(argument.leaf.value))
