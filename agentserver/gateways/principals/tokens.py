"""Bearer tokens: who shows one, and until when it counts.

Owns the callers of a store, and what is told when a token is revoked. By a store that cannot be used nobody is known.
Refuses to know what a token is (agentserver/bearer.py), and what callers do.
"""

from __future__ import annotations

import logging
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from agentserver import bearer
from agentserver.gateways.principals import document
from agentserver.gateways.principals.document import Enrolled
from agentserver.ports.principals import AwayError
from agentserver.supervision import Ending, start_helper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence

    from agentserver.gateways.principals.callers import Caller
    from agentserver.ports.principals import PrincipalStore

PERIOD: Final = 0.25
"""Seconds between two looks at the store while somebody wants to know who is revoked."""

LAPSE: Final = 5.0
"""Seconds for which callers are known that were read before the store was away: nobody knows who is revoked by then."""

_LOG: Final = logging.getLogger(__name__)


class _View(NamedTuple):
    """The store as it was looked at.

    Args:
        edition: by which a change is seen.
        callers: by the digest of their token.
        fault: why it cannot be used; empty when it can.
        until: when the first of the former tokens ends to count.
        away: whether it may be used again once it answers.
    """

    edition: Hashable
    callers: Mapping[str, Caller]
    fault: str = ""
    until: float = inf
    away: bool = False


class Tokens:
    """The callers by their tokens, as a store has them. It is read again when it has changed.

    Args:
        store: of the principals, which may be empty.
        now: seconds since the epoch, by which former tokens end.
        steady: a clock that cannot be set, in seconds.

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
        self._waiting: dict[str, set[anyio.Event]] = {}
        self._lock = anyio.Lock()
        self._watched = False
        self.reads = 0

    @property
    def fault(self) -> str:
        """The reason why the store cannot be used, and nobody is known by it; empty when it can."""
        return self._view.fault

    @property
    def away(self) -> bool:
        """True while nobody is known because the store does not answer."""
        return self._view.away

    def authenticate(self, token: str) -> Caller | None:
        """The caller whose token it is; None when it is nobody's.

        Raises RuntimeError unless the store is watched: nobody could be revoked.
        """
        self._must_be_watched()
        return bearer.find_holder(token, self._view.callers)

    def stands(self, caller: Caller) -> bool:
        """True while the store has the caller as it was authenticated."""
        return self._view.callers.get(caller.grant) == caller

    @asynccontextmanager
    async def watching(self, period: float = PERIOD) -> AsyncIterator[None]:
        """Look at the store every ``period`` seconds for as long as this lasts, in a thread and once for all."""
        await self.refresh()
        async with anyio.create_task_group() as tasks:
            watch = partial(self._watch, period)
            start_helper(tasks, "reads principals again when they change", Ending.RESTART, watch)
            self._watched = True
            try:
                yield
            finally:
                self._watched = False
                tasks.cancel_scope.cancel()

    async def refresh(self) -> None:
        """Look at the store, and read it if it has changed. Callers whose token ends to count are told."""
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
                for told in self._waiting.pop(caller.grant, ()):
                    told.set()

    async def revoked(self, caller: Caller) -> None:
        """Wait until the caller's token counts no more, or what it counts for has changed.

        Raises RuntimeError unless the store is watched: nobody would ever be told.
        """
        self._must_be_watched()
        if not self.stands(caller):
            return
        told, waiting = anyio.Event(), self._waiting.setdefault(caller.grant, set())
        waiting.add(told)
        try:
            await told.wait()
        finally:
            waiting.discard(told)
            if not waiting and self._waiting.get(caller.grant) is waiting:
                del self._waiting[caller.grant]

    def _must_be_watched(self) -> None:
        if not self._watched:
            raise RuntimeError("the principals are not watched: use async with tokens.watching()")

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
    except AwayError as error:
        return _View(edition, {}, str(error), away=True)
    except ValueError as error:
        return _View(edition, {}, str(error))


def _view(edition: Hashable, known: Sequence[Enrolled], now: float) -> _View:
    callers = {each.digest: each.caller for each in known if each.digest}
    until = inf
    for each in known:
        if each.former is not None and now < each.former.until:
            callers[each.former.digest] = replace(each.caller, grant=each.former.digest)
            until = min(until, each.former.until)
    return _View(edition, callers, until=until)


def entries(store: PrincipalStore) -> tuple[Enrolled, ...]:
    """The principals of a store, those that are revoked too, in the order in which they were added.

    Raises ValueError, which names the store, when it cannot be used.
    """
    return _read(store, store.read().data)


def add(store: PrincipalStore, caller: Caller) -> str:
    """Add a principal; gives its token, which is kept nowhere. One of its name that is revoked is replaced.

    Raises KnownError, ValueError when the store cannot be used or nobody can bear the name, OSError.
    """
    token = bearer.make_token()
    new = Enrolled(caller, bearer.digest(token), time.time())
    _change(store, lambda known: document.added(known, new))
    return token


def revoke(store: PrincipalStore, name: str) -> None:
    """Let a principal's token count no more. It stays on the list.

    Raises LookupError when none of this name has a token, ValueError when the store cannot be used, OSError.
    """
    at = time.time()
    _change(store, lambda known: document.revoked(known, name, at))


def rotate(store: PrincipalStore, name: str, grace: float) -> str:
    """Give a principal another token, which is returned; the one that it has counts for ``grace`` more seconds.

    Raises LookupError when none of this name has a token, ValueError when the store cannot be used, OSError.
    """
    token = bearer.make_token()
    until = time.time() + grace
    _change(store, lambda known: document.rotated(known, name, bearer.digest(token), until))
    return token


def _change(store: PrincipalStore, change: Callable[[Sequence[Enrolled]], Sequence[Enrolled]]) -> None:
    store.change(lambda data: document.write(change(_read(store, data))))


def _read(store: PrincipalStore, data: bytes) -> tuple[Enrolled, ...]:
    try:
        return document.read(data) if data else ()
    except ValueError as error:
        raise ValueError(f"{store}: {error}") from None
