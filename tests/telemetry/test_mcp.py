"""A trace continues across the Model Context Protocol: named in outgoing calls, and a link in served ones."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from agentserver.assembly import build
from tests.mcp.client.projects import Project
from tests.telemetry.collector import collect_spans

pytestmark = pytest.mark.anyio
DESK = Path(__file__).parents[1] / "fixtures" / "mcp_desk"
BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"


def call_organism(tmp_path, endpoint):
    """An organism whose listener is a tool of another organism; both tell the same collector."""
    home = tmp_path / "desk"
    shutil.copytree(DESK, home, ignore=shutil.ignore_patterns("__pycache__"))
    serve = ["-m", "agentserver", "mcp", "serve", str(home / "organism.yaml")]
    (tmp_path / "near").mkdir()
    way = f"command: {json.dumps([sys.executable, *serve])}\n    env: [{BASE}]"
    project = Project(tmp_path / "near", ["web"], way)
    project.environ[BASE] = endpoint
    project.lock()
    return project


async def test_the_request_at_a_server_of_ours_is_linked_to_the_call_of_a_client_of_ours(tmp_path):
    with collect_spans() as collector:
        project = await anyio.to_thread.run_sync(call_organism, tmp_path, collector.endpoint)
        organism = await anyio.to_thread.run_sync(project.load)
        payload = next(
            each.listener.payloads[0] for each in organism.listeners if each.listener.name == "far.web"
        )
        async with build(organism) as server:  # the test kit sends no spans
            handle = await server.open("ada")
            await handle.ask(server.rules.codecs.of(payload).encode(payload(page="x")).encode(), "far.web")
        spans = {span.name: span for span in collector.told().values()}
    near, far = spans["execute_tool far.web"], spans["invoke_workflow desk"]
    served = spans["execute_tool web"]
    roots = [span for span in collector.told().values() if not span.parent_span_id]
    linked = [link for span in roots for link in span.links]
    assert [(link.trace_id, link.span_id) for link in linked] == [(near.trace_id, near.span_id)]
    assert served.trace_id != near.trace_id
    assert far.name.endswith("desk")
