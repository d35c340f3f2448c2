"""The port to handlers that are not in this process.

Owns its shape. Refuses to know where they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agentserver.contract import Invocation
    from agentserver.core.decide.decisions import Accepted
    from agentserver.core.messages import Failed, Returned


class Remote(Protocol):
    """Calls a handler that is not in this process."""

    async def call(self, accepted: Accepted, current: Invocation) -> Returned | Failed:
        """Let it handle a delivery. A failure of any kind is a value; being cancelled ends the call.

        Args:
            accepted: the delivery.
            current: what a handler of this process would have in reach.
        """
        ...
