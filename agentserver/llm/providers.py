"""Backends reached through provider SDKs, with a size limit on every answer.

An answer, or each event of a streamed one, is counted before the SDK parses it. Compressed answers are refused: their
size proves nothing.
"""

from __future__ import annotations

import logging
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

import httpx2
from pydantic_ai import exceptions as raised
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from agentserver.completion import Completion, CompletionError, CompletionFault, Finish, ToolCall, Usage
from agentserver.foreign_json.bodies import CheckedBody, EventCutter, extract_data, is_compressed, is_stream
from agentserver.foreign_json.reading import JsonLimits, count_json
from agentserver.foreign_json.threads import ReadingThreads
from agentserver.trace.traceparent import format_current

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from anthropic import AsyncAnthropic
    from httpx2 import Request
    from openai import AsyncOpenAI
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequestPart,
        ModelResponsePart,
        ModelResponseStreamEvent,
    )
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

    from agentserver.completion import Backend, PieceSink, Prompt, PromptMessage, Tool

ANSWER: Final = JsonLimits(bytes=1 << 24, values=20_000)
"""The limits of an answer that comes whole."""
EVENT: Final = JsonLimits(bytes=1 << 20, values=5000)
"""The limits of one event."""
STREAM: Final = 1 << 27
"""Bytes of all events of one answer."""


class UnreadableAnswerError(httpx2.RemoteProtocolError):
    """An answer that is beyond the limits, or compressed. Its text is the reason."""


class AnswerBounds:
    """Hooks of an HTTP client that keep its answers within the limits."""

    def __init__(self) -> None:
        self._threads = ReadingThreads()

    async def ask(self, request: httpx2.Request) -> None:
        """Ask for an answer that is not compressed."""
        request.headers["accept-encoding"] = "identity"

    async def start_counting(self, response: httpx2.Response) -> None:
        """Count the body of an answer while it is read. Raises UnreadableAnswerError for a compressed one.

        A compressed error loses its body alone: its status and its headers decide about the next attempt.
        """
        stream = response.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        if is_compressed(response):
            await stream.aclose()
            if not response.is_error:
                raise UnreadableAnswerError("the answer is compressed, which was not asked for")
            del response.headers["content-encoding"]
            response.stream = httpx2.ByteStream(b"")
            return
        counted = self._iter_events(stream) if is_stream(response) else self._read_whole(stream)
        response.stream = CheckedBody(stream, counted)

    async def _read_whole(self, stream: httpx2.AsyncByteStream) -> AsyncIterator[bytes]:
        data = bytearray()
        async for chunk in stream:
            data += chunk
            if len(data) > ANSWER.bytes:
                break
        await self._check(bytes(data), ANSWER)
        yield bytes(data)

    async def _iter_events(self, stream: httpx2.AsyncByteStream) -> AsyncIterator[bytes]:
        cutter, taken = EventCutter(EVENT.bytes), 0
        async for chunk in stream:
            taken += len(chunk)
            if taken > STREAM:
                raise UnreadableAnswerError(f"the answer has more than {STREAM} bytes")
            try:
                events = list(cutter.feed(chunk))
            except ValueError as error:
                raise UnreadableAnswerError(str(error)) from None
            for event in events:
                await self._check(extract_data(event), EVENT)
                yield event

    async def _check(self, data: bytes, limits: JsonLimits) -> None:
        refused = await self._threads.read(lambda text: count_json(text, limits), data)
        if refused is not None:
            raise UnreadableAnswerError(f"the answer {refused.rule}")


logger = logging.getLogger("agentserver.llm")

ALLOW = "AGENTSERVER_ALLOW_MODELS"
"""The variable of the environment that refuses every call of a provider when it is ``0``, as in a run of tests."""

NO_KEY = "none"
"""Placeholder for the key of a backend without one; otherwise the SDKs would look in the environment."""

OWN = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
"""Addresses of the providers. Named, so that the SDKs do not take others from the environment."""

_FAULTS: tuple[tuple[type[Exception], CompletionFault], ...] = (
    (raised.ModelRateLimitError, CompletionFault.RATE),
    (raised.ModelQuotaExceededError, CompletionFault.QUOTA),
    (raised.ModelUnavailableError, CompletionFault.UNAVAILABLE),
    (raised.ModelTimeoutError, CompletionFault.TIMEOUT),
    (raised.ModelRequestTimeout, CompletionFault.TIMEOUT),
    (raised.ModelConnectionError, CompletionFault.CONNECTION),
    (raised.ModelServerError, CompletionFault.SERVER),
    (raised.ModelContextWindowExceededError, CompletionFault.CONTEXT),
    (raised.ModelAuthenticationError, CompletionFault.CREDENTIALS),
    (raised.ModelRequestRejectedError, CompletionFault.REJECTED),
    (raised.ModelHTTPError, CompletionFault.REJECTED),
)
"""Failures by kind, the more specific first. Every other failure means an unreadable answer."""

_FINISHES: Mapping[object, Finish] = MappingProxyType(
    {
        "stop": Finish.STOP,
        "end_turn": Finish.STOP,
        "stop_sequence": Finish.STOP,
        "tool_calls": Finish.TOOL_CALLS,
        "tool_use": Finish.TOOL_CALLS,
        "function_call": Finish.TOOL_CALLS,
        "length": Finish.LENGTH,
        "max_tokens": Finish.LENGTH,
        "model_context_window_exceeded": Finish.LENGTH,
        "content_filter": Finish.FILTER,
        "refusal": Finish.REFUSAL,
    }
)
"""The ends of an answer as the providers name them. Without one of these an answer is cut."""


_COMMON: Mapping[str, str] = MappingProxyType(
    {
        "temperature": "temperature",
        "top_p": "top_p",
        "seed": "seed",
        "stop": "stop_sequences",
        "effort": "thinking",
    }
)
"""Settings that each provider spells in its own way, as pydantic-ai names them."""


class ModelsRefusedError(RuntimeError):
    """A call of a provider that the environment refuses. Nothing was sent."""


def _open_openai(name: str, hooks: Any, options: Any) -> tuple[AsyncOpenAI, Model]:
    """Open a client. The SDK of the other provider is not imported: each costs a second of every start."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(http_client=DefaultAsyncHttpxClient(event_hooks=hooks), **options)
    return client, OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))


def _open_anthropic(name: str, hooks: Any, options: Any) -> tuple[AsyncAnthropic, Model]:
    """Open a client."""
    from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(http_client=DefaultAsyncHttpxClient(event_hooks=hooks), **options)
    return client, AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))


class RemoteBackend:
    """A backend over HTTP. Blocks for its imports and certificates: make it in a thread."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        key, url = backend.key or NO_KEY, backend.base_url or OWN[backend.provider]
        bounds = AnswerBounds()
        hooks: dict[str, list[Any]] = {
            "request": [_name_trace_call, bounds.ask],
            "response": [bounds.start_counting],
        }
        opened = _open_openai if backend.provider == "openai" else _open_anthropic
        self._client, self._model = opened(backend.model, hooks, {
            "api_key": key, "base_url": url, "timeout": backend.timeout, "max_retries": 0,
        })  # fmt: skip

    async def ask(self, prompt: Prompt, pieces: PieceSink | None = None) -> Completion:
        """Send a prompt once; ``pieces`` receives the answer as it comes, if the backend has ``stream``.

        Raises CompletionError, and ModelsRefusedError where the environment allows no call.
        """
        if os.environ.get(ALLOW) == "0":
            raise ModelsRefusedError(
                f"{ALLOW}=0 refuses the call of {self._backend.name}: a test gives models={{...}} to organism(...)"
            )
        parameters, messages = _make_parameters(prompt), list(_convert_messages(prompt.messages))
        try:
            return _read(await self._send(prompt, parameters, messages, pieces))
        except raised.UserError:
            raise  # the request is at fault, before it was sent
        except Exception as error:  # noqa: BLE001 - the libraries raise anything for an answer that is none
            failure = self._make_failure(error)
        raise failure  # out of the handler: the provider's exception holds the request with its key

    async def _send(
        self,
        prompt: Prompt,
        parameters: ModelRequestParameters,
        messages: Sequence[ModelMessage],
        sink: PieceSink | None,
    ) -> ModelResponse:
        settings = _convert_settings(prompt)
        if not self._backend.stream:
            return await model_request(
                self._model, messages, model_settings=settings, model_request_parameters=parameters
            )
        async with model_request_stream(
            self._model, messages, model_settings=settings, model_request_parameters=parameters
        ) as pieces:
            async for piece in pieces:
                if sink is not None:
                    _pass_on(piece, sink)
            return pieces.get()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _make_failure(self, error: Exception) -> CompletionError:
        kinds = () if _unreadable(error) else _FAULTS
        fault = next((fault for kind, fault in kinds if isinstance(error, kind)), CompletionFault.MALFORMED)
        status = getattr(error, "status_code", None)
        logger.info("%s: %s (%s)", self._backend.name, fault.value, status or type(error).__name__)
        after, phase = getattr(error, "retry_after", None), getattr(error, "phase", None)
        free = phase in {"pool", "connect"}
        return CompletionError(fault, self._backend.model, after=after, free=free, status=status)


def _pass_on(piece: ModelResponseStreamEvent, sink: PieceSink) -> None:
    """Pass on the pieces of calls."""
    match piece:
        case PartStartEvent(index=index, part=ToolCallPart(tool_name=name, args=arguments)):
            sink.add_call(index, name, arguments if isinstance(arguments, str) else "")
        case PartDeltaEvent(index=index, delta=ToolCallPartDelta(tool_name_delta=name, args_delta=arguments)):
            sink.add_call(index, name or "", arguments if isinstance(arguments, str) else "")


def _unreadable(error: BaseException | None) -> bool:
    """Tell whether an answer over the limits caused a failure; the SDKs report it as a lost connection."""
    while error is not None:
        if isinstance(error, UnreadableAnswerError):
            return True
        error = error.__cause__ or error.__context__
    return False


async def _name_trace_call(request: Request) -> None:
    """Name the span that a request to a provider is part of, if it is part of any."""
    span = format_current()
    if span is not None:
        request.headers["traceparent"] = span


def _make_parameters(prompt: Prompt) -> ModelRequestParameters:
    tools = [_tool_definition(tool) for tool in prompt.tools]
    if prompt.answer is None:
        return ModelRequestParameters(function_tools=tools)
    return ModelRequestParameters(
        function_tools=tools,
        output_tools=[_tool_definition(prompt.answer, "output")],
        output_mode="tool",
        allow_text_output=False,
    )


def _convert_settings(prompt: Prompt) -> ModelSettings:
    """Convert the settings of a model; those that providers name alike, or not at all, go into the body."""
    common = {_COMMON[name]: value for name, value in prompt.settings.items() if name in _COMMON}
    own = {name: value for name, value in prompt.settings.items() if name not in _COMMON}
    settings = {**common, "max_tokens": prompt.max_tokens, **({"extra_body": own} if own else {})}
    return cast("ModelSettings", settings)


def _tool_definition(tool: Tool, kind: Any = "function") -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        parameters_json_schema=dict(tool.schema),
        description=tool.description,
        kind=kind,
        strict=False,
    )


def _convert_messages(messages: Sequence[PromptMessage]) -> Iterator[ModelMessage]:
    """Convert the messages, merging those between two answers of the model into one request."""
    parts: list[ModelRequestPart] = []
    for message in messages:
        if message.role != "assistant":
            parts.append(_make_part(message))
            continue
        if parts:
            yield ModelRequest(parts=parts)
            parts = []
        said: list[ModelResponsePart] = [TextPart(message.content)] if message.content else []
        yield ModelResponse(
            parts=[*said, *(ToolCallPart(call.name, call.arguments, call.id) for call in message.calls)]
        )
    if parts:
        yield ModelRequest(parts=parts)


def _make_part(message: PromptMessage) -> ModelRequestPart:
    if message.role == "system":
        return SystemPromptPart(message.content)
    if message.role == "user":
        return UserPromptPart(message.content)
    return ToolReturnPart(message.name, message.content, message.id)


def _read(response: ModelResponse) -> Completion:
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    details = response.provider_details or {}
    refused = details.get("refusal")
    finish = Finish.REFUSAL if refused else _FINISHES.get(details.get("finish_reason"), Finish.CUT)
    if finish.complete:
        finish = Finish.TOOL_CALLS if calls else Finish.STOP
    return Completion(
        text or (refused if isinstance(refused, str) else ""),
        tuple(ToolCall(call.tool_call_id, call.tool_name, call.args_as_json_str()) for call in calls),
        Usage(response.usage.input_tokens, response.usage.output_tokens, 1, _parse_money(response)),
        response.model_name or "",
        finish=finish,
    )


def _parse_money(response: ModelResponse) -> float | None:
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):  # a model that the table does not know; an answer without usage
        return None
