"""What holds for every test: reproducible examples, no blocked event loop, no hang.

Imports no part of the server: fixtures for those are in the folders of their tests.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import logging
import os
import signal
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from agentserver.cli import process

HANG_SECONDS = 150
"""How long one test may take on a loaded machine, times the soak scale. It only guards against hanging."""

FUZZ_SCALE = 24
"""How many times longer a property test may take with the examples of ``./run fuzz``."""

if "PYTEST_XDIST_WORKER" in os.environ and os.environ.get("COVERED", "agentserver") != "agentserver":
    # lines of a part are counted in the tests, and not in the processes that they start
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)

ROOT = Path(__file__).parents[1]
LASTING = (
    sys.prefix,
    sys.base_prefix,
    str(ROOT / "agentserver"),
    str(ROOT / "tests"),
    str(ROOT / "benchmarks"),
)
"""Where modules come from that are no organism's."""

MAY_BLOCK = [
    # (blocking call, file that makes it, function that makes it): reason
    (
        "threading.Lock.acquire",
        "coverage/collector.py",
        "lock_data",
    ),  # the tool that counts lines, among threads
    *(
        (call, "asyncpg/connect_utils.py", "_parse_connect_arguments")
        for call in (
            "os.stat",
            "io.TextIOWrapper.read",
            "io.BufferedReader.read",
            "os.access",
            "os.path.abspath",
        )
    ),  # files of passwords, services and certificates, where a connection is made
]
"""Where an event loop may be blocked all the same. Each line says why waiting is right or cannot be avoided there."""

FAILED_WITH = pytest.StashKey[list[BaseException]]()

settings.register_profile(
    "default",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],  # says how busy the machine is
)
settings.register_profile("quick", settings.get_profile("default"), max_examples=10)
"""The first of the examples, which `./run test` tries; `./run test --full` tries all."""

settings.register_profile(
    "fuzz",
    derandomize=False,
    deadline=None,
    max_examples=int(os.environ.get("EXAMPLES", "5000")),
    print_blob=True,
    database=DirectoryBasedExampleDatabase(
        Path(__file__).parents[1] / ".hypothesis/examples"
    ),  # found once, tried first
    suppress_health_check=[HealthCheck.too_slow],
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
settings.load_profile(PROFILE)

os.environ["AGENTSERVER_ALLOW_MODELS"] = "0"
"""No test asks a provider. Those that ask the local server of both protocols allow it for themselves."""

pytest_plugins = ["agentserver.testing.plugin", "tests.postgres"]


def pytest_addoption(parser):
    parser.addoption(
        "--soak-scale", type=int, default=1, help="how many times longer the soak tests run (default 1)"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Freeze the collected tests: garbage collection went through them again and again, a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Remember the exception of a failed test until the test ends."""
    report = yield
    if report.failed and call.excinfo is not None:
        item.stash.setdefault(FAILED_WITH, []).append(call.excinfo.value)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """What a failed test left open goes with it, without a word: the warning of it would fail any test after it."""
    try:
        return (yield)
    finally:
        if failures := item.stash.get(FAILED_WITH, []):
            forget(failures)


def forget(failures):
    """Release objects that only the frames of a failed test hold."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)
        while failures:
            error = failures.pop()
            failures += [each for each in (error.__cause__, error.__context__) if each is not None]
            failures += getattr(error, "exceptions", ())
            error.__traceback__ = error.__cause__ = error.__context__ = None
        del error
        gc.collect()


def print_tasks():
    """Print the stack of every task of the running loop: threads alone do not show what a hanging test awaits."""
    with suppress(RuntimeError):
        for task in asyncio.all_tasks():
            task.print_stack(file=sys.__stderr__)


@pytest.fixture(scope="session")
def soak_scale(request):
    """The factor by which a soak test multiplies its short form."""
    return request.config.getoption("--soak-scale")


@pytest.fixture(scope="session")
def anyio_backend():
    """The one event loop that the server promises."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def _no_command_ends_the_tests():
    """A command that runs in this process ends it by force when its loop takes too long to close; not here."""
    process.LAST = 3600.0


@pytest.fixture(scope="session", autouse=True)
def _nothing_blocks_the_event_loop():
    """A file, a socket or a sleep that the server waits for while its loop is running is an error."""
    with blockbuster_ctx("agentserver") as watched:
        for name, file, function in MAY_BLOCK:
            watched.functions[name].can_block_in(file, function)
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_organism_stays():
    """What tests loaded of organisms is gone after them: others may load modules of the same names."""
    before = sys.modules.copy()
    yield
    for name in sys.modules.keys() - before.keys():
        origin = getattr(sys.modules[name], "__file__", None) or ""
        if not origin.startswith(LASTING):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def _nothing_hangs(soak_scale):
    """Fail a test that runs too long, with every thread's stack; what cannot be interrupted meets pytest's own timeout."""
    limit = HANG_SECONDS * soak_scale * (FUZZ_SCALE if PROFILE == "fuzz" else 1)

    def give_up(_signal, _frame):
        faulthandler.dump_traceback(file=sys.__stderr__)
        print_tasks()
        pytest.fail(f"the test ran longer than {limit} s", pytrace=True)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(limit)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def logging_as_it_was():
    """A command that runs in this process logs to the terminal from then on: the next test has its log back."""
    root, hook = logging.getLogger(), sys.excepthook
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    sys.excepthook = hook
    logging.captureWarnings(False)
