"""Listeners whose handlers have their own processes: the server never imports them, and reports their errors."""

from __future__ import annotations

import sys

import pytest

from agentserver.config import forget

WORDS = """
from dataclasses import dataclass
from agentserver import xmlify

@xmlify
@dataclass
class Ask:
    text: str

@dataclass
class Settings:
    region: str = "north"
"""

HOSTILE = """
raise SystemExit("imported by the server")

async def answer(payload, metadata):
    return None

def plain(payload, metadata):
    return None
"""

ONE = """
name: demo
listeners:
  - name: walled
    description: Answers.
    handler: {handler}
    payload_class: {payload}
    isolation: {isolation}
"""


@pytest.fixture
def said(project):
    """The findings about a walled listener."""
    project.write("listeners/words.py", WORDS)
    project.write("listeners/hostile.py", HOSTILE)
    project.write("data/table.csv", "a,b")

    def say(isolation="process", handler="listeners.hostile.answer", payload="listeners.words.Ask", more=""):
        text = ONE.format(handler=handler, payload=payload, isolation=isolation) + more
        return project.findings(text)

    return say


def test_the_handler_is_not_imported(said, project):
    assert said() == []
    assert "listeners.hostile" not in sys.modules


def test_the_word_process_gives_every_default_and_values_replace_them(said, project):
    said()
    values = "{memory: 1GB, cpu: 500ms, read: [data], ports: [443], env: {REGION: north}, recycle: 5}"
    text = ONE.format(handler="listeners.hostile.answer", payload="listeners.words.Ask", isolation=values)
    organism = project.load(text)
    asked = organism.listeners[0].isolation
    forget(organism)
    assert (asked.memory, asked.cpu, asked.read, asked.ports) == (10**9, 0.5, ("data",), (443,))
    assert (asked.environment, asked.recycle, asked.files, asked.scratch) == (
        {"REGION": "north"},
        5,
        64,
        True,
    )
    assert (asked.handler, asked.payloads) == ("listeners.hostile.answer", ("listeners.words.Ask",))


@pytest.mark.parametrize(
    ("isolation", "told"),
    [
        ("proces", 'is "process", "remote", or what the process may use'),
        ("", "must not be empty"),
        ("{memory: 1kB}", "memory"),
        ("{wall: high}", 'unknown key "wall"'),
        ("{ports: [0]}", "ports"),
        ("{ports: [65536]}", "ports"),
        ("{read: [../elsewhere]}", '"../elsewhere" is nothing inside the project directory'),
        ("{read: [/etc]}", '"/etc" is nothing inside the project directory'),
        ("{read: [missing]}", '"missing" is nothing inside the project directory'),
        ("{read: [.]}", '"." is the whole project'),
        ('{env: {A: "${UNSET}"}}', "UNSET"),
        (
            "{ports: [443], env: {API: 'https://api.example/v1'}}",
            "no DNS behind the wall, so api.example is not found",
        ),
    ],
)
def test_mistakes_of_the_key(said, isolation, told):
    (finding,) = said(isolation)
    assert finding.startswith("organism.yaml:8: ")
    assert told in finding
    assert "listeners.hostile" not in sys.modules


@pytest.mark.parametrize(
    "isolation",
    [
        "{env: {API: 'https://api.example/v1'}}",
        "{ports: [443], env: {API: 'https://192.0.2.7/v1', OTHER: 'https://[::1]:80', WORD: '://'}}",
        "{ports: [3128], env: {API: 'https://api.example', HTTPS_PROXY: 'http://127.0.0.1:3128'}}",
    ],
)
def test_addresses_need_no_names(said, isolation):
    assert said(isolation) == []


def test_a_handler_that_asks_for_a_resource_needs_a_lifespan_of_its_worker(said, project):
    said()
    code = "async def answer(payload, metadata):\n    return invocation().resource(dict)\n"
    project.write("listeners/hostile.py", code)
    text = ONE.format(handler="listeners.hostile.answer", payload="listeners.words.Ask", isolation="process")
    (finding,) = project.findings(text)
    assert finding.startswith("organism.yaml:8: ")
    assert "no worker_lifespan" in finding
    given = text.replace("process", "{worker_lifespan: listeners.life.span}")
    assert project.findings(given) == []


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        ("listeners.hostile.anwser", 'there is no name "anwser" in listeners/hostile.py'),
        ("listeners.hostile.plain", "listeners/hostile.py:7: plain is not async"),
        ("nowhere.answer", 'there is no module "nowhere"'),
    ],
)
def test_mistakes_of_the_handler_are_found_without_running_it(said, handler, told):
    (finding,) = said(handler=handler)
    assert finding.startswith("organism.yaml:6: ")
    assert told in finding


def test_classes_in_the_handlers_module_would_import_it_into_the_server(said, project):
    project.write("listeners/hostile.py", WORDS + HOSTILE.replace("raise SystemExit", "print"))
    (finding,) = said(payload="listeners.hostile.Ask")
    assert "is in the module of the handler" in finding
    assert "module of their own" in finding


def test_a_module_that_the_server_imports_for_another_reason_is_reported(said, project):
    project.write("listeners/hostile.py", "async def answer(payload, metadata):\n    return None\n")
    project.write("listeners/words.py", "import listeners.hostile\n" + WORDS)
    (finding,) = said()
    assert "imported by the server" in finding


def test_payload_classes_are_named(said, project):
    text = ONE.format(handler="listeners.hostile.answer", payload="x", isolation="process")
    said()
    (finding,) = project.findings(text.replace("    payload_class: x\n", ""))
    assert "the server does not import the handler" in finding
