"""The organism that is killed: run as a script it accepts messages as fast as it can until it dies.

It reports on standard output, line by line, each line written by one system call: ``accepted REQUEST`` once
``send`` has returned, ``reply REQUEST FLAG`` for each reply that a gateway got, ``ran DELIVERY`` for each call of a
handler, ``decided DELIVERY`` once a person's answer is committed, ``ended REQUEST FLAG`` for each end that a gateway was
reported, ``kept ID REQUEST`` for each message that was sent under an id. Lines in the pipe at the death of the process are true.

A sender keeps a diary in the journal's folder: each message with an id before it is sent, and each answer received.
It sends unanswered ones again at the next start.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from random import Random
from typing import NamedTuple

import anyio

from agentserver import HandlerResponse, TodoUntil, get_todo_registry, invocation
from agentserver.assembly import SystemClock
from agentserver.core.messages import Reply
from agentserver.core.state.approvals import Answer as Said
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions, Sync
from agentserver.guards.builtin import ApprovalGuard, PeersGuard
from agentserver.guards.lineage.guard import LineageGuard, TrustSettings
from agentserver.payload.codec import Codecs
from agentserver.ports import EngineError, NotStoredError, RejectReason
from agentserver.provenance.evidence.labels import Mode
from agentserver.provenance.policy.declarations import Policy, SinkRule
from agentserver.pump.editions import Callee
from agentserver.pump.pump import Pump, PumpHooks
from tests.core.paper import Answer, Ask, Note, listener, rules
from tests.machine import HANGS

respond = HandlerResponse.respond
SENDER = "crash"
"""The principal that sends all messages where one process does."""

LISTENERS = (
    listener("agent", "tool", "flaky", "vault", "system.todo", agent=True),
    listener("tool", "flaky"),
    listener("flaky", retries=2),
    listener("vault"),
)
POLICY = Policy(mode=Mode.AUDIT, sources=("tool",), sinks=(SinkRule("vault"),), relays=("agent", "flaky"))
SHOP = rules(
    *LISTENERS,
    guards=(
        PeersGuard(),
        ApprovalGuard({"vault": {}}),
        LineageGuard(TrustSettings(POLICY), [one.name for one in LISTENERS], Codecs([Ask, Answer, Note])),
    ),
    messages=10**6,
    hops=10**6,
    queue=10**6,
    principal_conversations=10**6,  # whoever is refused opens another
    storage=4096,
    drain=0.05,
)


def tell(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def agent(payload, metadata):
    call = invocation()
    tell("ran", call.idempotency_key)
    if isinstance(payload, Ask):
        call.storage.set(Note(payload.text))
        await asyncio.sleep(0)
        watch = HandlerResponse(TodoUntil("Answer", count=2, hold=True), "system.todo")
        second = "vault" if payload.text.endswith("7") else "flaky"
        return [watch, HandlerResponse(Ask("one"), "tool"), HandlerResponse(Ask("two"), second)]
    raised = get_todo_registry().get_raised_for(metadata.thread_id, metadata.own_name)
    for watcher in raised:
        get_todo_registry().close(watcher.watcher_id)
    return respond(Answer("done")) if raised else None


async def tool(payload, metadata):
    tell("ran", invocation().idempotency_key)
    if payload.text == "one":
        await asyncio.sleep(0.001)
    return respond(Answer(payload.text * 20))


async def flaky(payload, metadata):
    tell("ran", invocation().idempotency_key)
    if Random(invocation().idempotency_key + str(invocation().attempt)).random() < 0.3:
        raise ValueError("now and then")
    return respond(Answer("maybe"))


HANDLERS = {"agent": agent, "tool": tool, "flaky": flaky, "vault": tool}


class Person:
    """Answers at once: most of the time yes, sometimes for good, sometimes no."""

    def __init__(self):
        self.asked_for = asyncio.Queue()

    def show(self, approval):
        self.asked_for.put_nowait(approval)

    async def answer(self, server):
        while True:
            approval = await self.asked_for.get()
            said = Random(approval.id).choice([Said.ONCE, Said.ONCE, Said.ALWAYS, Said.DENY])
            answered = ApprovalAnswer(approval.id, approval.digest, said, "person")
            try:
                if await server.answer(approval.delivery.conversation, answered):
                    tell("decided", approval.delivery.id)
            except EngineError:  # it cannot be kept at present: the person says it again
                await asyncio.sleep(0.05)
                self.show(approval)


def pump(engine, person):
    bound = {name: Callee(one, HANDLERS[name]) for name, one in SHOP.blueprint.listeners.items()}
    return Pump(SHOP, bound, engine, SystemClock(), hooks=PumpHooks(approver=person))


class Letter(NamedTuple):
    """A message under an id of its sender's."""

    own: str
    conversation: str
    number: int
    to: str


def unheard(path):
    """Read the letters of a diary whose senders got no answer."""
    known = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    heard = {line[1] for line in known if line[0] == "heard"}
    sent = [Letter(line[1], line[2], int(line[3]), line[4]) for line in known if line[0] == "sent"]
    return [letter for letter in sent if letter.own not in heard]


class Diary:
    """Messages that senders sent and answers that they got, in a file that outlives the process."""

    def __init__(self, path):
        self.path, self.unheard = path, unheard(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def sends(self, letter):
        self._write("sent", *letter)

    def heard(self, letter):
        self._write("heard", letter.own)

    def _write(self, *words):
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def encode_ask(number):
    return SHOP.codecs.of(Ask).encode(Ask(f"go {number}")).encode()


async def correspond(handle, letter, diary):
    """Send a letter, again if need be, and hear all that it is answered."""
    async for reply in handle.replies(encode_ask(letter.number), letter.to, request=letter.own):
        tell("accepted", reply.request)
        tell("kept", letter.own, reply.request)
        tell("reply", reply.request, int(reply.redelivered))
    diary.heard(letter)


async def fetch(server, diary, sender=SENDER):
    """Act as a returning gateway: resend unanswered messages, collect waiting ones."""
    async with anyio.create_task_group() as tasks:
        for key in await server.conversations_of(sender):
            tasks.start_soon(fetch_one, server, diary, key, sender)


async def fetch_one(server, diary, key, sender):
    handle = await server.resume(sender, key)
    try:
        for letter in [letter for letter in diary.unheard if letter.conversation == key]:
            await correspond(handle, letter, diary)
            diary.unheard.remove(letter)
        for event in handle.iter_waiting():
            tell("reply" if isinstance(event, Reply) else "ended", event.request, int(event.redelivered))
    finally:
        handle.detach()


async def sent(handle, data, to, own=None):
    """Send a message; gives its request. Raises NotStoredError when it was not kept: then its request is in no journal."""
    submitted = await handle.send(data, to, request=own)
    if isinstance(submitted.code, RejectReason):
        raise NotStoredError(submitted.code)
    return submitted.request


async def talk(server, random, number, diary, sender=SENDER):
    while True:
        await talk_once(server, random, number, diary, sender)


async def talk_once(server, random, number, diary, sender):
    """Hold one conversation, which can be resumed where it is refused anything."""
    handle = await server.open(sender)
    try:
        await hold(handle, random, number, diary)
    except (RuntimeError, LookupError, EngineError):
        handle.detach()
        raise


async def hold(handle, random, number, diary):
    """Send some messages; some answers are awaited, some not, some have an id."""
    data = encode_ask(number)
    for _ in range(random.randint(1, 4)):
        to = random.choice(["agent", "agent", "tool", "vault", "nobody"])
        own = f"{random.getrandbits(64):x}"
        letter = Letter(own, handle.id, number, to)
        if random.random() < 0.4:
            diary.sends(letter)
            if random.random() < 0.3:
                tell("kept", own, await sent(handle, data, to, own))
            await correspond(handle, letter, diary)
        elif random.random() < 0.3:
            tell("accepted", await sent(handle, data, random.choice(["agent", "tool"])))
        else:
            async for reply in handle.replies(data, to):
                tell("accepted", reply.request)
                tell("reply", reply.request, int(reply.redelivered))
    if random.random() < 0.3:
        await handle.close()
        tell("closed", handle.id)


async def main(path, load, seed):
    random, person = Random(seed), Person()
    engine = SqliteEngine(JournalOptions(path, Sync.FULL), SHOP.guards)
    async with engine, pump(engine, person) as server, anyio.create_task_group() as tasks:
        tasks.start_soon(person.answer, server)
        tell("open")
        diary = Diary(path.with_suffix(".diary"))
        if load:
            tasks.start_soon(fetch, server, diary)
        else:
            await fetch(server, diary)
            with anyio.fail_after(HANGS):
                await server._accounts.idle.wait()
                while server.approvals() or server._accounts.pending:  # noqa: ASYNC110 - two things to wait for
                    await asyncio.sleep(0.01)
            await fetch(server, diary)
            tell("rest")
            tasks.cancel_scope.cancel()
            return
        for number in range(24):
            tasks.start_soon(talk, server, random, number, diary)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] == "load", sys.argv[3]))
