"""Tools of real servers as listeners: calls, answers, and the loss of a server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time

import anyio.to_thread
import pytest

from agentserver.config.code.tools import lock_path
from agentserver.mcp.client import connection, listeners, process
from agentserver.mcp.client.connection import LostError
from agentserver.mcp.client.listeners import TOO_LARGE
from agentserver.payload.foreign.results import ToolData, ToolFailure, ToolLink, ToolResult
from tests.mcp.client.projects import HOSTILE, Project, alive, code, wait_for_file


@pytest.fixture(scope="module")
def lock_text(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("lock"))
    project.lock()
    return (project.root / lock_path("far")).read_text()


@pytest.fixture
def project(tmp_path, lock_text):
    made = Project(tmp_path)
    path = tmp_path / lock_path("far")
    path.parent.mkdir(parents=True)
    path.write_text(lock_text)
    return made


pytestmark = pytest.mark.anyio


async def test_each_kind_of_answer_is_a_payload(project):
    async with project.running() as bed:
        assert await bed.call("echo", text="good day") == ToolResult(text=["good day"])
        assert await bed.call("mixed") == ToolResult(
            text=["bell \ufffd", "inside"],
            data=[ToolData("image/png", b"PNG")],
            links=[ToolLink("file:///etc/passwd", "secrets")],
        )
        assert (await bed.call("sum")).sum == 5


async def test_arguments_are_held_against_the_schema_of_the_server(project):
    async with project.running() as bed:
        refused = await bed.call("echo", text="GOOD DAY")
        assert refused == ToolFailure(
            text=["arguments: ValidationError: /text: breaks 'pattern' of the schema"]
        )
        assert project.noted("calls") == ""


async def test_a_result_that_breaks_its_own_schema_is_no_result(project):
    (project.notes / "sum").write_text('{"sum": "five"}')
    async with project.running() as bed:
        assert code(await bed.call("sum")) == "internal"


async def test_a_server_is_given_the_named_environment_and_nothing_else(project):
    async with project.running() as bed:
        shown = json.loads((await bed.call("environment")).text[0])
    assert {name: value for name, value in shown.items() if name != "LC_CTYPE"} == {"NAMED": "named"}


async def test_a_tool_that_asks_a_person_is_declined(project):
    async with project.running() as bed:
        (said,) = (await bed.call("asks")).text
        assert said.startswith("the tool asked for input from a person")


async def test_a_huge_result_is_a_failure_and_one_beyond_a_line_ends_the_connection(project, monkeypatch):
    monkeypatch.setattr(process, "LINE", 4_000_000)
    async with project.running() as bed:
        assert await bed.call("huge", seconds=10.0) == ToolResult(text=["x" * 10])
        assert (await bed.call("huge", seconds=2_000_000.0)).text == [TOO_LARGE]
        assert code(await bed.call("huge", seconds=5_000_000.0)) == "internal"
        assert await bed.call("echo", text="again") == ToolResult(text=["again"])


async def test_a_call_whose_server_dies_is_internal_and_the_next_one_waits_for_the_restart(project):
    async with project.running() as bed:
        assert code(await bed.call("die")) == "internal"
        assert await bed.call("echo", text="again") == ToolResult(text=["again"])
        assert project.noted("calls").split() == ["die", "echo"]
        assert project.noted("starts").split() == ["start", "start"]


async def test_only_retries_send_a_call_again(project):
    project.say(tools=", retries: 2")
    async with project.running() as bed:
        assert code(await bed.call("die")) == "internal"
        assert project.noted("calls").split() == ["die"] * 3


async def test_a_server_that_is_lost_too_often_is_given_up(project):
    project.say(server="    restarts: 0\n")
    async with project.running() as bed:
        assert code(await bed.call("die")) == "internal"
        assert code(await bed.call("echo", text="again")) == "internal"
        assert project.noted("starts").split() == ["start"]


async def test_a_call_that_cannot_be_sent_is_busy_before_its_deadline(project, monkeypatch):
    monkeypatch.setattr(listeners, "WAITING", 0.02)
    monkeypatch.setattr(connection, "FIRST", 60.0)  # it is not given up meanwhile
    project.say(tools=", deadline: 60s")
    (project.root / "organism.yaml").write_text(
        (project.root / "organism.yaml")
        .read_text()
        .replace(json.dumps(sys.executable), json.dumps("/no/such/program"))
    )
    async with project.running() as bed:
        assert code(await bed.call("echo", text="early")) == "busy"


async def test_a_late_call_is_cancelled_at_the_server(project):
    project.say(tools=", deadline: 5s")
    async with project.running() as bed:
        while not isinstance(await bed.call("echo", text="begin"), ToolResult):
            """The server may take longer to start than a call may take."""
        assert code(await bed.call("slow", seconds=100.0)) == "timeout"
        await wait_for_file((project.notes / "cancelled").exists)
        assert await bed.call("echo", text="again") == ToolResult(text=["again"])


async def test_a_tool_that_has_changed_is_never_called(project, caplog):
    (project.notes / "changed").touch()
    async with project.running() as bed:
        assert code(await bed.call("echo", text="hello")) == "internal"
        assert (await bed.call("sum")).sum == 5
    assert project.noted("calls").split() == ["sum"]
    assert "far.echo is not called: its description is another since it was locked" in caplog.text


async def test_leaving_ends_the_whole_process_group(project):
    (project.notes / "child").touch()
    async with project.running() as bed:
        await bed.call("echo", text="hello")
        group = int(project.noted("pid"))
    await wait_for_file(lambda: not alive(group))


async def test_a_servers_description_of_itself_is_logged_legibly(project, caplog):
    caplog.set_level("INFO", logger="agentserver.mcp")
    async with project.running() as bed:
        await bed.call("echo", text="hello")
    assert "far: hostile \ufffd[31mwords" in caplog.text


async def test_a_tool_that_changes_while_connected_is_no_longer_called(project, caplog):
    async with project.running() as bed:
        assert await bed.call("echo", text="before") == ToolResult(text=["before"])
        (project.notes / "changed").touch()
        await bed.call("tell")
        await wait_for_file(lambda: "far.echo is not called" in caplog.text)
        assert code(await bed.call("echo", text="after")) == "internal"
        assert (await bed.call("sum")).sum == 5
    assert project.noted("starts").split() == ["start"]


@pytest.fixture
def far(tmp_path):
    """The server over HTTP, and the way to it."""
    project = Project(tmp_path)
    with start_hostile(project) as process:
        while not project.noted("port") and process.poll() is None:
            time.sleep(0.02)
        project.way = f"url: http://127.0.0.1:{project.noted('port')}/mcp\n    token: ${{TOKEN}}"
        project.say()
        yield project, process
        process.kill()


async def test_a_server_over_http_is_shown_its_token(far, lock_text):
    project, process = far
    project.environ["TOKEN"] = "token-of-desk"
    await anyio.to_thread.run_sync(project.lock)
    assert (project.root / lock_path("far")).read_bytes() == lock_text.encode()
    async with project.running() as bed:
        assert await bed.call("echo", text="good day") == ToolResult(text=["good day"])
        assert (await bed.call("sum")).sum == 5
        process.kill()
        assert code(await bed.call("echo", text="good day")) == "internal"


async def test_a_server_over_http_that_was_restarted_is_connected_again(far):
    project, process = far
    project.environ["TOKEN"] = "token-of-desk"
    await anyio.to_thread.run_sync(project.lock)
    port = project.noted("port")
    async with project.running() as bed:
        assert await bed.call("echo", text="before") == ToolResult(text=["before"])
        process.kill()
        process.wait()
        (project.notes / "wanted").write_text(port)
        with start_hostile(project) as again:
            await wait_for_file(lambda: is_reachable(port))
            await bed.call("echo", text="perhaps")
            assert await bed.call("echo", text="after") == ToolResult(text=["after"])
            again.kill()


def start_hostile(project):
    return subprocess.Popen([sys.executable, str(HOSTILE), str(project.notes), "http"])


def is_reachable(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", int(port))) == 0


async def test_a_server_over_http_that_refuses_the_token_is_named(far):
    project, _ = far
    project.environ["TOKEN"] = "wrong-canary"
    with pytest.raises(LostError, match=r"^far: ") as refused:
        await anyio.to_thread.run_sync(project.lock)
    assert "canary" not in str(refused.value)
