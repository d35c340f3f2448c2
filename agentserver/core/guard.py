"""Protocols of guards and of the rewriter, and the rules that a conversation decides by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from agentserver.contract import SystemError
from agentserver.core.messages import Question
from agentserver.core.records.details import GuardNote, map_texts
from agentserver.core.refusals import Refusal
from agentserver.core.state.principals import Trust
from agentserver.findings import DeferredFindings, Findings
from agentserver.wire import envelope
from agentserver.wire.envelope import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from decimal import Decimal

    from lxml import etree

    from agentserver.contract import Code
    from agentserver.core.blueprint import Blueprint, Listener
    from agentserver.core.drafts.routing import Proposal, Sender
    from agentserver.core.messages import Delivery, Draft, FinishedInvocation, Moment
    from agentserver.core.pieces import Work
    from agentserver.core.records.details import Detail, NotedDetail
    from agentserver.core.state.approvals import LastingApproval
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.ledger import LedgerEffect
    from agentserver.findings import Origins
    from agentserver.notes import MessageLineage
    from agentserver.payload.codec import Codecs
    from agentserver.payload.conditions import SumBound
    from agentserver.wire.envelope import Bounds


class ResolvedDraft(NamedTuple):
    """Message whose references are replaced by values.

    Args:
        draft: None when it may not be sent.
        memory: of every guard, if it is sent.
        note: recorded in either case.
    """

    draft: Draft | None
    memory: Mapping[str, object]
    note: Detail


class ResolvedPayload(NamedTuple):
    """Payload whose references a guard has resolved.

    Args:
        element: the payload with the values put in; None when one cannot be.
        memory: of the guard, if the message is sent.
        note: recorded in either case.
    """

    element: etree._Element | None
    memory: object
    note: Detail


@runtime_checkable
class Presenter(Protocol):
    """Guard that shows listeners references in place of values and resolves them in their messages. Pure."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    @property
    def viewers(self) -> frozenset[str]:
        """The listeners that see references."""

    def present(
        self, memory: object, delivery: Delivery, element: etree._Element
    ) -> etree._Element | Refusal:
        """Return a valid copy of the payload with references, or the reason for not showing it."""

    def resolve(self, memory: object, draft: Draft, thread: str, room: int) -> ResolvedPayload | None:
        """Replace references by values, up to ``room`` bytes; None for a message without references.

        ``thread`` is the sender's. The caller validates the result.
        """

    def follow_rewrite(self, memory: object, before: Draft, after: Draft, thread: str) -> object:
        """Return the memory after a rewriter changed a message with resolved references."""


@runtime_checkable
class SilencingGuard(Protocol):
    """Guard that can suppress the progress reports of listeners."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:
        """Observe as ``CoreGuard`` does."""

    @property
    def silencing(self) -> bool:
        """True when it may silence any listener; else it is not asked."""

    def silences(self, memory: object, listener: str, thread: str) -> bool:
        """Return whether the listener may not report progress on this thread. Pure."""


def is_silenced(
    guards: Iterable[object],
    memory: Mapping[str, object],
    delivery: Delivery,
    element: etree._Element,
    at: float,
) -> bool:
    """Return whether a guard forbids progress reports during a delivery, which counts as seen.

    ``memory`` is each guard's by its name; the other arguments are as of ``SilencingGuard.observe``.
    """
    return any(
        guard.silences(
            guard.observe(memory.get(guard.name), delivery, element, at), delivery.to, delivery.thread
        )
        for guard in guards
        if isinstance(guard, SilencingGuard) and guard.silencing
    )


@runtime_checkable
class AnswerPassingGuard(Protocol):
    """Guard that knows whether it might deny an answer to a principal."""

    @property
    def passes_answers(self) -> bool:
        """True when it denies no answer of a listener to the principal, and asks about none."""


def pass_answers(guards: Iterable[object]) -> bool:
    """Return whether no guard might deny an answer to the principal. A guard that does not say might."""
    return all(isinstance(guard, AnswerPassingGuard) and guard.passes_answers for guard in guards)


@dataclass(frozen=True, slots=True)
class DenyVerdict:
    """Verdict that denies a proposal. The sender learns ``code``; ``reason`` is for operators."""

    code: Code
    reason: Detail | str


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """Verdict that lets a proposal pass once a person approves it.

    Args:
        question: the reason, as shown to the person.
        about: the values that the guard remembers as approved, if the approval is for the rest of the conversation.
    """

    question: Detail | str
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoteVerdict:
    """Verdict that lets a proposal pass and puts ``reason`` on record, which may be computed when it is read."""

    reason: NotedDetail | str


Verdict: TypeAlias = DenyVerdict | NeedsApproval | NoteVerdict | None
"""None lets a proposal pass without a note. A reason given as text may have several lines."""


class Denial(NamedTuple):
    """Reason why a message may not be sent, and the code that its sender learns."""

    code: Code
    detail: Detail


class GuardRuling(NamedTuple):
    """Combined verdict of all guards on a proposal; the first denial is final."""

    denied: Denial | None = None
    questions: tuple[Question, ...] = ()
    notes: tuple[NotedDetail, ...] = ()


PASSED = GuardRuling()


class NarrowedListener(NamedTuple):
    """Listener with fewer peers than it declares, and the usage text of those peers, possibly empty."""

    listener: Listener
    usage: str


NARROWED_LISTENERS: Final = 256
"""Narrowed listeners in the cache; a thread looks one up for each delivery."""

PRINCIPALS: Final = 256
"""Principals in the cache of senders; each of their messages looks one up."""


class CoreGuard(Protocol):
    """Rule whose memory is part of the conversation and committed with it.

    All methods are pure: equal arguments give equal results. ``memory`` is None at first, or what a ``WatchfulGuard``
    opens with; ``at`` is in seconds since the epoch.
    """

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:
        """Return the memory after a listener was given a message."""

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:
        """Decide on a message; None lets it pass."""

    def approve(self, memory: object, about: tuple[str, ...]) -> object:
        """Return the memory after a person approved ``about`` for the rest of the conversation."""


@runtime_checkable
class SettlingGuard(Protocol):
    """Guard for which one approval may answer other questions that wait. Pure."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    def settle(self, memory: object, about: tuple[str, ...], at: float) -> object | None:
        """Return the memory after a waiting question was answered by an earlier approval; None if it was not."""

    @property
    def endorses(self) -> bool:
        """True when its approvals may cover later messages."""

    def offers_lasting(self, about: tuple[str, ...]) -> bool:
        """Return whether an approval of these subjects is listed by ``list_lasting``."""

    def list_lasting(self, memory: object) -> tuple[LastingApproval, ...]:
        """List the approvals that cover later messages."""

    def revoke(self, memory: object, approval: str) -> object:
        """Return the memory without a lasting approval."""


def keep_memory(
    self: object,  # noqa: ARG001 - the methods of guards have one
    memory: object,
    delivery: Delivery,  # noqa: ARG001 - as above
    element: etree._Element,  # noqa: ARG001 - as above
    at: float,  # noqa: ARG001 - as above
) -> object:
    """Serve as the ``observe`` of a guard that does not observe; ``Rules`` skips such a guard."""
    return memory


@runtime_checkable
class WatchfulGuard(Protocol):
    """Guard that must observe every message from the first one on."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    def begin(self, trust: Trust) -> object:
        """Return the memory of a new conversation; one without a memory is older than the guard.

        ``trust`` is the principal's, for the life of the conversation.
        """

    def miss(self, memory: object) -> object:
        """Return the memory after a message that the guard could not observe."""


@runtime_checkable
class EffectReadingGuard(Protocol):
    """Guard that reads the answers of external effects."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    def observe_effect(self, memory: object, effect: LedgerEffect, at: float) -> object:
        """Return the memory after a listener got the answer of an effect. Pure."""


@runtime_checkable
class CountingGuard(Protocol):
    """Guard that counts messages as they are admitted, so that several in one result do not count as one.

    It must note or question each message that it counts; others are sent uncounted.
    """

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    def count_sent(self, memory: object, proposal: Proposal, at: float) -> object:
        """Return the memory after a message was admitted, even if a person still has to approve it."""


@runtime_checkable
class BudgetGuard(Protocol):
    """Guard with a budget of bits that all messages of one result share, and that refusals use up."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    def weigh_sent(self, memory: object, proposal: Proposal, at: float) -> float:
        """Count the bits of an admitted message. ``observe`` counts them when it is delivered."""

    def suppose_spent(self, memory: object, bits: float) -> object:
        """Return the memory for judging the next messages of the result."""

    def count_refused(self, memory: object, sender: str, thread: str, messages: int) -> object:
        """Return the memory after the sender of so many messages learned that the guard refuses one of them."""


class CountedAmount(NamedTuple):
    """Amount of a message that counts towards a sum.

    Args:
        key: of the sum.
        amount: of the message.
        bound: of the sum.
    """

    key: str
    amount: Decimal
    bound: SumBound


class WeighedMessage(NamedTuple):
    """Message whose amounts count towards sums.

    Args:
        amounts: those that can be added.
        decided: whether the sums alone decide if a person is asked.
        limited: whether the message is denied, in place of a question, if a sum is over its bound.
    """

    amounts: tuple[CountedAmount, ...] = ()
    decided: bool = False
    limited: bool = False


@runtime_checkable
class SummingGuard(Protocol):
    """Guard that asks about messages because of sums over all conversations of a principal.

    The pump knows the sums, and answers in a person's place while they are within their bounds.
    """

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    @property
    def summing(self) -> bool:
        """True when it has a bound of a sum; else it is not asked."""

    def weigh(self, to: str, root: str, element: etree._Element) -> WeighedMessage:
        """Read the amounts of a message to a listener."""


@runtime_checkable
class PreparingGuard(Protocol):
    """Guard whose next decision may need long work that another thread can do first."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    def prepare(self, memory: object, finished: FinishedInvocation, at: float) -> Work | None:
        """Return work that makes the decision on an invocation fast, or None.

        Args:
            memory: before the guard observes what the listener was given.
            finished: the invocation.
            at: the time of the decision, in seconds since the epoch.
        """


@runtime_checkable
class TracingGuard(Protocol):
    """Guard that knows the origins of the values in a message."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    def origins(self, memory: object, delivery: Delivery, element: etree._Element) -> Origins:
        """Return the origins of the values of a waiting message."""


@runtime_checkable
class NoteKeepingGuard(Protocol):
    """Guard that knows the origin of a message to a listener that keeps notes."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""

    @property
    def keepers(self) -> frozenset[str]:
        """The listeners that keep notes."""

    def describe_lineage(
        self, memory: object, delivery: Delivery, element: etree._Element, principal: str
    ) -> MessageLineage:
        """Return the origin of a message that a listener gets. ``principal`` is the conversation's."""


def open_memories(guards: Iterable[CoreGuard], trust: Trust = Trust.ORDERS) -> dict[str, object]:
    """Return each guard's memory of a new conversation.

    Every guard gets an entry, which shows later that it has observed the whole conversation.
    """
    return {guard.name: guard.begin(trust) if isinstance(guard, WatchfulGuard) else None for guard in guards}


class Rewrite(NamedTuple):
    """Result of a rewriter for one message.

    Args:
        result: the rewritten message, or its denial.
        note: recorded in either case.
        allowed: the only peers in force on the thread that the message opens and below; None for no narrowing.
    """

    result: Draft | Denial
    note: Detail
    allowed: frozenset[str] | None = None


class Rewriter(Protocol):
    """Rewriter of messages before they are routed. Pure."""

    @property
    def roots(self) -> frozenset[str]:
        """The root elements that it rewrites; it is not asked about others."""

    def rewrite(self, draft: Draft, sender: Sender) -> Rewrite | None:
        """Rewrite a message; None leaves it unchanged."""

    def describe_refusal(self, refusal: Refusal, sender: Sender) -> Detail | None:
        """Return the note to record about a payload that its schema refused, or None."""


class Reception(NamedTuple):
    """Facts that every delivery to one listener has in common.

    Args:
        own_name: what the listener learns of its own name: the name of an agent, None for any other.
        usage: what its peers accept, as text.
        views: whether it sees references in place of values.
        keeps: whether it keeps notes.
    """

    own_name: str | None
    usage: str
    views: bool
    keeps: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules for the decisions of a conversation.

    Args:
        guards: in the order in which they are asked.
        explain: describes the payloads that a listener's peers accept.
        redact: removes secrets from recorded texts. No decision depends on it.
    """

    blueprint: Blueprint
    codecs: Codecs
    guards: tuple[CoreGuard, ...]
    bounds: Bounds
    rewriter: Rewriter | None = None
    explain: Callable[[Listener], str] | None = None
    redact: Callable[[str], str] = field(default=str, compare=False, repr=False)
    rewritable: frozenset[str] = field(init=False, compare=False, repr=False)
    """The root elements that the rewriter may change or deny."""
    viewers: frozenset[str] = field(init=False, compare=False, repr=False)
    """The listeners that see references in place of values."""
    receptions: Mapping[str, Reception] = field(init=False, compare=False, repr=False)
    """What all deliveries to a listener have in common, by its name."""
    narrowed: Callable[[str, frozenset[str]], NarrowedListener] = field(init=False, compare=False, repr=False)
    """Returns a listener limited to these peers."""
    speaker: Callable[[str, tuple[str, ...] | None], Listener] = field(init=False, compare=False, repr=False)
    """Returns the placeholder of a principal, as ``Blueprint.principal`` does."""
    _presenters: tuple[Presenter, ...] = field(init=False, compare=False, repr=False)
    _observing: tuple[CoreGuard, ...] = field(init=False, compare=False, repr=False)
    counting: tuple[CountingGuard, ...] = field(init=False, compare=False, repr=False)
    """The guards that count messages before they arrive."""
    budgeting: tuple[BudgetGuard, ...] = field(init=False, compare=False, repr=False)
    """The guards with a budget of bits."""
    failure: str = field(init=False, compare=False, repr=False)
    """The root element of a SystemError."""
    preparing: tuple[PreparingGuard, ...] = field(init=False, compare=False, repr=False)
    _names: frozenset[str] = field(init=False, compare=False, repr=False)
    _opening: Mapping[str, object] | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Derive once the facts that every step needs."""
        roots: frozenset[str] = frozenset() if self.rewriter is None else self.rewriter.roots
        object.__setattr__(self, "rewritable", roots)
        observing = [
            guard for guard in self.guards if getattr(type(guard), "observe", None) is not keep_memory
        ]
        object.__setattr__(self, "_observing", tuple(observing))
        counting = tuple(guard for guard in self.guards if isinstance(guard, CountingGuard))
        object.__setattr__(self, "counting", counting)
        budgeting = tuple(guard for guard in self.guards if isinstance(guard, BudgetGuard))
        object.__setattr__(self, "budgeting", budgeting)
        object.__setattr__(self, "failure", self.codecs.of(SystemError).name)
        preparing = tuple(guard for guard in self.guards if isinstance(guard, PreparingGuard))
        object.__setattr__(self, "preparing", preparing)
        object.__setattr__(self, "_names", frozenset(guard.name for guard in self.guards))
        presenters = tuple(guard for guard in self.guards if isinstance(guard, Presenter) and guard.viewers)
        object.__setattr__(self, "_presenters", presenters)
        viewers = frozenset(name for guard in presenters for name in guard.viewers)
        object.__setattr__(self, "viewers", viewers)
        keeping = [guard.keepers for guard in self.guards if isinstance(guard, NoteKeepingGuard)]
        keepers = frozenset().union(*keeping)
        receptions = {
            name: Reception(
                name if one.agent else None, self.blueprint.usage[name], name in viewers, name in keepers
            )
            for name, one in self.blueprint.listeners.items()
        }
        object.__setattr__(self, "receptions", receptions)
        object.__setattr__(self, "speaker", lru_cache(PRINCIPALS)(self.blueprint.make_principal))
        object.__setattr__(self, "narrowed", _make_narrower(self.blueprint.listeners, self.explain))
        watchful = any(isinstance(guard, WatchfulGuard) for guard in self.guards)
        object.__setattr__(
            self, "_opening", None if watchful else MappingProxyType(open_memories(self.guards))
        )

    def recall(self, conversation: Conversation) -> Mapping[str, object]:
        """Return each guard's memory of a conversation, opened if it has no step yet."""
        if conversation.version:
            return conversation.memory
        return (
            open_memories(self.guards, conversation.rights.trust) if self._opening is None else self._opening
        )

    def prepare(
        self, conversation: Conversation, finished: FinishedInvocation, moment: Moment
    ) -> Work | None:
        """Return the preparatory work of the first guard that has some, or None."""
        at = max(moment.now, conversation.touched)
        for guard in self.preparing:
            work = guard.prepare(conversation.memory.get(guard.name), finished, at)
            if work is not None:
                return work
        return None

    def origins(self, conversation: Conversation, delivery: Delivery) -> Origins | None:
        """Return the origins of the values of a waiting message; None when no guard traces values."""
        read = envelope.read_sent(delivery.message, self.bounds.names)
        tracing = next((guard for guard in self.guards if isinstance(guard, TracingGuard)), None)
        if tracing is None or isinstance(read, envelope.Malformed):
            return None
        return tracing.origins(self.recall(conversation).get(tracing.name), delivery, read.payload)

    def describe_lineage(
        self, conversation: Conversation, delivery: Delivery, element: etree._Element
    ) -> MessageLineage | None:
        """Return the origin of a message to a listener that keeps notes."""
        guard = next(
            (one for one in self.guards if isinstance(one, NoteKeepingGuard) and delivery.to in one.keepers),
            None,
        )
        if guard is None:
            return None
        memory = self.recall(conversation).get(guard.name)
        return guard.describe_lineage(memory, delivery, element, conversation.principal)

    def present(
        self, conversation: Conversation, delivery: Delivery, element: etree._Element
    ) -> etree._Element | Refusal:
        """Replace values by references for a listener that sees references, or refuse."""
        memory = self.recall(conversation)
        for guard in self._presenters:
            if delivery.to in guard.viewers:
                presented = guard.present(memory.get(guard.name), delivery, element)
                if isinstance(presented, Refusal):
                    return presented
                element = presented
        return element

    def resolve(self, memory: Mapping[str, object], draft: Draft, sender: Sender) -> ResolvedDraft | None:
        """Replace the references of a message by their values; None when it has no reference.

        The result is parsed and validated again; every fault has the same text.
        """
        for guard in self._presenters:
            if sender.listener.name not in guard.viewers:
                continue
            found = guard.resolve(memory.get(guard.name), draft, sender.thread, self.bounds.bytes)
            if found is None:
                continue
            whole = None if found.element is None else self._replace_payload(draft, found.element)
            return ResolvedDraft(whole, {**memory, guard.name: found.memory}, found.note)
        return None

    def note_rewrite(
        self, memory: Mapping[str, object], before: Draft, after: Draft, sender: Sender
    ) -> Mapping[str, object]:
        """Return each memory after the rewriter changed a message with resolved references."""
        changed = {
            guard.name: guard.follow_rewrite(memory.get(guard.name), before, after, sender.thread)
            for guard in self._presenters
        }
        return {**memory, **changed}

    def _replace_payload(self, draft: Draft, element: etree._Element) -> Draft | None:
        """Return the draft with another payload; None when that is invalid or too large."""
        markup, codec = canonical(element).decode(), self.codecs.for_root(draft.root)
        read = envelope.read_written(markup, self.bounds)
        if codec is None or isinstance(read, envelope.Malformed) or not codec.valid(read):
            return None
        return draft._replace(markup=markup, element=read)

    def note_seen(
        self, conversation: Conversation, delivery: Delivery, element: etree._Element | None, at: float
    ) -> Mapping[str, object]:
        """Return each guard's memory after a listener handled or failed to handle a message.

        ``element`` is None when it read nothing.
        """
        memory = conversation.memory if conversation.version else self.recall(conversation)
        whole = memory.keys() >= self._names
        if element is None or (whole and not self._observing):
            return memory
        after = dict(memory)
        if not whole:  # the conversation is older than a guard
            for guard in self.guards:
                after.setdefault(guard.name, None)
        for guard in self._observing:
            after[guard.name] = guard.observe(memory.get(guard.name), delivery, element, at)
        return after

    def note_effect(
        self, memory: Mapping[str, object], effect: LedgerEffect, at: float
    ) -> Mapping[str, object]:
        """Return each guard's memory after a listener got the answer of an external effect."""
        changed = {
            guard.name: guard.observe_effect(memory.get(guard.name), effect, at)
            for guard in self.guards
            if isinstance(guard, EffectReadingGuard)
        }
        return {**memory, **changed} if changed else memory

    def note_missed(self, memory: Mapping[str, object]) -> Mapping[str, object]:
        """Return each guard's memory after a message that could not be observed."""
        changed = {
            guard.name: guard.miss(memory.get(guard.name))
            for guard in self.guards
            if isinstance(guard, WatchfulGuard)
        }
        return {**memory, **changed}

    def count_sent(
        self, memory: Mapping[str, object], proposals: Iterable[Proposal], at: float
    ) -> Mapping[str, object]:
        """Return the memory after messages were admitted: the same object unless a guard counts them."""
        changed: dict[str, object] = {}
        for guard in self.counting:
            before = counted = memory.get(guard.name)
            for proposal in proposals:
                counted = guard.count_sent(counted, proposal, at)
            if counted is not before:
                changed[guard.name] = counted
        return {**memory, **changed} if changed else memory

    def weigh_sent(
        self, memory: Mapping[str, object], proposals: Iterable[Proposal], at: float, spent: dict[str, float]
    ) -> None:
        """Add the bits of admitted messages to those of the messages before them in the result, by guard."""
        for guard in self.budgeting:
            bits = sum(guard.weigh_sent(memory.get(guard.name), each, at) for each in proposals)
            if bits:
                spent[guard.name] = spent.get(guard.name, 0.0) + bits

    def suppose_spent(self, memory: Mapping[str, object], spent: Mapping[str, float]) -> Mapping[str, object]:
        """Return the memory by which a message is judged after others of its result."""
        if not spent:
            return memory
        changed = {
            guard.name: guard.suppose_spent(memory.get(guard.name), spent[guard.name])
            for guard in self.budgeting
            if guard.name in spent
        }
        return {**memory, **changed}

    def count_refused(
        self, memory: Mapping[str, object], detail: Detail | None, sender: str, thread: str, messages: int = 1
    ) -> Mapping[str, object] | None:
        """Return the memory after a refusal was reported to a sender; None if it is the same.

        A refusal that no finding explains follows from the rules and the message alone.
        """
        if not isinstance(detail, Findings):
            return None
        changed = {
            guard.name: guard.count_refused(memory.get(guard.name), sender, thread, messages)
            for guard in self.budgeting
        }
        return {**memory, **changed} if changed else None

    def approve(self, memory: Mapping[str, object], questions: tuple[Question, ...]) -> Mapping[str, object]:
        """Return each memory after a person approved the questions for the rest of the conversation."""
        about = {question.guard: question.about for question in questions}
        changed = {
            guard.name: guard.approve(memory.get(guard.name), about[guard.name])
            for guard in self.guards
            if guard.name in about
        }
        return {**memory, **changed}

    def settle(
        self, memory: Mapping[str, object], questions: tuple[Question, ...], at: float
    ) -> Mapping[str, object] | None:
        """Return each memory after approvals answered all questions about a waiting message; None if they did not."""
        guards = {guard.name: guard for guard in self.guards if isinstance(guard, SettlingGuard)}
        changed = dict(memory)
        for question in questions:
            guard = guards.get(question.guard)
            after = None if guard is None else guard.settle(changed[guard.name], question.about, at)
            if after is None:
                return None
            changed[question.guard] = after
        return changed

    def offers_lasting(self, questions: tuple[Question, ...]) -> bool:
        """Check whether the approval of questions for the rest of the conversation is one that can be revoked."""
        guards = {guard.name: guard for guard in self.guards if isinstance(guard, SettlingGuard)}
        return all(one.guard in guards and guards[one.guard].offers_lasting(one.about) for one in questions)

    def list_lasting(self, conversation: Conversation) -> tuple[LastingApproval, ...]:
        """List the approvals of a conversation that cover later messages."""
        memory = self.recall(conversation)
        guards = (guard for guard in self.guards if isinstance(guard, SettlingGuard))
        return tuple(one for guard in guards for one in guard.list_lasting(memory[guard.name]))

    def revoke(self, memory: Mapping[str, object], approval: str) -> Mapping[str, object]:
        """Return each memory without a lasting approval."""
        guards = (guard for guard in self.guards if isinstance(guard, SettlingGuard))
        return {**memory, **{guard.name: guard.revoke(memory[guard.name], approval) for guard in guards}}

    @property
    def endorses(self) -> bool:
        """True when approvals may cover later messages."""
        return any(guard.endorses for guard in self.guards if isinstance(guard, SettlingGuard))

    def judge(self, memory: Mapping[str, object], proposal: Proposal, at: float) -> GuardRuling:
        """Ask the guards about a message."""
        ruling = PASSED
        for guard in self.guards:
            verdict = guard.judge(memory.get(guard.name), proposal, at)
            if verdict is None:
                continue
            if isinstance(verdict, DenyVerdict):
                denial = Denial(verdict.code, _detail(guard, verdict.reason))
                return ruling._replace(denied=denial, questions=())
            if isinstance(verdict, NeedsApproval):
                question_detail = map_texts(_detail(guard, verdict.question), self.redact)
                question = Question(guard.name, question_detail, verdict.about)
                ruling = ruling._replace(questions=(*ruling.questions, question))
            else:
                reason = verdict.reason
                noted = reason if isinstance(reason, DeferredFindings) else _detail(guard, reason)
                ruling = ruling._replace(notes=(*ruling.notes, noted))
        return ruling


def _make_narrower(
    listeners: Mapping[str, Listener], explain: Callable[[Listener], str] | None
) -> Callable[[str, frozenset[str]], NarrowedListener]:
    def narrow(name: str, allowed: frozenset[str]) -> NarrowedListener:
        listener = replace(listeners[name], peers=listeners[name].peers & allowed)
        return NarrowedListener(listener, "" if explain is None else explain(listener))

    return lru_cache(NARROWED_LISTENERS)(narrow)


def _detail(guard: CoreGuard, reason: Detail | str) -> Detail:
    """Return a guard's reason as a value; a text becomes a note under its name."""
    return GuardNote(guard.name, reason) if isinstance(reason, str) else reason
