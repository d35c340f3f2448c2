"""The promise of every engine that a conversation is kept whole: each field of it, in its order, after every commit.

Owns a conversation in which everything happens that a conversation can hold, and the check. It is part of the suite of
``engines/conformance/suite.py``. Refuses to know any engine.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from agentserver.contract import Code, HandlerResponse, TodoComplete, TodoUntil
from agentserver.core.blueprint import Blueprint, Limits, Listener
from agentserver.core.decide import charges, decisions
from agentserver.core.decide.decisions import AcceptedDelivery
from agentserver.core.drafts.replies import normalise
from agentserver.core.guard import NeedsApproval, Rewrite, Rules
from agentserver.core.messages import (
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
from agentserver.core.state.budget import Room
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.growing.logs import LogChange
from agentserver.core.state.principals import Principal, Trust
from agentserver.engines.conformance.sample import Subject, Told, hold, keep
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
"""A text of which each character has another length in UTF-8."""

_STORES = ("boss", 2)
"""The call in which a thread stores something; each other one removes it again."""

_THREAD = {
    "call": "the call that it works for",
    "children": "the threads that it opened, in their order",
    "inbox": "what is queued on it, in its order, with its attempts",
    "held": "what a todo keeps back on it",
    "refusals": "its refused attempts",
    "storage": "what it stores",
    "logs": "its logs, with every entry in its order",
    "approvals": "what waits on it for a person",
    "allowed": "the only peers in force on it",
}
_CONVERSATION = {
    "todos": "todos, with what has come for each",
    "requests": "requests that have not come to rest",
    "memory": "what guards remember",
    "spending": "what was charged in it, and what is reserved",
    "rights": "the rights of its principal",
    "touched": "when it was touched, to the fraction of a second",
}


async def a_conversation_is_kept_whole(subject: Subject) -> None:
    """Threads, what they store, todos, requests, memories: loaded as committed; for a durable engine after restarts."""
    office = Office()
    outcomes = office.outcomes()
    async with subject.open_guarded(office.rules.guards) as engine:
        for outcome in outcomes:
            await keep(engine, outcome)
            _expect_equal(await engine.load(outcome.conversation.id), outcome.conversation)
    if not subject.durable:
        return
    other = Office(seed=1)
    for outcome in other.outcomes():
        async with subject.open_guarded(other.rules.guards) as engine:
            await keep(engine, outcome)
        async with subject.open_guarded(other.rules.guards) as engine:
            _expect_equal(await engine.load(outcome.conversation.id), outcome.conversation)


def _expect_equal(found: Conversation | None, kept: Conversation) -> None:
    """Hold one conversation against another; names the first field that differs."""
    if found is None:
        hold(False, "a conversation is there")
        return
    hold(list(found.tree.nodes) == list(kept.tree.nodes), "its threads are there in their order")
    for thread, now in zip(kept.tree.nodes.values(), found.tree.nodes.values(), strict=True):
        for name in thread._fields:
            text = f"a thread has {_THREAD.get(name, f'its {name}')}"
            hold(getattr(now, name) == getattr(thread, name), text)
    for name in kept._fields:
        text = f"a conversation has {_CONVERSATION.get(name, f'its {name}')}"
        hold(getattr(found, name) == getattr(kept, name), text)
    hold(list(found.requests) == list(kept.requests), "its requests are there in their order")


CONSOLE = Principal("console", Trust.RELAY, ("worker", "boss"))


class Office:
    """Three listeners and a conversation between them that has everything in it which one can have.

    Args:
        seed: of the ids.
    """

    def __init__(self, seed: int = 0) -> None:
        codecs = Codecs([Told])
        self._told = codecs.of(Told).name
        listeners = (
            Listener("boss", (Told,), "hands out", agent=True, peers=frozenset({"worker"})),
            Listener("worker", (Told,), "works", peers=frozenset({"vault", "boss"}), retries=1),
            Listener("vault", (Told,), "keeps"),
        )
        roots = {one.name: frozenset([self._told]) for one in listeners}
        services = frozenset(codecs.of(payload).name for payload in (TodoUntil, TodoComplete))
        usage = dict.fromkeys(roots, "")
        blueprint = Blueprint({one.name: one for one in listeners}, Limits(), roots, services, usage)
        self.rules = Rules(
            blueprint, codecs, (CountingGuard(),), Bounds(), rewriter=PeerNarrower(frozenset([self._told]))
        )
        self._moments = seed << 32
        self._calls: Counter[str] = Counter()

    def outcomes(self) -> list[Outcome]:
        """The outcomes to commit, in order."""
        conversation = Conversation.begin(CONSOLE, self._moment())
        found: list[Outcome] = []
        for number, to in enumerate(("boss", "worker")):
            data = self.rules.codecs.of(Told).encode(Told(TEXT)).encode()
            outside = OutsideMessage(data, f"request {number}", to)
            found.append(decisions.receive(conversation, outside, self.rules, self._moment()))
            conversation = found[-1].conversation
            waiting = deque(found[-1].ready)
            while waiting:
                delivery = waiting.popleft()
                for charged in self._charge(conversation, delivery):
                    found.append(charged)
                    conversation = charged.conversation
                found.append(self._step(conversation, delivery))
                conversation = found[-1].conversation
                waiting += found[-1].ready
                if found[-1].retry is not None:
                    waiting.append(found[-1].retry)
        return found

    def _charge(self, conversation: Conversation, delivery: Delivery) -> Iterator[Outcome]:
        """Two reservations, of which one is settled; the other never is."""
        for _ in range(2):
            asked = ReserveRequest(delivery, TEXT, Amount(7, 1 << 40))
            outcome = charges.reserve(conversation, asked, self.rules, self._moment())
            assert outcome is not None
            yield outcome
            conversation = outcome.conversation
        settled = SettleRequest(delivery, [*conversation.spending.open][-1], Amount(3))
        outcome = charges.settle(conversation, settled, self.rules, self._moment())
        assert outcome is not None
        yield outcome

    def _moment(self) -> Moment:
        self._moments += 1
        return Moment(self._moments % (1 << 32) + 1 / 3, self._moments.to_bytes(16, "big"))

    def _step(self, conversation: Conversation, delivery: Delivery) -> Outcome:
        accepted = decisions.accept(conversation, delivery, self.rules)
        hold(isinstance(accepted, AcceptedDelivery), "a committed delivery can be accepted")
        assert isinstance(accepted, AcceptedDelivery)
        self._calls[delivery.to] += 1
        said = self._respond(delivery.to, self._calls[delivery.to])
        finished = FinishedInvocation(delivery, accepted.element, said)
        return decisions.conclude(conversation, finished, self.rules, self._moment())

    def _respond(self, listener: str, call: int) -> HandlerReturn | HandlerFailure:
        """The answer of a listener to its first message, its second, and so on."""
        if (listener, call) == ("worker", 3):
            return HandlerFailure(Code.INTERNAL)
        answer, secret = HandlerResponse.respond(Told("done")), HandlerResponse(Told(TEXT), "vault")
        watch = TodoUntil("Told", from_listener="worker", description=TEXT, count=3, hold=True)
        said = {
            ("boss", 1): [HandlerResponse(Told("astray"), "no listener")],
            ("boss", 2): [
                HandlerResponse(watch, "system.todo"),
                *(HandlerResponse(Told(f"{number} {TEXT}"), "worker") for number in range(3)),
            ],
            ("worker", 1): [answer],
            ("worker", 2): [secret],
            ("worker", 4): [secret],
            ("worker", 5): [answer, secret],
        }
        return self._make_return(
            said.get((listener, call), []), TEXT.encode() if (listener, call) == _STORES else None
        )

    def _make_return(self, responses: list[HandlerResponse], stored: bytes | None) -> HandlerReturn:
        said = normalise(responses, self.rules.codecs, self.rules.bounds, Room(len(responses), 1 << 20))
        assert isinstance(said, Drafts)
        call = sum(self._calls.values())
        entries = tuple(b"%d %s" % (call, TEXT.encode()) for _ in range(call % 3))
        return HandlerReturn(
            said, Effects({self._told: stored}, (), (LogChange(self._told, call % 2, entries),))
        )


class CountingGuard:
    """Counts what listeners were given, and wants a person to approve every message to the vault."""

    name = "counting"

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> int:  # noqa: ARG002 - a guard's signature
        """One more."""
        return memory + 1 if isinstance(memory, int) else 1

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:  # noqa: ARG002 - a guard's signature
        """Ask about the vault."""
        return NeedsApproval(f"may it\nbe kept? {TEXT}", (TEXT,)) if proposal.to == "vault" else None

    def approve(self, memory: object, about: tuple[str, ...]) -> object:  # noqa: ARG002 - a guard's signature
        """Nothing more to remember."""
        return memory

    def dump(self, memory: int) -> Mapping[str, bytes]:
        """The count."""
        return {"count": str(memory).encode()}

    def load(self, parts: Mapping[str, bytes]) -> int:
        """The count back."""
        return int(parts["count"])


class PeerNarrower:
    """Lets the worker reach the vault alone where the boss asks it.

    Args:
        roots: of the messages that it passes on.
    """

    def __init__(self, roots: frozenset[str]) -> None:
        self.roots = roots

    def rewrite(self, draft: Draft, sender: Sender) -> Rewrite | None:
        """Pass the message on as it is."""
        if (sender.listener.name, draft.to) != ("boss", "worker"):
            return None
        return Rewrite(draft, GuardNote("narrowing", "the vault alone"), frozenset({"vault"}))

    def describe_refusal(self, refusal: Refusal, sender: Sender) -> None:
        """None is this rewriter's."""


WHOLE = (a_conversation_is_kept_whole,)
"""Every check of this module."""
