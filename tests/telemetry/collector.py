"""A collector of OpenTelemetry, as a test needs one: it takes OTLP over HTTP, or behaves badly."""

from __future__ import annotations

import gzip
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.machine import HANGS


class Collector(ThreadingHTTPServer):
    """Keeps the spans and metrics that it is sent."""

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), _Handler)
        self.spans, self.resources, self.headers = [], [], []
        self.metrics, self.scopes, self.logs = {}, [], []
        self.status, self.answer, self.held = 200, b"", threading.Event()
        self.held.set()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def told(self):
        """Each span once, by its id."""
        return {span.span_id: span for span in self.spans}

    def handle_error(self, request, client_address):
        """A client that goes before it is answered is no error of a test."""


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.held.wait(HANGS)
        self.server.headers.append((self.path, dict(self.headers)))
        if self.server.status == 200:
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            if self.path.endswith("/metrics"):
                self._measured(ExportMetricsServiceRequest.FromString(body))
                body = b""
            if self.path.endswith("/logs"):
                told = ExportLogsServiceRequest.FromString(body).resource_logs
                self.server.logs += [
                    log for each in told for scope in each.scope_logs for log in scope.log_records
                ]
                body = b""
            for each in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.server.resources.append(
                    {pair.key: pair.value.string_value for pair in each.resource.attributes}
                )
                self.server.scopes += [scope.scope for scope in each.scope_spans]
                self.server.spans += [span for scope in each.scope_spans for span in scope.spans]
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def _measured(self, request):
        """Keep the last report of each metric."""
        for each in request.resource_metrics:
            self.server.resources.append(
                {pair.key: pair.value.string_value for pair in each.resource.attributes}
            )
            for scope in each.scope_metrics:
                self.server.scopes.append(scope.scope)
                self.server.metrics.update({metric.name: metric for metric in scope.metrics})

    def log_message(self, *_):
        pass


@contextmanager
def collect_spans(port=0):
    """A collector at work."""
    server = Collector(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.held.set()
        server.shutdown()
        server.server_close()
        thread.join()


def attributes(of):
    """The attributes of a span or an event, by name."""
    return {pair.key: _value(pair.value) for pair in of.attributes}


def _value(value):
    kind = value.WhichOneof("value") or "string_value"
    if kind == "kvlist_value":
        return {pair.key: _value(pair.value) for pair in value.kvlist_value.values}
    return (
        [_value(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)
    )
