"""The Model Context Protocol: tools of its servers as listeners, and an organism as a server of it.

Each call is a message and passes the same rules. The library ``mcp`` is an extra, imported when a server is connected
and not before. The default payloads of tools without an output schema are published here.
"""

from __future__ import annotations

from agentserver.payload.foreign.results import ToolData, ToolFailure, ToolLink, ToolResult

__all__ = ["ToolData", "ToolFailure", "ToolLink", "ToolResult"]
