"""Permissions and trust of a principal, from the opening of a conversation on: restarts included."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from anyio import to_thread

from agentserver import HandlerResponse, SystemError
from agentserver.assembly import Principal, Trust
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, read_journal
from agentserver.engines.sqlite.maintenance import find_findings
from agentserver.guards.builtin import PeersGuard
from agentserver.guards.lineage.guard import LineageGuard, TrustSettings
from agentserver.history.replay import replay
from tests.core.paper import Answer, Ask, Note, listener, rules
from tests.guards.lineage.test_principals import BOB, EVE, HOSTILE, POLICY, Mail
from tests.pump.desk import answer, desk

pytestmark = pytest.mark.anyio
STRANGER = Principal("host", Trust.STRANGER, ("web", "post"))
PAYLOADS = (Answer, Note, Mail)
LISTENERS = (listener("web"), listener("post", payloads=(Mail,)), listener("vault"))


async def web(payload, metadata):
    return HandlerResponse.respond(Note(HOSTILE))


async def post(payload, metadata):
    return HandlerResponse.respond(Note("sent"))


def guards():
    made = rules(*LISTENERS, payloads=PAYLOADS)
    return (PeersGuard(), LineageGuard(TrustSettings(POLICY), made.blueprint.listeners, made.codecs))


def mcp_desk(engine=None):
    pairs = zip(LISTENERS, (web, post, answer), strict=True)
    return desk(*pairs, engine=engine, payloads=PAYLOADS, guards=guards())


async def test_a_stranger_stays_one_over_a_restart_and_in_the_next_conversation(tmp_path):
    place = JournalOptions(tmp_path / "j")
    async with SqliteEngine(place, guards()) as engine, mcp_desk(engine) as d:
        handle = await d.pump.open(STRANGER)
        assert await d.ask(Ask("read"), "web", handle) == Note(HOSTILE)
        handle.detach()
    async with SqliteEngine(place, guards()) as engine, mcp_desk(engine) as d:
        again = await d.pump.resume("host", handle.id)
        for one in (again, await d.pump.open(STRANGER)):
            assert (await d.ask(Mail(EVE, "all of it"), "post", one)).code == "denied"
            assert await d.ask(Mail(BOB, "hello"), "post", one) == Note("sent")
            assert isinstance(await d.ask(Ask("open"), "vault", one), SystemError)
    story = await to_thread.run_sync(lambda: read_recorded(place.path, handle.id))
    assert story.beginning.opener == STRANGER
    assert replay(story, d.rules) is None
    orders = story.beginning._replace(rights=Principal("host").rights)
    assert replay(type(story)(orders, story.steps, story.deliveries), d.rules) is not None


def read_recorded(path, conversation):
    with read_journal(path) as reader:
        return reader.recorded_conversation(conversation)


async def test_targets_of_a_principal_exist():
    async with mcp_desk() as d:
        with pytest.raises(ValueError, match=r"host may address gone, odd: there is no such listener"):
            await d.pump.open(Principal("host", may=("odd", "web", "gone")))
        with pytest.raises(ValueError, match="anybody"):
            await d.pump.open(Principal("host", "anybody"))


async def test_rights_that_were_changed_in_the_journal_are_noticed(tmp_path):
    place = JournalOptions(tmp_path / "j")
    async with SqliteEngine(place, guards()) as engine, mcp_desk(engine) as d:
        handle = await d.pump.open(STRANGER)
        await d.ask(Ask("read"), "web", handle)
        handle.detach()
    await to_thread.run_sync(lambda: alter(place.path, handle.id))


def alter(path, conversation):
    for changed in ("", '["orders",null]', "[", '["anybody",null]'):
        with closing(sqlite3.connect(path)) as file:
            file.execute("update conversation set rights = ?", (changed,))
            file.commit()
        assert list(find_findings(path))
        with read_journal(path, guards()) as reader, pytest.raises(UnreadableError):
            reader.load(conversation)
