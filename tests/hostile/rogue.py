"""A server of the Model Context Protocol that answers each call with a bomb; run as a program, by hand without the SDK.

``rogue.py`` speaks over its standard streams, ``rogue.py json`` and ``rogue.py sse`` over HTTP on loopback, at a port that
they print. The name of the tool that is called names the bomb.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PART = b'{"type":"text","text":""}'
RESULTS = {
    "invalid": b'{"content":[' + b",".join([b"{}"] * 800_000) + b"]}",
    "invalid_within_limits": b'{"content":[' + b",".join([b"{}"] * 45_000) + b"]}",
    "valid": b'{"content":[' + b",".join([PART] * 600_000) + b"]}",
    "deep": b'{"content":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "twice": b'{"content":[],"content":[]}',
    "fine": b'{"content":[{"type":"text","text":"well"}]}',
}
"""Results by the tool that gives them."""

SCHEMA = {"type": "object", "properties": {}}


def answer_message(data):
    """The answer to a message; None for a notification."""
    asked = json.loads(data)
    if "id" not in asked:
        return None
    head = b'{"jsonrpc":"2.0","id":%d,' % asked["id"]
    if asked["method"] == "tools/call":
        return head + b'"result":' + RESULTS[asked["params"]["name"]] + b"}"
    if asked["method"] == "tools/list":
        tools = [{"name": name, "description": "Answers.", "inputSchema": SCHEMA} for name in RESULTS]
        return head + b'"result":' + json.dumps({"tools": tools}).encode() + b"}"
    if asked["method"] == "initialize":
        info = {"name": "rogue", "version": "1"}
        said = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        return head + b'"result":' + json.dumps(said).encode() + b"}"
    return head + b'"error":{"code":-32601,"message":"no"}}'


def over_streams():
    for line in sys.stdin.buffer:
        answer = answer_message(line)
        if answer is not None:
            sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.buffer.flush()


class Handler(BaseHTTPRequestHandler):
    """One request over HTTP."""

    kind = "json"

    def do_POST(self):
        answer = answer_message(self.rfile.read(int(self.headers["content-length"])))
        if answer is None:
            self.answer(202, "application/json", b"")
        elif self.kind == "sse":
            self.answer(200, "text/event-stream", b"event: message\ndata: %b\n\n" % answer)
        else:
            self.answer(200, "application/json", answer)

    def do_GET(self):
        self.answer(405, "text/plain", b"")

    def answer(self, status, kind, data):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Say nothing."""


def main(kind=""):
    if not kind:
        over_streams()
        return
    Handler.kind = kind
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
