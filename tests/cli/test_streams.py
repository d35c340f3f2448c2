"""The standard streams of a command: full, closed, or read by nobody."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from agentserver.cli.process import ExitCode
from tests.cli.conftest import environment

CALL = ["call", "greeter", "--name", "Ada"]
TYPED = b"@greeter Ada\n"


@pytest.fixture
def quiet(project, tmp_path):
    """The project with a journal of its own."""
    home = tmp_path / "desk"
    (home / "config").mkdir(parents=True)
    for name in ("cli_desk.py", "config/organism.yaml"):
        (home / name).write_bytes((project / name).read_bytes())
    return home


def run_command(home, args, redirected="", **streams):
    """Status, output and standard error of a command whose streams are redirected as a shell does it."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-m", "agentserver", *args],
        cwd=home, env=environment(), input=TYPED, check=False, **streams,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("args", [["--help"], CALL, ["run"]], ids=" ".join)
def test_an_output_that_cannot_be_written_is_said_in_one_line(quiet, args):
    status, _, errors = run_command(quiet, args, ">/dev/full", stderr=subprocess.PIPE)
    assert (status, errors.decode()) == (
        ExitCode.UNUSABLE,
        "the output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize("args", [["--help"], ["explain", "codes"], CALL, ["run"]], ids=" ".join)
def test_a_reader_that_is_gone_ends_a_command_without_a_traceback(quiet, args):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        status, _, errors = run_command(quiet, args, stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (status, errors) == (ExitCode.UNUSABLE, b"")


@pytest.mark.parametrize(("args", "closed"), [(["run"], "<&-"), (CALL, ">&-"), (["check"], "<&- >&- 2>&-")])
def test_streams_that_are_closed_are_empty(quiet, args, closed):
    status, output, errors = run_command(quiet, args, closed, capture_output=True)
    assert status == 0
    assert b"Traceback" not in output + errors


def test_no_file_of_the_server_takes_the_place_of_a_closed_stream(quiet):
    """The journal is opened after the streams; otherwise output would be written into it."""
    assert run_command(quiet, ["run"], ">&- 2>&-", capture_output=True)[0] == 0
    status, output, _ = run_command(quiet, ["journal", "verify"], capture_output=True)
    assert status == 0, output
