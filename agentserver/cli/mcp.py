"""``agentserver mcp``: the servers whose tools an organism uses, and the organism as such a server.

Owns the group; each of its commands is a module beside it.
"""

from __future__ import annotations

import click

command = click.Group(
    "mcp",
    short_help="Lock the tools of MCP servers; serve as one.",
    help="The Model Context Protocol: servers whose tools are listeners, and the organism as a server of tools.",
)
