"""Several addresses of a database: the one that takes writes is found, whatever the others do."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import asyncpg
import pytest

from agentserver.engines.postgres.connection import Address, connect_for_writing, find_addresses
from tests.machine import HANGS


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("postgresql://desk@one/desk", []),
        ("postgresql://desk@one,two/desk", [Address("one", 5432), Address("two", 5432)]),
        ("postgresql://desk:p%40ss@one:1,two:2/desk", [Address("one", 1), Address("two", 2)]),
        ("postgresql://desk@[::1]:1,[::2]/desk?port=7", [Address("::1", 1), Address("::2", 7)]),
        ("postgresql:///desk?host=/tmp/a,/tmp/b&port=1,2", [Address("/tmp/a", 1), Address("/tmp/b", 2)]),
        ("postgresql://desk@one,two/desk?port=1,2,3", []),
        ("", []),
    ],
)
def test_addresses_are_found_in_a_url(url, found):
    assert find_addresses(url) == found


def test_addresses_are_found_in_the_environment(monkeypatch):
    monkeypatch.setenv("PGHOST", "one,two")
    monkeypatch.setenv("PGPORT", "6432")
    assert find_addresses("") == [Address("one", 6432), Address("two", 6432)]


def prepend_addresses(postgres, *first):
    """The URL of a database by other addresses before its own."""
    hosts = [f"127.0.0.1:{port}" for port in first]
    folder = str(postgres.folder)
    ports = ",".join([*(host.rpartition(":")[2] for host in hosts), "5432"])
    return (
        f"postgresql://postgres@/postgres?host={','.join([*['127.0.0.1'] * len(hosts), folder])}&port={ports}"
    )


async def select_one(url):
    connection = await connect_for_writing(url, HANGS)
    try:
        return await connection.fetchval("select 1")
    finally:
        await connection.close()


def test_an_address_that_closes_connections_does_not_keep_from_the_next(postgres):
    async def run():
        async def close(reader, writer):
            writer.transport.abort()

        server = await asyncio.start_server(close, "127.0.0.1", 0)
        async with server:
            return await select_one(prepend_addresses(postgres, server.sockets[0].getsockname()[1]))

    assert asyncio.run(run()) == 1


def test_an_address_that_does_not_answer_does_not_keep_from_the_next(postgres):
    with closing(socket.socket()) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert asyncio.run(select_one(prepend_addresses(postgres, silent.getsockname()[1]))) == 1


def test_where_no_address_has_a_database_the_error_is_of_one_of_them():
    with closing(socket.socket()) as one, closing(socket.socket()) as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        ports = ",".join(str(each.getsockname()[1]) for each in (one, two))
        url = f"postgresql://postgres@/postgres?host=127.0.0.1,127.0.0.1&port={ports}"
        with pytest.raises((OSError, asyncpg.PostgresError)):
            asyncio.run(connect_for_writing(url, HANGS))
