"""The list of frameworks, the extras, the locks and the documentation agree; missing parts are never skipped."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.provenance.adapters.scene import ROOT, framework

FOLDER = Path(__file__).parent


def load() -> Any:
    """The script behind ./run adapters, which is no package."""
    spec = importlib.util.spec_from_file_location("adapters_verb", ROOT / ".ci/adapters.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / ".ci")
        spec.loader.exec_module(module)
    return module


VERB = load()
EXTRAS = VERB.PROJECT["project"]["optional-dependencies"]
LOCKS = sorted(FOLDER.glob("*.lock"))


def test_the_documentation_shows_the_table() -> None:
    page = (ROOT / "docs/provenance/library.md").read_text("utf-8")
    assert VERB.table() in page, "put what ./run adapters --list prints into docs/provenance/library.md"


def test_every_adapter_of_a_framework_has_a_row_and_a_test() -> None:
    modules = {path.stem for path in (ROOT / "agentserver/provenance/adapters").glob("*.py")}
    rows = {each.name.replace("-", "_") for each in VERB.ADAPTERS}
    assert modules - {"__init__", "decorator"} == rows - {"langchain_core"}
    tests = {path.name for path in FOLDER.glob("test_*.py")}
    assert {each.test for each in VERB.ADAPTERS} == tests - {"test_decorator.py", "test_table.py"}


@pytest.mark.parametrize("adapter", VERB.ADAPTERS, ids=lambda each: each.name)
def test_a_row_claims_the_versions_of_its_extra(adapter: Any) -> None:
    (wanted,) = map(Requirement, EXTRAS[adapter.name])
    assert canonicalize_name(wanted.name) == adapter.name
    assert wanted.specifier.contains(adapter.oldest)
    assert wanted.specifier.contains(adapter.newest)
    assert not any(wanted.specifier.contains(version) for version in adapter.also)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_a_lock_of_a_framework_has_all_that_the_package_needs(lock: Path) -> None:
    """The short form in CI installs only this file; the locker writes the hashes."""
    pinned = dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", lock.read_text("utf-8"), re.MULTILINE))
    groups = VERB.PROJECT["dependency-groups"]["adapters"]
    for line in (*VERB.PROJECT["project"]["dependencies"], *groups, *EXTRAS[lock.stem]):
        wanted = Requirement(line)
        assert wanted.specifier.contains(pinned[canonicalize_name(wanted.name)]), f"{line}: run ./run lock"
    assert lock.read_text("utf-8").count("--hash=sha256:") >= len(pinned)


def test_ci_leaves_no_framework_out() -> None:
    short = {row.adapter.name for row in VERB.select([], short=True)}
    dev = {each.name for each in VERB.ADAPTERS if each.lock == VERB.DEV and each.newest != "unlocked"}
    assert short | dev == {each.name for each in VERB.ADAPTERS}
    assert short == {path.stem for path in LOCKS}


def test_a_name_takes_all_its_versions_and_a_version_only_that() -> None:
    assert [row.version for row in VERB.select(["mcp"], short=False)][:2] == ["1.30.0", "2.0.0"]
    assert [row.version for row in VERB.select(["crewai==1.2.3"], short=False)] == ["1.2.3"]
    with pytest.raises(KeyError):
        VERB.select(["autogen"], short=False)


@pytest.mark.parametrize(
    ("outcome", "passed"),
    [
        ("9 passed", True),
        ("8 passed, 10 skipped", True),
        ("10 skipped", False),
        ("1 failed, 8 passed", False),
        ("8 passed, 1 error", False),
        ("8 passed, 1 xfailed", False),
        ("NOT INSTALLED: no", False),
    ],
)
def test_only_tests_that_ran_and_passed_are_a_pass(outcome: str, passed: bool) -> None:
    assert VERB.Result(VERB.Row(VERB.ADAPTERS[0], "1"), outcome).passed is passed


def test_one_bad_row_fails_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    row = VERB.Row(VERB.ADAPTERS[0], "1")
    good, bad = VERB.Result(row, "9 passed"), VERB.Result(row, "10 skipped")
    assert VERB.report([good, good], 2) == 0
    assert VERB.report([good, bad], 2) == 1
    assert VERB.report([good], 2) == 1, "interrupted"
    assert "1 of 2 environments passed" in capsys.readouterr().out


MISSING = "no_such_framework"


@pytest.mark.parametrize(
    ("name", "environment", "outcome"),
    [
        ("crewai", {}, pytest.skip.Exception),
        ("crewai", {"CI": "true"}, pytest.skip.Exception),
        ("mcp", {}, pytest.skip.Exception),
        ("mcp", {"CI": "true"}, pytest.fail.Exception),
        ("mcp", {"CI": "true", VERB.CHOSEN: "crewai"}, pytest.skip.Exception),
        ("crewai", {VERB.CHOSEN: "crewai"}, pytest.fail.Exception),
    ],
)
def test_a_missing_framework_is_a_skip_only_where_another_run_has_it(
    name: str, environment: dict[str, str], outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CI", VERB.CHOSEN):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    with pytest.raises(outcome, match=name):
        framework(name, f"{MISSING}.part")


def test_a_framework_that_is_broken_is_no_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_framework.py").write_text(f"import {MISSING}\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match=MISSING):
        framework("crewai", "half_framework")
