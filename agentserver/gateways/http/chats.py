"""OpenAI-compatible HTTP routes: a listener with ``openai:`` is a model of chat clients.

The server keeps the history of a conversation. Only the last message of a user enters. Earlier messages that a client
sends select the conversation that has exactly this history (chat_history.py). Neither they nor system prompts reach a
listener.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import anyio
from pydantic import BaseModel, ConfigDict, Field
from starlette.routing import Route

from agentserver.contract import Code
from agentserver.core.messages import Delta, DeltaKind, Done, Reply
from agentserver.foreign_json.models import ForeignModel
from agentserver.foreign_json.reading import JsonLimits, RefusedJson
from agentserver.gateways.endings import end_when_done
from agentserver.gateways.http import forms
from agentserver.gateways.http.admission import EXTRA
from agentserver.gateways.http.chat_history import (
    ASSISTANT,
    USER,
    UnnamedChats,
    digest_history,
    end_chats,
    note_history,
    submit_after,
)
from agentserver.gateways.http.conversations import (
    await_first_answer,
    find_answer,
    follow_answer,
    read_idempotency_key,
)
from agentserver.gateways.http.parts import (
    DoorPart,
    ProblemAnswer,
    by_code,
    check_stored,
    list_waiting,
    open_conversation,
    read_acting_caller,
    read_body,
    read_caller,
    read_header,
    read_host,
    report_not_submitted,
    report_unknown,
)
from agentserver.gateways.http.streams import ServerSent
from agentserver.ports import EngineError, SubmitResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from agentserver.gateways.http.chat_history import Turn
    from agentserver.gateways.http.connections import HeldConnection, HeldConnections
    from agentserver.gateways.http.options import DoorOptions
    from agentserver.gateways.http.parts import DoorHost
    from agentserver.gateways.principals import Caller

CHAT: Final = b"agentserver-chat"
"""The header with the client's own name of a conversation."""

CHATS: Final = (CHAT, b"x-openwebui-chat-id")
"""Headers with a client's own name of a conversation: ours, and that of Open WebUI."""

CONVERSATION: Final = b"agentserver-conversation"
"""The header with the door's id of a conversation."""

ENDING: Final = 1.0
"""Seconds that the request of a conversation without a name may take to end after a refusal."""

UNKNOWN_HISTORY: Final = (
    "These earlier messages are not the history of an open chat of yours here, or that chat has continued after them."
    " Begin a new chat with one message, or name the conversation with the header Agentserver-Chat."
)

_LONGEST: Final = 300
_PIECE: Final = 80
"""Characters of a piece of a streamed text, or more for a text of more than PIECES pieces."""

_PIECES: Final = 200
_ROLES: Final = ("system", "developer")
_TEXTS: Final = ("text", "input_text", "output_text")
_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ID: Final = re.compile(f"resp_({_UUID})_({_UUID})")

_UNSUPPORTED: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1,),
    "tools": ([],),
    "functions": ([],),
    "response_format": ({"type": "text"},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "audio": (),
    "background": (False,),
    "prompt": (),
}
"""Parameters that would change the answer's form, each with the values that do not; None never does."""


class _Item(BaseModel):
    """A message of a chat."""

    model_config = ConfigDict(strict=True)
    role: str = ""
    content: Any = None


class _Request(BaseModel):
    """The members that both requests share; others are kept as they are."""

    model_config = ConfigDict(strict=True, extra="allow")
    model: str
    stream: bool | None = None


class _ChatBody(_Request):
    messages: list[_Item] = Field(min_length=1)


class _ResponseBody(_Request):
    input: str | list[_Item]
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None


_CHAT: Final[ForeignModel[_ChatBody]] = ForeignModel(_ChatBody)
_RESPONSE: Final[ForeignModel[_ResponseBody]] = ForeignModel(_ResponseBody)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A message of a chat client.

    Args:
        model: the listener.
        text: of the last message, which is a user's.
        joined: the text of all messages of the user after the last answer.
        turns: the messages before those; None if they cannot be a history of this server.
        param: the member that has the messages.
        stream: whether the answer is streamed.
        conversation: the id of a conversation; empty without one.
        previous: the id of the response that it continues; empty without one.
    """

    model: str
    text: str
    stream: bool
    joined: str = ""
    turns: tuple[Turn, ...] | None = ()
    param: str = ""
    conversation: str = ""
    previous: str = ""


def read_chat(data: bytes) -> ChatRequest:
    """Parse the body of a chat completion. Raises ProblemAnswer."""
    found = _CHAT.read(data, JsonLimits(bytes=len(data)))
    if isinstance(found, RefusedJson):
        raise _refuse_unreadable(found)
    return _request(found, found.messages, "messages")


def read_response(data: bytes) -> ChatRequest:
    """Parse the body of a response. Raises ProblemAnswer."""
    found = _RESPONSE.read(data, JsonLimits(bytes=len(data)))
    if isinstance(found, RefusedJson):
        raise _refuse_unreadable(found)
    form = (found.model_extra or {}).get("text") or {}
    kind = form.get("format") if isinstance(form, dict) else form
    if kind not in (None, {"type": "text"}):
        raise _refuse_wrong("text", "A listener answers with a text of no other format.")
    items = [_Item(role="user", content=found.input)] if isinstance(found.input, str) else found.input
    named = found.conversation.get("id") if isinstance(found.conversation, dict) else found.conversation
    if not isinstance(named, str | None):
        raise _refuse_wrong("conversation", "A conversation is named by its id.")
    if named and found.previous_response_id:
        raise _refuse_wrong("conversation", "Name the conversation or the previous response, not both.")
    chat = _request(found, items, "input")
    return replace(chat, conversation=named or "", previous=found.previous_response_id or "")


def _request(found: _Request, items: Sequence[_Item], param: str) -> ChatRequest:
    extra = found.model_extra or {}
    for name, allowed in _UNSUPPORTED.items():
        if extra.get(name) is not None and extra[name] not in allowed:
            raise _refuse_wrong(name, f"A listener does not take {name}.")
    if not items or items[-1].role != "user":
        raise _refuse_wrong(param, "The last message is not a user's.")
    text = _join_text(items[-1].content)
    if text is None:
        raise _refuse_wrong(param, "A listener takes text only.")
    turns = _join_turns([each for each in items if each.role not in _ROLES])
    joined, turns = (text, None) if turns is None else (turns[-1][1], turns[:-1])
    return ChatRequest(found.model, text, bool(found.stream), joined, turns, param)


def _join_turns(items: Sequence[_Item]) -> tuple[Turn, ...] | None:
    """Join consecutive messages of a role. None if any is not of a user or an assistant, or not a text."""
    turns: list[Turn] = []
    for item in items:
        text = _join_text(item.content)
        if text is None or item.role not in (USER, ASSISTANT):
            return None
        if turns and turns[-1][0] == item.role:
            text = f"{turns.pop()[1]}\n{text}"
        turns.append((item.role, text))
    return tuple(turns)


def _join_text(content: Any) -> str | None:
    """Join the parts of a text; None if any part is not a text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [None]
    texts = [
        each.get("text") if isinstance(each, dict) and each.get("type") in _TEXTS else None for each in parts
    ]
    return "\n".join(map(str, texts)) if all(isinstance(each, str) for each in texts) else None


def _refuse_unreadable(found: RefusedJson) -> ProblemAnswer:
    param = found.pointer.strip("/").replace("/", ".") or None
    return ProblemAnswer(
        422, f"This is no such request: {found.rule} at {found.pointer or '/'}.", param=param
    )


def _refuse_wrong(param: str, detail: str) -> ProblemAnswer:
    return ProblemAnswer(400, detail, param=param)


# Refusals

_TYPES: Final = {
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    429: "rate_limit_error",
}
_FAILED: Final = 500


class OpenAiRefusal(ProblemAnswer):
    """Refusal as an OpenAI error object, with the code of its SystemError.

    The official clients repeat requests by themselves; ``x-should-retry`` allows that only if nothing has been done.
    """

    def __init__(self, of: ProblemAnswer) -> None:
        retry = "true" if "retry-after" in of.headers else "false"
        headers = {**of.headers, "content-type": forms.JSON, "x-should-retry": retry}
        super().__init__(of.status, of.detail, headers, **of.more)

    @property
    def body(self) -> bytes:
        """The error object as JSON."""
        return forms.dump_json({"error": make_error_object(self)})


def make_error_object(refused: ProblemAnswer) -> Mapping[str, Any]:
    """Convert a refusal to an error object."""
    usual = "server_error" if refused.status >= _FAILED else "invalid_request_error"
    message = refused.detail or HTTPStatus(refused.status).phrase
    kind = _TYPES.get(refused.status, usual)
    return {"message": message, "type": kind, "param": None, "code": None, **refused.more}


# Answers


@dataclass(frozen=True, slots=True)
class SentChat:
    """A submitted message of a chat.

    Args:
        request: the request.
        conversation: of the message.
        submitted: its fate.
        at: seconds since the epoch.
        turns: the history before it, for a chat without a name; else None.
        single: whether the conversation was opened for this message alone.
        keyed: whether the client can send the message again, by its Idempotency-Key.
    """

    request: ChatRequest
    conversation: str
    submitted: SubmitResult
    at: int
    turns: tuple[Turn, ...] | None = None
    single: bool = False
    keyed: bool = False

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the answer."""
        repeated = "true" if self.submitted.again else "false"
        return {
            CONVERSATION.decode(): self.conversation,
            "agentserver-request": self.submitted.request,
            "agentserver-again": repeated,
        }

    @property
    def response(self) -> str:
        """The id of the response."""
        return f"resp_{self.conversation}_{self.submitted.request}"


def _build_completion(sent: SentChat, text: str) -> Mapping[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    return {**_build_completion_head(sent, "chat.completion"), "choices": [choice]}


def _build_completion_head(sent: SentChat, kind: str) -> Mapping[str, Any]:
    key = f"chatcmpl-{sent.submitted.request}"
    return {"id": key, "object": kind, "created": sent.at, "model": sent.request.model}


def _build_chunk(sent: SentChat, delta: Mapping[str, Any], finish: str | None = None) -> Mapping[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return {**_build_completion_head(sent, "chat.completion.chunk"), "choices": [choice]}


def _build_item(sent: SentChat, text: str | None) -> Mapping[str, Any]:
    content = [] if text is None else [_build_part(text)]
    status = "in_progress" if text is None else "completed"
    key = f"msg_{sent.submitted.request}"
    return {"id": key, "type": "message", "role": "assistant", "status": status, "content": content}


def _build_place(sent: SentChat) -> Mapping[str, Any]:
    return {"item_id": _build_item(sent, None)["id"], "output_index": 0, "content_index": 0}


def _build_part(text: str) -> Mapping[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _build_response(
    sent: SentChat, status: str, text: str | None = None, error: ProblemAnswer | None = None
) -> Mapping[str, Any]:
    described = None if error is None else make_error_object(error)
    return {
        "id": sent.response,
        "object": "response",
        "created_at": sent.at,
        "status": status,
        "error": described
        and {"code": described["code"] or described["type"], "message": described["message"]},
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": sent.request.model,
        "output": [] if text is None else [_build_item(sent, text)],
        "parallel_tool_calls": False,
        "previous_response_id": sent.request.previous or None,
        "conversation": {"id": sent.conversation},
        "temperature": None,
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
    }


def _cut_pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces."""
    size = max(_PIECE, len(text) // _PIECES + 1)
    for at in range(0, len(text), size):
        yield text[at : at + size]


class ChatForm:
    """The events of a chat completion."""

    def begin(self, sent: SentChat) -> Iterator[Any]:
        """Yield the events before the answer."""
        yield _build_chunk(sent, {"role": "assistant", "content": ""})

    def add_piece(self, sent: SentChat, piece: str) -> Iterator[Any]:
        """Yield the events of a piece of the answer."""
        yield _build_chunk(sent, {"content": piece})

    def finish(self, sent: SentChat, _text: str) -> Iterator[Any]:
        """Yield the events after the last piece of the answer."""
        yield _build_chunk(sent, {}, "stop")

    def fail(self, _sent: SentChat, refused: ProblemAnswer) -> Iterator[Any]:
        """Yield the events of a refusal."""
        yield {"error": make_error_object(refused)}

    def encode(self, event: Any) -> bytes:
        """Encode an event; None is the end."""
        return b"data: " + (b"[DONE]" if event is None else forms.dump_json(event)) + b"\n\n"


class ResponseForm:
    """The events of a response, numbered."""

    def __init__(self) -> None:
        self._number = 0
        self._started = False

    def begin(self, sent: SentChat) -> Iterator[Any]:
        """Yield the events before the answer."""
        yield {"type": "response.created", "response": _build_response(sent, "in_progress")}
        yield {"type": "response.in_progress", "response": _build_response(sent, "in_progress")}

    def add_piece(self, sent: SentChat, piece: str) -> Iterator[Any]:
        """Yield the events of a piece of the answer."""
        yield from self._begin_item(sent)
        yield {"type": "response.output_text.delta", **_build_place(sent), "delta": piece, "logprobs": []}

    def finish(self, sent: SentChat, text: str) -> Iterator[Any]:
        """Yield the events after the last piece of the answer."""
        yield from self._begin_item(sent)
        of = _build_place(sent)
        yield {"type": "response.output_text.done", **of, "text": text, "logprobs": []}
        yield {"type": "response.content_part.done", **of, "part": _build_part(text)}
        yield {"type": "response.output_item.done", "output_index": 0, "item": _build_item(sent, text)}
        yield {"type": "response.completed", "response": _build_response(sent, "completed", text)}

    def _begin_item(self, sent: SentChat) -> Iterator[Any]:
        if not self._started:
            self._started = True
            yield {"type": "response.output_item.added", "output_index": 0, "item": _build_item(sent, None)}
            yield {"type": "response.content_part.added", **_build_place(sent), "part": _build_part("")}

    def fail(self, sent: SentChat, refused: ProblemAnswer) -> Iterator[Any]:
        """Yield the events of a refusal."""
        yield {"type": "response.failed", "response": _build_response(sent, "failed", error=refused)}

    def encode(self, event: Any) -> bytes:
        """Encode an event; None is the end, which has no event."""
        if event is None:
            return b""
        numbered = {**event, "sequence_number": self._number}
        self._number += 1
        return f"event: {event['type']}\ndata: ".encode() + forms.dump_json(numbered) + b"\n\n"


@dataclass
class ChatStream:
    """The answer to a message as a stream of events.

    Pieces of it leave before it is final where it cannot be refused. The protocol cannot take a piece back: a stream
    whose pieces do not begin the final answer ends with an error.

    Args:
        caller: the principal.
        server: running.
        chat: the message.
        form: of the events.
        kept: the chats without a name.
    """

    caller: Caller
    server: DoorHost
    chat: SentChat
    form: ChatForm | ResponseForm
    kept: UnnamedChats
    over: bool = False
    text: str = ""
    void: bool = False

    async def run(self, say: Callable[[Any], Awaitable[None]]) -> None:
        """Send the events of the answer."""
        for event in self.form.begin(self.chat):
            await say(event)
        message = self.server, self.caller, self.chat.conversation, self.chat.submitted
        found = await find_answer(*message) or await follow_answer(*message, partial(self._show, say))
        if found is None:
            return
        text = None if isinstance(found, Reply) and found.error else _extract_text(found, self.server)
        await settle_chat(self.kept, self.server, self.caller, self.chat, text)
        for event in self._end_with(found, text):
            await say(event)
        self.over = True

    def _end_with(self, found: Reply | Done, text: str | None) -> Iterator[Any]:
        if text is None and isinstance(found, Reply):
            yield from self.form.fail(self.chat, forms.make_problem(found, self.server.rules))
        elif text is None or not text.startswith(self.text):
            message = "The answer differs from the streamed pieces: retrieve the response."
            refused = ProblemAnswer(502, message, code="reset", response=self.chat.response)
            yield from self.form.fail(self.chat, refused)
        else:
            for piece in _cut_pieces(text[len(self.text) :]):
                yield from self.form.add_piece(self.chat, piece)
            yield from self.form.finish(self.chat, text)

    async def _show(self, say: Callable[[Any], Awaitable[None]], delta: Delta) -> None:
        """Send a piece of the answer, unless pieces before it are missing or void: the rest comes with the reply."""
        self.void |= delta.kind in (DeltaKind.RESET, DeltaKind.DIFFERENCE) and bool(self.text)
        if delta.kind is DeltaKind.TEXT and delta.offset == len(self.text) and not self.void:
            self.text += delta.text
            for event in self.form.add_piece(self.chat, delta.text):
                await say(event)

    async def abandon(self) -> None:
        """End the request, since its client has closed the connection; a key lets it continue."""
        if self.over or self.chat.keyed:
            return
        with suppress(LookupError, EngineError):
            sent, principal = self.chat, self.caller.name
            await self.server.cancel(principal, sent.conversation, sent.submitted.request, by=principal)
            if sent.single:
                await end_chats(self.server, self.caller, [sent.conversation])

    def end(self, held: HeldConnection) -> bytes:
        """Return the final events, encoded."""
        last = b""
        if not self.over:
            message = f"The door has ended this stream: {held.reason or 'stopping'}."
            refused = ProblemAnswer(503, message, code="pending")
            last = b"".join(map(self.form.encode, self.form.fail(self.chat, refused)))
        return last + self.form.encode(None)

    def write(self, event: Any) -> bytes:
        """Encode an event, or pass the final events on."""
        return event if isinstance(event, bytes) else self.form.encode(event)


def _extract_text(found: Reply | Done, server: DoorHost) -> str:
    return (
        ""
        if isinstance(found, Done)
        else forms.extract_text(forms.encode_payload(found.message, server.rules))
    )


async def settle_chat(
    chats: UnnamedChats, server: DoorHost, caller: Caller, sent: SentChat, text: str | None
) -> None:
    """Note the history of a chat without a name after an answer; ``text`` is None after a refusal.

    A conversation for this message alone ends with a refusal: the client has no history that continues it.
    """
    if sent.turns is None or (text is None and not sent.single):
        return
    if text is None and sent.submitted.code is not None:
        await end_chats(server, caller, [sent.conversation])
    elif text is None:
        with anyio.move_on_after(ENDING):
            await end_when_done(server, caller.name, sent.conversation, sent.submitted.after)
    else:
        turns = (*sent.turns, (USER, sent.request.joined), (ASSISTANT, text))
        with suppress(LookupError, EngineError):
            await note_history(server, caller, sent.conversation, digest_history(sent.request.model, turns))
        if sent.single or sent.turns:
            await end_chats(server, caller, chats.add(caller, sent.conversation))


# Routes


def build_part(holding: HeldConnections, options: DoorOptions, name: str) -> DoorPart:
    """Build the OpenAI-compatible routes. ``name`` is the organism's."""
    these = ChatRoutes(holding, options, name, UnnamedChats())
    routes = (
        Route("/v1/chat/completions", these.complete, methods=["POST"]),
        Route("/v1/responses", these.respond, methods=["POST"]),
        Route("/v1/responses/{response}", these.retrieve, methods=["GET"]),
        Route("/v1/models", these.list_models, methods=["GET"]),
        Route("/v1/models/{model}", these.describe_model, methods=["GET"]),
    )
    return DoorPart("chats", routes, refusal=OpenAiRefusal)


@dataclass(frozen=True, slots=True)
class ChatRoutes:
    """The handlers.

    Args:
        holding: the connections that are held.
        options: of the door.
        name: of the organism.
        kept: the chats without a name.
    """

    holding: HeldConnections
    options: DoorOptions
    name: str
    kept: UnnamedChats

    async def complete(self, request: Request) -> Any:
        """Answer a chat completion."""
        sent = await self._send(request, await _read(request, read_chat))
        if sent.request.stream:
            return await self._stream(request, sent, ChatForm())
        found = await self._answer(request, sent)
        if found is None:
            waits = list_waiting(read_host(request), sent.conversation, sent.submitted.request)
            reason = "It waits for an approval" if waits else "There was no answer in time"
            message = f"{reason}; the message is accepted and continues. Do not send it again."
            raise ProblemAnswer(
                504,
                message,
                sent.headers,
                code="pending",
                conversation=sent.conversation,
                response=sent.response,
            )
        text = _extract_text(found, read_host(request))
        return forms.build_json_response(_build_completion(sent, text), headers=sent.headers)

    async def respond(self, request: Request) -> Any:
        """Answer with a response. One that takes longer is in progress, and is retrieved by its id."""
        sent = await self._send(request, await _read(request, read_response))
        if sent.request.stream:
            return await self._stream(request, sent, ResponseForm())
        found = await self._answer(request, sent)
        text = None if found is None else _extract_text(found, read_host(request))
        status = "in_progress" if found is None else "completed"
        return forms.build_json_response(_build_response(sent, status, text), headers=sent.headers)

    async def retrieve(self, request: Request) -> Response:
        """Return a response again, or its progress."""
        principal, server = read_caller(request), read_host(request)
        conversation, key = _parse_response(request.path_params["response"])
        with report_unknown():
            found = next(iter(await server.find_events(principal.name, conversation, key)), None)
        model = found.sender if isinstance(found, Reply) else ""
        chat = ChatRequest(model, "", stream=False)
        sent = SentChat(chat, conversation, SubmitResult(key, None), int(time.time()))
        if isinstance(found, Reply) and found.error:
            refused = forms.make_problem(found, server.rules)
            return forms.build_json_response(_build_response(sent, "failed", error=refused))
        text = None if found is None else _extract_text(found, server)
        return forms.build_json_response(
            _build_response(sent, "in_progress" if found is None else "completed", text)
        )

    async def list_models(self, request: Request) -> Response:
        """List the listeners that the caller may chat with."""
        data = [self._build_model(each) for each in _list_models(request)]
        return forms.build_json_response({"object": "list", "data": data})

    async def describe_model(self, request: Request) -> Response:
        """Describe one of them."""
        named = request.path_params["model"]
        if named not in _list_models(request):
            raise by_code(Code.ROUTING)
        return forms.build_json_response(self._build_model(named))

    def _build_model(self, listener: str) -> Mapping[str, Any]:
        return {"id": listener, "object": "model", "created": 0, "owned_by": self.name}

    async def _send(self, request: Request, chat: ChatRequest) -> SentChat:
        """Submit the message. Raises ProblemAnswer."""
        caller, server = read_acting_caller(request), read_host(request)
        if chat.model not in _list_models(request):
            raise by_code(Code.ROUTING)
        listener = server.rules.blueprint.listeners[chat.model]
        (codec,) = forms.iter_codecs(server.rules, chat.model)
        named, key = _find_name(request, chat), read_idempotency_key(request)
        turns = None if named else chat.turns
        text = chat.text if named else chat.joined
        message = forms.encode_value(codec, {listener.chat: text})
        self.holding.check(caller)
        if not named and turns != ():
            conversation, submitted = await self._continue(request, chat, message)
        else:
            conversation = await _open(request, named, key)
            with report_not_submitted("Idempotency-Key"):
                own = key or f"openai-{token_hex(16)}"  # a request with a key can be looked up
                submitted = await server.submit(caller.name, conversation, message, chat.model, request=own)
        check_stored(submitted)
        single = turns == () and key is None and not request.url.path.endswith("/v1/responses")
        at, keyed = int(time.time()), key is not None
        return SentChat(chat, conversation, submitted, at, turns, single=single, keyed=keyed)

    async def _continue(
        self, request: Request, chat: ChatRequest, message: bytes
    ) -> tuple[str, SubmitResult]:
        """Submit a message to the conversation with the client's history. Raises ProblemAnswer without one."""
        principal, server = read_caller(request), read_host(request)
        found = None
        if chat.turns is not None:
            digest = digest_history(chat.model, chat.turns)
            found = await submit_after(server, principal, digest, message, chat.model)
        if found is None:
            raise ProblemAnswer(400, UNKNOWN_HISTORY, code="history", param=chat.param)
        self.kept.take(principal, found[0])
        return found

    async def _answer(self, request: Request, sent: SentChat) -> Reply | Done | None:
        """Wait for the answer; None if it does not come in time. Raises ProblemAnswer for a SystemError."""
        principal, server, submitted = read_caller(request), read_host(request), sent.submitted
        found = await find_answer(server, principal, sent.conversation, submitted)
        if found is None:
            found = await await_first_answer(
                request, self.holding, sent.conversation, submitted, self.options.wait
            )
        failed = found is None or (isinstance(found, Reply) and found.error)
        if found is not None or submitted.code is not None:
            text = None if failed or found is None else _extract_text(found, server)
            await settle_chat(self.kept, server, principal, sent, text)
        if isinstance(found, Reply) and found.error:
            raise forms.make_problem(found, server.rules).with_headers(sent.headers)
        if found is None and isinstance(submitted.code, Code):
            raise by_code(submitted.code, request=submitted.request).with_headers(sent.headers)
        return found

    async def _stream(self, request: Request, sent: SentChat, form: ChatForm | ResponseForm) -> ServerSent:
        """Stream the answer. A message that is refused at once is answered with its status."""
        if sent.submitted.code is not None:
            await self._answer(request, sent)
        request.scope[EXTRA].extend((name.encode(), value.encode()) for name, value in sent.headers.items())
        stream = ChatStream(read_caller(request), read_host(request), sent, form, self.kept)
        return ServerSent(stream, self.holding, self.options.beat, write=stream.write)


async def _read(request: Request, reader: Callable[[bytes], ChatRequest]) -> ChatRequest:
    read_acting_caller(request)
    if forms.media(read_header(request, b"content-type")) != forms.JSON:
        raise ProblemAnswer(415, "A request is application/json.", {"accept-post": forms.JSON})
    return await read_body(request, reader)


def _list_models(request: Request) -> list[str]:
    """List the listeners that take a chat's text from the caller."""
    may, known = read_caller(request).principal.may, read_host(request).rules.blueprint.listeners
    return [name for name, each in known.items() if each.chat and (may is None or name in may)]


def _find_name(request: Request, chat: ChatRequest) -> _ChatName | None:
    """Find the client's name of the conversation; None without one. Raises ProblemAnswer for several."""
    own = next(filter(None, (read_header(request, name) for name in CHATS)), "")
    key = read_header(request, CONVERSATION) or chat.conversation
    if sum(map(bool, (own, key, chat.previous))) > 1:
        raise ProblemAnswer(400, "Name the conversation once.")
    if chat.previous:
        key, _ = _parse_response(chat.previous)
    if len(own) > _LONGEST:
        raise ProblemAnswer(400, f"The name of a chat has 1 to {_LONGEST} characters.")
    return _ChatName(own, key) if own or key else None


class _ChatName(NamedTuple):
    """Name of a conversation: the client's own one, or the door's id of it."""

    own: str
    key: str


async def _open(request: Request, named: _ChatName | None, key: str | None) -> str:
    """Find or open the conversation of a name, or one without a name. Returns its id."""
    principal, server = read_caller(request), read_host(request)
    if named is None:
        opened = None if key is None else _hash("message", key)
        return await open_conversation(server, principal, opened, committed=False)
    if named.own:
        return await open_conversation(server, principal, _hash("chat", named.own), committed=False)
    with report_unknown():
        await server.find_conversation(principal.name, named.key)
    return named.key


def _hash(kind: str, text: str) -> str:
    """Make a key of bounded length from a name that a client has chosen."""
    return f"openai-{kind}-{sha256(text.encode()).hexdigest()[:40]}"


def _parse_response(text: str) -> tuple[str, str]:
    """Split the id of a response into its conversation and request. Raises ProblemAnswer (404)."""
    match = _ID.fullmatch(text)
    if match is None:
        with report_unknown():
            raise LookupError
    assert match is not None
    return match[1], match[2]
