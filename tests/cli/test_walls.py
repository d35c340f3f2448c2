"""Where a machine cannot hold what an organism wants held: `check` names it, and nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from agentserver.cli import cli
from agentserver.worker.wall import landlock

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def older_kernel(monkeypatch):
    """A kernel of an older version of Landlock."""
    return lambda version: monkeypatch.setattr(landlock, "version", lambda: version)


@pytest.mark.parametrize(
    ("organism", "version", "lacks"),
    [
        (
            "walled/organism.yaml",
            0,
            ":4: isolation: this machine lacks Landlock 3 or later: this kernel has none",
        ),
        (
            "walled/organism.yaml",
            2,
            ":4: isolation: this machine lacks Landlock 3 or later: this kernel has version 2",
        ),
        (
            "mcp/desk.yaml",
            3,
            ":34: isolation: this machine lacks Landlock 4 or later: this kernel has version 3",
        ),
    ],
)
def test_missing_requirements_are_named_and_nothing_is_started(older_kernel, organism, version, lacks):
    older_kernel(version)
    for verb, status in (("check", 1), ("run", 2)):
        done = CliRunner().invoke(cli, [verb, str(EXAMPLES / organism)], input="", catch_exceptions=False)
        assert done.exit_code == status, done.output
        assert lacks in done.output, verb


def test_a_lock_is_not_made_without_the_wall(older_kernel):
    older_kernel(3)
    done = CliRunner().invoke(cli, ["mcp", "diff", str(EXAMPLES / "mcp/desk.yaml")], catch_exceptions=False)
    assert done.exit_code == 2
    assert "web needs a wall, and this system lacks Landlock 4" in done.output
