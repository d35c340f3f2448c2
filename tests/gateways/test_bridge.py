"""The bridge into the pump: a managed agent's session, over HTTP, and a running organism."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from agentserver.assembly import build
from agentserver.config import forget, load
from agentserver.core.encoding.codecs import attempt_members as members
from agentserver.core.handoffs import Handoff, Param
from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.bridge import Bridge, handoff
from agentserver.handoff.edge.records import AuditFile
from agentserver.handoff.managed.agents import FailureWindow, ManagedOutput, SourceLost
from agentserver.handoff.managed.stream import Attempt
from agentserver.handoff.requests import HandoffRequest, RequestRefusal, read_text
from tests.handoff.edge.service import Connection, serve_fake
from tests.handoff.test_hostile import TRICKS, blob
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


@pytest.fixture
def organism(tmp_path):
    found = load(Path(__file__).parents[2] / "examples/handoff/organism.yaml", environ={})
    yield replace(found, project=tmp_path)
    forget(found)


class Script:
    """A source in memory."""

    def __init__(self, *attempts):
        self.given, self.answers = attempts, []

    def attempts(self):
        yield from self.given

    def answer(self, call, *, accepted):
        self.answers.append((call, accepted))


class Sink:
    def __init__(self):
        self.reasons = []

    def append(self, record):
        self.reasons.append(dict(record.members)["reason"])


def bridge(server, sink, heard=None, name="triage"):
    codec = server.rules.codecs.of(Handoff)
    principal = Principal(name, Trust.STRANGER)
    return Bridge(server, codec, principal, sink, **({"heard": heard} if heard else {}))


def recorded_members(server):
    records = [r for key in server.trace.conversations() for r in server.trace.list_records(key)]
    return [members(r.detail) for r in records if r.event == "attempted"]


async def test_a_managed_agents_requests_are_judged_by_the_organism_and_reach_its_listeners(organism):
    arguments = {
        "target_agent": "launch-radar",
        "intent": "launch_review",
        "params": {"ticket_id": "LEGAL-1"},
    }
    with serve_fake() as (service, client):
        call = service.call(arguments)
        text = blob(params={"ticket_id": "LEGAL-2"})
        split = [service.message(text[:30]), service.message(text[30:])]
        bad = service.call({**arguments, "intent": "pay"})
        service.script = [
            Connection([call, split[0]], ends="cut"),
            Connection([split[1], bad, service.idle(), service.over()], ends="open"),
        ]
        heard = []
        async with build(organism) as server:
            sink = Sink()
            source = ManagedOutput(client, "sesn_1", patience=FailureWindow(first=0.0, maximum=0.0))
            with anyio.fail_after(HANGS):
                await bridge(server, sink, heard.append).run(source)
            seen = recorded_members(server)
        results = [event["is_error"] for _, events in service.sent for event in events]
    assert [(each["source"], each["reason"]) for each in seen] == [
        ("triage", None),
        ("triage", None),
        ("triage", "unknown_intent"),
    ]
    assert sink.reasons == []
    assert results == [False, True]
    assert [(reply.sender, reply.error) for reply in heard] == [
        ("launch-radar", False),
        ("launch-radar", False),
        ("system", True),
    ]
    assert b"LEGAL-1" in heard[0].message


async def test_every_trick_is_refused_and_on_record_in_one_place_or_the_other(organism):
    attempts = [Attempt(read_text(raw)) for raw, _ in TRICKS.values()]
    async with build(organism) as server:
        sink = Sink()
        await bridge(server, sink).run(Script(*attempts))
        seen = [each["reason"] for each in recorded_members(server)]
    assert len(seen) + len(sink.reasons) == len(attempts)
    wanted = [reason for name, (_, reason) in TRICKS.items() if "quotes" not in name]
    assert sorted([*seen, *sink.reasons]) == sorted([*wanted, "schema"])


async def test_an_inexpressible_request_is_recorded_and_answered(organism, tmp_path):
    broken = Attempt(HandoffRequest(fault=RequestRefusal.INVALID_JSON), "c1")
    nested = Attempt(read_text(blob(params={"ticket_id": {"a": 1}})), "c2")
    unseen = Attempt(HandoffRequest("launch-radar", "launch_review", (("ticket_id", "\x00"),)), "c3")
    long = Attempt(HandoffRequest("launch-radar", "launch_review", (("x" * 65, "1"),)), "c4")
    script = Script(broken, nested, unseen, long)
    file = tmp_path / "audit.jsonl"
    async with build(organism) as server:
        await bridge(server, AuditFile(file)).run(script)
        assert recorded_members(server) == []
    lines = (await to_thread.run_sync(file.read_text)).splitlines()
    reasons = [json.loads(line)["reason"] for line in lines]
    assert reasons == ["invalid_json", "params_schema", "schema", "schema"]
    assert script.answers == [("c1", False), ("c2", False), ("c3", False), ("c4", False)]


async def test_the_bridge_waits_for_its_own_messages(organism):
    heard = []
    async with build(organism) as server:
        await bridge(server, Sink(), heard.append).run(Script(*[Attempt(read_text(blob()))] * 5))
    assert len(heard) == 5


async def test_an_unreadable_session_is_reported(organism):
    class LostScript(Script):
        def attempts(self):
            raise SourceLost("gone")
            yield

    async with build(organism) as server:
        with pytest.raises(SourceLost, match="gone"):
            await bridge(server, Sink()).run(LostScript())


def test_values_become_text():
    request = HandoffRequest("a", "b", (("x", "1"), ("y", 2), ("z", True), ("w", False)), "event")
    values = (Param("x", "1"), Param("y", "2"), Param("z", "true"), Param("w", "false"))
    assert handoff(request) == Handoff("b", "a", values, None, "event")


def test_the_older_form_goes_to_the_server():
    assert handoff(HandoffRequest("a", fault=RequestRefusal.LEGACY_PAYLOAD, event="e")) == Handoff(
        "", "a", event="e"
    )
