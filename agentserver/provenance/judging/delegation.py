"""A call of which every argument in question is a field of one record of a stranger's: it may be delegated by a person.

Owns which call that is, and the record as it is shown, whole. Refuses to let anything pass: whoever is asked does.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from agentserver.findings import Delegation, RecordText
from agentserver.provenance.confidentiality.origin import record_of
from agentserver.provenance.evidence.destinations import PlaceForm, destination
from agentserver.provenance.evidence.leaves import text_of, typed
from agentserver.provenance.policy.declarations import Effect
from agentserver.provenance.policy.paths import bare

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from agentserver.provenance.evidence.labels import Call, Text
    from agentserver.provenance.ledger import Ledger
    from agentserver.provenance.verdict import Finding

WHOLE: Final = 20_000
"""Characters of a record that is shown whole. The fields of a longer one are not delegated but asked about by value."""

FIELDS: Final = 200
"""Fields of such a record."""


def delegation(ledger: Ledger, call: Call, findings: Iterable[Finding]) -> Delegation | None:
    """The one record of which every argument in question is a field as a whole; None where there is none."""
    serious = [one for one in findings if one.effect in {Effect.BLOCK, Effect.ASK}]
    asked = {(one.path, one.value) for one in serious}
    if not all(path for path, _ in asked):
        return None
    held = (one.evidence.text for one in serious if one.evidence is not None)
    for text in {record_of(text.origin): text for text in held}.values():
        record = whole_record(ledger, text)
        fields = [(bare(one.origin.path), one.body) for one in record]
        if len(fields) > FIELDS or sum(len(body) for _, body in fields) > WHOLE:
            continue
        if all(any(name and same(value, body) for name, body in fields) for _, value in asked):
            source, step, item = record_of(text.origin)
            return Delegation(source, step, item, tuple(_shown(call, name, body) for name, body in fields))
    return None


def same(value: str, field: str) -> bool:
    """True when an argument is a field as a whole, in any spelling of a place, a number or a date."""
    if value.strip() == field.strip():
        return True
    kind, place = typed(value), destination(value)
    known = place.form not in {PlaceForm.NONE, PlaceForm.NAME}
    return (kind is not None and kind == typed(field)) or (known and place == destination(field))


def _shown(call: Call, name: str, body: str) -> RecordText:
    """One field of a record, with the arguments that it fills."""
    said = ((bare(leaf.path), text_of(leaf.value)) for leaf in call.arguments)
    return RecordText(name, body, tuple(path for path, value in said if name and same(value, body)))


def whole_record(ledger: Ledger, text: Text) -> list[Text]:
    """All that is known of the record in which a text stands, in the order of its fields."""
    wanted = record_of(text.origin)
    found: dict[str, Text] = {}
    for texts in (ledger.texts, ledger.records.entries):
        known = (one for one in _of_step(texts, text.origin.step) if record_of(one.origin) == wanted)
        found.update((one.origin.path, one) for one in known)
    return [found[path] for path in sorted(found)]


def _of_step(texts: Sequence[Text], step: int) -> Iterator[Text]:
    """The texts of one step. They are in the order of their steps, so that the others are not looked at."""
    start = bisect_left(texts, step, key=lambda text: text.origin.step)
    end = bisect_left(texts, step + 1, lo=start, key=lambda text: text.origin.step)
    return iter(texts[start:end])
