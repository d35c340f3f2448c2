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
        self._seen: dict[str, tuple[object, ...]] = {}
        self._asking: set[str] = set()

    async def news(self, wanted: Callable[[], Collection[str]]) -> AsyncIterator[News]:
        """Yield the news of wanted conversations, and of each that begins or ceases to ask a person, for ever."""
        loop, heard, look = asyncio.get_running_loop(), LOOK_DUE, 0.0
        while True:
            found = self._read_hints(heard.data)
            keys = [key for key in wanted() if self._claims.held(key) is None] if heard.look else []
            if heard.look:
                found += await self._look(keys)
            for news in found:
                yield news
            if heard.look:
                await asyncio.sleep(len(keys) / EACH)
                look = loop.time() + (SOON if keys else LATER)
            heard = await self._hints.until(Topic.NEWS, max(0.0, look - loop.time()))

    def _read_hints(self, data: Sequence[str]) -> list[News]:
        """Read the latest events of conversations from hints. A look finds those of a hint that cannot be read."""
        found = []
        for text in data:
            with suppress(ValueError):
                tail = load_tail(text)
                place = tail.events[-1].place if tail.events else tail.since
                news = News(tail.conversation, place, over=False, since=tail.since, events=tail.events)
                found.append(news)
        return [news for news in found if self._claims.held(news.conversation) is None]

    async def _look(self, keys: Sequence[str]) -> list[News]:
        """Look at some conversations and at all that ask a person. Raises EngineError."""
        try:
            rows = await self._link.fetch(_LOOK, keys)
        except AwayError:
            return []
        except DRIVER as error:
            raise refused(error) from error
        now = {row["id"] for row in rows if row["asks"]}
        changed, self._asking = now ^ self._asking, now
        news = self._changed(rows, self._seen, changed)
        self._seen = {row["id"]: _state(row) for row in rows}
        return news

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


def _state(row: asyncpg.Record) -> tuple[object, ...]:
    return row["version"], row["over"], row["asks"], row["asides"], row["aside"]


def _news(key: str, row: asyncpg.Record | None, *, asks: bool) -> News:
    """Make the news of a conversation. What left when it was set aside has no place here."""
    if row is None:
        return News(key, UNDECIDED, asks)
    place = UNDECIDED if row["place"] is None or row["asides"] else EventPlace(row["place"], LAST)
    return News(key, place, asks, bool(row["over"] or row["aside"]))
