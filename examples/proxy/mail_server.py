"""An MCP server with one tool, which sends a mail: here into the file that MAILBOX names."""

from __future__ import annotations

import json
import os
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("mail", version="1")


@server.tool()
def send(to: str, body: str) -> str:
    """Send a mail to one address."""
    with Path(os.environ["MAILBOX"]).open("a", encoding="utf-8") as box:
        box.write(json.dumps({"to": to, "body": body}) + "\n")
    return f"sent to {to}"


if __name__ == "__main__":
    server.run("stdio")
