"""Reads async generators that are functions of listeners, and finds the code in which a flow waits.

The texts of a generator are progress, its one value is the answer.
"""

from __future__ import annotations

import sys
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NamedTuple

from agentserver.contract import invocation

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable


async def read_stream(stream: AsyncGenerator[Any, None], name: str) -> Any:
    """Report the texts of a stream as progress, and return the value in it; None without one.

    ``name``: of its function, for errors. Raises TypeError for a second value.
    """
    answer = None
    step = _begin(stream)
    while True:
        try:
            value = await step
        except StopAsyncIteration:
            return answer
        if isinstance(value, str):
            invocation().progress(value)  # that of the present answer: a flow has several
        elif answer is not None:
            raise TypeError(f"{name} yielded a second answer, {type(value).__name__}")
        else:
            answer = value
        step = anext(stream)


def _begin(stream: AsyncGenerator[Any, None]) -> Awaitable[Any]:
    """Take the first step of a stream, which the event loop does not get to know.

    Dropped while it waits for a message, it could not be closed by a task of the loop: it counts as running.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return anext(stream)
    finally:
        sys.set_asyncgen_hooks(*hooks)


class WaitingCode(NamedTuple):
    """Coroutine or stream that waits.

    Args:
        name: qualified, of its function.
        frame: None when it has ended.
    """

    name: str
    frame: Any


def list_waiting(coroutine: Any) -> list[WaitingCode]:
    """List a suspended coroutine and what it waits in, the innermost last."""
    found: list[WaitingCode] = []
    below = coroutine
    while type(below) is CoroutineType:
        found.append(WaitingCode(below.__qualname__, below.cr_frame))
        if below.cr_code is read_stream.__code__ and below.cr_frame is not None:
            stream = below.cr_frame.f_locals["stream"]
            found.append(WaitingCode(stream.__qualname__, stream.ag_frame))
            below = stream.ag_await
        else:
            below = below.cr_await
    return found
