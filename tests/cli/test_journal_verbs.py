"""Verbs that inspect a journal, on an old recording that must stay readable."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from lxml import etree

from agentserver.cli import cli
from agentserver.engines.sqlite.lock import Lock

FIXTURES = Path(__file__).parents[1] / "fixtures" / "journals"


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """The recorded organism with its journal in its place."""
    home = tmp_path / "shop"
    shutil.copytree(FIXTURES / "shop", home, ignore=shutil.ignore_patterns("__pycache__", "out"))
    (home / "out").mkdir()
    shutil.copy(FIXTURES / "shop.sqlite", home / "out" / "journal.sqlite")
    monkeypatch.chdir(home)
    return home


def verb(*args, status=0):
    sys.modules.pop("shop_handlers", None)
    done = CliRunner().invoke(cli, [*map(str, args)])
    assert done.exit_code == status, done.output + done.stderr
    return done.output


def run():
    """The console, which needs a process of its own, with nothing typed."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        [sys.executable, "-m", "agentserver", "run"],
        check=False,
        input="/quit\n",
        capture_output=True,
        text=True,
        env=environment,
    )


def the_conversation():
    return json.loads(verb("conversations", "--json"))


def letter():
    return verb("dead").split()[0]


def test_the_recorded_journal_is_decided_again_as_it_was(shop):
    assert verb("replay").endswith("1 conversation, 18 steps; 0 differ\n")
    assert "0 differ" in verb("replay", the_conversation()["id"][:8])


def test_a_decision_that_differs_is_reported(shop):
    organism = shop / "organism.yaml"
    organism.write_text(organism.read_text().replace("peers: [till, ghost]", "peers: [ghost]"))
    output = verb("replay", status=1)
    assert "now refused clerk -> till routing" in output
    assert "1 differ" in output


def test_a_payload_that_no_longer_validates_is_reported(shop):
    handlers = shop / "shop_handlers.py"
    text = handlers.read_text().replace(
        'class Total:\n    """What the till answers."""\n\n    amount: int',
        'class Total:\n    """What the till answers."""\n\n    amount: int\n    currency: str',
    )
    handlers.write_text(text)
    assert "1 differ" in verb("replay", status=1)


def test_a_journal_that_was_changed_by_hand_is_reported(shop):
    with closing(sqlite3.connect("out/journal.sqlite", isolation_level=None)) as connection:
        connection.execute("update step set at = at + 1 where version = 4")
    assert "step 4 was altered" in verb("replay", status=1)


def test_conversations_are_listed_and_filtered(shop):
    one = the_conversation()
    assert (one["principal"], one["steps"], one["waiting"]) == ("console", 18, 0)
    assert one["id"] in verb("conversations")
    assert verb("conversations", "--open") == "there are no such conversations\n"
    assert verb("conversations", "--principal", "nobody") == "there are no such conversations\n"
    assert one["id"] in verb("conversations", "--where", "principal=console state=finished steps>=18")
    assert verb("conversations", "--where", "steps>18") == "there are no such conversations\n"
    assert verb("conversations", "--after", "1.0-1") == "there are no such conversations\n"
    assert "--after: the cursor is not one that a list returned" in verb(
        "conversations", "--after", "x", status=2
    )
    assert "--where: colour: no such field" in verb("conversations", "--where", "colour=red", status=2)


def test_a_trace_as_text_json_and_a_page(shop):
    key = the_conversation()["id"]
    assert "failed clerk -> ghost" in verb("trace", key[:6])
    rows = [json.loads(row) for row in verb("trace", key, "--json").splitlines()]
    assert {row["conversation"] for row in rows} == {key}
    assert any("ünicode &amp; more" in row["message"] for row in rows)
    assert not any(
        json.loads(row)["message"] for row in verb("trace", key, "--json", "--no-payloads").splitlines()
    )
    verb("trace", key, "--html", "-o", "page.html")
    page = etree.fromstring(Path("page.html").read_bytes(), etree.HTMLParser())
    assert {element.tag for element in page.iter()} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "div", "details", "summary"
    }  # fmt: skip
    assert "ünicode &amp; more" in "".join(page.itertext())


def test_a_prefix_must_mean_one(shop):
    verb("trace", "zzz", status=2)


def test_dead_letters_are_listed_shown_and_discarded(shop):
    assert "clerk -> ghost Boo\tinternal: RuntimeError: boo" in verb("dead")
    shown = verb("dead", "show", letter()[:8])
    assert "open: no" in shown
    assert "text: !" in shown
    key = letter()
    verb("dead", "discard", key)
    assert verb("dead") == "there are no dead letters\n"
    verb("dead", "discard", key, status=2)


def test_a_dead_letter_of_a_finished_conversation_becomes_a_request_of_its_own(shop):
    key = letter()
    assert f"{key} is a new request of " in verb("dead", "requeue", key)
    assert "; 0 differ" in verb("replay")


def test_verbs_that_change_the_journal_are_refused_while_a_server_has_it(shop):
    key = letter()
    with Lock(shop / "out" / "journal.sqlite"):
        verb("dead", "discard", key, status=2)
        verb("journal", "vacuum", status=2)
        refused = run()
        assert refused.returncode == 2
        assert f"in use by process {os.getpid()}" in refused.stderr
        assert "1 conversation" in verb("replay")


def test_the_journal_is_counted_shrunk_and_copied(shop):
    assert "steps: 18\nqueued: 0\ndead: 1\nunread: 0\n" in verb("journal", "stats")
    assert "bytes before" in verb("journal", "vacuum")
    verb("journal", "export", "copy.sqlite", the_conversation()["id"][:6])
    assert "0 differ" in verb("replay", "--journal", "copy.sqlite")
    verb("journal", "export", "copy.sqlite", status=2)


def test_an_organism_may_keep_no_journal(shop):
    organism = shop / "organism.yaml"
    organism.write_text(organism.read_text() + "journal: none\n")
    verb("journal", "stats", status=2)
    verb("conversations", "--journal", "out/journal.sqlite")
    verb("conversations", "--journal", "elsewhere.sqlite", status=2)
    verb("journal", "vacuum", "--journal", "elsewhere.sqlite", status=2)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("journal:\n  pth: x\n", 'unknown key "pth"'),
        ("journal:\n  sync: never\n", "journal.sync"),
        ("journal:\n  retention: soon\n", "journal.retention"),
        ("journal:\n  limit: plenty\n", 'a size is a number of bytes, or text such as "500MB" or "10GB"'),
        ("journal:\n  limit: 1kB\n", "journal.limit"),
        ("journal: maybe\n", "a mapping of keys was expected"),
    ],
)
def test_mistakes_in_its_configuration_are_named(shop, text, problem):
    organism = shop / "organism.yaml"
    organism.write_text(organism.read_text() + text)
    assert problem in verb("check", status=1)


def test_a_run_resumes_after_a_kill_and_shows_unread_messages(shop):
    with closing(sqlite3.connect("out/journal.sqlite", isolation_level=None)) as connection:
        connection.execute("update event set waiting = 1 where number = (select min(number) from event)")
    first = run().stdout
    assert "perhaps again" in first
    assert "text: 6 for tea" in first
    assert "perhaps again" not in run().stdout


def test_no_verb_speaks_sql():
    """These verbs get an EngineReader of any engine."""
    verbs = list((Path(__file__).parents[2] / "agentserver" / "cli").rglob("*.py"))
    assert len(verbs) > 20
    assert [
        path.name for path in verbs if re.search(r"\.(execute|executescript|cursor)\(", path.read_text())
    ] == []
