"""A planner on a real server: a person confirms its plan once, the calls run unasked, and the journal decides it again."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from agentserver.assembly import build
from agentserver.cli import cli
from agentserver.config import forget, load
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from tests.machine import HANGS

CODE = '''
from __future__ import annotations
from dataclasses import dataclass
from agentserver import HandlerMetadata, HandlerResponse, SystemError, xmlify
from agentserver.guards.lineage.plan import Plan, PlanArgument, PlanCondition, PlanField, PlanStep
from tests.guards.lineage.address_book import KIM, Contacts, Letter, Search

@xmlify
@dataclass(frozen=True)
class Wish:
    text: str

@xmlify
@dataclass(frozen=True)
class Done:
    text: str

async def desk(
    payload: Wish | Plan | Contacts | Done | SystemError, metadata: HandlerMetadata
) -> HandlerResponse:
    """Plans, looks up, and writes to everybody in the book: it does what a stranger makes it do."""
    if isinstance(payload, Wish):
        return HandlerResponse(payload, "planner")
    if isinstance(payload, Plan):
        return HandlerResponse(Search("Kim"), "book")
    if isinstance(payload, Contacts):
        return HandlerResponse(Letter(payload.entries[WHOM].email, "hello"), "post")
    return HandlerResponse.respond(Done(payload.text if isinstance(payload, Done) else payload.code))

WHOM = 0

async def planner(payload: Wish | SystemError, metadata: HandlerMetadata) -> HandlerResponse:
    if isinstance(payload, SystemError):
        return HandlerResponse.respond(Done(payload.code))
    kim = PlanField("entries.email", of="book", where=[PlanCondition("entries.name", ["Kim"])])
    return HandlerResponse.respond(Plan([PlanStep("post", [PlanArgument("to", fields=[kim])], times=1)]))

async def book(payload: Search, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(KIM)

async def post(payload: Letter, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Done(payload.to))
'''

ORGANISM = """
name: planned
provenance: {mode: enforce, plan: confirmed, planner: planner}
listeners:
  - {name: desk, description: Works., payload_class: planned_desk.Wish, handler: planned_desk.desk, agent: true,
     peers: [planner, book, post]}
  - {name: planner, description: Plans., payload_class: planned_desk.Wish, handler: planned_desk.planner, agent: true,
     peers: []}
  - {name: book, description: Knows people., payload_class: tests.guards.lineage.address_book.Search,
     handler: planned_desk.book, trust: source}
  - {name: post, description: Sends., payload_class: tests.guards.lineage.address_book.Letter,
     handler: planned_desk.post, trust: sink}
"""


class Person:
    """Gives one answer to every question, and keeps the questions."""

    def __init__(self, answer):
        self.answer, self.asked, self.waiting = answer, [], []

    def show(self, approval):
        self.asked.append("\n".join(WORDING.join_lines(one.reason) for one in approval.questions))
        self.waiting.append(approval)

    async def sit(self, server):
        while True:
            for approval in self.waiting:
                said = ApprovalAnswer(approval.id, approval.digest, self.answer, "ann")
                await server.answer(approval.delivery.conversation, said)
            self.waiting.clear()
            await anyio.sleep(0.01)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("planned_desk.py").write_text(CODE)
    Path("organism.yaml").write_text(ORGANISM)
    yield tmp_path
    sys.modules.pop("planned_desk", None)


def serve_wish(answer, whom=0):
    """The answer to one wish, and what a person was asked."""
    organism = load(Path("organism.yaml"), environ={})
    sys.modules["planned_desk"].WHOM = whom
    person = Person(answer)

    async def main():
        with anyio.fail_after(HANGS):
            async with (
                build(organism, durable=True, approver=person) as server,
                anyio.create_task_group() as group,
            ):
                group.start_soon(person.sit, server)
                handle = await server.open("console")
                wish = b'<Wish xmlns="urn:agentserver:payload:Wish:v1"><text>Write to Kim.</text></Wish>'
                said = await handle.ask(wish, "desk")
                await handle.close()
                group.cancel_scope.cancel()
                return said

    try:
        return anyio.run(main).message, person.asked
    finally:
        forget(organism)


def test_a_plan_is_confirmed_once_and_decided_again_from_the_journal(project):
    message, asked = serve_wish(Answer.ONCE)
    assert b"<text>kim@corp.example</text>" in message
    assert len(asked) == 1
    assert asked[0].endswith(
        '1. Call "post", once, with "to": the "entries.email" of a record of "book" whose "entries.name" is "Kim".'
    )
    sys.modules.pop("planned_desk", None)
    done = CliRunner().invoke(cli, ["replay"])
    assert (done.exit_code, done.output.splitlines()[-1].partition("; ")[2]) == (0, "0 differ")


def test_another_leaf_of_the_same_answer_is_refused(project):
    message, _ = serve_wish(Answer.ONCE, whom=1)
    assert b"<text>denied</text>" in message


def test_a_denied_plan_lets_nothing_run(project):
    message, asked = serve_wish(Answer.DENY)
    assert b"<text>denied</text>" in message
    assert len(asked) == 1
