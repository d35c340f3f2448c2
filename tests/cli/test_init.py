from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from agentserver.cli import cli
from agentserver.cli.init import derive_project_name, read_editor_schema
from tests.cli.conftest import ROOT, environment

COMMON = {
    ".gitignore", "README.md", "pyproject.toml", ".github/workflows/test.yml", "config/organism.yaml",
    "config/organism.schema.json", "listeners/__init__.py", "tests/__init__.py", "tests/conftest.py",
    "tests/test_organism.py",
}  # fmt: skip

OWN = {
    "tools": {"listeners/greeter.py", "listeners/shouter.py"},
    "agent": {"listeners/model.py", "listeners/shop.py", "prompts/clerk.md"},
    "secure-desk": {"listeners/desk.py"},
    "handoff": {"listeners/reviews.py"},
}

CALLS = {
    "tools": (["greeter", "--name", "Ada"], "text: GOOD DAY, ADA!\ncount: 1\n"),
    "agent": (
        ["clerk", "--text", "Is there enough tea?"],
        "text: There was too little tea; 17 packets are ordered.\n",
    ),
    "secure-desk": (
        ["clerk", "--text", "Tell kim@desk.example what mail 2 says."],
        "line[0]: denied: mallory@evil.example\nline[1]: sent to kim@desk.example\n",
    ),
    "handoff": (["reader", "--text", "Please review all badgers."], "said: not asked: denied\n"),
}

USER = """
import sys
import pytest
from agentserver.cli import main
for words in (["check", "--strict"], ["call", *sys.argv[1:]]):
    try:
        main(words)
    except SystemExit as ended:
        assert not ended.code, words
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "anyio"]))
"""
"""What a user does with a project, in one process, which is started where the project is."""


@pytest.fixture(scope="module", params=[*OWN])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "Kim's desk"
    made = CliRunner().invoke(cli, ["init", str(folder), "--template", request.param])
    assert made.exit_code == 0, made.output
    return folder


def template(folder):
    """Find the template of a project by its files."""
    return next(name for name, own in OWN.items() if all((folder / each).exists() for each in own))


def test_the_project_is_whole(made):
    found = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    assert found - {path for path in found if path.endswith(".pyc")} == COMMON | OWN[template(made)]


def test_it_has_a_name_of_its_own(made):
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    assert project["name"] == "kim-s-desk"
    assert "\nname: kim-s-desk\n" in (made / "config" / "organism.yaml").read_text()
    assert not [path for path in made.rglob("*") if path.is_file() and b"@name@" in path.read_bytes()]


def test_it_asks_no_index_for_the_server(made):
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == []
    assert project["optional-dependencies"] == {"test": ["pytest>=9.0"]}


def test_its_workflow_is_yaml_and_installs_a_wheel(made):
    workflow = yaml.safe_load((made / ".github/workflows/test.yml").read_text())
    steps = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    extra = "[provenance]" if template(made) == "secure-desk" else ""
    assert steps[0] == f'pip install "$(ls vendor/*.whl){extra}"'
    assert steps[2:] == ["agentserver check --strict", "pytest"]


def test_its_first_line_tells_editors_where_the_schema_is(made):
    first = (made / "config" / "organism.yaml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=organism.schema.json"
    assert (made / "config" / "organism.schema.json").read_text() == read_editor_schema()


def test_it_is_sound_it_answers_and_its_own_tests_pass(made):
    words, answer = CALLS[template(made)]
    ran = subprocess.run(
        [sys.executable, "-c", USER, *words],
        cwd=made, env=environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert answer in ran.stdout
    assert " passed" in ran.stdout


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


def test_nothing_that_a_run_writes_is_offered_to_be_committed(made, tmp_path):
    """Journal, dead letters and handoff record hold people's messages and are ignored by git."""
    (tmp_path / ".gitignore").write_text((made / ".gitignore").read_text())
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    written = (
        "out/journal.sqlite",
        "out/journal.sqlite-wal",
        "out/journal.sqlite.lock",
        "out/handoff-audit.jsonl",
    )
    shown = subprocess.run(
        ["git", "check-ignore", *written, "listeners/desk.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tuple(shown.stdout.split()) == written


def test_the_console_runs_at_once(shell, tmp_path):
    assert shell("init", "desk", cwd=tmp_path).returncode == 0
    ran = shell("run", cwd=tmp_path / "desk", given="@greeter Ada\nBob\n/quit\n")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "  | text: GOOD DAY, ADA!\n  | count: 1" in ran.stdout
    assert "  | text: GOOD DAY, BOB!\n  | count: 2" in ran.stdout


@pytest.mark.parametrize(
    ("text", "name"), [("desk", "desk"), ("My Desk!", "my-desk"), ("a" * 99, "a" * 64), ("--x--", "x")]
)
def test_a_name_is_made_of_any_text(text, name):
    assert derive_project_name(text) == name


def test_a_directory_of_the_servers_name_gives_a_project_another_one(command, tmp_path):
    assert command("init", str(tmp_path / "agentserver")).exit_code == 0
    assert 'name = "first-organism"' in (tmp_path / "agentserver" / "pyproject.toml").read_text()


def test_the_next_command_can_be_pasted_for_a_directory_of_any_name(command, tmp_path):
    result = command("init", str(tmp_path / "my desk!"))
    assert result.exit_code == 0
    assert f"Now:  cd '{tmp_path}/my desk!' && agentserver run" in result.output


@pytest.mark.parametrize("text", ["agentserver", "Agentserver_XML", "", "...", "\u20ac"])
def test_a_text_that_is_no_name_is_refused(command, tmp_path, text):
    refused = command("init", str(tmp_path / "desk"), "--name", text)
    assert refused.exit_code == 2
    assert "choose another with --name" in refused.output
    assert not (tmp_path / "desk").exists()


def test_a_directory_with_content_is_not_changed(command, tmp_path):
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
    assert result.exit_code == 2
    assert f"{Path(tmp_path, 'config', 'organism.yaml')}: File exists" in result.output
