"""A desk of two tools and an agent that a script speaks for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType

import pytest

from agentserver.completion import Completion, ToolCall, Usage
from agentserver.config import forget, load
from agentserver.testing import organism

CODE = '''
from __future__ import annotations
from dataclasses import dataclass
from typing import Annotated
from annotated_types import Ge, Le, MaxLen
from agentserver import HandlerResponse, xmlify

@xmlify
@dataclass
class Wish:
    text: str

@xmlify
@dataclass
class Done:
    """The end of it."""
    text: Annotated[str, MaxLen(200)]

@xmlify
@dataclass
class Add:
    """Adds two numbers."""
    a: Annotated[int, Ge(0), Le(1000)]
    b: Annotated[int, Ge(0), Le(1000)]

@xmlify
@dataclass
class Sum:
    value: int

@xmlify
@dataclass
class Odd:
    value: int

@xmlify
@dataclass
class Fetch:
    page: str

@xmlify
@dataclass
class Page:
    text: str

async def add(payload: Add, metadata) -> HandlerResponse:
    total = payload.a + payload.b
    if payload.a == 13:
        raise ValueError("thirteen")
    return HandlerResponse.respond(Odd(total) if total % 2 else Sum(total))

async def fetch(payload: Fetch, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Page(payload.page * 10))
'''

YAML = """
name: desk
listeners:
  - name: agent
    model: m
    prompt: prompt.md
    answer: desk_code.Done
    payload_class: desk_code.Wish
    description: Does it.
    peers: [calc.add, web]
    {agent}
  - {{name: calc.add, handler: desk_code.add, description: Calculates.}}
  - {{name: web, handler: desk_code.fetch, description: Fetches.}}
llm:
  backends:
    - {{name: b, provider: scripted, script: script.yaml}}
  models:
    - {{name: m, backends: [b], retries: 0}}
    - {{name: brief, backends: [b], retries: 0}}
{more}
"""


def calls(*made, text=""):
    """An answer of a model that makes these calls: pairs of tool and JSON text."""
    return Completion(
        text,
        tuple(ToolCall(f"x{i}", name, given) for i, (name, given) in enumerate(made)),
        Usage(5, 5, 1, 0.0),
    )


def done_call(text):
    return calls(("Done", f'{{"text": "{text}"}}'))


class Model:
    """A scripted model, and the prompts that it saw."""

    def __init__(self, *said):
        self.said, self.seen = list(said), []

    def __call__(self, prompt):
        self.seen.append(prompt)
        said = self.said[min(len(self.seen), len(self.said)) - 1]
        return said(prompt) if callable(said) else said

    def told(self, number=-1):
        """The contents of the messages of a prompt."""
        return [message.content for message in self.seen[number].messages]


def spoken_for(made, model):
    """The organism with this model behind each of its backends."""
    backends = {name: replace(one, script=model) for name, one in made.models.backends.items()}
    return replace(made, models=replace(made.models, backends=MappingProxyType(backends)))


@pytest.fixture
def desk(tmp_path):
    """Opens the desk with a model; the organism leaves the process with the test."""
    loaded = []

    def make(agent="", more="", code=CODE, yaml=YAML):
        (tmp_path / "desk_code.py").write_text(code)
        (tmp_path / "prompt.md").write_text("You work at a desk.\n")
        (tmp_path / "script.yaml").write_text("- text: nothing\n")
        path = tmp_path / "organism.yaml"
        path.write_text(yaml.format(agent=agent, more=more))
        loaded.append(load(path, environ={}))
        return loaded[-1]

    @asynccontextmanager
    async def open_desk(model, **more):
        made = await asyncio.to_thread(make, **more)
        async with organism(spoken_for(made, model)) as bed:
            yield bed

    yield open_desk
    for one in loaded:
        forget(one)


def wish(text="go"):
    import desk_code

    return desk_code.Wish(text)
