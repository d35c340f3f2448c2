"""Documents that libxml2 takes and that were made to make something raise: the server answers each and starts again."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import escape

import anyio
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from lxml import etree

from agentserver import HandlerResponse, xmlify
from agentserver.engines.journal.reader import Reader
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, open_reading
from agentserver.guards.builtin import PeersGuard
from agentserver.guards.lineage.guard import LineageGuard, TrustSettings
from agentserver.history.replay import replay
from agentserver.payload.xsd_codec import bind
from agentserver.provenance import Mode, Policy
from agentserver.provenance.evidence.labels import Role
from agentserver.provenance.policy.declarations import SinkRule
from tests.core.paper import Answer, listener, rules
from tests.fuzzing import examples
from tests.payload.test_scalars import KINDS, KINDS_XSD, NS, SEEDS, Kinds
from tests.payload.test_scalars import _text as scalar_text
from tests.provenance.test_total import text as words
from tests.pump.desk import desk, wait_until

pytestmark = pytest.mark.anyio

CORPUS = Path(__file__).parents[1] / "corpus" / "hostile" / "values"
DOCUMENTS = 12
"""Documents of one run of the server."""


@xmlify(namespace="urn:hostile")
@dataclass(frozen=True)
class Anything:
    """One field of each kind."""

    words: str = ""
    to: Annotated[str, Role.DESTINATION] = ""
    url: str = ""
    number: float | None = None
    amount: Decimal | None = None
    count: int | None = None
    flag: bool | None = None
    day: date | None = None
    moment: datetime | None = None
    at: time | None = None
    data: bytes | None = None
    more: list[float] = field(default_factory=list)


bind(Kinds, KINDS_XSD)
FREE, TYPED = (
    ("words", "to", "url"),
    ("number", "amount", "count", "flag", "day", "moment", "at", "data", "more"),
)
POLICY = Policy(
    mode=Mode.ENFORCE, sources=("web",), sinks=(SinkRule("post"),), relays=("agent",), allow=("corp.com",)
)
LISTENERS = (
    listener("agent", "web", "post", payloads=(Anything, Kinds)),
    listener("web", payloads=(Anything, Kinds)),
    listener("post", payloads=(Anything, Kinds)),
)
MADE = rules(*LISTENERS, payloads=(Answer,))
GUARDS = (PeersGuard(), LineageGuard(TrustSettings(POLICY), MADE.blueprint.listeners, MADE.codecs))


async def agent(payload, metadata):
    """Shows everything to the web, then posts what the web says."""
    if isinstance(payload, (Anything, Kinds)):
        return HandlerResponse(payload, "post" if metadata.from_id == "web" else "web")
    return HandlerResponse.respond(Answer(getattr(payload, "code", "posted")))


async def web(payload, metadata):
    return HandlerResponse.respond(payload)


async def post(payload, metadata):
    return HandlerResponse.respond(Answer("posted"))


HANDLERS = tuple(zip(LISTENERS, (agent, web, post), strict=True))


@asynccontextmanager
async def server(place):
    async with (
        SqliteEngine(place, GUARDS) as engine,
        desk(*HANDLERS, engine=engine, guards=GUARDS, payloads=(Answer,)) as d,
    ):
        yield d


def document(dice: random.Random) -> bytes:
    """A document near the edges of some kinds, the same for the same dice."""
    if dice.random() < 0.3:
        name = dice.choice(list(KINDS))
        return f'<kinds xmlns="{NS}"><{name}>{escape(scalar_text(dice))}</{name}></kinds>'.encode()
    inner = [f"<{name}>{escape(_carried_text(words(dice)))}</{name}>" for name in FREE if dice.random() < 0.6]
    inner += [f"<{name}>{escape(_typed_text(dice))}</{name}>" for name in TYPED if dice.random() < 0.15]
    return f'<Anything xmlns="urn:hostile:v1">{"".join(inner)}</Anything>'.encode()


def _typed_text(dice: random.Random) -> str:
    return scalar_text(dice) if dice.random() < 0.5 else dice.choice(SEEDS)


def _carried_text(text: str) -> str:
    return "".join(each for each in text if each >= " " or each in "\t\n\r")


async def answers_each(place, documents) -> set[str]:
    """Return the answer; the server then restarts on its journal and repeats every decision."""
    told = set()
    async with server(place) as d:
        handle = await d.open()
        for data in documents:
            reply = d.decode(await handle.ask(data, "agent"))
            assert reply is not None, data
            told.add(getattr(reply, "code", "answer"))
        handle.detach()
    async with server(place) as d:
        await wait_until(lambda: d.pump._accounts.pending == 0)
        again = await d.pump.resume("console", handle.id)
        reply = await again.ask(d.markup(Anything(words="still there")), "agent")
        assert d.decode(reply) in (Answer("posted"), Answer("denied"))
        again.detach()

    def read_recorded():
        with closing(open_reading(place.path)) as connection:
            return Reader(connection, GUARDS).recorded_conversation(handle.id), Reader(
                connection, GUARDS
            ).dead()

    story, dead = await anyio.to_thread.run_sync(read_recorded)
    assert replay(story, d.rules) is None
    assert not dead, "nothing had to be given up"
    return told


@settings(max_examples=examples(5), phases=[Phase.generate])  # a smaller seed is no simpler
@given(seed=st.integers(0, 2**64))
async def test_generated_documents_are_answered(tmp_path_factory, seed):
    dice = random.Random(seed)
    place = JournalOptions(tmp_path_factory.mktemp("hostile") / "j.db")
    await answers_each(place, [document(dice) for _ in range(DOCUMENTS)])


async def test_the_corpus_of_values_is_refused(tmp_path):
    documents = [path.read_bytes() for path in sorted(CORPUS.glob("*.xml"))]
    assert len(documents) >= 10
    assert await answers_each(JournalOptions(tmp_path / "j.db"), documents) == {"validation"}


@pytest.mark.parametrize("name", TYPED)
def test_each_kind_has_documents_that_go_through(name):
    codec = MADE.codecs.of(Anything)
    inner = [f"<{name}>{escape(text)}</{name}>" for text in SEEDS]
    assert any(
        codec.valid(etree.fromstring(f'<Anything xmlns="urn:hostile:v1">{one}</Anything>')) for one in inner
    )
