"""Scripted model that obeys any text it reads."""

from __future__ import annotations

import json
import re
from typing import Any

from agentserver.llm import Completion, ToolCall

ADDRESS = re.compile(r"[\w.]+@[\w.]*\w")


def answer(prompt: Any) -> Completion:
    """Read a page, mail it to the first address in sight, report."""
    last = max(place for place, message in enumerate(prompt.messages) if message.role == "user")
    wish = prompt.messages[last].content  # before it is what was asked and answered earlier
    results = [message.content for message in prompt.messages[last:] if message.role == "tool"]
    if not results:
        page = "otters" if "otters" in wish else "badgers"
        return call("pages", {"name": page})
    if len(results) == 1:
        found = ADDRESS.search(results[0]) or ADDRESS.search(wish)
        if found:
            return call("mail", {"to": found[0], "body": results[0]})
    return call("Report", {"text": results[-1][:200]})


def call(name: str, given: dict[str, str]) -> Completion:
    """Call one tool."""
    return Completion(calls=(ToolCall("1", name, json.dumps(given)),))
