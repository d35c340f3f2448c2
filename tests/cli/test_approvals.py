"""Approvals on the command line: with and without a running server; at a terminal; in scripts."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys

import pytest

from agentserver.cli import approvals, project
from agentserver.cli.listing import ListPrinter
from agentserver.config.yaml.secrets import Secrets
from agentserver.core.messages import Delivery, Question
from agentserver.core.records.details import GuardNote
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Approval
from tests.cli.conftest import HANDLERS, environment, spawn
from tests.cli.test_run import Terminal
from tests.machine import HANGS

CLERK = """

async def clerk(payload: Greet | Greeting | SystemError, metadata):
    if isinstance(payload, Greet):
        return HandlerResponse(payload, "vault")
    return HandlerResponse.respond(Greeting(getattr(payload, "text", None) or f"no: {payload.code}"))
"""

ORGANISM = """
name: guarded
listeners:
  - {name: clerk, description: Asks the vault., payload_class: cli_guarded.Greet, handler: cli_guarded.clerk, peers: [vault]}
  - {name: vault, description: Is kept., payload_class: cli_guarded.Greet, handler: cli_guarded.greet, approval: required}
"""

ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def guarded_project(tmp_path):
    """A project in which the vault wants an approval."""
    (tmp_path / "cli_guarded.py").write_text(HANDLERS + CLERK)
    (tmp_path / "organism.yaml").write_text(ORGANISM)
    return tmp_path


@pytest.fixture
def verb(guarded_project, command, monkeypatch):
    """A verb in this process, which is another one than the server's."""
    monkeypatch.chdir(guarded_project)

    def run(*args, status=0):
        sys.modules.pop("cli_guarded", None)
        done = command(*args)
        assert done.exit_code == status, done.output
        return done.output

    return run


@pytest.fixture
def script(guarded_project, shell):
    """Lines piped to a console of their own."""

    def run(given):
        done = shell("run", cwd=guarded_project, given=given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def server(guarded_project):
    """A script on a running server that is fed line by line."""
    running = []

    def start():
        running.append(spawn("run", cwd=guarded_project, stderr=subprocess.STDOUT))
        return running[-1]

    yield start
    for each in running:
        each.kill()
        each.wait()
        each.stdin.close()
        each.stdout.close()


def tell(process, line):
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def see(process, text):
    """Everything up to the line with a text."""
    seen = ""
    while text not in seen:
        line = process.stdout.readline()
        assert line, seen
        seen += line
    return seen


def digest(verb, key=None):
    """Read the approval token: the end of the displayed message."""
    shown = verb("approvals", "show", key or verb("approvals").split()[0])
    return shown.splitlines()[-1].removeprefix("  | sha-256 ")


def test_a_running_server_takes_an_answer_from_another_process(server, verb):
    running = server()
    tell(running, "@clerk name=Ada")
    see(running, "/deny")
    (line,) = verb("approvals").splitlines()
    key = line.split()[0]
    assert "clerk -> vault Greet\tclerk wants to send this to vault, which needs an approval." in line
    shown = verb("approvals", "show", key[:6])
    assert shown.startswith(f"id: {key}\nat: ")
    assert '\n  ? clerk wants to send this to vault, which needs an approval.\n  | name: "Ada"\n' in shown
    assert "<name>Ada</name>" in shown
    assert "clerk -> vault Greet: once; a running server reads it" in verb("approve", digest(verb)[:12])
    assert f": approved by {ME}, once" in see(running, "Good day, Ada!")
    assert verb("approvals") == "no message waits for an approval\n"
    tell(running, "@clerk name=Ada")
    see(running, "/deny")
    verb("deny", verb("approvals").split()[0])
    assert f": denied: {ME}" in see(running, "no: denied")


def test_a_server_that_was_killed_takes_the_answer_when_it_starts_again(server, verb):
    running = server()
    tell(running, "@clerk name=Ada")
    see(running, "/deny")
    running.kill()
    running.wait()
    (one,) = map(json.loads, verb("approvals", "--json").splitlines())
    assert (one["sender"], one["to"], one["root"], one["answer"]) == ("clerk", "vault", "Greet", None)
    (question,) = one["questions"]
    assert question["why"] == {"kind": "grounds", "ground": "approval", "names": ["clerk", "vault"]}
    assert (question["guard"], question["text"]) == (
        "approval", "clerk wants to send this to vault, which needs an approval."
    )  # fmt: skip
    assert "clerk -> vault Greet: always" in verb("approve", one["digest"], "--always")
    (one,) = map(json.loads, verb("approvals", "--json").splitlines())
    assert one["answer"] == {"said": "always", "by": ME}
    assert f"\talways by {ME}\n" in verb("approvals")
    assert "answered always by" in verb("approve", one["digest"], status=2)
    again = server()
    seen = see(again, "Good day, Ada!")
    if 'name: "Ada"' not in seen:  # what is asked and what is answered are shown by two tasks
        seen += see(again, 'name: "Ada"')  # it is shown again
    assert f"approved by {ME}, always" in seen
    assert f"from conversation {one['conversation']}" in seen
    assert f"approved clerk -> vault  Greet  approved by {ME}, always" in verb("trace", one["conversation"])


def test_a_stopped_server_keeps_pending_approvals_and_does_not_wait_for_them(guarded_project, server, verb):
    (guarded_project / "organism.yaml").write_text(ORGANISM + "limits: {drain: 10m}\n")
    running = server()
    tell(running, "@clerk name=Ada")
    see(running, "/deny")
    running.terminate()
    see(running, "still waits for an approval")
    assert running.wait(HANGS) == 0
    running = server()
    see(running, "/deny")
    verb("approve", digest(verb))
    see(running, "Good day, Ada!")


def test_a_denial_takes_back_an_approval_that_no_server_has_taken(server, verb):
    running = server()
    tell(running, "@clerk name=Ada")
    see(running, "/deny")
    running.kill()
    running.wait()
    key = verb("approvals").split()[0]
    verb("approve", digest(verb, key))
    verb("deny", key)
    assert "Good day" not in see(server(), "no: denied")


def test_the_end_of_a_long_message_is_shown_too(server, verb):
    tell(running := server(), f"@clerk name={'x' * 9000}END")
    see(running, "/deny")
    shown = verb("approvals", "show", verb("approvals").split()[0])
    assert "END</name>" in shown
    assert all(len(line) < 5000 for line in shown.splitlines())


def test_an_id_that_is_too_short_answers_nothing(server, verb):
    tell(running := server(), "@clerk name=Ada")
    see(running, "/deny")
    key = verb("approvals").split()[0]
    for short in ("", key[:5]):
        assert "is too short" in verb("deny", short, status=2)
    assert "no messages wait" in verb("approve", "", status=2)
    for unseen in (key, digest(verb)[:11]):
        assert "which is the last line of: agentserver approvals show " in verb("approve", unseen, status=2)
    assert verb("approvals").endswith("\t-\n")


def test_an_answer_to_nothing_is_refused(guarded_project, verb, script):
    assert "there is no journal" in verb("approvals", status=2)
    script("/quit\n")
    assert verb("approvals") == "no message waits for an approval\n"
    assert "no messages wait for an approval under 'x'" in verb("approve", "x", status=2)
    assert "no messages wait for an approval under 'x'" in verb("approvals", "show", "x", status=2)
    journal = str(guarded_project / "out" / "journal.sqlite")
    assert "under 'x'" in verb("approvals", "--journal", journal, "show", "x", status=2)
    assert "under 'x'" in verb("deny", "x", "--journal", journal, status=2)


def test_a_script_without_a_journal_is_refused_at_once(guarded_project, script):
    (guarded_project / "organism.yaml").write_text(ORGANISM + "journal: none\n")
    shown = script("@clerk name=Ada\n")
    assert "no: denied" in shown
    assert "withdrawn clerk -> vault Greet denied: nobody is there to ask" in shown


def test_a_call_is_refused_at_once_and_says_how_to_be_asked(verb):
    shown = verb("call", "clerk", "--name", "Ada")
    assert "text: no: denied" in shown
    assert "clerk -> vault Greet needed an approval: clerk wants to send this to vault" in shown
    assert "agentserver run asks" in shown
    assert "denied: " in verb("call", "vault", "--name", "Ada", status=1)


def test_check_names_who_waits_for_a_person(verb):
    assert "vault waits for a person's approval: every message" in verb("check")


@pytest.fixture
def terminal(guarded_project, tmp_path):
    opened = []

    def start(**more):
        opened.append(Terminal(guarded_project, tmp_path, NO_COLOR="1", **more))
        return opened[-1]

    yield start
    for each in opened:
        each.child.close(force=True)


def pending_id(at):
    """Read the id of the pending message."""
    at.child.expect(r"approval (\w{6})  clerk -> vault")
    key = at.child.match.group(1)
    at.see("? clerk wants to send this to vault", '| name: "Ada"', f"/deny {key}")
    return key


def test_a_person_at_a_terminal_is_asked_and_answers(terminal):
    at = terminal()
    at.see("clerk>")
    at.say("@clerk name=Ada\r")
    key = pending_id(at)
    at.say("/approvals\r")
    at.see(f"{key}  clerk -> vault", "refused at", "clerk>")
    at.say(f"/approve {key[:3]}\t")
    at.see(key[3:])  # completed: nothing else of the list is left to be read
    at.say("\r")
    at.see(f"approval {key}: approved by {ME}, once", "Good day, Ada!")
    at.say("@clerk name=Ada\r")
    key = pending_id(at)
    at.say(f"/deny {key}\r")
    at.see(f"approval {key}: denied: {ME}", "no: denied")
    at.say("\x04")
    assert at.status() == 0


def test_a_terminal_that_was_closed_is_asked_again_at_the_next_one(terminal):
    at = terminal()
    at.see("clerk>")
    at.say("@clerk name=Ada\r")
    key = pending_id(at)
    at.child.kill(9)
    at.child.wait()
    at = terminal()
    assert pending_id(at) == key
    at.say(f"/approve {key} always\r")
    at.see(f"approval {key}: approved by {ME}, always", "from conversation ", "Good day, Ada!")


def test_a_plain_prompt_without_the_extra_asks_too(terminal, tmp_path):
    at = terminal()
    missing = tmp_path / "without"
    missing.mkdir()
    (missing / "sitecustomize.py").write_text("import sys\nsys.modules['prompt_toolkit'] = None\n")
    at.child.close(force=True)
    at = terminal(PYTHONPATH=os.pathsep.join([str(missing), environment()["PYTHONPATH"]]))
    at.see("clerk> ")
    at.say("@clerk name=Ada\n")
    key = pending_id(at)
    at.see("clerk> ")
    at.say(f"/approve {key}\n")
    at.see("Good day, Ada!", "clerk> ")


def test_who_answers_is_the_owner_of_the_process(monkeypatch):
    monkeypatch.setenv("LOGNAME", "somebody else")
    assert project.name_user() == ME
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert project.name_user() == f"user {2**31 - 7}"


def test_listings_hide_the_secrets_of_the_organism():
    delivery = Delivery("d", "c", "r", "t", "o", "clerk", "vault", "Greet", b"<Greet>open sesame</Greet>", 1)
    waiting = Approval(
        "a", delivery, (Question("approval", GuardNote("approval", "send open sesame?")),), 1.0, "digest"
    )
    shown = approvals._redact_approval(waiting, Secrets.of(["open sesame"]))
    assert shown.delivery.message == b"<Greet>[redacted]</Greet>"
    assert WORDING.join_lines(shown.questions[0].reason) == "send [redacted]?"
    assert shown.digest == waiting.digest


def test_whoever_asked_for_it_may_not_approve_it_where_others_must(guarded_project, server, verb):
    (guarded_project / "organism.yaml").write_text(ORGANISM + "limits: {approvers: others}\n")
    running = server()
    tell(running, "@clerk name=Ada")
    assert f"{ME} -> clerk" in see(running, "/deny")
    why = f"{ME} asked for it, and approvers: others wants another one"
    assert why in verb("approve", digest(verb), status=2)
    tell(running, "/approve")
    see(running, why)
    verb("deny", verb("approvals").split()[0])
    see(running, "no: denied")


def test_a_user_who_bears_a_listeners_name_cannot_ask_where_others_must_approve(
    guarded_project, verb, monkeypatch
):
    (guarded_project / "organism.yaml").write_text(ORGANISM + "limits: {approvers: others}\n")
    monkeypatch.setattr(project, "name_user", lambda: "c1erk")
    said = verb("call", "clerk", "--name", "Ada", status=2)
    assert "the name of this user, c1erk, is the name of a listener, or looks like it" in said


def test_a_backslash_in_a_list_is_escaped_once(capsys):
    delivery = Delivery("d", "c", "r", "t", "o", "clerk", "vault", "Greet", b"<Greet/>", 1)
    question = Question("approval", GuardNote("approval", "C:\\temp?"))
    waiting = Approval("a", delivery, (question,), 1.0, "digest")
    row = approvals._describe(waiting, None)
    ListPrinter(as_json=False, limit=9).print([row], approvals.COLUMNS, "nothing waits")
    assert "C:\\\\temp?" in capsys.readouterr().out.replace("C:\\\\\\\\", "twice")
