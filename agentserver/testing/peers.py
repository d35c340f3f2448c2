"""Peers that follow a script and record their calls."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from agentserver.contract import HandlerResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentserver.contract import HandlerMetadata, HandlerResult

    Script: TypeAlias = Callable[[Any, HandlerMetadata], Any] | Sequence[Any]


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """Call of a scripted peer."""

    payload: Any
    metadata: HandlerMetadata


class ScriptedPeer:
    """Replacement of a listener's handler.

    Args:
        name: of the listener.
        script: a function of payload and metadata, or one step for each call. A step, or the result of the function,
            is a payload (the answer to the caller), a ``HandlerResponse``, ``bytes``, None, a list of payloads and
            responses, an exception to raise, or for a step a function that returns one of these. Functions may be
            async.
    """

    def __init__(self, name: str, script: Script) -> None:
        self._name = name
        self._script = script if callable(script) else list(script)
        self.calls: list[ScriptedCall] = []
        self.faults: list[AssertionError] = []

    async def __call__(self, payload: Any, metadata: HandlerMetadata) -> HandlerResult:
        """Follow the script. An AssertionError is stored as well.

        The server must not swallow a test's failure.
        """
        self.calls.append(ScriptedCall(payload, metadata))
        try:
            return await self._follow(payload, metadata)
        except AssertionError as fault:
            self.faults.append(fault)
            raise

    async def _follow(self, payload: Any, metadata: HandlerMetadata) -> HandlerResult:
        step: Any = self._script
        if isinstance(step, list):
            if len(self.calls) > len(step):
                raise AssertionError(
                    f"{self._name} was called {len(self.calls)} times; its script has {len(step)}"
                )
            step = step[len(self.calls) - 1]
        if callable(step) and not isinstance(step, BaseException):
            step = step(payload, metadata)
            if inspect.isawaitable(step):
                step = await step
        return _result(step)


def _result(step: Any) -> HandlerResult:
    if isinstance(step, BaseException):
        raise step
    if step is None or isinstance(step, bytes | HandlerResponse):
        return step
    if isinstance(step, list | tuple):
        return [cast("HandlerResponse", _result(each)) for each in step]
    return HandlerResponse.respond(step)
