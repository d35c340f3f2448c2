"""Pacing of one backend: concurrent requests, tokens per minute, and pauses that it asks for.

Time is a parameter, so that tests need not wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MINUTE = 60.0


class Pace:
    """The limits of one backend.

    Args:
        concurrency: requests at once.
        tokens: in any minute; None for no limit.
        now: seconds, by a clock that cannot be set.
    """

    def __init__(self, concurrency: int, tokens: int | None, now: Callable[[], float]) -> None:
        self._slots = asyncio.Semaphore(concurrency)
        self._concurrency = concurrency
        self._tokens = tokens
        self._now = now
        self._spent: deque[tuple[float, list[int]]] = deque()
        self._sum = 0
        self._resting = 0.0
        self.running = 0

    @property
    def load(self) -> float:
        """The share of its slots that is taken, waiting requests included."""
        return self.running / self._concurrency

    def rest(self, seconds: float) -> None:
        """Leave it alone for so long."""
        self._resting = max(self._resting, self._now() + seconds)

    def seconds_paused(self) -> float:
        """Seconds for which it wants to be left alone."""
        return max(0.0, self._resting - self._now())

    async def enter(self, tokens: int, until: float) -> list[int] | None:
        """Wait for a slot and for the tokens of a request; None if there are not enough before ``until``.

        Returns the token count, which ``leave`` corrects.
        """
        self.running += 1
        slot, taken = False, None
        try:
            async with asyncio.timeout(max(0.0, until - self._now())):
                slot = await self._slots.acquire()
            taken = await self._take(tokens, until)
        except TimeoutError:
            return None
        finally:
            if taken is None:
                self._free(slot)
        return taken

    async def _take(self, tokens: int, until: float) -> list[int] | None:
        """Book tokens as soon as the last minute has room for them. A request beyond the limit waits for all of it."""
        while self._tokens is not None:
            pause = self._wait(min(tokens, self._tokens))
            if pause <= 0:
                break
            if self._now() + pause >= until:
                return None
            await asyncio.sleep(pause)
        entry = [tokens]
        if self._tokens is not None:
            self._spent.append((self._now(), entry))
            self._sum += tokens
        return entry

    def _wait(self, tokens: int) -> float:
        """Seconds until the last minute has room."""
        assert self._tokens is not None
        now = self._now()
        while self._spent and self._spent[0][0] <= now - MINUTE:
            self._sum -= self._spent.popleft()[1][0]
        over = self._sum + tokens - self._tokens
        for at, entry in self._spent:
            if over <= 0:
                break
            over -= entry[0]
            if over <= 0:
                return max(at + MINUTE - now, 0.001)
        return 0.0

    def leave(self, entry: list[int], tokens: int | None) -> None:
        """Release the slot of a finished request and correct its token count; ``None`` if the usage is unknown."""
        if tokens is not None:
            if self._tokens is not None and any(kept is entry for _, kept in self._spent):
                self._sum += tokens - entry[0]
            entry[0] = tokens
        self._free(slot=True)

    def _free(self, slot: bool) -> None:  # noqa: FBT001 - private
        self.running -= 1
        if slot:
            self._slots.release()
