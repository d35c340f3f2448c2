"""The nets of conftest.py catch something."""

from __future__ import annotations

import signal
import warnings

import pytest
from blockbuster import BlockingError
from hypothesis import settings

import agentserver

PACKAGE = agentserver.__path__[0]


def block(where):
    """Sleep as if the file at `where` did it."""
    exec(compile("import time; time.sleep(0)", where, "exec"), {})


@pytest.mark.anyio
async def test_the_server_may_not_block_its_loop():
    with pytest.raises(BlockingError, match=r"time\.sleep"):
        block(f"{PACKAGE}/__init__.py")


@pytest.mark.anyio
async def test_what_is_not_the_server_may():
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
