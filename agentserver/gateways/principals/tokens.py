"""Bearer tokens: who shows one, and until when it counts.

Owns the callers of a file, and what is told when a token is revoked. By a file that cannot be used nobody is known.
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
from agentserver.gateways.principals import document, file
from agentserver.gateways.principals.document import Enrolled
from agentserver.supervision import Ending, start_helper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from agentserver.gateways.principals.callers import Caller

PERIOD: Final = 0.25
"""Seconds between two looks at the file while somebody wants to know who is revoked."""

_LOG: Final = logging.getLogger(__name__)


class _View(NamedTuple):
    """The file as it was looked at.

    Args:
        state: by which a change is seen.
        callers: by the digest of their token.
        fault: why it cannot be used; empty when it can.
        until: when the first of the former tokens ends to count.
    """

    state: file.State | None
    callers: Mapping[str, Caller]
    fault: str = ""
    until: float = inf


class Tokens:
    """The callers by their tokens, as a file has them. It is read again when it has changed.

    Args:
        path: of the file, which need not be there.
        now: seconds since the epoch, by which former tokens end.

    ``reads`` counts how often the file was read.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = path, now
        self._view = _View(None, {})
        self._waiting: dict[str, set[anyio.Event]] = {}
        self._lock = anyio.Lock()
        self._watched = False
        self.reads = 0

    @property
    def fault(self) -> str:
        """The reason why the file cannot be used, and nobody is known by it; empty when it can."""
        return self._view.fault

    def authenticate(self, token: str) -> Caller | None:
        """The caller whose token it is; None when it is nobody's.

        Raises RuntimeError unless the file is watched: nobody could be revoked.
        """
        self._must_be_watched()
        return bearer.holder(token, self._view.callers)

    def stands(self, caller: Caller) -> bool:
        """True while the file has the caller as it was authenticated."""
        return self._view.callers.get(caller.grant) == caller

    @asynccontextmanager
    async def watching(self, period: float = PERIOD) -> AsyncIterator[None]:
        """Look at the file every ``period`` seconds for as long as this lasts, in a thread and once for all."""
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
        """Look at the file, and read it if it has changed. Those whose token counts no more are told."""
        async with self._lock:
            known = None if not self.reads else self._view
            found = await anyio.to_thread.run_sync(_look, self._path, known, self._now())
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

        Raises RuntimeError unless the file is watched: nobody would ever be told.
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
            raise RuntimeError("the file of principals is not watched: use async with tokens.watching()")

    async def _watch(self, period: float) -> None:
        while True:
            await anyio.sleep(period)
            await self.refresh()


def _look(path: Path, known: _View | None, now: float) -> _View | None:
    """The file; None when it is as it was known. Blocks."""
    state = file.state(path)
    if known is not None and known.state == state and now < known.until:
        return None
    try:
        found = file.read(path)
        return _view(found.state, _read(path, found.data), now)
    except ValueError as error:
        return _View(state, {}, str(error))


def _view(state: file.State | None, known: Sequence[Enrolled], now: float) -> _View:
    callers = {each.digest: each.caller for each in known if each.digest}
    until = inf
    for each in known:
        if each.former is not None and now < each.former.until:
            callers[each.former.digest] = replace(each.caller, grant=each.former.digest)
            until = min(until, each.former.until)
    return _View(state, callers, until=until)


def entries(path: Path) -> tuple[Enrolled, ...]:
    """The principals of a file, those that are revoked too, in the order in which they were added.

    Raises ValueError, which names the file, when it cannot be used.
    """
    return _read(path, file.read(path).data)


def add(path: Path, caller: Caller) -> str:
    """Add a principal; gives its token, which is kept nowhere. One of its name that is revoked is replaced.

    Raises KnownError, ValueError when the file cannot be used or nobody can bear the name, OSError.
    """
    token = bearer.fresh()
    with file.changing(path):
        kept = document.added(entries(path), Enrolled(caller, bearer.digest(token), time.time()))
        file.replace(path, document.write(kept))
    return token


def revoke(path: Path, name: str) -> None:
    """Let a principal's token count no more. It stays on the list.

    Raises LookupError when none of this name has a token, ValueError when the file cannot be used, OSError.
    """
    with file.changing(path):
        file.replace(path, document.write(document.revoked(entries(path), name, time.time())))


def rotate(path: Path, name: str, grace: float) -> str:
    """Give a principal another token, which is returned; the one that it has counts for ``grace`` more seconds.

    Raises LookupError when none of this name has a token, ValueError when the file cannot be used, OSError.
    """
    token = bearer.fresh()
    with file.changing(path):
        kept = document.rotated(entries(path), name, bearer.digest(token), time.time() + grace)
        file.replace(path, document.write(kept))
    return token


def _read(path: Path, data: bytes) -> tuple[Enrolled, ...]:
    try:
        return document.read(data) if data else ()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
