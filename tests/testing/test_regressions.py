"""A recorded conversation as a test of the organism that it was recorded on."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from agentserver.config import forget, load
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.testing import check_replay
from tests.cli.journals import change

FIXTURES = Path(__file__).parents[1] / "fixtures"
SHOP = FIXTURES / "conversations" / "shop.json"


@pytest.fixture
def organism(tmp_path):
    home = tmp_path / "shop"
    shutil.copytree(FIXTURES / "journals" / "shop", home, ignore=shutil.ignore_patterns("__pycache__", "out"))
    sys.modules.pop("shop_handlers", None)
    yield home / "organism.yaml"
    sys.modules.pop("shop_handlers", None)


def try_again(organism, **environ):
    found = load(organism, environ=environ)
    try:
        check_replay(SHOP, found)
    finally:
        forget(found)


def test_a_saved_conversation_is_decided_as_it_was(organism):
    try_again(organism)


def test_a_file_by_its_name_and_an_organism_by_its_file(organism, monkeypatch):
    monkeypatch.chdir(organism.parent)
    (organism.parent / "config").mkdir()
    check_replay(str(SHOP), organism, environ={})
    organism.write_text("name: ${NOBODY}\n")
    with pytest.raises(Exception, match="NOBODY"):
        check_replay(SHOP, organism)


def test_a_difference_is_a_readable_assertion(organism):
    change(organism, "peers: [till, ghost]", "peers: [ghost]")
    with pytest.raises(AssertionError) as raised:
        try_again(organism)
    assert str(raised.value) == (
        "shop.json: step 2 (clerk finished with Order from console): "
        "then sent clerk -> till Sum; now refused clerk -> till routing: till is no peer of clerk"
    )


def test_secrets_are_taken_out_of_the_words(organism):
    change(organism, "peers: [till, ghost]", "peers: [ghost]")
    change(organism, "description: Adds up.", "description: ${WORD}.")
    with pytest.raises(AssertionError, match=r"now refused \[redacted\] -> till"):
        try_again(organism, WORD="clerk")


def test_invalid_conversations(organism):
    with pytest.raises(UnreadableError):
        check_replay(organism, organism)
