"""The attacks, and the phases of work in flight at which they strike.

A phase is observed, in the database, in the log of calls or on the wire, before the attack begins; where it was not
seen in time the attack is made all the same and counted as such.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NamedTuple

from tests.crash.cluster.organism import LEASE
from tests.crash.cluster.stage import SEEN, Act, Stage
from tests.machine import HANGS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.crash.cluster.servers import Server

PLAN = (
    *(Act("kill a server", phase) for phase in ("claimed", "called", "committing", "releasing", "moving")),
    *(Act("kill the postmaster", phase) for phase in ("called", "committing", "moving")),
    *(Act("kill a backend", phase) for phase in ("claimed", "committing")),
    *(Act("promote the standby", phase) for phase in ("called", "committing", "moving")),
    *(Act("stop an owner", phase) for phase in ("called", "moving")),
    *(Act("cut the network", phase) for phase in ("committing", "claimed")),
    Act("black hole", "committing"),
    Act("fill the disk", "committing"),
    Act("upgrade", "releasing"),
)


class Phase(NamedTuple):
    """A phase that was reached. ``go_on`` releases the message that is held for it."""

    seen: bool
    go_on: Callable[[], None] | None = None


async def place(stage: Stage, phase: str, victim: Server, stack: AsyncExitStack) -> Phase:
    """Bring a victim to a phase and see it there."""
    victim.disturb()
    return await PHASES[phase](stage, victim, stack)


def errand(stack: AsyncExitStack, work: Awaitable[object]) -> asyncio.Future[object]:
    """Do something meanwhile, until its own end."""
    found = asyncio.ensure_future(work)
    stack.push_async_callback(asyncio.wait, [found], timeout=HANGS)
    return found


async def claimed(stage: Stage, victim: Server, stack: AsyncExitStack) -> Phase:
    """An idle conversation was claimed by the victim, and nothing else happened."""
    number = await stage.incarnation(victim)
    rows = await stage.fetch(
        "select id from agentserver.conversation where owner is null and closed is null and id = any($1)",
        stage.stock,
    )
    if rows:
        key = rows[0][0]
        errand(stack, stage.clients.send(key, "plain", own=stage.clients.number(), first=victim))
        return Phase(
            await stage.watch(
                "select 1 from agentserver.conversation where id = $1 and owner = $2", key, number
            )
        )
    rows = await stage.fetch("select id from agentserver.conversation where owner = $1", number)
    errand(stack, stage.clients.open(victim))
    begun = "select 1 from agentserver.conversation where owner = $1 and id <> all($2)"
    return Phase(await stage.watch(begun, number, [key for (key,) in rows]))


async def called(stage: Stage, victim: Server, stack: AsyncExitStack) -> Phase:
    """A handler of the victim works."""
    key = await stage.clients.open(victim)
    own, end = stage.clients.number(), time.monotonic() + SEEN
    errand(stack, stage.clients.send(key, "slow", own=own, first=victim))
    while f"{victim.name} desk" not in (
        line := next((x for x in stage.calls().splitlines() if x.endswith(own)), "")
    ):
        if line or time.monotonic() > end:
            return Phase(seen=False)  # another server has it, or nobody
        await asyncio.sleep(0.005)
    return Phase(seen=True)


async def committing(stage: Stage, victim: Server, stack: AsyncExitStack) -> Phase:
    """A commit of the victim is on its way, or its answer is."""
    key = await stage.clients.open(victim)
    forward = stage.clients.random.random() < 0.6
    waiting = asyncio.ensure_future(stage.proxies[victim].catch_commit(SEEN, forward=forward))
    await asyncio.sleep(0)
    errand(stack, stage.clients.send(key, "tool", own=stage.clients.number(), first=victim))
    go_on = await waiting
    if go_on is not None:
        stack.callback(go_on)
    return Phase(go_on is not None, go_on)


async def releasing(stage: Stage, victim: Server, stack: AsyncExitStack) -> Phase:
    """The victim gives back its idle conversations, or everything at its end."""
    del stack
    number = await stage.incarnation(victim)
    rows = await stage.fetch(
        "select id from agentserver.conversation where owner = $1 and id = any($2)", number, stage.stock
    )
    rested = "select 1 from agentserver.conversation where id = any($1) and owner is null"
    if rows and await stage.watch(rested, [key for (key,) in rows], within=12):
        return Phase(seen=True)
    victim.signal(signal.SIGTERM)
    gone = "select 1 from agentserver.server where incarnation = $1 and gone"
    return Phase(await stage.watch(gone, number))


async def moving(stage: Stage, victim: Server, stack: AsyncExitStack) -> Phase:
    """A message for a conversation of the victim waits in its inbox, written by another server."""
    key = await stage.clients.open(victim)
    victim.signal(signal.SIGSTOP)  # or it would be there for less than anyone can see
    stack.callback(victim.signal, signal.SIGCONT)
    errand(stack, stage.clients.send(key, "plain", own=stage.clients.number(), not_at=victim))
    return Phase(
        await stage.watch(
            "select 1 from agentserver.inbox where conversation = $1 and fate is null", key, within=3
        )
    )


PHASES = {each.__name__: each for each in (claimed, called, committing, releasing, moving)}


# Acts: each ends with everything running again, though not yet well.


async def probe(stage: Stage, victim: Server, act: Act) -> Callable[[], Awaitable[None]]:
    """Prepare conversations of a server; return a function that times their takeover."""
    # A server that was without the database a moment ago leaves others their leases for as long as one lasts.
    if act.phase not in {"committing", "releasing"}:
        await asyncio.sleep(LEASE + 0.5 - (time.monotonic() - stage.well))
    well = time.monotonic() - stage.well > LEASE
    kept = stage.takeovers if well else stage.takeovers_in_trouble
    keys = [await stage.clients.open(victim) for _ in range(3)]
    for key in keys:
        await stage.clients.send(key, "plain", own=stage.clients.number(), first=victim)

    async def measure() -> None:
        began = time.monotonic()

        async def one(key: str) -> None:
            found = None
            while found is None or found.status_code == 202:
                found = await stage.clients.send(key, "plain", own=stage.clients.number(), not_at=victim)
            kept.append((time.monotonic() - began, act))

        await asyncio.gather(*map(one, keys))

    return measure


async def kill_server(stage: Stage, victim: Server, phase: str, stack: AsyncExitStack) -> bool:
    """Kill a server, see how long it takes until others have its conversations, and start it again."""
    measure = await probe(stage, victim, Act("kill a server", phase))
    placed = await place(stage, phase, victim, stack)
    victim.kill()
    if phase == "releasing":  # it may have given them back
        errand(stack, measure())
    else:
        await measure()
    await asyncio.to_thread(victim.start)
    return placed.seen


async def stop_owner(stage: Stage, victim: Server, phase: str, stack: AsyncExitStack) -> bool:
    """Stop an owner for longer than its lease, and let it wake up."""
    measure = await probe(stage, victim, Act("stop an owner", phase))
    placed = await place(stage, phase, victim, stack)
    victim.signal(signal.SIGSTOP)
    try:
        await measure()
        await asyncio.sleep(stage.clients.random.random() * LEASE / 2)
    finally:
        victim.signal(signal.SIGCONT)
    return placed.seen


async def kill_postmaster(stage: Stage, victim: Server, phase: str, stack: AsyncExitStack) -> bool:
    """Kill the database with all its transactions, and start it again."""
    placed = await place(stage, phase, victim, stack)
    stage.disturb()
    await asyncio.to_thread(stage.pair.primary.kill)
    await asyncio.sleep(stage.clients.random.choice([0, 0, 1, LEASE]))
    await asyncio.to_thread(stage.pair.primary.revive)
    return placed.seen


async def kill_backend(stage: Stage, victim: Server, phase: str, stack: AsyncExitStack) -> bool:
    """Kill one backend, after which the database starts all of them again."""
    placed = await place(stage, phase, victim, stack)
    rows = await stage.fetch("select pid from pg_stat_activity where application_name = 'agentserver writer'")
    stage.disturb()
    if rows:
        os.kill(stage.clients.random.choice(rows)[0], signal.SIGKILL)
    return placed.seen and bool(rows)


async def promote(stage: Stage, victim: Server, phase: str, stack: AsyncExitStack) -> bool:
    """Let the machine of the primary die and promote the standby; then set up another standby."""
    await asyncio.to_thread(stage.pair.await_standby)
    placed = await place(stage, phase, victim, stack)
    stage.disturb()
    await asyncio.to_thread(stage.pair.promote)
    if placed.go_on is not None:
        placed.go_on()
    await asyncio.to_thread(stage.pair.follow)
    return placed.seen


async def cut(stage: Stage, victim: Server, phase: str, stack: AsyncExitStack) -> bool:
    """Cut every connection of one server to the database, and take none for a while."""
    placed = await place(stage, phase, victim, stack)
    proxy = stage.proxies[victim]
    victim.disturb()
    proxy.refuse(True)
    proxy.cut()
    await asyncio.sleep(stage.clients.random.choice([0.1, 1, LEASE + 1]))
    proxy.refuse(False)
    return placed.seen


async def swallow(stage: Stage, victim: Server, phase: str, stack: AsyncExitStack) -> bool:
    """Let nothing through to the database while connections stay open."""
    placed = await place(stage, phase, victim, stack)
    proxy = stage.proxies[victim]
    victim.disturb()
    proxy.swallow(True)
    await asyncio.sleep(stage.clients.random.choice([1, LEASE + 3, 2 * LEASE]))
    proxy.swallow(False)
    return placed.seen


async def fill(stage: Stage, victim: Server, phase: str, stack: AsyncExitStack) -> bool:
    """Fill the disk of the primary until something fails, then make room."""
    placed = await place(stage, phase, victim, stack)
    primary = stage.pair.primary
    stage.disturb()
    await asyncio.to_thread(primary.fill)
    if placed.go_on is not None:
        placed.go_on()
    await asyncio.sleep(3)
    await asyncio.to_thread(primary.empty)
    await asyncio.to_thread(primary.revive)
    return placed.seen


async def upgrade(stage: Stage, victim: Server, phase: str, stack: AsyncExitStack) -> bool:
    """Start the servers again one by one, as for another version of the code."""
    del victim, phase, stack
    for server in stage.servers:
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        server.disturb(ending=True)
    return True


ACTS: dict[str, Callable[[Stage, Server, str, AsyncExitStack], Awaitable[bool]]] = {
    "kill a server": kill_server,
    "kill the postmaster": kill_postmaster,
    "kill a backend": kill_backend,
    "promote the standby": promote,
    "stop an owner": stop_owner,
    "cut the network": cut,
    "black hole": swallow,
    "fill the disk": fill,
    "upgrade": upgrade,
}


async def perform(stage: Stage, act: Act) -> None:
    """Make one attack, and have everything run again after it."""
    victim = stage.clients.random.choice(stage.servers)
    async with AsyncExitStack() as stack:
        seen = await ACTS[act.name](stage, victim, act.phase, stack)
        if not seen:
            stage.unseen.append(act)
    await stage.recover()
