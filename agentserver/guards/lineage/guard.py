"""Lineage guard: tracks untrusted values through a conversation, and keeps them from driving consequences.

A message is observed when its listener is done with it, before anything that the listener sends is judged; so every
message is judged by all that its sender received. Messages of a principal who gives orders are trusted words, all
others are output of their sender, and the system's own are ignored. Output of a source or a quarantined listener is
observed before it is judged, since no other listener has received it yet.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from operator import is_
from typing import TYPE_CHECKING, Any

from agentserver.contract import Code
from agentserver.core.drafts.routing import Route
from agentserver.core.guard import DenyVerdict, NeedsApproval, NoteVerdict
from agentserver.core.handoffs import TASK
from agentserver.core.messages import SYSTEM_NAMES, Drafts, HandlerReturn
from agentserver.core.records.details import Ground
from agentserver.core.state.approvals import LastingApproval
from agentserver.core.state.principals import Trust
from agentserver.effects import load_answer
from agentserver.findings import Findings, SenderExposure
from agentserver.guards.lineage import memory as lineage_memory
from agentserver.guards.lineage.exposure import FirstText
from agentserver.guards.lineage.hiding import HidingRules
from agentserver.guards.lineage.memory import Memory
from agentserver.guards.lineage.notes import describe_lineage, is_recalled, learn_recalled, read_recalled
from agentserver.guards.lineage.plan import COUNTED, Planning, combine_verdicts
from agentserver.guards.lineage.reach import Reach, describe_outward
from agentserver.guards.lineage.reading import ObservedMessage, Readings, list_task_leaves, list_texts
from agentserver.guards.lineage.trust import Parties, TrustSettings
from agentserver.guards.lineage.viewer import Viewer
from agentserver.notes import SpanAuthor
from agentserver.payload.names import local
from agentserver.provenance.arrays import import_numpy, is_numpy_imported
from agentserver.provenance.copies import change
from agentserver.provenance.endorsements import split_subjects
from agentserver.provenance.evidence.labels import Call, Leaf, Mode, Observation, Role, Standing
from agentserver.provenance.evidence.leaves import format_text, leaves
from agentserver.provenance.exits import count_bits
from agentserver.provenance.judgement import judge
from agentserver.provenance.judging.case import list_arguments
from agentserver.provenance.judging.origins import find_origins
from agentserver.provenance.ledger import Ledger
from agentserver.provenance.policy.declarations import Effect, PlanSource
from agentserver.provenance.verdict import MOST, Decision, defer_findings, export_findings, redact_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lxml import etree

    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.guard import ResolvedPayload, Verdict
    from agentserver.core.messages import Delivery, Draft, FinishedInvocation
    from agentserver.core.pieces import Work
    from agentserver.core.refusals import Refusal
    from agentserver.core.state.ledger import LedgerEffect
    from agentserver.findings import Delegation, Origins
    from agentserver.guards.lineage.memory import LastRequest
    from agentserver.guards.lineage.references import InsertedValues
    from agentserver.notes import MessageLineage
    from agentserver.payload.codec import Codecs
    from agentserver.provenance.judging.case import Argument
    from agentserver.provenance.policy.declarations import ListenerClass
    from agentserver.provenance.verdict import Finding
    from agentserver.provenance.verdict import Verdict as Judgement


__all__ = ["LineageGuard", "TrustSettings"]

_SERIOUS = (Effect.BLOCK, Effect.ASK)


class _LastVerdict:
    """Verdict about the last message, which is judged once however often it is asked for.

    Args:
        judge: judges a message.
    """

    __slots__ = ("_about", "_judge", "_key", "_verdict")

    def __init__(self, judge: Callable[[Any, Proposal, float], Verdict]) -> None:
        self._judge = judge
        self._key: tuple[object, ...] = (object(),)
        self._about: tuple[object, ...] = ()
        self._verdict: Verdict = None

    def find(self, memory: object, proposal: Proposal, at: float) -> Verdict:
        """Return the verdict about a message, of the same memory if it was judged."""
        key = memory, proposal.element
        about = proposal.sender.name, proposal.to, proposal.route, proposal.thread, proposal.root, at
        if about != self._about or not all(map(is_, self._key, key)):
            self._verdict = self._judge(memory, proposal, at)
            self._key, self._about = key, about
        return self._verdict


class LineageGuard:
    """Guard that observes every message, and judges messages to listeners with consequences.

    Args:
        trusted: the settings of trust.
        listeners: the names of all listeners.
        codecs: the codecs of all their payloads.
        redact: removes secrets from reports, before they are cut.

    Raises PayloadError for a payload whose type has contradictory marks.
    """

    name = "lineage"

    def __init__(
        self,
        trusted: TrustSettings,
        listeners: Iterable[str],
        codecs: Codecs,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._redact = redact
        self._trusted = trusted
        self._policy = trusted.policy
        self.silencing = trusted.policy.mode is Mode.ENFORCE
        self.passes_answers = not (self.silencing and trusted.policy.readers)
        """Answers to a principal are only noted; where data has readers, they are not shown before that."""
        self._orders = replace(trusted.policy, plan=PlanSource.OFF)
        self._classes: Mapping[str, ListenerClass] = {name: self._policy.classify(name) for name in listeners}
        self._readings = Readings(codecs)
        self._carriers = bool(trusted.carriers)
        self._suspects = bool(trusted.carriers or self._policy.deny)
        self._parties = Parties(trusted, self._classes)
        self._reach = Reach(trusted, self._parties, self._readings)
        # Their messages count even in a clean conversation.
        self._watched = trusted.planners | trusted.quarantined
        self._planning = Planning(trusted, self._parties, self._readings, self._reach, redact)
        self.viewers = trusted.viewers & self._classes.keys()
        self.keepers = trusted.keepers & self._classes.keys()
        hiding = HidingRules(trusted, self._classes, self._parties, self._readings, self._reach)
        self._viewer = Viewer(hiding, self._readings)
        relays = {name for name, each in self._classes.items() if each.relay} - self._watched
        self._passing = frozenset() if self._policy.readers or self._carriers else frozenset(relays)
        """Relays, which carry nothing to one another while the conversation is clean."""
        others = {name for name, each in self._classes.items() if not each.sink} - self.viewers
        self._harmless = frozenset() if self._suspects else frozenset(others)
        """Listeners that may receive anything while the conversation is clean."""
        # Latest results: a step that is decided again asks with the very same values.
        self._observed: tuple[tuple[object, ...], float, object] = ((object(),), 0.0, None)
        self._decided, self._weighed = _LastVerdict(self._judge), _LastVerdict(self._weigh_once)

    # References

    def present(
        self, memory: object, delivery: Delivery, element: etree._Element
    ) -> etree._Element | Refusal:
        """Replace untrusted values of a payload by references, or refuse if that is impossible."""
        return self._viewer.present(_recall(memory), delivery, element)

    def resolve(self, memory: object, draft: Draft, thread: str, room: int) -> ResolvedPayload | None:
        """Replace the references in a message by their values; None for a message without references."""
        return self._viewer.resolve(_recall(memory), draft, thread, room)

    def follow_rewrite(self, memory: object, before: Draft, after: Draft, thread: str) -> object:
        """Record that a handoff with inserted values became a task."""
        return self._viewer.follow_rewrite(_recall(memory), before, after, thread)

    # Observing

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:
        """Return the memory after a message was delivered to a listener."""
        known = memory if type(memory) is Memory else _recall(memory)
        if known.clean and delivery.to not in self.viewers and self._passes_by(delivery, known):
            return known.next_step()
        key = memory, delivery, element
        last, when, after = self._observed
        if when == at and all(map(is_, last, key)):
            return after
        after = self._observe(memory, delivery, element, at)
        self._observed = key, at, after
        return after

    def observe_effect(self, memory: object, effect: LedgerEffect, at: float) -> object:
        """Return the memory after a listener got the answer of an external effect.

        An answer that is labelled untrusted is text of the service, whatever the listener is declared to be.
        """
        if effect.label == "trusted":
            return memory
        found = tuple(map(_disown, leaves(load_answer(effect.answer))))
        known = _recall(memory).next_step()
        source = f"effect of {effect.listener}"
        seen = Observation(source, found, known.step, at, trace=effect.delivery)
        return self._reach.deliver_answer(
            known.grow(known.ledger.learn(self._policy, seen)), effect.listener, effect.thread, source, found
        )

    def _observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:
        if delivery.to in self.viewers:
            memory = self._viewer.record_shown(_recall(memory), delivery, element)
        if delivery.sender in SYSTEM_NAMES:
            return memory
        if self._passes_by(delivery, known := _recall(memory)):
            return known.next_step()
        arrived = self._read_delivery(delivery, element)
        outside = delivery.sender not in self._classes and delivery.hop == 1
        known = known.next_step()
        if outside and self._parties.gives_orders(delivery.sender, known):
            known = self._take_order(known, arrived, delivery.thread, at)
        else:
            known = known if known.clean else self._count_carried(known, arrived, at)
            learned = self._take_output(self._planning.track_input(known, arrived), arrived, at)
            calm = learned.clean and not (
                self._carriers or self._parties.classify(arrived.sender, known).source
            )
            # A viewer reads only the parts of a message that are counted in bits.
            unread = calm or delivery.to in self.viewers
            put_in = (
                None if unread else _describe_first_text(self._find_put_in(known, arrived), arrived, known)
            )
            known = (
                learned if unread else self._reach.deliver(learned, arrived, delivery.thread, known, put_in)
            )
        receiver = self._classes.get(delivery.to)
        if receiver is not None and not receiver.relay:
            steps = self._find_steps(known, arrived, at)
            known = known.record_request(delivery.thread, delivery.origin, list_texts(arrived.leaves), steps)
        return known

    def _take_order(self, memory: Memory, message: ObservedMessage, thread: str, at: float) -> Memory:
        """Add a principal's words. Text in a field of prose is another author's."""
        pasted = tuple(leaf for leaf in message.leaves if leaf.standing is Standing.PROSE)
        own = (
            tuple(leaf for leaf in message.leaves if leaf.standing is not Standing.PROSE)
            if pasted
            else message.leaves
        )
        memory = memory.add_order("\n".join(list_texts(own)))
        if not any(list_texts(pasted)):
            return memory
        seen = Observation(message.sender, pasted, memory.step, at, trace=message.trace)
        return self._reach.deliver(
            memory.grow(memory.ledger.learn(self._policy, seen)), message, thread, memory
        )

    def _find_steps(self, memory: Memory, message: ObservedMessage, at: float) -> tuple[int, ...]:
        """Find the numbers of the plan's steps that a message is a call of."""
        ledger = memory.ledger
        if ledger.plan is None or not ledger.plan.steps:
            return ()
        return ledger.plan.find_answered(
            ledger, message.to, self._make_call(message, memory, at, exposed=True).arguments
        )

    def _passes_by(self, delivery: Delivery, known: Memory) -> bool:
        """Check for a message between relays in a clean conversation, which changes only the count."""
        passing = self._passing
        return (
            known.clean
            and delivery.sender in passing
            and delivery.to in passing
            and delivery.root in self._readings.unmarked
        )

    def begin(self, trust: Trust) -> object:
        """Return the memory of a new conversation, by a principal of this trust."""
        return Memory(trust=trust)

    def miss(self, memory: object) -> object:
        """Return the memory after a message of unknown content: over the bound, so that every sink is refused."""
        return _recall(memory).miss()

    def _count_carried(self, memory: Memory, message: ObservedMessage, at: float) -> Memory:
        """Count the bits that a message may have revealed by its choices."""
        return memory.grow(memory.ledger.carry(self._weigh_choices(memory, message, at)))

    def _weigh_choices(self, memory: Memory, message: ObservedMessage, at: float) -> float:
        receiver = self._classes.get(message.to)
        if receiver is None or not (receiver.sink or receiver.source):
            return 0.0
        if receiver.sink and self._makes_no_choice(message):
            return 0.0
        exposed = self._reach.find_exposure(memory, message.sender, message.thread) is not None
        call = self._make_call(message, memory, at, exposed=exposed)
        ruled = [(argument.leaf, argument.rule) for argument in self._list_arguments(message, call)]
        return count_bits(memory.ledger, self._policy, call, ruled)

    def _makes_no_choice(self, message: ObservedMessage) -> bool:
        """Check whether a message that was judged has neither a receiver nor an option among its arguments."""
        content = message.content
        if content.sink != message.to or self._readings[message.root].marks.options:
            return False
        for argument in content.arguments:
            if argument.rule.role is Role.DESTINATION or argument.rule.role is Role.OPTION:
                return False
        return True

    def _list_arguments(self, message: ObservedMessage, call: Call) -> tuple[Argument, ...]:
        """List the arguments of a message with their rules, once for its judgement and its delivery."""
        content = message.content
        if call.arguments is not content.leaves:  # a task's, which are read from it each time
            return list_arguments(self._policy, call)
        if content.sink != call.sink:
            content.sink, content.arguments = call.sink, list_arguments(self._policy, call)
        return content.arguments

    def _take_output(self, memory: Memory, message: ObservedMessage, at: float) -> Memory:
        """Add a sender's output."""
        memory = self._planning.adopt(memory, message)
        return memory.grow(self._learn(memory, message, at))

    def _learn(self, memory: Memory, message: ObservedMessage, at: float) -> Ledger:
        """Add a sender's output to the ledger, except a plan.

        If nothing came between its judgement and its delivery, the ledger that was supposed is only dated again.
        """
        ledger, request = memory.ledger, memory.find_request(message.thread)
        basis = ledger, request, memory.trust, memory.exposure
        carried = message.to in self._trusted.carriers
        about = message.sender, message.thread, memory.step, carried
        known = message.content.learned
        if known is not None and all(map(is_, known[0], basis)) and known[1] == about:
            return known[2].date_since(ledger, at, message.trace)
        after = self._compute_learned(memory, message, request, at)
        dated = (
            after.plan is None and after.private is ledger.private and not is_recalled(self.keepers, message)
        )
        message.content.learned = (basis, about, after) if dated else None
        return after

    def _compute_learned(
        self, memory: Memory, message: ObservedMessage, request: LastRequest | None, at: float
    ) -> Ledger:
        ledger = memory.ledger
        sender = self._parties.classify(message.sender, memory)
        recalled = is_recalled(self.keepers, message)
        if message.sender in self._trusted.quarantined and ledger.tainted:
            ledger = ledger.spend(self._readings[message.root].channel.bits)
        if self._policy.readers or message.root not in self._readings.unmarked:
            private = Observation(message.sender, message.leaves, memory.step, at, trace=message.trace)
            ledger = ledger.confide(self._policy, private)
        if recalled:
            return self._learn_notes(ledger, memory, message, request, at)
        if sender.relay:
            return ledger.relay(message.sender, message.leaves, memory.step) if ledger.tainted else ledger
        leaves = message.leaves
        if request is None or request.texts is None:  # no record tells what it merely repeats
            leaves = tuple(map(_disown, leaves)) if sender.source else ()
        arguments, answers = _describe_call(request)
        carried = message.to in self._trusted.carriers
        clean = memory.exposure.is_empty and not carried
        seen = Observation(
            message.sender, leaves, memory.step, at, arguments, message.trace, answers, clean, carried
        )
        return ledger.learn(self._policy, seen, message.content.assessment)

    def _learn_notes(
        self,
        ledger: Ledger,
        memory: Memory,
        message: ObservedMessage,
        request: LastRequest | None,
        at: float,
    ) -> Ledger:
        """Add the contents of notes under their sources at the time of writing."""
        words = read_recalled(message, memory.step, at)
        if request is None or request.texts is None:  # no record tells what it merely repeats
            words = words._replace(records=())
        arguments, answers = _describe_call(request)
        seen = Observation(message.sender, (), memory.step, at, arguments, message.trace, answers)
        return learn_recalled(ledger, self._policy, words, seen)

    def describe_lineage(
        self, memory: object, delivery: Delivery, element: etree._Element, principal: str
    ) -> MessageLineage:
        """Describe the origin of a message to a listener that keeps notes."""
        known, message = _recall(memory), self._read_delivery(delivery, element)
        outside = delivery.sender not in self._classes
        if outside and delivery.hop == 1 and self._parties.gives_orders(delivery.sender, known):
            return describe_lineage(known, message, principal, SpanAuthor.PRINCIPAL)
        text = self._reach.find_exposure(known, message.sender, message.thread)
        text = text or _describe_first_text(self._find_put_in(known, message), message, known)
        if text is not None:
            return describe_lineage(known, message, principal, SpanAuthor.STRANGER, (text.source,))
        if outside or known.trust is not Trust.ORDERS or self._parties.classify(message.sender, known).source:
            return describe_lineage(known, message, principal, SpanAuthor.STRANGER, (message.sender,))
        return describe_lineage(known, message, principal, SpanAuthor.LISTENER)

    def _find_put_in(self, memory: Memory, message: ObservedMessage) -> InsertedValues | None:
        """Find the values in a message that its sender did not read."""
        if message.sender not in self.viewers:
            return None
        return self._viewer.find_put_in(memory, message.thread, message.root, message.element)

    def _read_delivery(self, delivery: Delivery, element: etree._Element) -> ObservedMessage:
        root = delivery.root
        reading = self._readings[root]
        return ObservedMessage(
            delivery.sender, delivery.to, delivery.origin, root, element, reading, delivery.id
        )

    # Preparing

    def prepare(self, memory: object, finished: FinishedInvocation, at: float) -> Work | None:
        """Prepare the indexing of long texts, and the first use of arrays; None if there is little to do."""
        known = memory if type(memory) is Memory else None
        if known is not None and self._passes_by(finished.delivery, known) and is_numpy_imported():
            return None  # nothing is learned
        indexing = self._prepare_indexing(memory, finished, at)
        if is_numpy_imported():
            return indexing

        def begin() -> None:
            import_numpy()
            if indexing is not None:
                indexing()

        return begin

    def _prepare_indexing(self, memory: object, finished: FinishedInvocation, at: float) -> Work | None:
        delivery, element, result, _ = finished
        returned = result.result if isinstance(result, HandlerReturn) else None
        drafts = returned.drafts if isinstance(returned, Drafts) else ()
        size = len(delivery.message)
        for draft in drafts:
            size += len(draft.markup)
        if not isinstance(memory, Memory) or element is None or not memory.ledger.needs_indexing(size):
            return None
        # The decision begins with this very memory.
        after = _recall(self.observe(memory, delivery, element, at))
        ledgers = [after.ledger]
        if self._parties.classify(delivery.to, after).source:
            following = after.next_step()
            for draft in drafts:
                reading, to = self._readings[draft.root], draft.to if isinstance(draft.to, str) else ""
                one = ObservedMessage(delivery.to, to, delivery.thread, draft.root, draft.element, reading)
                ledgers.append(self._learn(self._planning.adopt(following, one), one, at))
        waiting = [ledger for ledger in ledgers if ledger.needs_indexing()]

        def index() -> None:
            for ledger in waiting:
                ledger.index_all()

        return index if waiting else None

    # Judging

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:
        """Judge a message by the class that its receiver has in the policy."""
        calm = (memory if type(memory) is Memory else _recall(memory)).clean
        if calm and proposal.to in self._harmless and proposal.sender.name not in self._watched:
            return None
        return self._decided.find(memory, proposal, at)

    def _judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:
        if proposal.route is Route.SERVICE:
            return None
        known = _recall(memory)
        if proposal.to not in self._classes:
            text = self._reach.find_outward(known, proposal)
            return None if text is None else NoteVerdict(describe_outward(text, proposal.to))
        if proposal.to in self.viewers:
            unfit = self._viewer.find_unshowable(known, proposal)
            if unfit is not None:
                return unfit
        receiver, clean = self._classes[proposal.to], known.clean and not self._suspects
        if clean and not receiver.sink and proposal.sender.name not in self._watched:
            return None
        planned, found = self._planning.judge(known, proposal), self._weigh(known, proposal, at)
        if planned is not None:
            return combine_verdicts(planned, found)
        return NoteVerdict(COUNTED) if found is None and self._planning.is_counted(known, proposal) else found

    def count_sent(self, memory: object, proposal: Proposal, at: float) -> object:
        """Return the memory after a message was admitted.

        This counts the call if the plan bounds its number. Text that leaves to a principal who gives no orders is
        observed here, since no listener receives it.
        """
        known = _recall(memory)
        if self._reach.find_outward(known, proposal) is not None:
            before, message = known.next_step(), self._read_proposal(proposal)
            learned = self._take_output(before, message, at)
            put_in = _describe_first_text(self._find_put_in(before, message), message, before)
            return self._reach.deliver(learned, message, "", before, put_in)
        known = self._count_endorsed(known, proposal, at)
        if not self._planning.is_counted(known, proposal):
            return known
        return known.grow(
            known.ledger.count_call(self._make_call(self._read_proposal(proposal), known, at, exposed=True))
        )

    def _count_endorsed(self, known: Memory, proposal: Proposal, at: float) -> Memory:
        """Count a call that an endorsement covers, or whose question offers one."""
        receiver = self._classes.get(proposal.to)
        if known.clean or receiver is None or proposal.route is Route.SERVICE:
            return known
        found = self._weigh(known, proposal, at)
        detail = found.question if isinstance(found, NeedsApproval) else getattr(found, "reason", None)
        if not isinstance(detail, Findings) or not (detail.endorsement or detail.became == "endorsed"):
            return known
        message = self._read_proposal(proposal)
        judged, _ = self._judge_provenance(known.next_step(), message, at, ordered=False)
        return known.grow(known.ledger.count_row(judged.row.value))

    def weigh_sent(self, memory: object, proposal: Proposal, at: float) -> float:
        """Count the bits that a message reveals by its choices. They are added when it is delivered."""
        known = _recall(memory)
        if known.clean or proposal.to not in self._classes or proposal.route is Route.SERVICE:
            return 0.0
        return self._weigh_choices(known, self._read_proposal(proposal), at)

    def suppose_spent(self, memory: object, bits: float) -> object:
        """Return the memory for judging the next messages of a result."""
        known = _recall(memory)
        return known.suppose(known.ledger.carry(bits))

    def count_refused(self, memory: object, sender: str, thread: str, messages: int) -> object:
        """Return the memory after a sender learned which of its messages, if any, a finding refuses."""
        known = _recall(memory)
        return known if known.clean else self._reach.deliver_refusal(known, sender, thread, messages)

    def _weigh(self, known: Memory, proposal: Proposal, at: float) -> Verdict:
        """Judge the provenance of a message, once for its verdict and for what it counts when it is sent."""
        return self._weighed.find(known, proposal, at)

    def _weigh_once(self, known: Memory, proposal: Proposal, at: float) -> Verdict:
        redriven = proposal.route is Route.REDRIVEN
        confined = self._confine(proposal)
        if isinstance(confined, DenyVerdict) or not self._is_consequential(known, proposal):
            return confined
        known = known.next_step()
        message = self._read_proposal(proposal)
        ordered = self._parties.gives_orders(message.sender, known) and not redriven
        judged, text = self._judge_provenance(known, message, at, ordered=ordered)
        exposed = None if text is None else SenderExposure(message.sender, *text)
        return translate_verdict(judged, exposed, known.approved, self._redact) or confined

    def _read_proposal(self, proposal: Proposal) -> ObservedMessage:
        sender, to, root = proposal.sender.name, proposal.to, proposal.root
        return ObservedMessage(sender, to, proposal.thread, root, proposal.element, self._readings[root])

    def _is_consequential(self, memory: Memory, proposal: Proposal) -> bool:
        """Check for a call of a sink, or a message that may carry data out to a destination that it names."""
        receiver = self._classes[proposal.to]
        if receiver.sink or (memory.clean and not self._suspects):
            return receiver.sink
        declared = any(role is Role.DESTINATION for _, role in self._readings[proposal.root].roles)
        return declared or (receiver.source and proposal.route is not Route.ANSWER)

    def _judge_provenance(
        self, memory: Memory, message: ObservedMessage, at: float, *, ordered: bool
    ) -> tuple[Judgement, FirstText | None]:
        """Judge a message by the ledger, including the message itself if its sender is a source or quarantined.

        Also returns the untrusted text that its sender received.
        """
        if ordered:
            # The principal's own message is an order: only the deny list can refuse it.
            return judge(Ledger(), self._orders, self._make_call(message, memory, at, exposed=False)), None
        speaks = (
            self._parties.classify(message.sender, memory).source
            or message.sender in self._trusted.quarantined
        )
        if speaks or is_recalled(self.keepers, message):
            memory = self._planning.adopt(memory, message)
            memory = memory.suppose(self._learn(memory, message, at))
        text = self._reach.find_exposure(memory, message.sender, message.thread)
        put_in = None if text is not None else self._find_put_in(memory, message)
        text = text or _describe_first_text(put_in, message, memory)
        ledger = memory.ledger if text is None else memory.ledger.suspect_foreign_text()
        call = self._make_call(message, memory, at, exposed=text is not None)
        paths = frozenset(put_in.paths if put_in is not None else ())
        if paths and paths <= {
            leaf.path for leaf in call.arguments
        }:  # otherwise the inserted arguments are not known
            call = change(call, put_in=paths)
        return judge(ledger, self._policy, call, self._list_arguments(message, call)), text

    def _make_call(self, message: ObservedMessage, memory: Memory, at: float, *, exposed: bool) -> Call:
        reading = self._readings[message.root]
        # A task to itself is the listener's own. The server wrote any other, so only its values are the sender's.
        own = message.root != TASK or message.sender == message.to
        arguments = message.leaves if own else list_task_leaves(reading.codec.decode(message.element))
        filled = reading.find_filled(arguments) if own else frozenset()
        call = Call(
            message.to, arguments, memory.step, at, reading.roles, message.sender, exposed, reading.marks.ids
        )
        marks = reading.marks
        options = () if marks.foreign and not self._policy.accepts_schema(message.to) else marks.options
        if filled or options or marks.formats:
            return replace(call, filled=filled, options=options, formats=marks.formats)
        return call

    def _confine(self, proposal: Proposal) -> Verdict:
        """Hold a quarantined listener to payloads with a closed schema."""
        if proposal.sender.name not in self._trusted.quarantined:
            return None
        channel = self._readings[proposal.root].channel
        if channel.closed:
            return None
        name = local(proposal.root)
        detail = Ground.QUARANTINED.of(proposal.sender.name, name, channel)
        return NoteVerdict(detail) if self._policy.mode is Mode.AUDIT else DenyVerdict(Code.DENIED, detail)

    def silences(self, memory: object, listener: str, thread: str) -> bool:
        """Check whether a listener received untrusted text, so that its output to a gateway would be an exit."""
        return self._reach.find_exposure(_recall(memory), listener, thread) is not None

    # Approving

    def origins(self, memory: object, delivery: Delivery, element: etree._Element) -> Origins:
        """Find the origins of the values of a message that waits for a person."""
        known = _recall(memory)
        call = self._make_call(self._read_delivery(delivery, element), known, 0.0, exposed=True)
        return find_origins(known.ledger, self._policy, call)

    def approve(self, memory: object, about: tuple[str, ...]) -> object:
        """Remember the approved values, each for its sink and its argument.

        An approval without an argument, such as one of a plan, applies only to that very call.
        """
        return _recall(memory).approve(about)

    def settle(self, memory: object, about: tuple[str, ...], at: float) -> object | None:
        """Return the memory after an endorsement answered a question that waits; None if none answers it."""
        return _recall(memory).settle(about, at)

    @property
    def endorses(self) -> bool:
        """True when a person may be asked about a call."""
        modes = (self._policy.mode, *(rule.mode for rule in self._policy.sinks))
        return Mode.CONFIRM in modes

    def offers_lasting(self, about: tuple[str, ...]) -> bool:
        """Check whether every subject is an endorsement."""
        digests, subjects = split_subjects(about)
        return bool(subjects) and not digests

    def list_lasting(self, memory: object) -> tuple[LastingApproval, ...]:
        """List the endorsements of documents."""
        known = memory.ledger.endorsements.known if isinstance(memory, Memory) else ()
        return tuple(LastingApproval(one.id, one.sink, one.describe(), one.until) for one in known)

    def revoke(self, memory: object, approval: str) -> object:
        """Return the memory without an endorsement. Calls that counted stay counted."""
        known = _recall(memory)
        return replace(known, ledger=known.ledger.revoke(approval))

    # Serialising

    def dump(self, memory: Memory) -> Mapping[str, bytes]:
        """Serialise the memory in parts; see ``lineage_memory``."""
        return lineage_memory.dump_memory(memory)

    def load(self, parts: Mapping[str, bytes]) -> object:
        """Restore the memory that ``dump`` serialised; no parts mean a conversation that began without this guard."""
        return lineage_memory.load_memory(parts) if parts else _recall(None)


def _recall(memory: object) -> Memory:
    """Return the memory. A conversation that did not open under this guard is unknown, and thus over the bound."""
    return memory if isinstance(memory, Memory) else Memory.unknown()


def _disown(leaf: Leaf) -> Leaf:
    """Mark a leaf as prose, since the request that it answers is unknown."""
    return change(leaf, standing=Standing.PROSE, inside="")


def _describe_call(request: LastRequest | None) -> tuple[tuple[Leaf, ...], tuple[int, ...]]:
    """Describe the call that a message answers: its arguments, and the plan's steps that it belongs to."""
    return ((), ()) if request is None else (request.arguments, request.steps)


def _describe_first_text(
    put_in: InsertedValues | None, message: ObservedMessage, memory: Memory
) -> FirstText | None:
    """Describe the untrusted text that the values put into a message are from."""
    return None if put_in is None else FirstText(put_in.source, memory.step, message.sender)


def translate_verdict(
    verdict: Judgement, exposed: SenderExposure | None, approved: frozenset[str], redact: Callable[[str], str]
) -> Verdict:
    """Translate a judgement into a verdict of a guard. For a call that passes, only bounded work is reported."""
    if verdict.mode is Mode.AUDIT:
        return _note(verdict, exposed, redact)
    if verdict.allowed:
        if not (verdict.weighed.value or verdict.noticed.value):
            return None
        verdict = replace(verdict, reported=verdict.noticed)
    found = _export(verdict, exposed, redact)
    if verdict.decision is Decision.DENY:
        return DenyVerdict(Code.DENIED, found)
    if verdict.decision is Decision.ASK:
        return _ask(verdict, found, approved)
    return NoteVerdict(found)


def _note(
    verdict: Judgement, exposed: SenderExposure | None, redact: Callable[[str], str]
) -> NoteVerdict | None:
    """Note that a call has findings. They are computed when somebody reads them."""
    outline = verdict.outline
    if outline.quiet and outline.repeated is None and not verdict.noticed.value:
        return None
    shown = replace(verdict, reported=verdict.noticed)
    return NoteVerdict(defer_findings(shown, lambda: _export(shown, exposed, redact)))


def _export(verdict: Judgement, exposed: SenderExposure | None, redact: Callable[[str], str]) -> Findings:
    return export_findings(redact_verdict(verdict, redact), limit=MOST)._replace(exposed=exposed)


def _ask(verdict: Judgement, found: Findings, approved: frozenset[str]) -> Verdict:
    """Ask about a call, unless a person has approved it or endorsed its document."""
    if verdict.endorsed.value:
        return NoteVerdict(found._replace(became="endorsed"))
    if (pattern := verdict.pattern.value) is not None:
        return NeedsApproval(found, (pattern.subject,))
    serious = [finding for finding in verdict.findings if finding.effect in _SERIOUS]
    record = verdict.delegation.value
    by_value = (_digest_finding(verdict, finding) for finding in serious)
    about = tuple(dict.fromkeys(by_value)) if record is None else (_digest_delegation(verdict.call, record),)
    if approved.issuperset(about):
        return NoteVerdict(found._replace(became="permitted"))
    return NeedsApproval(found, about)


def _digest_delegation(call: Call, record: Delegation) -> str:
    """Hash the subject of a delegating approval: these fields of such a record, for this very call."""
    fields = sorted((argument, one.field) for one in record.texts for argument in one.arguments)
    about = json.dumps([digest_call(call), record.source, fields], separators=(",", ":"))
    return sha256(about.encode()).hexdigest()


def _digest_finding(verdict: Judgement, finding: Finding) -> str:
    """Hash the subject of an approval: an argument's value at a sink, or the whole call if no argument is named."""
    if not finding.path:
        return digest_call(verdict.call)
    about = json.dumps([verdict.call.sink, finding.path, finding.value], separators=(",", ":"))
    return sha256(about.encode()).hexdigest()


def digest_call(call: Call) -> str:
    """Hash the sink and every argument in canonical form. An approval holds for one call with this digest."""
    arguments = [[leaf.path, type(leaf.value).__name__, format_text(leaf.value)] for leaf in call.arguments]
    body = json.dumps([call.sink, arguments], ensure_ascii=True, separators=(",", ":"))
    return sha256(body.encode("ascii")).hexdigest()


class RecordingGuard(LineageGuard):
    """Lineage guard that judges as another one does and records each verdict, but refuses nothing.

    After a refusal the other messages of the result would not be judged.

    Args:
        guard: the other one, whose settings it shares.
        rulings: the list that gets each message with the verdict on it.
    """

    def __init__(self, guard: LineageGuard, rulings: list[tuple[Proposal, Verdict]]) -> None:
        self.__dict__.update(vars(guard))
        self._rulings = rulings

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:
        """Judge a message, and record the verdict."""
        verdict = super().judge(memory, proposal, at)
        self._rulings.append((proposal, verdict))
        return None if isinstance(verdict, DenyVerdict) else verdict
