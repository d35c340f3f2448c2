"""Describes completions for records and events. Pure."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from agentserver.codec import write_json
from agentserver.completion import (
    CompletionContent,
    CompletionError,
    OfferedTool,
    PromptMessage,
    RecordedCompletion,
    Tool,
    ToolCall,
    Usage,
)
from agentserver.payload.names import local
from agentserver.trace.text import convert_jsonable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentserver.completion import Attempt, Completion, Request, Words

TOTAL: Final = 1_048_576
"""Characters of the messages of one prompt that are recorded, the last messages first."""


def describe_completion(
    model: str, request: Request, ended: Completion | BaseException, maximum: int = TOTAL
) -> RecordedCompletion:
    """Describe a completion by its answer or its failure, without its place and times.

    Args:
        model: as the organism calls it.
        request: the prompt.
        ended: its answer or its failure.
        maximum: characters of the messages that are described, the last messages first.
    """
    attempts: Sequence[Attempt] = ()
    match ended:
        case CompletionError():
            fault, completion, attempts = ended.fault.value, ended.partial, ended.attempts
        case BaseException():
            fault, completion = type(ended).__name__, None
        case _:
            fault, completion, attempts = "", ended, ended.attempts
    messages = tuple(map(_read_message, request.messages))
    tools = _list_tools(request)
    prompt = write_json([[one.role, one.content, *map(_collect_plain_call, one.calls)] for one in messages])
    return RecordedCompletion(
        "",
        "",
        "",
        "",
        model,
        0.0,
        0.0,
        answered_by="" if completion is None else completion.model,
        finish=None if completion is None else completion.finish,
        fault=fault,
        attempts=tuple(attempts),
        usage=Usage(calls=0) if completion is None else completion.usage,
        tools=tuple(one.name for one in tools),
        messages=len(messages),
        characters=sum(map(_count, messages)),
        digest=sha256(prompt).hexdigest(),
        content=_make_content(messages, tools, completion, maximum),
    )


def _make_content(
    messages: Sequence[PromptMessage],
    tools: Sequence[OfferedTool],
    completion: Completion | None,
    maximum: int,
) -> CompletionContent:
    recorded: list[PromptMessage] = []
    remaining = maximum
    for one in reversed(messages):
        size = _count(one)
        message = (
            one
            if size <= remaining
            else replace(one, content=f"[{size:,} characters are not recorded]", calls=())
        )
        remaining -= min(size, remaining)
        recorded.append(message)
    if completion is None:
        return CompletionContent(tuple(recorded[::-1]), tuple(tools))
    output = "" if completion.output is None else write_json(convert_jsonable(completion.output)).decode()
    return CompletionContent(
        tuple(recorded[::-1]), tuple(tools), completion.content, completion.calls, output
    )


def _list_tools(request: Request) -> list[OfferedTool]:
    answer = () if request.output is None else (request.output,)
    return [_describe_tool(one) for one in (*request.tools, *answer)]


def _describe_tool(one: Tool | type) -> OfferedTool:
    if isinstance(one, Tool):
        return OfferedTool(one.name, one.description, json.dumps(dict(one.schema)))
    return OfferedTool(local(str(vars(one).get("__xml_name__", one.__name__))), (one.__doc__ or "").strip())


def _read_message(one: PromptMessage | Words) -> PromptMessage:
    """Read a message leniently: the completer refuses a wrong one."""
    if isinstance(one, PromptMessage):
        return one
    calls = tuple(_read_call(call) for call in one.get("calls") or ())
    return PromptMessage(
        one.get("role", "user"),
        str(one.get("content") or ""),
        calls,
        str(one.get("id") or ""),
        str(one.get("name") or ""),
    )


def _read_call(call: Any) -> ToolCall:
    if isinstance(call, ToolCall):
        return call
    fields = dict(call)
    arguments = fields.get("arguments", "{}")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
    return ToolCall(str(fields.get("id", "")), str(fields.get("name", "")), text)


def _count(one: PromptMessage) -> int:
    return len(one.content) + sum(len(call.name) + len(call.arguments) for call in one.calls)


def _collect_plain_call(call: ToolCall) -> list[str]:
    return [call.id, call.name, call.arguments]
