"""Schedules on the command line: listed, run, paused and resumed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from agentserver.cli import cli
from agentserver.engines.journal.records import read_orders
from agentserver.engines.sqlite.file import JournalOptions, open_reading, open_writing

ORGANISM = """
name: office
journal: {path: journal.sqlite}
listeners:
  - {name: calculator, description: Calculates., handler: agentserver.tools.calculator.calculate}
schedules:
  - {name: beat, listener: calculator, every: 1h, fields: {expression: 1 + 1}}
"""


@pytest.fixture
def office(tmp_path, monkeypatch):
    (tmp_path / "organism.yaml").write_text(ORGANISM)
    open_writing(JournalOptions(tmp_path / "journal.sqlite")).close()
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(cli, ["schedules", *arguments])

    return run


def orders(path="journal.sqlite"):
    connection = open_reading(path)
    found = [(each.schedule, each.kind) for each in read_orders(connection)]
    connection.close()
    return found


def test_a_schedule_is_paused_resumed_and_run(office, tmp_path):
    path = tmp_path / "journal.sqlite"
    assert office("pause", "beat").stdout == "beat is paused\n"
    assert "\tby " in office().stdout
    assert "paused already" in office("pause", "beat").output
    assert office("run", "beat").exit_code == 0
    listed = json.loads(office("--json").stdout)
    assert (listed["paused"] is not None, listed["ordered"]) == (True, 1)
    assert office("resume", "beat").stdout == "beat is resumed\n"
    assert "not paused" in office("resume", "beat").output
    assert "\tby " not in office().stdout
    assert sorted(orders(path)) == [("beat", "resumed"), ("beat", "run")]


def test_an_unknown_schedule_is_refused_with_a_likely_name(office):
    found = office("run", "baet")
    assert (found.exit_code, "no schedule 'baet'" in found.output, "beat" in found.output) == (2, True, True)


def test_schedules_are_listed_without_a_journal(office, tmp_path):
    (tmp_path / "organism.yaml").write_text(ORGANISM.replace("{path: journal.sqlite}", "none"))
    assert "\tbeat\t-\tcalculator\t" in office().stdout
    assert "keeps no journal" in office("pause", "beat").output


def test_a_paused_schedule_says_so_beside_its_name_so_that_its_time_does_not_mislead(office):
    office("pause", "beat")
    _, name, paused, *_ = office().stdout.split("\t")
    assert (name, paused.startswith("by ")) == ("beat", True)
