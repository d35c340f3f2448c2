"""Calls that a host has no answer to, so that one that comes again is not made twice.

Owns which call counts as an earlier one: equal arguments while that is unanswered, or an id of the host's own. A host
that repeats a call on purpose has its answer by then. Refuses to know how calls are made.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TypeAlias

ToldCall: TypeAlias = tuple[str, bytes]
"""The target of a call, and its message."""

MOST = 1000
"""Calls of one conversation that are known again: as many without an answer, and as many that were answered."""


@dataclass(slots=True)
class KnownCalls:
    """The calls of one conversation that are known again, by the ids under which they were made.

    Args:
        conversation: its id.
    """

    conversation: str
    _open: OrderedDict[ToldCall, str] = field(default_factory=OrderedDict)
    _answered: OrderedDict[str, tuple[ToldCall, str]] = field(default_factory=OrderedDict)
    _cancelled: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def find(self, call: ToldCall, host: str) -> str:
        """Find the id under which a call was made before; empty for a new one. ``host`` is its host's id, or empty."""
        before, own = self._answered.get(host, (call, ""))
        return self._open.get(call, "") or (own if before == call else "")

    def begin(self, call: ToldCall) -> str:
        """Give a new call an id, and know it from now on."""
        own = token_hex(16)
        self.keep(call, own)
        return own

    def keep(self, call: ToldCall, own: str) -> None:
        """Know a call as unanswered."""
        self._open[call] = own
        if len(self._open) > MOST:
            self._open.popitem(last=False)

    def cancel(self, host: str) -> None:
        """Know a call as unanswered whose host gave it up, by the id of its host, before or after the answer.

        An answer that is computed later goes to a host that does not read it. A call that was answered under another id
        since then is not unanswered again.
        """
        if not host:
            return
        self._cancelled[host] = None
        if len(self._cancelled) > MOST:
            self._cancelled.popitem(last=False)
        found = self._answered.pop(host, None)
        if found is not None and found not in self._answered.values():
            self._open.setdefault(*found)

    def answer(self, call: ToldCall, own: str, host: str) -> None:
        """Know a call as answered, unless its host gave it up: from now on it is found by the id of its host alone."""
        if host in self._cancelled:
            return
        if self._open.get(call) == own:
            del self._open[call]
        if host:
            self._answered[host] = call, own
        if len(self._answered) > MOST:
            self._answered.popitem(last=False)
