"""The progress of one invocation: what of a handler's words goes on its way.

Owns the bounds: one line of LINE characters, BURST of them at once and then RATE a second, none after the invocation is
over or was cancelled. What is over a bound is dropped. Refuses to know who is told, and who may not be.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from agentserver.core.messages import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.core.decide.decisions import Accepted

LINE: Final = 500
"""Characters of one word of progress, after which it is cut."""

BURST: Final = 10
"""Words of one invocation that may come at once."""

RATE: Final = 5.0
"""Words a second of one invocation beyond these."""


class Stoppable(Protocol):
    """The needs of a teller of its call."""

    @property
    def stopped(self) -> bool:
        """True once it was told to end."""
        ...

    def done(self) -> bool:
        """True once it is over."""
        ...


class Teller:
    """Takes the words of a handler. May be called from any thread.

    Args:
        tell: passes a word on, on the event loop.
        accepted: the delivery that the handler was called with.
        call: the call of it.
        loop: the event loop.
        redact: takes secrets out of a text, before anything of it is cut.
        steady: seconds, by a clock that cannot be set.
    """

    def __init__(
        self,
        tell: Callable[[Accepted, Progress], None],
        accepted: Accepted,
        call: Stoppable,
        loop: asyncio.AbstractEventLoop,
        redact: Callable[[str], str],
        steady: Callable[[], float],
    ) -> None:
        self._tell = tell
        self._accepted = accepted
        self._call = call
        self._loop = loop
        self._redact = redact
        self._steady = steady
        self._left = float(BURST)
        self._at = steady()

    def __call__(self, text: str) -> None:
        """Pass on a line of text, or drop it. Raises TypeError for anything but text."""
        if not isinstance(text, str):
            raise TypeError(f"progress is told in text, not as {type(text).__name__}")
        if self._call.stopped or self._call.done() or not self._spend():
            return
        said = (
            self._redact(str.__str__(text)).encode("utf-8", "backslashreplace").decode()
        )  # half a pair is no text
        line = " ".join(said.split())
        if not line:
            return
        delivery = self._accepted.delivery
        shown = line if len(line) <= LINE else f"{line[: LINE - 1]}\u2026"
        progress = Progress(delivery.conversation, delivery.request, delivery.to, shown)
        if self._here():
            self._tell(self._accepted, progress)  # later the handler may have come back
        else:
            self._loop.call_soon_threadsafe(self._tell, self._accepted, progress)

    def _here(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _spend(self) -> bool:
        now = self._steady()
        self._left = min(float(BURST), self._left + (now - self._at) * RATE)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
