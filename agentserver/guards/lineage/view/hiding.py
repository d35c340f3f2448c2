"""The parts of a message that are hidden from listeners with ``view: references``.

Hidden is what can be read as a stranger's words: text and every value of an open type. Of a source, and of a trusted
listener that was given untrusted text, that is every field whose standing is not declared as better than prose; of
any other that was given some, everything; of everybody else, the texts in which an untrusted one is carried.
Booleans, enumerations and bounded numbers stay, and so does the structure; what they can tell is counted. Names
decide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import log2
from typing import TYPE_CHECKING, NamedTuple

from lxml import etree

from agentserver.core.drafts.routing import Route
from agentserver.core.handoffs import TASK
from agentserver.core.messages import SYSTEM, TODO
from agentserver.core.state.principals import Trust
from agentserver.guards.lineage.view.places import Names, Place, places, structure
from agentserver.guards.lineage.view.references import stamp
from agentserver.payload.codec import is_system_name
from agentserver.payload.fields.lexical import ScalarKind
from agentserver.payload.names import local
from agentserver.provenance.evidence.labels import Leaf, Standing
from agentserver.provenance.evidence.leaves import leaves, text_of
from agentserver.provenance.observations.untrusted_texts import whole_key
from agentserver.provenance.policy import forms
from agentserver.provenance.policy.paths import means
from agentserver.provenance.policy.quarantine import measure_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.messages import Delivery
    from agentserver.guards.lineage.memory import Memory
    from agentserver.guards.lineage.parties import Parties
    from agentserver.guards.lineage.reach import Reach
    from agentserver.guards.lineage.reading import Readings
    from agentserver.guards.lineage.trusted import Trusted
    from agentserver.guards.lineage.view.references import PutIn
    from agentserver.payload.codec import Codec
    from agentserver.payload.fields.field_table import Scalar
    from agentserver.provenance.policy.declarations import ListenerClass, Policy


class _Suspicion(Enum):
    """The measure of how much of a message may be a stranger's."""

    NOTHING = 0
    CARRIED = 1
    FIELDS = 2
    EVERYTHING = 3


class From(NamedTuple):
    """A message by whose it is.

    Args:
        sender: a listener or a principal.
        thread: the sender's.
        root: name of the payload.
        outside: whether it is what a principal said, as far as that is known.
    """

    sender: str
    thread: str
    root: str
    outside: bool


class Cover(NamedTuple):
    """The hidden parts of a message.

    Args:
        places: the numbers of the scalars that are.
        bits: that the rest tells of untrusted values.
    """

    places: tuple[int, ...] = ()
    bits: float = 0.0


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """The facts of one payload's schema.

    Args:
        closed: bits of each field of a closed type of a hand-written schema, by its shape.
        names: that it declares.
        takes: by shape, whether a field was found to take a reference.
    """

    closed: Mapping[str, float]
    names: Names
    takes: dict[str, bool] = field(default_factory=dict)


class Hiding:
    """Tells what of a message is hidden.

    Args:
        trusted: whom the organism trusts with what.
        classes: of every listener of the organism.
        parties: what the words of each are worth.
        readings: of every payload.
        reach: knows whom untrusted text reached.
    """

    def __init__(
        self,
        trusted: Trusted,
        classes: Mapping[str, ListenerClass],
        parties: Parties,
        readings: Readings,
        reach: Reach,
    ) -> None:
        self._trusted, self._policy = trusted, trusted.policy
        self._classes, self._parties, self._readings, self._reach = classes, parties, readings, reach
        self._facts: dict[str, SchemaFacts] = {}

    def arrived(self, delivery: Delivery) -> From:
        """A message that its listener is given."""
        outside = delivery.sender not in self._classes and delivery.hop == 1
        return From(delivery.sender, delivery.origin, delivery.root, outside)

    def proposed(self, proposal: Proposal) -> From:
        """A message on its way."""
        sender = proposal.sender.name
        outside = sender not in self._classes and proposal.route is not Route.REDRIVEN
        return From(sender, proposal.thread, proposal.root, outside)

    def places(self, root: str, element: etree._Element) -> tuple[Place, ...]:
        """The scalars of a payload."""
        return places(self._readings[root].codec, element)

    def facts(self, root: str) -> SchemaFacts:
        """The facts of a payload's schema, found out once."""
        known = self._facts.get(root)
        if known is None:
            known = self._facts[root] = facts_of(self._readings[root].codec)
        return known

    def cover(self, memory: Memory, said: From, element: etree._Element) -> Cover:
        """The part of a payload that a listener which is shown references must not read."""
        suspicion = self._suspicion(memory, said)
        if suspicion is _Suspicion.NOTHING:
            return Cover()
        found = self.places(said.root, element)
        facts = self.facts(said.root)
        if suspicion is _Suspicion.CARRIED:
            return Cover(tuple(self._carrying(memory, said, found, facts)))
        hidden: list[int] = []
        bits = structure(self._readings[said.root].codec, facts.names, element)
        for number, place in enumerate(found):
            vouched = suspicion is _Suspicion.FIELDS and self._vouched(said, place)
            if vouched or written_by_server(said.root, place, found):
                continue
            told = bits_of(place.kind) if place.kind else facts.closed.get(place.shape)
            if told is None:
                hidden.append(number)
            else:
                bits += told
        spent = said.sender in self._trusted.quarantined and memory.ledger.tainted
        return Cover(tuple(hidden), 0.0 if spent else bits)

    def _suspicion(self, memory: Memory, said: From) -> _Suspicion:
        """The measure of how much of a message may be a stranger's. It never sinks while a conversation lasts."""
        if said.sender in {SYSTEM, TODO} or is_system_name(said.root):
            return _Suspicion.NOTHING
        if memory.ledger.overflow:
            return _Suspicion.EVERYTHING
        known = self._classes.get(said.sender)
        if known is None:
            return self._of_principal(memory, said)
        if known.source:
            return _Suspicion.FIELDS
        if self._reach.exposed(memory, said.sender, said.thread) is None:
            return _Suspicion.CARRIED
        vouched = any(means(entry, said.sender) for entry in self._policy.trusted)
        return _Suspicion.FIELDS if vouched and not known.relay else _Suspicion.EVERYTHING

    def _of_principal(self, memory: Memory, said: From) -> _Suspicion:
        trust = self._parties.trust(said.sender, memory)
        if trust is Trust.STRANGER:
            return _Suspicion.FIELDS
        if not said.outside:
            return _Suspicion.EVERYTHING
        if trust is Trust.ORDERS:
            return _Suspicion.NOTHING
        exposed = self._reach.exposed(memory, said.sender, said.thread)
        return _Suspicion.CARRIED if exposed is None else _Suspicion.EVERYTHING

    def _carrying(
        self, memory: Memory, said: From, found: Sequence[Place], facts: SchemaFacts
    ) -> Iterator[int]:
        """The texts in which a value of untrusted origin stands, by what is known of a sender that read none itself."""
        if not tainted(memory):
            return
        put_in = self.put_in(memory, said.thread, said.root, found)
        paths = () if put_in is None else put_in.paths
        for number, place in enumerate(found):
            text = is_text(place.kind) if place.kind else place.shape not in facts.closed
            if place.path in paths or (text and _carries(memory, place.text)):
                yield number

    def put_in(self, memory: Memory, thread: str, root: str, found: Sequence[Place]) -> PutIn | None:
        """The values in a message that were put in place of references; None where there are none."""
        put_in = memory.references.put_in
        return put_in.get(stamp(thread, root, (place.text for place in found))) if put_in else None

    def _vouched(self, said: From, place: Place) -> bool:
        marked = self._readings[said.root].marks.standing_of(place.path)
        return vouched(self._policy, said.sender, Leaf(place.path, place.text, marked))


def vouched(policy: Policy, sender: str, leaf: Leaf) -> bool:
    """True for a field of a source that is declared to be more than prose, and holds no more than that."""
    worth = policy.field_rule(sender, leaf)
    if worth is None or worth.standing is Standing.PROSE:
        return False
    if worth.standing is Standing.OWN:
        return True
    text = text_of(leaf.value)
    structured = any(inner.standing is Standing.PROSE for inner in leaves([text]))
    return not (structured or forms.is_long(text) or forms.has_prose(text))


def facts_of(codec: Codec) -> SchemaFacts:
    """The facts of the schema of one payload."""
    if codec.described is not None:
        return SchemaFacts({}, Names(0, 0))
    tree = etree.fromstring(codec.xsd().encode())
    count = Names(sum(1 for _ in tree.iter("{*}element")), sum(1 for _ in tree.iter("{*}attribute")))
    return SchemaFacts(measure_fields(tree, local(codec.name)), count)


def is_text(kind: Scalar) -> bool:
    """True for text of its writer's choice."""
    return kind.kind is ScalarKind.STR and not kind.choices


def bits_of(kind: Scalar) -> float | None:
    """Bits that a value of a closed type tells; None for text and for a number or a date without bounds."""
    if kind.choices:
        return log2(len(kind.choices))
    if kind.kind is ScalarKind.BOOL:
        return 1.0
    lower, upper = kind.facets.bounds.lower, kind.facets.bounds.upper
    if kind.kind is not ScalarKind.INT or lower is None or upper is None:
        return None
    return log2(max(1, upper.value - lower.value + 1))


def tainted(memory: Memory) -> bool:
    """True when anything untrusted was seen, be it only behind a reference."""
    return memory.ledger.tainted or bool(memory.references.known)


def _carries(memory: Memory, text: str) -> bool:
    """True when a text holds a span or a value of an untrusted one, or is a short one as a whole."""
    ledger = memory.ledger
    told = ledger.untrusted.may_contain(text, len(ledger.texts))
    return told or ledger.table.first(whole_key(text)) is not None


def written_by_server(root: str, place: Place, found: Sequence[Place]) -> bool:
    """True for what the server writes into a task: its template is the organism's, as long as no value is in it."""
    if root != TASK:
        return False
    name = place.path.rpartition(".")[2]
    if place.path == "steering":
        return not any(each.path.startswith("params") for each in found)
    return place.path == "intent" or name in {"name", "source", "at"}
