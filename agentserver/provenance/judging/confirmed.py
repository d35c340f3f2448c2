"""Keys that the named documents say and that a list of a trusted listener confirms.

*They wrote which sample they no longer need, discard it if it is on the list of WO-6099*: the document says which one,
the list that the request names says that it is one of these. Which of both is read first decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.origin import item_of
from agentserver.provenance.evidence.authority import build_mention_pattern
from agentserver.provenance.evidence.labels import Role, strip_indices
from agentserver.provenance.observations.lookups import is_key
from agentserver.provenance.observations.records import build_name_key

if TYPE_CHECKING:
    from agentserver.provenance.evidence.labels import Text
    from agentserver.provenance.judging.case import Argument, Case

LISTED: Final = 100
"""Maximum values of a list that are looked for in the texts."""


def is_confirmed(case: Case, argument: Argument) -> bool:
    """Check whether a key is the only one of a list that the named documents say.

    The list is an output of a trusted listener that an argument of the request selected. The request chose no other
    record of it, and no text that it does not name says the key.
    """
    body, rule = argument.body.strip(), argument.rule
    if rule.role is not Role.SELECTOR or not is_key(body):
        return False
    found = case.ledger.records.find_all(build_name_key(body))
    lists = [text for text in found if _is_listed(case, text, rule.id)]
    holders = _find_holders(case, body) if lists else []
    if not holders or not all(text.asked for text in holders):
        return False
    return any(_is_only_one(case, text) for text in lists)


def _is_listed(case: Case, text: Text, kind: str) -> bool:
    """Check whether a value is of a trusted listener's output that the request selected, and of the declared kind.

    What is in a list of a record was not selected.
    """
    is_inner = "[" in text.origin.path[len(item_of(text.origin.path)) :]
    return text.asked and not is_inner and case.is_of_trusted(text) and (not kind or text.id == kind)


def _is_only_one(case: Case, text: Text) -> bool:
    """Check whether no text that was read says another value of the same field, and the request chose none."""
    field = strip_indices(text.origin.path)
    output = case.ledger.list_texts_of_step(text.origin.step)
    values = {each.body.strip(): each.chosen for each in output if strip_indices(each.origin.path) == field}
    others = values.keys() - {text.body.strip()}
    if not 0 < len(values) <= LISTED or any(values[body] for body in others):
        return False
    return not any(_find_holders(case, body) for body in others)


def _find_holders(case: Case, body: str) -> list[Text]:
    """Find the untrusted texts that say a value."""
    pattern = build_mention_pattern(body)
    return [text for text in case.read_texts if pattern.search(text.body)]
