from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, environment


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "desk"
    subprocess.run(
        [sys.executable, "-m", "agentserver", "init", str(folder)],
        check=True,
        env=environment(),
        cwd=folder.parent,
    )
    return folder


def test_the_project_is_whole(made):
    found = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    assert found == {
        ".gitignore", "README.md", "config/organism.yaml", "config/organism.schema.json", "listeners/__init__.py",
        "listeners/greeter.py", "listeners/shouter.py", "tests/__init__.py", "tests/conftest.py", "tests/test_organism.py",
    }  # fmt: skip


def test_its_first_line_tells_editors_where_the_schema_is(made):
    first = (made / "config" / "organism.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=organism.schema.json"


def test_it_runs_at_once(made, shell):
    checked = shell("check", "--strict", cwd=made)
    assert checked.returncode == 0, checked.stdout
    assert (
        checked.stdout == "provenance: none declared, so nobody asks where a value comes from\n"
        "config/organism.yaml: 2 listeners (0 agents), 1 peer, 2 payloads, 0 ambiguous roots, 0 warnings\n"
    )
    ran = shell("run", cwd=made, given="@greeter Ada\nBob\n/quit\n")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "  | text: GOOD DAY, ADA!\n  | count: 1" in ran.stdout
    assert "  | text: GOOD DAY, BOB!\n  | count: 2" in ran.stdout


def test_its_own_tests_pass(made):
    options = ["-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=made,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "2 passed" in ran.stdout


def test_its_code_keeps_the_house_rules(made):
    rules = ["--config", str(ROOT / "pyproject.toml"), "--extend-ignore", "TC,I001"]
    for verb in (["check", *rules], ["format", "--check", *rules[:2]]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *verb, "--no-cache", str(made)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout


def test_a_directory_that_is_not_empty_is_left_alone(command, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    refused = command("init", str(tmp_path))
    assert refused.exit_code == 2
    assert "not empty" in refused.output
    assert list(tmp_path.iterdir()) == [tmp_path / "README.md"]
    assert command("init", str(tmp_path), "--force").exit_code == 0
    assert (tmp_path / "README.md").read_text() != "mine"


def test_a_file_in_the_way_is_said(command, tmp_path):
    (tmp_path / "config").touch()
    result = command("init", str(tmp_path), "--force")
    assert result.exit_code == 1
    assert f"Error: {Path(tmp_path, 'config')}" in result.output
