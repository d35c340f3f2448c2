"""The MCP server over HTTP: answers to invalid requests of a host."""

from __future__ import annotations

import shutil

import pytest

from tests.gateways.http.desk import person
from tests.mcp.serving.behind import serve_behind
from tests.mcp.serving.test_protocol import DESK

pytestmark = pytest.mark.anyio

NOT_JSON = (-32700, "The body is not JSON.")
NO_REQUEST = (-32600, "The body is not one JSON-RPC 2.0 request or notification.")


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (b"", NOT_JSON),
        (b"{", NOT_JSON),
        (b"\xff", NOT_JSON),
        (b"[]", NO_REQUEST),
        (b"null", NO_REQUEST),
        (b'{"a secret of the host": "hunter22"}', NO_REQUEST),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "tools/list"}', NO_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": 5}', NO_REQUEST),
    ],
)
async def test_an_invalid_body_is_refused_with_a_message_of_the_server(tmp_path, body, refusal):
    home = tmp_path / "desk"
    shutil.copytree(DESK, home, ignore=shutil.ignore_patterns("__pycache__"))
    heads = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    async with serve_behind(home, person("ada")) as here, here.http() as http:
        answer = await http.post("/mcp", content=body, headers=heads)
        assert answer.status_code == 400
        assert len(answer.content) == int(answer.headers["content-length"])
        found = answer.json()
        assert (found["jsonrpc"], found["id"]) == ("2.0", None)
        assert (found["error"]["code"], found["error"]["message"]) == refusal
