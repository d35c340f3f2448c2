"""A server that speaks the protocol of 2025, with the library's own first version: ``.ci/old_mcp.py`` installs both."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio.to_thread
import pytest

from agentserver.config.code.tools import lock_path
from agentserver.payload.foreign.results import ToolResult
from tests.mcp.client.projects import Project

OLD = os.environ.get("AGENTSERVER_OLD_MCP")
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(OLD is None, reason="needs .ci/old_mcp.py")]


async def test_a_server_of_the_older_protocol(tmp_path):
    assert OLD is not None
    called = json.dumps([str(Path(OLD).with_name("mcp-server-sqlite")), "--db-path", str(tmp_path / "a.db")])
    project = Project(tmp_path, ("create_table", "write_query", "read_query"), way=f"command: {called}")
    await anyio.to_thread.run_sync(project.lock)
    assert json.loads(await anyio.Path(tmp_path / lock_path("far")).read_text())["protocol"] < "2026"
    async with project.running() as bed:
        await bed.call("create_table", query="CREATE TABLE a (x INTEGER)")
        await bed.call("write_query", query="INSERT INTO a VALUES (7)")
        assert await bed.call("read_query", query="SELECT x FROM a") == ToolResult(text=["[{'x': 7}]"])
        (refused,) = (await bed.call("read_query", query="DROP TABLE a")).text
        assert refused.startswith("Error: ")
