"""The verbs on a database that servers share print the same as on a journal file, and copy both ways."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from pathlib import Path

import anyio
import pytest

from agentserver.assembly import build
from agentserver.config import forget, load
from tests.cli.journals import verb as other_verb
from tests.cli.test_dead import HANDLERS, JOB, ORGANISM
from tests.machine import HANGS

KEEP = """

async def keep(payload: Result, metadata):
    return HandlerResponse.respond(payload)
"""
VAULT = """  - {name: vault, description: Is kept., payload_class: works_handlers.Result, handler: works_handlers.keep,
     approval: required}
"""
RESULT = JOB.replace(b"Job", b"Result")
FILE = Path("out/journal.sqlite")
HERE = ("--journal", FILE)


def verb(*args, status=0):
    sys.modules.pop("works_handlers", None)
    try:
        return other_verb(*args, status=status)
    finally:
        sys.modules.pop("works_handlers", None)


@pytest.fixture
def lone_journal(tmp_path, monkeypatch):
    """Build a project with a journal that has a dead letter, a pending approval and a finished conversation."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKS_KEY", "s3cret-key")
    monkeypatch.setenv("WORKS_FAIL", "crash")
    (tmp_path / "works_handlers.py").write_text(HANDLERS + KEEP)
    main = tmp_path / "organism.yaml"
    main.write_text(ORGANISM.replace("limits:", f"{VAULT}limits:"))
    organism = load(main, environ=os.environ)

    async def play():
        async with build(organism, durable=True) as server:
            with anyio.fail_after(HANGS):
                for _ in range(2):
                    await (await server.open("ada")).ask(JOB)
                over = await server.open("eve")
                await over.ask(JOB)
                await over.close()
                await (await server.open("ada")).send(RESULT)

    anyio.run(play)
    forget(organism)
    sys.modules.pop("works_handlers", None)
    return tmp_path


@pytest.fixture
def home(lone_journal, database, monkeypatch):
    """The same with a database in place of the journal, in which there are no tables yet."""
    monkeypatch.setenv("DATABASE_URL", database)
    main = lone_journal / "organism.yaml"
    main.write_text(
        f"{main.read_text()}\nengine: {{postgres: {{url: '${{DATABASE_URL}}', schema: works}}}}\n"
    )
    return lone_journal


@pytest.fixture
def moved_journal(home):
    """The journal's content in the database."""
    verb("engine", "migrate")
    assert "schema works): 4 conversations from out/journal.sqlite" in verb("journal", "import", FILE)
    return home


def test_tables_are_made_once(home):
    assert "has no tables: create them with agentserver engine migrate" in verb("conversations", status=2)
    assert verb("engine", "migrate") == "schema works: tables created or upgraded\n"
    assert verb("engine", "migrate") == "schema works: tables are up to date\n"


def test_the_first_principal_makes_the_tables_unless_migrate_is_never(home):
    main = home / "organism.yaml"
    text = main.read_text()
    main.write_text(text.replace("schema: works", "schema: works, migrate: never"))
    assert "has no tables: create them with agentserver engine migrate" in verb(
        "principals", "add", "ada", status=2
    )
    main.write_text(text)
    assert "ada is in the database (schema works)" in verb("principals", "add", "ada")
    assert verb("engine", "migrate") == "schema works: tables are up to date\n"


@pytest.mark.parametrize(
    "words",
    [
        ("conversations",), ("conversations", "--json"), ("approvals",), ("approvals", "--json"),
        ("dead",), ("dead", "next"), ("journal", "suspended", "list"), ("replay",),
    ],
)  # fmt: skip
def test_a_list_is_that_of_the_file(moved_journal, words):
    assert verb(*words) == verb(*words, *HERE)


def test_each_conversation_is_shown_as_that_of_the_file(moved_journal):
    keys = [json.loads(line)["id"] for line in verb("conversations", "--json").splitlines()]
    assert len(keys) == 4
    for key in keys:
        for words in (("trace", key), ("trace", key, "--json"), ("explain", key)):
            assert verb(*words) == verb(*words, *HERE)


def test_it_is_counted_and_verified(moved_journal):
    assert "open: 3\nclosed: 1\n" in verb("journal", "stats")
    assert "the database (schema works): nothing was altered" in verb("journal", "verify")


def test_a_damaged_step_is_found(moved_journal, postgres, database):
    name = database.partition("?")[0].rpartition("/")[2]
    postgres.execute(
        "update works.step set cause = 'other' where number = (select min(number) from works.step)", name
    )
    assert "breaks the chain" in verb("journal", "verify", status=1)


def test_a_person_answers_once(moved_journal):
    (line,) = verb("approvals", "--json").splitlines()
    waiting = json.loads(line)
    assert "once" in verb("approve", waiting["digest"])
    assert json.loads(verb("approvals", "--json"))["answer"]["said"] == "once"
    assert "answered" in verb("approve", waiting["digest"], status=2)
    verb("deny", waiting["id"])
    assert json.loads(verb("approvals", "--json"))["answer"]["said"] == "deny"


def test_an_answer_has_the_time_of_the_database(moved_journal, monkeypatch, postgres, database):
    (waiting,) = map(json.loads, verb("approvals", "--json").splitlines())
    monkeypatch.setattr(time, "time", lambda: 1.0)  # the machine's clock is wrong by decades
    verb("approve", waiting["digest"])
    name = database.partition("?")[0].rpartition("/")[2]
    monkeypatch.undo()
    (row,) = postgres.execute("select at from works.answer", name)
    assert row["at"] > 1e9


def test_a_dead_letter_is_taken_off_the_list(moved_journal):
    first, second, third = (line.split()[0] for line in verb("dead").splitlines())
    assert verb("dead", "discard", first) == f"{first} is discarded\n"
    assert [line.split()[0] for line in verb("dead").splitlines()] == [second, third]


def test_a_dead_letter_is_queued_again_and_given_up_again(moved_journal):
    first, second, _ = (line.split()[0] for line in verb("dead").splitlines())
    assert first in verb("dead", "requeue", first)
    assert first not in verb("dead")
    (queued,) = (line.split()[0] for line in verb("dead", "next").splitlines())
    assert f"{queued} is given up" in verb("dead", "add", queued)
    assert queued in verb("dead")
    assert second in verb("dead")
    assert verb("journal", "verify") == "the database (schema works): nothing was altered\n"


def test_an_interrupted_move_resumes(moved_journal, postgres, database):
    name = database.partition("?")[0].rpartition("/")[2]
    number = postgres.execute("select max(number) as last from works.conversation", name)[0]["last"]
    for table in (
        "step",
        "delivery",
        "queue",
        "event",
        "value",
        "state",
        "receipt",
        "suspension",
        "facet",
        "wordlist",
        "completion",
    ):
        postgres.execute(f"delete from works.{table} where conversation = {number}", name)
    postgres.execute(f"delete from works.conversation where number = {number}", name)
    assert "1 conversation and 3 from before" in verb("journal", "import", FILE)
    assert verb("conversations", "--json") == verb("conversations", "--json", *HERE)


def test_the_principals_next_to_a_journal_move_with_it(home):
    verb("principals", "add", "ada", "--may", "boss", *HERE)
    verb("engine", "migrate")
    verb("journal", "import", FILE)
    assert verb("principals", "list") == verb("principals", "list", *HERE)


def test_another_journal_is_refused(moved_journal):
    connection = sqlite3.connect(FILE)
    connection.execute("update conversation set chain = zeroblob(32) where number = 1")
    connection.commit()
    connection.close()
    assert "is damaged and was not moved" in verb("journal", "import", FILE, status=2)


def test_the_way_back_is_a_journal(moved_journal):
    told = verb("journal", "export", "back.sqlite")
    assert told.startswith("back.sqlite: 4 conversations, ")
    assert "nothing was altered" in verb("journal", "verify", "--journal", "back.sqlite")
    for words in (("conversations", "--json"), ("dead",), ("approvals", "--json")):
        assert verb(*words, "--journal", "back.sqlite") == verb(*words, *HERE)
    assert "exists already" in verb("journal", "export", "back.sqlite", status=2)


def test_the_state_of_the_database_is_shown(moved_journal):
    told = verb("engine", "status")
    assert "no server has a lease" in told
    assert "conversations: 3 open; dead letters: 3" in told
    assert "warning: no standby confirms commits (synchronous_standby_names is empty)" in told
    assert json.loads(verb("engine", "status", "--json"))["work"]["open"] == 3


def test_a_loss_is_accepted_once(moved_journal, postgres, database):
    assert verb("engine", "accept-loss") == "no server has noticed a loss\n"
    name = database.partition("?")[0].rpartition("/")[2]
    postgres.execute("insert into works.loss (name, conversations) values ('one', array['c1', 'c2'])", name)
    assert "no message is accepted until agentserver engine accept-loss" in verb("engine", "status")
    assert verb("engine", "accept-loss") == "accepted the loss that one noticed in c1, c2\n"
    assert verb("engine", "accept-loss") == "no server has noticed a loss\n"


def test_an_unreachable_database_is_reported_without_its_password(home, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://desk:hidden-word@127.0.0.1:1/desk")
    for words in (("conversations",), ("engine", "status"), ("engine", "migrate"), ("principals", "list")):
        told = verb(*words, status=2)
        assert "away" in told or "does not answer" in told
        assert "hidden-word" not in told


def test_a_database_that_refuses_the_connection_says_so(home, monkeypatch, database):
    name = database.partition("?")[0].rpartition("/")[2]
    monkeypatch.setenv("DATABASE_URL", database.replace(f"/{name}", "/not_there"))
    for words in (("conversations",), ("engine", "status"), ("engine", "migrate")):
        assert "the database refuses the connection: database" in verb(*words, status=2)


def test_a_malformed_variable_of_the_database_is_a_refusal(home, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "")
    monkeypatch.setenv("PGPORT", "hidden-word")
    for words in (("conversations",), ("engine", "status"), ("principals", "list")):
        told = verb(*words, status=2)
        assert "or a PG* variable that completes it, is malformed" in told
        assert "hidden-word" not in told


def test_an_address_that_is_missing_is_named(home, monkeypatch):
    monkeypatch.delenv("DATABASE_URL")
    assert "the environment variable DATABASE_URL is not set" in verb("engine", "status", status=2)


def test_an_organism_with_a_journal_has_no_database(lone_journal):
    assert "has no engine:" in verb("engine", "status", status=2)
    assert "has no engine:" in verb("journal", "import", FILE, status=2)


def test_check_looks_at_the_database_when_it_is_asked_to(home, monkeypatch):
    assert "[config/engine]" not in verb("check")
    weak = "engine.postgres: no standby confirms commits (synchronous_standby_names is empty)"
    assert weak in verb("check", "--engine")
    verb("check", "--engine", "--strict", status=1)
    monkeypatch.setenv("DATABASE_URL", "postgresql://desk:hidden-word@127.0.0.1:1/desk")
    told = verb("check", "--engine", status=1)
    assert "engine.postgres: the database is away" in told
    assert "hidden-word" not in told
