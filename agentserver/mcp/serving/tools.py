"""The tools that listeners are to an MCP host.

Owns their names, order, schemas, and how answers read. Pure. Refuses to know the protocol: it works without the SDK.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agentserver.payload.json.elements import element_of, value_of
from agentserver.payload.json.schema import json_schema
from agentserver.payload.json.values import JsonRefusal
from agentserver.payload.names import local
from agentserver.wire import envelope
from agentserver.wire.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentserver.core.blueprint import Listener
    from agentserver.core.guard import Rules
    from agentserver.core.messages import Reply
    from agentserver.payload.codec import Codec


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A listener's payload as a tool.

    Args:
        name: the listener's; of a listener with several payloads, with the name of the payload behind a dot.
        listener: whom a call goes to.
        description: what the listener does, in the organism's words.
        codec: of the payload.
        schema: of the arguments.
        gives: schema of the answer; None where it is not known, or has several parts that no one schema can name.
        answers: root elements of the answers that ``gives`` is of.
    """

    name: str
    listener: str
    description: str
    codec: Codec
    schema: Mapping[str, Any]
    gives: Mapping[str, Any] | None = None
    answers: frozenset[str] = frozenset()

    def message(self, arguments: Mapping[str, Any]) -> bytes | JsonRefusal:
        """The payload that the arguments of a call mean, or what to correct in them."""
        found = element_of(self.codec, dict(arguments))
        return found if isinstance(found, JsonRefusal) else canonical(found)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to a call.

    Args:
        texts: the replies in order, each as JSON.
        value: the only reply as an object; None where there is none, several, or an error.
        error: whether the call came to nothing.
    """

    texts: tuple[str, ...]
    value: Mapping[str, Any] | None = None
    error: bool = False


def tools_of(rules: Rules, expose: Iterable[str]) -> Mapping[str, ServedTool]:
    """The tools by name, in the order in which their listeners are exposed.

    Raises ValueError for a name that is no listener's, a payload without a JSON form, and two tools of one name.
    """
    found: dict[str, ServedTool] = {}
    for name in expose:
        listener = rules.blueprint.listeners.get(name)
        if listener is None:
            raise ValueError(f"there is no listener {name} to expose")
        for tool in _tools(listener, rules):
            if tool.name in found:
                raise ValueError(f"two tools would be called {tool.name}")
            found[tool.name] = tool
    return MappingProxyType(found)


def _tools(listener: Listener, rules: Rules) -> Iterable[ServedTool]:
    for payload in listener.payloads:
        codec = rules.codecs.of(payload)
        schema = json_schema(codec)
        if isinstance(schema, JsonRefusal):
            told = f"{listener.name} cannot be exposed: {schema.faults[0].rule}"
            raise ValueError(told)  # noqa: TRY004 - a mistake of whoever exposes it
        several = len(listener.payloads) > 1
        name = f"{listener.name}.{local(codec.name)}" if several else listener.name
        gives, answers = _answers(listener, rules)
        yield ServedTool(name, listener.name, listener.description, codec, schema, gives, answers)


def _answers(listener: Listener, rules: Rules) -> tuple[Mapping[str, Any] | None, frozenset[str]]:
    """Give the schema of a listener's answers, and their root elements; None where it has none."""
    codecs = [rules.codecs.of(each) for each in listener.answers]
    schemas = [json_schema(codec) for codec in codecs]
    known = [schema for schema in schemas if not isinstance(schema, JsonRefusal)]
    roots = frozenset(codec.name for codec in codecs)
    if not known or len(known) < len(schemas):
        return None, frozenset()
    if len(known) == 1:
        return known[0], roots
    if any("$defs" in schema for schema in known):  # its references are to the root of a schema of its own
        return None, frozenset()
    return {"type": "object", "anyOf": known}, roots


def answer_of(replies: Sequence[Reply], rules: Rules, tool: ServedTool) -> ToolAnswer:
    """Give the answer that replies are. None at all is an error, as is one that the tool's schema does not know."""
    if not replies:
        return ToolAnswer(("It ended without an answer.",), error=True)
    values = [_value(reply, rules) for reply in replies]
    texts = tuple(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values
    )
    error = any(reply.error for reply in replies)
    only = values[0] if len(values) == 1 and not error else None
    value = only if isinstance(only, dict) else None
    if tool.gives is not None and (value is None or replies[0].root not in tool.answers):
        return ToolAnswer(texts, error=True)
    return ToolAnswer(texts, value, error)


def _value(reply: Reply, rules: Rules) -> Any:
    """A reply as a JSON value; as markup where its payload has no JSON form."""
    read = envelope.read_envelope(reply.message)
    if isinstance(read, envelope.Malformed):
        return "An answer that cannot be read."
    codec = rules.codecs.named(str(read.payload.tag))
    value = None if codec is None else value_of(codec, read.payload)
    return canonical(read.payload).decode() if codec is None or isinstance(value, JsonRefusal) else value
