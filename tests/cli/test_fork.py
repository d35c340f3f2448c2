"""agentserver fork on the command line: lists the steps, forks at one, changes a value, and names sinks."""

from __future__ import annotations

import sys

import anyio
import pytest
from click.testing import CliRunner

from agentserver import config
from agentserver.assembly import build
from agentserver.cli import cli
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, read_journal
from agentserver.rulebook import build_rules

ORGANISM = """
name: desk
journal: {path: journal.sqlite}
provenance: {mode: audit}
listeners:
  - {name: desk, description: Passes it on., handler: cli_fork.desk, peers: [bank], trust: trusted}
  - {name: bank, description: Pays., handler: cli_fork.transfer, trust: sink}
"""

CODE = """
from dataclasses import dataclass
from agentserver import xmlify
from agentserver.flow import ask, once
from agentserver.payload.functions import payload_of

@xmlify
@dataclass(frozen=True)
class Invoice:
    vendor: str

async def transfer(iban: str) -> str:
    return f"paid {iban}"

def stamp(vendor: str) -> str:
    STAMPS.append(vendor)
    return "stamped"

STAMPS = []

async def desk(invoice: Invoice) -> str:
    if invoice.vendor == "stamp":
        return await once(stamp, invoice.vendor)
    return (await ask("bank", payload_of(transfer)(invoice.vendor))).value
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "organism.yaml").write_text(ORGANISM)
    (tmp_path / "cli_fork.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("cli_fork", None)


def run(*arguments):
    return CliRunner().invoke(cli, ["fork", *arguments])


def serve(project, message=b""):
    """Run the server until nothing is at work; send a message to the desk first."""
    organism = config.load(project / "organism.yaml", environ={})

    async def work():
        engine = SqliteEngine(JournalOptions(project / "journal.sqlite"), build_rules(organism).guards)
        async with build(organism, engine=engine) as server:
            if message:
                handle = await server.open("ann")
                await handle.ask(message, "desk")
            await server._pump._accounts.idle.wait()

    anyio.run(work)


def texts(project):
    """The messages that left the latest conversation."""
    with read_journal(project / "journal.sqlite") as reader:
        latest = next(iter(reader.conversations())).id
        steps = reader.recorded_conversation(latest).steps
        return "".join(
            event.message.decode() for step in steps for event in step.events if hasattr(event, "message")
        )


def test_a_conversation_is_forked_dry_and_live(project):
    serve(project, b'<Invoice xmlns="urn:agentserver:payload:Invoice:v1"><vendor>Ada</vendor></Invoice>')
    with read_journal(project / "journal.sqlite") as reader:
        (one,) = reader.conversations()
    listed = run(one.id[:8]).stdout
    first = next(line for line in listed.splitlines() if line.endswith("a message from outside"))
    at = first.split()[1].rstrip(":")
    dry = run(one.id[:8], "--at", at, "--with", "vendor=Bob")
    assert "is a dry fork of" in dry.output, dry.output
    serve(project)
    assert "denied" in texts(project)
    live = run(one.id, "--at", at, "--with", "vendor=Bob", "--live")
    assert "is a live fork of" in live.output
    serve(project)
    assert "paid Bob" in texts(project)
    for arguments, told in [
        (("--at", "99"), "it has no step 99"),
        (("--at", at, "--with", "vend=Bob"), "it has vendor"),
        (("--live",), "need --at"),
    ]:
        found = run(one.id, *arguments)
        assert (found.exit_code, told in found.output) == (2, True), found.output


def test_an_effect_of_a_dry_fork_is_denied_and_an_effect_has_no_value_to_change(project):
    serve(project, b'<Invoice xmlns="urn:agentserver:payload:Invoice:v1"><vendor>stamp</vendor></Invoice>')
    with read_journal(project / "journal.sqlite") as reader:
        (one,) = reader.conversations()
    steps = [line.split(": ") for line in run(one.id).stdout.splitlines()]
    outside = next(step.split()[1] for step, subject in steps if subject == "a message from outside")
    effect = next(step.split()[1] for step, subject in steps if subject.startswith("the answer of an effect"))
    refused = run(one.id, "--at", effect, "--with", "value=x")
    assert (refused.exit_code, "this step is the answer of an effect" in refused.output) == (2, True)
    assert run(one.id, "--at", outside).exit_code == 0
    serve(project)
    assert "<code>denied</code>" in texts(project)
    assert sys.modules["cli_fork"].STAMPS == ["stamp"]
