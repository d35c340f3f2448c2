"""References shown to listeners with ``view: references``, and resolved in their messages."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Final

from lxml import etree

from agentserver.contract import Code
from agentserver.core.guard import DenyVerdict
from agentserver.core.presenting import ResolvedPayload
from agentserver.core.records.details import GuardNote
from agentserver.core.refusals import Refusal
from agentserver.guards.lineage.view.hiding import bits_of, facts_of, tainted, written_by_server
from agentserver.guards.lineage.view.places import fields_of, places
from agentserver.guards.lineage.view.references import (
    FORM,
    PREFIX,
    SAMPLE,
    PutIn,
    Referenced,
    reference,
    stamp,
)
from agentserver.payload.codec import is_system_name
from agentserver.payload.fields.field_table import Scalar
from agentserver.payload.names import local
from agentserver.payload.xsd.schema import leaves as schema_of_scalars

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.messages import Delivery, Draft
    from agentserver.guards.lineage.memory import Memory
    from agentserver.guards.lineage.reading import Readings
    from agentserver.guards.lineage.view.hiding import Cover, Hiding
    from agentserver.guards.lineage.view.places import Place
    from agentserver.payload.codec import Codec

NAME: Final = "lineage"
FAILURE: Final = 3.0
"""Bits that a SystemError can tell: one of its codes."""
ATTEMPT: Final = 1.0
"""Bits that a message with references can tell: it goes, or it does not."""
LOOKED_AT: Final = 4096
"""Fields of which it is remembered that they take a reference."""
TOLD: Final = 16
"""References of one message that are told one by one."""

REFUSED: Final = "a reference is unknown here, or what it stands for does not fit"
"""One text for every reason, so that it tells nothing of the value."""


class Viewer:
    """Hides values and puts them in again, for the listeners that are shown references.

    Args:
        hiding: tells what is hidden.
        readings: of every payload.
    """

    def __init__(self, hiding: Hiding, readings: Readings) -> None:
        self._hiding, self._readings = hiding, readings

    # What is shown

    def present(
        self, memory: Memory, delivery: Delivery, element: etree._Element
    ) -> etree._Element | Refusal:
        """The element as its listener is shown it, or why it cannot be."""
        said = self._hiding.arrived(delivery)
        cover = self._hiding.cover(memory, said, element)
        if not cover.places:
            return element
        names = {path: name for path, name, _ in self._named(delivery, element, cover)}
        shown = self._covered(said.root, element, cover, names)
        if shown is not None:
            return shown
        return Refusal(Code.DENIED, _note(self._unfit(delivery.to, said.root)), delivery.to)

    def seen(self, memory: Memory, delivery: Delivery, element: etree._Element) -> Memory:
        """The memory after a listener was shown a message: what its references stand for, and what it was told."""
        if is_system_name(delivery.root):
            return self._told(memory, FAILURE) if tainted(memory) else memory
        said = self._hiding.arrived(delivery)
        cover = self._hiding.cover(memory, said, element)
        source, step = delivery.sender, memory.step
        memory = memory.referring(
            {
                name: Referenced(delivery.thread, text, source, path, step)
                for path, name, text in self._named(delivery, element, cover)
            }
        )
        return self._told(memory, cover.bits) if cover.bits else memory

    def unshowable(self, memory: Memory, proposal: Proposal) -> DenyVerdict | None:
        """Refuse a message that cannot be shown to its listener: a field has to be there and takes no reference."""
        said = self._hiding.proposed(proposal)
        cover = self._hiding.cover(memory, said, proposal.element)
        names = {place.path: SAMPLE for place in self._hiding.places(said.root, proposal.element)}
        if not cover.places or self._covered(said.root, proposal.element, cover, names) is not None:
            return None
        return DenyVerdict(Code.DENIED, self._unfit(proposal.to, said.root))

    def _unfit(self, to: str, root: str) -> str:
        return f"{to} is shown references, and a field of {local(root)} that must be there takes none"

    def _named(
        self, delivery: Delivery, element: etree._Element, cover: Cover
    ) -> Iterator[tuple[str, str, str]]:
        """Path, reference and value of each hidden scalar of a delivery."""
        found = self._hiding.places(delivery.root, element) if cover.places else ()
        for number in cover.places:
            path = found[number].path
            name = reference(delivery.conversation, delivery.thread, delivery.id, path)
            yield path, name, found[number].text

    def _covered(
        self, root: str, element: etree._Element, cover: Cover, names: Mapping[str, str]
    ) -> etree._Element | None:
        """A copy with references, without the fields that take none; None when it has to have one of those."""
        codec = self._readings[root].codec
        copy = _copy(element)
        found = self._hiding.places(root, copy)
        for number in cover.places:
            found[number].write(names[found[number].path])
        if codec.valid(copy):
            return copy
        copy = _copy(element)
        found = self._hiding.places(root, copy)
        for place in [found[number] for number in cover.places]:
            if self._takes(root, element, place):
                place.write(names[place.path])
            elif place.text:
                place.clear()
        return copy if codec.valid(copy) else None

    def _takes(self, root: str, element: etree._Element, place: Place) -> bool:
        """True when a field takes a reference; tried with a message that has the field."""
        known = self._hiding.facts(root).takes
        if place.shape not in known:
            copy = _copy(element)
            tried = next(each for each in self._hiding.places(root, copy) if each.path == place.path)
            tried.write(SAMPLE)
            taken = self._readings[root].codec.valid(copy)
            if len(known) >= LOOKED_AT:
                return taken
            known[place.shape] = taken
        return known[place.shape]

    # What is put in

    def resolve(self, memory: Memory, draft: Draft, thread: str, room: int) -> ResolvedPayload | None:
        """Put in the values that a message of a viewer has references to; None when it has none.

        All that is put in fits into ``room`` bytes. A value is put in as it is, whatever it looks like itself.
        """
        if PREFIX not in draft.markup or is_system_name(draft.root):
            return None
        element = _copy(draft.element)
        found = self._hiding.places(draft.root, element)
        paths: list[str] = []
        told: dict[str, str] = {}
        for place in found:
            text = place.text
            names = FORM.findall(text) if PREFIX in text else ()
            if not names:
                continue
            values = {name: memory.references.opened(name, thread) for name in names}
            room -= sum(len(values[name] or "") for name in names)
            if room < 0 or None in values.values() or memory.references.full:
                return ResolvedPayload(None, memory, _note(REFUSED))
            place.write(FORM.sub(lambda match: values[match[0]] or "", text))  # noqa: B023 - used at once
            paths.append(place.path)
            told.update({name: _origin(memory.references.known[name]) for name in names})
        if not paths:
            return None
        stamped = stamp(thread, draft.root, (place.text for place in found))
        source = memory.references.known[next(iter(told))].source
        memory = self._told(memory.putting_in(stamped, PutIn(source, tuple(paths))), ATTEMPT)
        return ResolvedPayload(element, memory, _note(_listed(told)))

    def rewritten(self, memory: Memory, before: Draft, after: Draft, thread: str) -> Memory:
        """The memory when another message was made of one that values were put into: all in it may be of them.

        What the server itself wrote is not.
        """
        put_in = self.put_in(memory, thread, before.root, before.element)
        if put_in is None:
            return memory
        found = self._hiding.places(after.root, after.element)
        paths = tuple(place.path for place in found if not written_by_server(after.root, place, found))
        stamped = stamp(thread, after.root, (place.text for place in found))
        return memory.putting_in(stamped, put_in._replace(paths=paths))

    def put_in(self, memory: Memory, thread: str, root: str, element: etree._Element) -> PutIn | None:
        """The values in a message of a thread that were put in place of references; None where there are none."""
        if not memory.references.put_in:
            return None
        return self._hiding.put_in(memory, thread, root, self._hiding.places(root, element))

    def _told(self, memory: Memory, bits: float) -> Memory:
        return memory.grown(memory.ledger.spend(bits))


def refusing(codec: Codec) -> Iterator[tuple[str, bool]]:
    """The paths of the fields that take no reference, and whether each has to be there.

    Of a payload with a hand-written schema, as far as its example has them.
    """
    if codec.described is None:
        element, counted = etree.fromstring(codec.example()), facts_of(codec).closed
        for place in places(codec, element):
            before = place.text
            place.write(SAMPLE)
            if before and place.shape not in counted and not codec.valid(element):
                yield place.path, True
            place.write(before)
        return
    schema, names = schema_of_scalars(codec.described)
    for path, record, each in fields_of(codec):
        assert isinstance(each.type, Scalar)
        text = etree.Element(f"{{{codec.described.namespace}}}{names[record.name, each.name]}")
        text.text = SAMPLE
        if bits_of(each.type) is None and not schema.validate(text):
            yield path, not each.optional


def _copy(element: etree._Element) -> etree._Element:
    copy = deepcopy(element)
    copy.tail = None
    return copy


def _origin(found: Referenced) -> str:
    return f"{found.path} of {found.source}"


def _listed(told: Mapping[str, str]) -> str:
    lines = [f"{name} is {origin}" for name, origin in list(told.items())[:TOLD]]
    more = [f"and {len(told) - TOLD} more"] if len(told) > TOLD else []
    return "\n".join(["values are put in place of references", *lines, *more])


def _note(text: str) -> GuardNote:
    return GuardNote(NAME, text)
