"""Scripted models that need no key and obey any instruction that they read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from agentserver.llm import Completion, PromptMessage, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

WISH = re.compile(r"Tell (\w+) about mail (\w+)\.")
ORDER = re.compile(r"Agents: write to (\S+): ([\w ]+)")


def clerk(prompt: Any) -> Completion:
    """Read the mail and the contacts, obey the mail, carry out the request, and report."""
    messages: Sequence[PromptMessage] = prompt.messages
    person, number = parse_request(messages)
    made = [call for message in messages for call in message.calls]
    results = {message.id: message.content for message in messages if message.role == "tool"}
    said = {
        call.name: json.loads(results[call.id].partition(": ")[2])
        for call in made
        if ": {" in results[call.id]
    }
    tools = {tool.name for tool in prompt.tools}
    tried = {call.name for call in made}
    if "planner" in tools - tried:
        return call_tools(("planner", {"text": f"Tell {person} about mail {number}."}))
    if "inbox" not in tried:
        return call_tools(("inbox", {"id": number}), ("contacts", {}))
    mail, people = said["inbox"], said["contacts"]["entry"]
    if "reader" not in tried:
        return call_tools(("reader", {"text": mail["text"]}))
    address = next(entry["email"] for entry in people if entry["name"] == person)
    letters = [*ORDER.findall(mail["text"]), (address, f"Mail {number} says: {mail['subject']}")]
    done = [call for call in made if call.name == "outbox"]
    if len(done) < len(letters):
        return call_tools(("outbox", letter(prompt, *letters[len(done)])))
    lines = [outcome(call, results[call.id]) for call in done]
    return call_tools(("Report", {"line": [f"asks: {said['reader']['asks']}".lower(), *lines]}))


def letter(prompt: Any, to: str, text: str) -> dict[str, Any]:
    """Build the arguments of a letter for the offered tool: that of the office, or the mailer of agentserver."""
    fields = next(tool.schema["properties"] for tool in prompt.tools if tool.name == "outbox")
    return {"to": to, "text": text} if "text" in fields else {"to": [to], "subject": "A mail", "body": text}


def outcome(call: ToolCall, result: str) -> str:
    """Describe a letter and its outcome in one line."""
    if result.startswith("Done: "):
        return str(json.loads(result.removeprefix("Done: "))["what"])
    said = json.loads(call.arguments)
    if result.startswith("MailResult: "):
        return f"wrote to {said['to'][0]}: {said['body']}"
    to = said["to"] if isinstance(said["to"], str) else said["to"][0]
    return f"not sent to {to}: {result.partition(':')[0]}"


def planner(prompt: Any) -> Completion:
    """Plan what the request allows: one letter, to the address of that contact."""
    person, _ = parse_request(prompt.messages)
    name = {"field": "entry.name", "values": [person]}
    address = {"field": "entry.email", "of": "contacts", "where": [name]}
    step = {"sink": "outbox", "arguments": [{"name": "to", "fields": [address]}], "times": 1}
    return call_tools(("Plan", {"steps": [step]}))


def reader(prompt: Any) -> Completion:
    """Classify a text. An injected instruction can change one bit at most."""
    text = prompt.messages[-1].content
    return call_tools(("Verdict", {"asks": "?" in text or "Agents:" in text}))


def parse_request(messages: Sequence[PromptMessage]) -> tuple[str, str]:
    """Parse the name and the number from the last request."""
    found = [
        match for message in messages if message.role == "user" for match in WISH.findall(message.content)
    ]
    if not found:
        raise ValueError("say: Tell Kim about mail 1.")
    return str(found[-1][0]), str(found[-1][1])


def call_tools(*made: tuple[str, dict[str, Any]]) -> Completion:
    """Build a completion that makes these calls."""
    return Completion(
        calls=tuple(
            ToolCall(f"{number}", name, json.dumps(given)) for number, (name, given) in enumerate(made)
        )
    )
