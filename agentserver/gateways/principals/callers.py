"""Callers, which are authenticated principals with a role, and the rates of their requests."""

from __future__ import annotations

import logging
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from ipaddress import ip_address
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from agentserver.core.state.principals import find_scope, find_tenant, is_scope
from agentserver.ports.principals import InvalidPrincipalsError
from agentserver.supervision import EndEffect, start_helper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from agentserver.core.state.principals import Principal
    from agentserver.ports.identity import WindowBudget
    from agentserver.ports.principals import PaceStore

_RATE: Final = re.compile(r"([1-9][0-9]{0,5})/(s|m|h)")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}


class Role(StrEnum):
    """The access of a principal.

    ``USER``: its own conversations. ``OPERATOR``: all conversations, approvals and dead letters; it decides.
    ``VIEWER``: the same, redacted and read-only. ``WORKER``: the calls of one listener, which it answers.
    """

    USER = "user"
    OPERATOR = "operator"
    VIEWER = "viewer"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests in so much time, as a bucket that is full at first and fills steadily.

    Args:
        count: the requests, which may come at once.
        unit: s, m or h: the time in which as many may come again.
    """

    count: int
    unit: str

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Read a rate such as 10/s. Raises ValueError for anything else."""
        found = _RATE.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is no rate: one is a number from 1 to 999999 and /s, /m or /h, such as 10/s"
            )
        return cls(int(found[1]), found[2])

    @property
    def each(self) -> float:
        """Seconds until one more may come."""
        return _SECONDS[self.unit] / self.count

    def take_one(self, full: float, now: float) -> tuple[float, float]:
        """Take one out of a bucket that is full from a time on.

        Gives the seconds until there is one, 0.0 for now, and the time from which the bucket is full after that.
        """
        after = max(full, now) + self.each
        wait = after - now - self.each * self.count
        return (wait, full) if wait > self.each * 1e-9 else (0.0, after)  # sums of floats are not exact

    def __str__(self) -> str:
        return f"{self.count}/{self.unit}"


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated principal, from the list of principals or from an identity provider.

    Args:
        principal: its name, trust and targets, as conversations are opened for it.
        role: its access.
        rate: requests that it may make.
        open: conversations that it may have open at a time.
        grant: the digest of its token, which distinguishes tokens; empty without one.
        listener: the one whose calls it answers, for a worker; empty for all others.
        until: when its token expires, in seconds since the epoch.
        shares: rates that it shares with its tenant and its groups, each with the name of its bucket.
        resources: paths for which its token is, / for all but those of other parts; empty for every path.
        budgets: limits of its spending, and of its tenant's and its groups', each with its owner.
    """

    principal: Principal
    role: Role
    rate: Rate
    open: int
    grant: str = field(default="", repr=False)
    listener: str = ""
    until: float = inf
    shares: tuple[tuple[str, Rate], ...] = ()
    budgets: tuple[tuple[str, WindowBudget], ...] = ()
    resources: tuple[str, ...] = ()

    def reaches(self, resource: str) -> bool:
        """Check whether its token is for a resource of the door."""
        return not self.resources or resource in self.resources

    @property
    def name(self) -> str:
        """The principal's name on the record."""
        return self.principal.name

    def extend(self, until: float) -> Caller:
        """Return the same caller with a later expiry."""
        return replace(self, until=until)

    @property
    def tenant(self) -> str:
        """The tenant of the principal; empty without one."""
        return find_tenant(self.name)

    def describe_limit(self, owner: str, limit: str) -> str:
        """Describe a limit to the caller by its owner, without a name: the caller, its tenant or a group."""
        if owner == self.name:
            return f"Your {limit}"
        return f"The {limit} of {'your tenant' if is_scope(owner) else 'one of your groups'}"

    @property
    def oversees(self) -> bool:
        """True when it sees the conversations of other principals, at least of its tenant."""
        return self.role in (Role.OPERATOR, Role.VIEWER)

    @property
    def sees(self) -> str | None:
        """The owner whose conversations it sees: itself, or its tenant's scope; None for everybody's."""
        if not self.oversees:
            return self.name
        return find_scope(self.tenant) if self.tenant else None

    @property
    def redacted(self) -> bool:
        """True when it is shown no content."""
        return self.role is Role.VIEWER

    @property
    def acts(self) -> bool:
        """True when it may open conversations, send, cancel and close."""
        return self.role in (Role.USER, Role.OPERATOR)

    @property
    def decides(self) -> bool:
        """True when it may answer approvals and deal with dead letters."""
        return self.role is Role.OPERATOR


PERIOD: Final = 0.25
"""Seconds between two exchanges with the other servers."""

_LOG: Final = logging.getLogger(__name__)

_TIDY: Final = 3600.0
"""Seconds after which buckets that are full are forgotten: who is revoked leaves nothing behind for good."""


class Delay(NamedTuple):
    """Time until a request may be made.

    Args:
        seconds: 0.0 for now.
        owner: of the rate that is used up: the caller, or the name of a bucket that it shares; empty for now.
        rate: that is used up; None for now.
    """

    seconds: float = 0.0
    owner: str = ""
    rate: Rate | None = None


class Rates:
    """The token buckets of all principals: each starts full and refills steadily.

    Args:
        steady: a monotonic clock, in seconds.
        shared: adds up several servers; None for a single server.

    A bucket is one number: the time at which it is full. A principal that has been idle that long has none.
    Servers exchange their counts, so that the rate holds for all of them together; between two exchanges each of
    them may grant the content of its own bucket.
    """

    def __init__(self, steady: Callable[[], float], shared: PaceStore | None = None) -> None:
        self._steady, self._shared = steady, shared
        self._full: dict[str, float] = {}
        self._spent: dict[str, float] = {}
        self._refused = RefusedAddresses()
        self._tidied = 0.0
        self._unavailable = False

    def take(self, caller: Caller) -> Delay:
        """Take a request out of the buckets of the caller, its tenant and its groups, or of none of them."""
        now, after = self._steady(), {}
        for name, rate in ((caller.name, caller.rate), *caller.shares):
            wait, full = rate.take_one(self._full.get(name, now), now)
            if wait:
                return Delay(wait, name, rate)
            after[name] = full
        self._tidy(now)
        self._full |= after
        if self._shared is not None:
            for name, rate in ((caller.name, caller.rate), *caller.shares):
                self._spent[name] = self._spent.get(name, 0.0) + rate.each
        return Delay()

    def refuse(self, address: str) -> float:
        """Count a refused request of an address, on this server. Gives 0.0, or the seconds until there may be one."""
        return self._refused.take(address, self._steady())

    @asynccontextmanager
    async def share(self, period: float = PERIOD) -> AsyncIterator[None]:
        """Exchange with the other servers every ``period`` seconds for as long as this lasts, where there are some."""
        if self._shared is None:
            yield
            return
        async with anyio.create_task_group() as tasks:
            exchange = partial(self._exchange_often, self._shared, period)
            start_helper(tasks, "adds up rates with other servers", EndEffect.RESTART, exchange)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _exchange_often(self, shared: PaceStore, period: float) -> None:
        while True:
            await anyio.sleep(period)
            await self.exchange(shared)

    async def exchange(self, shared: PaceStore) -> None:
        """Report the requests counted here to the other servers, and apply theirs to the same buckets."""
        spent, self._spent = self._spent, {}
        if not spent:
            return
        try:
            found = await anyio.to_thread.run_sync(shared.exchange, spent)
        except InvalidPrincipalsError as error:
            if not self._unavailable:
                self._unavailable = True
                _LOG.warning("rates are counted by this server alone: %s", error)
            self._spent = {
                name: spent.get(name, 0.0) + self._spent.get(name, 0.0) for name in {*spent, *self._spent}
            }
            return
        self._unavailable = False
        now = self._steady()
        for name, seconds in found.items():
            self._full[name] = now + seconds + self._spent.get(name, 0.0)

    def __len__(self) -> int:
        """Principals whose bucket is not known to be full."""
        return len(self._full)

    def _tidy(self, now: float) -> None:
        if now - self._tidied >= _TIDY:
            self._tidied = now
            self._full = {name: full for name, full in self._full.items() if full > now}


REFUSALS: Final = Rate(120, "m")
"""Refused requests of one address."""

ADDRESSES: Final = 10_000
"""Addresses with a bucket of their own. Others share one: a stranger may have more than memory holds."""

_NETWORK: Final = 64
"""Bits of an IPv6 address that name a network: one customer has the rest to itself."""


class RefusedAddresses:
    """The buckets of addresses. One that has not come until its bucket was full again has none."""

    def __init__(self) -> None:
        self._full: dict[str, float] = {}

    def take(self, address: str, now: float) -> float:
        """Take a refused request out of the bucket of an address. Gives 0.0, or the seconds until there is one."""
        name = _name_network(address)
        if name not in self._full and len(self._full) >= ADDRESSES:
            self._full = {name: full for name, full in self._full.items() if full > now}
            name = name if len(self._full) < ADDRESSES else ""
        wait, self._full[name] = REFUSALS.take_one(self._full.get(name, now), now)
        return wait

    def __len__(self) -> int:
        """Addresses with a bucket."""
        return len(self._full)


def _name_network(address: str) -> str:
    """Name the network of an address: of IPv6 its first half."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:  # of a socket without addresses
        return address
    return str(found) if found.version == 4 else f"{int(found) >> _NETWORK:x}"  # noqa: PLR2004
