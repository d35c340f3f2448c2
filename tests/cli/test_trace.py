"""``agentserver trace``: the parts of a conversation that it prints, and those that it hides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.journals import change, verb


def key():
    return json.loads(verb("conversations", "--json").splitlines()[0])["id"]


def shapes(*args):
    verb("trace", key(), *args, "--html", "-o", "page.html")
    return verb("trace", key(), *args), verb("trace", key(), *args, "--json"), Path("page.html").read_text()


def test_every_format_shows_the_text_of_messages(shop):
    assert all(
        "ünicode &amp; more" in shape or "\\u00fcnicode" in shape or "&amp;amp;" in shape
        for shape in shapes()
    )


def test_a_field_is_taken_out_of_every_shape(shop):
    for shape in shapes("--redact", "item", "--redact", "text"):
        assert "nicode" not in shape
        assert "[redacted]" in shape
        assert "boo" in shape


@pytest.mark.parametrize("words", ["trace", "replay"])
def test_an_undecodable_id_is_no_conversation(shop, words):
    assert "no conversations begin with" in verb(words, "\udcff", status=2)


def test_several_fields(shop):
    text = verb("trace", key(), "--redact", "ite?", "--redact", "count")
    assert "<item>[redacted]</item><count>[redacted]</count>" in text


def test_without_a_field_only_lengths_and_hashes_are_left(shop):
    for shape in shapes("--redact"):
        assert "nicode" not in shape
        assert "bytes, sha256 " in shape
        assert "RuntimeError" in shape


def test_no_payloads_leaves_nothing(shop):
    assert "sha256" not in verb("trace", key(), "--redact", "--no-payloads")


def secret(home, value, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", value)
    change(home / "organism.yaml", "description: Adds up.", "description: Adds up ${SHOP_KEY}.")


def test_the_secrets_of_the_organism_are_taken_out_of_every_shape(shop, monkeypatch):
    secret(shop, "ünicode & more", monkeypatch)
    for shape in shapes():
        assert "nicode" not in shape
        assert "[redacted]" in shape


def test_a_journal_named_by_its_file_has_the_secrets_of_the_organism_here(shop, monkeypatch):
    name = key()
    secret(shop, "ünicode & more", monkeypatch)
    assert "nicode" not in verb("trace", name, "--journal", "out/journal.sqlite")


def test_where_no_organism_is_known_that_is_said(shop, monkeypatch):
    name = key()
    monkeypatch.chdir(shop / "out")
    output = verb("trace", name, "--journal", "journal.sqlite")
    assert "ünicode &amp; more" in output
    assert "no organism is known here" in output


def test_an_organism_that_keeps_no_journal(shop):
    (shop / "organism.yaml").write_text((shop / "organism.yaml").read_text() + "journal: none\n")
    assert "name one with --journal" in verb("trace", "a", status=2)
    assert "conversations begin with" in verb("trace", "zz", "--journal", "out/journal.sqlite", status=2)


def test_a_flag_that_swallows_the_conversation_is_refused(shop):
    assert "Missing argument" in verb("trace", "--redact", key(), status=2)
