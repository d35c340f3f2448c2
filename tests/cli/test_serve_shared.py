"""``agentserver serve`` on a database: servers continue each other's work, and report an unreachable database."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import httpx
import pytest

from agentserver.assembly import open_shared_principals
from agentserver.config.keys.models import Postgres
from agentserver.core.state.principals import Principal, Trust
from agentserver.gateways.principals import Caller, Rate, Role, tokens
from tests.cli.journals import verb
from tests.cli.served import ServedProcess, write
from tests.machine import HANGS
from tests.postgres import run_server

ENGINE = "engine: {{postgres: {{url: '${{DATABASE_URL}}', lease: 1s{0}}}}}"


@pytest.fixture
def home(tmp_path, database, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_organism(tmp_path, database, monkeypatch)


def write_organism(home, database, monkeypatch, more=""):
    """The files of an organism on a database."""
    write(home, f"http: {{bind: '127.0.0.1:0'}}\n{ENGINE.format(more)}")
    monkeypatch.setenv("DATABASE_URL", database)
    return home


@pytest.fixture
def token(home, database):
    verb("engine", "migrate")
    caller = Caller(Principal("ada", Trust.ORDERS, None), Role.OPERATOR, Rate(1000, "s"), 20)
    store = open_shared_principals(Postgres(url=database))
    yield tokens.add(store, caller)
    store.close()


def greet_clerk(served, path, name="Ada"):
    answer = served.client.post(f"{path}/messages?to=greeter", json={"name": name})
    assert answer.status_code == 200, answer.text
    return answer.json()["value"]["text"]


def wait_until(true):
    """Wait for something that happens by itself."""
    end = time.monotonic() + HANGS
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def run_to_end(home, *words):
    """The status and the errors of a command that ends by itself."""
    done = subprocess.run(
        [sys.executable, "-m", "agentserver", *words], cwd=home, capture_output=True, text=True, timeout=HANGS, check=False
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_conversation_continues_at_another_server_and_outlives_the_first(home, token):
    with ServedProcess(home, token) as one, ServedProcess(home, token) as two:
        path = one.open()
        assert greet_clerk(one, path) == "Hello, Ada"
        assert greet_clerk(two, path, "Eve") == "Hello, Eve"
        one.process.kill()
        one.process.wait(HANGS)
        wait_until(
            lambda: two.client.post(f"{path}/messages?to=greeter", json={"name": "Bob"}).status_code == 200
        )


def test_with_one_of_two_servers_dead_another_starts(home, token):
    with ServedProcess(home, token) as one:
        path = one.open()
        greet_clerk(one, path)
        one.process.kill()
        one.process.wait(HANGS)
    with ServedProcess(home, token) as two:
        wait_until(
            lambda: two.client.post(f"{path}/messages?to=greeter", json={"name": "Eve"}).status_code == 200
        )


def test_a_request_that_is_repeated_at_another_server_is_one_request(home, token):
    key = {"idempotency-key": "k-1"}
    with ServedProcess(home, token) as one, ServedProcess(home, token) as two:
        path = one.open()
        first = one.client.post(f"{path}/messages?to=greeter", json={"name": "Ada"}, headers=key).json()
        again = two.client.post(f"{path}/messages?to=greeter", json={"name": "Ada"}, headers=key).json()
    assert (again["request"], again["value"], again["place"]) == (
        first["request"],
        first["value"],
        first["place"],
    )


def test_a_revoked_token_soon_counts_at_no_server(home, token):
    with ServedProcess(home, token) as one, ServedProcess(home, token) as two:
        verb("principals", "revoke", "ada")
        for served in (one, two):
            wait_until(lambda served=served: served.client.post("/v1/conversations").status_code == 401)


def test_servers_are_listed_with_their_conversations(home, token):
    with ServedProcess(home, token) as one:
        greet_clerk(one, one.open())
        told = verb("engine", "status")
        assert "its lease ends in" in told
        assert ", 1 conversation" in told


def list_servers():
    """The servers of the overview, by their state."""
    return {one["state"]: one for one in json.loads(verb("overview", "--json"))["servers"]}


def test_the_overview_lists_live_and_ended_servers(home, token):
    with ServedProcess(home, token) as one:
        greet_clerk(one, one.open())
        wait_until(lambda: list_servers()["alive"]["conversations"] == 1)
        assert "servers: 1\n  alive " in verb("overview")
        one.process.kill()
        one.process.wait(HANGS)
        wait_until(lambda: list(list_servers()) == ["ended"])
        assert list_servers()["ended"]["seen"] <= time.time()


def test_a_database_that_is_away_at_the_start_is_a_refusal_with_its_reason(tmp_path, monkeypatch):
    write_organism(tmp_path, "postgresql://desk:hidden-word@127.0.0.1:1/desk", monkeypatch)
    for verb_ in ("serve", "run"):
        status, told = run_to_end(tmp_path, verb_)
        assert status == 2, told
        assert "the database" in told
        assert "Traceback" not in told
        assert "hidden-word" not in told


def test_a_database_without_tables_is_a_refusal_where_nobody_may_make_them(home, database, monkeypatch):
    write_organism(home, database, monkeypatch, ", migrate: never")
    status, told = run_to_end(home, "run")
    assert (status, "create them with agentserver engine migrate" in told) == (2, True), told


def test_a_database_that_forgets_acknowledged_commits_is_refused(home, postgres, database, monkeypatch):
    name = database.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"alter database {name} set synchronous_commit = off")
    status, told = run_to_end(home, "run")
    assert (status, "synchronous_commit is off" in told) == (2, True), told


def test_a_start_waits_for_the_database_and_a_server_says_when_it_is_away(tmp_path, monkeypatch):
    with run_server() as server:
        write_organism(tmp_path, server.url(), monkeypatch, ", wait: 60s")
        monkeypatch.chdir(tmp_path)
        verb("engine", "migrate")
        server.stop()
        starting = subprocess.Popen(
            [sys.executable, "-m", "agentserver", "serve"], cwd=tmp_path, stdin=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=os.environ,
        )  # fmt: skip
        try:
            server.start()
            told = starting.stderr.readline()
            while not told.startswith("http://"):
                assert told, "it ended"
                told = starting.stderr.readline()
            with httpx.Client(base_url=told.strip(), timeout=HANGS) as client:
                assert client.get("/readyz").status_code == 200
                server.stop("immediate")
                wait_until(lambda: client.get("/readyz").status_code == 503)
                server.start()
                wait_until(lambda: client.get("/readyz").status_code == 200)
        finally:
            starting.kill()
            starting.wait(HANGS)
            starting.stdin.close()
            starting.stderr.close()
