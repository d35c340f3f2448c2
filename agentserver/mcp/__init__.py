"""The Model Context Protocol: tools of its servers as listeners, and an organism as a server of it.

Refuses to know rules: each call is a message, admitted like every other. The library ``mcp`` is an extra, imported when
a server is connected and not before. What a tool answers with where its own schema says nothing is published here.
"""

from __future__ import annotations

from agentserver.payload.foreign.results import ToolData, ToolFailure, ToolLink, ToolResult

__all__ = ["ToolData", "ToolFailure", "ToolLink", "ToolResult"]
