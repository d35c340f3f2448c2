"""Rules for the parts of a message that are hidden from listeners with ``view: references``.

Text and every value of an open type is hidden if a stranger may have written it. At a source, and at a trusted listener
that received untrusted text, these are all fields not declared as better than prose; at any other exposed listener,
everything; elsewhere, the texts that carry an untrusted one. Booleans, enumerations, bounded numbers and the structure
stay, and the bits that they reveal are counted. Names are never considered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import log2
from typing import TYPE_CHECKING, NamedTuple

from lxml import etree

from agentserver.core.drafts.routing import Route
from agentserver.core.handoffs import TASK
from agentserver.core.messages import SYSTEM_NAMES
from agentserver.core.state.principals import Trust
from agentserver.guards.lineage.notes import RECALLED
from agentserver.guards.lineage.reading import NameCounts, Place, count_structure_bits, list_places
from agentserver.guards.lineage.references import stamp_message
from agentserver.payload.codec import is_system_name
from agentserver.payload.fields.lexical import ScalarKind
from agentserver.payload.names import local
from agentserver.provenance.evidence.inventory import hash_whole
from agentserver.provenance.evidence.labels import Leaf, Standing, means
from agentserver.provenance.evidence.leaves import format_text, leaves
from agentserver.provenance.policy import forms
from agentserver.provenance.policy.quarantine import measure_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.messages import Delivery
    from agentserver.guards.lineage.memory import Memory
    from agentserver.guards.lineage.reach import Reach
    from agentserver.guards.lineage.reading import Readings
    from agentserver.guards.lineage.references import InsertedValues
    from agentserver.guards.lineage.trust import Parties, TrustSettings
    from agentserver.payload.codec import Codec
    from agentserver.payload.fields.field_table import Scalar
    from agentserver.provenance.policy.declarations import ListenerClass, Policy


class _Suspicion(Enum):
    """Extent to which a message may be a stranger's."""

    NOTHING = 0
    CARRIED = 1
    FIELDS = 2
    EVERYTHING = 3


class MessageOrigin(NamedTuple):
    """Origin of a message.

    Args:
        sender: a listener or a principal.
        thread: the sender's.
        root: name of the payload.
        outside: whether a principal is known to have written it.
    """

    sender: str
    thread: str
    root: str
    outside: bool


class Cover(NamedTuple):
    """Hidden parts of a message.

    Args:
        places: the numbers of the hidden scalars.
        bits: the bits that the rest reveals of untrusted values.
    """

    places: tuple[int, ...] = ()
    bits: float = 0.0


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """Facts of one payload's schema.

    Args:
        closed: bits of each field of a closed type of a hand-written schema, by its shape.
        names: the number of declared names.
        takes: by shape, whether a field accepts a reference.
    """

    closed: Mapping[str, float]
    names: NameCounts
    takes: dict[str, bool] = field(default_factory=dict)


class HidingRules:
    """Rules for hiding parts of messages.

    Args:
        trusted: the settings of trust.
        classes: the classes of all listeners.
        parties: the classification of listeners and principals.
        readings: the readers of payloads.
        reach: the tracker of untrusted text.
    """

    def __init__(
        self,
        trusted: TrustSettings,
        classes: Mapping[str, ListenerClass],
        parties: Parties,
        readings: Readings,
        reach: Reach,
    ) -> None:
        self._trusted, self._policy = trusted, trusted.policy
        self._classes, self._parties, self._readings, self._reach = classes, parties, readings, reach
        self._facts: dict[str, SchemaFacts] = {}

    def describe_delivery(self, delivery: Delivery) -> MessageOrigin:
        """Describe the origin of a message that its listener receives."""
        outside = delivery.sender not in self._classes and delivery.hop == 1
        return MessageOrigin(delivery.sender, delivery.origin, delivery.root, outside)

    def describe_proposal(self, proposal: Proposal) -> MessageOrigin:
        """Describe the origin of a proposed message."""
        sender = proposal.sender.name
        outside = sender not in self._classes and proposal.route is not Route.REDRIVEN
        return MessageOrigin(sender, proposal.thread, proposal.root, outside)

    def list_places(self, root: str, element: etree._Element) -> tuple[Place, ...]:
        """List the scalars of a payload."""
        return list_places(self._readings[root].codec, element)

    def find_facts(self, root: str) -> SchemaFacts:
        """Look up the facts of a payload's schema, measured once."""
        known = self._facts.get(root)
        if known is None:
            known = self._facts[root] = measure_schema(self._readings[root].codec)
        return known

    def find_cover(self, memory: Memory, message: MessageOrigin, element: etree._Element) -> Cover:
        """Find the part of a payload that a listener with references must not read."""
        suspicion = self._assess_suspicion(memory, message)
        if suspicion is _Suspicion.NOTHING:
            return Cover()
        found = self.list_places(message.root, element)
        facts = self.find_facts(message.root)
        if suspicion is _Suspicion.CARRIED:
            return Cover(tuple(self._find_carrying(memory, message, found, facts)))
        hidden: list[int] = []
        bits = count_structure_bits(self._readings[message.root].codec, facts.names, element)
        for number, place in enumerate(found):
            vouched = suspicion is _Suspicion.FIELDS and self._is_vouched_for(message, place)
            if vouched or is_server_written(message.root, place, found):
                continue
            field_bits = count_closed_bits(place.kind) if place.kind else facts.closed.get(place.shape)
            if field_bits is None:
                hidden.append(number)
            else:
                bits += field_bits
        spent = message.sender in self._trusted.quarantined and memory.ledger.tainted
        return Cover(tuple(hidden), 0.0 if spent else bits)

    def _assess_suspicion(self, memory: Memory, message: MessageOrigin) -> _Suspicion:
        """Assess how much of a message may be a stranger's. It never decreases during a conversation."""
        if message.sender in SYSTEM_NAMES or is_system_name(message.root):
            return _Suspicion.NOTHING
        if memory.ledger.overflow or (message.sender in self._trusted.keepers and message.root == RECALLED):
            return _Suspicion.EVERYTHING
        known = self._classes.get(message.sender)
        if known is None:
            return self._assess_principal(memory, message)
        if known.source:
            return _Suspicion.FIELDS
        if self._reach.find_exposure(memory, message.sender, message.thread) is None:
            return _Suspicion.CARRIED
        vouched = any(means(entry, message.sender) for entry in self._policy.trusted)
        return _Suspicion.FIELDS if vouched and not known.relay else _Suspicion.EVERYTHING

    def _assess_principal(self, memory: Memory, message: MessageOrigin) -> _Suspicion:
        trust = self._parties.find_trust(message.sender, memory)
        if trust is Trust.STRANGER:
            return _Suspicion.FIELDS
        if not message.outside:
            return _Suspicion.EVERYTHING
        if trust is Trust.ORDERS:
            return _Suspicion.NOTHING
        exposed = self._reach.find_exposure(memory, message.sender, message.thread)
        return _Suspicion.CARRIED if exposed is None else _Suspicion.EVERYTHING

    def _find_carrying(
        self, memory: Memory, message: MessageOrigin, found: Sequence[Place], facts: SchemaFacts
    ) -> Iterator[int]:
        """Find the texts that hold a value of untrusted origin, in a message of a sender that read none."""
        if not is_tainted(memory):
            return
        put_in = self.find_put_in(memory, message.thread, message.root, found)
        paths = () if put_in is None else put_in.paths
        for number, place in enumerate(found):
            text = is_text(place.kind) if place.kind else place.shape not in facts.closed
            if place.path in paths or (text and _carries(memory, place.text)):
                yield number

    def find_put_in(
        self, memory: Memory, thread: str, root: str, found: Sequence[Place]
    ) -> InsertedValues | None:
        """Find the values in a message that replaced references, if any."""
        put_in = memory.references.put_in
        return put_in.get(stamp_message(thread, root, (place.text for place in found))) if put_in else None

    def _is_vouched_for(self, message: MessageOrigin, place: Place) -> bool:
        marked = self._readings[message.root].marks.find_standing(place.path)
        return is_vouched_for(self._policy, message.sender, Leaf(place.path, place.text, marked))


def is_vouched_for(policy: Policy, sender: str, leaf: Leaf) -> bool:
    """Check whether a source's field is declared as better than prose, and holds no prose."""
    worth = policy.field_rule(sender, leaf)
    if worth is None or worth.standing is Standing.PROSE:
        return False
    if worth.standing is Standing.OWN:
        return True
    text = format_text(leaf.value)
    structured = any(inner.standing is Standing.PROSE for inner in leaves([text]))
    return not (structured or forms.is_long(text) or forms.has_prose(text))


def measure_schema(codec: Codec) -> SchemaFacts:
    """Measure the schema of one payload."""
    if codec.described is not None:
        return SchemaFacts({}, NameCounts(0, 0))
    tree = etree.fromstring(codec.xsd().encode())
    count = NameCounts(sum(1 for _ in tree.iter("{*}element")), sum(1 for _ in tree.iter("{*}attribute")))
    return SchemaFacts(measure_fields(tree, local(codec.name)), count)


def is_text(kind: Scalar) -> bool:
    """Check for text of its writer's choice."""
    return kind.kind is ScalarKind.STR and not kind.choices


def count_closed_bits(kind: Scalar) -> float | None:
    """Count the bits of a closed type; None for text and for a number or a date without bounds."""
    if kind.choices:
        return log2(len(kind.choices))
    if kind.kind is ScalarKind.BOOL:
        return 1.0
    lower, upper = kind.facets.bounds.lower, kind.facets.bounds.upper
    if kind.kind is not ScalarKind.INT or lower is None or upper is None:
        return None
    return log2(max(1, upper.value - lower.value + 1))


def is_tainted(memory: Memory) -> bool:
    """Check whether anything untrusted was seen, even only behind a reference."""
    return memory.ledger.tainted or bool(memory.references.known)


def _carries(memory: Memory, text: str) -> bool:
    """Check whether a text holds a span or a value of an untrusted one, or equals a short one."""
    ledger = memory.ledger
    may_contain = ledger.untrusted.may_contain(text, len(ledger.texts))
    return may_contain or ledger.table.find_first(hash_whole(text)) is not None


def is_server_written(root: str, place: Place, found: Sequence[Place]) -> bool:
    """Check for the parts of a task that the server writes from the organism's template, without inserted values."""
    if root != TASK:
        return False
    name = place.path.rpartition(".")[2]
    if place.path == "steering":
        return not any(each.path.startswith("params") for each in found)
    return place.path == "intent" or name in {"name", "source", "at"}
