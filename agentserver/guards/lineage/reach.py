"""The way of untrusted text from a source to those who were told something.

Exposed is a listener that was given untrusted text: a source's, or anything open of a sender that was exposed before.
What such a sender says in a closed schema, or hands over in closed values, is counted in bits, up to a bound. Nobody
is exposed by the principal, by the system, or by what others were given.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from agentserver.core.drafts.routing import Route
from agentserver.core.handoffs import TASK
from agentserver.guards.lineage.exposure import CLOSED, ERROR, NOT_KNOWN, SENT, FirstText
from agentserver.payload.codec import is_system_name
from agentserver.provenance.ledger import steers

if TYPE_CHECKING:
    from agentserver.core.drafts.routing import Proposal
    from agentserver.guards.lineage.memory import Memory
    from agentserver.guards.lineage.parties import Parties
    from agentserver.guards.lineage.reading import Readings, Said
    from agentserver.guards.lineage.trusted import Trusted


class Reach:
    """Follows untrusted text to whom it reaches.

    Args:
        trusted: whom the organism trusts with what.
        parties: what the words of each are worth.
        readings: the ways to read payloads.
    """

    def __init__(self, trusted: Trusted, parties: Parties, readings: Readings) -> None:
        self._trusted, self._parties, self._readings = trusted, parties, readings

    def given(
        self, memory: Memory, said: Said, thread: str, before: Memory, put_in: FirstText | None = None
    ) -> Memory:
        """The memory after a listener was given a message on a thread.

        Args:
            memory: in which the message was heard.
            said: the message; none of the principal's orders.
            thread: of its receiver.
            before: the memory in which it was not yet heard.
            put_in: the untrusted text in it that its sender did not read; None where there is none.
        """
        recall = self._trusted.recall(said.to)
        text = self._held(memory, said, before) or put_in
        if text is None or memory.exposure.of(said.to, thread, recall) is not None:
            return memory
        bits = self._bits(said)
        if said.sender in self._trusted.quarantined and bits < math.inf:
            spent = memory.ledger if memory.ledger.tainted else memory.ledger.spend(bits)
            return memory.grown(spent)
        if self._fit(memory, bits + SENT):
            return memory.spending(bits + SENT)
        return memory.reaching(said.to, thread, recall, text)

    def exposed(self, memory: Memory, sender: str, thread: str) -> FirstText | None:
        """The untrusted text that a sender may have in mind; None when it was given none.

        In a conversation that has seen some, a source has its own.
        """
        if sender in self._trusted.carriers:
            return NOT_KNOWN
        text = memory.exposure.of(sender, thread, self._trusted.recall(sender))
        if text is None and memory.ledger.tainted and self._parties.writes(sender, memory):
            return FirstText(sender, memory.step, sender)
        return text

    def outward(self, memory: Memory, proposal: Proposal) -> FirstText | None:
        """The untrusted text that may leave to the principal with an answer, to be said again; None where it may not.

        Who gives orders is believed to want what it says.
        """
        sender, to = proposal.sender.name, proposal.to
        if (
            not self._parties.principal(to)
            or proposal.route is not Route.ANSWER
            or self._parties.orders(to, memory)
        ):
            return None
        if self._parties.of(sender, memory).source:
            return FirstText(sender, memory.step, sender)
        text = self.exposed(memory, sender, proposal.thread)
        return None if text is None or text.source == to else text  # what it said itself may come back

    def _held(self, memory: Memory, said: Said, before: Memory) -> FirstText | None:
        """The untrusted text that a message may hold: a source's own words, or what its sender was given."""
        if self._parties.writes(said.sender, memory):
            policy = self._trusted.policy
            wrote = steers(policy, said.sender, said.leaves, before.ledger, memory.ledger)
            return FirstText(said.sender, memory.step, said.sender) if wrote else None
        text = self.exposed(memory, said.sender, said.thread)
        return None if text is None else FirstText(text.source, memory.step, said.sender)

    def _bits(self, said: Said) -> float:
        """The bits that one message like this can tell."""
        if is_system_name(said.root):
            return ERROR
        if said.root != TASK or said.sender == said.to:
            return self._readings[said.root].channel.bits
        task: Any = self._readings[TASK].codec.decode(said.element)
        return math.inf if task.data else self._trusted.intents.get(task.intent, math.inf)

    def _fit(self, memory: Memory, bits: float) -> bool:
        """True when that much may still be told in closed schemas to those who were given nothing untrusted."""
        budget = self._trusted.policy.budget
        most = CLOSED if budget == math.inf else budget
        return memory.exposure.bits + bits <= most and memory.ledger.spent + bits <= budget


def told_outside(text: FirstText, principal: str) -> str:
    """The note on record of untrusted text that leaves to a principal."""
    return f"untrusted text of {text.source or 'somebody'} leaves to {principal}, whose words are no orders"
