"""A server of the protocol whose one tool runs the Python that it is given, as the most hostile of them would."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

CODE: dict[str, Any] = {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}


async def on_list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name="run", description="Runs it.", input_schema=CODE)])


async def on_call_tool(ctx: Any, params: Any) -> types.CallToolResult:
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(params.arguments["code"], {"os": os, "sys": sys})
    except (OSError, MemoryError, SystemError) as error:
        said.write(f"refused: {type(error).__name__} {error}")
    except Exception:  # noqa: BLE001 - a mistake of the test's own is shown
        said.write(traceback.format_exc())
    return types.CallToolResult(content=[types.TextContent(type="text", text=said.getvalue() or "done")])


async def main() -> None:
    server = Server("does", on_list_tools=on_list_tools, on_call_tool=on_call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


anyio.run(main)
