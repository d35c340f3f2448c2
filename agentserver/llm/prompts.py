"""Prompts: validates the messages and tools of a handler before they are sent, and estimates their tokens."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from agentserver.completion import Prompt, PromptMessage, Tool, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The names of tools that every provider takes."""

_ROLES = ("system", "user", "assistant", "tool")
_KEYS = {"role", "content", "calls", "id", "name"}

BYTES_PER_TOKEN = 3
"""Of the estimate, which is to be on the high side: English has about four, most other scripts and code fewer."""


def parse_messages(messages: Sequence[PromptMessage | Mapping[str, Any]]) -> tuple[PromptMessage, ...]:
    """Parse the messages of a prompt. Raises ValueError for invalid ones, and for results without a call."""
    if not messages:
        raise ValueError("a prompt needs a message")
    read = tuple(one if isinstance(one, PromptMessage) else _parse_message(one) for one in messages)
    call_ids: set[str] = set()
    for message in read:
        if message.role == "tool" and message.id not in call_ids:
            raise ValueError(
                f'the result of a call "{message.id}" follows no such call: providers refuse that'
            )
        call_ids.update(call.id for call in message.calls)
    return read


def _parse_message(fields: Mapping[str, Any]) -> PromptMessage:
    unknown = set(fields) - _KEYS
    if unknown:
        raise ValueError(f"a message has role, content, calls, id and name, not {min(unknown)!r}")
    if fields.get("role") not in _ROLES:
        raise ValueError(f"the role of a message is one of {', '.join(_ROLES)}")
    texts = {key: fields.get(key) or "" for key in ("content", "id", "name")}
    wrong = next((key for key, value in texts.items() if not isinstance(value, str)), None)
    if wrong:
        raise ValueError(f"the {wrong} of a message is text")
    return PromptMessage(
        fields["role"], calls=tuple(_call(call) for call in fields.get("calls") or ()), **texts
    )


def _call(given_call: ToolCall | Mapping[str, Any]) -> ToolCall:
    if isinstance(given_call, ToolCall):
        return given_call
    arguments = given_call.get("arguments", "{}")
    return ToolCall(
        str(given_call["id"]),
        str(given_call["name"]),
        arguments if isinstance(arguments, str) else json.dumps(arguments),
    )


def check_tools(tools: Iterable[Tool]) -> None:
    """Raise ValueError for a name that a provider would refuse, and for a name that two tools have."""
    seen: set[str] = set()
    for tool in tools:
        if not TOOL_NAME.fullmatch(tool.name):
            raise ValueError(
                f'no provider takes the name "{tool.name}" of a tool: letters, digits, _ and - only'
            )
        if tool.name in seen:
            raise ValueError(f'two tools are called "{tool.name}"')
        seen.add(tool.name)


def estimate(prompt: Prompt) -> int:
    """Estimate an upper bound for the input tokens of a prompt; the output comes on top."""
    texts = [message.content for message in prompt.messages]
    texts += [call.arguments + call.name for message in prompt.messages for call in message.calls]
    offered = (*prompt.tools, *([prompt.answer] if prompt.answer else ()))
    texts += [tool.name + tool.description + json.dumps(cast("Any", tool.schema)) for tool in offered]
    return sum(len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN + 4 for text in texts)
