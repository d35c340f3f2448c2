"""Bearer tokens: authenticates callers from a store, and signals revoked tokens.

While the store cannot be used, no principal is known.

A token has 256 random bits; only its SHA-256 is stored. Looking up an unknown, revoked or malformed token takes the
same work as a valid one.
"""

from __future__ import annotations

import logging
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from math import inf
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import anyio

from agentserver.gateways.principals import document
from agentserver.gateways.principals.document import PrincipalEntry
from agentserver.ports.principals import StoreAwayError
from agentserver.supervision import EndEffect, start_helper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence

    from agentserver.gateways.principals.callers import Caller
    from agentserver.ports.principals import PrincipalStore

T = TypeVar("T")

LENGTH: Final = 43
"""Characters of a token: 256 bits, 6 in each."""


def make_token() -> str:
    """Make a new token."""
    return token_urlsafe(32)


def digest(token: str) -> str:
    """Compute the stored part of a token: its SHA-256 in hexadecimal digits."""
    return _digest(token.encode())


def find_holder(token: str, known: Mapping[str, T]) -> T | None:
    """Find the find_holder of a token; None for an unknown text. Never raises.

    Args:
        token: as presented.
        known: holders by digest.
    """
    presented = token.encode("utf-8", "surrogatepass")
    # The same number of bytes is hashed for every input, so that the time reveals nothing.
    found = known.get(_digest(presented[:LENGTH].ljust(LENGTH, b"\0")))
    return found if len(presented) == LENGTH else None


def _digest(presented: bytes) -> str:
    return sha256(presented).hexdigest()


PERIOD: Final = 0.25
"""Seconds between two looks at the store while somebody wants to know who is revoked."""

LAPSE: Final = 5.0
"""Seconds for which callers are known that were read before the store was away: nobody knows who is revoked by then."""

_LOG: Final = logging.getLogger(__name__)


class _View(NamedTuple):
    """The store as last read.

    Args:
        edition: identifies its state.
        callers: by the digest of their token.
        fault: why it cannot be used; empty if it can.
        until: when the first of the former tokens expires.
        away: whether it is only unreachable at present.
    """

    edition: Hashable
    callers: Mapping[str, Caller]
    fault: str = ""
    until: float = inf
    away: bool = False


class Tokens:
    """The callers by their tokens, from a store that is read again after a change.

    Args:
        store: of the principals, which may be empty.
        now: seconds since the epoch, for the expiry of former tokens.
        steady: a monotonic clock, in seconds.

    ``reads`` counts how often the store was read.
    """

    def __init__(
        self,
        store: PrincipalStore,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._now, self._steady = store, now, steady
        self._looked = -inf
        self._view = _View(None, {})
        self._waiters: dict[str, set[anyio.Event]] = {}
        self._lock = anyio.Lock()
        self._watched = False
        self.reads = 0

    @property
    def fault(self) -> str:
        """Reason why the store cannot be used, and no principal is known; empty if it can."""
        return self._view.fault

    @property
    def away(self) -> bool:
        """True while no principal is known because the store is unreachable."""
        return self._view.away

    def authenticate(self, token: str) -> Caller | None:
        """Return the caller of a token; None for an unknown one.

        Raises RuntimeError unless the store is watched: revocations would be missed.
        """
        self._must_be_watched()
        return find_holder(token, self._view.callers)

    async def prepare(self, token: str) -> None:
        """Do nothing: the store is read in the background."""

    def explain_absence(self, token: str) -> str:  # noqa: ARG002 - all tokens are in one store
        """Return why tokens cannot be checked at present; empty if they can."""
        return "The list of principals cannot be read at present." if self.away else ""

    def stands(self, caller: Caller) -> bool:
        """Tell whether the store has the caller as it was authenticated."""
        return self._view.callers.get(caller.grant) == caller

    @asynccontextmanager
    async def watch(self, period: float = PERIOD) -> AsyncIterator[None]:
        """Look at the store every ``period`` seconds for as long as this lasts, in a thread and once for all."""
        await self.refresh()
        async with anyio.create_task_group() as tasks:
            watch = partial(self._watch, period)
            start_helper(tasks, "reads principals again when they change", EndEffect.RESTART, watch)
            self._watched = True
            try:
                yield
            finally:
                self._watched = False
                tasks.cancel_scope.cancel()

    async def refresh(self) -> None:
        """Check the store, and read it after a change. Signals revoked tokens."""
        async with self._lock:
            known = None if not self.reads else self._view
            began = self._steady()
            found = await anyio.to_thread.run_sync(_look, self._store, known, self._now())
            if found is not None and found.away and (self.away or began - self._looked < LAPSE):
                return
            if found is None or not found.away:
                self._looked = began
            if found is None:
                return
            self.reads += 1
            before, self._view = self._view.callers, found
        if found.fault:
            _LOG.error("nobody is known by a token: %s", found.fault)
        for caller in before.values():
            if not self.stands(caller):
                for revoked in self._waiters.pop(caller.grant, ()):
                    revoked.set()

    async def wait_revoked(self, caller: Caller) -> None:
        """Wait until the caller's token is revoked or its rights change.

        Raises RuntimeError unless the store is watched: the wait would never end.
        """
        self._must_be_watched()
        if not self.stands(caller):
            return
        revoked, waiting = anyio.Event(), self._waiters.setdefault(caller.grant, set())
        waiting.add(revoked)
        try:
            await revoked.wait()
        finally:
            waiting.discard(revoked)
            if not waiting and self._waiters.get(caller.grant) is waiting:
                del self._waiters[caller.grant]

    def _must_be_watched(self) -> None:
        if not self._watched:
            raise RuntimeError("the principals are not watched: use async with tokens.watch()")

    async def _watch(self, period: float) -> None:
        while True:
            await anyio.sleep(period)
            await self.refresh()


def _look(store: PrincipalStore, known: _View | None, now: float) -> _View | None:
    """Look at the store; None when it is as it was known. Blocks."""
    edition: Hashable = None
    try:
        edition = store.edition()
        if known is not None and not known.away and known.edition == edition and now < known.until:
            return None
        found = store.read()
        return _view(found.edition, _read(store, found.data), now)
    except StoreAwayError as error:
        return _View(edition, {}, str(error), away=True)
    except ValueError as error:
        return _View(edition, {}, str(error))


def _view(edition: Hashable, known: Sequence[PrincipalEntry], now: float) -> _View:
    callers = {each.digest: each.caller for each in known if each.digest}
    until = inf
    for each in known:
        if each.former is not None and now < each.former.until:
            callers[each.former.digest] = replace(each.caller, grant=each.former.digest)
            until = min(until, each.former.until)
    return _View(edition, callers, until=until)


def list_entries(store: PrincipalStore) -> tuple[PrincipalEntry, ...]:
    """List the principals of a store, including revoked ones, in the order in which they were added.

    Raises ValueError, which names the store, if it cannot be used.
    """
    return _read(store, store.read().data)


def add(store: PrincipalStore, caller: Caller) -> str:
    """Add a principal, in place of a revoked one with its name; returns its token, which is not stored.

    Raises DuplicateNameError, ValueError for an unusable store or an invalid name, OSError.
    """
    token = make_token()
    new = PrincipalEntry(caller, digest(token), time.time())
    _change(store, lambda known: document.add_entry(known, new))
    return token


def revoke(store: PrincipalStore, name: str) -> None:
    """Revoke a principal's token. The principal stays on the list.

    Raises LookupError if the name has no token, ValueError for an unusable store, OSError.
    """
    at = time.time()
    _change(store, lambda known: document.revoke_entry(known, name, at))


def rotate(store: PrincipalStore, name: str, grace: float) -> str:
    """Give a principal another token, which is returned; the one that it has counts for ``grace`` more seconds.

    Raises LookupError when none of this name has a token, ValueError when the store cannot be used, OSError.
    """
    token = make_token()
    until = time.time() + grace
    _change(store, lambda known: document.rotate_entry(known, name, digest(token), until))
    return token


def _change(
    store: PrincipalStore, change: Callable[[Sequence[PrincipalEntry]], Sequence[PrincipalEntry]]
) -> None:
    store.change(lambda data: document.write(change(_read(store, data))))


def _read(store: PrincipalStore, data: bytes) -> tuple[PrincipalEntry, ...]:
    try:
        return document.read(data) if data else ()
    except ValueError as error:
        raise ValueError(f"{store}: {error}") from None
