"""The names of the handler contract v2.1, and the context variable of the running invocation."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from annotated_types import Ge, Le, MaxLen, MinLen

if TYPE_CHECKING:
    from agentserver.completion import AnswerWriter, Completer
    from agentserver.effects import Effect, EffectLedger, Reconcile
    from agentserver.notes import NoteAccess
    from agentserver.spending import Purse

__all__ = ["CancelTimer", "SetTimer", "TimerFired", "TodoOverdue"]
"""Public here; the other public names of the contract are imported from ``agentserver``."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Element:
    """Names the XML element of a field: ``retry_allowed: Annotated[bool, Element("retry-allowed")]``."""

    name: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """Makes a scalar field an XML attribute of its payload's element, under its own name or ``name``."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """Restricts a ``str`` field to an XSD regular expression, always matched against the whole value."""

    regex: str


class Target(Enum):
    """The destination of a response that names no listener."""

    CALLER = "caller"


@dataclass(frozen=True, slots=True)
class HandlerResponse:
    """One message that a handler asks the pump to send.

    Args:
        payload: an instance of an ``@xmlify`` dataclass.
        to: the name of a listener. The name of the caller means the same as ``respond``.
    """

    payload: Any
    to: str | Target

    @classmethod
    def respond(cls, payload: Any) -> HandlerResponse:
        """Answer the caller of this thread and prune every sub-thread that this thread opened."""
        return cls(payload, Target.CALLER)


LONGEST_DELAY: Final = 3650 * 86_400.0
"""Seconds, ten years, by which a message may be delayed."""


@dataclass(frozen=True, slots=True)
class DelayedResponse(HandlerResponse):
    """Message that ``Invocation.later`` sends.

    Args:
        after: seconds from the commit of the invocation.
    """

    after: float = 0.0


HandlerResult: TypeAlias = HandlerResponse | Sequence[HandlerResponse] | bytes | None
"""The values that a handler may return. ``bytes`` is deprecated and holds payload text, never an envelope."""


@dataclass(frozen=True, slots=True)
class HandlerMetadata:
    """Facts that the pump guarantees when it calls a handler (v2.1 contract, "HandlerMetadata").

    Args:
        thread_id: opaque id of the thread that this message belongs to.
        from_id: name of the previous hop.
        own_name: this listener's name, for agents only.
        is_self_call: whether the message was sent by this listener.
        usage_instructions: what the peers accept, as text for a model's prompt; empty without peers.
        todo_nudge: a reminder of todos that appear complete; empty otherwise.
    """

    thread_id: str
    from_id: str
    own_name: str | None = None
    is_self_call: bool = False
    usage_instructions: str = ""
    todo_nudge: str = ""


class Code(StrEnum):
    """The reason why the system refused or failed a message. One text and one retry rule per code."""

    ROUTING = "routing"
    VALIDATION = "validation"
    DENIED = "denied"
    TIMEOUT = "timeout"
    INTERNAL = "internal"
    BUDGET = "budget"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class SystemError:
    """Report of the system to a listener that a message of its own failed.

    Only the system makes one. A handler may pass one that it was called with on to its caller, unchanged.
    """

    code: Code
    message: str
    retry_allowed: Annotated[bool, Element("retry-allowed")]


WatcherId: TypeAlias = Annotated[str, MinLen(1), MaxLen(64)]


@dataclass(frozen=True, slots=True)
class TodoUntil:
    """Asks ``system.todo`` to watch the sending thread for replies.

    Args:
        wait_for: a payload class, or its element name with or without ``{namespace}``; ``"*"`` for any answer to
            a call of this thread.
        from_listener: only count replies of this listener.
        description: what the nudge calls it; one line.
        count: how many replies complete the todo.
        hold: keep matching replies back until all are there, then deliver them in the order of their calls.
        remind_after: time in seconds, or a ``timedelta``, after which an incomplete todo is reported by one
            ``TodoOverdue``. It survives restarts.
    """

    wait_for: Annotated[str, MinLen(1), MaxLen(512), Element("wait-for")]
    from_listener: Annotated[str | None, MaxLen(128), Element("from-listener")] = None
    description: Annotated[str, MaxLen(256)] = ""
    count: Annotated[int, Ge(1), Le(1000)] = 1
    hold: bool = False
    remind_after: Annotated[float | None, Ge(0), Le(LONGEST_DELAY), Element("remind-after")] = None

    if TYPE_CHECKING:  # the field holds a name; authors may say the class

        def __init__(
            self,
            wait_for: type | str,
            from_listener: str | None = None,
            description: str = "",
            count: int = 1,
            hold: bool = False,  # noqa: FBT001, FBT002 - the field's place
            remind_after: timedelta | float | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        """Let authors name the payload class itself, and write a time as a ``timedelta``."""
        declared, time = cast("object", self.wait_for), cast("object", self.remind_after)
        if isinstance(declared, type):
            object.__setattr__(self, "wait_for", getattr(declared, "__xml_name__", declared.__name__))
        if isinstance(time, timedelta):
            object.__setattr__(self, "remind_after", time.total_seconds())


@dataclass(frozen=True, slots=True)
class TodoRegistered:
    """Answers ``TodoUntil``."""

    watcher_id: Annotated[WatcherId, Element("watcher-id")]


@dataclass(frozen=True, slots=True)
class TodoComplete:
    """Asks ``system.todo`` to close a watcher of the sending thread."""

    watcher_id: Annotated[WatcherId, Element("watcher-id")]


@dataclass(frozen=True, slots=True)
class TodoClosed:
    """Answers ``TodoComplete``; ``found`` is false when the thread has no such watcher."""

    watcher_id: Annotated[WatcherId, Element("watcher-id")]
    found: bool = True


@dataclass(frozen=True, slots=True)
class TodoOverdue:
    """Reminds a thread of a todo that was not complete after its ``remind_after``; the todo stays open."""

    watcher_id: Annotated[WatcherId, Element("watcher-id")]


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Asks ``system.timer`` for a ``TimerFired`` after a time. It survives restarts, and goes with its thread."""

    seconds: Annotated[float, Ge(0), Le(LONGEST_DELAY)]


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Asks ``system.timer`` to drop a timer of the sending thread. It is not answered.

    Args:
        key: the ``idempotency_key`` of the invocation that set the timer.
        place: of its ``SetTimer`` in what that invocation returned, counted from zero.
    """

    key: Annotated[str, MinLen(1), MaxLen(64)]
    place: Annotated[int, Ge(0)] = 0


@dataclass(frozen=True, slots=True)
class TimerFired:
    """Answers ``SetTimer`` when its time has come."""

    seconds: Annotated[float, Ge(0), Le(LONGEST_DELAY)]


SYSTEM_PAYLOADS: tuple[type, ...] = (
    SystemError,
    TodoUntil,
    TodoRegistered,
    TodoComplete,
    TodoClosed,
    TodoOverdue,
    SetTimer,
    CancelTimer,
    TimerFired,
)


class Watcher(Protocol):
    """A todo of the running thread, as ``get_raised_for`` shows it."""

    @property
    def watcher_id(self) -> str:
        """The id for closing it."""

    @property
    def description(self) -> str:
        """The name of the todo in the nudge."""


class Todos(Protocol):
    """The todos of the running invocation."""

    def get_raised_for(self, thread_id: str, own_name: str | None) -> Sequence[Watcher]:
        """Complete but unclosed todos; empty for any thread or name but the running one's."""

    def close(self, watcher_id: str) -> bool:
        """Close a todo of this thread; False for an unknown id. Committed with the outcome."""


class Storage(Protocol):
    """Typed values kept for the running thread, committed with the outcome, gone with the thread."""

    def get(self, kind: type[T], default: T | None = None) -> T | None:
        """Return a new copy of the stored value of exactly this class, or ``default``."""

    def set(self, value: Any) -> None:
        """Store an ``@xmlify`` value under its class.

        Raises ValueError when it is invalid or over the bound, TypeError for a class that the handler's module does
        not name and ``replies:`` does not list.
        """

    def delete(self, kind: type) -> None:
        """Forget the value of this class, if there is one."""

    def append(self, value: Any) -> None:
        """Add an ``@xmlify`` value to the log of its class, after the earlier values. Written once.

        Raises ValueError and TypeError as ``set`` does; all entries count in the bound.
        """

    def log(self, kind: type[T]) -> tuple[T, ...]:
        """Return new copies of the values of exactly this class that were appended and not trimmed, oldest first."""

    def size(self, kind: type) -> int:
        """Count the bytes that the entries of a log take, as ``limits.storage`` does. No entry is looked at."""

    def trim(self, kind: type, keep: int) -> None:
        """Forget all but the latest ``keep`` entries of a log. Raises ValueError for a negative number."""


@dataclass(frozen=True, slots=True)
class Answering:
    """The call that a message answers, among those that this thread has made.

    Args:
        key: the ``idempotency_key`` of the invocation that made the call.
        place: of the call in what that invocation returned, counted from zero; several calls of one broadcast share it.
        refused: the message is the system's refusal of all that the invocation returned, so that nothing was sent;
            ``place`` is then that of the first message in it that was refused.
    """

    key: str
    place: int
    refused: bool = False


class CodeSite(NamedTuple):
    """Place in the source at which a flow sends a message.

    Args:
        to: the listener that it goes to, or ``system.timer``.
        file: path of the file.
        function: its module and qualified name.
        line: number of the line.
    """

    to: str
    file: str
    function: str
    line: int


@dataclass(frozen=True, slots=True)
class Invocation:
    """Running call, as a handler sees it in addition to its two arguments.

    Args:
        metadata: the handler's second argument.
        storage: typed values of this thread.
        todos: of this thread.
        settings: the listener's own, as the YAML has them.
        resources: what the organism's lifespan provides.
        idempotency_key: the same when this invocation is repeated after a failure or a crash.
        attempt: how often it was tried before.
        answering: the call that the message answers; None for a call.
        until: by ``time.monotonic()``: when the invocation has to be over.
        completer: asks language models; None if the organism declares no model.
        teller: receives the texts of ``progress``; None for a listener without ``progress: true``.
        purse: charges priced work to the budgets of the conversation.
        epoch: never smaller than it was for the same conversation before. It grows with each process that the
            conversation goes to, and with each start of a server on a journal: a service that refuses smaller ones is
            safe from an invocation that another process has taken over. 1 where nothing outlives the process.
        delay: receives the messages of ``later``.
        ledger: records external effects; None outside of a server.
        delegate: exchanges the user's token; None outside of a server, and without an identity provider that does so.
        notes: the notes that outlive conversations; None for a listener that keeps none.
        clock: the server's time, in seconds since the epoch; with an engine in a database, the time of its clock.
        stream_answer: begins to show a ready-made agent's answer as it comes, given the name of its text; None outside
            of a server.
        note_site: receives the places in the source at which a flow sends messages; None without spans.
    """

    metadata: HandlerMetadata
    storage: Storage
    todos: Todos
    settings: Any
    resources: Sequence[object]
    idempotency_key: str
    attempt: int
    answering: Answering | None = None
    until: float = 0.0
    completer: Completer | None = None
    teller: Callable[[str], None] | None = None
    purse: Purse | None = None
    epoch: int = 0
    delay: Callable[[DelayedResponse], None] | None = None

    def later(self, response: HandlerResponse, *, after: timedelta) -> None:
        """Send a message after a time, if the invocation ends without an error.

        It is checked twice: with what the handler returns, and when it is sent, by the rules of that time. A refusal
        then comes to this thread. A restart does not lose it; the end of this thread, and its answer to its caller in a
        later invocation, drop it. An answer to the principal cannot be delayed.

        Raises TypeError for anything but a ``HandlerResponse``, ValueError for a time that is negative or over ten
        years.
        """
        if not isinstance(response, HandlerResponse):
            raise TypeError(f"only a HandlerResponse can be sent later, not {type(response).__name__}")
        seconds = after.total_seconds()
        if not 0 <= seconds <= LONGEST_DELAY:
            raise ValueError(f"a message can be sent after 0 seconds to ten years, not after {after}")
        if self.delay is None:
            raise RuntimeError("this invocation was made by hand: no server sends its messages")
        self.delay(DelayedResponse(response.payload, response.to, seconds))

    ledger: EffectLedger | None = None
    stream_answer: Callable[[str], AnswerWriter] | None = None
    delegate: Callable[[str, str], Awaitable[str]] | None = None
    notes: NoteAccess | None = None
    clock: Callable[[], float] = time.time
    note_site: Callable[[CodeSite], None] | None = None

    async def user_token(self, resource: str, *, scope: str = "") -> str:
        """Exchange the user's token for use at another server (RFC 8693).

        Args:
            resource: the address of that server, one of ``identity: exchange: resources:``.
            scope: the scopes to ask for, with one space between two; empty for the provider's default.

        Raises DelegationError if the user has no token here, or its provider refuses.
        """
        from agentserver.delegation import (
            DelegationCode,
            DelegationError,
        )  # every handler imports this module

        if self.delegate is None:
            raise DelegationError(
                DelegationCode.UNCONFIGURED, "no identity provider exchanges tokens here: identity: exchange:"
            )
        return await self.delegate(resource, scope)

    async def effect(self, key: str, *, reconcile: Reconcile | None = None) -> Effect:
        """Claim an external effect, which is then done at most once for this key, listener and conversation.

        Args:
            key: names the effect, 1 to 256 characters.
            reconcile: asks the service about a claim whose outcome is unknown. It returns the answer, or
                ``agentserver.effects.NOT_DONE`` if the effect did not happen.

        Returns: the effect: if ``done``, an earlier attempt did the work and its ``answer`` is recorded.

        Raises EffectUnknown if the outcome is unknown and no hook knows it, RuntimeError if the claim cannot be
        recorded now.
        """
        from agentserver.effects import open_effect  # contract.py is imported by every handler

        return await open_effect(self.ledger, key, reconcile)

    def progress(self, text: str) -> None:
        """Tell the gateway of the request how far the work is, in a line of text.

        Best effort: it is shown or dropped, never kept, and it is no message. Does nothing for a listener without
        ``progress: true``. Raises TypeError for anything but text.
        """
        if self.teller is not None:
            self.teller(text)

    def resource(self, kind: type[T]) -> T:
        """Return the organism's resource of this class. Raises LookupError if the lifespan provides no such one."""
        for candidate in self.resources:
            if isinstance(candidate, kind):
                return candidate
        raise LookupError(f"the organism's lifespan provides no {kind.__name__}")


_running: ContextVar[Callable[[], Invocation] | None] = ContextVar("agentserver_invocation", default=None)


def invocation() -> Invocation:
    """Return the running invocation. Raises RuntimeError outside a handler."""
    current = _running.get()
    if current is None:
        raise RuntimeError("no handler is running in this context")
    return current()


def get_todo_registry() -> Todos:
    """Return the todos of the running invocation, under the contract's name for them."""
    return invocation().todos


run_in = _running.set
"""Bind what gives the running invocation to the present context, which ends with it. For the pump alone."""
