"""Answers of providers that are bombs: refused by count, before the SDK builds anything of them."""

from __future__ import annotations

import gzip
import threading
import tracemalloc
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio.to_thread
import httpx2
import pytest

from agentserver.llm.providers import ANSWER, EVENT, AnswerBounds

pytestmark = pytest.mark.anyio

CHUNK = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
ANSWERS = {
    "fine": ("application/json", b'{"choices":[{"message":{"content":"well"}}]}', {}),
    "many choices": ("application/json", b'{"choices":[' + b",".join([b"{}"] * 300_000) + b"]}", {}),
    "deep": ("application/json", b'{"choices":' + b"[" * 5000 + b"]" * 5000 + b"}", {}),
    "long": ("application/json", b" " * (ANSWER.bytes + 1), {}),
    "compressed": ("application/json", gzip.compress(b" " * 10_000_000), {"content-encoding": "gzip"}),
    "refused": ("application/json", gzip.compress(b"{}"), {"content-encoding": "gzip", "retry-after": "7"}),
    "streamed": ("text/event-stream", CHUNK * 1000, {}),
    "an event of many": ("text/event-stream", CHUNK + b'data: {"choices":[' + b",".join([b"{}"] * 9000) + b"]}\n\n", {}),
    "an event without end": ("text/event-stream", CHUNK + b"data: " + b"a" * (EVENT.bytes + 1), {}),
}  # fmt: skip
SOUND = ("fine", "streamed")
REFUSED = "refused"


class Handler(BaseHTTPRequestHandler):
    asked: list = []  # noqa: RUF012 - of one server, which a test starts

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.asked.append(self.headers["accept-encoding"])
        kind, data, headers = ANSWERS[self.path.strip("/").replace("-", " ")]
        self.send_response(429 if self.path == "/refused" else 200)
        for name, value in {"content-type": kind, "content-length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):  # nobody listens any longer
            self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextmanager
def answer_url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def provider():
    with answer_url() as url:
        yield url


async def take_answer(url, name):
    bounds = AnswerBounds()
    hooks = {"request": [bounds.ask], "response": [bounds.start_counting]}
    client = await anyio.to_thread.run_sync(lambda: httpx2.AsyncClient(event_hooks=hooks, trust_env=False))
    async with client:
        return await client.post(f"{url}/{name.replace(' ', '-')}", json={})


@pytest.mark.parametrize("name", SOUND)
async def test_a_sound_answer_is_returned_as_sent(provider, name):
    assert (await take_answer(provider, name)).content == ANSWERS[name][1]
    assert set(Handler.asked) == {"identity"}


@pytest.mark.parametrize("name", [name for name in ANSWERS if name not in (*SOUND, REFUSED)])
async def test_a_bomb_is_an_answer_that_breaks_the_protocol(provider, name):
    tracemalloc.start()
    try:
        with pytest.raises(httpx2.RemoteProtocolError):
            await take_answer(provider, name)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(ANSWERS[name][1]) + 4_000_000


async def test_a_compressed_error_keeps_its_status_and_its_headers(provider):
    """A gateway's 429 in gzip counted as malformed: its backend was asked again at once."""
    answer = await take_answer(provider, REFUSED)
    assert (answer.status_code, answer.headers["retry-after"], answer.content) == (429, "7", b"")
