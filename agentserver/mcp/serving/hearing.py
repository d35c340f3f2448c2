"""Progress of listeners, passed on to the calls that they work for.

Owns the choice of the call. Refuses to keep any: progress is shown or lost.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from agentserver.core.messages import Progress

EARLY: Final = 64
"""Reports that wait for a call whose request is not known yet; beyond them the oldest are dropped."""


class ProgressHearing:
    """Takes words for all calls: those of one conversation share a queue, and each word goes to one taker."""

    def __init__(self) -> None:
        self._told: dict[str, Callable[[str], Awaitable[None]]] = {}
        self._early: deque[Progress] = deque(maxlen=EARLY)

    async def hear(
        self, words: AsyncIterator[Progress], request: str, tell: Callable[[str], Awaitable[None]]
    ) -> None:
        """Pass words on until it is cancelled: those of this request to ``tell``, others to their calls."""
        early = [word for word in self._early if word.request == request]
        self._early = deque((word for word in self._early if word.request != request), EARLY)
        self._told[request] = tell
        try:
            for word in early:
                await tell(word.text)
            async for word in words:
                known = self._told.get(word.request)
                if known is None:
                    self._early.append(word)
                else:
                    await known(word.text)
        finally:
            if self._told.get(request) is tell:  # the same call, made once more, has its own
                del self._told[request]
