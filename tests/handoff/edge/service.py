"""A local server that speaks the managed agents' protocol: sessions, their history, their event stream, sending."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tests.machine import HANGS

START = datetime(2026, 7, 2, tzinfo=UTC)


@dataclass
class Connection:
    """What one connection to a stream does: events by index into the log, then how it ends."""

    events: list
    ends: str = "close"  # close, open (nothing more comes), cut (within an event), status (no stream at all)
    status: int = 200
    headers: dict = field(default_factory=dict)
    happens: list = field(default_factory=list)  # what happens after the stream is open, unseen by it


class Service:
    """The state of the fake: one source session with a script, any number of targets."""

    def __init__(self):
        self.history = []
        self.script = []
        self.sent = []
        self.created = []
        self.refusals = []  # (status, headers) for the next sends
        self.listed = []
        self.opened = []
        self.counter = 0
        self.over_now = threading.Event()

    def event(self, kind, **members):
        self.counter += 1
        at = (START + timedelta(seconds=self.counter)).isoformat()
        return {"id": f"sevt_{self.counter:04}", "type": kind, "processed_at": at, **members}

    def message(self, text):
        return self.event("agent.message", content=[{"type": "text", "text": text}])

    def call(self, arguments, name="handoff_request"):
        return self.event("agent.custom_tool_use", name=name, input=arguments)

    def idle(self):
        return self.event("session.status_idle", stop_reason={"type": "end_turn"})

    def over(self):
        return self.event("session.status_terminated")


def delta(identity, text):
    content = {"type": "content_delta", "index": 0, "content": {"type": "text", "text": text}}
    return {"type": "event_delta", "event_id": identity, "delta": content}


def begin_event(identity):
    return {"type": "event_start", "event": {"type": "agent.message", "id": identity}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def service(self) -> Service:
        return self.server.service

    def do_GET(self):
        url = urlsplit(self.path)
        assert self.headers["anthropic-beta"].startswith("managed-agents-")
        if url.path.endswith("/events/stream"):
            self.stream(parse_qs(url.query))
        else:
            self.list(parse_qs(url.query))

    def list(self, query):
        self.service.listed.append(query)
        events = [
            event for event in self.service.history if event["type"] not in {"event_delta", "event_start"}
        ]
        since = query.get("created_at[gte]", query.get("created_at_gte", [""]))[0]
        if since:
            wanted = datetime.fromisoformat(since)
            events = [event for event in events if datetime.fromisoformat(event["processed_at"]) >= wanted]
        if query.get("order") == ["desc"]:
            events = events[::-1]
        limit = int(query.get("limit", ["2"])[0])
        first = int(query.get("page", ["0"])[0])
        page = events[first : first + limit]
        more = str(first + limit) if first + limit < len(events) else None
        self.answer(200, {"data": page, "next_page": more})

    def stream(self, query):
        self.service.opened.append(query)
        plan = self.service.script.pop(0)
        if plan.ends == "status":
            self.answer(plan.status, {"type": "error", "error": {"type": "x", "message": "x"}}, plan.headers)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.service.history.extend(plan.happens)
        for event in plan.events:
            if event not in self.service.history:
                self.service.history.append(event)
            self.chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n")
        if plan.ends == "open":
            self.service.over_now.wait(HANGS)
        if plan.ends == "cut":
            self.chunk('event: agent.message\ndata: {"id": "sevt_')
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, text):
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.service.refusals:
            status, headers = self.service.refusals.pop(0)
            if status == 0:
                self.close_connection = True
                self.connection.close()
                return
            self.answer(status, {"type": "error", "error": {"type": "x", "message": "x"}}, headers)
            return
        path = urlsplit(self.path).path
        if path == "/v1/sessions":
            self.service.created.append(body)
            self.answer(200, {"id": "sesn_new", "type": "session"})
            return
        self.service.sent.append((path.split("/")[3], body["events"]))
        self.answer(200, {"data": []})

    def answer(self, status, body, headers=None):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


@contextmanager
def serve_fake():
    """A running fake and a client of the real SDK that talks to it."""
    import anthropic

    server = Quiet(("127.0.0.1", 0), Handler)
    server.service = Service()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with anthropic.Anthropic(
            api_key="key", base_url=f"http://127.0.0.1:{server.server_address[1]}", max_retries=0
        ) as client:
            yield server.service, client
    finally:
        server.service.over_now.set()
        server.shutdown()
        thread.join()
        server.server_close()
