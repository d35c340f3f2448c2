"""Sums of the conversations that were opened in a time, by interval, principal and listener, computed in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from agentserver.core.encoding.history import MOST_NAMES, ActivitySum
from agentserver.core.state.principals import is_scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from agentserver.engines.journal.connection import Connection

_FIGURES: Final = (
    "count(*), cast(coalesce(sum(c.tokens), 0) as bigint), cast(coalesce(sum(c.money), 0) as bigint),"
    " coalesce(sum(c.touched - c.opened), 0.0), coalesce(max(c.touched - c.opened), 0.0)"
)
_MARKED: Final = (
    "from facet f join conversation c on c.number = f.conversation{} where f.kind = 'mark'"
    " and f.value in ('refused', 'failed') and {}"
)
_LISTENER: Final = " join facet l on l.conversation = f.conversation and l.kind = 'listener'"
_NEXT_LISTENER: Final = "select min(value) from facet where kind = 'listener' and value > ?"


class Activity:
    """Sums of conversations, read from the indexes of ``conversation`` and ``facet`` by the time of opening.

    Args:
        connection: to the journal.
        since: seconds since the epoch.
        until: the same, exclusive.
        owner: a principal or tenant; empty for all.
    """

    def __init__(self, connection: Connection, since: float, until: float, owner: str) -> None:
        self._connection, self._since, self._until, self._owner = connection, since, until, owner

    def sums(self, parts: int) -> tuple[ActivitySum, ...]:
        """Sum up by interval, then by principal, then by listener."""
        return (*self._sum_times(parts), *self._sum_principals(), *self._sum_listeners())

    def _sum_times(self, parts: int) -> Iterator[ActivitySum]:
        width = (self._until - self._since) / parts
        for at in range(parts):
            first = self._since + width * at
            last = self._until if at == parts - 1 else first + width
            ((count, *figures),) = self._query(
                f"select {_FIGURES} from conversation c where {self._write_condition('c')}",  # noqa: S608 - our own text
                first,
                last,
            )
            marks = self._count_marks("''", "", first, last) if count else {}
            counts = (count, marks.get(("", "refused"), 0), marks.get(("", "failed"), 0))
            yield ActivitySum("time", "", first, *counts, *figures)  # type: ignore[arg-type]

    def _sum_principals(self) -> list[ActivitySum]:
        marks = self._count_marks("c.principal", "", self._since, self._until)
        rows = self._query(
            f"select c.principal, {_FIGURES} from conversation c where {self._write_condition('c')}"  # noqa: S608 - our own text
            f" group by c.principal order by count(*) desc, c.principal limit {MOST_NAMES:d}",
            self._since,
            self._until,
        )
        return [self._make_sum("principal", row, marks) for row in rows]

    def _sum_listeners(self) -> list[ActivitySum]:
        marks = self._count_marks("l.value", _LISTENER, self._since, self._until)
        found = []
        for name in self._list_listeners():
            ((count, *figures),) = self._query(
                f"select {_FIGURES} from facet f join conversation c on c.number = f.conversation"  # noqa: S608 - our own text
                f" where f.kind = 'listener' and f.value = ?3 and {self._write_condition('f', 4)}",
                self._since,
                self._until,
                name,
            )
            if count:
                found.append(self._make_sum("listener", (name, count, *figures), marks))
        return sorted(found, key=lambda one: (-one.conversations, one.name))[:MOST_NAMES]

    def _list_listeners(self) -> Iterator[str]:
        """List the names of listeners by one look into the index for each."""
        name: str | None = ""
        while True:
            ((name,),) = self._connection.execute(_NEXT_LISTENER, (name,)).fetchall()
            if name is None:
                return
            yield name

    def _count_marks(self, name: str, join: str, first: float, last: float) -> dict[tuple[str, str], int]:
        """Count refused and failed conversations by an expression for a name."""
        marked = _MARKED.format(join, self._write_condition("f"))
        rows = self._query(f"select {name}, f.value, count(*) {marked} group by 1, 2", first, last)
        return {(str(key), str(mark)): int(count) for key, mark, count in rows}  # type: ignore[call-overload]

    def _make_sum(
        self, kind: str, row: Sequence[object], marks: Mapping[tuple[str, str], int]
    ) -> ActivitySum:
        key, count, *figures = row
        name = str(key)
        counts = (count, marks.get((name, "refused"), 0), marks.get((name, "failed"), 0))
        return ActivitySum(kind, name, self._since, *counts, *figures)  # type: ignore[arg-type]

    def _write_condition(self, table: str, place: int = 3) -> str:
        """Write the condition on the time of opening, and on the owner at a place."""
        text = f"{table}.opened >= cast(?1 as double precision) and {table}.opened < cast(?2 as double precision)"
        if not self._owner:
            return text
        owner = f"cast(?{place} as text)"
        scoped = f" or substr(c.principal, 1, length({owner})) = {owner}" if is_scope(self._owner) else ""
        return f"{text} and (c.principal = {owner}{scoped})"

    def _query(self, text: str, *values: object) -> list[tuple[object, ...]]:
        return self._connection.execute(text, (*values, *([self._owner] if self._owner else []))).fetchall()
