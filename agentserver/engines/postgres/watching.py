"""News of conversations that other servers have.

Owns one statement that looks at all that gateways here look at, and at all in which something waits for a person. Hints
make the look earlier, or carry the latest events. Other events are read by gateways, after the place that they have.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from agentserver.core.messages import LAST, UNDECIDED, EventPlace
from agentserver.engines.postgres.arrivals import load_tail
from agentserver.engines.postgres.connection import DRIVER, AwayError, refused
from agentserver.engines.postgres.hints import LOOK_DUE, Topic
from agentserver.ports import News

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Sequence

    import asyncpg

    from agentserver.engines.postgres.arrivals import Tail
    from agentserver.engines.postgres.claims import Claims
    from agentserver.engines.postgres.connection import Link
    from agentserver.engines.postgres.hints import Hints

SOON, LATER = 0.25, 1.0
"""Seconds between two looks while a gateway looks at something, and while none does."""

EACH = 2000
"""Conversations that are looked at in a second at most, however often hints come."""

_LOOK = (
    "select c.id, c.version, c.closed is not null as over, c.asks > 0 and c.closed is null as asks,"
    " (select count(*) from @aside a where a.conversation = c.number) as asides,"
    " exists (select from @aside a where a.conversation = c.number and a.ended is null) as aside,"
    " (select s.version from @step s where s.conversation = c.number and s.events > 0"
    " order by s.version desc limit 1) as place"
    " from @conversation c where c.id = any($1::text[]) or (c.asks > 0 and c.closed is null)"
)


class Watching:
    """Looks for news.

    Args:
        link: for statements.
        claims: of this process, of which there is no news.
        hints: wake the look.
    """

    def __init__(self, link: Link, claims: Claims, hints: Hints) -> None:
        self._link, self._claims, self._hints = link, claims, hints

    async def news(self, wanted: Callable[[], Collection[str]]) -> AsyncIterator[News]:
        """Give the news of wanted conversations, and of each that begins or ceases to ask a person, for ever."""
        seen: dict[str, tuple[object, ...]] = {}
        asking: set[str] = set()
        loop, heard, look = asyncio.get_running_loop(), LOOK_DUE, 0.0
        while True:
            for tail in _tails(heard.data):
                if self._claims.held(tail.conversation) is None:
                    place = tail.events[-1].place if tail.events else tail.since
                    yield News(tail.conversation, place, over=False, since=tail.since, events=tail.events)
            if heard.look:
                keys = [key for key in wanted() if self._claims.held(key) is None]
                try:
                    rows = await self._link.fetch(_LOOK, keys)
                except AwayError:
                    rows = None
                except DRIVER as error:
                    raise refused(error) from error
                if rows is not None:
                    now = {row["id"] for row in rows if row["asks"]}
                    changed, asking = now ^ asking, now
                    for news in self._changed(rows, seen, changed):
                        yield news
                    seen = {row["id"]: _state(row) for row in rows}
                await asyncio.sleep(len(keys) / EACH)
                look = loop.time() + (SOON if keys else LATER)
            heard = await self._hints.until(Topic.NEWS, max(0.0, look - loop.time()))

    def _changed(
        self, rows: list[asyncpg.Record], seen: dict[str, tuple[object, ...]], changed: set[str]
    ) -> list[News]:
        there = {row["id"]: row for row in rows}
        found = [key for key, row in there.items() if seen.get(key) != _state(row)]
        return [
            _news(key, there.get(key), asks=key in changed)
            for key in dict.fromkeys([*found, *changed])
            if self._claims.held(key) is None
        ]


def _tails(heard: Sequence[str]) -> list[Tail]:
    """Read the events of hints. A look finds those of one that cannot be read."""
    found = []
    for text in heard:
        with suppress(ValueError):
            found.append(load_tail(text))
    return found


def _state(row: asyncpg.Record) -> tuple[object, ...]:
    return row["version"], row["over"], row["asks"], row["asides"], row["aside"]


def _news(key: str, row: asyncpg.Record | None, *, asks: bool) -> News:
    """Make the news of a conversation. What left when it was set aside has no place here."""
    if row is None:
        return News(key, UNDECIDED, asks)
    place = UNDECIDED if row["place"] is None or row["asides"] else EventPlace(row["place"], LAST)
    return News(key, place, asks, bool(row["over"] or row["aside"]))
