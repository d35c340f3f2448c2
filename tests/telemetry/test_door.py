"""At the door: a traceparent of a caller's is a link, and operators and viewers read metrics."""

from __future__ import annotations

import subprocess
import sys

import httpx
import pytest
from click.testing import CliRunner

from agentserver.cli import cli
from tests.machine import HANGS, PLAIN
from tests.telemetry.collector import collect_spans

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
HANDLERS = """
from dataclasses import dataclass
from agentserver import HandlerMetadata, HandlerResponse, xmlify

@xmlify
@dataclass(frozen=True)
class Ask:
    text: str

@xmlify
@dataclass(frozen=True)
class Said:
    text: str

async def greet(payload: Ask, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Said("hello " + payload.text))
"""
YAML = """
name: shop
http: {bind: '127.0.0.1:0'}
listeners:
  - {name: greeter, description: Greets., handler: telemetry_door_handlers.greet}
"""


@pytest.fixture
def home(tmp_path):
    (tmp_path / "telemetry_door_handlers.py").write_text(HANDLERS)
    (tmp_path / "organism.yaml").write_text(YAML)
    return tmp_path


def token(home, name, role, *may):
    words = ["principals", "add", name, "--role", role, *may, "--organism", str(home / "organism.yaml")]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return {"Authorization": f"Bearer {done.stdout.split()[-1]}"}


def test_a_server_at_its_door_is_measured_and_linked(home, monkeypatch):
    ada, vera = token(home, "ada", "user", "--may", "greeter"), token(home, "vera", "viewer")
    with collect_spans() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        command = [sys.executable, "-m", "agentserver", "serve", "organism.yaml"]
        with subprocess.Popen(command, cwd=home, stderr=subprocess.PIPE, text=True) as serving:
            try:
                url = next(line for line in serving.stderr if "http://" in line).split()[-1]
                with httpx.Client(base_url=url, timeout=HANGS, verify=PLAIN) as client:
                    made = client.post("/v1/conversations", headers=ada).json()["conversation"]
                    answer = client.post(
                        f"/v1/conversations/{made}/messages?to=greeter",
                        headers={**ada, "traceparent": GOOD, "Content-Type": "application/json"},
                        json={"text": "ada"},
                    )
                    assert answer.status_code == 200, answer.text
                    metrics = client.get("/metrics", headers=vera)
                    refused = client.get("/metrics", headers=ada)
            finally:
                serving.terminate()
            log = serving.stderr.read()
        assert (serving.returncode, log) == (0, "")
        (root,) = [span for span in collector.spans if not span.parent_span_id]
    assert [f"00-{one.trace_id.hex()}-{one.span_id.hex()}-01" for one in root.links] == [GOOD]
    assert root.trace_id.hex() != GOOD[3:35]
    assert 'agentserver_deliveries_total{listener="greeter",result="handled"} 1.0' in metrics.text
    assert "agentserver_spans_lost_total 0.0" in metrics.text
    assert (metrics.status_code, refused.status_code) == (200, 403)
    assert serving.returncode == 0
