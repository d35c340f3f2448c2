"""An operator's answer for a function of ``once`` is of the type that the function returns."""

from __future__ import annotations

import sys

import anyio
import pytest

from agentserver.assembly import build
from agentserver.config import load
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from tests.cli.conftest import organism

ORGANISM = """
name: x
journal: {path: j.sqlite}
listeners:
  - {name: desk, description: Pays., handler: settled_types.desk}
"""

CODE = """
from dataclasses import dataclass
from decimal import Decimal
from agentserver.flow import once

@dataclass(frozen=True)
class Receipt:
    number: str
    amount: Decimal

def pay(iban: str) -> Receipt:
    raise ConnectionError

class Bank:
    @staticmethod
    def count(iban: str) -> int:
        raise ConnectionError

def find(iban):
    raise ConnectionError

async def desk(name: str) -> str:
    if name == "count":
        return str(await once(Bank.count, name))
    if name == "find":
        return str(await once(find, name))
    done = await once(pay, name)
    return f"{done.number} {done.amount}"
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "settled_types.py").write_text(CODE)
    yield organism(tmp_path, ORGANISM)
    sys.modules.pop("settled_types", None)


async def leave_unknown(path, text):
    """Have the flow fail within ``once``. Returns the id of the effect."""
    loaded = await anyio.to_thread.run_sync(lambda: load(path, environ={}, separate=True))
    engine = SqliteEngine(JournalOptions(path.parent / "j.sqlite"))
    async with build(loaded, engine=engine) as server:
        handle = await server.open("ann")
        data = f'<Desk xmlns="urn:agentserver:payload:Desk:v1"><name>{text}</name></Desk>'
        await handle.ask(data.encode(), "desk")
        (effect,) = await engine.read(lambda reader: list(reader.list_effects()))
    return effect.id


@pytest.mark.parametrize(
    ("text", "wrong", "reason", "right"),
    [
        ("pay", '{"number": "5"}', "/amount: Field required", '{"number": "5", "amount": "3.50"}'),
        ("pay", "paid", "returns Receipt, which the answer is not: Input should be an object", None),
        ("count", '"5"', "returns int, which the answer is not: it is a text", "5"),
        ("count", "true", "it is true or false", None),
        ("find", None, "", "anything"),
    ],
)
def test_an_answer_of_another_type_than_the_function_returns_is_refused(
    command, place, text, wrong, reason, right
):
    effect = anyio.run(leave_unknown, place, text)
    if wrong is not None:
        refused = command("effects", "settle", effect, "--done", wrong, "--organism", str(place))
        assert (refused.exit_code, reason in refused.output) == (2, True), refused.output
    if right is not None:
        taken = command("effects", "settle", effect, "--done", right, "--organism", str(place))
        assert taken.exit_code == 0, taken.output
