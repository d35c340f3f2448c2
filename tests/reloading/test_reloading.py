"""A server that reloads its organism: changed parts, refused changes, and closed parts."""

import asyncio
import gc
import os
import sys
import weakref
from functools import partial

import anyio
import pytest

from agentserver import assembly
from agentserver.assembly import ReloadRefusal, ReloadResult, build
from agentserver.cli.host import reload
from agentserver.config import ConfigError, load
from agentserver.contract import SystemError
from agentserver.engines.memory import MemoryEngine
from agentserver.guards import Guard
from agentserver.reloading.keepers import bound_listeners
from agentserver.reloading.obstacles import named_alike
from tests.machine import HANGS

pytestmark = pytest.mark.anyio

CODE = """
import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from agentserver import HandlerResponse, xmlify
from agentserver.contract import HandlerMetadata

@xmlify
@dataclass
class Ask:
    text: str

@xmlify
@dataclass
class Told:
    text: str

@asynccontextmanager
async def pool():
    yield "pool"

@asynccontextmanager
async def other_pool():
    yield "other"

async def tell(payload: Ask, metadata: HandlerMetadata) -> HandlerResponse:
    return HandlerResponse.respond(Told("WORD " + payload.text))
"""

YAML = """
name: demo
listeners:
  - name: teller
    handler: listeners.tell.tell
    description: Tells.
"""


class Place:
    """A project, a server of it, and its reloads."""

    def __init__(self, root):
        self.root = root
        (root / "listeners").mkdir()
        (root / "listeners/__init__.py").write_text("")

    def write(self, word="old", yaml=YAML, code=CODE):
        (self.root / "listeners/tell.py").write_text(code.replace("WORD", word))
        (self.root / "organism.yaml").write_text(yaml)

    async def load(self, after=None):
        read = partial(load, self.root / "organism.yaml", environ=os.environ, previous=after)
        return await anyio.to_thread.run_sync(read)

    async def reload(self, server):
        return await server.reload(await self.load(server.organism))

    async def server(self, **more):
        self.write(**{key: more.pop(key) for key in ("word", "yaml", "code") if key in more})
        return build(await self.load(), **more)


@pytest.fixture
def place(tmp_path):
    before, finders = set(sys.modules), list(sys.meta_path)
    yield Place(tmp_path)
    sys.meta_path[:] = finders
    for name in set(sys.modules) - before:
        if name.split(".")[0] == "listeners" or name.startswith("edition"):
            del sys.modules[name]


async def ask(server, text, handle=None, to="teller"):
    handle = handle or await server.open("me")
    codecs = server.rules.codecs
    (payload,) = server.rules.blueprint.listeners[to].payloads
    reply = await handle.ask(codecs.of(payload).encode(payload(text)).encode(), to)
    from agentserver.wire.envelope import read_envelope

    element = read_envelope(reply.message).payload
    return codecs.for_root(element.tag).decode(element)


@pytest.mark.parametrize("durable", [False, True])
async def test_changed_code_and_yaml_take_effect_without_a_restart(place, durable):
    yaml = YAML + ("journal: {path: out/j.sqlite}\n" if durable else "")
    async with await place.server(yaml=yaml, durable=durable) as server:
        handle = await server.open("me")
        assert (await ask(server, "1", handle)).text == "old 1"
        place.write("new", yaml.replace("name: demo", "name: later"))
        assert await place.reload(server) == ReloadResult("later", 0)
        assert (await ask(server, "2", handle)).text == "new 2"
        assert server.organism.name == "later"


async def test_an_unused_part_is_closed_and_forgotten(place):
    async with await place.server() as server:
        for word in ("second", "third"):
            place.write(word)
            assert isinstance(await place.reload(server), ReloadResult)
            if word == "second":
                kept = weakref.ref(server.organism.listeners[0].handler)
                second = server.organism.modules.namespace.name
        assert (await ask(server, "1")).text == "third 1"
        with anyio.fail_after(HANGS):
            while f"{second}.listeners.tell" in sys.modules:  # noqa: ASYNC110 - it is forgotten by a task
                await asyncio.sleep(0)
        gc.collect()
        assert kept() is None
        assert server.organism.listeners[0].handler.__module__ == "listeners.tell"


FIXED = {
    "journal": ("journal: {path: out/other.sqlite}\n", "journal: has changed"),
    "limits.concurrency": ("limits: {concurrency: 5}\n", "limits.concurrency was 64 and is 5"),
    "limits.stall": ("limits: {stall: 5}\n", "limits.stall was 30 and is 5"),
    "limits.drain": ("limits: {drain: 5}\n", "limits.drain was 10 and is 5"),
    "lifespan": ("lifespan: listeners.tell.other_pool\n", "lifespan: has changed"),
    "mcp_server": ("mcp_server: {expose: [teller]}\n", "mcp_server: has changed"),
}


@pytest.mark.parametrize(("more", "told"), FIXED.values(), ids=FIXED)
async def test_an_unchangeable_part_is_named_and_refuses_the_whole_reload(place, more, told):
    before = YAML + ("lifespan: listeners.tell.pool\n" if "lifespan" in more else "")
    async with await place.server(yaml=before) as server:
        place.write("new", YAML + more)
        found = await place.reload(server)
        assert isinstance(found, ReloadRefusal)
        assert [
            line for line in found.reasons if line.startswith(told) and line.endswith("it needs a restart")
        ]
        assert (await ask(server, "1")).text == "old 1"
        place.write("new", before)
        assert isinstance(await place.reload(server), ReloadResult)
        assert (await ask(server, "2")).text == "new 2"


async def test_a_secret_of_an_edition_is_hidden_for_as_long_as_the_server_runs(place, monkeypatch):
    async with await place.server() as server:
        for secret in ("opensesame", "opensilver"):
            monkeypatch.setenv("WORD_OF_DOORS", secret)
            place.write("new", YAML.replace("Tells.", "${WORD_OF_DOORS}"))
            assert isinstance(await place.reload(server), ReloadResult)
        text = "opensesame and opensilver"
        assert (
            server.organism.secrets.redact(text) == server.rules.redact(text) == "[redacted] and [redacted]"
        )


async def test_a_mistake_keeps_the_old(place):
    async with await place.server() as server:
        place.write("new", code=CODE + "\nfail(\n")
        with pytest.raises(ConfigError, match="SyntaxError"):
            await place.load(server.organism)
        assert (await ask(server, "1")).text == "old 1"


class RememberingGuard(Guard):
    """Lets everything pass."""

    def judge(self, message, memory):
        return None


async def test_guards_of_the_program_stay(place):
    async with await place.server(guards={"mine": RememberingGuard()}) as server:
        guards = [guard.name for guard in server.rules.guards]
        place.write("new")
        assert isinstance(await place.reload(server), ReloadResult)
        assert guards == [guard.name for guard in server.rules.guards]
        assert (await ask(server, "1")).text == "new 1"


async def test_rules_that_do_not_fit_together_keep_the_old(place):
    """A name that a guard of the program has is seen only when both come together."""
    code = (
        CODE
        + """
from agentserver.guards import Guard
class Mine(Guard):
    def judge(self, message, memory): return None
"""
    )
    async with await place.server(guards={"mine": RememberingGuard()}) as server:
        place.write("new", YAML + "guards: [{use: listeners.tell.Mine, name: mine}]\n", code)
        found = await place.reload(server)
        assert isinstance(found, ReloadRefusal)
        assert found.reasons[0].startswith("ValueError: ")
        assert (await ask(server, "1")).text == "old 1"


class LeavingGuard(RememberingGuard):
    """Lets everything pass, and ends the process at another organism than the first."""

    def __init__(self):
        self.checked = 0

    def check(self, listeners):
        self.checked += 1
        if self.checked > 1:
            raise SystemExit("no more")


async def test_a_check_that_would_end_the_process_keeps_the_old(place):
    async with await place.server(guards={"mine": LeavingGuard()}) as server:
        place.write("new")
        assert await place.reload(server) == ReloadRefusal(("SystemExit: no more",))
        assert (await ask(server, "1")).text == "old 1"


TRUSTING = """
provenance: {}
"""


@pytest.mark.parametrize("durable", [False, True])
async def test_a_guard_added_later_counts_messages_that_it_has_not_seen(place, durable):
    """As after a restart: an earlier conversation has passed the bound, a new one has not."""
    yaml = YAML + ("journal: {path: out/j.sqlite}\n" if durable else "")
    trusting = yaml.replace("    description", "    trust: inert\n    description") + TRUSTING
    async with await place.server(yaml=yaml, durable=durable) as server:
        handle = await server.open("me")
        await ask(server, "1", handle)
        place.write("new", trusting)
        found = await place.reload(server)
        assert isinstance(found, ReloadResult), found
        await ask(server, "2", handle)
        memory = server.conversation(handle.id).memory
        assert "lineage" in memory, sorted(memory)
        place.write("gone", yaml)
        found = await place.reload(server)
        assert isinstance(found, ReloadRefusal)
        assert "the guard lineage is gone" in found.reasons[0]


async def test_a_principal_who_would_be_a_listener(place):
    async with await place.server() as server:
        handle = await server.open("other")
        await ask(server, "1", handle)
        place.write("new", YAML.replace("name: teller", "name: other"))
        found = await place.reload(server)
        assert isinstance(found, ReloadRefusal)
        assert found.reasons == ("other has conversations open and would be a listener: it needs a restart",)


async def test_an_edition_that_does_not_begin_and_cannot_be_closed_either_keeps_the_old(
    place, monkeypatch, caplog
):
    def fail():
        raise OSError("it clings")

    async def cling_listeners(*rest):
        rest[-1].callback(fail)
        return await bound_listeners(*rest)

    async with await place.server() as server:
        handle = await server.open("me")
        place.write(yaml=YAML.replace("teller", "me"))
        with monkeypatch.context() as patched:
            patched.setattr(assembly, "bound_listeners", cling_listeners)
            assert await place.reload(server) == ReloadRefusal((named_alike("me"),))
        assert "it clings" in caplog.text
        assert (await ask(server, "1", handle)).text == "old 1"


async def test_an_unexpected_exception_of_a_projects_code_is_reported_and_keeps_the_old(place):
    odd = """
class Odd(type):
    def __getattribute__(cls, name): raise SystemExit("odd")
class tell(metaclass=Odd): pass
"""
    async with await place.server() as server:
        place.write("new", code=CODE + odd)
        kept, why = await reload(server, place.root / "organism.yaml")
        assert kept.endswith("is not reloaded, and nothing changes:")
        assert why == "SystemExit: odd"
        assert (await ask(server, "1")).text == "old 1"
        place.write("new")
        assert await reload(server, place.root / "organism.yaml") == (
            f"{place.root}/organism.yaml is reloaded",
        )


async def test_a_server_that_does_not_run(place):
    server = await place.server()
    found = await place.reload(server)
    assert found == ReloadRefusal(("the server is not running",))


async def test_reloads_wait_for_one_another(place):
    async with await place.server() as server:
        place.write("new")
        found = await asyncio.gather(*(place.reload(server) for _ in range(3)))
        assert found == [ReloadResult("demo", 0)] * 3
        assert (await ask(server, "1")).text == "new 1"


class Deaf(MemoryEngine):
    """Stores its input, and takes no guards."""

    durable = True


async def test_an_engine_that_takes_no_guards(place):
    async with await place.server(engine=Deaf()) as server:
        trusting = YAML.replace("    description", "    trust: inert\n    description") + TRUSTING
        place.write("new", trusting)
        found = await place.reload(server)
        assert isinstance(found, ReloadRefusal)
        assert found.reasons == ("the engine does not know the guard lineage: it needs a restart",)
        assert not isinstance(await ask(server, "1"), SystemError)
