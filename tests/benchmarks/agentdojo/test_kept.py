"""Results of AgentDojo, stored by suite, variation and task; results of other code never mix in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agentdojo.kept import ResultFolder, digest


@dataclass(frozen=True)
class Form:
    """What files need of a form, without AgentDojo."""

    variation: str

    @property
    def title(self) -> str:
        return self.variation


PLAIN: Any = Form("plain")
ENGLISH: Any = Form("get is a sink")
ONE = {"counts": {"tasks": 1}, "told": ["benign slack user_task_0 LOST"]}


def test_a_task_that_was_measured_is_found_by_the_next_run(tmp_path: Path) -> None:
    ResultFolder(tmp_path, "code").keep("slack", "user_task_0", {PLAIN: {"ours": ONE}})
    again = ResultFolder(tmp_path, "code")
    assert again.of("slack", "user_task_0", PLAIN, "ours") == ONE
    assert again.of("slack", "user_task_0", PLAIN, "theirs") is None
    assert again.of("slack", "user_task_1", PLAIN, "ours") is None
    assert again.of("slack", "user_task_0", ENGLISH, "ours") is None


def test_a_second_column_and_a_second_task_are_stored_with_the_first(tmp_path: Path) -> None:
    ResultFolder(tmp_path, "code").keep("slack", "user_task_0", {PLAIN: {"ours": ONE}})
    later = ResultFolder(tmp_path, "code")
    later.keep("slack", "user_task_0", {PLAIN: {"theirs": ONE}})
    later.keep("slack", "user_task_1", {PLAIN: {"ours": ONE}, ENGLISH: {"ours": ONE}})
    found = ResultFolder(tmp_path, "code")
    assert found.of("slack", "user_task_0", PLAIN, "ours") == found.of(
        "slack", "user_task_0", PLAIN, "theirs"
    )
    assert found.of("slack", "user_task_1", ENGLISH, "ours") == ONE
    assert sorted(path.name for path in tmp_path.rglob("*.json")) == ["get-is-a-sink.json", "plain.json"]


def test_results_of_other_code_are_refused(tmp_path: Path) -> None:
    ResultFolder(tmp_path, "code").keep("slack", "user_task_0", {PLAIN: {"ours": ONE}})
    with pytest.raises(SystemExit, match="measured with other code"):
        ResultFolder(tmp_path, "other").of("slack", "user_task_0", PLAIN, "ours")


def test_the_short_form_is_other_code() -> None:
    assert digest("short form") != digest() == digest()
