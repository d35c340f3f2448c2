"""The verbs of operators on an organism that has a broker as its engine."""

from __future__ import annotations

import json
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from anyio.to_thread import run_sync
from click.testing import CliRunner

from agentserver.broker.address import BrokerAddress, BrokerError
from agentserver.broker.words import word
from agentserver.cli import cli, serve
from agentserver.config.organism import BrokerEngine
from agentserver.core.state.principals import Principal, Trust
from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.gateways.principals import Caller, Rate, Role, Tokens, shared, tokens
from agentserver.gateways.principals.file import beside
from tests.pump.desk import until

pytestmark = pytest.mark.anyio
JOURNALS = Path(__file__).parents[1] / "fixtures" / "journals"

ORGANISM = """\
name: {name}
engine:
  nats:
    url: {url}
    replicas: 1
    durability: relaxed
listeners: []
"""


@pytest.fixture
def desk(node, tmp_path, monkeypatch):
    """A project of which the servers share a broker; gives its organism's file."""
    path = tmp_path / "config" / "organism.yaml"
    path.parent.mkdir()
    path.write_text(ORGANISM.format(name=tmp_path.name.replace(".", "_")[:40], url=node.url))
    monkeypatch.chdir(tmp_path)
    return path


async def said(*words):
    done = await run_sync(lambda: CliRunner().invoke(cli, words, catch_exceptions=False))
    return done.exit_code, done.stdout.strip(), done.stderr


async def test_principals_of_a_removed_bucket_are_brought_back_by_a_person(desk, tmp_path):
    """Everybody was refused, and neither the log nor a command said why."""
    _, token, _ = await said("principals", "add", "ada")
    address, name = BrokerAddress(engine_url(desk)), engine_name(desk)
    path = await run_sync(beside, tmp_path / "out" / "replicas" / "replica.db")
    known = Tokens(path)
    async with shared.following(address, name, path), known.watching():
        assert known.authenticate(token) is not None
        async with shared.principals_of(address, name) as value:
            await value._stream.delete_key_value(value.bucket)
        await until(lambda: known.authenticate(token) is None)
        (aside,) = await run_sync(
            lambda: list(path.parent.glob("*.lost-*"))
        )  # put there before the file went
        code, listed, told = await said("principals", "restore", str(aside))
        assert (code, listed.split()[0]) == (0, "ada")
        assert f"has the principals of {aside}" in told
        await until(lambda: known.authenticate(token) is not None)
    code, _, told = await said("principals", "restore", str(path))
    assert (code, told) == (0, f"the cluster {name} has the principals of {path}:\n")
    _ = await said("principals", "add", "eve")
    code, _, told = await said("principals", "restore", str(aside))
    assert (code, told) == (2, "the cluster has principals already\n")
    code, _, told = await said("principals", "restore", str(aside) + "x")
    assert (code, told) == (2, f"{aside}x: there is no such file\n")


async def test_a_damaged_value_of_principals_ends_the_start_with_the_way_out(desk, tmp_path):
    """It ended in a traceback."""
    address, name = BrokerAddress(engine_url(desk)), engine_name(desk)
    async with shared.principals_of(address, name) as value:
        await value.read()  # which makes the bucket
        await value._stream.publish(f"$KV.{value.bucket}.principals", b"")
    async with AsyncExitStack() as stack:
        with pytest.raises(BrokerError, match=r"no server has written it so .* principals restore FILE"):
            await serve._follow(stack, BrokerEngine(name, address), tmp_path / "replica.db.principals")


async def test_a_server_that_begins_where_nobody_is_known_says_so(desk, tmp_path, caplog):
    address, name = BrokerAddress(engine_url(desk)), engine_name(desk)
    path = await run_sync(beside, tmp_path / "out" / "replicas" / "replica.db")
    async with shared.following(address, name, path):
        (told,) = [each for each in caplog.messages if "nobody is known by a token" in each]
        assert told.startswith(f"AS_PRINCIPALS_{word(name)}: the broker has no principals of this cluster")


async def test_a_principal_is_added_at_the_broker_and_revoked_there_for_a_server_that_watches(desk, tmp_path):
    code, token, told = await said("principals", "add", "ada", "--role", "operator")
    assert (code, "the cluster" in told) == (0, True)
    code, listed, _ = await said("principals", "list", "--json")
    assert [json.loads(line)["name"] for line in listed.splitlines()] == ["ada"]
    path = await run_sync(beside, tmp_path / "out" / "replicas" / "replica.db")
    known = Tokens(path)
    address, name = BrokerAddress(engine_url(desk)), engine_name(desk)
    async with shared.following(address, name, path), known.watching():
        caller = known.authenticate(token)
        assert (caller.name, caller.role) == ("ada", Role.OPERATOR)
        assert (await said("principals", "revoke", "ada"))[0] == 0
        await known.revoked(caller)
        assert known.authenticate(token) is None


def engine_url(path):
    return path.read_text().split("url: ")[1].split()[0]


def engine_name(path):
    return path.read_text().split("name: ")[1].split()[0]


async def test_a_name_that_is_there_is_not_added_again_and_one_that_is_not_is_not_revoked(desk):
    await said("principals", "add", "ada")
    assert "is there already" in (await said("principals", "add", "ada"))[2]
    assert "no principal 'eve' has a token" in (await said("principals", "revoke", "eve"))[2]


async def test_a_journal_and_its_principals_become_a_cluster_s_once(desk, tmp_path):
    journal = await run_sync(written, tmp_path / "journal.sqlite")
    code, told, _ = await said("journal", "import", str(journal))
    assert (code, "begins with it" in told) == (0, True)
    assert "ada" in (await said("principals", "list"))[1]
    assert not list((tmp_path / "out").rglob("*.copy"))


def written(journal):
    shutil.copy(JOURNALS / "market-9.sqlite", journal)
    open_writing(JournalOptions(journal)).close()
    tokens.add(beside(journal), Caller(Principal("ada", Trust.STRANGER, ()), Role.USER, Rate(10, "s"), 20))
    return journal


async def test_what_has_no_engine_is_sent_to_restore(desk, tmp_path):
    desk.write_text("name: alone\nlisteners: []\n")
    code, _, told = await said("journal", "import", str(tmp_path / "journal.sqlite"))
    assert code == 2
    assert "journal restore" in told


async def test_no_broker_is_said_and_changes_nothing(desk, tmp_path):
    desk.write_text(desk.read_text().replace(engine_url(desk), "nats://127.0.0.1:9"))
    code, out, told = await said("principals", "add", "ada")
    assert (code, out) == (2, "")
    assert "127.0.0.1:9" in told
