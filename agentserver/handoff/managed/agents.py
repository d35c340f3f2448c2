"""Anthropic's managed agents as a source and a target of handoffs, through the ``anthropic`` SDK (an extra).

A stream has no replay, so each connection opens the stream first and then reads the history since the last
event that was had: an event is in one of the two or in both, and its id shows it. The sum is each event once, in
order per reading.
"""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from agentserver.extras import require
from agentserver.foreign_json.reading import JsonLimits, parse_json_or_raise
from agentserver.handoff.managed.stream import SEEN, AgentStream, Attempt
from agentserver.handoff.requests import TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agentserver.handoff.judgement import ApprovedRequest

FOLDER: Final = Path("out")


class CursorPosition(NamedTuple):
    """The place to which a listener came.

    Args:
        since: the time, ISO 8601, from which the history is read again; empty for its beginning.
        had: ids of the events from then on that were dealt with.
    """

    since: str = ""
    had: tuple[str, ...] = ()


class SessionCursor:
    """Keeps how far one session was listened to, in a file of mode 0600.

    Args:
        session: its id.
        folder: the folder of the file.
    """

    def __init__(self, session: str, folder: Path = FOLDER) -> None:
        name = sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self.path = folder / f"handoff-cursor-{name}.json"

    def read(self) -> CursorPosition | None:
        """Return the kept value; None without one. Raises OSError, ValueError when it is spoiled."""
        try:
            members = parse_json_or_raise(self.path.read_bytes(), JsonLimits())
            return CursorPosition(str(members["since"]), tuple(map(str, members["had"])))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"{self.path}: is no note of how far a session was listened to") from None

    def keep(self, reached: CursorPosition) -> None:
        """Rewrite and fsync the file. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(f".{self.path.name}.new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"since": reached.since, "had": list(reached.had)}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)


ACCEPTED: Final = "The handoff was accepted."
REFUSED: Final = "The handoff was refused."
_LOG = logging.getLogger(__name__)
_ENDED: Final = frozenset({"session.status_terminated", "session.deleted"})
_TURN_ENDS: Final = frozenset({"session.status_idle", "session.error"})
_TELLING: Final = frozenset({"agent.message", "agent.custom_tool_use"}) | _TURN_ENDS
_REFUSED_FOR_NOW: Final = frozenset({408, 409, 429})
_SERVER: Final = 500
_NOT_TAKEN: Final = frozenset({429, 503, 529})
"""Answers which say that a message was not taken, so that it may be sent again."""


class SourceLost(RuntimeError):  # noqa: N818 - what happened
    """The session cannot be listened to: it does not exist, or the key may not read it."""


class Outlet(Protocol):
    """The destination of approved handoffs."""

    def steer(self, identity: str, approved: ApprovedRequest) -> bool:
        """Hand a handoff to the agent of this id; whether it surely arrived."""


@dataclass(frozen=True, slots=True)
class FailureWindow:
    """The time for which failures are waited for.

    Args:
        first, maximum: seconds before the first retry and at most; each wait is twice the one before.
        tries: attempts to deliver one handoff.
        sleep: waits.
    """

    first: float = 0.5
    maximum: float = 30.0
    tries: int = 5
    sleep: Callable[[float], None] = time.sleep

    def wait(self, failed: int, error: Any = None) -> None:
        """Wait after this many failures in a row, as long as the service asks for when it does."""
        requested = _retry_after(error)
        self.sleep(
            min(self.maximum, self.first * 2 ** min(failed - 1, 16))
            if requested is None
            else min(self.maximum, requested)
        )


_PATIENT: Final = FailureWindow()


def _retry_after(error: Any) -> float | None:
    """Read the seconds that a ``Retry-After`` names."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        return max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        return None


def connect() -> Any:
    """Return a client by the SDK's own environment variables. Raises MissingExtraError without the extra managed."""
    require("a managed agent", "managed")
    import anthropic

    return anthropic.Anthropic()


def keyless(client: Any) -> bool:
    """Check whether a client has no way to authenticate: its first request would be refused."""
    headers = {name.lower() for name in client.default_headers}
    return client.credentials is None and not headers & {"x-api-key", "authorization"}


def _list_transient_errors() -> tuple[type[Exception], ...]:
    """Return the failures of a connection, an event that was cut off within its JSON included."""
    import anthropic
    import httpx2

    return (anthropic.APIError, httpx2.HTTPError, httpx2.StreamError, json.JSONDecodeError)


class Cursor(Protocol):
    """Keeps how far a session was listened to, so that its requests in between are read as well."""

    def read(self) -> CursorPosition | None:
        """Return the kept value; None without one. Raises OSError, ValueError when it is spoiled."""

    def keep(self, reached: CursorPosition) -> None:
        """Keep it; when this returns it outlives the process. Raises OSError."""


class ManagedOutput:
    """One session's output, as attempts to hand work over.

    An attempt counts as dealt with when the next one is asked for.

    Args:
        client: an ``anthropic.Anthropic``.
        session: the session's id.
        previews: whether messages are read while they are written; they may never be completed.
        patience: how failures are waited for.
        cursor: how far the session was listened to before; None forgets it.
    """

    def __init__(
        self,
        client: Any,
        session: str,
        *,
        previews: bool = False,
        patience: FailureWindow = _PATIENT,
        cursor: Cursor | None = None,
    ) -> None:
        self._events = client.beta.sessions.events
        self._session = session
        self._previews = previews
        self._patience = patience
        self._listener = AgentStream()
        self._since: Any = None  # the time of the last event that was had
        self._ended = False
        self._cursor = cursor
        self._before: frozenset[str] = frozenset()  # what an earlier listener dealt with
        self._turn_began = ""
        self._turn: list[tuple[str, str]] = []  # what was dealt with since then: ids and times

    def attempts(self) -> Iterator[Attempt]:
        """Yield every attempt from where an earlier listener ended, or from now on, until the session ends.

        Without an earlier listener, calls of the tool that still wait for an answer come first. Raises SourceLost,
        and OSError or ValueError where the cursor cannot be read or kept.
        """
        failed = 0
        started = False
        while not self._ended:
            try:
                if not started:
                    owed = self._start()
                    started = True
                    yield from owed
                for event in self._iter_connection():
                    failed = 0
                    found = self._feed(event)
                    yield from () if getattr(event, "id", None) in self._before else found
                    self._dealt_with(event)
            except _list_transient_errors() as error:
                self._permanent(error)
                _LOG.warning("the session's stream was interrupted: %s", type(error).__name__)
                failed += 1
                self._patience.wait(failed, error)
            else:
                failed += 1
                if not self._ended:
                    self._patience.wait(failed)
        yield from self._listener.turn_ended()

    def answer(self, call: str, *, accepted: bool) -> None:
        """Send the agent the result of its call, for which it waits."""
        result = {
            "type": "user.custom_tool_result",
            "custom_tool_use_id": call,
            "content": [{"type": "text", "text": ACCEPTED if accepted else REFUSED}],
            "is_error": not accepted,
        }
        try:
            self._events.send(self._session, events=[result])
        except _list_transient_errors() as error:
            _LOG.warning("the result of call %s could not be sent: %s", call, type(error).__name__)

    def _permanent(self, error: Exception) -> None:
        status = getattr(error, "status_code", _SERVER)
        if status < _SERVER and status not in _REFUSED_FOR_NOW:
            raise SourceLost(f"session {self._session}: the service answers {status}") from error

    def _start(self) -> list[Attempt]:
        """Start behind what an earlier listener dealt with, else behind the last message.

        Gives the calls that wait.
        """
        reached = None if self._cursor is None else self._cursor.read()
        if reached is not None:
            self._since = reached.since or None
            self._turn_began, self._before = reached.since, frozenset(reached.had)
            return []
        waiting: dict[str, Any] = {}
        for event in self._events.list(self._session, order="asc"):
            self._was_seen(event)
            self._turn_began = _format_time(event)
            self._turn = [each for each in self._turn if each[1] == self._turn_began]
            self._turn.append((event.id, self._turn_began))
            if event.type == "agent.custom_tool_use" and event.name == TYPE:
                waiting[event.id] = event
            waiting.pop(getattr(event, "custom_tool_use_id", ""), None)
        return [attempt for event in waiting.values() for attempt in self._feed(event)]

    def _dealt_with(self, event: Any) -> None:
        """Record that an event is done; a turn is read again from its beginning."""
        identity = getattr(event, "id", None)
        if self._cursor is None or event.type not in _TELLING or not isinstance(identity, str):
            return
        self._turn.append((identity, _format_time(event)))
        if event.type in _TURN_ENDS or len(self._turn) > SEEN:
            self._turn_began = _format_time(event) or self._turn_began
            self._turn = [each for each in self._turn if each[1] == self._turn_began]
        self._cursor.keep(CursorPosition(self._turn_began, tuple(identity for identity, _ in self._turn)))

    def _iter_connection(self) -> Iterator[Any]:
        """Yield the events of one connection, those that were missed before it first."""
        options = {"event_deltas": ["agent.message"]} if self._previews else {}
        with self._events.stream(self._session, **options) as stream:
            yield from self._iter_missed()
            # Once the session has ended nothing more will come, and the stream may stay open all the same.
            for event in () if self._ended else stream:
                if self._was_seen(event):
                    yield event
                if event.type in _ENDED:
                    return

    def _iter_missed(self) -> Iterator[Any]:
        since = {} if self._since is None else {"created_at_gte": self._since}
        for event in self._events.list(self._session, order="asc", **since):
            if self._was_seen(event):
                yield event

    def _was_seen(self, event: Any) -> bool:
        """Check whether an event is new; from now on it was had. Previews have no id and are always new."""
        identity = getattr(event, "id", None)
        if isinstance(identity, str) and not self._listener.note_new(identity):
            return False
        self._since = getattr(event, "processed_at", None) or self._since
        self._ended = self._ended or event.type in _ENDED
        return True

    def _feed(self, event: Any) -> tuple[Attempt, ...]:
        """Return the meaning of an event to a listener; most have none."""
        if event.type == "agent.message":
            return self._listener.message(event.id, _join_text(event.content))
        if event.type == "event_delta":
            return self._listener.preview(event.event_id, getattr(event.delta.content, "text", "") or "")
        if event.type == "agent.custom_tool_use" and event.name == TYPE:
            arguments = event.input if isinstance(event.input, dict) else {}
            return self._listener.call(event.id, arguments, json.dumps(arguments, default=str))
        if event.type in _TURN_ENDS:
            return self._listener.turn_ended()
        return ()


def _format_time(event: Any) -> str:
    at = getattr(event, "processed_at", None)
    return at.isoformat() if isinstance(at, datetime) else ""


def _join_text(content: Any) -> str:
    return "".join(block.text for block in content if getattr(block, "type", "") == "text")


class SteeringEvent:
    """Hands approved handoffs to managed agents: the steering text and the data as blocks of their own.

    Args:
        client: an ``anthropic.Anthropic``.
        environment: where sessions are made for agent ids; empty when the ids are of sessions.
        patience: how refusals for now are waited for.
    """

    def __init__(self, client: Any, environment: str = "", patience: FailureWindow = _PATIENT) -> None:
        self._sessions = client.with_options(max_retries=0).beta.sessions
        self._environment = environment
        self._patience = patience

    def steer(self, identity: str, approved: ApprovedRequest) -> bool:
        """Send it, and again while the service says that it was not taken. After a silence it may be there."""
        for failed in range(1, self._patience.tries + 1):
            try:
                self._send(identity, _build_message(approved))
            except _list_transient_errors() as error:
                _LOG.warning("a handoff to %s was not taken: %s", approved.target, type(error).__name__)
                if getattr(error, "status_code", 0) not in _NOT_TAKEN:
                    return False
                if failed < self._patience.tries:
                    self._patience.wait(failed, error)
            else:
                return True
        return False

    def _send(self, identity: str, message: dict[str, Any]) -> None:
        if self._environment:
            self._sessions.create(agent=identity, environment_id=self._environment, initial_events=[message])
        else:
            self._sessions.events.send(identity, events=[message])


def _build_message(approved: ApprovedRequest) -> dict[str, Any]:
    texts = (approved.steering, *(frame.markup() for frame in approved.data))
    return {"type": "user.message", "content": [{"type": "text", "text": text} for text in texts]}
