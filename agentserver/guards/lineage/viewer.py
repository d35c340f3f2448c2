"""Shows references to listeners with ``view: references``, and resolves those in their messages."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Final

from lxml import etree

from agentserver.contract import Code
from agentserver.core.guard import DenyVerdict, ResolvedPayload
from agentserver.core.records.details import GuardNote
from agentserver.core.refusals import Refusal
from agentserver.guards.lineage.hiding import count_closed_bits, is_server_written, is_tainted, measure_schema
from agentserver.guards.lineage.reading import list_fields, list_places
from agentserver.guards.lineage.references import (
    FORM,
    PREFIX,
    SAMPLE,
    InsertedValues,
    ReferencedValue,
    make_reference,
    stamp_message,
)
from agentserver.payload.codec import is_system_name
from agentserver.payload.fields.field_table import Scalar
from agentserver.payload.names import local
from agentserver.payload.xsd.schema import leaves as schema_of_scalars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.messages import Delivery, Draft
    from agentserver.guards.lineage.hiding import Cover, HidingRules
    from agentserver.guards.lineage.memory import Memory
    from agentserver.guards.lineage.reading import Place, Readings
    from agentserver.payload.codec import Codec

NAME: Final = "lineage"
FAILURE: Final = 3.0
"""Bits that a SystemError can reveal: one of its codes."""
ATTEMPT: Final = 1.0
"""Bits that a message with references can reveal: it passes or is refused."""
LOOKED_AT: Final = 4096
"""Maximum fields whose acceptance of references is cached."""
TOLD: Final = 16
"""Maximum references of one message that are reported individually."""

REFUSED: Final = "a reference is unknown here, or its value does not fit"
"""One text for every reason, so that it reveals no value."""


class Viewer:
    """Replaces values by references and back, for the listeners that see references.

    Args:
        hiding: the rules for hiding.
        readings: the readers of payloads.
    """

    def __init__(self, hiding: HidingRules, readings: Readings) -> None:
        self._hiding, self._readings = hiding, readings

    # Showing

    def present(
        self, memory: Memory, delivery: Delivery, element: etree._Element
    ) -> etree._Element | Refusal:
        """Hide the untrusted values of an element from its listener, or refuse if that is impossible."""
        message = self._hiding.describe_delivery(delivery)
        cover = self._hiding.find_cover(memory, message, element)
        if not cover.places:
            return element
        names = {path: name for path, name, _ in self._list_references(delivery, element, cover)}
        presented = self._copy_cover(message.root, element, cover, names)
        if presented is not None:
            return presented
        return Refusal(Code.DENIED, _note(self._describe_unfit(delivery.to, message.root)), delivery.to)

    def record_shown(self, memory: Memory, delivery: Delivery, element: etree._Element) -> Memory:
        """Record the references that a listener saw, and the bits that the rest revealed."""
        if is_system_name(delivery.root):
            return self._spend(memory, FAILURE) if is_tainted(memory) else memory
        message = self._hiding.describe_delivery(delivery)
        cover = self._hiding.find_cover(memory, message, element)
        source, step = delivery.sender, memory.step
        memory = memory.add_references(
            {
                name: ReferencedValue(delivery.thread, text, source, path, step)
                for path, name, text in self._list_references(delivery, element, cover)
            }
        )
        return self._spend(memory, cover.bits) if cover.bits else memory

    def find_unshowable(self, memory: Memory, proposal: Proposal) -> DenyVerdict | None:
        """Refuse a message that cannot be shown to its listener, because a required field accepts no reference."""
        message = self._hiding.describe_proposal(proposal)
        cover = self._hiding.find_cover(memory, message, proposal.element)
        names = {place.path: SAMPLE for place in self._hiding.list_places(message.root, proposal.element)}
        if not cover.places or self._copy_cover(message.root, proposal.element, cover, names) is not None:
            return None
        return DenyVerdict(Code.DENIED, self._describe_unfit(proposal.to, message.root))

    def _describe_unfit(self, to: str, root: str) -> str:
        return f"{to} is shown references, and a field of {local(root)} that must be there takes none"

    def _list_references(
        self, delivery: Delivery, element: etree._Element, cover: Cover
    ) -> Iterator[tuple[str, str, str]]:
        """List path, reference and value of each hidden scalar of a delivery."""
        found = self._hiding.list_places(delivery.root, element) if cover.places else ()
        for number in cover.places:
            path = found[number].path
            name = make_reference(delivery.conversation, delivery.thread, delivery.id, path)
            yield path, name, found[number].text

    def _copy_cover(
        self, root: str, element: etree._Element, cover: Cover, names: Mapping[str, str]
    ) -> etree._Element | None:
        """Copy an element with references, dropping fields that accept none; None if one of those is required."""
        codec = self._readings[root].codec
        copy = _copy(element)
        found = self._hiding.list_places(root, copy)
        for number in cover.places:
            found[number].write(names[found[number].path])
        if codec.valid(copy):
            return copy
        copy = _copy(element)
        found = self._hiding.list_places(root, copy)
        for place in [found[number] for number in cover.places]:
            if self._takes(root, element, place):
                place.write(names[place.path])
            elif place.text:
                place.clear()
        return copy if codec.valid(copy) else None

    def _takes(self, root: str, element: etree._Element, place: Place) -> bool:
        """Check whether a field accepts a reference, by trying it in a message that has the field."""
        known = self._hiding.find_facts(root).takes
        if place.shape not in known:
            copy = _copy(element)
            tried = next(each for each in self._hiding.list_places(root, copy) if each.path == place.path)
            tried.write(SAMPLE)
            taken = self._readings[root].codec.valid(copy)
            if len(known) >= LOOKED_AT:
                return taken
            known[place.shape] = taken
        return known[place.shape]

    # Resolving

    def resolve(self, memory: Memory, draft: Draft, thread: str, room: int) -> ResolvedPayload | None:
        """Replace the references in a viewer's message by their values; None if it has none.

        All values together must fit into ``room`` bytes. A value that looks like a reference is not resolved again.
        """
        if PREFIX not in draft.markup or is_system_name(draft.root):
            return None
        element = _copy(draft.element)
        found = self._hiding.list_places(draft.root, element)
        paths: list[str] = []
        origins: dict[str, str] = {}
        for place in found:
            text = place.text
            names = FORM.findall(text) if PREFIX in text else ()
            if not names:
                continue
            values = {name: memory.references.look_up(name, thread) for name in names}
            room -= sum(len(values[name] or "") for name in names)
            if room < 0 or None in values.values() or memory.references.full:
                return ResolvedPayload(None, memory, _note(REFUSED))
            place.write(FORM.sub(lambda match: values[match[0]] or "", text))  # noqa: B023 - used at once
            paths.append(place.path)
            origins.update({name: _describe_origin(memory.references.known[name]) for name in names})
        if not paths:
            return None
        stamped = stamp_message(thread, draft.root, (place.text for place in found))
        source = memory.references.known[next(iter(origins))].source
        memory = self._spend(memory.record_put_in(stamped, InsertedValues(source, tuple(paths))), ATTEMPT)
        return ResolvedPayload(element, memory, _note(_list_origins(origins)))

    def follow_rewrite(self, memory: Memory, before: Draft, after: Draft, thread: str) -> Memory:
        """Record that a message with inserted values was rewritten, so that all of it may come from them.

        Parts that the server wrote are excluded.
        """
        put_in = self.find_put_in(memory, thread, before.root, before.element)
        if put_in is None:
            return memory
        found = self._hiding.list_places(after.root, after.element)
        paths = tuple(place.path for place in found if not is_server_written(after.root, place, found))
        stamped = stamp_message(thread, after.root, (place.text for place in found))
        return memory.record_put_in(stamped, put_in._replace(paths=paths))

    def find_put_in(
        self, memory: Memory, thread: str, root: str, element: etree._Element
    ) -> InsertedValues | None:
        """Find the values in a thread's message that replaced references, if any."""
        if not memory.references.put_in:
            return None
        return self._hiding.find_put_in(memory, thread, root, self._hiding.list_places(root, element))

    def _spend(self, memory: Memory, bits: float) -> Memory:
        return memory.grow(memory.ledger.spend(bits))


def find_refusing_fields(codec: Codec) -> Iterator[tuple[str, bool]]:
    """Find the fields that accept no reference, and whether each is required.

    For a hand-written schema, only fields in its example are checked.
    """
    if codec.described is None:
        element, counted = etree.fromstring(codec.example()), measure_schema(codec).closed
        for place in list_places(codec, element):
            before = place.text
            place.write(SAMPLE)
            if before and place.shape not in counted and not codec.valid(element):
                yield place.path, True
            place.write(before)
        return
    schema, names = schema_of_scalars(codec.described)
    for path, record, each in list_fields(codec):
        assert isinstance(each.type, Scalar)
        text = etree.Element(f"{{{codec.described.namespace}}}{names[record.name, each.name]}")
        text.text = SAMPLE
        if count_closed_bits(each.type) is None and not schema.validate(text):
            yield path, not each.optional


def _copy(element: etree._Element) -> etree._Element:
    copy = deepcopy(element)
    copy.tail = None
    return copy


def _describe_origin(found: ReferencedValue) -> str:
    return f"{found.path} of {found.source}"


def _list_origins(origins: Mapping[str, str]) -> str:
    lines = [f"{name} is {origin}" for name, origin in list(origins.items())[:TOLD]]
    rest = [f"and {len(origins) - TOLD} more"] if len(origins) > TOLD else []
    return "\n".join(["values are put in place of references", *lines, *rest])


def _note(text: str) -> GuardNote:
    return GuardNote(NAME, text)
