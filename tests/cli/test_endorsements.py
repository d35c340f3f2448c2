"""Endorsed documents on the command line: endorsed at the console, listed and revoked from the shell."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from tests.cli.conftest import spawn
from tests.cli.test_approvals import see, tell

BILLS = '''
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from agentserver import HandlerResponse, xmlify
from agentserver.provenance import Destination, Role

DOCUMENT = """\\
DE89370400440532013000;98.70
FR7630006000011234567890189;40.00
GB29NWBK60161331926819;7.50"""


@xmlify
@dataclass(frozen=True)
class Ask:
    text: str


@xmlify
@dataclass(frozen=True)
class Document:
    text: str


@xmlify
@dataclass(frozen=True)
class Payment:
    to: Destination
    amount: Annotated[Decimal, Role.QUANTITY]
    note: Annotated[str, Role.PAYLOAD] = ""


@xmlify
@dataclass(frozen=True)
class Paid:
    receipt: str


async def clerk(payload: Ask | Document | Paid, metadata):
    if not isinstance(payload, Ask):
        return HandlerResponse.respond(payload if isinstance(payload, Paid) else Paid("read"))
    words = payload.text.split()
    if words[0] == "Read":
        return HandlerResponse(Ask(words[-1]), "mail")
    to, amount = DOCUMENT.split("\\n")[int(words[-1]) - 1].split(";")
    return HandlerResponse(Payment(to, Decimal(amount)), "bank")


async def mail(payload: Ask, metadata):
    return HandlerResponse.respond(Document(DOCUMENT))


async def bank(payload: Payment, metadata):
    return HandlerResponse.respond(Paid(f"{payload.amount} to {payload.to}"))
'''

ORGANISM = """
name: bills
provenance: {mode: confirm, sources: [mail], relays: [clerk], sinks: {bank: {}}}
listeners:
  - {name: clerk, description: Pays bills., payload_class: cli_bills.Ask, handler: cli_bills.clerk, peers: [mail, bank]}
  - {name: mail, description: Has bills., payload_class: cli_bills.Ask, handler: cli_bills.mail}
  - {name: bank, description: Pays., payload_class: cli_bills.Payment, handler: cli_bills.bank}
"""


@pytest.fixture
def running(tmp_path):
    (tmp_path / "cli_bills.py").write_text(BILLS)
    (tmp_path / "organism.yaml").write_text(ORGANISM)
    process = spawn("run", cwd=tmp_path, stderr=subprocess.STDOUT)
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_an_endorsement_is_given_at_the_console_listed_and_revoked(running, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def verb(*args, status=0):
        sys.modules.pop("cli_bills", None)
        done = command(*args)
        assert done.exit_code == status, done.output
        return done.output

    for line in ("@clerk Read bills/march", "@clerk Pay 1", "/approve always", "@clerk Pay 2"):
        tell(running, line)
    seen = see(running, "receipt: 40.00 to FR7630006000011234567890189")
    assert "Always: row 2, once: to" in seen
    assert "Action: its document is endorsed, call proceeds" in seen
    subject = "to from column 1, amount from column 2 of mail() at step 3: 3 rows, 138.7 of 146.2 spent"
    assert subject in verb("approvals", "lasting")
    one = json.loads(verb("approvals", "lasting", "--json"))
    assert (one["to"], one["subject"]) == ("bank", subject)
    assert "no lasting approval has the id '1@2'" in verb("deny", "1@2", status=2)
    assert "begins the id of an endorsement, which is needed whole" in verb("deny", one["id"][:12], status=2)
    assert "revoked" in verb("deny", one["id"])
    while "no approval lasts" not in verb("approvals", "lasting"):
        time.sleep(0.05)
    tell(running, "@clerk Pay 3")
    assert "asked clerk -> bank" in see(running, "/deny")
