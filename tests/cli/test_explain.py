"""``agentserver explain``: codes, texts of findings, and ids of refused messages."""

from __future__ import annotations

import json

import pytest

from tests.cli.journals import verb


def records(key):
    return [json.loads(line) for line in verb("trace", key, "--json").splitlines()]


def failed():
    """A conversation of the shop with a failure, and its failed record."""
    for line in verb("conversations", "--json").splitlines():
        key = json.loads(line)["id"]
        for record in records(key):
            if record["event"] == "failed":
                return key, record
    raise AssertionError


def test_a_code_is_explained_without_any_organism(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = verb("explain", "routing")
    assert told.startswith("code:routing  The message reached no listener")
    assert "Look at: " in told
    assert "Change:  " in told


def test_a_code_of_several_families_is_explained_for_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [line.split()[0] for line in verb("explain", "busy").splitlines() if line[0] != " "] == [
        "code:busy",
        "ground:busy",
    ]
    assert verb("explain", "code:busy").count("Look at: ") == 1


def test_a_finding_of_check_is_explained_by_its_code_and_not_by_its_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "organism.yaml").write_text('name: d\nlisteners: []\nlimits: {hops: "the merge key"}\n')
    line = next(line for line in verb("check", status=1).splitlines() if "the merge key" in line)
    assert line.endswith(" [config:value]")
    for asked in (line, "config:value", "value"):
        assert "config:value  A value does not have the type or form" in verb("explain", asked)
    assert "no code and no finding is called" in verb(
        "explain", line.removesuffix(" [config:value]"), status=2
    )


def test_all_codes_are_listed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = verb("explain", "codes").splitlines()
    assert "  rule:destination" in listed
    assert "  config:name" in listed


@pytest.mark.parametrize("what", ["no such thing", "é" * 9, "abc"])
def test_an_argument_that_is_neither_code_nor_id_is_refused(tmp_path, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    assert "no code and no finding is called" in verb("explain", what, status=2)


def test_a_conversation_is_explained_by_its_refusals(shop):
    key, record = failed()
    told = verb("explain", key[:8])
    assert told.startswith(f"conversation {key}")
    assert f"failed  {record['sender']} -> {record['to']}" in told
    assert "code:internal  The listener failed" in told


def test_a_request_and_a_delivery_are_found_in_the_journal(shop):
    key, record = failed()
    for one in filter(None, (record.get("request"), record["delivery"], record["delivery"][:12])):
        told = verb("explain", one)
        assert told.startswith(f"conversation {key}")
        assert "code:internal" in told


def test_an_id_that_is_not_kept_is_unknown(shop):
    assert "no conversation begins with 'ffffffff-0'" in verb("explain", "ffffffff-0", status=2)
