"""Payload classes as tools, and what a model writes as their values.

Owns both ways: the JSON Schema that a model is shown, and the value that its JSON text means, which is valid by the XSD
of its class. Pure.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentserver.completion import Completion, Finish, PromptMessage, Tool
from agentserver.payload.json.elements import element_of
from agentserver.payload.json.schema import json_schema
from agentserver.payload.json.values import JsonRefusal, read
from agentserver.payload.names import local

if TYPE_CHECKING:
    from agentserver.completion import Prompt
    from agentserver.payload.codec import Codec

DESCRIPTION = 1000
"""Characters of a description."""


def tool_of(codec: Codec, name: str = "", description: str = "") -> Tool:
    """The tool that takes the fields of a payload class.

    Args:
        codec: of the class.
        name: of the tool; that of the payload when empty.
        description: for the model; the docstring of the class when empty.

    Raises ValueError for a class that is bound to a hand-written schema: it has no JSON form.
    """
    schema = json_schema(codec)
    if isinstance(schema, JsonRefusal):
        raise ValueError(str(schema))  # noqa: TRY004 - the class has no JSON form
    schema.pop("$schema", None)
    told = description or written_docstring(codec.payload)
    return Tool(name or local(codec.name), told[:DESCRIPTION], schema)


def written_docstring(kind: type) -> str:
    """The docstring that an author has written; dataclasses make one of their fields where there is none."""
    text = inspect.cleandoc(kind.__doc__ or "")
    return "" if text.startswith(f"{kind.__name__}(") else text


def value_from(codec: Codec, text: str) -> Any | JsonRefusal:
    """The value that a JSON text means; a refusal says what to correct, in the words of the class."""
    found = read(text)
    element = found if isinstance(found, JsonRefusal) else element_of(codec, found)
    return element if isinstance(element, JsonRefusal) else codec.decode(element)


def answered(said: Completion, prompt: Prompt, codec: Codec) -> Completion | tuple[PromptMessage, ...]:
    """An answer with its value, or with the calls that it made instead; or what the model has to be told.

    Calls of tools go before an answer that comes with them: it was written without their results.
    """
    assert prompt.answer is not None
    name = prompt.answer.name
    others = tuple(call for call in said.calls if call.name != name)
    if others:
        return replace(said, calls=others)
    mine = said.calls[0] if said.calls else None
    value = value_from(codec, mine.arguments if mine else said.content)
    if not isinstance(value, JsonRefusal):
        return replace(said, calls=(), output=value, finish=Finish.STOP)
    if mine is None:
        told = f"Answer with a call of the tool {name}.\n{value}"
        return (PromptMessage("assistant", said.content), PromptMessage("user", told))
    told = f"The arguments are not valid. Correct them.\n{value}"
    results = (PromptMessage("tool", told, id=call.id, name=call.name) for call in said.calls)
    return (PromptMessage("assistant", said.content, said.calls), *results)
