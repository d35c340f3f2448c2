"""The status with which a session ends."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from agentserver.cli import Root, host
from agentserver.cli.process import GracefulEnd
from agentserver.ports import EngineError


def group_error(error):
    return BaseExceptionGroup("tasks", [BaseExceptionGroup("tasks", [error])])


@pytest.mark.parametrize(
    "error",
    [
        EngineError("it is gone"),
        group_error(EngineError("it is gone")),
    ],
    ids=["engine", "engine of a task"],
)
def test_an_engine_that_comes_to_its_end_while_it_serves_ends_the_process_with_the_reason(error, caplog):
    caplog.set_level("DEBUG", "agentserver.cli")

    async def raise_error():
        raise error

    @click.command()
    def command():
        host.run_session(GracefulEnd(1.0), raise_error)

    done = CliRunner().invoke(Root("agentserver", commands=[command]), ["command"])
    assert (done.exit_code, done.stderr) == (2, "it is gone\n")
    assert "raise_error" in caplog.text  # its traceback, for a log of that level


def test_a_defect_among_the_errors_of_a_session_keeps_its_traceback():
    async def raise_error():
        raise BaseExceptionGroup("tasks", [EngineError("it is gone"), ZeroDivisionError()])

    @click.command()
    def command():
        host.run_session(GracefulEnd(1.0), raise_error)

    done = CliRunner().invoke(Root("agentserver", commands=[command]), ["command"])
    assert isinstance(done.exception, BaseExceptionGroup)
