"""The console as a program: pipes, a terminal, signals."""

from __future__ import annotations

import io
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pexpect
import pytest

from agentserver.assembly import build
from agentserver.cli import main
from agentserver.cli.run import _choose_input, find_history_file
from agentserver.config import load
from agentserver.gateways.console.console import Console
from agentserver.trace.terminal import Screen
from tests.cli.conftest import environment, spawn
from tests.machine import HANGS


def test_a_script_is_plain_text_and_its_status_means_something(shell, project):
    ran = shell("run", cwd=project, given="@greeter Ada\n", TERM="xterm")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-2:] == ["greeter  Greeting", "  | text: Good day, Ada!"]
    assert "\x1b" not in ran.stdout


def test_a_crash_is_logged_in_json_without_the_secret(shell, project):
    (project / "secret.yaml").write_text(
        (project / "config" / "organism.yaml")
        .read_text()
        .replace("description: Crashes.", 'description: "Crashes ${DESK_KEY}."')
    )
    ran = shell(
        "--log-format",
        "json",
        "run",
        "config/../secret.yaml",
        cwd=project,
        given="@crash/Ping\n",
        DESK_KEY="hunter2-hunter2",
    )
    assert ran.returncode == 1
    assert "system  internal" in ran.stdout
    assert '"logger": "agentserver.pump"' in ran.stderr
    assert '"conversation": "' in ran.stderr
    assert "hunter2" not in ran.stdout + ran.stderr
    assert "\x1b" not in ran.stdout + ran.stderr


def test_a_closed_pipe_ends_the_script_quietly(project):
    ran = subprocess.run(
        ["bash", "-c", f'yes "@greeter Ada" | {sys.executable} -m agentserver run | head -1; echo ${{PIPESTATUS[1]}}'],
        cwd=project, env=environment(), capture_output=True, text=True, timeout=HANGS, check=False,
    )  # fmt: skip
    assert ran.stdout.splitlines()[-1] == "2"
    assert ran.stderr == ""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_signals_end_a_script(project, number, status, tmp_path):
    project = own(project, tmp_path, "1ms" if number == signal.SIGINT else "20s")
    with spawn("run", cwd=project) as running:
        running.stdin.write(f"@waiter seconds={60 if number == signal.SIGINT else 1}\n")
        running.stdin.flush()
        assert "console -> waiter" in running.stdout.readline()
        running.send_signal(number)
        shown, logged = running.communicate(timeout=HANGS)
    assert running.returncode == status, logged
    assert ("waited" in shown) is (number == signal.SIGTERM)
    assert "Traceback" not in logged


def own(project, folder, drain):
    """A project whose journal no other test sees."""
    copy = folder / "own"
    shutil.copytree(project, copy, ignore=shutil.ignore_patterns("out"))
    organism = copy / "config" / "organism.yaml"
    organism.write_text(f"{organism.read_text()}limits: {{drain: {drain}}}\n")
    return copy


def test_ctrl_c_ends_a_call_with_130(project):
    args = ("--log-level", "debug", "call", "waiter", "--seconds", "60")
    with spawn(*args, cwd=project, stdin=None, stdout=None) as running:
        for line in running.stderr:
            if "sent console -> waiter" in line:
                break
        running.send_signal(signal.SIGINT)
        _, logged = running.communicate(timeout=HANGS)
    assert running.returncode == 130
    assert "Traceback" not in logged


class Terminal:
    """The console at a pseudo-terminal."""

    def __init__(self, project, state, **more):
        variables = environment(TERM="xterm", XDG_STATE_HOME=str(state), PROMPT_TOOLKIT_NO_CPR="1", **more)
        self.child = pexpect.spawn(
            sys.executable, ["-m", "agentserver", "run"], cwd=str(project), env=variables, timeout=HANGS, encoding="utf-8",
            dimensions=(40, 160),
        )  # fmt: skip

    def say(self, text):
        self.child.send(text)

    def see(self, *texts):
        for text in texts:
            self.child.expect_exact(text)

    def status(self):
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus


@pytest.fixture
def terminal(project, tmp_path):
    opened = []

    def start(**more):
        opened.append(Terminal(project, tmp_path, **more))
        return opened[-1]

    yield start
    for each in opened:
        each.child.close(force=True)


def test_a_person_at_a_terminal(terminal, tmp_path):
    at = terminal()
    at.see("cli-desk: 6 listeners. Text goes to @greeter", "greeter>")
    at.say("@gree\t")
    at.see("ter")
    at.say(" Ada\r")
    at.see("console", "greeter", "Good day, Ada!")
    at.say("@waiter seconds=60\r")
    at.see("waiter", "waiter>")
    at.say("\x03")
    at.see("cancelled")
    at.say("never sent")
    at.see("never sent")
    at.say("\x03")
    at.say("@greeter Bob\r")
    at.see("Good day, Bob!")
    at.say("/threads\r")
    at.see("so far")
    at.say("\x03")
    at.see("Ctrl-C again leaves")
    at.say("\x03")
    assert at.status() == 0
    history = Path(tmp_path, "agentserver", "history")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "+@greeter Ada\n" in history.read_text()
    assert "never sent" not in history.read_text()


def test_what_follows_ctrl_c_does_not_join_the_cleared_text(project, tmp_path):
    at = Terminal(own(project, tmp_path, "20s"), tmp_path)
    at.see("greeter>")
    at.say("@waiter seconds=-2\rnever sent")
    at.see("never sent")
    at.child.delaybeforesend = None
    at.say("\x03")
    at.say("@greeter Bob\r")
    at.see("Good day, Bob!")
    at.say("/quit\r")
    assert at.status() == 0


def test_completions_are_shown_while_typing(terminal):
    at = terminal()
    at.see("greeter>")
    at.say("/app")
    at.see("/approvals", "/approve")
    at.say("\x03")
    at.say("/quit\r")
    assert at.status() == 0


def test_at_a_terminal_ctrl_d_leaves_and_colours_are_ours(terminal):
    at = terminal(NO_COLOR="1")
    at.see("greeter>")
    at.say("Ada\r")
    at.see("\n  | text: Good day, Ada!\r\n")
    at.say("\x04")
    assert at.status() == 0


def test_at_a_prompt_ctrl_c_ends_the_process_while_a_handler_holds_the_loop(project, tmp_path):
    shutil.copytree(project, tmp_path / "own", ignore=shutil.ignore_patterns("out"))
    at = Terminal(tmp_path / "own", tmp_path)
    at.see("greeter>")
    at.say("@waiter seconds=-600\r")
    at.see("waiter has held the event loop")
    raw = termios.tcgetattr(at.child.child_fd)
    at.say("\x03")
    at.say("\x03")
    at.see("\x1b[?2004l")
    at.child.expect(pexpect.EOF)
    mode = termios.tcgetattr(at.child.child_fd)
    assert not raw[3] & termios.ICANON
    assert mode[3] & termios.ICANON
    assert mode[3] & termios.ECHO
    assert at.status() == 130


def test_without_the_extra_a_plain_prompt_serves(terminal, tmp_path):
    missing = tmp_path / "without"
    missing.mkdir()
    (missing / "sitecustomize.py").write_text("import sys\nsys.modules['prompt_toolkit'] = None\n")
    at = terminal(PYTHONPATH=os.pathsep.join([str(missing), environment()["PYTHONPATH"]]))
    at.see("Text goes to @greeter", "the extra console", "greeter> ")
    at.say("Ada\n")
    at.see("Good day, Ada!", "greeter> ")
    at.say("@waiter seconds=60\n")
    at.see("Wait")
    at.child.sendintr()
    at.see("cancelled", "waiter> ")
    at.child.sendintr()
    at.see("Ctrl-C again leaves")
    at.child.sendintr()
    assert at.status() == 0


@pytest.fixture
def run_inside(command, here, monkeypatch, tmp_path):
    """Run the console in this process, on a pipe or on a pseudo-terminal."""

    def run(given, **variables):
        for name, value in {"XDG_STATE_HOME": str(tmp_path), **variables}.items():
            monkeypatch.setenv(name, value)
        keys, terminal = pty.openpty() if variables else reversed(os.pipe())
        with (
            os.fdopen(terminal, "r") as stdin,
            os.fdopen(os.dup(terminal if variables else 1), "w") as stdout,
        ):
            monkeypatch.setattr(sys, "stdin", stdin)
            if variables:
                monkeypatch.setattr(sys, "stdout", stdout)
            typing = threading.Timer(0.5, os.write, (keys, given.encode()))
            typing.start()
            if not variables:
                typing.join()
                os.close(keys)
            with pytest.raises(SystemExit) as ended:
                main(["run"])
            typing.join()
        return ended.value.code

    return run


def test_inside_a_script(run_inside, capsys):
    assert run_inside("@greeter Ada\n@nobody\n") == 2
    assert "Good day, Ada!" in capsys.readouterr().out


def test_inside_at_a_bare_terminal(run_inside):
    assert run_inside("Ada\n\x04", TERM="dumb") == 0


def test_inside_without_the_extra(run_inside, monkeypatch):
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    for name in [name for name in sys.modules if name.endswith("console.prompt")]:
        monkeypatch.delitem(sys.modules, name)
    assert run_inside("Ada\n\x04", TERM="xterm") == 0


@pytest.fixture
def choose(here, monkeypatch, tmp_path):
    """Choose the line reader of a fully capable terminal, and its notice."""

    def run():
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        server = build(load(Path("config/organism.yaml"), environ={}))
        shown = io.StringIO()
        screen = Screen(out=lambda: shown)
        keys, terminal = pty.openpty()
        with os.fdopen(terminal, "r") as stdin, os.fdopen(os.dup(terminal), "w") as stdout, os.fdopen(keys):
            monkeypatch.setattr(sys, "stdin", stdin)
            monkeypatch.setattr(sys, "stdout", stdout)
            lines, _ = _choose_input(Console(server, screen, interactive=True), server, screen)
            monkeypatch.undo()
        screen._writer.shutdown()
        return lines, shown.getvalue()

    return run


def test_a_prompt_where_there_can_be_one(choose, tmp_path):
    lines, said = choose()
    assert (lines.concurrent, said) == (True, "")
    assert (tmp_path / "agentserver" / "history").exists()


def test_a_history_that_cannot_be_kept_is_no_obstacle(choose, tmp_path):
    (tmp_path / "agentserver").touch()
    lines, said = choose()
    assert lines.concurrent
    assert said.startswith("no history: ")


def test_a_defect_of_the_prompt_is_not_taken_for_its_absence(choose, monkeypatch):
    monkeypatch.setitem(sys.modules, "agentserver.gateways.console.lines", None)
    for name in [name for name in sys.modules if name.endswith("console.prompt")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match=r"console\.lines"):
        choose()


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/a"}, "/state/agentserver/history"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/home/a"}, "/home/a/.local/state/agentserver/history"),
        ({"HOME": "/home/a"}, "/home/a/.local/state/agentserver/history"),
        ({}, None),
    ],
)
def test_where_the_history_is(environ, path):
    assert find_history_file(environ) == (None if path is None else Path(path))
