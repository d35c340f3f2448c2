"""``agentserver provenance suggest`` on the recorded organism and on projects of its own."""

from __future__ import annotations

import re
import shutil
import sys

import pytest

from agentserver.payload.foreign.lock import LockedTool, ServerLock, write_lock
from agentserver.provenance import read_policy
from agentserver.provenance.evidence.labels import Role, Standing
from tests.cli.conftest import ROOT, organism
from tests.cli.journals import change, shop, verb

CODE = """
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal
from agentserver import HandlerMetadata, HandlerResponse, xmlify
from agentserver.provenance import Destination, Id

@dataclass(frozen=True)
class Line:
    text: str
    count: int

@xmlify
@dataclass(frozen=True)
class Send:
    to: Destination
    file: Annotated[str, Id("file")]
    kind: Literal["plain", "rich"]
    lines: list[Line]
    due: date | None = None
    loud: bool = False

@xmlify
@dataclass(frozen=True)
class Sent:
    id: Annotated[str, Id("mail")]
    note: str
    at: date

async def send(payload: Send, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Sent("1", "x", date.today()))
"""

ORGANISM = """
name: x
listeners:
  - {name: outbox, description: Sends., handler: cli_suggest.send}
"""


@pytest.fixture
def outbox(tmp_path):
    (tmp_path / "cli_suggest.py").write_text(CODE)
    yield organism(tmp_path, ORGANISM)
    sys.modules.pop("cli_suggest", None)


def test_types_suggest_and_marked_fields_need_no_line(outbox):
    policy = read_policy(verb("provenance", "suggest", outbox))
    (sink,) = policy.sinks
    assert {rule.name: rule.role for rule in sink.arguments} == {
        "kind": Role.SELECTOR,
        "lines.count": Role.QUANTITY,
        "due": Role.TIME,
        "loud": Role.OPTION,
    }
    assert [(rule.field, rule.standing) for rule in policy.fields if rule.field == "at"] == [
        ("at", Standing.RECORD)
    ]
    assert policy.sources == ("outbox",)


def test_a_listener_gets_lines_for_the_classes_that_its_own_handler_names(outbox):
    more = """
@xmlify
@dataclass(frozen=True)
class Page:
    words: str

def _page() -> Page:
    return Page("")

async def read(payload: Page, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Sent(_page().words, "x", date.today()))

async def fetch(address: str) -> Page:
    return _page()
"""
    module = outbox.parent / "cli_suggest.py"
    module.write_text(module.read_text() + more)
    change(
        outbox,
        "cli_suggest.send}",
        "cli_suggest.send}\n  - {name: web, description: P, handler: cli_suggest.fetch}",
    )
    text = verb("provenance", "suggest", outbox)
    assert "words:" in text.partition("  web:")[2].partition("fields:")[2]
    assert text.count("    at: record") == 1
    assert text.count("words: prose") == 1


def test_the_proposal_can_be_the_policy(outbox):
    text = verb("provenance", "suggest", outbox)
    (outbox.parent / "policy.yaml").write_text(text)
    change(outbox, "name: x\n", "name: x\nprovenance: {policy: policy.yaml}\n")
    assert "nothing is declared of" not in verb("check", outbox)
    assert verb("provenance", "suggest", outbox) == "# Of each listener something is declared.\n{}\n"


def test_a_recorded_conversation_gives_more_evidence_and_shows_no_value(tmp_path, monkeypatch):
    home = shop(tmp_path)
    monkeypatch.chdir(home)
    before, after = verb("provenance", "suggest"), verb("provenance", "suggest", "--conversation", "77b03128")
    assert "    #   text: payload  # or destination, selector, inert: nothing recorded" in before
    assert "      text: selector  # one word in 1 recorded value" in after
    assert read_policy(after).relays == ("clerk",)
    assert '"!"' not in after


def test_a_proposal_goes_to_a_file(outbox, tmp_path):
    assert verb("provenance", "suggest", outbox, "-o", tmp_path / "p.yaml") == ""
    assert read_policy((tmp_path / "p.yaml").read_text()).sources == ("outbox",)


def test_inputs_of_a_listener_are_proposed_by_the_names_of_its_intent(tmp_path, monkeypatch):
    home = tmp_path / "handoff"
    shutil.copytree(ROOT / "examples" / "handoff", home)
    change(home / "organism.yaml", "agent: true", "agent: false")
    monkeypatch.chdir(home)
    text = verb("provenance", "suggest")
    sys.modules.pop("desk", None)
    (home / "policy.yaml").write_text(text)
    (home / "organism.yaml").write_text(
        (home / "organism.yaml").read_text() + "provenance: {policy: policy.yaml}\n"
    )
    assert "nothing is declared of" not in verb("check")
    sys.modules.pop("desk", None)
    assert "params.name" not in text
    assert "    #   matter_id: payload  # or destination, selector, inert: nothing recorded" in text


def test_an_unreadable_file_is_reported(outbox, tmp_path, monkeypatch):
    home = shop(tmp_path)
    monkeypatch.chdir(home)
    assert "no conversations begin with 'ffff'" in verb(
        "provenance", "suggest", "--conversation", "ffff", status=2
    )
    assert "--journal needs --conversation" in verb("provenance", "suggest", "--journal", "x", status=2)
    assert "no.yaml" in verb("provenance", "suggest", "no.yaml", status=2)


TRACES = ROOT / "examples" / "traces"


def test_a_proposal_from_traces_gives_the_effect_of_each_line_and_shows_no_value(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = verb("provenance", "suggest", "--over", TRACES, "--labels", TRACES / "marks.txt")
    policy = read_policy(text)
    assert set(policy.sources) == {
        "fetch_page",
        "send_mail",
        "read_file",
        "send_money",
        "get_most_recent_transactions",
    }
    assert "honest calls run without a question; " in text
    assert "would save" in text
    assert "corp.example" not in text


def test_a_proposal_from_a_journal_gives_the_effect_of_each_line_and_shows_no_value(tmp_path, monkeypatch):
    home = shop(tmp_path)
    monkeypatch.chdir(home)
    text = verb("provenance", "suggest", "--over", "out/journal.sqlite")
    assert "undeclared listeners, over " in text
    assert "honest calls run without a question." in text
    assert "changes no call here" in text
    assert "      text: selector  # one word in " in text
    assert read_policy(text).relays == ("clerk",)
    assert '"!"' not in text
    (home / "proposed.yaml").write_text(text)
    judged = verb("provenance", "backtest", "proposed.yaml", "--mode", "enforce")
    said = re.search(r"Under the active lines, (\d+) of (\d+) honest calls", text).groups()
    assert re.search(r"honest: (\d+) of (\d+) calls run", judged).groups() == said


def test_traces_and_journals_are_not_mixed_for_a_proposal(tmp_path, monkeypatch):
    home = shop(tmp_path)
    monkeypatch.chdir(home)
    said = verb("provenance", "suggest", "--over", "out", "--over", TRACES / "desk.jsonl", status=2)
    assert "desk.jsonl: its tools are no listeners of the organism" in said
    said = verb("provenance", "suggest", "organism.yaml", "--over", TRACES / "desk.jsonl", status=2)
    assert "have no ORGANISM" in said


def test_a_locked_tool_gets_the_roles_that_its_schema_states(tmp_path):
    schema = {
        "type": "object",
        "properties": {
            "to": {"type": "string", "format": "email"},
            "day": {"type": "string", "format": "date"},
            "sum": {"type": "number"},
            "text": {"type": "string"},
        },
    }
    lock = write_lock(ServerLock("far 1", "2026-07-28", (LockedTool("book", "", schema),)))
    (tmp_path / "schemas" / "mcp").mkdir(parents=True)
    (tmp_path / "schemas" / "mcp" / "far.json").write_text(lock)
    tool = "{name: book, trust: [source, sink]}"
    path = organism(
        tmp_path,
        f"name: x\nprovenance: {{mode: enforce}}\nmcp:\n  - {{name: far, url: http://a, tools: [{tool}]}}",
    )
    (sink,) = read_policy(verb("provenance", "suggest", path)).sinks
    assert {rule.name: rule.role for rule in sink.arguments} == {
        "to": Role.DESTINATION,
        "day": Role.TIME,
        "sum": Role.QUANTITY,
    }
