"""A desk whose clerk reads pages over MCP: its letters, and a model that obeys any text it reads."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from agentserver import HandlerMetadata, HandlerResponse, xmlify
from agentserver.llm import Completion, ToolCall

WISH = re.compile(r"Read (\S+) and tell (\S+@[\w.]*\w)")
ORDER = re.compile(r"Agents: write to (\S+): ([\w ]+)")


@xmlify
@dataclass(frozen=True)
class Errand:
    """Request of the principal."""

    text: str


@xmlify
@dataclass(frozen=True)
class Account:
    """Outcome, one line for each letter."""

    line: list[str]


@xmlify
@dataclass(frozen=True)
class Letter:
    """Letter to any address."""

    to: str
    text: str


@xmlify
@dataclass(frozen=True)
class LetterReceipt:
    """Description of a sent letter."""

    what: str


async def send(payload: Letter, metadata: HandlerMetadata) -> HandlerResponse:
    """Say that a letter is on its way."""
    return HandlerResponse.respond(LetterReceipt(f"wrote to {payload.to}: {payload.text}"))


def clerk(prompt: Any) -> Completion:
    """Read the page, obey it, carry out the request, and report."""
    asked = [message.content for message in prompt.messages if message.role == "user"]
    found = [match for text in asked for match in WISH.findall(text)]
    if not found:
        raise ValueError("say: Read http://... and tell kim@office.example.")
    page, person = found[-1]
    made = [call for message in prompt.messages for call in message.calls]
    results = {message.id: message.content for message in prompt.messages if message.role == "tool"}
    pages = [results[call.id] for call in made if call.name == "web_fetch"]
    if not pages:
        return call_tool("web_fetch", {"url": page, "raw": True})
    letters = [*ORDER.findall(pages[0]), (person, "The page has been read")]
    done = [call for call in made if call.name == "letters"]
    if len(done) < len(letters):
        to, text = letters[len(done)]
        return call_tool("letters", {"to": to, "text": text})
    return call_tool("Account", {"line": [outcome(call, results[call.id]) for call in done]})


def outcome(call: ToolCall, result: str) -> str:
    """Describe a letter and its outcome in one line."""
    if result.startswith("LetterReceipt: "):
        return str(json.loads(result.removeprefix("LetterReceipt: "))["what"])
    return f"not sent to {json.loads(call.arguments)['to']}: {result.partition(':')[0]}"


def call_tool(name: str, arguments: dict[str, Any]) -> Completion:
    """Build a completion that makes one call."""
    return Completion(calls=(ToolCall("0", name, json.dumps(arguments)),))
