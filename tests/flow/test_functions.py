"""Functions with typed parameters that await messages: as people write them, in the server and behind a wall."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace

import pytest

from agentserver.config import forget, load
from agentserver.core.records.details import Ground
from agentserver.flow import ask, gather
from agentserver.payload.functions import payload_of
from agentserver.testing import listener, organism, organism_of
from tests.flow.forgetful import Forgetful

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Vendor:
    name: str
    iban: str


async def find_vendor(iban: str) -> Vendor:
    """Find a vendor."""
    return Vendor("Ada & Co", iban)


async def check(text: str) -> bool:
    return "fraud" not in text


FindVendor, Check = payload_of(find_vendor), payload_of(check)


async def pay(iban: str, text: str = "") -> str:
    """Pay a vendor, unless a check says no."""
    vendor, fine = await gather(ask("ledger", FindVendor(iban), reply=Vendor), ask("fraud", Check(text)))
    return f"paid {vendor.name}" if fine.value else "refused"


async def pay_slowly(iban: str) -> AsyncIterator[str | Vendor]:
    yield "asking"
    vendor = await ask("ledger", FindVendor(iban))
    yield "asked"
    yield vendor


async def find_again(iban: str) -> str:
    """Ask without naming the class of an answer, which another function derives."""
    first = await ask("fraud", Check("x"))
    second = await ask("fraud", Check("fraud"))
    return f"{first.value} {second.value}"


async def notify(text: str) -> None:
    """Return nothing, which the caller learns."""


async def pay_and_notify(iban: str) -> str:
    done = await ask("desk", payload_of(notify)(iban))
    return type(done).__name__


NOTIFYING = organism_of(listener("payer", pay_and_notify, peers=["desk"]), listener("desk", notify))


def forget_handler(bound):
    return replace(bound, handler=Forgetful(bound.handler.run, bound.handler.codecs))


HOUSE = organism_of(
    forget_handler(listener("again", find_again, peers=["fraud"])),
    listener("desk", pay, peers=["ledger", "fraud"]),
    listener("slow", pay_slowly, peers=["ledger"]),
    listener("ledger", find_vendor),
    listener("fraud", check),
)


async def test_a_function_awaits_messages():
    async with organism(HOUSE) as o:
        assert (await o.ask(payload_of(pay)("DE1"), to="desk")).value == "paid Ada & Co"
        assert (await o.ask(payload_of(pay)("DE1", "fraud"), to="desk")).value == "refused"


async def test_the_class_of_a_recorded_answer_may_be_derived_from_another_function():
    async with organism(HOUSE) as o:
        assert (await o.ask(payload_of(find_again)("DE1"), to="again")).value == "True False"


async def test_a_generator_awaits_messages_between_its_progress():
    async with organism(HOUSE) as o:
        assert (await o.ask(payload_of(pay_slowly)("DE1"), to="slow")).iban == "DE1"


async def test_a_generator_reports_progress_after_it_has_waited():
    async with organism(HOUSE) as o:
        handle = await o.server.open("watcher")
        words = handle.progress()
        await handle.ask(
            payload_of(pay_slowly).__codec__.encode(payload_of(pay_slowly)("DE1")).encode(), "slow"
        )
        await handle.close()
        assert [each.text async for each in words] == ["asking", "asked"]


ENDED = []


async def pay_last(iban: str) -> AsyncIterator[str | Vendor]:
    try:
        yield await ask("ledger", FindVendor(iban))
    finally:
        ENDED.append(iban)


async def test_a_dropped_generator_is_closed_without_an_error(caplog):
    ENDED.clear()
    house = await asyncio.to_thread(
        lambda: organism_of(listener("last", pay_last, peers=["ledger"]), listener("ledger", find_vendor))
    )
    async with organism(house, repeat_flows=True) as o:
        assert (await o.ask(payload_of(pay_last)("DE1"), to="last")).iban == "DE1"
        gc.collect()
        await asyncio.sleep(0)
    assert ENDED == ["DE1", "DE1"], "the dropped run and the one that ended"
    assert caplog.messages == []


FORMS = """
from dataclasses import asdict, dataclass, replace
from agentserver import xmlify

@xmlify
@dataclass(frozen=True)
class Start:
    number: int

@xmlify
@dataclass(frozen=True)
class Find:
    what: str

@xmlify
@dataclass(frozen=True)
class Found:
    what: str
"""

LEDGER = """
from flows.forms import Find, Found

async def find(found: Find) -> Found:
    return Found(found.what.upper())
"""

DESK = """
from agentserver.flow import ask, once
from flows.forms import Find, Found, Start

def add(number):
    if number < 0:
        raise ValueError("lost the connection")
    return number + 1

async def flow(start: Start) -> Found:
    kept = await once(add, start.number)
    words = [(await ask("ledger", Find(word))).what for word in ("a", "b")]
    return Found(f"{kept} {' '.join(words)}")
"""

YAML = """
name: house
journal: none
listeners:
  - {name: desk, handler: flows.desk.flow, description: Asks., peers: [ledger]WALL}
  - {name: ledger, handler: flows.ledger.find, description: Finds.}
"""

WALL = (
    ", isolation: process, payload_class: flows.forms.Start, replies: [flows.forms.Find, flows.forms.Found]"
)


@pytest.fixture(params=["", WALL], ids=["inside", "walled"])
def project(request, tmp_path):
    (tmp_path / "flows").mkdir()
    for name, code in (("forms", FORMS), ("ledger", LEDGER), ("desk", DESK)):
        (tmp_path / "flows" / f"{name}.py").write_text(code, "utf-8")
    (tmp_path / "organism.yaml").write_text(YAML.replace("WALL", request.param), "utf-8")
    made = load(tmp_path / "organism.yaml", environ={}, project=tmp_path)
    yield made
    forget(made)


async def test_a_flow_of_a_project_may_be_behind_a_wall(project):
    async with organism(project) as o:
        start, found = (sys.modules["flows.forms"].Start, sys.modules["flows.forms"].Found)
        assert await o.ask(start(1), to="desk") == found("2 A B")


async def test_an_effect_is_on_record_at_the_server_also_behind_a_wall(project):
    async with organism(project) as o:
        start = sys.modules["flows.forms"].Start
        await o.ask(start(1), to="desk")
        assert (await o.ask(start(-1), to="desk")).code == "internal"
        changes = [r.detail for r in o.trace().records if r.event == "effect"]
        assert [one.state for one in changes] == ["claimed", "done", "claimed", "unknown"]
        failed = [r.detail for r in o.trace().records if r.event == "failed"]
        assert failed == [Ground.EFFECT.of(changes[-1].id)]


async def find_alias(name: str) -> str | None:
    return name.upper() if name else None


async def find_last(name: str) -> Vendor | None:
    return Vendor(name, "DE") if name else None


async def list_all(name: str) -> list[str] | None:
    return [name] if name else None


async def count_slowly(name: str) -> AsyncIterator[str]:
    yield name


async def forget_it(name: str) -> Vendor:  # noqa: RET503 - which is tried
    """Fall off the end of a branch, as people do."""
    if name:
        return Vendor(name, "DE")


DESKS = {
    each: organism_of(listener("desk", each))
    for each in (find_alias, find_last, list_all, count_slowly, forget_it)
}


@pytest.mark.parametrize(
    ("function", "found", "missing"),
    [
        (find_alias, {"value": "ADA"}, {"value": None}),
        (find_last, {"name": "Ada", "iban": "DE"}, {}),
        (list_all, {"value": ["Ada"]}, {"value": []}),
        (count_slowly, {}, {}),
    ],
)
async def test_none_is_an_answer_as_well(function, found, missing):
    """A caller that waits would wait in vain otherwise, and end without an answer itself."""
    async with organism(DESKS[function]) as o:
        for name, fields in (("Ada", found), ("", missing)):
            assert asdict(await o.ask(payload_of(function)(name), to="desk")) == fields


async def test_none_from_a_function_that_is_declared_to_answer_is_a_failure():
    async with organism(DESKS[forget_it]) as o:
        assert (await o.ask(payload_of(forget_it)(""), to="desk")).code == "internal"


async def test_a_function_that_returns_none_acknowledges_its_work():
    """A flow that asks it would wait in vain otherwise, and its own caller with it."""
    async with organism(NOTIFYING) as o:
        assert (await o.ask(payload_of(pay_and_notify)("DE02"), to="payer")).value == "NotifyResult"
