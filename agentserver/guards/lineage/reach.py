"""Tracks untrusted text from a source to every listener that it reaches.

A listener is exposed if it received untrusted text: a source's, or open values of a sender that was exposed before.
Messages in a closed schema, and handoffs with closed values, are counted in bits up to a bound. The principal's orders,
the system's messages and messages to other listeners expose no listener.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agentserver.core.drafts.routing import Route
from agentserver.core.handoffs import TASK
from agentserver.guards.lineage.exposure import CLOSED, ERROR, SENT, UNKNOWN_TEXT, FirstText
from agentserver.guards.lineage.notes import is_recalled, read_recalled
from agentserver.payload.codec import is_system_name
from agentserver.provenance.ledger import steers

if TYPE_CHECKING:
    from agentserver.core.drafts.routing import Proposal
    from agentserver.guards.lineage.memory import Memory
    from agentserver.guards.lineage.reading import ObservedMessage, Readings
    from agentserver.guards.lineage.trust import Parties, TrustSettings
    from agentserver.provenance.evidence.labels import Leaf


class Reach:
    """Tracker of untrusted text through the listeners.

    Args:
        trusted: the settings of trust.
        parties: the classification of listeners and principals.
        readings: the readers of payloads.
    """

    def __init__(self, trusted: TrustSettings, parties: Parties, readings: Readings) -> None:
        self._trusted, self._parties, self._readings = trusted, parties, readings

    def deliver(
        self,
        memory: Memory,
        message: ObservedMessage,
        thread: str,
        before: Memory,
        put_in: FirstText | None = None,
    ) -> Memory:
        """Record that a listener received a message on a thread.

        Args:
            memory: the memory that includes the message.
            message: the message, which is no order of the principal.
            thread: the receiver's thread.
            before: the memory without the message.
            put_in: the untrusted text in it that its sender did not read, if any.
        """
        recall = self._trusted.recall_of(message.to)
        text = self._find_text(memory, message, before) or put_in
        if text is None or memory.exposure.find_text(message.to, thread, recall) is not None:
            return memory
        bits = self._count_bits(message)
        if message.sender in self._trusted.quarantined and bits < math.inf:
            spent = memory.ledger if memory.ledger.tainted else memory.ledger.spend(bits)
            return memory.grow(spent)
        if self._fits_budget(memory, bits + SENT):
            return memory.spend_closed(bits + SENT)
        return memory.expose(message.to, thread, recall, text)

    def deliver_answer(
        self, memory: Memory, listener: str, thread: str, source: str, answer: tuple[Leaf, ...]
    ) -> Memory:
        """Record that a listener got the untrusted answer of an external effect on a thread."""
        recall = self._trusted.recall_of(listener)
        if memory.exposure.find_text(listener, thread, recall) is not None:
            return memory
        closed = all(isinstance(leaf.value, bool | None) for leaf in answer)
        bits = len(answer) + SENT if closed else math.inf
        if closed and self._fits_budget(memory, bits):
            return memory.spend_closed(bits)
        return memory.expose(listener, thread, recall, FirstText(source, memory.step, source))

    def deliver_refusal(self, memory: Memory, sender: str, thread: str, messages: int) -> Memory:
        """Record that a sender learned which of its messages is refused: choices, or for a clean one closed bits."""
        bits = math.log2(messages + 1)
        if sender in self._trusted.viewers or self.find_exposure(memory, sender, thread) is not None:
            return memory.grow(memory.ledger.carry(bits))
        if self._fits_budget(memory, bits):
            return memory.spend_closed(bits)
        return memory.expose(sender, thread, self._trusted.recall_of(sender), UNKNOWN_TEXT)

    def find_exposure(self, memory: Memory, sender: str, thread: str) -> FirstText | None:
        """Find the untrusted text that may influence a sender; None if it received none.

        In a tainted conversation, a source is influenced by its own text.
        """
        if sender in self._trusted.carriers:
            return UNKNOWN_TEXT
        text = memory.exposure.find_text(sender, thread, self._trusted.recall_of(sender))
        if text is None and memory.ledger.tainted and self._parties.writes(sender, memory):
            return FirstText(sender, memory.step, sender)
        return text

    def find_outward(self, memory: Memory, proposal: Proposal) -> FirstText | None:
        """Find the untrusted text that an answer may carry out to a principal; None if there is no such text.

        A principal who gives orders is not affected, since its words are trusted anyway.
        """
        sender, to = proposal.sender.name, proposal.to
        if (
            not self._parties.is_principal(to)
            or proposal.route is not Route.ANSWER
            or self._parties.gives_orders(to, memory)
        ):
            return None
        if self._parties.classify(sender, memory).source:
            return FirstText(sender, memory.step, sender)
        text = self.find_exposure(memory, sender, proposal.thread)
        return None if text is None or text.source == to else text  # what it said itself may come back

    def _find_text(self, memory: Memory, message: ObservedMessage, before: Memory) -> FirstText | None:
        """Find the untrusted text that a message may hold: a source's own words, or text that its sender received."""
        if is_recalled(self._trusted.keepers, message):
            source = read_recalled(message, memory.step, 0.0).source
            if source is not None:
                return FirstText(source, memory.step, message.sender)
        if self._parties.writes(message.sender, memory):
            policy = self._trusted.policy
            wrote = steers(policy, message.sender, message.leaves, before.ledger, memory.ledger)
            return FirstText(message.sender, memory.step, message.sender) if wrote else None
        text = self.find_exposure(memory, message.sender, message.thread)
        return None if text is None else FirstText(text.source, memory.step, message.sender)

    def _count_bits(self, message: ObservedMessage) -> float:
        """Count the bits that one such message can reveal."""
        if is_system_name(message.root):
            return ERROR
        if message.root != TASK or message.sender == message.to:
            return self._readings[message.root].channel.bits
        task: Any = self._readings[TASK].codec.decode(message.element)
        return math.inf if task.data else self._trusted.intents.get(task.intent, math.inf)

    def _fits_budget(self, memory: Memory, bits: float) -> bool:
        """Check whether so many bits may still be passed on in closed schemas to unexposed listeners."""
        budget = self._trusted.policy.budget
        maximum = CLOSED if budget == math.inf else budget
        return memory.exposure.bits + bits <= maximum and memory.ledger.spent + bits <= budget


def describe_outward(text: FirstText, principal: str) -> str:
    """Describe untrusted text that leaves to a principal, for the record."""
    return f"untrusted text of {text.source or 'an unknown source'} leaves to {principal}, whose words are no orders"
