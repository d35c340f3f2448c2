"""A handler of functions without a memory."""

from __future__ import annotations

from agentserver.flow.handler import FlowHandler


class Forgetful(FlowHandler):
    """Drops each flow from memory, so that it is run again from its log at each answer."""

    def keep(self, now, runner):
        runner.close()
