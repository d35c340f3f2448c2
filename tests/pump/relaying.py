"""A desk with three agents that pass on all they read: a reader, a planner and a writer who does what a test says.

The agents are the worst that there can be: no word of the page is lost on the way, and the writer obeys it.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Annotated

from agentserver import HandlerResponse, xmlify
from agentserver.guards.builtin import PeersGuard
from agentserver.guards.lineage.guard import LineageGuard, TrustSettings
from agentserver.guards.lineage.plan import Plan
from agentserver.provenance import Mode, Policy
from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.policy.declarations import PlanSource, SinkRule
from tests.core.paper import Answer, Ask, Note, listener, rules
from tests.pump.desk import desk


@xmlify
@dataclass(frozen=True)
class Mail:
    to: Annotated[str, Role.DESTINATION]
    subject: Annotated[str, Role.PAYLOAD]
    body: Annotated[str, Role.PAYLOAD]


@xmlify
@dataclass(frozen=True)
class Payment:
    account: Annotated[str, Role.DESTINATION]
    amount: Annotated[Decimal, Role.QUANTITY]
    day: Annotated[date, Role.TIME]
    reference: Annotated[str, Role.PAYLOAD] = ""


@xmlify
@dataclass(frozen=True)
class Visit:
    url: Annotated[str, Role.DESTINATION]


@xmlify
@dataclass(frozen=True)
class Parts:
    host: str
    path: str


@xmlify
@dataclass(frozen=True)
class Remove:
    file: Annotated[str, Role.SELECTOR]


@xmlify
@dataclass(frozen=True)
class Run:
    command: Annotated[str, Role.SELECTOR]


@xmlify
@dataclass(frozen=True)
class Lookup:
    name: str
    host: str = ""


@xmlify
@dataclass(frozen=True)
class Flag:
    """One truth value, which tells a clean listener next to nothing."""

    set: bool


@xmlify
@dataclass(frozen=True)
class Contact:
    name: Annotated[str, Standing.RECORD]
    address: Annotated[str, Standing.DIRECTORY]


@dataclass(frozen=True)
class File:
    id: Annotated[str, Standing.RECORD]
    size: Annotated[int, Standing.RECORD]


@xmlify
@dataclass(frozen=True)
class Files:
    files: list[File] = field(default_factory=list)


@dataclass(frozen=True)
class Card:
    """An undeclared visiting card: its bearer has filled it in."""

    name: str
    address: str


@xmlify
@dataclass(frozen=True)
class Cards:
    cards: list[Card] = field(default_factory=list)


SITE = "https://news.example/today"
"""The page that the reader reads. Its author is the attacker, and so is whoever runs the site."""
FILES = Files([File("report-2026-q3", 12), File("taxes-2025-final", 900), File("f7", 3)])
CONTACTS = {"Kim": "kim@corp.example", "Ann": "ann@corp.example"}
SINKS = ("mailer", "payments", "drive", "shell")
AGENTS = ("reader", "planner", "writer")
POLICY = Policy(
    mode=Mode.ENFORCE,
    sources=("web", "browser", "contacts", "store"),
    sinks=tuple(map(SinkRule, SINKS)),
    relays=AGENTS,
    plan=PlanSource.OFF,
)
TOOLS = (*SINKS, "browser", "contacts", "store")
LISTENERS = (
    listener("reader", "web", "planner", "writer", payloads=(Ask, Note)),
    listener("planner", "writer", payloads=(Ask, Note)),
    listener("writer", *TOOLS, payloads=(Ask, Note, Flag, Plan)),
    listener("web", payloads=(Visit,)),
    listener("browser", payloads=(Visit, Parts)),
    listener("contacts", payloads=(Lookup,)),
    listener("store", payloads=(Ask,)),
    listener("mailer", payloads=(Mail,)),
    listener("payments", payloads=(Payment,)),
    listener("drive", payloads=(Remove,)),
    listener("shell", payloads=(Run,)),
)
PAYLOADS = (Answer, Note, Contact, Files, Cards)
MADE = rules(*LISTENERS, payloads=PAYLOADS)


def guards(trusted=None):
    return (
        PeersGuard(),
        LineageGuard(trusted or TrustSettings(POLICY), MADE.blueprint.listeners, MADE.codecs),
    )


class Office:
    """What the agents and the tools do, and what the tools were given.

    Args:
        page: that the web gives to whoever asks.
        calls: those of the writer, one after the other, each a payload and its listener, once it got an input.
    """

    def __init__(self, page, calls):
        self.page, self.calls = page, list(calls)
        self.done = []
        self.plan = []

    async def reader(self, payload, metadata):
        if isinstance(payload, Ask):
            return HandlerResponse(Visit(SITE), "web")
        return HandlerResponse(Note(payload.text), "planner") if metadata.from_id == "web" else None

    async def planner(self, payload, metadata):
        if isinstance(payload, Ask):
            return HandlerResponse(Plan(self.plan), "writer")
        return HandlerResponse(Note(payload.text), "writer") if isinstance(payload, Note) else None

    async def writer(self, payload, metadata):
        if not self.calls or isinstance(payload, Plan):
            return None
        return HandlerResponse(*self.calls.pop(0))

    async def web(self, payload, metadata):
        return HandlerResponse.respond(Note(self.page))

    async def contacts(self, payload, metadata):
        """Knows people by name; of other words it makes an address, as a directory with a default host does."""
        first, _, last = payload.name.partition("@")
        host = f"{last}.{payload.host}" if last else payload.host or "corp.example"
        address = CONTACTS.get(payload.name, f"{first}@{host}")
        return HandlerResponse.respond(Contact(payload.name, address))

    async def store(self, payload, metadata):
        return HandlerResponse.respond(FILES)

    async def browser(self, payload, metadata):
        self.done.append(payload)
        return HandlerResponse.respond(Note("a page without a word for anybody"))

    async def tool(self, payload, metadata):
        self.done.append(payload)
        return HandlerResponse.respond(Answer("done"))

    def handlers(self):
        """Build the handlers; a test may replace any."""
        return [(one, self._handler(one.name)) for one in LISTENERS]

    def _handler(self, name):
        async def handle(payload, metadata):
            return await getattr(self, name, self.tool)(payload, metadata)

        return handle


@asynccontextmanager
async def office(page, *calls, trusted=None, engine=None, given=None):
    """A pump with an office in it, and the guards by which it decides."""
    of, asked = Office(page, calls), given or guards(trusted)
    async with desk(*of.handlers(), guards=asked, payloads=PAYLOADS, engine=engine, refusals=50) as d:
        yield of, d


async def send_and_wait(d, handle, words, to="reader"):
    """Send a message and wait until its work is finished."""
    await handle.ask(d.markup(Ask(words)), to)


async def story(words, page, *calls, trusted=None, plan=()):
    """Run plan, page and obedient writer; return the tools' inputs."""
    async with office(page, *calls, trusted=trusted) as (of, d):
        handle, of.plan = await d.open(), list(plan)
        if plan:
            await send_and_wait(d, handle, words, "planner")
        await send_and_wait(d, handle, words)
        assert not of.calls, "the writer made all its calls"
        return of.done
