"""Verbs that need no organism do not wait for the modules of those that do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentserver.cli.handoffs import FORMATS
from agentserver.handoff.plans.audit import FindingsFormat
from agentserver.payload.foreign.lock import LockedTool, ServerLock, write_lock
from tests.cli.conftest import CHECKED
from tests.machine import HANGS

ROOT = Path(__file__).parents[2]
HEAVY = {
    "annotated_types", "anyio", "asyncio", "docstring_parser", "elementpath", "email", "importlib.metadata", "lxml",
    "numpy", "pydantic", "sqlite3", "ssl", "xmlschema", "xsdata", "yaml",
}  # fmt: skip


def imported_modules(*args, cwd=None, typed=""):
    """The modules that a fresh interpreter imports, which nothing measures."""
    command = [sys.executable, "-X", "importtime", *args]
    bare = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=120, env=bare, cwd=cwd, input=typed
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}


@pytest.mark.parametrize("args", [("-c", "import agentserver"), ("-m", "agentserver", "--help")])
def test_neither_the_package_nor_its_help_imports_the_needs_of_an_organism(args):
    modules = imported_modules(*args)
    assert "agentserver" in modules
    assert not modules & HEAVY
    assert not {name for name in modules if name.startswith(("agentserver.core", "agentserver.contract"))}


def test_a_check_imports_neither_pump_nor_engines(tmp_path):
    (tmp_path / "checked.py").write_text(CHECKED)
    lines = "{name: a, description: Does., payload_class: checked.Say, handler: checked.say}"
    (tmp_path / "organism.yaml").write_text(f"name: checked\nlisteners:\n  - {lines}\n")
    modules = imported_modules("-m", "agentserver", "check", str(tmp_path / "organism.yaml"))
    assert "agentserver.rulebook" in modules
    assert not modules & {"ssl", "http.client", "agentserver.handoff.edge.records"}
    verbs = {name for name in modules if name.startswith("agentserver.cli.")}
    assert verbs == {f"agentserver.cli.{name}" for name in ("process", "project", "reading")}
    assert not {
        name
        for name in modules
        if name.startswith(("agentserver.pump", "agentserver.engines", "agentserver.gateways"))
    }


def test_a_check_without_provenance_imports_nothing_of_its_engine_nor_numpy(tmp_path):
    """A table of the references that nobody is shown brought both, at 0.24 of the 0.8 s that a check may take."""
    (tmp_path / "checked.py").write_text(CHECKED)
    lines = "{name: a, description: Does., payload_class: checked.Say, handler: checked.say}"
    (tmp_path / "organism.yaml").write_text(f"name: checked\nlisteners:\n  - {lines}\n")
    modules = imported_modules("-m", "agentserver", "check", str(tmp_path / "organism.yaml"))
    assert not modules & {"agentserver.provenance", "numpy"}


def test_a_check_of_an_organism_with_mcp_tools_imports_neither_mcp_nor_jsonschema(tmp_path):
    tool = LockedTool("echo", "Says it again.", {"type": "object", "properties": {"x": {"pattern": "^a$"}}})
    (tmp_path / "schemas/mcp").mkdir(parents=True)
    (tmp_path / "schemas/mcp/far.json").write_text(write_lock(ServerLock("far 1", "2026-07-28", (tool,))))
    server = "{name: far, command: [far], tools: [{name: echo, trust: source}]}"
    text = f"name: checked\nprovenance: {{mode: audit}}\nmcp:\n  - {server}\n"
    (tmp_path / "organism.yaml").write_text(text)
    modules = imported_modules("-m", "agentserver", "check", str(tmp_path / "organism.yaml"))
    assert "agentserver.payload.foreign.mapping" in modules
    assert not modules & {"mcp", "mcp_types", "jsonschema", "httpx2"}


def test_the_example_starts_without_imports_of_a_first_judgement_or_an_odd_pattern(tmp_path):
    """Numpy comes with the first array, elementpath with a pattern that is not plain."""
    for name in ("config", "listeners", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "out"))
    modules = imported_modules("-m", "agentserver", "run", cwd=tmp_path, typed="/quit\n")
    assert {
        "agentserver.pump",
        "agentserver.provenance.arrays",
        "agentserver.engines.sqlite.engine",
    } <= modules
    assert not modules & {
        "numpy",
        "elementpath",
        "xmlschema",
        "jsonschema",
        "prompt_toolkit",
    }


def test_a_server_can_have_numpy_before_its_first_judgement():
    asked = "import sys\nfrom agentserver.provenance.arrays import import_numpy\n"
    asked += "assert 'numpy' not in sys.modules; import_numpy(); assert 'numpy' in sys.modules"
    subprocess.run([sys.executable, "-c", asked], check=True, timeout=HANGS)


def test_an_organism_without_a_journal_imports_no_database(tmp_path):
    (tmp_path / "checked.py").write_text(CHECKED)
    lines = "{name: a, description: Does., payload_class: checked.Say, handler: checked.say}"
    (tmp_path / "organism.yaml").write_text(f"name: checked\njournal: none\nlisteners:\n  - {lines}\n")
    modules = imported_modules("-m", "agentserver", "run", str(tmp_path / "organism.yaml"), typed="/quit\n")
    assert "agentserver.pump" in modules
    assert not modules & {"sqlite3", "agentserver.engines.sqlite.engine"}


def test_the_names_of_the_package_are_found_on_first_use():
    import agentserver

    assert all(getattr(agentserver, name) for name in agentserver.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        agentserver.Nothing  # noqa: B018


def test_a_plan_is_written_in_each_form():
    assert list(FORMATS) == [str(form) for form in FindingsFormat]
