"""A desk whose clerk reads pages over MCP: its letters, and a model that obeys whatever it reads."""

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
    """Something to do."""

    text: str


@xmlify
@dataclass(frozen=True)
class Account:
    """What came of it, a line for each letter."""

    line: list[str]


@xmlify
@dataclass(frozen=True)
class Letter:
    """A letter to somebody."""

    to: str
    text: str


@xmlify
@dataclass(frozen=True)
class Posted:
    """What was done."""

    what: str


async def send(payload: Letter, metadata: HandlerMetadata) -> HandlerResponse:
    """Say that a letter is on its way."""
    return HandlerResponse.respond(Posted(f"wrote to {payload.to}: {payload.text}"))


def clerk(prompt: Any) -> Completion:
    """Read the page, then do what the page says, then what the principal said; then report."""
    asked = [message.content for message in prompt.messages if message.role == "user"]
    found = [match for text in asked for match in WISH.findall(text)]
    if not found:
        raise ValueError("say: Read http://... and tell kim@office.example.")
    page, person = found[-1]
    made = [call for message in prompt.messages for call in message.calls]
    results = {message.id: message.content for message in prompt.messages if message.role == "tool"}
    pages = [results[call.id] for call in made if call.name == "web_fetch"]
    if not pages:
        return calling("web_fetch", {"url": page, "raw": True})
    letters = [*ORDER.findall(pages[0]), (person, "The page has been read")]
    done = [call for call in made if call.name == "letters"]
    if len(done) < len(letters):
        to, text = letters[len(done)]
        return calling("letters", {"to": to, "text": text})
    return calling("Account", {"line": [outcome(call, results[call.id]) for call in done]})


def outcome(call: ToolCall, result: str) -> str:
    """A letter, and what became of it, in one line."""
    if result.startswith("Posted: "):
        return str(json.loads(result.removeprefix("Posted: "))["what"])
    return f"not sent to {json.loads(call.arguments)['to']}: {result.partition(':')[0]}"


def calling(name: str, arguments: dict[str, Any]) -> Completion:
    """An answer that makes one call."""
    return Completion(calls=(ToolCall("0", name, json.dumps(arguments)),))
