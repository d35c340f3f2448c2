"""The requests in an agent's output stream, event by event.

A request may be spread
over the messages of one turn; a document that is open when the turn ends is reported as cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agentserver.handoff.managed.scanner import FoundRequest, Scanner
from agentserver.handoff.requests import HandoffRequest, from_tool, make_broken_request, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["request"]

SEEN: Final = 10_000
"""Events for which the listener remembers that it has had them."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request that came out of a stream.

    Args:
        request: the request.
        call: id of the tool call that made it and waits for an answer; empty for text.
    """

    request: HandoffRequest
    call: str = ""


class AgentStream:
    """The state of listening to one agent. Every method gives the attempts that an event completes."""

    __slots__ = ("_preview", "_previewed", "_scanner", "_seen", "_shown")

    def __init__(self) -> None:
        self._scanner = Scanner()
        self._seen: dict[str, None] = {}
        self._preview: Scanner | None = None
        self._previewed = ""  # id of the message that is being previewed
        self._shown: list[FoundRequest] = []  # what its preview gave

    def note_new(self, event: str) -> bool:
        """Check whether this event was not had before; from now on it was."""
        if event in self._seen:
            return False
        self._seen[event] = None
        if len(self._seen) > SEEN:
            del self._seen[next(iter(self._seen))]
        return True

    def call(self, identity: str, arguments: Mapping[str, object], raw: str) -> tuple[Attempt, ...]:
        """Return a typed call of the handoff tool; ``raw`` is the text of its arguments."""
        return (Attempt(from_tool(arguments, raw), identity),)

    def message(self, identity: str, text: str) -> tuple[Attempt, ...]:
        """Return a whole message. Text that its preview returned already is not given again."""
        previewed = self._shown if identity == self._previewed else []
        if identity != self._previewed:
            self._settle()
        found = [*self._scanner.feed(text)]
        for each in previewed:
            if each in found:
                found.remove(each)
        self._forget()
        return _collect_attempts(found)

    def preview(self, identity: str, text: str) -> tuple[Attempt, ...]:
        """Return a piece of a message that is still being written."""
        if identity != self._previewed:
            self._settle()
            self._preview, self._previewed, self._shown = self._scanner.copy(), identity, []
        assert self._preview is not None
        found = self._preview.feed(text)
        self._shown.extend(found)
        return _collect_attempts(found)

    def turn_ended(self) -> tuple[Attempt, ...]:
        """Return the agent stopped: nothing that is open will be completed."""
        self._settle()
        found = self._scanner.end()
        self._scanner = Scanner()
        return _collect_attempts(found)

    def _settle(self) -> None:
        """Replace a preview without a message by it."""
        if self._preview is not None:
            self._scanner = self._preview
        self._forget()

    def _forget(self) -> None:
        self._preview, self._previewed, self._shown = None, "", []


def _collect_attempts(found: Iterable[FoundRequest]) -> tuple[Attempt, ...]:
    return tuple(Attempt(request(each)) for each in found)


def request(found: FoundRequest) -> HandoffRequest:
    """Return the request that a scanner found."""
    return read_text(found.raw) if found.fault is None else make_broken_request(found.raw, found.fault)
