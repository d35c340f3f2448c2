"""The overview on the command line shows names as other verbs do."""

from __future__ import annotations

import json

import anyio

from agentserver.assembly import build
from agentserver.config import load
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from tests.cli.conftest import organism

ORGANISM = """
name: x
journal: {path: j.sqlite}
listeners:
  - {name: calculator, description: Calculates., handler: agentserver.tools.calculator.calculate}
"""

NAME = "CORP\\ann"


async def ask_as(path, principal):
    """Send one message of a principal."""
    loaded = await anyio.to_thread.run_sync(lambda: load(path, environ={}, separate=True))
    engine = SqliteEngine(JournalOptions(path.parent / "j.sqlite"))
    async with build(loaded, engine=engine) as server:
        handle = await server.open(principal)
        await handle.ask(b"<Other/>", "calculator")


def test_a_name_is_escaped_once_for_people_and_not_at_all_in_json(command, tmp_path):
    place = organism(tmp_path, ORGANISM)
    anyio.run(ask_as, place, NAME)
    printed = command("overview", "--organism", str(place)).stdout
    assert "\nCORP\\\\ann  " in printed
    found = json.loads(command("overview", "--json", "--organism", str(place)).stdout)
    assert [one["name"] for one in found["principals"]] == [NAME]
