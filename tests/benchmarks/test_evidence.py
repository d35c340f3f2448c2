"""The table of evidence: shares of both sides, and intervals over clusters."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def evidence(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    return importlib.import_module("evidence")


def test_an_interval_is_wider_when_cases_come_in_clusters(evidence):
    alone, clustered = evidence.Side(), evidence.Side()
    for number in range(40):
        alone.add(f"task {number}", number % 2, 1)
        clustered.add(f"task {number % 4}", number % 2, 1)
    (low, high), (least, most) = alone.find_interval(), clustered.find_interval()
    assert least < low < 50 < high < most
    assert alone.describe() == f"20/40 = 50.0 % ({low:.0f}-{high:.0f})"
    assert evidence.Side().describe() == "-"


def test_agentdojo_results_are_read_by_form_and_policy(evidence, tmp_path):
    counts = {"tasks": 1, "utility": 1, "pairs": 9, "attacks": 2}
    found = {
        "plain": {"plain policy": {"counts": counts, "told": []}, "none": {"counts": counts, "told": []}}
    }
    (tmp_path / "slack").mkdir()
    (tmp_path / "slack" / "plain.json").write_text(
        json.dumps({"code": "1", "tasks": {"user_task_0": found}}), "utf-8"
    )
    ((name, row),) = evidence.read_agentdojo(tmp_path)
    assert name == "AgentDojo, plain"
    assert row["plain"][0].clusters == {"slack user_task_0": (1, 1)}
    assert row["plain"][1].clusters == {"slack user_task_0": (7, 9)}
    assert "| AgentDojo, plain | - | - | 1/1 = 100.0 % (100-100) |" in evidence.format_table([(name, row)])
