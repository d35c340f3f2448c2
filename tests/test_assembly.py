"""Where the parts meet: what a configuration becomes, from a real organism.yaml."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

import anyio
import pytest

from agentserver import HandlerMetadata, HandlerResponse, Handoff, Task
from agentserver.assembly import DRAWN, SystemClock, build
from agentserver.config import forget, load
from agentserver.core.encoding.codecs import attempt_members as members
from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.guards.builtin import PeersGuard
from agentserver.handoff.edge.records import verify_file
from agentserver.payload.fields.field_table import PayloadError
from agentserver.ports import NotStoredError
from agentserver.testing import listener, organism_of
from agentserver.wire.envelope import read_envelope
from tests.machine import HANGS

ORDER = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:shop:v1" targetNamespace="urn:shop:v1"
           elementFormDefault="qualified" xpathDefaultNamespace="##targetNamespace">
  <xs:include schemaLocation="types.xsd"/>
  <xs:element name="Order">
    <xs:complexType>
      <xs:sequence>
        <xs:element name="item" type="item"/>
        <xs:element name="least" type="xs:integer"/>
        <xs:element name="most" type="xs:integer"/>
      </xs:sequence>
      <xs:assert test="least le most"/>
    </xs:complexType>
  </xs:element>
</xs:schema>
"""
TYPES = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns="urn:shop:v1" targetNamespace="urn:shop:v1"
           elementFormDefault="qualified">
  <xs:simpleType name="item"><xs:restriction base="xs:string"><xs:pattern value="[A-Z]{2}-[0-9]+"/></xs:restriction></xs:simpleType>
</xs:schema>
"""
LAX = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:shop:v1" elementFormDefault="qualified">
  <xs:element name="Order">
    <xs:complexType>
      <xs:sequence>
        <xs:element name="item" type="xs:string"/>
        <xs:element name="least" type="xs:integer"/>
        <xs:element name="most" type="xs:integer"/>
      </xs:sequence>
    </xs:complexType>
  </xs:element>
</xs:schema>
"""

CODE = '''
from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agentserver import HandlerResponse, invocation, xmlify
from agentserver.payload.xsd_codec import bind

LAX = """{lax}"""


@dataclass
class Order:
    """As xsdata generates it."""

    class Meta:
        namespace = "urn:shop:v1"

    item: str = field(metadata={{"type": "Element", "required": True}})
    least: int = field(metadata={{"type": "Element", "required": True}})
    most: int = field(metadata={{"type": "Element", "required": True}})


bind(Order, LAX, example=Order("AB-1", 1, 2))


@xmlify
@dataclass
class Receipt:
    item: str


class Till:
    opened = 0


@asynccontextmanager
async def one():
    till = Till()
    till.opened += 1
    yield till
    till.opened -= 1


@asynccontextmanager
async def several():
    yield [Till(), "other"]


async def take(payload: Order, metadata):
    return HandlerResponse.respond(Receipt(payload.item))


async def count(payload: Receipt, metadata):
    return HandlerResponse.respond(Receipt(f"{{invocation().resource(Till).opened}} {{invocation().settings}}"))
'''

TAKING = """
  - {{name: {name}, description: Takes orders., payload_class: shop.Order, handler: shop.take, schema: {schema}}}"""
COUNTING = """
  - {name: counter, description: Counts., payload_class: shop.Receipt, handler: shop.count, peers: [counter]}"""


@dataclass
class Shop:
    root: Path

    def write(self, name, text):
        (self.root / name).write_text(dedent(text))
        return self

    def load(self, listeners, more=""):
        self.write("organism.yaml", f"name: shop\n{more}\nlisteners:{listeners}\n")
        return load(self.root / "organism.yaml", environ={})


@pytest.fixture
def shop(tmp_path):
    made = Shop(tmp_path)
    made.write("order.xsd", ORDER).write("types.xsd", TYPES).write("lax.xsd", LAX)
    made.write("shop.py", CODE.format(lax=LAX))
    yield made
    sys.modules.pop("shop", None)


def run_scenario(organism, scenario):
    """Run a scenario with the server; loading and building touch files, so they stay outside of the loop."""

    async def run():
        with anyio.fail_after(HANGS):
            async with server:
                return await scenario(server)

    server = build(organism)
    try:
        return anyio.run(run)
    finally:
        forget(organism)


async def ask(server, payload, to):
    codecs = server.rules.codecs
    data = payload if isinstance(payload, bytes) else codecs.of(type(payload)).encode(payload).encode()
    handle = await server.open("console")
    element = read_envelope((await handle.ask(data, to)).message).payload
    return codecs.for_root(element.tag).decode(element)


def test_a_hand_written_schema_judges_the_messages_of_its_listener(shop):
    organism = shop.load(TAKING.format(name="orders", schema="order.xsd"))
    order = sys.modules["shop"].Order

    async def scenario(server):
        orders = [order("AB-12", 1, 9), order("nothing", 1, 9), order("AB-12", 9, 1)]
        return [await ask(server, one, "orders") for one in orders]

    taken, *refused = run_scenario(organism, scenario)
    assert taken.item == "AB-12"
    assert [(one.code, one.retry_allowed) for one in refused] == [("validation", True)] * 2


def test_the_schema_that_the_listener_names_goes_before_the_one_that_the_class_carries(shop):
    organism = shop.load(TAKING.format(name="orders", schema="order.xsd"))
    order = sys.modules["shop"].Order
    codec = build(organism).rules.codecs.of(order)
    assert "assert" in codec.xsd()
    assert codec.example() == order.__payload__.codec().example()
    organism = shop.load(TAKING.format(name="orders", schema="lax.xsd"))
    assert "assert" not in build(organism).rules.codecs.of(sys.modules["shop"].Order).xsd()
    forget(organism)


def refusal_text(organism):
    with pytest.raises(PayloadError) as caught:
        build(organism)
    forget(organism)
    return str(caught.value)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (LAX.replace('name="most"', 'name="largest"'), "no example validates"),
        (LAX.replace('name="Order"', 'name="Orders"'), "Order"),
        (LAX.replace("urn:shop:v1", "urn:shop:v2"), "Order"),
        (LAX.replace("xs:integer", "xs:nothing"), "schema"),
        ("<a/>", "its root is not xs:schema"),
        (ORDER.replace("types.xsd", "absent.xsd"), "absent.xsd"),
    ],
)
def test_a_class_and_a_schema_that_do_not_fit_are_refused_with_file_and_listener(shop, schema, complaint):
    shop.write("bad.xsd", schema)
    text = refusal_text(shop.load(COUNTING + TAKING.format(name="orders", schema="bad.xsd")))
    assert text.startswith(f"{shop.root / 'organism.yaml'}:5: listener orders: bad.xsd: ")
    assert complaint in text


def test_an_include_that_leads_out_of_the_schemas_folder_is_not_followed(shop, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "types.xsd"
    elsewhere.write_text(TYPES)
    (shop.root / "types.xsd").unlink()
    (shop.root / "types.xsd").symlink_to(elsewhere)
    assert "types.xsd" in refusal_text(shop.load(TAKING.format(name="orders", schema="order.xsd")))


def test_a_schema_for_a_class_that_has_its_own_is_refused(shop):
    listener = COUNTING.replace("}", ", schema: lax.xsd}")
    text = refusal_text(shop.load(listener))
    assert "listener counter: lax.xsd: Receipt" in text


def test_one_class_has_one_schema(shop):
    both = TAKING.format(name="orders", schema="order.xsd") + TAKING.format(name="others", schema="order.xsd")
    organism = shop.load(both)
    build(organism)
    forget(organism)
    text = refusal_text(
        shop.load(
            TAKING.format(name="orders", schema="order.xsd") + TAKING.format(name="others", schema="lax.xsd")
        )
    )
    assert "listener others: lax.xsd: Order has another schema at another listener" in text


@pytest.mark.parametrize(("lifespan", "opened"), [("one", 1), ("several", 0)])
def test_handlers_reach_the_lifespans_objects_for_as_long_as_the_server_runs(shop, lifespan, opened):
    organism = shop.load(COUNTING, more=f"lifespan: shop.{lifespan}")
    receipt = sys.modules["shop"].Receipt
    answer = run_scenario(organism, lambda server: ask(server, receipt("x"), "counter"))
    assert answer.item == f"{opened} None"


def test_a_server_is_open_only_while_it_runs(shop):
    async def scenario(server):
        kept.append(server)
        handle = await server.open("console")
        assert server.conversation(handle.id).principal == "console"
        assert server.conversation("any") is None
        with pytest.raises(ValueError, match="counter"):
            await server.open("counter")
        return handle.id

    kept = []
    conversation = run_scenario(shop.load(COUNTING), scenario)
    (server,) = kept
    assert server.conversation(conversation) is None
    with pytest.raises(RuntimeError, match="not running"):
        anyio.run(server.open, "console")


def test_events_can_be_traced(shop):
    organism = shop.load(COUNTING, more="lifespan: shop.one")
    receipt = sys.modules["shop"].Receipt

    async def scenario(server):
        await ask(server, receipt("x"), "counter")
        (conversation,) = server.trace.conversations()
        return [str(record.event) for record in server.trace.list_records(conversation)]

    assert run_scenario(organism, scenario) == ["received", "sent", "handled", "answered"]


def test_the_built_server_follows_from_the_organism(shop):
    organism = shop.load(COUNTING, more="limits: {payload: 4096, hops: 7}")
    engine = MemoryEngine()
    server = build(organism, engine=engine)
    blueprint = server.rules.blueprint
    receipt = server.rules.codecs.of(sys.modules["shop"].Receipt)
    assert server.engine is engine
    assert server.rules.bounds.bytes == 4096
    assert blueprint.limits.hops == 7
    assert blueprint.roots == {"counter": {receipt.name}}
    assert {name.rpartition("}")[2] for name in blueprint.services} == {
        "TodoUntil",
        "TodoComplete",
        "SetTimer",
        "CancelTimer",
    }
    assert receipt.example() in blueprint.usage["counter"]
    assert [type(guard) for guard in server.rules.guards] == [PeersGuard]
    forget(organism)


def test_the_systems_clock_never_gives_the_same_randomness_twice():
    clock, other = SystemClock(), SystemClock()
    moments = [each.moment() for _ in range(5 * DRAWN) for each in (clock, other)]
    assert len({moment.seed for moment in moments}) == 10 * DRAWN
    assert all(len(moment.seed) == 16 for moment in moments)
    assert sorted(moment.now for moment in moments) == [moment.now for moment in moments]


# Handoffs

DESK = Path(__file__).parents[1] / "examples/handoff/organism.yaml"


@pytest.fixture
def desk(tmp_path):
    organism = load(DESK, environ={})
    yield replace(organism, project=tmp_path)
    forget(organism)


async def hand_over(server, **fields):
    handle = await server.open("console")
    data = server.rules.codecs.of(Handoff).encode(Handoff(**fields))
    reply = await handle.ask(data.encode(), "launch-radar")
    await handle.close()
    return reply


def test_attempts_are_copied_to_the_file_that_the_organism_names(desk, tmp_path):
    async def scenario():
        for intent in ("playbook_monitor", "send_it_all"):
            async with build(desk, durable=True) as server:
                await hand_over(server, intent=intent)

    anyio.run(scenario)
    file = tmp_path / "out/handoff-audit.jsonl"
    assert verify_file(file).count == 2
    results = [json.loads(line)["result"] for line in file.read_text().splitlines()]
    assert results == ["approve", "reject"]


@pytest.mark.parametrize("audit", [None, "out/handoff-audit.jsonl"])
def test_no_file_is_written_unless_asked_for(desk, tmp_path, audit):
    silent = replace(desk, handoffs=replace(desk.handoffs, audit=audit))

    async def scenario():
        async with build(silent, durable=audit is None) as server:
            await hand_over(server, intent="playbook_monitor")

    anyio.run(scenario)
    assert not (tmp_path / "out/handoff-audit.jsonl").exists()


def test_a_file_that_cannot_be_written_stops_nobody(desk, tmp_path, caplog):
    lost = replace(desk, handoffs=replace(desk.handoffs, audit="block/handoff-audit.jsonl"))
    (tmp_path / "block").write_text("")

    async def scenario():
        async with build(lost, durable=True) as server:
            return [await hand_over(server, intent="playbook_monitor") for _ in range(3)]

    assert [reply.error for reply in anyio.run(scenario)] == [False] * 3
    told = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 2
    assert "not kept" in told[0]
    assert "3 failures" in told[1]


def test_agents_see_how_to_ask_and_not_the_inputs_of_targets(desk):
    usage = build(desk).rules.blueprint.usage
    assert 'name="Handoff"' in usage["reader"]
    assert 'name="Task"' not in usage["reader"]
    assert "- launch_review (to launch-radar or reg-monitor): ticket_id: text" in usage["reader"]
    assert "Produce a legal-review memo" not in usage["reader"]
    assert usage["tickets"] == ""


async def take(payload: Task, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(payload)


def test_where_no_intents_are_declared_nobody_can_give_a_task():
    organism = organism_of(listener("clerk", take))

    async def scenario():
        async with build(organism) as server:
            handle = await server.open("console")
            codecs = server.rules.codecs
            for payload in (Task("x", "Do it."), Handoff("x", "clerk")):
                data = codecs.of(type(payload)).encode(payload).encode()
                reply = await handle.ask(data, "clerk")
                assert reply.error
            return [
                members(r.detail)["reason"]
                for r in server.trace.list_records(handle.id)
                if r.event == "attempted"
            ]

    assert anyio.run(scenario) == ["forged_task", "target_not_allowlisted"]


def test_an_engine_that_lacks_the_guards_of_the_organism_opens_no_conversation_and_the_log_says_why(
    tmp_path, caplog
):
    organism = """\
name: desk
provenance: {mode: audit}
listeners: [{name: clerk, handler: unkept_clerk.take, description: Takes., trust: relay}]
"""
    code = """\
from dataclasses import dataclass
from agentserver import HandlerResponse, xmlify

@xmlify
@dataclass
class Note:
    text: str

async def take(payload: Note, metadata) -> HandlerResponse:
    return HandlerResponse.respond(payload)
"""
    (tmp_path / "unkept_clerk.py").write_text(code)
    (tmp_path / "organism.yaml").write_text(organism)
    engine = SqliteEngine(JournalOptions(tmp_path / "journal.sqlite"))
    loaded = load(tmp_path / "organism.yaml", environ={})

    async def scenario():
        async with build(loaded, engine=engine) as server:
            with pytest.raises(NotStoredError):
                await server.open("console", committed=True)

    anyio.run(scenario)
    assert "a conversation cannot be opened" in caplog.text
    assert "the guard lineage has a memory" in caplog.text
