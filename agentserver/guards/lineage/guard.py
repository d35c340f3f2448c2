"""Lineage: values from untrusted places are known wherever they go, and do not drive what has consequences.

What is seen, and when. A message is seen when its listener is done with it, before anything that the listener sends
is judged; so all that a listener says is judged by all that it was given. The messages of a principal who gives
orders are trusted words, every other message is the output of its sender, the system's own are nothing. What a source
or a quarantined listener sends is seen before it is judged, for no other listener has been given it yet.
"""

from __future__ import annotations

from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING

from agentserver.contract import Code
from agentserver.core.drafts.routing import Route
from agentserver.core.guard import DenyVerdict, NoteVerdict
from agentserver.core.handoffs import TASK
from agentserver.core.messages import SYSTEM, TODO, Drafts, HandlerReturn
from agentserver.core.records.details import Ground
from agentserver.findings import Exposed
from agentserver.guards.lineage import memory as lineage_memory
from agentserver.guards.lineage.asking import answered
from agentserver.guards.lineage.exposure import FirstText
from agentserver.guards.lineage.memory import Memory
from agentserver.guards.lineage.parties import Parties
from agentserver.guards.lineage.planning import COUNTED, Planning, both
from agentserver.guards.lineage.reach import Reach, told_outside
from agentserver.guards.lineage.reading import Readings, Said, handed, words
from agentserver.guards.lineage.trusted import Trusted
from agentserver.guards.lineage.view.hiding import Hiding
from agentserver.guards.lineage.view.viewer import Viewer
from agentserver.payload.names import local
from agentserver.provenance.evidence.labels import Call, Leaf, Mode, Observation, Role, Standing
from agentserver.provenance.exits import count_bits
from agentserver.provenance.judgement import judge
from agentserver.provenance.ledger import Ledger
from agentserver.provenance.observations.assessment import RecentOutputs
from agentserver.provenance.origins import find_origins
from agentserver.provenance.policy.declarations import PlanSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lxml import etree

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import Verdict
    from agentserver.core.messages import Delivery, Draft, FinishedInvocation
    from agentserver.core.pieces import Work
    from agentserver.core.presenting import ResolvedPayload
    from agentserver.core.refusals import Refusal
    from agentserver.core.state.principals import Trust
    from agentserver.findings import Origins
    from agentserver.guards.lineage.view.references import PutIn
    from agentserver.payload.codec import Codecs
    from agentserver.provenance.policy.declarations import ListenerClass
    from agentserver.provenance.verdict import Verdict as Judgement

__all__ = ["LineageGuard", "Trusted"]


class LineageGuard:
    """Watches every message, and judges those to listeners with consequences.

    Args:
        trusted: whom the organism trusts with what.
        listeners: the names of all its listeners.
        codecs: of every payload that they handle.
        redact: takes secrets out of what it tells, before anything of it is cut.

    Raises PayloadError for a payload whose type says contradictory things of a field.
    """

    name = "lineage"

    def __init__(
        self,
        trusted: Trusted,
        listeners: Iterable[str],
        codecs: Codecs,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._redact = redact
        self._trusted = trusted
        self._policy = trusted.policy
        self.silencing = trusted.policy.mode is Mode.ENFORCE
        self._orders = replace(trusted.policy, plan=PlanSource.OFF)
        self._classes: Mapping[str, ListenerClass] = {name: self._policy.classify(name) for name in listeners}
        self._readings = Readings(codecs)
        self._carriers = bool(trusted.carriers)
        self._suspects = bool(trusted.carriers or self._policy.deny)
        self._parties = Parties(trusted, self._classes)
        self._reach = Reach(trusted, self._parties, self._readings)
        # What these say or are told counts even where nothing untrusted was seen.
        self._watched = trusted.planners | trusted.quarantined
        self._planning = Planning(trusted, self._parties, self._readings, self._reach, redact)
        self.viewers = trusted.viewers & self._classes.keys()
        hiding = Hiding(trusted, self._classes, self._parties, self._readings, self._reach)
        self._viewer = Viewer(hiding, self._readings)
        relays = {name for name, each in self._classes.items() if each.relay} - self._watched
        self._passing = frozenset() if self._policy.readers or self._carriers else frozenset(relays)
        """The listeners that carry nothing from one to the other while nothing untrusted was seen."""
        others = {name for name, each in self._classes.items() if not each.sink} - self.viewers
        self._harmless = frozenset() if self._suspects else frozenset(others)
        """The listeners that may be sent anything while nothing untrusted was seen."""
        self._outputs = RecentOutputs()
        # The last answers: a step that is decided in another way asks again, for the very same values.
        self._observed: tuple[tuple[object, ...], float, object] = ((object(),), 0.0, None)
        self._decided: tuple[tuple[object, ...], tuple[object, ...], Verdict] = ((object(),), (), None)

    # What is shown, and put in again

    def present(
        self, memory: object, delivery: Delivery, element: etree._Element
    ) -> etree._Element | Refusal:
        """The payload with references in place of untrusted values, or why it cannot be shown."""
        return self._viewer.present(_recalled(memory), delivery, element)

    def resolve(self, memory: object, draft: Draft, thread: str, room: int) -> ResolvedPayload | None:
        """Put the values into a message; None for one without references."""
        return self._viewer.resolve(_recalled(memory), draft, thread, room)

    def rewritten(self, memory: object, before: Draft, after: Draft, thread: str) -> object:
        """The memory when a handoff that values were put into became a task."""
        return self._viewer.rewritten(_recalled(memory), before, after, thread)

    # What is seen

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:
        """The memory after a listener was given a message."""
        known = _recalled(memory)
        if known.calm and delivery.to not in self.viewers and self._passes_by(delivery, known):
            return known.stepped()
        key = memory, delivery, element
        last, when, after = self._observed
        if when == at and all(map(is_, last, key)):
            return after
        after = self._observe(memory, delivery, element, at)
        self._observed = key, at, after
        return after

    def _observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:
        if delivery.to in self.viewers:
            memory = self._viewer.seen(_recalled(memory), delivery, element)
        if delivery.sender in {SYSTEM, TODO}:
            return memory
        if self._passes_by(delivery, known := _recalled(memory)):
            return known.stepped()
        arrived = self._arrived(delivery, element)
        outside = delivery.sender not in self._classes and delivery.hop == 1
        known = known.stepped()
        if outside and self._parties.orders(delivery.sender, known):
            known = self._ordered(known, arrived, delivery.thread, at)
        else:
            known = known if known.calm else self._carried(known, arrived, at)
            heard = self._heard(self._planning.told(known, arrived), arrived, at)
            calm = heard.calm and not (self._carriers or self._parties.of(arrived.sender, known).source)
            # Of what a viewer is given it reads nothing but what is counted.
            unread = calm or delivery.to in self.viewers
            put_in = None if unread else _first(self._put_in(known, arrived), arrived, known)
            known = heard if unread else self._reach.given(heard, arrived, delivery.thread, known, put_in)
        receiver = self._classes.get(delivery.to)
        if receiver is not None and not receiver.relay:
            steps = self._steps(known, arrived, at)
            known = known.telling(delivery.thread, delivery.origin, words(arrived.leaves), steps)
        return known

    def _ordered(self, memory: Memory, said: Said, thread: str, at: float) -> Memory:
        """The memory after a principal's words. What stands in a field of prose it has from somebody else."""
        pasted = tuple(leaf for leaf in said.leaves if leaf.standing is Standing.PROSE)
        own = (
            tuple(leaf for leaf in said.leaves if leaf.standing is not Standing.PROSE)
            if pasted
            else said.leaves
        )
        memory = memory.asked("\n".join(words(own)))
        if not any(words(pasted)):
            return memory
        seen = Observation(said.sender, pasted, memory.step, at, trace=said.trace)
        return self._reach.given(memory.grown(memory.ledger.learn(self._policy, seen)), said, thread, memory)

    def _steps(self, memory: Memory, said: Said, at: float) -> tuple[int, ...]:
        """The numbers of the plan's steps that a message is a call of."""
        ledger = memory.ledger
        if ledger.plan is None or not ledger.plan.steps:
            return ()
        return ledger.plan.find_answered(
            ledger, said.to, self._call(said, memory, at, exposed=True).arguments
        )

    def _passes_by(self, delivery: Delivery, known: Memory) -> bool:
        """True for what one relay tells another while nothing untrusted was seen: only the count changes."""
        passing = self._passing
        return (
            known.calm
            and delivery.sender in passing
            and delivery.to in passing
            and delivery.root in self._readings.unmarked
        )

    def opened(self, trust: Trust) -> object:
        """The memory of a conversation in which nothing has been said, by a principal of this trust."""
        return Memory(trust=trust)

    def missed(self, memory: object) -> object:
        """The memory after a message of which nothing is known: over the bound, so that every sink is refused."""
        return _recalled(memory).missed()

    def _carried(self, memory: Memory, said: Said, at: float) -> Memory:
        """The memory after a message that may have told something by its choices."""
        receiver = self._classes.get(said.to)
        if receiver is None or not (receiver.sink or receiver.source):
            return memory
        exposed = self._reach.exposed(memory, said.sender, said.thread) is not None
        call = self._call(said, memory, at, exposed=exposed)
        return memory.grown(memory.ledger.carry(count_bits(memory.ledger, self._policy, call)))

    def _heard(self, memory: Memory, said: Said, at: float) -> Memory:
        """The memory after a sender's words."""
        memory = self._planning.adopted(memory, said)
        return memory.grown(self._learn(memory, said, at))

    def _learn(self, memory: Memory, said: Said, at: float) -> Ledger:
        """Give the ledger after a sender's words, but for a plan."""
        ledger = memory.ledger
        sender = self._parties.of(said.sender, memory)
        if said.sender in self._trusted.quarantined and ledger.tainted:
            ledger = ledger.spend(self._readings[said.root].channel.bits)
        if self._policy.readers or said.root not in self._readings.unmarked:
            private = Observation(said.sender, said.leaves, memory.step, at, trace=said.trace)
            ledger = ledger.confide(self._policy, private)
        if sender.relay:
            return ledger.relay(said.sender, said.leaves, memory.step) if ledger.tainted else ledger
        asked = memory.told_to(said.thread)
        leaves = said.leaves
        if asked is None:  # no record tells what it merely repeats
            leaves = tuple(map(_disowned, leaves)) if sender.source else ()
        arguments = tuple(Leaf("", text) for text in asked or ())
        answers = memory.answering(said.thread)
        seen = Observation(said.sender, leaves, memory.step, at, arguments, said.trace, answers)
        return ledger.learn(self._policy, seen, self._outputs)

    def _put_in(self, memory: Memory, said: Said) -> PutIn | None:
        """The values in a message of a sender which did not read them."""
        if said.sender not in self.viewers:
            return None
        return self._viewer.put_in(memory, said.thread, said.root, said.element)

    def _arrived(self, delivery: Delivery, element: etree._Element) -> Said:
        root = delivery.root
        reading = self._readings[root]
        return Said(delivery.sender, delivery.to, delivery.origin, root, element, reading, delivery.id)

    # What is done early

    def prepare(self, memory: object, finished: FinishedInvocation) -> Work | None:
        """Give the work of indexing what is long; None where there is little to index."""
        delivery, element, result, _ = finished
        said = result.said if isinstance(result, HandlerReturn) else None
        drafts = said.drafts if isinstance(said, Drafts) else ()
        size = len(delivery.message)
        for draft in drafts:
            size += len(draft.markup)
        if not isinstance(memory, Memory) or element is None or not memory.ledger.needs_indexing(size):
            return None
        after = _recalled(self.observe(memory, delivery, element, 0.0))
        ledgers = [after.ledger]
        if self._parties.of(delivery.to, after).source:
            for draft in drafts:
                reading = self._readings[draft.root]
                one = Said(delivery.to, "", delivery.thread, draft.root, draft.element, reading)
                ledgers.append(self._learn(after, one, 0.0))
        waiting = [ledger for ledger in ledgers if ledger.needs_indexing()]

        def index() -> None:
            for ledger in waiting:
                ledger.index_all()

        return index if waiting else None

    # What is judged

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:
        """Decide on a message by the part that its listener has in the policy."""
        calm = _recalled(memory).calm
        if calm and proposal.to in self._harmless and proposal.sender.name not in self._watched:
            return None
        key = memory, proposal.element
        about = proposal.sender.name, proposal.to, proposal.route, proposal.thread, proposal.root, at
        last, other, verdict = self._decided
        if about == other and all(map(is_, last, key)):
            return verdict
        verdict = self._judge(memory, proposal, at)
        self._decided = key, about, verdict
        return verdict

    def _judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:
        if proposal.route is Route.SERVICE:
            return None
        known = _recalled(memory)
        if proposal.to not in self._classes:
            text = self._reach.outward(known, proposal)
            return None if text is None else NoteVerdict(told_outside(text, proposal.to))
        if proposal.to in self.viewers:
            unfit = self._viewer.unshowable(known, proposal)
            if unfit is not None:
                return unfit
        receiver, clean = self._classes[proposal.to], known.calm and not self._suspects
        if clean and not receiver.sink and proposal.sender.name not in self._watched:
            return None
        planned, found = self._planning.judged(known, proposal), self._weighed(known, proposal, at)
        if planned is not None:
            return both(planned, found)
        return NoteVerdict(COUNTED) if found is None and self._planning.counts(known, proposal) else found

    def sent(self, memory: object, proposal: Proposal, at: float) -> object:
        """The memory after a message was admitted.

        Where the plan allows so many calls of it, one is spent. What leaves to a principal whose words are no orders is
        seen here, for no listener is given it.
        """
        known = _recalled(memory)
        if self._reach.outward(known, proposal) is not None:
            before, said = known.stepped(), self._proposed(proposal)
            heard = self._heard(before, said, at)
            put_in = _first(self._put_in(before, said), said, before)
            return self._reach.given(heard, said, "", before, put_in)
        if not self._planning.counts(known, proposal):
            return memory
        return known.grown(
            known.ledger.count_call(self._call(self._proposed(proposal), known, at, exposed=True))
        )

    def _weighed(self, known: Memory, proposal: Proposal, at: float) -> Verdict:
        redriven = proposal.route is Route.REDRIVEN
        confined = self._confined(proposal)
        if isinstance(confined, DenyVerdict) or not self._consequential(known, proposal):
            return confined
        known = known.stepped()
        said = self._proposed(proposal)
        ordered = self._parties.orders(said.sender, known) and not redriven
        judged, text = self._judged(known, said, at, ordered=ordered)
        exposed = None if text is None else Exposed(said.sender, *text)
        return answered(judged, exposed, known.approved, self._redact) or confined

    def _proposed(self, proposal: Proposal) -> Said:
        sender, to, root = proposal.sender.name, proposal.to, proposal.root
        return Said(sender, to, proposal.thread, root, proposal.element, self._readings[root])

    def _consequential(self, memory: Memory, proposal: Proposal) -> bool:
        """True for a call of a sink, and for a message that may carry something out to a destination that it names."""
        receiver = self._classes[proposal.to]
        if receiver.sink or (memory.calm and not self._suspects):
            return receiver.sink
        declared = any(role is Role.DESTINATION for _, role in self._readings[proposal.root].roles)
        return declared or (receiver.source and proposal.route is not Route.ANSWER)

    def _judged(
        self, memory: Memory, said: Said, at: float, *, ordered: bool
    ) -> tuple[Judgement, FirstText | None]:
        """The verdict on a message by all that is known, its own words included where they are no record.

        Beside it is the untrusted text that the sender was given.
        """
        if ordered:
            # The principal's own message is an order: nothing but the deny list stands against it.
            return judge(Ledger(), self._orders, self._call(said, memory, at, exposed=False)), None
        if self._parties.of(said.sender, memory).source or said.sender in self._trusted.quarantined:
            memory = self._planning.adopted(memory, said)
            memory = memory.supposing(self._learn(memory, said, at))
        text = self._reach.exposed(memory, said.sender, said.thread)
        put_in = None if text is not None else self._put_in(memory, said)
        text = text or _first(put_in, said, memory)
        ledger = memory.ledger if text is None else memory.ledger.suspect_foreign_text()
        call = self._call(said, memory, at, exposed=text is not None)
        paths = frozenset(put_in.paths if put_in is not None else ())
        if paths <= {leaf.path for leaf in call.arguments}:  # else it is not known which of them they are
            call = replace(call, put_in=paths)
        return judge(ledger, self._policy, call), text

    def _call(self, said: Said, memory: Memory, at: float, *, exposed: bool) -> Call:
        reading = self._readings[said.root]
        # What a listener sends itself is its own; any other task the server wrote, so that its values are what is said.
        own = said.root != TASK or said.sender == said.to
        arguments = said.leaves if own else handed(reading.codec.decode(said.element))
        filled = reading.filled(arguments) if own else frozenset()
        call = Call(
            said.to, arguments, memory.step, at, reading.roles, said.sender, exposed, reading.marks.ids
        )
        return replace(call, filled=filled) if filled else call

    def _confined(self, proposal: Proposal) -> Verdict:
        """Hold a quarantined listener to what a closed schema admits."""
        if proposal.sender.name not in self._trusted.quarantined:
            return None
        channel = self._readings[proposal.root].channel
        if channel.closed:
            return None
        name = local(proposal.root)
        told = Ground.QUARANTINED.of(proposal.sender.name, name, channel)
        return NoteVerdict(told) if self._policy.mode is Mode.AUDIT else DenyVerdict(Code.DENIED, told)

    def silences(self, memory: object, listener: str, thread: str) -> bool:
        """True for who was given untrusted text: what it tells a gateway would be an exit."""
        return self._reach.exposed(_recalled(memory), listener, thread) is not None

    # What a person approves

    def origins(self, memory: object, delivery: Delivery, element: etree._Element) -> Origins:
        """The origins of the values of a message that waits for a person."""
        known = _recalled(memory)
        call = self._call(self._arrived(delivery, element), known, 0.0, exposed=True)
        return find_origins(known.ledger, self._policy, call)

    def approve(self, memory: object, about: tuple[str, ...]) -> object:
        """Remember the values that were in question, each for its sink and its argument.

        A question about no single argument, such as one about the plan, is answered for that very call alone.
        """
        return _recalled(memory).approving(about)

    # What is kept

    def dump(self, memory: Memory) -> Mapping[str, bytes]:
        """The memory in parts; see ``lineage_memory``."""
        return lineage_memory.dump(memory)

    def load(self, parts: Mapping[str, bytes]) -> object:
        """The memory of which ``dump`` gave these parts; none are of a conversation that began without this guard."""
        return lineage_memory.load(parts) if parts else _recalled(None)


def _recalled(memory: object) -> Memory:
    """The memory. A conversation that did not open under this guard saw what is not known: it is over the bound."""
    return memory if isinstance(memory, Memory) else Memory.unknown()


def _disowned(leaf: Leaf) -> Leaf:
    """A leaf without a guarantor, because it is not known what was asked."""
    return replace(leaf, standing=Standing.PROSE, inside="")


def _first(put_in: PutIn | None, said: Said, memory: Memory) -> FirstText | None:
    """The untrusted text that values which were put into a message are from."""
    return None if put_in is None else FirstText(put_in.source, memory.step, said.sender)
