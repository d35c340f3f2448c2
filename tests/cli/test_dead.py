"""Dead letters, from the crash to the answer, and the way out for a delivery that takes the process down."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from agentserver.assembly import build
from agentserver.cli import project
from agentserver.config import forget, load
from agentserver.core.messages import Reply
from agentserver.engines.sqlite.lock import Lock
from tests.cli.conftest import environment
from tests.cli.journals import change, verb
from tests.machine import HANGS

NONE = "there are no dead letters\n"

HANDLERS = '''
from __future__ import annotations

import os
from dataclasses import dataclass

from agentserver import HandlerResponse, SystemError, invocation, xmlify


@xmlify
@dataclass(frozen=True)
class Job:
    text: str


@xmlify
@dataclass(frozen=True)
class Part:
    text: str


@xmlify
@dataclass(frozen=True)
class Result:
    text: str


async def boss(payload: Job | Result | SystemError, metadata):
    """Hands the job on and answers nobody but with what came of it."""
    if isinstance(payload, Job):
        return HandlerResponse(Part(payload.text), "worker")
    text = payload.text if isinstance(payload, Result) else f"failed: {payload.code}"
    return HandlerResponse.respond(Result(text))


async def work(payload: Part, metadata):
    """Crashes or kills the process while the environment says so."""
    if os.environ.get("WORKS_FAIL") == "crash":
        raise RuntimeError("the key is s3cret-key\\x1b[31m")
    if os.environ.get("WORKS_FAIL") == "kill":
        os._exit(9)
    return HandlerResponse.respond(Result(f"{payload.text}, attempt {invocation().attempt}"))
'''

ORGANISM = """
name: works
listeners:
  - {name: boss, description: "Hands on. ${WORKS_KEY}", payload_class: works_handlers.Job, handler: works_handlers.boss,
     agent: true, peers: [worker]}
  - {name: worker, description: Works., payload_class: works_handlers.Part, handler: works_handlers.work, retries: 1}
limits: {drain: 0.1s}
"""


@pytest.fixture
def works(tmp_path, monkeypatch):
    """A project in which things go wrong."""
    (tmp_path / "works_handlers.py").write_text(HANDLERS)
    (tmp_path / "organism.yaml").write_text(ORGANISM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORKS_KEY", "s3cret-key")
    return tmp_path


@pytest.fixture(autouse=True)
def _no_modules():
    yield
    sys.modules.pop("works_handlers", None)


def dead(*args, status=0):
    sys.modules.pop("works_handlers", None)
    return verb("dead", *args, status=status)


def active(work):
    """Run the organism on its journal for as long as ``work`` takes."""

    sys.modules.pop("works_handlers", None)
    organism = load(Path("organism.yaml"), environ=os.environ)

    async def run():
        async with build(organism, durable=True) as server:
            with anyio.fail_after(HANGS):
                return await work(server)

    try:
        return anyio.run(run)
    finally:
        forget(organism)


JOB = b'<Job xmlns="urn:agentserver:payload:Job:v1"><text>tea</text></Job>'
PART = JOB.replace(b"Job", b"Part")


def say(data=PART, *, close=False):
    """Send a message and wait for its answer; the conversation stays open by default."""

    async def talk(server):
        handle = await server.open("console")
        reply = await handle.ask(data)
        if close:
            await handle.close()
        return reply.message.decode()

    return active(talk)


def read_replies(number=1):
    """So many of the replies that an earlier run left or this one gives, in the one conversation that is open."""

    async def listen(server):
        (conversation,) = await server.left_over("console")
        handle = await server.resume("console", conversation)
        events = handle.events()
        found = []
        while len(found) < number:
            event = await anext(events)
            if isinstance(event, Reply):
                found.append(event.message.decode())
        return found

    return active(listen)


@pytest.fixture
def crashing_worker(works, monkeypatch):
    """The worker crashes."""
    monkeypatch.setenv("WORKS_FAIL", "crash")
    return works


@pytest.fixture
def letter(crashing_worker, monkeypatch):
    """The id of a dead letter in an open conversation, whose listener works again."""
    assert "<code>internal</code>" in say()
    monkeypatch.delenv("WORKS_FAIL")
    return dead().split()[0]


def test_a_dead_letter_is_listed_with_its_reason(letter):
    (line,) = dead().splitlines()
    assert line.startswith(letter)
    assert line.endswith("console -> worker Part\tinternal: RuntimeError: the key is [redacted]\ufffd[31m")


def test_a_secret_is_not_cut_before_it_is_taken_out(crashing_worker, monkeypatch):
    monkeypatch.setenv("WORKS_KEY", "the key is s3cret-" + "k" * 300)
    change(Path("works_handlers.py"), "s3cret-key", "s3cret-" + "k" * 300)
    say()
    assert "s3cret" not in dead()


def test_a_dead_letter_is_shown_with_its_message(letter):
    shown = dead("show", letter[:8]).splitlines()
    assert ("message: console -> worker Part" in shown, "open: yes" in shown) == (True, True)
    assert shown[-1] == "  text: tea"
    assert "s3cret" not in "".join(shown)


def test_a_dead_letter_is_discarded_and_stays_in_the_record(letter):
    assert dead("discard", letter) == f"{letter} is discarded\n"
    assert dead() == NONE
    assert "dead letters begin with" in dead("requeue", letter, status=2)
    (conversation,) = verb("conversations").splitlines()
    sys.modules.pop("works_handlers", None)
    trace = verb("trace", conversation.split()[0])
    assert "failed console -> worker" in trace
    assert f"dismissed console -> worker  Part  by {project.name_user()}" in trace
    (line,) = dead("--discarded").splitlines()
    assert re.search(rf"worker Part\tinternal: RuntimeError.*\t{project.name_user()}$", line)
    assert "s3cret" not in line


def test_a_dead_letter_is_queued_again_and_answered(letter):
    assert dead("requeue", letter[:8]) == f"{letter} is requeued\n"
    assert dead() == NONE
    assert json.loads(verb("conversations", "--json"))["waiting"] == 1
    assert "no dead letters begin with" in dead("requeue", letter, status=2)
    assert dead("next").startswith(letter)
    assert "tea, attempt 0" in read_replies()[-1]
    (conversation,) = verb("conversations").splitlines()
    sys.modules.pop("works_handlers", None)
    assert f"by {project.name_user()}" in verb("trace", conversation.split()[0])
    assert dead("next") == "no delivery is queued\n"
    sys.modules.pop("works_handlers", None)
    assert "; 0 differ" in verb("replay")


def test_one_that_fails_again_is_dead_again(letter, monkeypatch):
    dead("requeue", letter)
    monkeypatch.setenv("WORKS_FAIL", "crash")
    assert "<code>internal</code>" in read_replies()[-1]
    assert dead().split()[0] == letter


def test_a_letter_of_an_ended_conversation_becomes_a_new_request(crashing_worker, monkeypatch):
    say(close=True)
    letter = dead().split()[0]
    assert json.loads(dead("show", letter, "--json"))["open"] is False
    said = dead("requeue", letter[:8])
    assert said.startswith(f"{letter} is a new request of console, in conversation ")
    assert said.endswith(", since its conversation is finished\n")
    assert dead() == NONE
    assert "no dead letters begin with" in dead("requeue", letter, status=2)
    monkeypatch.delenv("WORKS_FAIL")
    assert "tea, attempt 0" in read_replies()[-1]
    sys.modules.pop("works_handlers", None)
    assert "; 0 differ" in verb("replay")
    new = said.split("conversation ")[1].split(",")[0]
    sys.modules.pop("works_handlers", None)
    assert f"redriven console -> worker  Part  dead letter {letter} of conversation" in verb("trace", new)


def test_a_letter_whose_thread_is_closed_becomes_a_request_of_its_own(crashing_worker, monkeypatch):
    assert "failed: internal" in say(JOB, close=True)  # the boss answered, which ended what it had asked for
    assert "a new request of console" in dead("requeue", dead().split()[0])
    monkeypatch.delenv("WORKS_FAIL")
    assert "tea, attempt 0" in read_replies()[-1], (
        "the principal gets what the worker would have told the boss"
    )


@pytest.fixture
def enforced_project(crashing_worker):
    """The worker is a sink, and provenance is enforced."""
    change(Path("organism.yaml"), "peers: [worker]}", "peers: [worker], trust: relay}")
    change(Path("organism.yaml"), "retries: 1}", "retries: 1, trust: sink}\nprovenance: {mode: enforce}")


def test_a_payment_ordered_by_the_principal_is_requeued_though_its_conversation_has_ended(
    enforced_project, monkeypatch
):
    say(PART, close=True)
    letter = dead().split()[0]
    assert dead("requeue", letter).startswith(f"{letter} is a new request of console, in conversation ")
    monkeypatch.delenv("WORKS_FAIL")
    assert "tea, attempt 0" in read_replies()[-1]
    sys.modules.pop("works_handlers", None)
    assert "; 0 differ" in verb("replay")


def test_a_payment_that_a_listener_wrote_is_refused_with_the_reason_in_lines(enforced_project):
    say(JOB, close=True)
    letter = dead().split()[0]
    told = dead("requeue", letter, status=2)
    assert (
        "boss wrote it, and the sources of boss are not known outside its conversation, which has ended"
        in told
    )
    assert "\\n" not in told
    assert dead().startswith(letter)


def test_a_letter_that_its_listener_no_longer_accepts_stays(crashing_worker):
    say(close=True)
    change(Path("works_handlers.py"), "payload: Part,", "payload: Job,")
    change(Path("organism.yaml"), "payload_class: works_handlers.Part", "payload_class: works_handlers.Job")
    letter = dead().split()[0]
    assert "worker takes no Part that it has not asked for" in dead("requeue", letter, status=2)
    assert dead().startswith(letter)


def test_nothing_is_changed_while_a_server_has_the_journal(letter):
    with Lock(Path("out/journal.sqlite")):
        for change_ in ("requeue", "discard", "add"):
            said = dead(change_, letter, status=2)
            assert "in use by process" in said
            assert "its live view requeues" in said, "an operator need not stop the server"
        assert dead()
        assert dead("next") == "no delivery is queued\n"


def test_a_prefix_of_several_is_refused(crashing_worker):
    say()
    say()
    assert "2 dead letters begin with ''" in dead("show", "", status=2)


# A handler that takes the process down


def kill_console(given=""):
    """Run the console in a process that the worker kills."""
    done = subprocess.run(
        [sys.executable, "-m", "agentserver", "run"], env=environment(WORKS_KEY="s3cret-key", WORKS_FAIL="kill"),
        input=given, capture_output=True, text=True, timeout=HANGS, check=False,
    )  # fmt: skip
    assert done.returncode == 9, done.stderr


def test_a_delivery_that_kills_the_process_again_and_again_can_be_given_up(works):
    kill_console("@boss tea\n")
    (line,) = dead("next").splitlines()
    assert line.endswith("boss -> worker Part")
    kill_console()
    key = line.split()[0]
    assert (
        dead("add", key[:8], "--reason", "kills the process")
        == f"{key} is given up; its caller gets an error\n"
    )
    assert "internal: given up by an operator: kills the process" in dead()
    assert "failed: internal" in read_replies()[-1]
    sys.modules.pop("works_handlers", None)
    assert "; 0 differ" in verb("replay")


def test_an_abandoned_message_can_be_requeued(works):
    kill_console("@worker tea\n")
    key = dead("next").split()[0]
    dead("add", key)
    dead("requeue", key)
    error, answer = read_replies(2)
    assert "<code>internal</code>" in error
    assert "tea, attempt 0" in answer


def test_only_the_next_message_can_be_abandoned(letter):
    assert "no deliveries that the next run handles first begin with" in dead("add", letter, status=2)


def test_a_delivery_to_a_listener_that_is_gone_can_be_given_up(works):
    kill_console("@boss tea\n")
    organism = Path("organism.yaml")
    text = organism.read_text().replace(", peers: [worker]", "")
    organism.write_text("\n".join(line for line in text.splitlines() if "name: worker" not in line))
    (line,) = dead("next").splitlines()
    dead("add", line.split()[0])
    assert "given up by an operator: no reason given" in dead()


def test_an_organism_that_keeps_no_journal(works):
    change(Path("organism.yaml"), "limits:", "journal: none\nlimits:")
    for args in ([], ["next"], ["add", "x"], ["requeue", "x"]):
        assert "keeps no journal" in dead(*args, status=2)


def test_a_journal_that_cannot_be_written_is_said(letter, monkeypatch):
    from agentserver.engines.sqlite.writer import Writer
    from agentserver.ports import EngineError

    monkeypatch.setattr(Writer, "commit", lambda self, outcomes, left: [EngineError("the disk is full")])
    assert "the disk is full" in dead("requeue", letter, status=2)
    assert dead().startswith(letter)
