"""What a listener's peers accept, as text for a model's prompt.

Owns the wording and its bounds. Shows structure only: no text that the author of a schema wrote for people reaches a
prompt. Refuses to know how the text is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.contract import TodoComplete, TodoUntil
from agentserver.core.messages import TODO

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.core.blueprint import Listener
    from agentserver.core.codec import Codecs

SCHEMA_LIMIT = 6_000
"""Characters of one schema; a longer one is left out, its example stays."""

TEXT_LIMIT = 60_000
"""Characters of the whole text; peers beyond it are named without their schemas."""

SEMANTICS = """\
## Responding
- Responding to your caller ends your present task. Every listener that you called meanwhile is stopped.
- Their state is lost (memory, scratch space), and what they still send is discarded.
- You cannot call them again in the same context once you have responded.
So finish all sub-tasks first. If you need a listener's result, wait for its answer before you respond."""


def usage_instructions(listener: Listener, listeners: Mapping[str, Listener], codecs: Codecs) -> str:
    """The text for one listener; empty when it has no peers."""
    peers = [listeners[name] for name in sorted(listener.peers) if name in listeners]
    entries = [
        *((peer.name, peer.description, peer.payloads) for peer in peers),
        *(
            [(TODO, "Reminds you of replies you wait for.", (TodoUntil, TodoComplete))]
            if TODO in listener.peers
            else []
        ),
    ]
    if not entries:
        return ""
    parts = ["You can send messages to these listeners. A payload must look exactly as its schema says."]
    size = len(parts[0]) + len(SEMANTICS)
    for name, description, payloads in entries:
        head = f"## {name}\n{description}"
        body = "\n".join([head, *(line for payload in payloads for line in _payload(payload, codecs))])
        part = body if size + len(body) <= TEXT_LIMIT else head
        size += len(part)
        parts.append(part)
    return "\n\n".join([*parts, SEMANTICS])


def _payload(payload: type, codecs: Codecs) -> Iterator[str]:
    codec = codecs.of(payload)
    schema = codec.xsd()
    if len(schema) <= SCHEMA_LIMIT:
        yield f"Schema:\n```xsd\n{schema}\n```"
    yield f"Example:\n```xml\n{codec.example()}\n```"
