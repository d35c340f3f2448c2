"""Verbs that need no organism do not wait for the modules of those that do."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from agentserver.cli.plan import FORMS
from agentserver.handoff.edge.plan import Form

HEAVY = {
    "annotated_types", "anyio", "asyncio", "docstring_parser", "elementpath", "email", "importlib.metadata", "lxml",
    "numpy", "pydantic", "sqlite3", "ssl", "xmlschema", "xsdata", "yaml",
}  # fmt: skip


def imported(*args):
    """The modules that a fresh interpreter imports, which nothing measures."""
    command = [sys.executable, "-X", "importtime", *args]
    bare = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=bare)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}


@pytest.mark.parametrize("args", [("-c", "import agentserver"), ("-m", "agentserver", "--help")])
def test_neither_the_package_nor_its_help_imports_what_an_organism_needs(args):
    modules = imported(*args)
    assert "agentserver" in modules
    assert not modules & HEAVY
    assert not {name for name in modules if name.startswith(("agentserver.core", "agentserver.contract"))}


def test_the_names_of_the_package_are_found_on_first_use():
    import agentserver

    assert all(getattr(agentserver, name) for name in agentserver.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        agentserver.Nothing  # noqa: B018


def test_a_plan_is_written_in_each_form():
    assert list(FORMS) == [str(form) for form in Form]
