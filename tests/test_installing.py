"""No file tells anybody to install this project by its bare name, under which the package index has another one."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest
from packaging.requirements import Requirement

from agentserver import extras
from agentserver.config import ConfigError, load
from agentserver.extras import EXTRAS, MissingExtraError, install_hint, is_installed, require
from tests.test_packaging import PROJECT, ROOT, tracked_files

NAME = "agent" + "server"  # put together, so that this file passes its own test

TOOLS = r"pip[\d.]*|pipx|uv|poetry|pdm|rye|hatch|conda|mamba|micromamba|pixi"
VERBS = r"install|add|inject|run|exec|download|wheel|lock|--with|--from|--spec"
REST = r"[^\n|;&`]"
BARE = rf"(?<![\w./@-]){NAME}(?![\w/-]|\.\w)"

COMMANDS = {
    "a command": rf"\b(?:{TOOLS})\b{REST}*(?<!\S)(?:{VERBS})\b{REST}*?{BARE}",
    "a command without a verb": rf"\b(?:uvx|easy_install)\s+(?:-\S+\s+)*['\"]?{BARE}",
    "an extra of the bare name": rf"{BARE}\[",
    "a version of the bare name": rf"{BARE}[ \t]*(?:===?|~=|[<>!]=|@|\^)",
    "a dependency of a project": rf"^\s*{NAME}\s*=\s*['\"{{](?!{NAME}[.:])",
}
LINES = COMMANDS | {"a line of requirements": rf"^\s*(?:-\s+)?['\"]?{NAME}['\"]?,?\s*(?:;.*|#.*)?$"}

REQUIREMENTS = re.compile(r"(requirements|constraints).*|.*\.(lock|in|cfg|toml)")


def find_install(text, forbidden=COMMANDS):
    """What in a text tells somebody to install the bare name."""
    if NAME not in text.lower():
        return
    text = re.sub(r"\\\r?\n", " ", text)  # a command that goes on in the next line
    for kind, pattern in forbidden.items():
        for match in re.finditer(pattern, text, re.MULTILINE | re.IGNORECASE):
            yield f"{kind}: {match[0].strip()}"


def texts(path):
    """Read a file's text: as a whole, and in Python each literal, with adjoining ones joined."""
    text = path.read_text("utf-8", "replace")
    yield text
    for node in ast.walk(ast.parse(text)) if path.suffix == ".py" else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)


def test_no_file_installs_the_bare_name():
    wrong = {}
    for path in tracked_files():
        forbidden = LINES if REQUIREMENTS.fullmatch(path.name) else COMMANDS
        said = [finding for text in texts(path) for finding in find_install(text, forbidden)]
        if said:
            wrong[path.relative_to(ROOT).as_posix()] = said
    assert wrong == {}


@pytest.mark.parametrize(
    "said",
    [
        "pip install X", "pip install 'X[console]'", 'pip3 install "X"', "python -m pip install X", "pip install -U X",
        "pip install --upgrade --pre X==1.0", "pip install -q lxml X", "pip install \\\n    X", "pipx install X",
        "pipx run X check", "pipx run --spec X agent", "uv add X", "uv pip install X[mcp]", "uv tool install X",
        "uvx X run", "uvx --from X agent", "uv run --with X agent", "poetry add X", "poetry add X@latest", "pdm add X",
        "rye add X", "hatch run pip install X", "conda install X", "conda install -c conda-forge X", "pixi add X",
        "easy_install X", "sudo pip3.11 install X", "!pip install X", "%pip install X", "RUN pip install X && true",
        "PIP INSTALL X", "`pip install X`", "dependencies = ['X>=1']", "X[console]", "X~=1.2",
        "X @ https://example.com/x.whl", 'X = "^1.0"', 'X = {version = "1"}', "pip download X", "pip wheel X",
    ],
)  # fmt: skip
def test_every_spelling_is_found(said):
    assert list(find_install(said.replace("X", NAME)))


@pytest.mark.parametrize("said", ["X", "  X", "X  # the server", "X; python_version > '3'", "- X", "'X',"])
def test_a_line_of_requirements_is_found(said):
    assert list(find_install(said.replace("X", NAME), LINES))


@pytest.mark.parametrize(
    "said",
    [
        "pip install '.[console]'", "pip install dist/X-0.1.0-py3-none-any.whl", "pip install -e .", "X run", "X check",
        "`pip install .` in a checkout of X", "import X", "from X.testing import organism", "X.testing", "python -m X run",
        'X = "X.cli:main"', "./run X", "with X, pip is not needed", "name: X", "uv run pytest tests/X/test_a.py",
    ],
)  # fmt: skip
def test_other_text_is_no_install_command(said):
    assert list(find_install(said.replace("X", NAME))) == []


def test_the_extras_are_those_of_the_project():
    assert [*EXTRAS, "all"] == list(PROJECT["project"]["optional-dependencies"])


FRAMEWORKS = {"langchain", "langchain-core", "crewai", "google-adk", "openai-agents"}
"""Extras for programs of other frameworks; some of them exclude one another."""


def test_the_extra_all_lists_each_extra_of_the_server():
    (listed,) = map(Requirement, PROJECT["project"]["optional-dependencies"]["all"])
    assert listed.name == PROJECT["project"]["name"]
    assert listed.extras == set(EXTRAS) - FRAMEWORKS


def test_one_that_is_missing_is_named_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    assert not is_installed("handoff")
    with pytest.raises(
        MissingExtraError,
        match=r"^a schema needs the extra handoff: in a checkout, pip install '\.\[handoff\]'; ",
    ):
        require("a schema", "handoff")


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_way_to_install_an_extra_is_not_by_the_bare_name(extra):
    assert f"[{extra}]" in install_hint(extra)
    assert list(find_install(install_hint(extra))) == []


def test_a_module_in_a_package_that_is_not_there_is_missing(monkeypatch):
    monkeypatch.setattr(extras, "EXTRAS", {"odd": ("no_such_package.inside",)})
    assert not is_installed("odd")


def test_an_offending_text_is_found():
    require("code generation", "codegen")


def test_marks_and_the_templates_of_projects_need_no_numpy():
    """What payloads are marked with, and commands that judge nothing, work without the extra provenance."""
    without = "import sys; sys.modules['numpy'] = None\n"
    marked = "from agentserver.provenance import Amount, Destination, Id, Link, Secret\nimport agentserver.tools.files, agentserver.gateways.console.console\n"
    asked = "import agentserver.provenance\nagentserver.provenance.Engine\n"
    fine = subprocess.run(
        [sys.executable, "-c", without + marked], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (fine.returncode, fine.stderr) == (0, "")
    named = subprocess.run(
        [sys.executable, "-c", without + asked], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "MissingExtraError: the engine of provenance needs the extra provenance" in named.stderr


def test_an_organism_that_tracks_origins_is_refused_with_the_line_and_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    path = tmp_path / "organism.yaml"
    path.write_text("listeners: []\nprovenance: {}\n", "utf-8")
    with pytest.raises(
        ConfigError, match=r"organism.yaml:2: provenance: needs the extra provenance: in a checkout"
    ):
        load(path, environ={})


def test_no_plugin_of_pytest_is_forced_on_the_environment_of_a_server():
    assert "pytest11" not in PROJECT["project"].get("entry-points", {})


def test_the_distribution_has_a_name_that_is_no_strangers():
    assert PROJECT["project"]["name"] == f"{NAME}-xml"
