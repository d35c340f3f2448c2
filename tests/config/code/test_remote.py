"""Listeners whose processes are on other machines: their door, and all that such a machine reads."""

from __future__ import annotations

import pytest

from agentserver.config import load
from agentserver.config.code.isolated import read_part
from agentserver.config.findings import ConfigError

ONE = """name: org
{http}
listeners:
  - name: calculator
    description: Works elsewhere.
    handler: far.work
    payload_class: words.Ask
    isolation: {isolation}
  - name: other
    description: Works here.
    handler: near.work
    settings_class: near.Settings
    settings: {{key: "${{SECRET}}"}}
"""
WORDS = """from dataclasses import dataclass
from agentserver import xmlify

@xmlify
@dataclass(frozen=True)
class Ask:
    text: str
"""


@pytest.fixture
def made(tmp_path):
    (tmp_path / "words.py").write_text(WORDS)
    (tmp_path / "far.py").write_text("async def work(payload, metadata): ...\nraise SystemExit('imported')\n")
    (tmp_path / "near.py").write_text("raise SystemExit('imported')\n")

    def make(isolation="remote", http="http: {}"):
        path = tmp_path / "organism.yaml"
        path.write_text(ONE.format(isolation=isolation, http=http))
        return path

    return make


def told(path):
    with pytest.raises(ConfigError) as error:
        load(path, environ={"SECRET": "x"}, separate=True)
    return [f"{each.line}: {each.path}: {each.message}" for each in error.value.findings]


@pytest.mark.parametrize("isolation", ["remote", "{remote: true, memory: 200MB}"])
def test_without_a_door_it_is_refused_with_file_and_line(made, isolation):
    lacks = "8: listeners[0].isolation: its workers come through the door, and there is no http:"
    assert any(each.startswith(lacks) for each in told(made(isolation, "")))
    assert not any("come through the door" in each for each in told(made(isolation)))
    assert not any("come through the door" in each for each in told(made("process", "")))


def test_a_worker_reads_its_listener_and_neither_imports_nor_needs_the_rest(made):
    isolation = "{remote: true, memory: 200MB, env: {A: '${HERE}'}}"
    organism, mistakes = read_part(made(isolation), {"HERE": "b"}, "calculator")
    assert mistakes == ()
    (bound,) = organism.listeners
    assert bound.listener.name == "calculator"
    assert (bound.isolation.memory, bound.isolation.remote) == (200_000_000, True)
    assert bound.isolation.environment == {"A": "b"}


@pytest.mark.parametrize(
    ("listener", "isolation", "why"),
    [
        ("calculater", "remote", 'there is no listener "calculater" (did you mean "calculator"?)'),
        ("calculator", "process", '8: listeners[0].isolation: "calculator" has no isolation: remote'),
        ("other", "remote", '"other" has no isolation: remote'),
        ("calculator", "{remote: true, read: [nothing]}", "is nothing inside the project directory"),
        ("calculator", "{remote: true, env: {A: '${THERE}'}}", "the environment variable THERE is not set"),
        ("calculator", "{remote: maybe}", "listeners[0].isolation.remote"),
        ("calculator", "elsewhere", 'is "process", "remote", or what the process may use'),
        ("calculator", "[]", "listeners[0].isolation"),
    ],
)
def test_mistakes_in_the_part_of_a_worker_are_reported(made, listener, isolation, why):
    organism, mistakes = read_part(made(isolation), {}, listener)
    assert organism is None
    assert any(why in str(each) for each in mistakes), list(map(str, mistakes))


def test_no_file_is_no_organism(tmp_path):
    organism, mistakes = read_part(tmp_path / "none.yaml", {}, "x")
    assert organism is None
    assert mistakes
