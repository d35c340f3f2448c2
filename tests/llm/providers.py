"""A local server that speaks the protocols of both providers, over real HTTP.

The name of the model chooses the answer: ``ok``, ``tool``, one of KINDS for a refusal by HTTP, of FINISHES for an answer
that ends otherwise, of MALFORMED for a 200 that is no answer, ``slow``, ``drop`` for a lost connection, ``ended`` for a
stream without its end, ``undone`` for one without its last event, and ``429-then-ok`` for one failure first. ``asked``
keeps the questions.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.machine import HANGS

ALLOW = "AGENTSERVER_ALLOW_MODELS"

KINDS = {
    "429": (429, "rate_limit_error", "rate_limit_exceeded", "slow down"),
    "500": (500, "api_error", "server_error", "it broke"),
    "503": (503, "api_error", "unavailable", "come back later"),
    "401": (401, "authentication_error", "invalid_api_key", "wrong key"),
    "403": (403, "permission_error", "forbidden", "not yours"),
    "quota": (429, "insufficient_quota", "insufficient_quota", "you have exceeded your quota"),
    "400": (400, "invalid_request_error", "invalid_value", "not like this"),
    "404": (404, "not_found_error", "model_not_found", "no such model"),
    "overflow": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "prompt is too long: 999999 tokens > 200000 maximum",
    ),
}

FINISHES = {
    "length": ("length", "max_tokens"),
    "filter": ("content_filter", None),
    "refusal": ("stop", "refusal"),
    "unheard-of": ("guardrail", "guardrail"),
    "unsaid": (None, None),
}
"""By the name of a model, the reason with which each protocol ends its answer."""

HALF = "The contract may be signed unl"

MALFORMED = {
    "html": ("<html><body>Bad gateway</body></html>", "text/html"),
    "html-as-json": ("<html><body>Bad gateway</body></html>", "application/json"),
    "empty": ("", "application/json"),
    "half-json": ('{"id": "chat-1", "choi', "application/json"),
    "list": ("[]", "application/json"),
    "null": ("null", "application/json"),
    "number": ("7", "application/json"),
    "no-choices": (
        '{"id": "x", "object": "chat.completion", "created": 1, "model": "m"}',
        "application/json",
    ),
    "empty-choices": (
        '{"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [], "content": null}',
        "application/json",
    ),
    "odd-choices": ('{"id": 1, "model": [], "choices": [7], "content": [7]}', "application/json"),
    "error": ('{"error": {"message": "upstream"}}', "application/json"),
    "many-choices": ('{"choices": [' + ", ".join(["{}"] * 300_000) + "]}", "application/json"),
}
"""Answers with the status 200 that are none of either protocol."""


@dataclass
class Providers:
    """The server's address and its requests."""

    url: str = ""
    asked: list = field(default_factory=list)
    keys: list = field(default_factory=list)
    spans: list = field(default_factory=list)
    replies: list = field(default_factory=list)  # texts or calls that come before the usual ones
    retry_after: str = "0"
    failed: set = field(default_factory=set)
    open: int = 0
    most: int = 0

    def models(self):
        return [body["model"] for body in self.asked]

    async def openai(self, request: Request) -> Response:
        return await self.answer(request, anthropic=False)

    async def anthropic(self, request: Request) -> Response:
        return await self.answer(request, anthropic=True)

    async def answer(self, request: Request, *, anthropic: bool) -> Response:
        body = await request.json()
        self.asked.append(body)
        key = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix(
            "Bearer "
        )
        self.keys.append(key)
        self.spans.append(request.headers.get("traceparent"))
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            return await self._answer(body, key, anthropic)
        finally:
            self.open -= 1

    async def _answer(self, body, key, anthropic):
        model = body["model"]
        kind, _, then = model.partition("-then-")
        if then and model in self.failed:
            kind = then
        self.failed.add(model)
        if kind == "slow":
            await asyncio.sleep(5)
        if kind == "busy":
            while self.most < 2:  # noqa: ASYNC110 - it is counted by other requests
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)  # more would show
        if kind in KINDS:
            status, name, code, text = KINDS[kind]
            error = {"type": name, "message": f"{text} (key {key})", "code": code}
            headers = {"retry-after": self.retry_after} if status == 429 else {}
            return JSONResponse({"type": "error", "error": error}, status, headers)
        if kind in MALFORMED:
            text, media = MALFORMED[kind]
            return Response(text, media_type=media)
        said = self.replies.pop(0) if self.replies else self._usual(body, kind, anthropic)
        whole = _anthropic(said, model) if anthropic else _openai(said, model)
        if kind in FINISHES:
            _end(whole, kind, anthropic=anthropic)
        if kind == "drop" or body.get("stream"):
            pieces = list(_anthropic_pieces(whole) if anthropic else _openai_pieces(whole))
            if kind in ENDS:
                pieces = pieces[: ENDS[kind][anthropic]]
            return StreamingResponse(_send_piece(pieces, cut=kind == "drop"), media_type="text/event-stream")
        return JSONResponse(whole)

    def _usual(self, body, kind, anthropic):
        if kind in FINISHES or kind in ENDS:
            return HALF
        if kind != "tool" or any(_is_result(message) for message in body["messages"]):
            return f"hello from {body['model']}"
        tools = [tool["name"] if anthropic else tool["function"]["name"] for tool in body["tools"]]
        return [(name, {"text": "x"}) for name in tools]


def _is_result(message):
    if message["role"] == "tool":
        return True
    content = message["content"]
    return isinstance(content, list) and any(part.get("type") == "tool_result" for part in content)


ENDS = {"ended": (12, 3), "undone": (-1, -1)}
"""By the name of a model, the pieces of its stream that are sent, in each protocol."""


def _end(whole, kind, *, anthropic):
    """End an answer as the model's name says."""
    reason = FINISHES[kind][anthropic]
    if anthropic:
        whole["stop_reason"] = reason
        return
    whole["choices"][0]["finish_reason"] = reason
    if kind == "refusal":
        whole["choices"][0]["message"] |= {"content": None, "refusal": "I will not."}


async def _send_piece(pieces, *, cut):
    for number, piece in enumerate(pieces):
        if cut and number == 2:
            raise ConnectionError("cut")
        yield piece
        await asyncio.sleep(0)


def _openai(said, model):
    message = {"role": "assistant", "content": said if isinstance(said, str) else None}
    if not isinstance(said, str):
        message["tool_calls"] = [
            {
                "id": f"call_{i}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for i, (name, given) in enumerate(said)
        ]
    reason = "stop" if isinstance(said, str) else "tool_calls"
    return {
        "id": "chat-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
    }


def _openai_pieces(whole):
    choice = whole["choices"][0]
    message = choice["message"]
    base = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": whole["model"]}
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": letter} for letter in message["content"] or ""]
    deltas += [{"refusal": message["refusal"]}] if message.get("refusal") else []
    deltas += [{"tool_calls": [{"index": i, **call}]} for i, call in enumerate(message.get("tool_calls", ()))]
    for delta in deltas:
        yield _event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    yield _event({**base, "choices": [], "usage": whole["usage"]})
    yield "data: [DONE]\n\n"


def _anthropic(said, model):
    content = (
        [{"type": "text", "text": said}]
        if isinstance(said, str)
        else [
            {"type": "tool_use", "id": f"toolu_{i}", "name": n, "input": g} for i, (n, g) in enumerate(said)
        ]
    )
    return {
        "id": "msg-1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "end_turn" if isinstance(said, str) else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 3},
    }


def _anthropic_pieces(whole):
    start = {**whole, "content": [], "stop_reason": None}
    yield _event({"type": "message_start", "message": start}, "message_start")
    for i, part in enumerate(whole["content"]):
        empty = {**part, "text": ""} if part["type"] == "text" else {**part, "input": {}}
        yield _event(
            {"type": "content_block_start", "index": i, "content_block": empty}, "content_block_start"
        )
        delta = (
            {"type": "text_delta", "text": part["text"]}
            if part["type"] == "text"
            else {"type": "input_json_delta", "partial_json": json.dumps(part["input"])}
        )
        yield _event({"type": "content_block_delta", "index": i, "delta": delta}, "content_block_delta")
        yield _event({"type": "content_block_stop", "index": i}, "content_block_stop")
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 3}}, "message_delta")
    yield _event({"type": "message_stop"}, "message_stop")


def _event(data, name=None):
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n"


@contextmanager
def allow_models():
    """Let models be asked, in this process and those that it starts: they are on this machine and cost nothing."""
    before = os.environ.get(ALLOW, "1")
    os.environ[ALLOW] = "1"
    try:
        yield
    finally:
        os.environ[ALLOW] = before


@contextmanager
def serve_providers():
    """Run the server in a thread; gives its Providers."""
    with allow_models():
        yield from _serve_state()


def _serve_state():
    state = Providers()
    app = Starlette(
        routes=[
            Route("/openai/chat/completions", state.openai, methods=["POST"]),
            Route("/anthropic/v1/messages", state.anthropic, methods=["POST"]),
        ]
    )
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    listening = threading.Event()

    async def run():
        task = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)
        state.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        listening.set()
        await task

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    assert listening.wait(HANGS)
    try:
        yield state
    finally:
        server.should_exit = True
        thread.join(HANGS)
