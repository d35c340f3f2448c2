"""Sessions of browsers: who is logged in, and until when.

Owns the ids, which are 256 random bits and kept as SHA-256, and how many there are. No token is kept. Refuses to know
HTTP, and by what a token is known.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from hashlib import sha256
from secrets import token_urlsafe
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentserver.gateways.live.host import LiveTokens
    from agentserver.gateways.principals import Caller

LASTS = 12 * 3600.0
"""Seconds after which one logs in again."""

MOST = 1000
"""Sessions at once: the oldest makes room for one more."""

EACH = 20
"""Sessions of one principal at once."""


class _Session(NamedTuple):
    caller: Caller
    until: float


class Sessions:
    """The browsers that are logged in.

    Args:
        tokens: says who a token's caller is, and whether it still stands.
        clock: seconds, by a clock that cannot be set.
    """

    def __init__(self, tokens: LiveTokens, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._clock = clock
        self._open: OrderedDict[str, _Session] = OrderedDict()

    def begin(self, token: str) -> tuple[str, Caller] | None:
        """A new session's id, for the caller whose token it is; None when it is nobody's."""
        caller = self._tokens.authenticate(token)
        if caller is None:
            return None
        now = self._clock()
        for key in [key for key, each in self._open.items() if each.until <= now]:
            del self._open[key]
        own = [key for key, each in self._open.items() if each.caller.name == caller.name]
        if len(own) >= EACH:
            del self._open[own[0]]
        if len(self._open) >= MOST:
            self._open.popitem(last=False)
        key = token_urlsafe(32)
        self._open[_digest(key)] = _Session(caller, now + LASTS)
        return key, caller

    def caller(self, key: str) -> Caller | None:
        """The caller of a session; None when there is none, it is over, or its token counts no more."""
        found = self._open.get(_digest(key))
        if found is None:
            return None
        if found.until <= self._clock() or not self._tokens.stands(found.caller):
            self.end(key)
            return None
        return found.caller

    def end(self, key: str) -> None:
        """Log out."""
        self._open.pop(_digest(key), None)


def _digest(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
