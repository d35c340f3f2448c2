"""Coroutines that are begun by their caller, so that one that need not wait costs no task, no timer and no shield."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


def begin(work: Coroutine[Any, Any, T]) -> T | Coroutine[Any, Any, T]:
    """Run a coroutine until it first waits. Returns its result, or an awaitable of the rest.

    A coroutine that does not wait cannot be cancelled, so it needs no shield. One that waits may have no cancel scope
    open at that point: the rest may run in another scope, or in another task.

    Raises what the work raises.
    """
    try:
        pending = work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    return _rest(work, pending)


async def _rest(work: Coroutine[Any, Any, T], pending: object) -> T:
    return await _Rest(work, pending)


class _Rest(Awaitable[T]):
    """Coroutine after its first step."""

    __slots__ = ("_pending", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], pending: object) -> None:
        self._work = work
        self._pending = pending

    def __await__(self) -> Generator[Any, Any, T]:
        work, pending = self._work, self._pending
        try:
            while True:
                try:
                    value = yield pending
                except GeneratorExit:
                    work.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - handed to the work, as ``yield from`` would
                    pending = work.throw(error)
                else:
                    pending = work.send(value)
        except StopIteration as end:
            result: T = end.value
            return result
