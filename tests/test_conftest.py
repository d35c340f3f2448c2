"""The nets of conftest.py catch something."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from blockbuster import BlockingError
from hypothesis import settings

import agentserver
from tests.fuzzing import examples

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
PACKAGE = agentserver.__path__[0]


def block(where):
    """Sleep as if the file at `where` did it."""
    exec(compile("import time; time.sleep(0)", where, "exec"), {})


@pytest.mark.anyio
async def test_the_server_may_not_block_its_loop():
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        block(f"{PACKAGE}/__init__.py")


@pytest.mark.anyio
async def test_code_outside_the_server_may():
    block("somewhere.py")


def test_the_server_may_block_where_no_loop_runs():
    block(f"{PACKAGE}/__init__.py")


def test_a_hang_is_a_failure():
    with pytest.raises(pytest.fail.Exception, match="longer than"):
        signal.raise_signal(signal.SIGALRM)


def test_a_warning_is_an_error():
    with pytest.raises(DeprecationWarning):
        warnings.warn("old", DeprecationWarning, stacklevel=1)


def test_property_tests_are_reproducible(request):
    if settings.default.max_examples > 100:
        pytest.skip("this is the fuzzing profile")
    assert settings.default.derandomize
    assert settings.default.deadline is None


PINNED = re.compile(r"max_examples=\d")
NO_LAW = {"conftest.py", "test_openapi.py"}
"""The profiles themselves, and a client that follows an API's links the same way each time."""


def test_no_property_keeps_its_number_of_examples_when_it_is_fuzzed():
    """A third of the properties named a number, so that ./run fuzz tried them no more often than each run of CI."""
    found = [
        path.relative_to(TESTS)
        for path in TESTS.rglob("*.py")
        if path.name not in NO_LAW and PINNED.search(path.read_text("utf-8"))
    ]
    assert not found, "say max_examples=examples(N), of tests.fuzzing"


@pytest.mark.parametrize(("each", "grown"), [(20, [1, 80]), (100, [5, 400]), (5000, [250, 20_000])])
def test_the_usual_examples_follow_those_of_the_profile(each, grown):
    before = settings.get_current_profile_name()
    settings.register_profile("tried", max_examples=each)
    settings.load_profile("tried")
    try:
        assert [examples(5), examples(400)] == grown
    finally:
        settings.load_profile(before)


LEFT_OPEN = """
import asyncio, gc, socket, pytest

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"

async def reached(one):
    reader, writer = await asyncio.open_connection(sock=one)
    raise OSError("the first trouble")

@pytest.mark.anyio
async def test_that_fails():
    kept, far = socket.socketpair()
    try:
        await reached(far)
    except OSError as error:
        raise ExceptionGroup("trouble", [error, ValueError()]) from None

@pytest.mark.parametrize("number", range(3))
@pytest.mark.anyio
async def test_that_is_innocent(number):
    gc.collect()
"""


def test_resources_left_open_by_a_failed_test_fail_no_other(tmp_path):
    """In CI a client of a failed test was collected in a page of the documentation, which failed with its warning."""
    (tmp_path / "test_open.py").write_text(LEFT_OPEN)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest",
         "-p", "no:xdist", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 failed, 3 passed" in done.stdout, done.stdout + done.stderr
