"""Requests that a flow awaits. Each passes through the event loop's ``await`` to the runner of the flow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import SystemRandom
from typing import Any, Generic, TypeVar, cast, overload
from uuid import UUID, uuid4

T = TypeVar("T")


class FlowRequest(Awaitable[T], Generic[T]):
    """Request of a flow to its runner."""

    def __await__(self) -> Generator[FlowRequest[T], T, T]:
        """Pass the request to the runner, and return its answer."""
        return (yield self)


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
class ValueRequest(FlowRequest[Any]):
    """Value that differs between two runs: it is made once, and then read from the log.

    Args:
        name: in the log.
        make: makes the value, which JSON has to hold.
        read: converts what JSON gives back.
    """

    name: str
    make: Callable[[], Any]
    read: Callable[[Any], Any] = lambda value: value


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


def once(function: Callable[..., Any], *arguments: Any) -> FlowRequest[Any]:
    """Call a function whose result is kept, so that it is not called again when the flow is.

    The only place of a flow for files, sockets and other services. The result is committed with the messages that the
    flow sends next: after a crash before that, the function is called once more. Pass
    ``invocation().idempotency_key`` to a service that recognises a repeated call.

    Args:
        function: a function or an async function.
        arguments: of the call.

    Returns: its result, as JSON gives it back (a tuple is a list).

    Raises, when awaited:
        FlowError: JSON cannot hold the result.
        Exception: what the function raises. It is not kept: the function is called again.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return ValueRequest(f"once {name}", lambda: function(*arguments))


def now() -> FlowRequest[datetime]:
    """Read the time, in UTC."""
    return cast(
        "FlowRequest[datetime]",
        ValueRequest("now", lambda: datetime.now(UTC).isoformat(), datetime.fromisoformat),
    )


def uuid() -> FlowRequest[UUID]:
    """Draw a random UUID."""
    return cast("FlowRequest[UUID]", ValueRequest("uuid", lambda: str(uuid4()), UUID))


def random() -> FlowRequest[float]:
    """Draw a random number from 0 up to 1."""
    return cast("FlowRequest[float]", ValueRequest("random", SystemRandom().random))


async def run_part(part: Awaitable[T]) -> T:
    """Await a part of ``gather`` as a coroutine."""
    return await part


FlowCoroutine = Coroutine[Any, Any, Any]
"""A running flow, or a part of one."""
