"""Flows that a test runs again at each answer, so that a difference fails the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from agentserver.flow.errors import DivergedError
from agentserver.flow.handler import FlowHandler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.contract import Invocation
    from agentserver.flow.lines import FlowLine
    from agentserver.flow.runner import FlowRunner
    from agentserver.payload.codec import Codecs


class RepeatedFlow(FlowHandler):
    """Handler that keeps no flow in memory: each answer runs the flow again from its record, as after a restart."""

    faults: list[AssertionError]

    @classmethod
    def make(cls, handler: FlowHandler, faults: list[AssertionError]) -> Self:
        """Make a repeated flow from a handler. ``faults`` gets each difference."""
        made = cls(handler.run, handler.codecs, handler.earlier)
        made.faults = faults
        return made

    def bind(self, codecs: Codecs, earlier: FlowHandler | None = None) -> Self:
        """Return the handler for one server."""
        made = type(self)(self.run, codecs, earlier)
        made.faults = self.faults
        return made

    def keep(self, now: Invocation, runner: FlowRunner) -> None:
        """Drop a waiting flow."""
        del now
        runner.close()

    async def rerun(self, lines: Sequence[FlowLine]) -> FlowRunner:
        """Run a flow to the end of its log. Raises FlowError."""
        try:
            return await super().rerun(lines)
        except DivergedError as error:
            self.faults.append(AssertionError(f"a flow differs when it is run again: {error}"))
            raise
