"""Principals in a database that servers share: the same as in a file, seen by all servers, and nobody while it is away."""

from __future__ import annotations

import threading

import anyio
import pytest
from anyio.to_thread import run_sync

from agentserver.engines.postgres.principals import PrincipalTable, SessionTable
from agentserver.engines.postgres.tables import PRINCIPALS
from agentserver.gateways.principals import Rates, Tokens, tokens
from agentserver.gateways.principals.tokens import LAPSE
from agentserver.ports.principals import StoreAwayError, StoredSession
from tests.gateways.principals.people import ManualClock, caller
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


@pytest.fixture
def table():
    """Makes a store at an address, which is closed after the test."""
    made = []

    def last_made(url):
        made.append(PrincipalTable(url, "desk"))
        return made[-1]

    yield last_made
    for each in made:
        each.close()


@pytest.fixture
def store(postgres, table):
    name = postgres.database()
    postgres.execute("create schema desk", name)
    for statement in filter(str.strip, PRINCIPALS.replace("@", "desk.").split(";")):
        postgres.execute(statement, name)
    return lambda: table(postgres.url(name))


def test_a_principal_is_added_listed_rotated_and_revoked(store):
    here, there = store(), store()
    assert tokens.list_entries(here) == ()
    tokens.add(here, caller())
    with pytest.raises(ValueError, match="is there already"):
        tokens.add(there, caller())
    former = tokens.list_entries(there)[0]
    tokens.rotate(there, "ada", 3600.0)
    (entry,) = tokens.list_entries(here)
    assert entry.former.digest == former.digest
    tokens.revoke(here, "ada")
    with pytest.raises(LookupError):
        tokens.revoke(there, "ada")


def test_those_who_add_at_the_same_time_do_not_lose_each_other(store):
    adding = [threading.Thread(target=tokens.add, args=(store(), caller(f"p{n}"))) for n in range(8)]
    for each in adding:
        each.start()
    for each in adding:
        each.join()
    assert len(tokens.list_entries(store())) == 8


async def wait_until(true):
    """Wait for something that nothing tells of."""
    while not true():  # noqa: ASYNC110 - the servers look by themselves
        await anyio.sleep(0.01)


async def test_a_change_is_known_at_every_server(store):
    servers = [Tokens(store()) for _ in range(2)]
    async with servers[0].watch(), servers[1].watch():
        token = await run_sync(tokens.add, store(), caller())
        with anyio.fail_after(HANGS):
            await wait_until(lambda: all(each.authenticate(token) for each in servers))
            who = servers[1].authenticate(token)
            await run_sync(tokens.revoke, store(), "ada")
            await servers[1].wait_revoked(who)
            await wait_until(lambda: not any(each.authenticate(token) for each in servers))


async def test_a_store_that_is_not_there_yet_names_the_command(database, table):
    known = Tokens(table(database))
    await known.refresh()
    assert known.fault.endswith("has no tables: create them with agentserver engine migrate")
    assert not known.away


async def test_no_principal_is_accepted_after_a_long_outage_of_the_database(store, postgres):
    clock = ManualClock()
    token = await run_sync(tokens.add, store(), caller())
    known = Tokens(store(), steady=clock)
    async with known.watch(3600):
        assert known.authenticate(token).name == "ada"
        await run_sync(postgres.stop, "immediate")
        try:
            clock.now += LAPSE / 2
            await known.refresh()
            assert known.authenticate(token).name == "ada", "a restart of the database ends no stream"
            clock.now += LAPSE / 2
            await known.refresh()
            assert (known.authenticate(token), known.away) == (None, True)
        finally:
            await run_sync(postgres.start)
        await known.refresh()
        assert (known.authenticate(token).name, known.away, known.fault) == ("ada", False, "")


def test_an_unreachable_database_is_reported_without_its_password(table):
    nowhere = table("postgresql://desk:hidden-word@127.0.0.1:1/desk")
    with pytest.raises(StoreAwayError, match="does not answer") as raised:
        nowhere.read()
    assert "hidden-word" not in f"{raised.value}{nowhere!r}{nowhere}"


def test_a_text_that_is_no_list_of_principals_is_refused(store):
    here = store()
    here.change(lambda _: b"{}")
    with pytest.raises(ValueError, match="the database"):
        tokens.list_entries(here)


async def test_rates_are_added_up_over_servers(store):
    clock, ada = ManualClock(), caller(rate="4/h")
    servers = [Rates(clock, store()) for _ in range(2)]
    assert [servers[0].take(ada).seconds for _ in range(3)] == [0.0] * 3
    await servers[0].exchange(store())
    assert servers[1].take(ada).seconds == 0.0
    await servers[1].exchange(store())
    assert servers[1].take(ada).seconds > 0.0


def test_a_session_of_a_browser_is_every_servers_and_its_sign_in_begins_no_other(store):
    def replace_options(number, **changed):
        usual = StoredSession(f"k{number}", "ada", b"data", 1000.0, f"s{number}", f"login{number}")
        return usual._replace(**changed)

    first = store()
    here, there = (SessionTable(first.url, "desk") for _ in range(2))
    try:
        assert here.add(replace_options(1), 0.0)
        assert not there.add(replace_options(2, login="login1"), 0.0)
        assert there.read("k1", 999.0) == replace_options(1)
        assert there.read("k1", 1000.0) is None
        assert here.replace(replace_options(1, data=b"new", edition=1))
        assert not there.replace(replace_options(1, data=b"other", edition=1))
        assert there.read("k1", 0.0) == replace_options(1, data=b"new", edition=1)
        there.end("sid", "s1")
        assert here.read("k1", 0.0) is None
        assert not here.replace(replace_options(1, edition=2))
        assert not here.add(replace_options(3, login="login1"), 0.0)
        assert [here.add(replace_options(4, login=""), 0.0), here.add(replace_options(5, login=""), 0.0)] == [
            True,
            True,
        ]
        there.end("name", "ada")
        assert here.read("k5", 0.0) is None
        for number in range(100, 125):
            assert here.add(replace_options(number, expires_at=2000.0 + number), 1.0)
        counted = [number for number in range(100, 125) if there.read(f"k{number}", 1.0) is not None]
        assert counted == list(range(105, 125))
        assert here.add(
            replace_options(200, expires_at=4000.0), 3000.0
        )  # everything else has expired, and makes room
        assert here.add(replace_options(1), 3000.0)
    finally:
        here.close()
        there.close()
