"""The daily line about calls that passed in audit mode."""

from __future__ import annotations

import shutil

import pytest

from agentserver import config
from agentserver.assembly import build
from agentserver.core.records.audit import AuditRecord, Event
from agentserver.core.records.details import GuardNote
from agentserver.findings import DeferredFindings, FindingFacts, Findings, FindingsOutline
from agentserver.pump.digest import DAY, NAMED, AuditDigest
from tests.gateways.live.conftest import ROOT


def flag_record(sink, *findings, mode="audit"):
    facts = tuple(FindingFacts(rule, effect, "to", "x") for rule, effect in findings)
    return AuditRecord(Event.FLAGGED, 0.0, "c", "t", detail=Findings(sink, 1, mode, "allow", facts))


def line_of(*records):
    digest = AuditDigest()
    for record in records:
        digest.count(record)
    return digest.take_line()


def test_a_call_counts_once_by_its_weightiest_rule_and_sinks_are_in_the_order_of_their_number():
    line = line_of(
        flag_record("bank", ("tainted", "ask"), ("unfounded", "block"), ("tainted", "block")),
        flag_record("outbox", ("tainted", "ask")),
        flag_record("outbox", ("tainted", "ask")),
    )
    assert line.startswith(
        "provenance is in audit; enforce would have refused 1 call and asked about 2: "
        "outbox 2 (tainted), bank 1 (unfounded); "
    )


def test_a_call_whose_findings_are_not_computed_counts_by_the_rule_that_decides():
    def deferred(*deciding):
        found = DeferredFindings(FindingsOutline("bank", "audit", "allow", *deciding), pytest.fail)
        return AuditRecord(Event.FLAGGED, 0.0, "c", "t", detail=found)

    line = line_of(deferred("block", "tainted"), deferred("ask", "unfounded"), deferred())
    assert "would have refused 1 call and asked about 1: bank 1 (tainted), bank 1 (unfounded); " in line


@pytest.mark.parametrize(
    "record",
    [
        flag_record("bank", ("tainted", "report")),
        flag_record("bank", ("tainted", "block"), mode="confirm"),
        AuditRecord(Event.FLAGGED, 0.0, "c", "t", detail=GuardNote("hours", "late")),
    ],
)
def test_a_message_that_passes_in_any_case_is_not_counted(record):
    assert line_of(record) == ""


def test_a_line_is_short_for_any_number_of_listeners():
    line = line_of(*(flag_record(f"sink{number}", ("tainted", "block")) for number in range(NAMED + 3)))
    assert "others 3;" in line
    assert f"sink{NAMED}" not in line


@pytest.mark.anyio
async def test_each_day_has_a_line_with_its_own_calls(caplog):
    digest, days = AuditDigest(), []

    async def sleep(seconds):
        assert seconds == DAY
        days.append(len(caplog.records))
        if len(days) == 3:
            raise StopAsyncIteration
        for _ in range(len(days)):
            digest.count(flag_record("bank", ("tainted", "block")))

    with pytest.raises(StopAsyncIteration):
        await digest.run(sleep)
    assert [line.getMessage().split()[8] for line in caplog.records] == ["1", "2"]


@pytest.fixture
def organism(tmp_path):
    place = tmp_path / "desks"
    shutil.copytree(ROOT / "examples" / "desks", place)
    file = place / "plain.yaml"
    file.write_text(file.read_text("utf-8").replace("mode: enforce", "mode: audit"), "utf-8")
    loaded = config.load(file, environ={})
    yield loaded
    config.forget(loaded)


@pytest.mark.anyio
async def test_a_server_that_stops_logs_the_calls_since_the_last_line(organism, caplog):
    (wish,) = (
        each for one in organism.listeners for each in one.listener.payloads if each.__name__ == "Wish"
    )
    async with build(organism) as server:
        handle = await server.open("ann")
        asked = server.rules.codecs.of(wish).encode(wish("Pay the invoice in mail 13 and tell Kim."))
        assert [reply async for reply in handle.replies(asked.encode(), "clerk")]
        await handle.close()
    (line,) = [one.getMessage() for one in caplog.records if one.getMessage().startswith("provenance is in")]
    assert "refused 4 calls and asked about 0: " in line
