"""The stages behind ./run: which commands each verb runs, in which order, and how the outcome is summed up.

Defines the stages and their thresholds. Never installs into .venv.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import zipfile
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
CODE = ("agentserver", "tests", "listeners", "examples", "benchmarks", "docs", ".ci")
IN_CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}

OVERALL_COVERAGE = 95
CORE_COVERAGE = 98
SOAK_SCALE = 100
PARALLEL = ("--numprocesses=auto", "--dist=worksteal")
OVERLAPPING = (f"--numprocesses={2 * (os.cpu_count() or 1)}", "--dist=worksteal")
"""Two workers for each core: a third of the tests' time is spent waiting for processes, sockets and the database."""
COUNTED = tuple(f"tests/{name}" for name in ("core", "guards", "pump", "reloading"))
"""Folders of tests that the core's bound needs; nothing is counted in the others."""
LEFT_TO_FULL = tuple(
    f"tests/{name}"
    for name in (
        # pages, packaging, examples, and long lives
        "benchmarks",
        "crash",
        "deploy",
        "examples",
        "hostile",
        "soak",
        "cli/test_endorsements.py",
        "test_cluster_page.py",
        "test_docs.py",
        "test_first_hour.py",
        "test_installing.py",
        "test_packaging.py",
        "test_pages.py",
        "test_site.py",
        "test_typed.py",
        "gateways/live/test_agent.py",
        "gateways/live/test_approving.py",
        "gateways/live/test_dead.py",
        "gateways/live/test_fields.py",
        "gateways/live/test_hostile.py",
        "gateways/live/test_looks.py",
        "gateways/live/test_pages.py",
        "gateways/live/test_served.py",
        "gateways/live/test_traffic.py",
        "gateways/live/test_trial.py",
        "gateways/principals/test_sign_in.py::test_a_browser_signs_in_sees_the_organism_and_leaves_by_the_provider",
        "gateways/principals/test_two_servers.py",
        "reloading/test_under_load.py",
        # processes started for each test: servers at a terminal, MCP programs
        "cli/test_approvals.py",
        "cli/test_dead.py",
        "cli/test_ending.py",
        "cli/test_init.py",
        "cli/test_mcp.py",
        "cli/test_orchestrate.py",
        "cli/test_principals_served.py",
        "cli/test_check_against.py",
        "cli/test_reloading.py",
        "cli/test_replay.py",
        "cli/test_send.py",
        "cli/test_serve.py",
        "cli/test_serve_mcp.py",
        "cli/test_serve_shared.py",
        "cli/test_serve_signals.py",
        "cli/test_shared.py",
        "cli/test_starting.py",
        "cli/test_streams.py",
        "cli/test_top.py",
        "engines/test_answered_after_a_kill.py",
        "flow/test_killed.py",
        "guards/test_on_a_server.py",
        "tools/test_memory_laundering.py",
        "engines/test_opened_after_a_kill.py",
        "llm/agent/test_crash.py",
        "llm/agent/test_mcp.py",
        "llm/test_failover.py",
        "mcp/client/test_client.py",
        "mcp/client/test_counterparts.py",
        "mcp/serving",
        "reloading/test_kept_processes.py",
        "telemetry/test_crash.py",
        "telemetry/test_mcp.py",
        "test_canary.py",
        "worker/remote",
        "worker/test_hostile.py",
        # frameworks, whose import takes longer than their tests
        "handoff/managed/test_agents.py",
        "provenance/adapters",
        "provenance/test_example_langchain.py",
        "cli/test_check_imports.py",
        # every bomb against every reader, a damaged byte in every row, every escape from the wall: 10 s each
        "foreign_json/test_readers.py",
        "llm/test_bounded.py",
        "engines/sqlite/test_damage.py",
        "worker/commands/test_commands.py",
        # a database that is killed, cut off or silent, and what waits for it
        "engines/postgres/test_lost_answers.py",
        "engines/postgres/test_marks.py",
        "engines/postgres/test_standby.py",
        "engines/postgres/test_trouble.py",
        # generated requests for every route
        "gateways/http/test_openapi.py",
        # figures of work, memory and wording, not behaviour
        "test_prose.py",
        "provenance/test_work.py",
        "test_patterns.py",
        # a whole server whose helpers are ended one by one, 18 s of CPU; test_supervision.py holds each ending
        "test_helpers.py",
        # Python calls of a hop under a profiler, 12 s of CPU: a figure, not behaviour
        "guards/lineage/test_work.py",
        "pump/test_work_of_a_hop.py",
        # figures of memory and time, a second of CPU and more each
        "core/test_determinism.py",
        "engines/sqlite/test_kept_memory.py",
        "guards/lineage/test_indexing.py",
        "pump/test_parsing.py::test_documents_with_names_of_their_own_leave_no_memory_behind",
        "wire/test_envelope.py::test_floods_fit_into_little_memory_and_time",
        "wire/test_repair.py::test_work_is_bounded",
        # processes, SDKs and frameworks, two seconds of CPU each
        "cli/test_collecting.py",
        "cli/test_journal_verbs.py::test_a_run_resumes_after_a_kill_and_shows_unread_messages",
        "llm/test_backends.py::test_a_text_comes_with_its_usage",
        "llm/test_backends.py::test_the_settings_of_a_model_reach_the_provider",
        "telemetry/test_door.py",
        "tools/test_organism.py::test_check_takes_it_and_imports_neither_httpx_nor_aiosmtplib",
        "gateways/test_bridge.py::test_a_managed_agents_requests_are_judged_by_the_organism_and_reach_its_listeners",
        "reloading/test_isolated.py",
        "test_codegen.py",
        "testing/test_standins.py",
        # the promises of every engine once more with a database, a minute of waiting
        "engines/postgres/test_conformance.py",
        # a record damaged in a hundred ways, helpers of a server that end one by one, the words of each remedy
        "handoff/edge/test_breaks.py",
        # thousands of events that wait, half a second of CPU each; test_handle.py holds the rules with few
        "pump/test_backlog.py",
        "pump/test_requested_end.py",
        "remedies/test_said.py",
    )
)
"""Tests that only `./run test --full` runs.

Browser tests take minutes, and break where the files of the live view change; the events that the server sends to it
have tests of their own. Attacks with thousands of connections have a verb, `./run hostile`; each limit that they meet
has a test beside its code. Tests that start a process or more each take a third of the CPU of all; what such a process
does has tests in this process, and `cli/test_run.py` starts some as well.
"""
LOCK_PYTHONS = ("3.11", "3.12", "3.13")
ADAPTER_LOCKS = "tests/provenance/adapters/*.lock"
AGENTDOJO_LOCK = "benchmarks/agentdojo/agentdojo.lock"
SBOM_LOCK = ".ci/sbom.lock"
LOCK_MACHINES = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28")

USAGE, INTERRUPTED, TERMINATED = 64, 130, 143


class Status(StrEnum):
    """How a stage ended."""

    OK = "ok"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


class StageError(Exception):
    """A stage found something; the message says what."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One thing to check.

    Args:
        action: raises StageError or subprocess.CalledProcessError when the check fails.
        needs: paths below the checkout without which the stage has nothing to work on.
        beside: whether the next stages need not wait for it.
    """

    name: str
    action: Callable[[], None]
    needs: tuple[str, ...] = ()
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """A stage that has run; seconds are wall time."""

    name: str
    status: Status
    seconds: float
    detail: str = ""


def call(*argv: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None, stdin: str = "") -> None:
    """Run a command with its output passed through.

    Raises:
        subprocess.CalledProcessError: its exit status was not 0.
    """
    environment = {**os.environ, **(env or {})}
    subprocess.run([str(arg) for arg in argv], cwd=cwd, env=environment, input=stdin, text=True, check=True)


def present(*names: str) -> list[str]:
    """The names below the checkout that exist, so that a young tree can be checked too."""
    return [name for name in names if any((ROOT / name).rglob("*.py"))]


def tool(module: str, *args: str | Path, env: Mapping[str, str] | None = None, stdin: str = "") -> None:
    """Run a tool of this environment by its module, which works in a checkout that has been moved, too."""
    call(PYTHON, "-m", module, *args, env=env, stdin=stdin)


def pytest(*args: str, env: Mapping[str, str] | None = None) -> None:
    """Run pytest without measuring coverage. Compiled tests are kept: compiling is half the time of collecting."""
    tool("pytest", *args, env={"PYTHONDONTWRITEBYTECODE": "", **(env or {})})


# --- static checks ---------------------------------------------------------------------------------------------------


def check_types() -> None:
    """Strict typing; the examples apart from other scripts, because their module names repeat."""
    tool("mypy", *present("agentserver", "benchmarks", "listeners", "docs", ".ci"))
    suite = (
        path.relative_to(ROOT).with_suffix("").parts for path in (ROOT / "benchmarks/outside").rglob("*.py")
    )
    tool("mypy", *(f"--module={'.'.join(parts)}" for parts in suite))
    tool("mypy", *present("examples"))


def check_imports() -> None:
    """The layers of the design; the tool has a console script only."""
    call(PYTHON, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache")


LINT = (
    Stage("format", lambda: tool("ruff", "format", "--check", "--quiet", *present(*CODE))),
    Stage("ruff", lambda: tool("ruff", "check", "--quiet", *present(*CODE))),
    Stage("mypy", check_types, beside=True),
    Stage("imports", check_imports),
    Stage("unused", lambda: tool("vulture")),
)


# --- tests -----------------------------------------------------------------------------------------------------------


def compile_sources() -> None:
    """Compile what each process that a test starts would otherwise compile for itself, if it may write nothing.

    The bytes of a source decide whether its compiled form is used: it is never that of an earlier one.
    """
    sources = present("agentserver", "listeners", "examples", "benchmarks")
    tool("compileall", "-q", "--invalidation-mode=checked-hash", *sources)


def behaviour_tests() -> None:
    """Run every test of behaviour on every core, uncounted, with a tenth of the examples of property tests."""
    env = {"HYPOTHESIS_PROFILE": os.environ.get("HYPOTHESIS_PROFILE", "quick")}
    left = (f"--{'deselect' if '::' in path else 'ignore'}={path}" for path in LEFT_TO_FULL)
    pytest(*OVERLAPPING, *left, env=env)


def core_tests() -> None:
    """The tests that the core's bound needs, with its lines and branches counted; the report is a stage of its own."""
    covered_tests("agentserver/core", *COUNTED)


def other_tests() -> None:
    """Every test that `core_tests` leaves, on every core. Nothing is counted: that would double their time."""
    pytest(*PARALLEL, *(f"--ignore={folder}" for folder in COUNTED))


def covered_tests(counted: str = "agentserver", *which: str) -> None:
    """Run tests on every core, with lines and branches of a folder counted.

    Args:
        counted: the folder below the checkout; the whole package is counted in what the tests start as well.
        which: arguments of pytest that select tests; all by default.
    """
    env = {"COVERED": counted}
    tool("coverage", "erase")
    tool("coverage", "run", "-m", "pytest", *PARALLEL, *which, env=env)


def core_bound() -> None:
    """Hold the core's threshold, on lines and branches together."""
    tool("coverage", "combine", "--quiet")
    tool("coverage", "report", "--include=agentserver/core/*", f"--fail-under={CORE_COVERAGE}")


def coverage_bounds() -> None:
    """Hold both thresholds."""
    core_bound()
    tool("coverage", "report", f"--fail-under={OVERALL_COVERAGE}")


def benchmarks(*args: str) -> None:
    """Run the benchmarks that the arguments name; see bench.py."""
    call(PYTHON, Path(__file__).with_name("bench.py"), *args)


def at_length(*args: str) -> None:
    """Run tests that have a long form at that length."""
    pytest("-m", "soak", f"--soak-scale={SOAK_SCALE}", "-o", "faulthandler_timeout=0", *args)


def soak(*args: str) -> None:
    """Run the soak tests at their full length; those that kill servers take hours and have a verb of their own."""
    at_length("--ignore=tests/crash", "--verbose", *args)


def crash(*args: str) -> None:
    """Kill real servers at full length; with --postgres, three on one database, which is attacked as well."""
    if "--postgres" in args:
        tool("tests.crash.cluster", *(arg for arg in args if arg != "--postgres"))
    else:
        at_length("tests/crash", "--capture=no", *args)


def fuzz(*args: str) -> None:
    """Run the property tests with fresh random examples, many of them."""
    endless = ("--verbose", "-o", "faulthandler_timeout=0")
    pytest("-m", "hypothesis", "--numprocesses=auto", *endless, *args, env={"HYPOTHESIS_PROFILE": "fuzz"})


def site(*args: str) -> None:
    """Build the site of the documentation into out/site; a dead link, an orphan or a page that fetches fails it.

    Its main pages are opened and photographed; see screenshots.py.
    """
    tool("mkdocs", "build", "--strict", "--quiet", env={"NO_MKDOCS_2_WARNING": "1"})
    call(PYTHON, Path(__file__).with_name("screenshots.py"), *args)


def first(*args: str) -> None:
    """Type the commands of the README and its pages in a fresh clone, each step timed; see first.py."""
    call(PYTHON, Path(__file__).with_name("first.py"), *args)


def generate(*args: str) -> None:
    """Write the files that are derived from the code; see docs/generate.py."""
    call(PYTHON, ROOT / "docs" / "generate.py", *args)


def pictures(*args: str) -> None:
    """Take the pictures of the live view again that the documents show, from recorded answers."""
    pytest("tests/gateways/live/test_looks.py", "-k", "pictured", *args, env={"AGENTSERVER_PICTURES": "1"})


def words(*args: str) -> None:
    """Measure the English and the names of each room; see words.py."""
    call(PYTHON, Path(__file__).with_name("words.py"), *args)


def walls() -> None:
    """Print the acts of hostile code behind the wall, with their outcomes on this kernel."""
    call(PYTHON, Path(__file__).with_name("hostile.py"))


def hostile(*args: str) -> None:
    """Attack real servers on loopback and print the cost; see tests/hostile/harness.py."""
    tool("tests.hostile", *args)


def adapters(*args: str) -> None:
    """Test the provenance adapters against real frameworks; see adapters.py."""
    call(PYTHON, Path(__file__).with_name("adapters.py"), *args)


def sbom(*args: str) -> None:
    """List the components of a release; see components.py."""
    call(PYTHON, Path(__file__).with_name("components.py"), *args)


def old_mcp() -> None:
    """Test the MCP client against a server of the older protocol; see old_mcp.py."""
    call(PYTHON, Path(__file__).with_name("old_mcp.py"))


def evidence(*args: str) -> None:
    """Measure the provenance engine on every suite; see evidence.py."""
    call(PYTHON, Path(__file__).with_name("evidence.py"), *args)


def agentdojo(*args: str) -> None:
    """Run AgentDojo; see agentdojo.py."""
    call(PYTHON, Path(__file__).with_name("agentdojo.py"), *args)


# --- the wheel -------------------------------------------------------------------------------------------------------


def check_contents(wheel: Path) -> None:
    """Check that the wheel has every file of the package and each schema, and no other file.

    Raises:
        StageError: with the missing or superfluous names.
    """
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "agentserver"],  # noqa: S607 - git of the machine
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    schemas = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].values()
    expected = {*tracked.stdout.splitlines(), *schemas}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        licences = [name for name in archive.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
    if packed != expected or not licences:
        message = f"missing {sorted(expected - packed)}, unexpected {sorted(packed - expected)}, licences {licences}"
        raise StageError(message)


def constraints(folder: Path) -> Path:
    """The versions of the lock without its hashes, which pip would then ask of the wheel as well."""
    pinned = re.findall(r"^[a-z0-9-]+==\S+", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)
    path = folder / "constraints.txt"
    path.write_text("\n".join(pinned), "utf-8")
    return path


def check_asked_for(agentserver: Path, home: Path) -> None:
    """Check that an organism with provenance is refused without the extra, by its name.

    Raises:
        StageError: with the actual message.
    """
    organism = home / "config/organism.yaml"
    organism.write_text(f"{organism.read_text('utf-8')}\nprovenance: {{}}\n", "utf-8")
    done = subprocess.run([agentserver, "check"], cwd=home, capture_output=True, text=True, check=False)
    if done.returncode == 0 or "needs the extra provenance" not in done.stdout + done.stderr:
        raise StageError(f"without numpy, check said: {done.stdout}{done.stderr}")


TEMPLATES = {
    "tools": ("greeter", "--name", "Ada"),
    "agent": ("clerk", "--text", "Is there enough tea?"),
    "secure-desk": ("clerk", "--text", "Tell kim@desk.example what mail 2 says."),
    "handoff": ("reader", "--text", "Please review BADGER-12."),
}
"""The templates of `init`, and what each is asked."""


def try_wheel() -> None:
    """Build the wheel, install it with its requirements only, and use it outside the checkout."""
    with tempfile.TemporaryDirectory(prefix="agentserver-wheel-") as folder:
        scratch = Path(folder).resolve()
        dist, home, work = scratch / "dist", scratch / "env", scratch / "work"
        work.mkdir()
        tool("build", "--wheel", "--no-isolation", "--outdir", dist, ROOT)
        (wheel,) = dist.glob("*.whl")
        check_contents(wheel)
        tool("venv", "--without-pip", home)
        pip = ("pip", "--disable-pip-version-check", "--python", home / "bin/python")
        install = (*pip, "install", "--quiet", "--only-binary=:all:", "--constraint", constraints(scratch))
        agentserver = home / "bin/agentserver"
        tool(*install, wheel)
        tool(*pip, "check")
        call(agentserver, "--version", cwd=work)
        call(agentserver, "init", "x", cwd=work)
        call(agentserver, "check", cwd=work / "x")
        call(agentserver, "run", cwd=work / "x", stdin="/quit\n")
        check_asked_for(agentserver, work / "x")
        tool(*install, f"{wheel}[console,provenance]")
        call(agentserver, "check", cwd=work / "x")
        call(agentserver, "run", cwd=work / "x", stdin="/quit\n")
        for template, words in TEMPLATES.items():
            project = work / template
            call(agentserver, "init", project, "--template", template, cwd=work)
            tool(*install, f"{project}[test]")
            call(agentserver, "check", "--strict", cwd=project)
            call(agentserver, "call", *words, cwd=project)
            call(home / "bin/pytest", "-q", cwd=project)


# --- mutation --------------------------------------------------------------------------------------------------------


def mutate(*globs: str) -> None:
    """Print the mutation score; see mutation.py for the sample."""
    call(PYTHON, Path(__file__).with_name("mutation.py"), *globs)


# --- locking ---------------------------------------------------------------------------------------------------------


def lock(*args: str) -> None:
    """Write the lock files from pyproject.toml; pins stay unless an argument such as --upgrade moves them.

    uv resolves for all interpreters at once and keeps environment markers, which pip's own resolver cannot do. It lives
    in .venv only after this verb, since running and testing do not need it. Then every pin must have a file for each
    target.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    locker = Path(sys.prefix) / "locker"
    tool("pip", "install", "--quiet", "--upgrade", "--target", locker, *project["dependency-groups"]["lock"])
    uv = locker / "bin/uv"
    flags = (
        "--quiet",
        "--universal",
        "--python-version",
        LOCK_PYTHONS[0],
        "--generate-hashes",
        "--strip-extras",
    )
    silent = ("--no-emit-index-url", "--no-emit-find-links")
    run = ("--extra=console", "--extra=http", "--extra=provenance", "--group=example")
    dev = (*run, "--extra=codegen", "--group=dev", "--constraint=requirements.lock")
    apart: list[tuple[str, tuple[str, ...]]] = [
        (path.relative_to(ROOT).as_posix(), (f"--extra={path.stem}", "--group=adapters"))
        for path in sorted(ROOT.glob(ADAPTER_LOCKS))
    ]
    apart += [(AGENTDOJO_LOCK, ("--group=agentdojo",)), (SBOM_LOCK, ("--group=sbom",))]
    for output, wanted in (("requirements.lock", run), ("requirements-dev.lock", dev), *apart):
        compiled = ("pip", "compile", *flags, *silent, *wanted, *args, "-o", output, "pyproject.toml")
        call(uv, *compiled, env={"UV_CUSTOM_COMPILE_COMMAND": "./run lock"})
        check_lock(uv, output)


def check_lock(uv: Path, output: str) -> None:
    """Each pin has a file for each interpreter and machine that is promised; nothing is installed."""
    trial = ("pip", "install", "--quiet", "--dry-run", "--target", Path(sys.prefix) / "locker/trial")
    strict = ("--require-hashes", "--only-binary=:all:", "--no-binary=forbiddenfruit", "-r", output)
    for python in LOCK_PYTHONS:
        for machine in LOCK_MACHINES:
            call(uv, *trial, "--python-version", python, "--python-platform", machine, *strict)
            print(f"    {output} installs on {python} {machine}", flush=True)


# --- verbs -----------------------------------------------------------------------------------------------------------

BEHAVIOUR = (Stage("compile", compile_sources), Stage("tests", behaviour_tests, needs=("tests",)))
EVERYTHING = (
    Stage("compile", compile_sources),
    Stage("figures", lambda: call(PYTHON, Path(__file__).with_name("figures.py"))),
    Stage("core", core_tests, needs=("tests",)),
    Stage("tests", other_tests, needs=("tests",)),
    Stage("bench", lambda: benchmarks("--quick"), needs=("benchmarks/hop.py",), beside=True),
    Stage("adapters", lambda: adapters("--short"), beside=True),
    Stage("old mcp", old_mcp, beside=True),
    Stage("agentdojo", lambda: agentdojo("--short")),
    Stage("coverage", core_bound),
    Stage("walls", walls, needs=("tests/worker",), beside=True),
    Stage("wheel", try_wheel, needs=("README.md", "LICENSE")),
    Stage("site", site, needs=("mkdocs.yml",)),
)


def select(verb: str, args: Sequence[str]) -> Sequence[Stage]:
    """The stages of a verb. Arguments go to the tool behind it, but for `test` alone and `test --full`."""
    if verb == "test" and args and list(args) != ["--full"]:
        verb, args = "pytest", [arg for arg in args if arg != "--"]
    verbs: dict[str, Sequence[Stage]] = {
        "test": (*LINT, *(EVERYTHING if args else BEHAVIOUR)),
        "lint": LINT,
        "pytest": [Stage("tests", lambda: pytest(*args))],
        "docs": [Stage("docs", lambda: pytest("tests/test_docs.py", *args))],
        "adapters": [Stage("adapters", lambda: adapters(*args))],
        "agentdojo": [Stage("agentdojo", lambda: agentdojo(*args))],
        "evidence": [Stage("evidence", lambda: evidence(*args))],
        "site": [Stage("site", lambda: site(*args))],
        "first": [Stage("first", lambda: first(*args))],
        "walls": [Stage("walls", walls)],
        "hostile": [Stage("hostile", lambda: hostile(*args))],
        "crash": [Stage("crash", lambda: crash(*args))],
        "coverage": [Stage("tests", covered_tests), Stage("coverage", coverage_bounds)],
        "sbom": [Stage("components", lambda: sbom(*args))],
        "wheel": [Stage("wheel", try_wheel)],
        "bench": [Stage("bench", lambda: benchmarks(*args), needs=("benchmarks/hop.py",))],
        "soak": [Stage("soak", lambda: soak(*args))],
        "fuzz": [Stage("fuzz", lambda: fuzz(*args))],
        "mutate": [Stage("mutate", lambda: mutate(*args))],
        "lock": [Stage("lock", lambda: lock(*args))],
        "pictures": [Stage("pictures", lambda: pictures(*args))],
        "words": [Stage("words", lambda: words(*args))],
        "generate": [Stage("generate", lambda: generate(*args))],
    }
    return verbs.get(verb, ())


def perform(stage: Stage) -> Outcome:
    """Run one stage and print its outcome; a missing requirement is a failure in CI and a loud skip elsewhere."""
    print(f"==> {stage.name}", flush=True)
    missing = [name for name in stage.needs if not (ROOT / name).exists()]
    if missing:
        return Outcome(
            stage.name, Status.FAILED if IN_CI else Status.SKIPPED, 0.0, f"missing: {', '.join(missing)}"
        )
    start = time.monotonic()
    try:
        stage.action()
    except subprocess.CalledProcessError as error:
        detail = f"{Path(error.cmd[0]).name} ended with status {error.returncode}"
        return Outcome(stage.name, Status.FAILED, time.monotonic() - start, detail)
    except StageError as error:
        return Outcome(stage.name, Status.FAILED, time.monotonic() - start, str(error))
    return Outcome(stage.name, Status.OK, time.monotonic() - start)


def show(outcome: Outcome) -> None:
    """One line about a stage that has ended."""
    print(
        f"    {outcome.name:<10} {outcome.status:<8} {outcome.seconds:6.1f} s  {outcome.detail}".rstrip(),
        flush=True,
    )


def stop(_signal: int, _frame: FrameType | None) -> None:
    """End at once on SIGTERM; subprocess.run takes its child with it."""
    sys.exit(TERMINATED)


def main(argv: Sequence[str]) -> int:
    """Run all stages of a verb, even after a failure, and return the exit status."""
    verb, *args = argv
    stages = select(verb, args)
    if not stages:
        print(f"no verb {verb!r}", file=sys.stderr)
        return USAGE
    signal.signal(signal.SIGTERM, stop)
    outcomes: list[Outcome] = []
    start = time.monotonic()

    def run(stage: Stage) -> None:
        outcomes.append(perform(stage))
        show(outcomes[-1])

    others = [threading.Thread(target=run, args=(stage,), daemon=True) for stage in stages if stage.beside]
    lanes = iter(others)
    for stage in stages:
        if stage.beside:
            next(lanes).start()
        else:
            run(stage)
    for lane in others:
        lane.join()
    if len(outcomes) > 1:
        counts = Counter(outcome.status for outcome in outcomes)
        total = time.monotonic() - start
        print(
            f"==> {', '.join(f'{n} {status}' for status, n in counts.items())} in {total:.0f} s", flush=True
        )
        for outcome in outcomes:
            show(outcome)
    failed = any(outcome.status is Status.FAILED for outcome in outcomes)
    return 1 if failed or len(outcomes) < len(stages) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
