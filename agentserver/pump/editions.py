"""Editions of an organism: one at the start, and one for each reload.

Every conversation uses the current edition, except while a handler of an earlier one or a step of it runs: then it
keeps its edition until that ends, and its other deliveries are held.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast
from uuid import UUID

from agentserver.core.state import principals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Collection, Mapping

    from agentserver.completion import Completer
    from agentserver.contract import HandlerMetadata, HandlerResult, Invocation
    from agentserver.core.blueprint import Listener
    from agentserver.core.decide.decisions import Accepted
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, Failed, Returned

    Handler: TypeAlias = Callable[[Any, HandlerMetadata], Awaitable[HandlerResult]]


Supply: TypeAlias = Callable[[], object]

_UNCHANGEABLE = (
    *(type(None), bool, int, float, complex, str, bytes, Decimal, Fraction, UUID, PurePath, Enum, re.Pattern, type),
    *(dt.date, dt.time, dt.timedelta, dt.timezone),
    *(IPv4Address, IPv6Address, IPv4Network, IPv6Network),
)  # fmt: skip


def supply(settings: object) -> Supply:
    """The source of each invocation's settings: the object itself when nothing in it can be changed, else a copy."""
    if unchangeable(settings):
        return lambda: settings
    return lambda: deepcopy(settings)


def unchangeable(value: object) -> bool:
    """True when a value and all that it holds stay as they are. A frozen dataclass may, a plain one never."""
    if isinstance(value, _UNCHANGEABLE):
        return True
    if isinstance(value, tuple | frozenset):
        return type(value) in (tuple, frozenset) and all(map(unchangeable, value))
    declared = getattr(type(value), "__dataclass_params__", None)
    if declared is None or not declared.frozen:
        return False
    names = {field.name for field in fields(cast("Any", value))}
    return getattr(value, "__dict__", {}).keys() <= names and all(
        unchangeable(getattr(value, name)) for name in names
    )


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
