"""Protocols of guards and of the rewriter, and the rules that a conversation decides by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from agentserver.contract import SystemError
from agentserver.core.messages import Question
from agentserver.core.presenting import Presenter, ResolvedDraft
from agentserver.core.records.details import GuardNote, map_texts
from agentserver.core.refusals import Refusal
from agentserver.core.state.principals import Trust
from agentserver.wire import envelope
from agentserver.wire.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lxml import etree

    from agentserver.contract import Code
    from agentserver.core.blueprint import Blueprint, Listener
    from agentserver.core.drafts.routing import Proposal, Sender
    from agentserver.core.messages import Delivery, Draft, FinishedInvocation
    from agentserver.core.pieces import Work
    from agentserver.core.records.details import Detail
    from agentserver.core.state.conversation import Conversation
    from agentserver.findings import Origins
    from agentserver.payload.codec import Codecs
    from agentserver.wire.envelope import Bounds


@dataclass(frozen=True, slots=True)
class DenyVerdict:
    """A proposal may not be sent. The sender learns ``code``; ``reason`` is for operators."""

    code: Code
    reason: Detail | str


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """A proposal may be sent if a person approves it.

    Args:
        question: the reason, as the person is told it.
        about: what the guard will remember as approved, if it is for the rest of the conversation.
    """

    question: Detail | str
    about: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoteVerdict:
    """A proposal may be sent, and ``reason`` goes on record."""

    reason: Detail | str


Verdict: TypeAlias = DenyVerdict | NeedsApproval | NoteVerdict | None
"""None lets a proposal pass without a word. A reason in words of the guard's own may have several lines."""


class Denial(NamedTuple):
    """The reason why a message may not be sent, and the code that its sender learns."""

    code: Code
    detail: Detail


class GuardRuling(NamedTuple):
    """The verdict of all guards together on a proposal. The first denial is the last word."""

    denied: Denial | None = None
    questions: tuple[Question, ...] = ()
    notes: tuple[Detail, ...] = ()


PASSED = GuardRuling()


class NarrowedListener(NamedTuple):
    """A listener with fewer peers than it declares, and the usage of those, as text; empty where none is told."""

    listener: Listener
    usage: str


NARROWED_LISTENERS: Final = 256
"""Listeners with fewer peers than they declare that are kept for the next time: a thread asks at each delivery."""


class CoreGuard(Protocol):
    """A rule with a memory of its own, which is part of the conversation and committed with it.

    All methods are pure: equal arguments give equal results. ``memory`` is None at first, or what a ``WatchfulGuard``
    opens with; ``at`` is in seconds since the epoch.
    """

    @property
    def name(self) -> str:
        """The key of the guard's memory."""
        ...

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:
        """The memory after a listener has been given a message."""
        ...

    def judge(self, memory: object, proposal: Proposal, at: float) -> Verdict:
        """Decide on a message: None lets it pass."""
        ...

    def approve(self, memory: object, about: tuple[str, ...]) -> object:
        """The memory after a person has let pass what this guard asked ``about``, for the rest of the conversation."""
        ...


def keep_memory(
    self: object,  # noqa: ARG001 - the methods of guards have one
    memory: object,
    delivery: Delivery,  # noqa: ARG001 - as above
    element: etree._Element,  # noqa: ARG001 - as above
    at: float,  # noqa: ARG001 - as above
) -> object:
    """The ``observe`` of a guard that remembers nothing of what listeners are given: such a guard is not asked."""
    return memory


@runtime_checkable
class WatchfulGuard(Protocol):
    """A guard that has to know of every message that a listener was given, from the first one on."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""
        ...

    def begin(self, trust: Trust) -> object:
        """The memory of a conversation that opens under this guard; one without it is older than the guard.

        ``trust`` is what the words of its principal count for, for good.
        """
        ...

    def miss(self, memory: object) -> object:
        """The memory after a listener was given a message that the guard could not observe."""
        ...


@runtime_checkable
class CountingGuard(Protocol):
    """A guard that counts messages before they arrive, so that several of one result do not pass for one.

    It says a word about each message that it counts: one without a word is sent without being counted.
    """

    @property
    def name(self) -> str:
        """The key of the guard's memory."""
        ...

    def count_sent(self, memory: object, proposal: Proposal, at: float) -> object:
        """The memory after a message was admitted, whether or not a person still has to approve it."""
        ...


@runtime_checkable
class PreparingGuard(Protocol):
    """A guard whose next decision may need long work, which a thread can do before it."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""
        ...

    def prepare(self, memory: object, finished: FinishedInvocation) -> Work | None:
        """Give the work without which it would take long to decide what follows from an invocation; None for none.

        Args:
            memory: before the guard observes what the listener was given.
            finished: the invocation.
        """
        ...


@runtime_checkable
class TracingGuard(Protocol):
    """A guard that can tell a person where the values of a message come from."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""
        ...

    def origins(self, memory: object, delivery: Delivery, element: etree._Element) -> Origins:
        """The origins of the values of a message that waits."""
        ...


def open_memories(guards: Iterable[CoreGuard], trust: Trust = Trust.ORDERS) -> dict[str, object]:
    """Each guard's memory of a conversation in which nothing has been said.

    It names every guard: one that is named has seen all, and no verb takes a name out again.
    """
    return {guard.name: guard.begin(trust) if isinstance(guard, WatchfulGuard) else None for guard in guards}


class Rewrite(NamedTuple):
    """The result of a rewriter for one message.

    Args:
        result: the message as it goes on, or why it does not.
        note: goes on record either way.
        allowed: the only peers in force on the thread that the message opens and below; None for no narrowing.
    """

    result: Draft | Denial
    note: Detail
    allowed: frozenset[str] | None = None


class Rewriter(Protocol):
    """Turns what a listener said into what its target is given, before it is routed. Pure."""

    @property
    def roots(self) -> frozenset[str]:
        """The root elements of the messages that it is asked about: of any other, ``rewrite`` would give None."""
        ...

    def rewrite(self, draft: Draft, sender: Sender) -> Rewrite | None:
        """Rewrite a message; None for one that is none of the rewriter's."""
        ...

    def describe_refusal(self, refusal: Refusal, sender: Sender) -> Detail | None:
        """The note on record of a payload that its schema refused; None for one that is none of the rewriter's."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that a conversation decides by.

    Args:
        guards: in the order in which they are asked.
        explain: tells what a listener's peers accept.
        redact: takes secrets out of what goes on record. Nothing but words for operators depends on it.
    """

    blueprint: Blueprint
    codecs: Codecs
    guards: tuple[CoreGuard, ...]
    bounds: Bounds
    rewriter: Rewriter | None = None
    explain: Callable[[Listener], str] | None = None
    redact: Callable[[str], str] = field(default=str, compare=False, repr=False)
    rewritable: frozenset[str] = field(init=False, compare=False, repr=False)
    """The root elements of which the rewriter may make another message, or a denial."""
    viewers: frozenset[str] = field(init=False, compare=False, repr=False)
    """The listeners that are shown references."""
    narrowed: Callable[[str, frozenset[str]], NarrowedListener] = field(init=False, compare=False, repr=False)
    """A listener, by its name, where it may reach no others than these."""
    _presenters: tuple[Presenter, ...] = field(init=False, compare=False, repr=False)
    _observing: tuple[CoreGuard, ...] = field(init=False, compare=False, repr=False)
    counting: tuple[CountingGuard, ...] = field(init=False, compare=False, repr=False)
    """The guards that count messages before they arrive."""
    failure: str = field(init=False, compare=False, repr=False)
    """The root element of a SystemError."""
    preparing: tuple[PreparingGuard, ...] = field(init=False, compare=False, repr=False)
    _names: frozenset[str] = field(init=False, compare=False, repr=False)
    _opening: Mapping[str, object] | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Find out once what each step asks: which guards observe, how memories begin, what may be rewritten."""
        roots: frozenset[str] = frozenset() if self.rewriter is None else self.rewriter.roots
        object.__setattr__(self, "rewritable", roots)
        observing = [
            guard for guard in self.guards if getattr(type(guard), "observe", None) is not keep_memory
        ]
        object.__setattr__(self, "_observing", tuple(observing))
        counting = tuple(guard for guard in self.guards if isinstance(guard, CountingGuard))
        object.__setattr__(self, "counting", counting)
        object.__setattr__(self, "failure", self.codecs.of(SystemError).name)
        preparing = tuple(guard for guard in self.guards if isinstance(guard, PreparingGuard))
        object.__setattr__(self, "preparing", preparing)
        object.__setattr__(self, "_names", frozenset(guard.name for guard in self.guards))
        presenters = tuple(guard for guard in self.guards if isinstance(guard, Presenter) and guard.viewers)
        object.__setattr__(self, "_presenters", presenters)
        viewers = frozenset(name for guard in presenters for name in guard.viewers)
        object.__setattr__(self, "viewers", viewers)
        object.__setattr__(self, "narrowed", _make_narrower(self.blueprint.listeners, self.explain))
        watchful = any(isinstance(guard, WatchfulGuard) for guard in self.guards)
        object.__setattr__(
            self, "_opening", None if watchful else MappingProxyType(open_memories(self.guards))
        )

    def recall(self, conversation: Conversation) -> Mapping[str, object]:
        """Each guard's memory of a conversation, which opens with its first step."""
        if conversation.version:
            return conversation.memory
        return (
            open_memories(self.guards, conversation.rights.trust) if self._opening is None else self._opening
        )

    def observe(
        self, memory: Mapping[str, object], delivery: Delivery, element: etree._Element, at: float
    ) -> Mapping[str, object]:
        """Each guard's memory after a listener has been given a message."""
        after = dict(memory)
        if not memory.keys() >= self._names:  # the conversation is older than a guard
            for guard in self.guards:
                after.setdefault(guard.name, None)
        for guard in self._observing:
            after[guard.name] = guard.observe(memory.get(guard.name), delivery, element, at)
        return after

    def prepare(self, conversation: Conversation, finished: FinishedInvocation) -> Work | None:
        """Give the work of the first guard that has some before it is decided what follows from an invocation."""
        for guard in self.preparing:
            work = guard.prepare(conversation.memory.get(guard.name), finished)
            if work is not None:
                return work
        return None

    def origins(self, conversation: Conversation, delivery: Delivery) -> Origins | None:
        """The origins of the values of a message that waits; None where no guard follows values."""
        read = envelope.read_envelope(delivery.message, self.bounds)
        tracing = next((guard for guard in self.guards if isinstance(guard, TracingGuard)), None)
        if tracing is None or isinstance(read, envelope.Malformed):
            return None
        return tracing.origins(self.recall(conversation).get(tracing.name), delivery, read.payload)

    def presented(
        self, conversation: Conversation, delivery: Delivery, element: etree._Element
    ) -> etree._Element | Refusal:
        """The payload as a listener that is shown references is shown it, or why it cannot be."""
        memory = self.recall(conversation)
        for guard in self._presenters:
            if delivery.to in guard.viewers:
                shown = guard.present(memory.get(guard.name), delivery, element)
                if isinstance(shown, Refusal):
                    return shown
                element = shown
        return element

    def resolved(self, memory: Mapping[str, object], draft: Draft, sender: Sender) -> ResolvedDraft | None:
        """A message of a listener that is shown references, with the values; None for one that has no reference.

        The whole is read afresh and held against its schema; whatever is wrong with it has one text.
        """
        for guard in self._presenters:
            if sender.listener.name not in guard.viewers:
                continue
            found = guard.resolve(memory.get(guard.name), draft, sender.thread, self.bounds.bytes)
            if found is None:
                continue
            whole = None if found.element is None else self._whole(draft, found.element)
            return ResolvedDraft(whole, {**memory, guard.name: found.memory}, found.note)
        return None

    def rewritten(
        self, memory: Mapping[str, object], before: Draft, after: Draft, sender: Sender
    ) -> Mapping[str, object]:
        """The memory when the rewriter made another message of one that values were put into."""
        changed = {
            guard.name: guard.follow_rewrite(memory.get(guard.name), before, after, sender.thread)
            for guard in self._presenters
        }
        return {**memory, **changed}

    def _whole(self, draft: Draft, element: etree._Element) -> Draft | None:
        """The draft with another payload; None for one that breaks its schema or the bounds."""
        markup, codec = canonical(element).decode(), self.codecs.for_root(draft.root)
        read = envelope.read_written(markup, self.bounds)
        if codec is None or isinstance(read, envelope.Malformed) or not codec.valid(read):
            return None
        return draft._replace(markup=markup, element=read)

    def seen(
        self, conversation: Conversation, delivery: Delivery, element: etree._Element | None, at: float
    ) -> Mapping[str, object]:
        """Each guard's memory once a listener is done with what it was given; None stands for nothing that was read.

        A listener that failed has read it all the same.
        """
        memory = conversation.memory if conversation.version else self.recall(conversation)
        if element is None or (not self._observing and memory.keys() >= self._names):
            return memory
        return self.observe(memory, delivery, element, at)

    def missed(self, memory: Mapping[str, object]) -> Mapping[str, object]:
        """Each guard's memory after a listener was given a message that could not be observed."""
        changed = {
            guard.name: guard.miss(memory.get(guard.name))
            for guard in self.guards
            if isinstance(guard, WatchfulGuard)
        }
        return {**memory, **changed}

    def sent(
        self, memory: Mapping[str, object], proposals: Iterable[Proposal], at: float
    ) -> Mapping[str, object]:
        """The memory after messages were admitted: the same, unless a guard counts them."""
        changed: dict[str, object] = {}
        for guard in self.counting:
            before = kept = memory.get(guard.name)
            for proposal in proposals:
                kept = guard.count_sent(kept, proposal, at)
            if kept is not before:
                changed[guard.name] = kept
        return {**memory, **changed} if changed else memory

    def approve(self, memory: Mapping[str, object], questions: tuple[Question, ...]) -> Mapping[str, object]:
        """The memory after a person let pass, for the rest of the conversation, what was asked."""
        about = {question.guard: question.about for question in questions}
        changed = {
            guard.name: guard.approve(memory.get(guard.name), about[guard.name])
            for guard in self.guards
            if guard.name in about
        }
        return {**memory, **changed}

    def ruling(self, memory: Mapping[str, object], proposal: Proposal, at: float) -> GuardRuling:
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
                why = map_texts(_detail(guard, verdict.question), self.redact)
                question = Question(guard.name, why, verdict.about)
                ruling = ruling._replace(questions=(*ruling.questions, question))
            else:
                ruling = ruling._replace(notes=(*ruling.notes, _detail(guard, verdict.reason)))
        return ruling


def _make_narrower(
    listeners: Mapping[str, Listener], explain: Callable[[Listener], str] | None
) -> Callable[[str, frozenset[str]], NarrowedListener]:
    def narrowed(name: str, allowed: frozenset[str]) -> NarrowedListener:
        listener = replace(listeners[name], peers=listeners[name].peers & allowed)
        return NarrowedListener(listener, "" if explain is None else explain(listener))

    return lru_cache(NARROWED_LISTENERS)(narrowed)


def _detail(guard: CoreGuard, reason: Detail | str) -> Detail:
    """A guard's reason as a value; words of its own go under its name."""
    return GuardNote(guard.name, reason) if isinstance(reason, str) else reason
