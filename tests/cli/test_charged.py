"""Operators see charges in the list of conversations, open or finished, and in a trace."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from click.testing import CliRunner

from agentserver.cli import cli
from agentserver.core.decide import decisions
from agentserver.engines.conformance.whole import SampleOrganism
from agentserver.engines.sqlite.file import JournalOptions, open_writing
from agentserver.engines.sqlite.maintenance import find_findings
from agentserver.engines.sqlite.writer import Writer


@pytest.fixture(params=["open", "finished"])
def journal(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, office = tmp_path / "j.sqlite", SampleOrganism()
    outcomes = office.outcomes()
    if request.param == "finished":
        outcomes.append(decisions.close(outcomes[-1].conversation, office.rules, outcomes[-1].moment, "over"))
    with closing(open_writing(JournalOptions(path))) as connection:
        assert set(Writer(connection, path, office.rules.guards).commit(outcomes)) == {None}
    assert list(find_findings(path)) == []
    return path, outcomes[-1].conversation


def verb(path, *args):
    done = CliRunner().invoke(cli, [*args, "--journal", str(path)])
    assert done.exit_code == 0, done.output + done.stderr
    return done.output


def test_the_list_of_conversations_shows_the_charges_of_each(journal):
    path, conversation = journal
    total = conversation.spending.total
    assert total.tokens > 0
    (row,) = (json.loads(line) for line in verb(path, "conversations", "--json").splitlines())
    assert (row["tokens"], row["money"]) == (total.tokens, total.money)
    assert f"{total.tokens} tokens, ${total.money / 1e6:.6f}" in verb(path, "conversations")


def test_the_overview_sums_conversations_up_by_time_principal_and_listener(journal):
    path, conversation = journal
    found = json.loads(verb(path, "overview", "--last", "year", "--json"))
    total = conversation.spending.total
    listed = [json.loads(line) for line in verb(path, "conversations", "--json").splitlines()]
    recent = [row for row in listed if found["since"] <= row["opened"] < found["until"]]
    assert (
        found["total"]["conversations"]
        == len(recent)
        == sum(each["conversations"] for each in found["times"])
    )
    if recent:
        assert found["total"]["tokens"] == total.tokens == found["principals"][0]["tokens"]
    text = verb(path, "overview", "--last", "year")
    assert "waiting for approval: " in text
    assert "dead letters: " in text


def test_a_trace_has_each_charge(journal):
    path, conversation = journal
    told = verb(path, "trace", conversation.id)
    assert "reserved" in told
    assert "7 tokens, $1099511.627776" in told
    assert "3 tokens" in told
