"""Models that need no key: each says what a model would that obeys whatever it reads."""

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
    """Look everything up, then do what the mail says, then what the principal said; then report."""
    messages: Sequence[PromptMessage] = prompt.messages
    person, number = asked(messages)
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
        return calling(("planner", {"text": f"Tell {person} about mail {number}."}))
    if "inbox" not in tried:
        return calling(("inbox", {"id": number}), ("contacts", {}))
    mail, people = said["inbox"], said["contacts"]["entry"]
    if "reader" not in tried:
        return calling(("reader", {"text": mail["text"]}))
    address = next(entry["email"] for entry in people if entry["name"] == person)
    letters = [*ORDER.findall(mail["text"]), (address, f"Mail {number} says: {mail['subject']}")]
    done = [call for call in made if call.name == "outbox"]
    if len(done) < len(letters):
        return calling(("outbox", letter(prompt, *letters[len(done)])))
    lines = [outcome(call, results[call.id]) for call in done]
    return calling(("Report", {"line": [f"asks: {said['reader']['asks']}".lower(), *lines]}))


def letter(prompt: Any, to: str, text: str) -> dict[str, Any]:
    """The arguments of a letter, as the tool there is takes them: the office's own, or the mailer of agentserver."""
    fields = next(tool.schema["properties"] for tool in prompt.tools if tool.name == "outbox")
    return {"to": to, "text": text} if "text" in fields else {"to": [to], "subject": "A mail", "body": text}


def outcome(call: ToolCall, result: str) -> str:
    """A letter, and what became of it, in one line."""
    if result.startswith("Done: "):
        return str(json.loads(result.removeprefix("Done: "))["what"])
    said = json.loads(call.arguments)
    if result.startswith("MailResult: "):
        return f"wrote to {said['to'][0]}: {said['body']}"
    to = said["to"] if isinstance(said["to"], str) else said["to"][0]
    return f"not sent to {to}: {result.partition(':')[0]}"


def planner(prompt: Any) -> Completion:
    """Say what the words allow: one letter, to the address that the contacts give for that name."""
    person, _ = asked(prompt.messages)
    name = {"field": "entry.name", "values": [person]}
    address = {"field": "entry.email", "of": "contacts", "where": [name]}
    step = {"sink": "outbox", "arguments": [{"name": "to", "fields": [address]}], "times": 1}
    return calling(("Plan", {"steps": [step]}))


def reader(prompt: Any) -> Completion:
    """Say whether a text asks for an answer. Whatever the text wants, it gets one bit."""
    text = prompt.messages[-1].content
    return calling(("Verdict", {"asks": "?" in text or "Agents:" in text}))


def asked(messages: Sequence[PromptMessage]) -> tuple[str, str]:
    """The name and the number in the principal's words, which the last request holds."""
    found = [
        match for message in messages if message.role == "user" for match in WISH.findall(message.content)
    ]
    if not found:
        raise ValueError("say: Tell Kim about mail 1.")
    return str(found[-1][0]), str(found[-1][1])


def calling(*made: tuple[str, dict[str, Any]]) -> Completion:
    """An answer that makes these calls."""
    return Completion(
        calls=tuple(
            ToolCall(f"{number}", name, json.dumps(given)) for number, (name, given) in enumerate(made)
        )
    )
