"""A line that a check of a configuration has printed finds the entry of its code, whatever it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentserver.config.loading import forget, inspect
from agentserver.remedies import find_remedies

LISTENER = "  - name: say\n    description: Says it.\n    handler: said.say\n"
WHOLE = f"name: d\nlisteners:\n{LISTENER}"
CODE = """
from dataclasses import dataclass
from agentserver import HandlerResponse, xmlify

@xmlify
@dataclass(frozen=True)
class Say:
    text: str

async def say(payload: Say, metadata):
    return HandlerResponse.respond(payload)
"""
KEYS = (
    *(
        "deadline: 5 parsecs",
        "deadline: 0",
        "deadline: -1",
        "deadline: 1:30",
        "deadline: .inf",
        "deadline: []",
    ),
    *(
        "concurrency: many",
        "concurrency: 0",
        "concurrency: 1_000",
        "agent: perhaps",
        "peers: say",
        "peers: [1]",
    ),
    *(
        "peers: [sya]",
        "peers: [*]",
        "peers: *all",
        "peers: [say",
        "peers: [say] say",
        "trust: sorce",
        "rolle: x",
    ),
    *("handler: said.say", "payload_class: said.say", "payload_class: said", "payload_class: builtins.dict"),
    *("payload_class: Say", "model: writer", "isolation: yes", "settings: 5", "prompt: nowhere.md", "1: 2"),
    *(
        "? [a]\n    : b",
        "<<: {a: b}",
        "\tpeers: []",
        " peers: []",
        "peers []",
        "why: a: b",
        "why: @b",
        'why: "b',
    ),
)
FILES = (
    *(
        "",
        "- a",
        "a",
        "name: d",
        "name: d\nlisteners:\n",
        "name: d\nlisteners: {}\n",
        "name: 1\nlisteners: []\n",
    ),
    *(
        "name: a b\nlisteners: []\n",
        "name: 2026-01-01\nlisteners: []\n",
        "name: ${",
        "name: ${NOBODY_SET_IT}",
    ),
    *(
        "name: !tag d",
        "name: &a [*a]",
        "%YAML 9.9\n---\nname: d",
        "name: d\n---\nname: e",
        "name: \x00",
        "\xff",
    ),
    *(
        "[" * 99,
        f"{WHOLE}provenance: enforce",
        f"{WHOLE}provenance: {{mode: enforced}}",
        f"{WHOLE}limits: {{hops: 0}}",
    ),
    *(
        f"{WHOLE}limits: {{hop: 1}}",
        f"{WHOLE}guards: [a.b]",
        f"{WHOLE}include: [nowhere.yaml]",
        f"{WHOLE}lifespan: a.b",
    ),
    *(
        f"{WHOLE}{LISTENER}",
        WHOLE.replace("name: say", "name: system"),
        WHOLE.replace("name: say", "name: no"),
    ),
    *(
        WHOLE.replace("Says it.", '"\\ud800"'),
        WHOLE.replace("Says it.", '"a\\u202Eb"'),
        WHOLE.replace("said.say", "said"),
    ),
    *(
        WHOLE.replace("said.say", "siad.say"),
        WHOLE.replace("said.say", "said.sya"),
        WHOLE.replace("said.say", "said:say"),
    ),
    *(WHOLE.replace(": Says it.", f": {'x' * 600}"), WHOLE.replace("name: say", f"name: {'x' * 200}")),
)
FIELDS = (
    *("text: dict[str, int]", "text: object", "text: 'str | int'", "text: list[list[int]]", "text: complex"),
    *("text: 'Nobody'", "text: 'Say'", "text: tuple[int, str]", "text: set[int]", "text: list", "text: None"),
    *(
        "text: list[str] = []",
        "text: str\n    raise ValueError('boo')",
        "text: (",
        "text: str\n\tb: int",
        "import nobody_wrote",
    ),
)


def said(folder: Path, text: str, code: str = CODE):
    (folder / "said.py").write_text(code)
    (folder / "organism.yaml").write_bytes(text.encode("utf-8" if text != "\xff" else "latin-1"))
    organism, findings = inspect(folder / "organism.yaml", {})
    if organism is not None:
        forget(organism)
    return [(one.format_with_code(), one.code) for one in findings]


def unexplained_lines(lines):
    return [line for line, code in lines if find_remedies(line) != (code,)]


@pytest.mark.parametrize("text", [*(f"{WHOLE}    {key}\n" for key in KEYS), *FILES])
def test_each_mistake_of_a_file_finds_an_entry(tmp_path, text):
    told = said(tmp_path, text)
    assert told
    assert unexplained_lines(told) == []


@pytest.mark.parametrize("field", FIELDS)
def test_each_mistake_of_a_class_finds_an_entry(tmp_path, field):
    told = said(tmp_path, WHOLE, CODE.replace("text: str", field, 1))
    assert told
    assert unexplained_lines(told) == []
