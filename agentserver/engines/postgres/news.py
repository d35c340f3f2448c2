"""Changes of conversations that other servers run, and batched queries about conversations.

One statement polls every conversation that gateways here watch, and every one in which something waits for a person.
Hints trigger the poll early, or carry the latest events. Gateways read other events themselves.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.messages import LAST, UNDECIDED, EventPlace
from agentserver.engines.journal.events import EVENT
from agentserver.engines.postgres.connection import (
    DRIVER,
    DatabaseAwayError,
    StatementFailure,
    classify,
    make_refusal,
)
from agentserver.engines.postgres.hints import LOOK_DUE, Topic, load_tail
from agentserver.ports import EngineError, RemoteStep
from agentserver.ports.engine import PAGE
from agentserver.supervision import run_errand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    import asyncpg

    from agentserver.engines.postgres.claims import Claims
    from agentserver.engines.postgres.connection import Link
    from agentserver.engines.postgres.hints import Hints


SOON, LATER = 0.25, 1.0
"""Seconds between two polls while a gateway watches something, and otherwise."""

EACH = 2000
"""Most conversations polled per second, regardless of hints."""

_LOOK = (
    "select c.id, c.version, c.closed is not null as over, c.asks > 0 and c.closed is null as asks,"
    " (select count(*) from @suspension a where a.conversation = c.number) as suspensions,"
    " exists (select from @suspension a where a.conversation = c.number and a.ended is null) as suspended,"
    " (select s.version from @step s where s.conversation = c.number and s.events > 0"
    " order by s.version desc limit 1) as place"
    " from @conversation c where c.id = any($1::text[]) or (c.asks > 0 and c.closed is null)"
)


class NewsPoller:
    """Poller for news.

    Args:
        link: for statements.
        claims: of this process; their conversations have no news.
        hints: trigger the poll.
    """

    def __init__(self, link: Link, claims: Claims, hints: Hints) -> None:
        self._link, self._claims, self._hints = link, claims, hints
        self._seen: dict[str, tuple[object, ...]] = {}
        self._asking: set[str] = set()

    async def news(self, list_keys: Callable[[], Collection[str]]) -> AsyncIterator[RemoteStep]:
        """Yield news of wanted conversations, and of each that begins or stops to wait for a person, in a loop."""
        loop, hints, look = asyncio.get_running_loop(), LOOK_DUE, 0.0
        while True:
            found = self._read_hints(hints.data)
            keys = (
                [key for key in list_keys() if self._claims.current_claim(key) is None] if hints.look else []
            )
            if hints.look:
                found += await self._look(keys)
            for news in found:
                yield news
            if hints.look:
                await asyncio.sleep(len(keys) / EACH)
                look = loop.time() + (SOON if keys else LATER)
            hints = await self._hints.wait(Topic.NEWS, max(0.0, look - loop.time()))

    def _read_hints(self, data: Sequence[str]) -> list[RemoteStep]:
        """Read the latest events from hints. A poll finds those of an unreadable hint."""
        found = []
        for text in data:
            with suppress(ValueError):
                tail = load_tail(text)
                place = tail.events[-1].place if tail.events else tail.since
                news = RemoteStep(tail.conversation, place, over=False, since=tail.since, events=tail.events)
                found.append(news)
        return [news for news in found if self._claims.current_claim(news.conversation) is None]

    async def _look(self, keys: Sequence[str]) -> list[RemoteStep]:
        """Poll some conversations and all that wait for a person. Raises EngineError."""
        try:
            rows = await self._link.fetch(_LOOK, keys)
        except DatabaseAwayError:
            return []
        except DRIVER as error:
            raise make_refusal(error) from error
        now = {row["id"] for row in rows if row["asks"]}
        changed, self._asking = now ^ self._asking, now
        news = self._find_changes(rows, self._seen, changed)
        self._seen = {row["id"]: _collect_state(row) for row in rows}
        return news

    def _find_changes(
        self, rows: list[asyncpg.Record], seen: dict[str, tuple[object, ...]], changed: set[str]
    ) -> list[RemoteStep]:
        by_id = {row["id"]: row for row in rows}
        found = [key for key, row in by_id.items() if seen.get(key) != _collect_state(row)]
        return [
            _make_news(key, by_id.get(key), asks=key in changed)
            for key in dict.fromkeys([*found, *changed])
            if self._claims.current_claim(key) is None
        ]


def _collect_state(row: asyncpg.Record) -> tuple[object, ...]:
    return row["version"], row["over"], row["asks"], row["suspensions"], row["suspended"]


def _make_news(key: str, row: asyncpg.Record | None, *, asks: bool) -> RemoteStep:
    """Make the news of a conversation. Events of a suspension have no place."""
    if row is None:
        return RemoteStep(key, UNDECIDED, asks)
    place = UNDECIDED if row["place"] is None or row["suspensions"] else EventPlace(row["place"], LAST)
    return RemoteStep(key, place, asks, bool(row["over"] or row["suspended"]))


AT_ONCE = 16
"""Most queries that one statement answers, each with up to ``PAGE`` bytes."""

MOST = 64
"""Most events of one conversation read at once."""

PATIENCE, PAUSE = 5.0, 0.1
"""Seconds for which a query waits for an unreachable database, and between two attempts."""

STANDING = (
    "select n.number, c.principal, c.closed is not null or exists"
    " (select from @suspension a where a.conversation = c.number and a.ended is null) as over"
    " from unnest($1::int[], $2::text[]) as n(number, id) join @conversation c on c.id = n.id"
)
"""Finds the principal of a conversation, and whether it is closed or suspended."""
_OF_STEPS = (
    f"select {EVENT} from @step s join @event e"  # noqa: S608 - our own text
    " on e.number >= s.first_event and e.number < s.first_event + s.events and e.conversation = s.conversation"
    " where s.conversation = c.number and s.version >= n.version and s.events > 0"
    f" and (e.version, e.position) > (n.version, n.position) order by s.version, e.number limit {MOST}"
)
_OF_SUSPENDED = (
    f"select {EVENT} from @suspension a join @event e"  # noqa: S608 - our own text
    " on e.number >= a.first_event and e.number < a.first_event + a.events and e.conversation = a.conversation"
    " where a.conversation = c.number and (e.version, e.position) > (n.version, n.position)"
    f" order by e.version, e.position limit {MOST}"
)
LEFT = (
    "select n.number, e.* from unnest($1::int[], $2::text[], $3::bigint[], $4::bigint[])"  # noqa: S608
    " as n(number, id, version, position) join @conversation c on c.id = n.id"
    " left join lateral (select f.*, row_number() over following as place,"
    " sum(coalesce(octet_length(f.message), 0)) over following as size"
    f" from (({_OF_STEPS}) union all ({_OF_SUSPENDED})) f"
    " window following as (order by f.version, f.position)) e"
    f" on e.place = 1 or e.size <= {PAGE} order by n.number, e.version, e.position"
)
"""Reads events after a place, up to ``PAGE`` bytes.

Returns a row without a version if there are none, and no row for an unknown conversation."""


class PendingQuery(NamedTuple):
    """Query that waits for its rows."""

    values: Sequence[str | int]
    answer: asyncio.Future[list[asyncpg.Record]]


class QueryBatch:
    """Batch of concurrent queries of one kind, which share a statement.

    Args:
        link: for the statement.
        text: selects rows by a list of query numbers and lists of values; its first column is the query number.
    """

    def __init__(self, link: Link, text: str) -> None:
        self._link, self._text = link, text
        self._due: list[PendingQuery] = []
        self._asking: asyncio.Task[None] | None = None

    async def ask(self, *values: str | int) -> list[asyncpg.Record]:
        """Query the rows for some values. Raises EngineError."""
        answer: asyncio.Future[list[asyncpg.Record]] = asyncio.get_running_loop().create_future()
        self._due.append(PendingQuery(values, answer))
        if self._asking is None or self._asking.done():
            self._asking = run_errand(self._ask_all(), "runs batched queries")
        return await answer

    async def _ask_all(self) -> None:
        while self._due:
            due, self._due = self._due[:AT_ONCE], self._due[AT_ONCE:]
            try:
                await self._ask(due)
            finally:
                _fail(due, EngineError("the engine is closed"))

    async def _ask(self, due: Sequence[PendingQuery]) -> None:
        found: defaultdict[int, list[asyncpg.Record]] = defaultdict(list)
        try:
            for row in await self._fetch([one.values for one in due]):
                found[row[0]].append(row)
        except (EngineError, *DRIVER) as error:
            if len(due) > 1 and classify(error) is StatementFailure.ROW:  # one of them has invalid values
                for one in due:
                    await self._ask([one])
                return
            _fail(due, make_refusal(error))
        for number, one in enumerate(due):
            if not one.answer.done():
                one.answer.set_result(found[number])

    async def _fetch(self, questions: Sequence[Sequence[str | int]]) -> list[asyncpg.Record]:
        """Run the statement, and retry for a while if the database is unreachable."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        columns = [list(column) for column in zip(*questions, strict=True)]
        while True:
            try:
                return await self._link.fetch(self._text, [*range(len(questions))], *columns)
            except DatabaseAwayError:
                if loop.time() > end:
                    raise
                await asyncio.sleep(PAUSE)

    def end(self) -> None:
        """Fail pending queries."""
        if self._asking is not None:
            self._asking.cancel()
        _fail(self._due, EngineError("the engine is closed"))


def _fail(due: Sequence[PendingQuery], error: EngineError) -> None:
    """Fail unanswered queries."""
    for one in due:
        if not one.answer.done():
            one.answer.set_exception(error)
