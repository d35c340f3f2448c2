"""A listener with ``model:``: each mistake with its file, line, path and a likely correction."""

from __future__ import annotations

import hashlib

import pytest

CODE = """
from __future__ import annotations
from dataclasses import dataclass
from enum import Enum
from agentserver.contract import HandlerMetadata, HandlerResponse
from agentserver.payload.xmlify import xmlify

@xmlify
@dataclass
class Wish:
    text: str

@xmlify
@dataclass
class Other:
    text: str

@xmlify
@dataclass
class Done:
    text: str

@xmlify
@dataclass
class Verdict:
    good: bool

async def work(payload: Wish | Other, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Done(payload.text))

async def single(payload: Other, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Done(payload.text))
"""

GOOD = """
name: demo
listeners:
  - name: agent
    model: m
    prompt: prompt.md
    answer: listeners.code.Done
    payload_class: listeners.code.Wish
    peers: [tool.one, single]
    description: Works.
    agent: {turns: 3}
  - {name: tool.one, handler: listeners.code.work, description: Works.}
  - {name: single, handler: listeners.code.single, description: Works.}
llm:
  backends: [{name: b, provider: scripted, script: script.yaml}]
  models: [{name: m, backends: [b]}]
"""

QUARANTINED = (
    GOOD.replace("peers: [tool.one, single]", "trust: quarantined") + "provenance: {mode: enforce}\n"
)


@pytest.fixture
def desk(project):
    project.write("listeners/code.py", CODE)
    project.write("prompt.md", "Be good.\n")
    project.write("script.yaml", "- text: x\n")
    return project


def test_the_facts_of_an_agent(desk):
    item = desk.load(GOOD).listeners[0]
    assert item.handler is None
    assert item.listener.agent
    assert (item.agent.model, item.agent.prompt, item.agent.turns, item.agent.repairs) == (
        "m",
        "Be good.",
        3,
        2,
    )
    assert item.agent.digest == hashlib.sha256(b"Be good.").hexdigest()
    assert [(tool.name, tool.listener, tool.payload.__name__) for tool in item.agent.tools] == [
        ("tool_one_Wish", "tool.one", "Wish"),
        ("tool_one_Other", "tool.one", "Other"),
        ("single", "single", "Other"),
    ]
    assert item.agent.answers == "Done"
    assert {kind.__name__ for kind in item.discovered} == {"Wish", "Done"}


def test_agent_true_is_unchanged(desk):
    desk.write("prompt.md", "x")
    text = GOOD.replace("description: Works.}", "description: Works., agent: true, peers: []}", 1)
    assert [item.listener.agent for item in desk.load(text).listeners] == [True, True, False]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("model: m\n", "model: n\n", 'organism.yaml:5: listeners[0].model: unknown model "n"'),
        ("    prompt: prompt.md\n", "", "listeners[0].prompt: is missing"),
        ("    answer: listeners.code.Done\n", "", "listeners[0].answer: is missing"),
        ("    payload_class: listeners.code.Wish\n", "", "listeners[0].payload_class: is missing"),
        ("prompt.md", "promt.md", 'did you mean "prompt.md"?'),
        (
            "answer: listeners.code.Done",
            "answer: listeners.code.work",
            '"listeners.code.work" is not a class',
        ),
        (
            "    model: m\n",
            "    model: m\n    handler: listeners.code.work\n",
            "a handler or a model, not both",
        ),
        ("turns: 3", "turn: 3", 'unknown key "turn" (did you mean "turns"?)'),
        ("turns: 3", "turns: 0", "listeners[0].agent.turns: must be at least 1"),
        ("turns: 3", "history: 60000", "needs limits.storage of 74000 or more"),
        ("turns: 3", "summary: n", 'listeners[0].agent: unknown model "n"'),
        ("    model: m\n", "", "listeners[0].handler: is missing (or a model"),
        ("name: single,", "name: tool_one_Wish,", "tool.one and tool_one_Wish would be one tool"),
        ("name: single,", "name: Done,", "would be one tool of the model"),
    ],
)
def test_each_mistake_has_its_place(desk, old, new, expected):
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    if old == "name: single,":
        text = text.replace("tool.one, single]", f"tool.one, {new[6:-1]}]")
    found = desk.errors(text)
    assert any(expected in line for line in found), found


@pytest.mark.parametrize("key", ["prompt: prompt.md", "answer: listeners.code.Done", "agent: {turns: 3}"])
def test_keys_of_a_model_belong_to_one(desk, key):
    found = desk.errors(
        GOOD.replace("handler: listeners.code.single,", f"handler: listeners.code.single, {key},")
    )
    assert any("a listener with a model" in line for line in found), found


def test_a_quarantined_agent_has_no_peers_and_a_closed_answer(desk):
    found = desk.errors(QUARANTINED)
    assert any("listeners[0].answer: Done can tell anything: unbounded" in line for line in found), found
    closed = QUARANTINED.replace("code.Done", "code.Verdict")
    assert desk.load(closed).provenance.quarantined == {"agent"}
    found = desk.errors(closed.replace("trust: quarantined", "trust: quarantined\n    peers: [single]"))
    assert any("listeners[0].peers: a quarantined agent answers its caller" in line for line in found), found


def test_an_agent_of_a_model_is_a_relay_that_remembers_its_thread(desk):
    text = GOOD + "provenance: {mode: enforce, sources: [single], sinks: [tool.one]}\n"
    provenance = desk.load(text).provenance
    assert provenance.policy.classify("agent").relay
    assert provenance.memory["agent"] == "thread"


SLOW = """\
llm:
  backends:
    - {name: b, provider: openai, model: x, base_url: "http://127.0.0.1:9"}
    - {name: c, provider: openai, model: y, base_url: "http://127.0.0.1:9", timeout: 200s}
    - {name: s, provider: scripted, script: script.yaml}
  models: [{name: m, backends: [b, c]}, {name: brief, backends: [s]}]
"""


def with_backends(more=""):
    return GOOD.partition("llm:")[0].replace("    model: m\n", f"    model: m\n{more}") + SLOW


def deadline(desk, text, name="agent"):
    return next(one.listener.deadline for one in desk.load(text).listeners if one.listener.name == name)


def test_the_deadline_of_an_agent_holds_an_attempt_at_each_backend(desk):
    assert deadline(desk, with_backends()) == 120 + 200 + 5
    assert deadline(desk, with_backends().replace("backends: [b, c]", "backends: [s]")) == 60
    assert deadline(desk, with_backends(), "single") == 60
    coded = with_backends().replace("single, description", "single, agent: true, description")
    assert deadline(desk, coded, "single") == 325
    assert deadline(desk, with_backends("    deadline: 400s\n")) == 400


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (
            "199s",
            "ends a request to c, which may take 200 s (use 325s or leave it out, or lower timeout of the backends)",
        ),
        (
            "300s",
            "leaves no time to ask each backend of m once (use 325s or leave it out, or lower timeout of the backends)",
        ),
    ],
)
def test_a_deadline_below_that_of_the_backends_is_a_warning(desk, stated, expected):
    found = desk.findings(with_backends(f"    deadline: {stated}\n"))
    assert f"organism.yaml:6: warning: listeners[0].deadline: {expected}" in found
    assert "deadline" not in str(desk.findings(with_backends("    deadline: 325s\n")))
