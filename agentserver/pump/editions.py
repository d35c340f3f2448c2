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
    from collections.abc import Awaitable, Collection, Mapping, Sequence

    from agentserver.completion import Completer
    from agentserver.contract import CodeSite, HandlerMetadata, HandlerResult, Invocation
    from agentserver.core.blueprint import Listener
    from agentserver.core.decide.decisions import AcceptedDelivery
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Delivery, HandlerFailure, HandlerReturn
    from agentserver.ports.servers import WorkerState
    from agentserver.pump.completions import CompletionLog

    Handler: TypeAlias = Callable[[Any, HandlerMetadata], Awaitable[HandlerResult]]


Supply: TypeAlias = Callable[[], object]

_UNCHANGEABLE = (
    *(type(None), bool, int, float, complex, str, bytes, Decimal, Fraction, UUID, PurePath, Enum, re.Pattern, type),
    *(dt.date, dt.time, dt.timedelta, dt.timezone),
    *(IPv4Address, IPv6Address, IPv4Network, IPv6Network),
)  # fmt: skip


def supply(settings: object) -> Supply:
    """Return the source of each invocation's settings: the object itself if it is immutable, otherwise a copy."""
    if unchangeable(settings):
        return lambda: settings
    return lambda: deepcopy(settings)


def unchangeable(value: object) -> bool:
    """Return whether a value and its contents are immutable. A frozen dataclass may be, a plain one never is."""
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


class RemoteHandler(Protocol):
    """Handler that runs outside this process."""

    async def call(self, accepted: AcceptedDelivery, current: Invocation) -> HandlerReturn | HandlerFailure:
        """Handle a delivery. A failure of any kind is a value; cancellation ends the call.

        Args:
            accepted: the delivery.
            current: the invocation that a handler of this process would see.
        """

    def list_workers(self, now: float) -> Sequence[WorkerState]:
        """List its processes. ``now`` is the time in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Callee:
    """Listener with its code and settings.

    Args:
        settings: as they were loaded; ``supply`` returns those of each invocation.
        completer: answers requests to language models; None without models.
        remote: calls the handler if it is outside this process; ``handler`` is not called then.
        enter: is called first in the context of an invocation; it must not raise.
        log: records completions; None if nothing is recorded.
        note_site: receives the id of a delivery and where the flow that handles it sends a message; None without spans.
    """

    listener: Listener
    handler: Handler
    settings: object | None = None
    completer: Completer | None = None
    remote: RemoteHandler | None = None
    enter: Callable[[Delivery], object] | None = None
    log: CompletionLog | None = None
    note_site: Callable[[str, CodeSite], None] | None = None
    supply: Supply = field(init=False)

    def __post_init__(self) -> None:
        """Find out once whether invocations may share the settings."""
        object.__setattr__(self, "supply", supply(self.settings))


class Edition(NamedTuple):
    """Organism between two reloads.

    Args:
        rules: that its conversations decide by.
        bound: listeners with their handlers, by name.
    """

    rules: Rules
    bound: Mapping[str, Callee]


class Editions:
    """Edition of each conversation.

    ``rules`` and ``bound`` are the current edition's; ``reserved`` holds the names that no principal may have there;
    ``exclusive`` the listeners with one invocation at a time in all processes together. ``earlier`` maps conversations
    to an earlier edition; it is empty except for a while after a reload. ``working`` maps each piece of work on a
    delivery to its conversation.
    """

    def __init__(self, rules: Rules, bound: Mapping[str, Callee]) -> None:
        self._present(Edition(rules, bound))
        self.earlier: dict[str, Edition] = {}
        self.working: dict[object, str] = {}
        self._held_deliveries: dict[str, list[Delivery]] = {}
        self._idle = asyncio.Event()

    def _present(self, edition: Edition) -> None:
        self.rules, self.bound = edition
        self.reserved = principals.reserved_looks(edition.bound)
        self.exclusive = frozenset([name for name, one in edition.bound.items() if one.listener.exclusive])

    def check(self, principal: str, may: Collection[str] | None) -> None:
        """Raise ValueError if the name is unfit for a principal, or an addressee in ``may`` is no listener."""
        reason = principals.explain_unfit(principal, self.reserved)
        if reason:
            raise ValueError(f"{principal!r} {reason}, so no principal can bear it")
        unknown = sorted(set(may or ()) - self.rules.blueprint.listeners.keys())
        if unknown:
            raise ValueError(f"{principal} may address {', '.join(unknown)}: there is no such listener")

    def rules_of(self, conversation: str) -> Rules:
        """Return the rules that a conversation decides by."""
        found = self.earlier.get(conversation)
        return self.rules if found is None else found.rules

    def swap(self, edition: Edition, busy: Collection[str]) -> None:
        """Make an edition current; busy conversations keep theirs until they are not busy."""
        present = Edition(self.rules, self.bound)
        self._present(edition)
        for conversation in {*busy, *self.working.values()}:
            self.earlier.setdefault(conversation, present)

    def hold(self, delivery: Delivery) -> None:
        """Hold a delivery until its conversation has moved."""
        self._held_deliveries.setdefault(delivery.conversation, []).append(delivery)

    def move(self, conversation: str) -> list[Delivery] | None:
        """Move a conversation to the current edition. Returns its held deliveries; None while a handler of it runs."""
        if conversation in self.working.values():
            return None
        return self.forget(conversation)

    def forget(self, conversation: str) -> list[Delivery]:
        """Forget the earlier edition of a conversation that moved or closed. Returns its held deliveries."""
        self.earlier.pop(conversation, None)
        self.notify_progress()
        return self._held_deliveries.pop(conversation, [])

    def notify_progress(self) -> None:
        """Wake ``wait_for_progress``: a piece of work is done, or a conversation has moved."""
        self._idle.set()
        self._idle = asyncio.Event()

    async def wait_for_progress(self) -> None:
        """Wait until ``notify_progress`` is called."""
        await self._idle.wait()


def at_once(bound: Mapping[str, Callee]) -> dict[str, int]:
    """Return the concurrency of each listener."""
    return {name: one.listener.concurrency for name, one in bound.items()}
