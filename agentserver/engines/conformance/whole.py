"""Conformance check that every field of a conversation is stored, in order, after every commit.

Its sample conversation uses every feature that a conversation has.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from agentserver.contract import Code, HandlerResponse, SetTimer, TodoUntil
from agentserver.core.blueprint import Blueprint, Limits, Listener, map_services
from agentserver.core.decide import charges, decisions, ledger
from agentserver.core.decide.decisions import AcceptedDelivery
from agentserver.core.drafts.replies import normalise
from agentserver.core.guard import NeedsApproval, Rewrite, Rules
from agentserver.core.messages import (
    ClaimRequest,
    ConcludeRequest,
    Drafts,
    Effects,
    FinishedInvocation,
    HandlerFailure,
    HandlerReturn,
    Moment,
    OutsideMessage,
    ReserveRequest,
    SettleRequest,
)
from agentserver.core.records.details import GuardNote
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.logs import LogChange
from agentserver.core.state.principals import Principal, Trust
from agentserver.core.state.requests import ResultLimits
from agentserver.engines.conformance.sample import Note, Subject, hold, keep
from agentserver.payload.codec import Codecs
from agentserver.spending import Amount
from agentserver.wire.envelope import Bounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lxml import etree

    from agentserver.core.drafts.routing import Proposal, Sender
    from agentserver.core.guard import Verdict
    from agentserver.core.messages import Delivery, Draft
    from agentserver.core.records.outcome import Outcome
    from agentserver.core.refusals import Refusal

TEXT = "caf\u00e9 \u2603 \U0001f600"
"""Text whose characters have different lengths in UTF-8."""

_STORES = ("boss", 2)
"""Call in which a thread stores a value; every other call removes it."""

_THREAD = {
    "call": "the call that it works for",
    "children": "the threads that it opened, in their order",
    "inbox": "its queued deliveries, in order, with their attempts",
    "held_deliveries": "what a todo keeps back on it",
    "refusals": "its refused attempts",
    "storage": "what it stores",
    "logs": "its logs, with every entry in its order",
    "approvals": "what waits on it for a person",
    "delayed": "what waits on it for its time",
    "allowed": "the only peers in force on it",
}
_CONVERSATION = {
    "todos": "todos, with the messages that arrived for each",
    "requests": "requests that have not finished",
    "memory": "what guards remember",
    "spending": "its charges and reservations",
    "ledger": "its external effects, with their answers",
    "rights": "the rights of its principal",
    "timers": "its timers, in the order of their times",
    "touched": "when it was touched, to the fraction of a second",
}


async def a_conversation_is_kept_whole(subject: Subject) -> None:
    """Check that every field of a conversation is loaded as committed; with a durable engine after restarts too."""
    office = SampleOrganism()
    outcomes = office.outcomes()
    async with subject.open_guarded(office.rules.guards) as engine:
        for outcome in outcomes:
            await keep(engine, outcome)
            _expect_equal(await engine.load(outcome.conversation.id), outcome.conversation)
    if not subject.durable:
        return
    other = SampleOrganism(seed=1)
    for outcome in other.outcomes():
        async with subject.open_guarded(other.rules.guards) as engine:
            await keep(engine, outcome)
        async with subject.open_guarded(other.rules.guards) as engine:
            _expect_equal(await engine.load(outcome.conversation.id), outcome.conversation)


def _expect_equal(found: Conversation | None, expected: Conversation) -> None:
    """Compare two conversations, and name the first field that differs."""
    if found is None:
        hold(False, "a conversation is there")
        return
    hold(list(found.tree.nodes) == list(expected.tree.nodes), "its threads are there in their order")
    for thread, now in zip(expected.tree.nodes.values(), found.tree.nodes.values(), strict=True):
        for name in thread._fields:
            text = f"a thread has {_THREAD.get(name, f'its {name}')}"
            hold(getattr(now, name) == getattr(thread, name), text)
    for name in expected._fields:
        text = f"a conversation has {_CONVERSATION.get(name, f'its {name}')}"
        hold(getattr(found, name) == getattr(expected, name), text)
    hold(list(found.requests) == list(expected.requests), "its requests are there in their order")


CONSOLE = Principal("console", Trust.RELAY, ("worker", "boss"))


class SampleOrganism:
    """Sample of three listeners whose conversation uses every feature.

    Args:
        seed: of the ids.
    """

    def __init__(self, seed: int = 0) -> None:
        codecs = Codecs([Note])
        self._root = codecs.of(Note).name
        listeners = (
            Listener("boss", (Note,), "hands out", agent=True, peers=frozenset({"worker"})),
            Listener("worker", (Note,), "works", peers=frozenset({"vault", "boss"}), retries=1),
            Listener("vault", (Note,), "keeps"),
        )
        roots = {one.name: frozenset([self._root]) for one in listeners}
        services = map_services(codecs)
        usage = dict.fromkeys(roots, "")
        blueprint = Blueprint({one.name: one for one in listeners}, Limits(), roots, services, usage)
        self.rules = Rules(
            blueprint, codecs, (CountingGuard(),), Bounds(), rewriter=PeerNarrower(frozenset([self._root]))
        )
        self._moments = seed << 32
        self._calls: Counter[str] = Counter()

    def outcomes(self) -> list[Outcome]:
        """Make the outcomes to commit, in order."""
        conversation = Conversation.begin(CONSOLE, self._moment())
        found: list[Outcome] = []
        for number, to in enumerate(("boss", "worker")):
            data = self.rules.codecs.of(Note).encode(Note(TEXT)).encode()
            outside = OutsideMessage(data, f"request {number}", to)
            found.append(decisions.receive(conversation, outside, self.rules, self._moment()))
            conversation = found[-1].conversation
            queue = deque(found[-1].ready)
            while queue:
                delivery = queue.popleft()
                found += self._charge(conversation, delivery)
                found += self._claim(found[-1].conversation, delivery)
                conversation = found[-1].conversation
                found.append(self._step(conversation, delivery))
                conversation = found[-1].conversation
                queue += found[-1].ready
                if found[-1].retry is not None:
                    queue.append(found[-1].retry)
        return found

    def _charge(self, conversation: Conversation, delivery: Delivery) -> Iterator[Outcome]:
        """Make two reservations, and settle one of them."""
        for _ in range(2):
            request = ReserveRequest(delivery, TEXT, Amount(7, 1 << 40))
            outcome = charges.reserve(conversation, request, self.rules, self._moment())
            assert outcome is not None
            yield outcome
            conversation = outcome.conversation
        settled = SettleRequest(delivery, [*conversation.spending.open][-1], Amount(3))
        outcome = charges.settle(conversation, settled, self.rules, self._moment())
        assert outcome is not None
        yield outcome

    def _claim(self, conversation: Conversation, delivery: Delivery) -> Iterator[Outcome]:
        """Claim three external effects; answer one, and withdraw another."""
        for number, answer in enumerate((f'"{TEXT}"', None, ...)):
            request = ClaimRequest(delivery, f"{TEXT} {number}", 1, passing=number == self._moments % 2)
            outcome = ledger.claim(conversation, request, self.rules, self._moment())
            if outcome is None:
                continue
            yield outcome
            conversation = outcome.conversation
            effect = ledger.find(conversation, request)
            assert effect is not None
            if isinstance(answer, str) or answer is None:
                done = ConcludeRequest(delivery, effect.id, answer, trusted=True)
                concluded = ledger.conclude(conversation, done, self.rules, self._moment())
                if concluded is not None:
                    yield concluded
                    conversation = concluded.conversation

    def _moment(self) -> Moment:
        self._moments += 1
        return Moment(self._moments % (1 << 32) + 1 / 3, self._moments.to_bytes(16, "big"))

    def _step(self, conversation: Conversation, delivery: Delivery) -> Outcome:
        accepted = decisions.accept(conversation, delivery, self.rules)
        hold(isinstance(accepted, AcceptedDelivery), "a committed delivery can be accepted")
        assert isinstance(accepted, AcceptedDelivery)
        self._calls[delivery.to] += 1
        response = self._respond(delivery.to, self._calls[delivery.to])
        finished = FinishedInvocation(delivery, accepted.element, response)
        return decisions.conclude(conversation, finished, self.rules, self._moment())

    def _respond(self, listener: str, call: int) -> HandlerReturn | HandlerFailure:
        """Return the response of a listener to its n-th message."""
        if (listener, call) == ("worker", 3):
            return HandlerFailure(Code.INTERNAL)
        answer, secret = HandlerResponse.respond(Note("done")), HandlerResponse(Note(TEXT), "vault")
        watch = TodoUntil("Note", from_listener="worker", description=TEXT, count=3, hold=True)
        responses = {
            ("boss", 1): [HandlerResponse(Note("astray"), "no listener")],
            ("boss", 2): [
                HandlerResponse(watch, "system.todo"),
                HandlerResponse(SetTimer(1e6 + 1 / 3), "system.timer"),
                *(HandlerResponse(Note(f"{number} {TEXT}"), "worker") for number in range(3)),
            ],
            ("worker", 1): [answer],
            ("worker", 2): [secret],
            ("worker", 4): [secret],
            ("worker", 5): [answer, secret],
        }
        return self._make_return(
            responses.get((listener, call), []), TEXT.encode() if (listener, call) == _STORES else None
        )

    def _make_return(self, responses: list[HandlerResponse], stored: bytes | None) -> HandlerReturn:
        drafts = normalise(
            responses, self.rules.codecs, self.rules.bounds, ResultLimits(len(responses), 1 << 20)
        )
        assert isinstance(drafts, Drafts)
        call = sum(self._calls.values())
        entries = tuple(b"%d %s" % (call, TEXT.encode()) for _ in range(call % 3))
        return HandlerReturn(
            drafts, Effects({self._root: stored}, (), (LogChange(self._root, call % 2, entries),))
        )


class CountingGuard:
    """Guard that counts deliveries, and requires approval for messages to the vault."""

    name = "counting"

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> int:  # noqa: ARG002 - a guard's signature
        """Count a delivery."""
        return memory + 1 if isinstance(memory, int) else 1

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:  # noqa: ARG002 - a guard's signature
        """Require approval for a message to the vault."""
        return NeedsApproval(f"may it\nbe kept? {TEXT}", (TEXT,)) if proposal.to == "vault" else None

    def approve(self, memory: object, about: tuple[str, ...]) -> object:  # noqa: ARG002 - a guard's signature
        """Return the memory unchanged."""
        return memory

    def dump(self, memory: int) -> Mapping[str, bytes]:
        """Encode the count."""
        return {"count": str(memory).encode()}

    def load(self, parts: Mapping[str, bytes]) -> int:
        """Decode the count."""
        return int(parts["count"])


class PeerNarrower:
    """Rewriter that limits the worker to the vault for messages from the boss.

    Args:
        roots: of the messages that it accepts.
    """

    def __init__(self, roots: frozenset[str]) -> None:
        self.roots = roots

    def rewrite(self, draft: Draft, sender: Sender) -> Rewrite | None:
        """Keep the message, and limit its recipient's peers."""
        if (sender.listener.name, draft.to) != ("boss", "worker"):
            return None
        return Rewrite(draft, GuardNote("narrowing", "the vault alone"), frozenset({"vault"}))

    def describe_refusal(self, refusal: Refusal, sender: Sender) -> None:
        """Return no description: this rewriter refuses nothing."""


WHOLE = (a_conversation_is_kept_whole,)
"""Every check of this module."""
