"""The one place where user code is called: handlers, and what they bring along in their payloads.

Owns the deadline, the running invocation and what becomes of a crash. Refuses to know what follows from a result.
"""

from __future__ import annotations

import asyncio
import logging
import math
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio

from agentserver.contract import Code, HandlerMetadata, HandlerResult, Invocation, Running
from agentserver.core.effects import ThreadStorage, ThreadTodos, collect
from agentserver.core.messages import Failed, Finished, Returned
from agentserver.core.replies import normalise

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from agentserver.core.blueprint import Listener
    from agentserver.core.decisions import Accepted
    from agentserver.core.guard import Rules

    Handler: TypeAlias = Callable[[Any, HandlerMetadata], Awaitable[HandlerResult]]

T = TypeVar("T")

logger = logging.getLogger("agentserver.pump")


@dataclass(frozen=True, slots=True)
class Bound:
    """A listener with the code behind it and the settings that the code reads."""

    listener: Listener
    handler: Handler
    settings: object | None = None


class Invoker:
    """Calls handlers. Knows which threads have one running, so that it can be stopped.

    Args:
        rules: codecs and bounds for what handlers store.
        resources: what the organism's lifespan provides.
    """

    def __init__(self, rules: Rules, resources: Sequence[object]) -> None:
        self._rules = rules
        self._resources = resources
        self._scopes: dict[str, anyio.CancelScope] = {}

    def cancel(self, thread: str) -> None:
        """Stop whatever runs on a thread; its result is void."""
        scope = self._scopes.pop(thread, None)
        if scope is not None:
            scope.cancel()

    async def call(self, bound: Bound, accepted: Accepted) -> Finished | None:
        """Await the handler under its deadline. None when its thread was closed meanwhile.

        A missed deadline comes back as a value, and so does a crash, be it of the payload's constructor, of the
        handler, or of what it returned.
        """
        delivery, listener = accepted.delivery, bound.listener
        result: Returned | Failed | None = None
        scope = anyio.CancelScope(deadline=asyncio.get_running_loop().time() + listener.deadline)
        self._scopes[delivery.thread] = scope
        with scope:
            result = await self._run(bound, accepted)
        if self._scopes.pop(delivery.thread, None) is not scope:
            return None
        # A handler that shrugged off its cancellation is late all the same.
        if result is None or scope.cancel_called:
            result = Failed(Code.TIMEOUT, f"no result within {listener.deadline:g} s")
        return Finished(delivery, accepted.element, result)

    async def _run(self, bound: Bound, accepted: Accepted) -> Returned | Failed:
        limits = self._rules.blueprint.limits
        storage = ThreadStorage(accepted.storage, self._rules.codecs, self._rules.bounds, limits.storage)
        todos = ThreadTodos(accepted.delivery.thread, bound.listener.name, accepted.todos)
        invocation = Invocation(
            accepted.metadata,
            storage,
            todos,
            bound.settings,
            self._resources,
            accepted.delivery.id,
            accepted.delivery.attempt,
        )
        try:
            with Running(invocation):
                payload = accepted.codec.decode(accepted.element)
                value = await _unharmed(bound.handler(payload, accepted.metadata))
                said = normalise(value, self._rules.codecs, self._rules.bounds)
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - one of the two places that turn any exception into a value
            return _crashed(accepted, error)
        return said if isinstance(said, Failed) else Returned(said, collect(storage, todos))


async def _unharmed(handling: Awaitable[T]) -> T:
    """Await a handler. A cancellation that it aims at its own task is its crash and must not end the worker."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        value = await handling
        if task.cancelling() > before:
            await asyncio.sleep(0)  # lets one that is still on its way arrive here
    except asyncio.CancelledError:
        if anyio.current_effective_deadline() == -math.inf:
            raise  # the deadline has passed, the thread was closed, or the server stops
        while task.cancelling() > before:
            task.uncancel()
        raise RuntimeError("the handler cancelled its own task") from None
    return value


def _crashed(accepted: Accepted, error: BaseException) -> Failed:
    delivery = accepted.delivery
    logger.warning(
        "%s crashed",
        delivery.to,
        exc_info=error,
        extra={"conversation": delivery.conversation, "thread_id": delivery.thread},
    )
    return Failed(Code.INTERNAL, told(error))


def told(error: BaseException) -> str:
    """An exception in words. Its own repr() and str() may raise as well; this expects it."""
    return "".join(traceback.format_exception_only(error)).strip()
