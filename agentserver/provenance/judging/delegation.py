"""Finds calls whose questionable arguments all come from one untrusted record, which a person may delegate to.

Returns the record whole, to be shown. The person asked decides.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from agentserver.findings import Delegation, RecordText
from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.destinations import PlaceForm, parse_destination
from agentserver.provenance.evidence.leaves import text_of, typed_key
from agentserver.provenance.evidence.paths import strip_indices
from agentserver.provenance.policy.declarations import Effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentserver.provenance.evidence.labels import Call, Text
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.verdict import Finding

WHOLE: Final = 20_000
"""Maximum characters of a record that is shown whole. For longer ones a person is asked about each value."""

FIELDS: Final = 200
"""Maximum fields of such a record."""


def find_delegation(ledger: Ledger, call: Call, findings: Iterable[Finding]) -> Delegation | None:
    """Find the one record that has every questionable argument as a whole field; None if there is no such record."""
    serious = [one for one in findings if one.effect in {Effect.BLOCK, Effect.ASK}]
    asked = {(one.path, one.value) for one in serious}
    if not all(path for path, _ in asked):
        return None
    held = (one.evidence.text for one in serious if one.evidence is not None)
    for text in {record_of(text.origin): text for text in held}.values():
        record = collect_record(ledger, text)
        fields = [(strip_indices(one.origin.path), one.body) for one in record]
        if len(fields) > FIELDS or sum(len(body) for _, body in fields) > WHOLE:
            continue
        if all(any(name and is_same_value(value, body) for name, body in fields) for _, value in asked):
            source, step, item = record_of(text.origin)
            return Delegation(
                source, step, item, tuple(_show_field(call, name, body) for name, body in fields)
            )
    return None


def is_same_value(value: str, field: str) -> bool:
    """Check whether an argument equals a whole field, in any spelling of a place, number or date."""
    if value.strip() == field.strip():
        return True
    kind, place = typed_key(value), parse_destination(value)
    known = place.form not in {PlaceForm.NONE, PlaceForm.NAME}
    return (kind is not None and kind == typed_key(field)) or (known and place == parse_destination(field))


def _show_field(call: Call, name: str, body: str) -> RecordText:
    """Describe one field of a record, with the arguments that it fills."""
    said = ((strip_indices(leaf.path), text_of(leaf.value)) for leaf in call.arguments)
    return RecordText(name, body, tuple(path for path, value in said if name and is_same_value(value, body)))


def collect_record(ledger: Ledger, text: Text) -> list[Text]:
    """Collect all known fields of the record that a text belongs to, in order."""
    wanted = record_of(text.origin)
    found: dict[str, Text] = {}
    for texts in (ledger.texts, ledger.records.entries):
        known = (
            one for one in _find_texts_of_step(texts, text.origin.step) if record_of(one.origin) == wanted
        )
        found.update((one.origin.path, one) for one in known)
    return [found[path] for path in sorted(found)]


def _find_texts_of_step(texts: Sequence[Text], step: int) -> Iterator[Text]:
    """Find the texts of one step by bisection; texts are ordered by step."""
    start = bisect_left(texts, step, key=lambda text: text.origin.step)
    end = bisect_left(texts, step + 1, lo=start, key=lambda text: text.origin.step)
    return iter(texts[start:end])
