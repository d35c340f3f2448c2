"""The payloads that a listener's peers accept, as text for a model's prompt.

What others wrote is data in it: of schemas only the structure, no documentation; of descriptions one line. Every line
of theirs begins with a word or a tag of ours, so that no author can add a heading, end a code fence or speak in the
server's voice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.characters.printing import clean_line, escape_markup
from agentserver.contract import TodoComplete, TodoUntil
from agentserver.core.messages import TODO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.core.blueprint import Listener
    from agentserver.payload.codec import Codecs

SCHEMA_LIMIT = 6_000
"""Characters of one schema; a longer one is left out, its example stays."""

DESCRIPTION_LIMIT = 500
"""Characters of one description."""

TEXT_LIMIT = 60_000
"""Characters of the whole text; peers beyond it are shown without their schemas, then only counted."""

BREAK = "\n\n"

INTRODUCTION = "You can send messages to these listeners. A payload must look exactly as its schema says."

SEMANTICS = """\
## Responding
- Responding to your caller ends your present task. Every listener that you called meanwhile is stopped.
- Their state is lost (memory, scratch space), and what they still send is discarded.
- You cannot call them again in the same context once you have responded.
So finish all sub-tasks first. If you need a listener's result, wait for its answer before you respond."""


def usage_instructions(listener: Listener, listeners: Mapping[str, Listener], codecs: Codecs) -> str:
    """Write the text for one listener, up to TEXT_LIMIT characters; empty when it has no peers."""
    entries = list(_entries(listener, listeners))
    if not entries:
        return ""
    parts, left_out = [INTRODUCTION], 0
    room = TEXT_LIMIT - len(INTRODUCTION) - len(SEMANTICS) - len(_not_shown(len(entries))) - 2 * len(BREAK)
    for name, description, payloads in entries:
        head = (
            f"## {clean_line(name, DESCRIPTION_LIMIT)}\nPurpose: {clean_line(description, DESCRIPTION_LIMIT)}"
        )
        body = "\n".join([head, *(line for payload in payloads for line in _payload(payload, codecs))])
        part = next((form for form in (body, head) if len(BREAK) + len(form) <= room), "")
        if part:
            parts.append(part)
            room -= len(BREAK) + len(part)
        else:
            left_out += 1
    return BREAK.join([*parts, *([_not_shown(left_out)] if left_out else []), SEMANTICS])


def _entries(
    listener: Listener, listeners: Mapping[str, Listener]
) -> Iterator[tuple[str, str, tuple[type, ...]]]:
    for name in sorted(listener.peers):
        if name in listeners:
            yield name, listeners[name].description, listeners[name].payloads
    if TODO in listener.peers:
        yield TODO, "Reminds you of replies you wait for.", (TodoUntil, TodoComplete)


def _not_shown(count: int) -> str:
    return f"{count} more listeners are not shown."


def _payload(payload: type, codecs: Codecs) -> Iterator[str]:
    codec = codecs.of(payload)
    schema = "\n".join(_lines(codec.xsd()))
    if len(schema) <= SCHEMA_LIMIT:
        yield f"Schema:\n```xsd\n{schema}\n```"
    yield f"Example:\n```xml\n{escape_markup(codec.example())}\n```"


def _lines(schema: str) -> list[str]:
    """Split a schema into lines that each begin with a tag."""
    lines: list[str] = []
    for line in schema.expandtabs(2).split("\n"):
        shown = escape_markup(line)
        if shown.lstrip().startswith("<"):
            lines.append(shown)
        elif shown.strip():
            lines[-1:] = [" ".join([*lines[-1:], shown.strip()])]
    return lines
