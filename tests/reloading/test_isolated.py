"""A listener with a process of its own: a reload starts new ones with the new code, and ends those of before."""

import os
from functools import partial
from pathlib import Path

import anyio
import pytest

from agentserver.assembly import ReloadResult, build
from agentserver.config import forget, load
from agentserver.wire.envelope import read_envelope
from agentserver.worker.wall.raising import list_missing
from tests.machine import HANGS
from tests.reloading.projects import FORMS

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(list_missing(ports=False)), reason="this system cannot hold a wall: NOT tested"),
]

CODE = """
import os
from agentserver import HandlerResponse
from apart_forms import Ask, Told

async def tell(payload: Ask, metadata) -> HandlerResponse:
    return HandlerResponse.respond(Told(f"WORD {os.getpid()}"))
"""

YAML = """
name: demo
listeners:
  - name: teller
    handler: apart_tell.tell
    payload_class: apart_forms.Ask
    replies: [apart_forms.Told]
    description: Tells.
    isolation: {warm: 1}
"""


def alive(pid):
    return Path(f"/proc/{pid}").exists()


async def test_worker_processes_are_those_of_the_edition(tmp_path):
    def write(word):
        (tmp_path / "apart_forms.py").write_text(FORMS)
        (tmp_path / "apart_tell.py").write_text(CODE.replace("WORD", word))
        (tmp_path / "organism.yaml").write_text(YAML)

    async def load_in_thread(**more):
        return await anyio.to_thread.run_sync(
            partial(load, tmp_path / "organism.yaml", environ=os.environ, **more)
        )

    async def ask(server):
        codecs = server.rules.codecs
        (kind,) = server.rules.blueprint.listeners["teller"].payloads
        reply = await (await server.open("me")).ask(codecs.of(kind).encode(kind("x")).encode(), "teller")
        element = read_envelope(reply.message).payload
        word, pid = codecs.for_root(element.tag).decode(element).text.split()
        return word, int(pid)

    write("old")
    first = await load_in_thread()
    try:
        async with build(first) as server:
            word, before = await ask(server)
            assert (word, alive(before)) == ("old", True)
            write("new")
            assert isinstance(
                await server.reload(await load_in_thread(previous=server.organism)), ReloadResult
            )
            word, after = await ask(server)
            assert (word, after != before) == ("new", True)
            with anyio.fail_after(HANGS):
                while alive(before):  # noqa: ASYNC110 - it is another process
                    await anyio.sleep(0.01)
            assert alive(after)
        assert not alive(after)
    finally:
        forget(server.organism)
        forget(first)


FUNCTION_FORMS = """
from dataclasses import dataclass

@dataclass
class Told:
    text: str

async def tell(text: str, times: int = 1) -> Told: ...
"""

FUNCTION = """
from apart_forms import Told

async def tell(text: str, times: TYPE = 1) -> Told:
    return Told("WORD " + text * int(times))
"""


@pytest.mark.parametrize(("kind", "answer"), [("int", "new aa"), ("str", "internal")])
async def test_a_function_behind_a_wall_takes_its_derived_declaration(tmp_path, kind, answer):
    (tmp_path / "apart_forms.py").write_text(FUNCTION_FORMS)
    (tmp_path / "apart_tell.py").write_text(
        FUNCTION.replace("WORD", "new")
        .replace("TYPE", kind)
        .replace("= 1", '= "1"' if kind == "str" else "= 1")
    )
    yaml = YAML.replace("apart_forms.Ask", "apart_forms.Tell").replace(
        "    replies: [apart_forms.Told]\n", ""
    )
    (tmp_path / "organism.yaml").write_text(yaml)
    organism = await anyio.to_thread.run_sync(partial(load, tmp_path / "organism.yaml", environ=os.environ))
    try:
        (bound,) = organism.listeners
        (tell,) = bound.listener.payloads
        assert [each.__name__ for each in bound.listener.answers] == ["Told"]
        async with build(organism) as server:
            codecs = server.rules.codecs
            reply = await (await server.open("me")).ask(
                codecs.of(tell).encode(tell("a", 2)).encode(), "teller"
            )
            element = read_envelope(reply.message).payload
            found = codecs.for_root(element.tag).decode(element)
            assert getattr(found, "text", None) == answer or str(getattr(found, "code", "")) == answer
    finally:
        forget(organism)
