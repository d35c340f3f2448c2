"""What a checkout and a wheel promise: one copy of each schema, exact locks, no address of an index, one version."""

from __future__ import annotations

import itertools
import re
import subprocess
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCKS = {
    "requirements.lock": (("console", "http", "provenance"), ("example",)),
    "requirements-dev.lock": (("console", "http", "provenance", "codegen"), ("example", "dev")),
}
"""The extras and dependency groups that each lock covers."""

INDEXES = [".".join(parts) for parts in (("pypi", "org"), ("pythonhosted", "org"), ("test", "pypi"), ("anaconda", "org"),
           ("artifactory", ""), ("registry", "npmjs"), ("deb", "debian", "org"), ("pkg", "dev"))]  # fmt: skip
"""Assembled here, so that this file does not name them either."""

TARGETS = [
    {
        **default_environment(),
        "python_version": python,
        "python_full_version": f"{python}.0",
        "platform_machine": machine,
    }
    for python, machine in itertools.product(("3.11", "3.12", "3.13"), ("x86_64", "aarch64"))
]


def tracked_files():
    """The files of the repository, with those that are about to join it."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def entries(lock):
    """The logical lines of a lock: one requirement with its hashes each."""
    text = (ROOT / lock).read_text("utf-8").replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def pinned_requirements(lock):
    """The requirement of each line, with its canonical name: one for each interpreter that needs another version."""
    found = [
        Requirement(" ".join(itertools.takewhile(lambda word: not word.startswith("--"), line)))
        for line in entries(lock)
    ]
    return [(canonicalize_name(requirement.name), requirement) for requirement in found]


def pins(lock):
    return dict(pinned_requirements(lock))


def roots(lock):
    extras, groups = LOCKS[lock]
    lines = list(PROJECT["project"]["dependencies"])
    for extra in extras:
        lines += PROJECT["project"]["optional-dependencies"][extra]
    for group in groups:
        lines += PROJECT["dependency-groups"][group]
    return [Requirement(line) for line in lines]


def applies(requirement, environment, extras):
    wanted = [{**environment, "extra": extra} for extra in ("", *extras)]
    return requirement.marker is None or any(requirement.marker.evaluate(each) for each in wanted)


def closure(lock, environment):
    """Everything that must be installed in an environment, read from the metadata of this environment."""
    todo, seen = roots(lock), set()
    while todo:
        requirement = todo.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen or not applies(requirement, environment, ()):
            continue
        seen.add(key)
        try:
            needs = distribution(requirement.name).requires or ()
        except PackageNotFoundError:  # needed by another interpreter only
            needs = ()
        for need in map(Requirement, needs):
            if applies(need, environment, requirement.extras):
                need.marker = None
                todo.append(need)
    return {name for name, _ in seen}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_exact_pins_with_hashes_and_nothing_else(lock):
    assert entries(lock)
    for line in entries(lock):
        assert re.fullmatch(r"[a-z0-9-]+==\S+", line[0]), line[0]
        hashes = [word for word in line if word.startswith("--")]
        assert hashes, line[0]
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", word) for word in hashes)


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize(
    "target", TARGETS, ids=lambda each: f"{each['python_version']}-{each['platform_machine']}"
)
def test_a_lock_misses_nothing_that_a_target_needs(lock, target):
    locked = {name for name, requirement in pinned_requirements(lock) if applies(requirement, target, ())}
    assert closure(lock, target) <= locked


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_agrees_with_the_projects_requirements(lock):
    versions = pins(lock)
    for requirement in roots(lock):
        (version,) = (
            specifier.version for specifier in versions[canonicalize_name(requirement.name)].specifier
        )
        assert requirement.specifier.contains(version), f"{requirement} against {version}: run ./run lock"


def test_the_locks_agree():
    run, dev = (pins(lock) for lock in LOCKS)
    assert {name: str(pin.specifier) for name, pin in run.items()} == {
        name: str(dev[name].specifier) for name in run
    }


def test_each_schema_at_the_top_is_in_the_wheel_as_well():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    names = {path.name for path in (ROOT / "schemas").iterdir() if path.is_file()}
    assert included == {f"schemas/{name}": f"agentserver/schemas/{name}" for name in names}
    assert names


def test_no_file_names_an_index():
    named = [
        (path.relative_to(ROOT).as_posix(), index)
        for path in tracked_files()
        for index in INDEXES
        if index.encode() in path.read_bytes().lower()
    ]
    assert named == []


def test_the_typed_marker_and_the_licence_are_there():
    assert (ROOT / "agentserver/py.typed").exists()
    assert "Apache License" in (ROOT / "LICENSE").read_text("utf-8")
    assert PROJECT["project"]["license"] == "Apache-2.0"


@pytest.mark.parametrize("script", PROJECT["project"]["scripts"].values())
def test_a_console_script_leads_somewhere(script):
    from pkgutil import resolve_name

    assert callable(resolve_name(script))


def test_files_that_tests_of_mutants_read_are_copied_for_them():
    """A test of the core read a page that was not in the copy, so that `./run mutate` tried no mutant."""
    settings = PROJECT["tool"]["mutmut"]
    tests = [each for each in settings["pytest_add_cli_args_test_selection"] if not each.startswith("-")]
    sources = [path.read_text("utf-8") for folder in tests for path in (ROOT / folder).rglob("*.py")]
    read = {name for source in sources for name in re.findall(r'\bROOT / "([^"]+)"', source)}
    assert read <= {*settings["also_copy"], *settings["source_paths"], "tests"}
