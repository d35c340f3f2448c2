"""Editions of an organism: as it is at the start, and after each reload.

Owns the question which edition a conversation goes by. All go by the present one, but for those in which a handler of
an earlier edition runs, or a step is under way: they keep it until that is done, and what of them would begin meanwhile
is held. So the handlers that run, and every decision about their conversation meanwhile, are of one edition, and no
conversation ever goes back to an earlier one. Refuses to know what rules decide and who begins a reload.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from agentserver.core.state import principals
from agentserver.pump.calling.settings import supply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from agentserver.completion import Completer
    from agentserver.contract import HandlerMetadata, HandlerResult, Invocation
    from agentserver.core.blueprint import Listener
    from agentserver.core.decide.decisions import Accepted
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Failed, Returned
    from agentserver.pump.calling.settings import Supply

    Handler: TypeAlias = Callable[[Any, HandlerMetadata], Awaitable[HandlerResult]]


class Elsewhere(Protocol):
    """Calls a handler that is not in this process."""

    async def call(self, accepted: Accepted, current: Invocation) -> Returned | Failed:
        """Let it handle a delivery. A failure of any kind is a value; being cancelled ends the call.

        Args:
            accepted: the delivery.
            current: what a handler of this process would have in reach.
        """
        ...


@dataclass(frozen=True, slots=True)
class Callee:
    """A listener with the code behind it and the settings that the code reads.

    Args:
        settings: as they were loaded; ``supply`` gives each invocation its own.
        completer: answers what the code asks of language models; None where there are none.
        remote: calls the handler where it is, when that is not in this process; ``handler`` is not called then.
        enter: called in the context of an invocation before anything else of it; it must not raise. None for nothing.
    """

    listener: Listener
    handler: Handler
    settings: object | None = None
    completer: Completer | None = None
    remote: Elsewhere | None = None
    enter: Callable[[Delivery], object] | None = None
    supply: Supply = field(init=False)

    def __post_init__(self) -> None:
        """Find out once whether invocations may share the settings."""
        object.__setattr__(self, "supply", supply(self.settings))


class Edition(NamedTuple):
    """An organism until it is reloaded.

    Args:
        rules: what its conversations decide by.
        bound: listeners with their handlers, by name.
    """

    rules: Rules
    bound: Mapping[str, Callee]


class Editions:
    """The edition of each conversation.

    ``rules`` and ``bound`` are the present one's, ``taken`` is what no principal can be called there, ``exclusive`` are
    the listeners of which one invocation runs at a time in all processes together. ``earlier`` has the conversations
    that keep another; it is empty but for a while after a reload, so that nothing else costs more. ``working`` has each
    piece of work on a delivery, and its conversation.
    """

    def __init__(self, rules: Rules, bound: Mapping[str, Callee]) -> None:
        self._present(Edition(rules, bound))
        self.earlier: dict[str, Edition] = {}
        self.working: dict[object, str] = {}
        self._held: dict[str, list[Delivery]] = {}
        self._rest = asyncio.Event()

    def _present(self, edition: Edition) -> None:
        self.rules, self.bound = edition
        self.taken = principals.taken(edition.bound)
        self.exclusive = frozenset([name for name, one in edition.bound.items() if one.listener.exclusive])

    def check(self, principal: str, may: Collection[str] | None) -> None:
        """Raise ValueError when no principal can have this name, or one of those whom it may address is no listener."""
        why = principals.unfit(principal, self.taken)
        if why:
            raise ValueError(f"{principal!r} {why}, so no principal can bear it")
        unknown = sorted(set(may or ()) - self.rules.blueprint.listeners.keys())
        if unknown:
            raise ValueError(f"{principal} may address {', '.join(unknown)}: there is no such listener")

    def of(self, conversation: str) -> Rules:
        """The rules that a conversation decides by."""
        found = self.earlier.get(conversation)
        return self.rules if found is None else found.rules

    def swap(self, edition: Edition, busy: Collection[str]) -> None:
        """Let all conversations go by another edition from now on, and those that are busy once they are not."""
        present = Edition(self.rules, self.bound)
        self._present(edition)
        for conversation in {*busy, *self.working.values()}:
            self.earlier.setdefault(conversation, present)

    def hold(self, delivery: Delivery) -> None:
        """Keep a delivery back until its conversation has moved."""
        self._held.setdefault(delivery.conversation, []).append(delivery)

    def move(self, conversation: str) -> list[Delivery] | None:
        """Let a conversation go by the present edition; gives what was held. None while a handler of it runs."""
        if conversation in self.working.values():
            return None
        return self.forget(conversation)

    def forget(self, conversation: str) -> list[Delivery]:
        """A conversation keeps nothing earlier, having moved or ended; gives what was held of it."""
        self.earlier.pop(conversation, None)
        self.rested()
        return self._held.pop(conversation, [])

    def rested(self) -> None:
        """Something that was at work is done, or has moved."""
        self._rest.set()
        self._rest = asyncio.Event()

    async def rest(self) -> None:
        """Wait until that happens again."""
        await self._rest.wait()


def at_once(bound: Mapping[str, Callee]) -> dict[str, int]:
    """The number of invocations of each listener that may run at once."""
    return {name: one.listener.concurrency for name, one in bound.items()}
