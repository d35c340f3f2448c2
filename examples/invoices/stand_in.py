"""Scripted model that reads the mail and believes its last sentence."""

import json
import re
from typing import Any

from agentserver.llm import Completion, ToolCall


def extract(prompt: Any) -> Completion:
    """Read the mail, then report the vendor and the amount."""
    last = max(place for place, message in enumerate(prompt.messages) if message.role == "user")
    results = [message.content for message in prompt.messages[last:] if message.role == "tool"]
    if not results:
        (number,) = re.findall(r"\d+", prompt.messages[last].content)[-1:]
        return call("mailbox_read", mail=number)
    vendors, amounts = re.findall(r"Acme|Bolt|Eve Ltd", results[0]), re.findall(r"[\d.]+ EUR", results[0])
    return call("Invoice", vendor=vendors[-1], amount=amounts[-1].split()[0])


def call(name: str, **given: str) -> Completion:
    """Call one tool."""
    return Completion(calls=(ToolCall("1", name, json.dumps(given)),))
