"""What check and graph tell of provenance, on the example organism and on one with a quarantine."""

from __future__ import annotations

import sys

import pytest

from tests.cli.conftest import organism
from tests.examples.conftest import PROJECT

DESK = str(PROJECT / "config/organism.yaml")

QUARANTINE = """
name: x
provenance: {mode: enforce, budget: 8}
listeners:
  - {name: reader, description: Reads., handler: cli_lineage.read, trust: source}
  - {name: judge, description: Judges., handler: cli_lineage.judge, trust: quarantined, peers: [reader, payer]}
  - {name: payer, description: Pays., handler: cli_lineage.pay, trust: sink}
"""

CODE = """
from dataclasses import dataclass
from agentserver import HandlerMetadata, HandlerResponse, xmlify

@xmlify
@dataclass
class Read:
    what: str

@xmlify
@dataclass
class Judge:
    what: str

@xmlify
@dataclass
class Pay:
    urgent: bool

@xmlify
@dataclass
class Reason:
    text: str

async def read(payload: Read, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Reason(""))

async def judge(payload: Judge, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse(Pay(True), "payer") if payload else HandlerResponse.respond(Reason(""))

async def pay(payload: Pay, metadata: HandlerMetadata) -> HandlerResponse:
    return None
"""


@pytest.fixture(autouse=True)
def modules():
    """What the organisms bring into the process leaves it again."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {"listeners", "cli_lineage"}:
            del sys.modules[name]


@pytest.fixture
def quarantine(tmp_path):
    (tmp_path / "cli_lineage.py").write_text(CODE)
    return str(organism(tmp_path, QUARANTINE))


def lines(result):
    assert result.exit_code == 0, result.output
    return [line.strip() for line in result.output.splitlines()]


def test_check_describes_each_listener_and_the_reason(command):
    told = lines(command("check", DESK))
    assert "provenance: enforce" in told
    assert "fetcher: source (source by 'fetcher')" in told
    assert "outbox: sink (sink by 'outbox')" in told
    assert sum("relay" in line for line in told) == 6
    assert "memory: listener: router, researcher, calculator, summariser, outbox" in told
    assert not any("→" in line for line in told)


def test_check_tells_the_flows_when_it_is_asked(command):
    told = lines(command("check", "--flows", DESK))
    ways = [line for line in told if "→" in line]
    assert ways == [
        "fetcher → researcher → router → outbox   [mode enforce; plan optional; content reported]"
    ]


def test_check_describes_the_replies_of_a_quarantined_listener(command, quarantine):
    told = lines(command("check", "--flows", quarantine))
    assert "judge is quarantined: Pay carries 2.0 bits a message" in told
    assert "judge is quarantined: Reason carries unbounded (/Reason/text), so it may not be sent" in told
    assert any(line.endswith("judge quarantined to 2.0 bits]") for line in told)


def test_check_tells_who_carries_words(command, tmp_path):
    (tmp_path / "cli_lineage.py").write_text(CODE)
    text = QUARANTINE.replace("trust: sink", "trust: sink, memory: server").replace(
        "peers: [", "memory: thread, peers: ["
    )
    told = lines(command("check", str(organism(tmp_path, text))))
    assert [line for line in told if line.startswith("memory")] == [
        "memory: thread: judge", "memory: server, exposed from the start: payer",
    ]  # fmt: skip
    alone = text.replace("peers: [reader, payer]", "peers: [reader]")
    told = lines(command("check", str(organism(tmp_path, alone))))
    assert [line for line in told if line.startswith("memory")] == ["memory: thread: judge"]


def test_the_absence_of_flows_is_reported(command, tmp_path):
    (tmp_path / "cli_lineage.py").write_text(CODE)
    path = organism(tmp_path, QUARANTINE.replace(", peers: [reader, payer]", ""))
    assert lines(command("check", "--flows", str(path)))[-2:-1] == ["none"]
    assert "no path leads from a source to a sink" in command("graph", "--flows", str(path)).output


def test_graph_draws_the_flow_of_texts(command):
    told = lines(command("graph", "--flows", DESK))
    assert [line for line in told if "-->" in line] == ["n0 --> n3", "n1 --> n0", "n2 --> n1"]
    assert 'n2["fetcher (source)"]' in told
    assert told[-1].startswith("%% fetcher → researcher → router → outbox")


def test_the_other_form_holds_the_same(command):
    text = command("graph", "--flows", "--format", "dot", DESK).output
    assert "fetcher (source)" in text
    assert "fetcher → researcher → router → outbox" in text


def test_without_provenance_the_graph_says_so(command, here):
    assert "the origin of values is not checked" in command("graph", "--flows").output


REFERENCES = """
name: x
provenance: {mode: enforce, fields: {reader: {age: record}}}
listeners:
  - {name: reader, description: Reads., handler: cli_lineage.read, trust: source}
  - name: planner
    description: Plans.
    handler: cli_lineage.plan
    peers: [reader, payer]
    view: references
  - {name: payer, description: Pays., handler: cli_lineage.pay, trust: sink}
"""

PLANNER = """
from decimal import Decimal

@xmlify
@dataclass
class Page:
    text: str
    age: int
    visits: int
    price: Decimal | None = None

async def read(payload: Read, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Page("", 1, 1))

async def plan(payload: Judge, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse(Read(""), "reader")
"""


def test_check_states_the_fields_that_take_no_reference(command, tmp_path):
    (tmp_path / "cli_lineage.py").write_text(CODE + PLANNER)
    path = organism(tmp_path, REFERENCES)
    result = command("check", str(path))
    told = lines(result)
    assert "planner sees references in place of untrusted values" in told
    found = [line.partition("organism.yaml:")[2] for line in told if "cannot hold a reference" in line]
    where = "6: warning: view:"
    hint = "(make it text, give it bounds, or declare its rank under provenance: fields) [config:provenance]"
    of = "cannot hold a reference: in messages from reader to planner, it"
    assert found == [
        f"{where} Page.visits {of} is required, so the message is refused {hint}",
        f"{where} Page.price {of} is left out {hint}",
    ]
    assert "2 warnings" in told[-1]
    assert command("check", "--strict", str(path)).exit_code == 1
