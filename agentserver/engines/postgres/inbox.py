"""The inbox: what processes hand in for conversations of other processes, and the fates of it.

Each poll is one statement. Hints trigger it early, or carry its result: an arrival, its fate, or the latest events.
A message for an owner that is known goes in a hint alone, and is stored if its fate does not come back soon.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agentserver.core.messages import LAST, Cancellation, EventPlace, OutsideMessage, Reply
from agentserver.engines.postgres.claims import FREE
from agentserver.engines.postgres.connection import (
    DRIVER,
    DatabaseAwayError,
    StatementFailure,
    classify,
    make_refusal,
)
from agentserver.engines.postgres.hints import (
    LOOK_DUE,
    PendingArrival,
    Tail,
    Topic,
    dump_arrival,
    dump_arrival_hint,
    dump_fate,
    dump_fate_hint,
    dump_tail,
    load_arrival,
    load_arrival_hint,
    load_fate,
    load_fate_hint,
)
from agentserver.ports import ArrivalOutcome, EngineError, UnstorableError
from agentserver.supervision import run_errand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    import asyncpg

    from agentserver.core.messages import Done
    from agentserver.core.records.outcome import Outcome
    from agentserver.engines.postgres.claims import Claims
    from agentserver.engines.postgres.connection import Link
    from agentserver.engines.postgres.hints import Hints
    from agentserver.engines.postgres.leases import Lease
    from agentserver.ports import Arrival

T = TypeVar("T")

SOON, LATER = 0.25, 1.0
"""Seconds between two polls while arrivals are expected, and otherwise."""

BUSY = 10.0
"""Seconds after an arrival during which others are expected."""

PATIENCE = 5.0
"""Seconds for which an arrival is resent to an unresponsive database."""

AT_ONCE = 256
"""Most arrivals that one statement reads or stores."""

ASKED = 64
"""Most requests of a conversation whose askers are remembered."""

LAZY = 0.1
"""Seconds for which fates are collected into one statement; a hint reaches the waiting server earlier."""

REMEMBERED = 1_000
"""Most settled arrivals whose fates are remembered, since a hint about one, or its row, may come late."""

GRACE = 1.0
"""Seconds that a message in a hint has for its fate before it is stored."""

DEAF = 10.0
"""Seconds for which arrivals for an owner that did not answer a hint are stored at once, unless it answers late."""

OWNERS = 10_000
"""Most conversations whose owners are remembered."""

JOINED = 0.1
"""Seconds for which the fate of an accepted message waits for its first answer, so that one statement sends both."""

EVENTS, BYTES = 4, 4_000
"""Most events in a hint, and most bytes of their messages."""

KEPT = 3600.0
"""Seconds for which a fate is kept to recognize a repeated arrival."""

_HAND_IN = (
    "with new as (select * from unnest($2::text[], $3::text[], $4::bytea[]) as n(id, conversation, content)),"  # noqa: S608
    " kept as (insert into @inbox (id, conversation, asker, content) select id, conversation, $1, content from new"
    " on conflict (id) do nothing)"
    f" select distinct new.conversation, case when {FREE} then null else c.owner end as owner"
    " from new left join @conversation c on c.id = new.conversation"
)
"""Returns the live server that owns each conversation, or null."""
_LOOK = (
    "select i.id, i.conversation, i.content, i.asker, c.number is null or c.closed is not null as over"  # noqa: S608 - our own texts
    " from @inbox i left join @conversation c on c.id = i.conversation"
    f" where i.fate is null and i.id <> all($2::text[]) and (c.owner = $1 or c.closed is not null or {FREE})"
    " order by i.place limit $3"
)
_SETTLE = (
    "update @inbox i set fate = f.fate, content = '', at = clock_timestamp()"
    " from unnest($1::text[], $2::text[]) as f(id, fate) where i.id = f.id and i.fate is null"
)
_FATES = "select id, fate from @inbox where id = any($1::text[]) and fate is not null"
_FORGET = "delete from @inbox where fate is not null and at < clock_timestamp() - $1 * interval '1 second'"

logger = logging.getLogger("agentserver.journal")


class DueOutcome(NamedTuple):
    """Fate that is about to be sent."""

    pending: PendingArrival
    key: str
    fate: ArrivalOutcome


class Inbox:
    """Inbox of one process.

    Args:
        links: for polling and for writing, so that a poll need not wait for a commit.
        lease: of this process.
        claims: of this process.
        hints: to other processes, and from them.
    """

    def __init__(self, links: tuple[Link, Link], lease: Lease, claims: Claims, hints: Hints) -> None:
        (self._link, self._writing), self._lease, self._claims, self._hints = links, lease, claims, hints
        self._due: list[tuple[Arrival, bytes, asyncio.Future[None]]] = []
        self._keeping: asyncio.Task[None] | None = None
        self._fate_futures: defaultdict[str, list[asyncio.Future[ArrivalOutcome]]] = defaultdict(list)
        self._stored: set[str] = set()
        self._owners: dict[str, int] = {}
        self._deaf: dict[int, float] = {}
        self._late: dict[str, int] = {}
        self._pending: dict[str, PendingArrival] = {}
        self._known: dict[str, ArrivalOutcome] = {}
        self._joining: dict[str, list[DueOutcome]] = {}
        self._tails: dict[str, Tail] = {}
        self._settled: dict[str, ArrivalOutcome] = {}
        self._settling = asyncio.Event()
        self._askers: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._over = False

    # Askers

    async def hand_in(self, arrival: Arrival) -> asyncio.Future[ArrivalOutcome]:
        """Submit an arrival: once this returns it is stored or decided. Returns the future of its fate.

        Raises EngineError.
        """
        if self._lease.unaccepted:
            raise EngineError(f"steps are missing in the database (noticed by {self._lease.unaccepted})")
        fate: asyncio.Future[ArrivalOutcome] = asyncio.get_running_loop().create_future()
        self._fate_futures[arrival.id].append(fate)
        with ExitStack() as undo:
            undo.callback(fate.cancel)
            if not await self._is_decided(arrival, fate):
                await self._store(arrival)
            undo.pop_all()
        return fate

    async def _is_decided(self, arrival: Arrival, fate: asyncio.Future[ArrivalOutcome]) -> bool:
        """Send a message to its owner in a hint. Returns whether its fate comes in time.

        Only a message with a key, by which each owner recognizes one that another has decided.
        """
        loop, owner = asyncio.get_running_loop(), self._owners.get(arrival.conversation)
        keyed = isinstance(arrival.content, OutsideMessage) and arrival.content.key is not None
        if (
            owner is None
            or not keyed
            or not self._hints.listening
            or self._deaf.get(owner, 0.0) > loop.time()
        ):
            return False
        data = _dump(dump_arrival_hint, arrival, self._lease.incarnation, stored=False)
        if not self._hints.tell(owner, Topic.INBOX, data):
            return False
        await asyncio.wait((fate,), timeout=GRACE)
        if fate.cancelled():
            raise EngineError("the engine is closed")
        if fate.done():
            return True
        self.forget_owner(arrival.conversation)
        self._deaf = {key: end for key, end in self._deaf.items() if end > loop.time()}
        self._deaf[owner] = loop.time() + DEAF
        self._late[arrival.id] = owner
        if len(self._late) > REMEMBERED:
            del self._late[next(iter(self._late))]
        return False

    def forget_owner(self, conversation: str) -> None:
        """Store the next arrival for a conversation, whose owner may be another one by now."""
        self._owners.pop(conversation, None)

    def _note_owner(self, conversation: str, owner: int) -> None:
        self._owners[conversation] = owner
        if len(self._owners) > OWNERS:
            del self._owners[next(iter(self._owners))]

    async def _store(self, arrival: Arrival) -> None:
        data = _dump(dump_arrival, arrival)
        stored = asyncio.get_running_loop().create_future()
        self._due.append((arrival, data, stored))
        if self._keeping is None or self._keeping.done():
            self._keeping = run_errand(self._keep_all(), "stores arrivals")
        await stored
        self._stored.add(arrival.id)

    async def _keep_all(self) -> None:
        """Store due arrivals, in a separate task: cancelling one caller must not affect the others."""
        loop = asyncio.get_running_loop()
        while self._due:
            due, self._due = self._due[:AT_ONCE], self._due[AT_ONCE:]
            try:
                await self._keep(due, loop.time() + PATIENCE)
            finally:
                _fail(due, EngineError("the engine is closed"))

    async def _keep(self, due: list[tuple[Arrival, bytes, asyncio.Future[None]]], end: float) -> None:
        columns = (
            [one.id for one, _, _ in due],
            [one.conversation for one, _, _ in due],
            [data for _, data, _ in due],
        )
        try:
            owners = await self._hand_in(columns, end)
        except (EngineError, *DRIVER) as error:
            if len(due) > 1 and classify(error) is StatementFailure.ROW:
                for one in due:
                    await self._keep([one], end)
                return
            _fail(due, make_refusal(error))
            return
        for _, _, stored in due:
            if not stored.done():
                stored.set_result(None)
        of = dict(owners)
        for arrival, _, _ in due:
            owner = of[arrival.conversation]
            if owner is None:
                self._hints.stir(Topic.INBOX)
            else:
                self._note_owner(arrival.conversation, owner)
                data = dump_arrival_hint(arrival, self._lease.incarnation, stored=True)
                self._hints.tell(owner, Topic.INBOX, data)

    async def _hand_in(self, columns: tuple[Any, ...], end: float) -> list[asyncpg.Record]:
        """Send arrivals, and resend them if unanswered: each is stored once under its id."""
        while True:
            try:
                return await self._writing.fetch(_HAND_IN, self._lease.incarnation, *columns)
            except DatabaseAwayError:
                if self._over or asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(SOON)

    async def watch_fates(self) -> None:
        """Poll for the fates of arrivals from this process, in a loop."""
        loop, hints, look = asyncio.get_running_loop(), LOOK_DUE, 0.0
        while True:
            try:
                for key, fate in map(load_fate_hint, hints.data):
                    self._tell(key, fate)
                    self._deaf.pop(self._late.pop(key, 0), None)  # its owner is slow, but hears hints
                if hints.look:
                    look = loop.time() + SOON
                    await self._read_fates()
            except (EngineError, ValueError, *DRIVER) as error:
                logger.warning("fates cannot be read: %s", error)
            hints = await self._hints.wait(Topic.FATES, max(0.0, look - loop.time()))

    async def _read_fates(self) -> None:
        unanswered = [
            key for key, futures in self._fate_futures.items() if not all(one.done() for one in futures)
        ]
        self._fate_futures = defaultdict(list, {key: self._fate_futures[key] for key in unanswered})
        self._stored.intersection_update(unanswered)
        for key, text in await self._link.fetch(_FATES, [*self._stored]) if self._stored else ():
            self._tell(key, load_fate(text))

    def _tell(self, key: str, fate: ArrivalOutcome) -> None:
        for future in self._fate_futures.pop(key, ()):
            if not future.done():
                future.set_result(fate)

    # Owners

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """Yield arrivals for conversations of this process, ordered within each, until the engine closes."""
        loop, busy_until, look = asyncio.get_running_loop(), 0.0, 0.0
        hints = LOOK_DUE
        while not self._over:
            found: list[Arrival] = []
            hinted, unclear = self._read_hints(hints.data, looking=hints.look)
            if hints.look or unclear:
                try:
                    found = await self._find()
                except DatabaseAwayError:
                    pass
                except (EngineError, *DRIVER) as error:
                    logger.warning("the inbox cannot be read: %s", error)
                if found:
                    busy_until = loop.time() + BUSY
                look = loop.time() + (SOON if loop.time() < busy_until else LATER)
            for arrival in (*found, *hinted):
                yield arrival
            full = len(found) >= AT_ONCE
            hints = LOOK_DUE if full else await self._hints.wait(Topic.INBOX, max(0.0, look - loop.time()))

    async def _find(self) -> list[Arrival]:
        """Poll for arrivals, and claim their ownerless conversations."""
        rows = await self._look()
        if await self._adopt(rows):
            rows = await self._look()
        return self._read(rows)

    def _read_hints(self, texts: Sequence[str], *, looking: bool) -> tuple[list[Arrival], bool]:
        """Return new arrivals in hints, and whether a poll is needed. While polling, it finds the stored ones."""
        found, unclear = [], False
        for text in texts:
            try:
                pending, arrival = load_arrival_hint(text)
            except (ValueError, TypeError, LookupError, AttributeError):  # the poll reports the faulty row
                unclear = True
                continue
            if arrival.id in self._pending:
                self._pending[arrival.id] = self._pending[arrival.id]._replace(stored=pending.stored)
            elif arrival.id in self._known:
                self._settle_again(arrival.id, pending)
            elif pending.stored and (looking or unclear):
                continue
            elif self._claims.current_claim(arrival.conversation) is not None:
                self._give(arrival, pending)
                found.append(arrival)
            elif pending.stored:
                unclear = True
        return found, unclear

    def _give(self, arrival: Arrival, pending: PendingArrival) -> None:
        self._pending[arrival.id] = pending
        self._note_asker(arrival, pending.asker)

    def _settle_again(self, key: str, pending: PendingArrival) -> None:
        """Repeat the fate of an arrival that was decided before."""
        self._pending[key] = pending
        self.settle(key, self._known[key])

    async def _look(self) -> list[asyncpg.Record]:
        return await self._link.fetch(_LOOK, self._lease.incarnation, [*self._pending], AT_ONCE)

    async def _adopt(self, rows: list[asyncpg.Record]) -> bool:
        """Claim ownerless conversations with arrivals. Returns whether there are any."""
        orphans = {row["conversation"] for row in rows if not self._decidable(row)}
        if orphans:
            await self._claims.adopt(orphans)
        return bool(orphans)

    def _decidable(self, row: asyncpg.Record) -> bool:
        return row["over"] or self._claims.current_claim(row["conversation"]) is not None

    def _read(self, rows: list[asyncpg.Record]) -> list[Arrival]:
        found = []
        for row in rows:
            key, conversation, content, asker, _ = row
            if key in self._pending or not self._decidable(row):
                continue
            pending = PendingArrival(conversation, asker, stored=True)
            if key in self._known:
                self._settle_again(key, pending)
                continue
            try:
                arrival = load_arrival(key, conversation, content)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                logger.error("an arrival for conversation %s cannot be read: %s", conversation, error)  # noqa: TRY400 - the text says it all
                self._pending[key] = pending
                self.settle(key, ArrivalOutcome("unkept"))
            else:
                found.append(arrival)
                self._give(arrival, pending)
        return found

    def _note_asker(self, arrival: Arrival, asker: int) -> None:
        """Remember the server that waits for a request's events."""
        if isinstance(arrival.content, OutsideMessage | Cancellation):
            askers = self._askers[arrival.conversation]
            askers[arrival.content.request] = asker
            if len(askers) > ASKED:
                del askers[next(iter(askers))]

    def notify_askers(self, outcome: Outcome) -> None:
        """Send a step's events to the servers that wait for them, or that its conversation is closed."""
        key = outcome.conversation.id
        askers = self._askers.get(key)
        if not askers:
            return
        tail = self._tails[key] = _extend(self._tails.get(key), outcome)
        if outcome.conversation.closed:
            for asker in set(askers.values()):
                self._hints.tell(asker, Topic.NEWS)
        for asker in {askers[event.request] for event in outcome.replies if event.request in askers}:
            self._hints.tell(asker, Topic.NEWS, dump_tail(tail))
        if outcome.replies:
            self._send_fates(key, notified={event.request for event in outcome.replies})

    def settle(self, key: str, fate: ArrivalOutcome) -> None:
        """Record the fate of an arrival, without waiting until it is written."""
        pending = self._pending.get(key)
        if pending is None or pending.stored:
            self._settled[key] = fate
            self._settling.set()
        else:
            self._note_known(key, fate)
        if pending is None:
            return
        due, conversation = DueOutcome(pending, key, fate), pending.conversation
        tail = self._tails.get(conversation)
        answered = tail is not None and any(event.request == fate.request for event in tail.events)
        if fate.word or fate.again or answered or not fate.request:
            self._send_fate(due, notified=answered)
            return
        self._joining.setdefault(conversation, []).append(due)
        if len(self._joining[conversation]) == 1:
            asyncio.get_running_loop().call_later(JOINED, self._send_fates, conversation)

    def _send_fates(self, conversation: str, notified: Collection[str] = ()) -> None:
        """Send fates that wait for answers; ``notified`` are the requests whose answers were just sent."""
        for due in self._joining.pop(conversation, ()):
            self._send_fate(due, notified=due.fate.request in notified)

    def _send_fate(self, due: DueOutcome, *, notified: bool) -> None:
        tail = self._tails.get(due.pending.conversation)
        if tail is not None and not notified:  # sent first, so that the waiting server knows all events
            self._hints.tell(due.pending.asker, Topic.NEWS, dump_tail(tail))
        self._hints.tell(due.pending.asker, Topic.FATES, dump_fate_hint(due.key, due.fate))

    def _note_known(self, key: str, fate: ArrivalOutcome) -> None:
        """Remember the fate of a settled arrival."""
        self._pending.pop(key, None)
        self._known[key] = fate
        if len(self._known) > REMEMBERED:
            del self._known[next(iter(self._known))]

    async def write_fates(self) -> None:
        """Write recorded fates, in a loop."""
        while True:
            await self._settling.wait()
            await asyncio.sleep(LAZY)
            self._settling.clear()
            await self._write()
            if self._settled:  # the database is away
                self._settling.set()

    async def flush(self) -> None:
        """Send and write recorded fates. Those that cannot be written stay recorded."""
        for conversation in [*self._joining]:
            self._send_fates(conversation)
        await self._write()

    async def _write(self) -> None:
        due = dict(self._settled)
        if not due:
            return
        try:
            await self._writing.fetch(_SETTLE, [*due], [dump_fate(fate) for fate in due.values()])
        except (EngineError, *DRIVER) as error:
            logger.warning("fates cannot be written: %s", error)
            return
        for key, fate in due.items():
            self._settled.pop(key, None)
            self._note_known(key, fate)

    def forget(self, conversations: frozenset[str]) -> None:
        """Leave the arrivals of released conversations to the next owner."""
        for key in [key for key, pending in self._pending.items() if pending.conversation in conversations]:
            if key not in self._settled:
                del self._pending[key]
        for conversation in conversations:
            self._askers.pop(conversation, None)
            self._tails.pop(conversation, None)

    async def expire(self) -> None:
        """Delete old fates. Raises EngineError and asyncpg's errors."""
        await self._writing.fetch(_FORGET, KEPT)

    def end(self) -> None:
        """End ``arrivals``, and cancel the futures of unknown fates."""
        self._over = True
        if self._keeping is not None:
            self._keeping.cancel()
        for _, _, stored in self._due:
            stored.cancel()
        for futures in self._fate_futures.values():
            for future in futures:
                future.cancel()
        self._fate_futures.clear()
        self._hints.stir(Topic.INBOX)


def _extend(tail: Tail | None, outcome: Outcome) -> Tail:
    """Append a step's events to a conversation's latest ones, and drop the earliest beyond the limits."""
    conversation, before = outcome.conversation, outcome.before
    known = tail is not None and tail.version == before
    since, events = (
        (tail.since, tail.events) if tail is not None and known else (EventPlace(before, LAST), ())
    )
    events += outcome.replies
    while len(events) > EVENTS or sum(map(_compute_size, events)) > BYTES:
        since, events = events[0].place, events[1:]
    return Tail(conversation.id, conversation.version, since, events)


def _compute_size(event: Reply | Done) -> int:
    return len(event.message) if isinstance(event, Reply) else 0


def _dump(dump: Callable[..., T], arrival: Arrival, *values: int, **keywords: bool) -> T:
    """Encode an arrival. Raises UnstorableError."""
    try:
        return dump(arrival, *values, **keywords)
    except (TypeError, ValueError) as error:
        raise UnstorableError(f"an arrival that cannot be written: {error}") from error


def _fail(due: Sequence[tuple[Arrival, bytes, asyncio.Future[None]]], error: EngineError) -> None:
    """Fail unanswered arrivals."""
    for _, _, stored in due:
        if not stored.done():
            stored.set_exception(error)
