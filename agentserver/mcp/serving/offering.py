"""An organism with what it offers to hosts.

Owns how the parts of this package meet. Refuses to know how hosts are reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from agentserver.core.state.principals import Principal, weaker
from agentserver.extras import find_version
from agentserver.mcp.serving.calls import Calls
from agentserver.mcp.serving.rooms import McpHost, Rooms
from agentserver.mcp.serving.tools import ServedTool, tools_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server.lowlevel import Server

    from agentserver.core.state.principals import Trust


RELEASE: Final = find_version() or "from a checkout"
"""The release of agentserver, as hosts see it: found once, since it is read from a disk."""


class Offered(Protocol):
    """The keys of ``mcp_server:``, as ``McpServing`` of config holds them."""

    @property
    def expose(self) -> tuple[str, ...]:
        """The listeners that are tools, in order."""
        ...

    @property
    def trust(self) -> Trust:
        """The weight of a host's words."""
        ...

    @property
    def approvals(self) -> str:
        """Address of the page of an approval, without its id."""
        ...

    @property
    def deadline(self) -> float:
        """Seconds for which a host waits for a call."""
        ...


@dataclass(frozen=True, slots=True)
class Offering:
    """An organism with what it offers to hosts.

    Args:
        server: which runs by the time that a host calls.
        offered: the keys of the organism.
        tools: by name, in order.
        rooms: the conversations of its hosts.
    """

    server: McpHost
    offered: Offered
    tools: Mapping[str, ServedTool]
    rooms: Rooms

    @classmethod
    def of(cls, server: McpHost, offered: Offered, most: Callable[[], int | None] = lambda: None) -> Self:
        """The offering of an organism. Raises ValueError for what cannot be a tool.

        Args:
            server: which runs by the time that a host calls.
            offered: the keys of the organism.
            most: conversations that the principal of the host whose request is served may have open.
        """
        return cls(server, offered, tools_of(server.rules, offered.expose), Rooms(server, most))

    def protocol(self, who: Callable[[], Principal], name: str) -> Server[Any]:
        """The SDK's server, for hosts of whom the transport knows whose they are.

        Args:
            who: the principal of the host whose request is served. Its words count for no more than ``trust:`` says.
            name: of the server, as hosts see it.
        """
        from agentserver.mcp.serving.protocol import Offer, protocol_server  # the SDK is an extra

        offered, rules = self.offered, self.server.rules
        calls = Calls(self.server, self.rooms, offered.deadline)

        def known() -> Principal:
            own = who()
            may = tuple(each for each in offered.expose if own.may is None or each in own.may)
            return Principal(own.name, weaker(own.trust, offered.trust), may)

        limits = rules.blueprint.limits
        return protocol_server(
            Offer(name, rules, self.tools, calls, known, offered.approvals, limits.approval, RELEASE)
        )
