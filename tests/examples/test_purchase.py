"""A purchase: approved items are bought, within the budget; a model's spending has a limit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from agentserver import SystemError
from agentserver.config import forget, load
from agentserver.testing import Answer, organism
from tests.cli.conftest import environment
from tests.examples.conftest import PROJECT

FOLDER = PROJECT / "examples/purchase"
PAGE = (PROJECT / "docs/examples/purchase.md").read_text("utf-8")

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def shop():
    loaded = load(FOLDER / "organism.yaml", environ={}, separate=True)
    yield loaded
    forget(loaded)


@pytest.fixture
def wish(shop):
    (made,) = next(bound for bound in shop.listeners if bound.listener.name == "buyer").listener.payloads
    return made


async def test_an_order_that_a_person_approves_is_placed(shop, wish):
    async with organism(shop, approve=Answer.ONCE) as o:
        assert (await o.ask(wish("Buy 3 of chair."))).text == "3 of chair: ordered"
        ((asked),) = o.approvals
        assert (asked.payload.thing, asked.payload.count) == ("chair", 3)


async def test_an_unapproved_purchase_is_not_made(shop, wish):
    async with organism(shop) as o:
        assert (await o.ask(wish("Buy 3 of chair."))).text == "3 of chair: Refused (denied)"


async def test_a_purchase_beyond_the_budget_is_denied_at_once(shop, wish):
    async with organism(shop, approve=Answer.ONCE) as o:
        assert (await o.ask(wish("Buy 2 of desk."))).text == "2 of desk: ordered"  # 900 of 1000 euros
        assert (await o.ask(wish("Buy 1 of chair."))).text == "1 of chair: Refused (denied)"
        assert (await o.ask(wish("Buy 2 of lamp."))).text == "2 of lamp: ordered"
        assert (await o.ask(wish("Buy 1 of yacht."))).text == "1 of yacht: Refused (denied)"
        assert [asked.payload.thing for asked in o.approvals] == ["desk", "lamp"]
        assert "900 of 1000 euros are spent, and this costs 120" in str(o.trace())


async def test_unapproved_money_is_not_spent(shop, wish):
    async with organism(
        shop, approve=lambda asked: Answer.DENY if asked.payload.count > 1 else Answer.ONCE
    ) as o:
        assert (await o.ask(wish("Buy 2 of desk."))).text == "2 of desk: Refused (denied)"
        assert (await o.ask(wish("Buy 1 of desk."))).text == "1 of desk: ordered"


async def test_an_endless_model_is_stopped(shop, wish):
    async with organism(shop) as o:
        said = await o.ask(wish("Haggle."))
        assert isinstance(said, SystemError)
        assert said.code == "budget"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_shows_the_output_of_its_script(tmp_path):
    script, shown = blocks("text")
    shop = tmp_path / "purchase"
    shutil.copytree(FOLDER, shop, ignore=shutil.ignore_patterns("out", "__pycache__"))
    ran = subprocess.run(
        [sys.executable, "-m", "agentserver", "--log-level", "error", "run"],
        cwd=shop, env=environment(), input=script, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 1, ran.stderr  # not everything was answered without an error
    lines = [re.sub(r"\b[0-9a-f]{6}\b", "a1e333", line) for line in ran.stdout.splitlines()]
    for line in shown.splitlines():
        assert any(each.startswith(line) for each in lines), line


def test_the_page_shows_the_organism_and_the_guard():
    assert blocks("yaml") == [(FOLDER / "organism.yaml").read_text("utf-8")]
    code = (FOLDER / "purchase.py").read_text("utf-8")
    assert all(block in code for block in blocks("python"))
    assert len(code.splitlines()) < 150
