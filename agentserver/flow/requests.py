"""Requests that a flow awaits. Each passes through the event loop's ``await`` to the runner of the flow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar, cast, overload
from uuid import UUID

from agentserver.contract import LONGEST_DELAY, SetTimer, TimerFired
from agentserver.flow.errors import FlowError

T = TypeVar("T")

TIMER: Final = "system.timer"
"""The service that flows ask to wake them."""


_REFUSED_BY_TASKS: Final = ("Task got bad yield", "a task cannot wait for")
"""Beginnings of what tasks raise for a request: those of asyncio, and those in which handlers run."""

_OUTSIDE: Final = (
    "a message is awaited outside of its flow, in a task of its own or in a function of once: use gather of "
    "agentserver.flow, and ask before or after once"
)


class FlowRequest(Generic[T]):
    """Request of a flow to its runner.

    It is awaitable without the abstract class, whose check of instances costs more than a step of the runner.
    """

    __slots__ = ()

    def __await__(self) -> Generator[FlowRequest[T], T, T]:
        """Pass the request to the runner, and return its answer. Raises FlowError outside of the flow."""
        try:
            return (yield self)
        except RuntimeError as error:
            if str(error).startswith(_REFUSED_BY_TASKS):
                raise FlowError(_OUTSIDE) from None
            raise


@dataclass(frozen=True, slots=True)
class AskRequest(FlowRequest[Any]):
    """Message whose answer the flow waits for, or, with ``waits`` false, only its sending."""

    to: str
    payload: Any
    reply: type | None = None
    waits: bool = True


@dataclass(frozen=True, slots=True)
class GatherRequest(FlowRequest[tuple[Any, ...]]):
    """Requests and coroutines to wait for together."""

    parts: tuple[Awaitable[Any], ...]


@dataclass(frozen=True, slots=True)
class WaitRequest(FlowRequest[Any]):
    """Request or coroutine to wait for, and the longest time for it in seconds."""

    part: Awaitable[Any]
    seconds: float


@dataclass(frozen=True, slots=True)
class ValueRequest(FlowRequest[Any]):
    """Value that differs between two runs: it is made once, and then read from the log.

    Args:
        name: in the log.
        make: makes the value, which JSON has to hold, of a seed and the server's time in seconds since the epoch. The
            seed is the same if the process ends before the value is recorded and the flow is run again.
        read: converts what JSON gives back.
    """

    name: str
    make: Callable[[str, float], Any]
    read: Callable[[Any], Any] = lambda value: value


@dataclass(frozen=True, slots=True)
class OnceRequest(FlowRequest[Any]):
    """External effect, which the ledger of the conversation records.

    Args:
        name: in the log.
        function: does the work with the arguments.
        arguments: of the function, and of the hook.
        reconcile: asks the service about an effect with an unknown outcome; None without a hook.
        trusted: whether the answer is the organism's own.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    reconcile: Callable[..., Any] | None = None
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class ChangedRequest(FlowRequest[bool]):
    """Question whether a run has come here under changed code. ``name`` is that of the change."""

    name: str


@overload
def ask(to: str, payload: Any) -> FlowRequest[Any]: ...
@overload
def ask(to: str, payload: Any, reply: type[T]) -> FlowRequest[T]: ...
def ask(to: str, payload: Any, reply: type | None = None) -> FlowRequest[Any]:
    """Send a message to a peer and wait for its answer.

    Args:
        to: name of the listener.
        payload: an ``@xmlify`` value.
        reply: the class of the answer; None for any.

    Returns: the payload of the answer.

    Raises, when awaited:
        Refused: the message was refused, or its listener failed. ``Denied`` and ``TimedOut`` are kinds of it.
        WrongReplyError: the answer is of another class.
    """
    return AskRequest(to, payload, reply)


def tell(to: str, payload: Any) -> FlowRequest[None]:
    """Send a message to a peer. It is sent when the flow next waits, or ends; an answer to it is dropped."""
    return AskRequest(to, payload, waits=False)


def gather(*parts: Awaitable[Any]) -> FlowRequest[tuple[Any, ...]]:
    """Wait for several requests or coroutines at once.

    Returns: their results, in order.

    Raises, when awaited: the first exception of a part, once all parts have ended.
    """
    return GatherRequest(parts)


def sleep(time: timedelta) -> FlowRequest[None]:
    """Wait for a time. It costs no memory, and a restart does not lose it.

    Raises ValueError for a time that is negative or over ten years.
    """
    return AskRequest(TIMER, SetTimer(_to_seconds(time)), TimerFired)


def wait_for(part: Awaitable[T], timeout: timedelta) -> FlowRequest[T]:
    """Wait for a request or a coroutine, but no longer than a time.

    Args:
        part: an ``ask`` or a coroutine that awaits requests.
        timeout: the longest time.

    Returns: its result. An answer that comes later is dropped.

    Raises, when awaited: ``TimedOut`` after that time; the coroutine is closed then, and may await nothing more.
    Raises ValueError as ``sleep`` does.
    """
    return WaitRequest(part, _to_seconds(timeout))


def _to_seconds(time: timedelta) -> float:
    seconds = time.total_seconds()
    if not 0 <= seconds <= LONGEST_DELAY:
        raise ValueError(f"a flow can wait from 0 seconds to ten years, not {time}")
    return seconds


@overload
def once(
    function: Callable[..., Coroutine[Any, Any, T]],
    *arguments: Any,
    reconcile: Callable[..., Any] | None = None,
    trusted: bool = False,
) -> FlowRequest[T]: ...
@overload
def once(
    function: Callable[..., T],
    *arguments: Any,
    reconcile: Callable[..., Any] | None = None,
    trusted: bool = False,
) -> FlowRequest[T]: ...
def once(
    function: Callable[..., Any],
    *arguments: Any,
    reconcile: Callable[..., Any] | None = None,
    trusted: bool = False,
) -> FlowRequest[Any]:
    """Call a function that acts outside of the server, at most once.

    The only place of a flow for files, sockets and other services. The ledger of the conversation records the claim
    before the call and the result after it. If the process ends between the two, or the function fails, the outcome is
    unknown: the function is not called again unless ``reconcile`` or an operator says that nothing happened.

    Args:
        function: an async function, or a function, which is called in a thread. It raises ``NotDone`` if it certainly
            did nothing.
        arguments: of the call.
        reconcile: called with the arguments if the outcome is unknown. It returns the result, or ``NOT_DONE``.
        trusted: whether the result is the organism's own. The ledger labels other results as untrusted text.

    Returns: the result, of the type that the function declares to return; without a type as JSON
        holds it: a dataclass is a dict, a Decimal a text.

    Raises, when awaited:
        EffectUnknown: the outcome is unknown; its cause is what the function raised.
        NotDone: the function raised it.
        FlowError: the declared type cannot be kept, and the function was not called; or the result cannot.
        RuntimeError: the server cannot record the claim now.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return OnceRequest(f"once {name}", function, arguments, reconcile, trusted)


def changed(name: str) -> FlowRequest[bool]:
    """Check whether this run of a flow takes the changed branch of its code.

    A run that passed this point before the change was deployed takes the old one whenever it is run again from its log:
    its record has no answer here. Any other run takes the new one, which is recorded. Both branches stay in the code
    until no earlier run waits.

    Args:
        name: of the change, unique in the flow.
    """
    return ChangedRequest(name)


def now() -> FlowRequest[datetime]:
    """Read the server's time, in UTC: that of the clock by which timers are due."""
    return cast(
        "FlowRequest[datetime]",
        ValueRequest(
            "now", lambda _, at: datetime.fromtimestamp(at, UTC).isoformat(), datetime.fromisoformat
        ),
    )


def uuid() -> FlowRequest[UUID]:
    """Draw a UUID. It is unique, not secret."""
    return cast(
        "FlowRequest[UUID]",
        ValueRequest("uuid", lambda seed, _: str(UUID(bytes=_draw(seed), version=4)), UUID),
    )


def random() -> FlowRequest[float]:
    """Draw a number from 0 up to 1. It is not secret."""
    return cast(
        "FlowRequest[float]", ValueRequest("random", lambda seed, _: int.from_bytes(_draw(seed)[:6]) / 2**48)
    )


def _draw(seed: str) -> bytes:
    return sha256(seed.encode()).digest()[:16]


async def run_part(part: Awaitable[T]) -> T:
    """Await a part of ``gather`` as a coroutine."""
    return await part


FlowCoroutine = Coroutine[Any, Any, Any]
"""A running flow, or a part of one."""
