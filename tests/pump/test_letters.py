"""Dead letters are dealt with while the server runs, in each engine."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agentserver import HandlerMetadata, HandlerResponse, SystemError, xmlify
from agentserver.assembly import build
from agentserver.core.messages import Done
from agentserver.core.records.wording import WORDING
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.testing import listener, organism_of
from agentserver.wire import envelope

pytestmark = pytest.mark.anyio


@xmlify
@dataclass(frozen=True)
class Lift:
    text: str


@xmlify
@dataclass(frozen=True)
class Lifted:
    text: str


class Crane:
    """Fails a given number of times."""

    def __init__(self, breaks):
        self.breaks = breaks

    def organism(self):
        async def crane(payload: Lift, metadata: HandlerMetadata) -> HandlerResponse:
            if self.breaks:
                self.breaks -= 1
                raise RuntimeError("the rope")
            return HandlerResponse.respond(Lifted(payload.text))

        async def site(
            payload: Lift | Lifted | SystemError, metadata: HandlerMetadata
        ) -> HandlerResponse | None:
            if isinstance(payload, Lift):
                return HandlerResponse(payload, to="crane")
            return HandlerResponse.respond(payload) if isinstance(payload, Lifted) else None

        return organism_of(
            listener("site", site, Lift, peers=["crane"], replies=[Lifted]),
            listener("crane", crane, Lift, replies=[Lifted]),
        )


@pytest.fixture
def site():
    """An organism whose crane breaks once."""
    return Crane(1).organism()


@pytest.fixture(params=["memory", "journal"])
def engine(request, tmp_path):
    if request.param == "memory":
        return MemoryEngine(recorded=True)
    return SqliteEngine(JournalOptions(tmp_path / "journal.sqlite"))


async def break_letter(server):
    """A conversation in which a letter died, and that letter."""
    handle = await server.open("ann")
    codec = server.rules.codecs.of(Lift)
    await handle.send(codec.encode(Lift("beam")).encode(), "site")
    assert isinstance(await anext(handle.events()), Done)
    (letter,) = await server.read(lambda reader: reader.dead())
    return handle, letter.delivery.id


async def test_one_whose_thread_lives_goes_where_it_was(engine, site):
    async with build(site, engine=engine) as server:
        handle, letter = await break_letter(server)
        assert await server.requeue(letter, "ops") == handle.id
        events = handle.events()
        reply = await anext(events)
        assert envelope.read_envelope(reply.message).payload.findtext("{*}text") == "beam"
        assert await server.read(lambda reader: reader.dead()) == []
        recorded = await server.read(lambda reader: reader.recorded_conversation(handle.id).records())
        assert [one.detail.by for one in recorded if one.event == "redriven"] == ["ops"]


async def test_a_letter_of_an_ended_conversation_becomes_a_new_request(engine, site):
    async with build(site, engine=engine) as server:
        handle, letter = await break_letter(server)
        await handle.close()
        new = await server.requeue(letter, "ops")
        assert new != handle.id
        resumed = await server.resume("ann", new)
        reply = await anext(resumed.events())
        assert reply.sender == "crane"
        recorded = await server.read(lambda reader: reader.recorded_conversation(new).records())
        assert [one.detail.by for one in recorded if one.event == "redriven"] == ["ops"]


async def test_one_that_goes_again_cannot_go_twice(engine, site):
    async with build(site, engine=engine) as server:
        _, letter = await break_letter(server)
        await server.requeue(letter, "ops")
        with pytest.raises(LookupError):
            await server.requeue(letter, "ops")


async def test_one_that_is_discarded_is_on_no_list(engine, site):
    async with build(site, engine=engine) as server:
        handle, letter = await break_letter(server)
        await server.discard(letter, "ops")
        assert await server.read(lambda reader: reader.dead()) == []
        for act in (lambda: server.discard(letter, "ops"), lambda: server.requeue(letter, "ops")):
            with pytest.raises(LookupError):
                await act()
        failed = await server.read(lambda reader: reader.recorded_conversation(handle.id).records())
        assert any(one.event == "failed" for one in failed)
        assert [WORDING.first(one.detail) for one in failed if one.event == "dismissed"] == ["by ops"]
        (letter,) = await server.read(lambda reader: reader.list_discarded(9))
        assert (letter.discarded_by, letter.reason.partition(":")[0]) == ("ops", "internal")


@pytest.mark.parametrize("name", ["", "x", "é" * 50, "a' or 1=1"])
async def test_an_invalid_letter_is_refused(engine, site, name):
    async with build(site, engine=engine) as server:
        with pytest.raises(LookupError):
            await server.requeue(name, "ops")
        with pytest.raises(LookupError):
            await server.discard(name, "ops")


async def test_one_that_may_not_go_opens_no_conversation(engine, site):
    """The listener takes such a payload only after a request."""
    async with build(site, engine=engine) as server:
        handle, letter = await break_letter(server)
        await handle.close()
        rules = server._pump._editions
        taken = rules.rules.blueprint.roots["crane"]
        rules.rules.blueprint.roots["crane"] = frozenset()
        try:
            with pytest.raises(LookupError):
                await server.requeue(letter, "ops")
        finally:
            rules.rules.blueprint.roots["crane"] = taken
        assert len(list(await server.read(lambda reader: list(reader.conversations())))) == 1
        assert await server.left_over("ann") == ()
