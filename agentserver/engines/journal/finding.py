"""Searches for conversations: conditions as SQL, pages by a cursor, and the stored search terms.

The table ``facet`` has what a step adds, written when it is new for its conversation. ``wordlist`` has the words of the
messages since the previous row of the conversation, written when it comes to rest: see ``step_rows.py``. SQLite indexes
the words with FTS5, Postgres as a tsvector.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final

from agentserver.core.encoding.codecs import read_stored_records
from agentserver.core.encoding.history import ConversationPage, ListedConversation, Summary
from agentserver.core.encoding.search import Facet, find_words, list_facets, split_words
from agentserver.core.state.principals import is_scope
from agentserver.engines.journal.walking import STEPS, STEPS_UNTIL
from agentserver.history.filters import FACETS, STARTS, format_cursor, parse_cursor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from decimal import Decimal

    from agentserver.core.encoding.history import Condition, ConversationFilter, RecordedConversation
    from agentserver.engines.journal.connection import Connection

MESSAGES: Final = 64
"""Messages of a conversation after which their words are stored before it rests."""

LAST_INDEXED: Final = 1 << 20
"""Version of a conversation from which on its words are not stored."""

SQLITE_WORDS: Final = "c.number in (select rowid >> 20 from wordindex where wordindex match {})"
_FREQUENT: Final = (
    "exists (select 1 from wordindex where wordindex match {}"
    " and rowid >= c.number << 20 and rowid < (c.number + 1) << 20)"
)
"""The test for a frequent word in SQLite, which looks at one conversation after the other until the page is full."""

FREQUENT: Final = 5_000
"""Rows from which on a word is frequent."""

POSTGRES_WORDS: Final = (
    "c.number in (select w.conversation from wordlist w"
    " where array_to_tsvector(string_to_array(w.words, ' ')) @@ cast({} as tsquery))"
)
"""The test for a word at ``{}``, which has letters and digits only: neither query language reads it as syntax."""

_SUSPENDED: Final = "select conversation from suspension where ended is null"
_STATES: Final = {
    "open": f"c.closed is null and c.number not in ({_SUSPENDED})",
    "suspended": f"c.number in ({_SUSPENDED})",
    "finished": f"c.closed is not null and c.number not in ({_SUSPENDED})",
}
_WAITING: Final = "(select count(*) from queue q where q.conversation = c.number and q.delayed = 0)"
_WAITING_SOME: Final = (
    "c.number in (select q.conversation from queue q where q.delayed = 0"
    " group by q.conversation having count(*) {} {})"
)
"""The test for a number that excludes 0: it reads the few queued deliveries, and not each conversation."""

_COMPARISONS: Final = {
    "=": operator.eq,
    "<>": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_COLUMNS: Final = {
    "opened": "c.opened",
    "touched": "c.touched",
    "duration": "c.touched - c.opened",
    "cost": "c.money",
    "tokens": "c.tokens",
    "steps": "c.version",
    "waiting": _WAITING,
}
_FACET: Final = (
    "exists (select 1 from facet f where f.conversation = c.number and f.kind = {} and f.value = {})"
)
_ROW: Final = (
    f"select c.number, c.id, c.principal, c.opened, c.touched, c.closed, c.version, {_WAITING},"  # noqa: S608 - our own text
    " (select count(*) from event e where e.conversation = c.number and e.waiting = 1), c.tokens, c.money, c.due,"
    f" case when c.number in ({_SUSPENDED}) then 'suspended' when c.closed is null then 'open' else 'finished' end"
    " from conversation c"
)
_FIRST: Final = (
    f"select d.message, d.recipient from {STEPS_UNTIL}"  # noqa: S608 - our own text
    " join delivery d on d.number = s.first_delivery and d.conversation = s.conversation"
    " where s.deliveries > 0 order by s.version limit 1"
)
_SENT: Final = (
    f"select d.message from {STEPS} join delivery d on d.conversation = s.conversation"  # noqa: S608 - our own text
    " and d.number >= s.first_delivery and d.number < s.first_delivery + s.deliveries"
    f" union all select e.message from {STEPS} join event e on e.conversation = s.conversation"
    " and e.number >= s.first_event and e.number < s.first_event + s.events"
    " where e.message is not null"
)


class _Statement:
    """Conditions of a statement with the values of their places."""

    def __init__(self, connection: Connection, word: str) -> None:
        self._connection, self._word = connection, word
        self.texts: list[str] = []
        self.values: list[object] = []

    def place(self, value: object) -> str:
        """Add a value. Returns its place."""
        self.values.append(value)
        return f"?{len(self.values)}"

    def number(self, value: object) -> str:
        """Add a number. Returns its place."""
        return f"cast({self.place(float(value))} as double precision)"  # type: ignore[arg-type]

    def add(self, one: Condition) -> None:
        """Add a condition."""
        if one.field == "text":
            words = [self._format_test_word(word) for word in sorted(split_words(str(one.value)))]
            self._add_words(" and ".join(words) or "1 = 1", negated=one.sign == "!=")
        elif one.field == "owner":  # of a view that hides other owners
            self._add_owner(str(one.value))
        elif one.field in ("principal", "id"):
            place, column = f"cast({self.place(one.value)} as text)", f"c.{one.field}"
            column = f"substr({column}, 1, length({place}))" if one.sign == STARTS else column
            self.texts.append(f"{column} {'<>' if one.sign == '!=' else '='} {place}")
        elif one.field == "state":
            self._add_words(_STATES[str(one.value)], negated=one.sign == "!=")
        elif one.field in FACETS:
            facet, negated = FACETS[one.field](str(one.value))
            test = _FACET.format(*(f"cast({self.place(part)} as text)" for part in facet))
            self._add_words(test, negated=negated != (one.sign == "!="))
        else:
            self._add_number(one.field, "<>" if one.sign == "!=" else one.sign, one.value)

    def _add_number(self, field: str, sign: str, value: str | Decimal) -> None:
        place = self.number(value)
        some = field == "waiting" and not _COMPARISONS[sign](0.0, float(value))
        self.texts.append(_WAITING_SOME.format(sign, place) if some else f"{_COLUMNS[field]} {sign} {place}")

    def _add_owner(self, owner: str) -> None:
        place = f"cast({self.place(owner)} as text)"
        scoped = f" or substr(c.principal, 1, {len(owner):d}) = {place}" if is_scope(owner) else ""
        self.texts.append(f"(c.principal = {place}{scoped})")

    def _format_test_word(self, word: str) -> str:
        test = self._word
        if test == SQLITE_WORDS:
            (rows,) = self._connection.execute(
                "select count(*) from (select 1 from wordindex where wordindex match ? limit ?)",
                (word, FREQUENT),
            ).fetchone()
            test = test if rows < FREQUENT else _FREQUENT
        return test.format(self.place(word))

    def _add_words(self, test: str, *, negated: bool) -> None:
        self.texts.append(f"not ({test})" if negated else f"({test})")


def find_conversations(
    connection: Connection, chosen: ConversationFilter, after: str, limit: int, word: str = SQLITE_WORDS
) -> ConversationPage:
    """Find a page of conversations, the last opened first.

    ``word`` is the test for a word in this database. Raises ValueError for a malformed cursor.
    """
    statement = _Statement(connection, word)
    last = parse_cursor(after)
    if last is not None:
        opened, number = statement.number(last[0]), statement.place(last[1])
        statement.texts.append(f"(c.opened, c.number) < ({opened}, cast({number} as bigint))")
    for condition in chosen.conditions:
        statement.add(condition)
    where_clause = f" where {' and '.join(statement.texts)}" if statement.texts else ""
    found = connection.execute(
        f"{_ROW}{where_clause} order by c.opened desc, c.number desc limit {limit + 1:d}", statement.values
    ).fetchall()
    rows = tuple(_make_row(connection, row) for row in found[:limit])
    has_more = len(found) > limit
    return ConversationPage(rows, format_cursor(found[limit - 1][3], found[limit - 1][0]) if has_more else "")


def _make_row(connection: Connection, row: Sequence[object]) -> ListedConversation:
    number, *summary, state = row
    first = connection.execute(_FIRST, (number, 0, 1)).fetchone()
    facets = read_facets(connection, number)  # type: ignore[arg-type]
    return ListedConversation(
        Summary(*summary),  # type: ignore[arg-type]
        str(state),
        *((b"", "") if first is None else first),
    ).with_facets(facets)


def read_facets(connection: Connection, number: int) -> set[Facet]:
    """Read the stored facets of a conversation, by number."""
    rows = connection.execute("select kind, value from facet where conversation = ?", (number,))
    return {Facet(*row) for row in rows}


def read_unindexed(connection: Connection, number: int) -> list[bytes]:
    """Read the messages of a conversation whose words are not stored yet."""
    (last,) = connection.execute(
        "select coalesce(max(version), 0) from wordlist where conversation = ?", (number,)
    ).fetchone()
    return [message for (message,) in connection.execute(_SENT, (number, last))]


def find_wrong_terms(connection: Connection, number: int, recorded: RecordedConversation) -> Iterator[str]:
    """Compare the stored search terms of a conversation with its steps, a line for each difference."""
    facets: set[Facet] = set()
    for step in recorded.steps:
        facets |= list_facets([one.to for one in step.added], read_stored_records(step.records))
    opened = connection.execute(
        "select count(*) from facet f join conversation c on c.number = f.conversation"
        " where c.number = ? and f.opened = c.opened",
        (number,),
    ).fetchone()
    if read_facets(connection, number) != facets or opened != (len(facets),):
        yield "its facets do not match its steps"
    stored = connection.execute(
        "select version, words from wordlist where conversation = ? order by version", (number,)
    ).fetchall()
    before = 0
    for version, words in stored:
        messages = [
            message
            for step in recorded.steps
            if before < step.version <= version
            for message in step.gone_out()
        ]
        before = version
        known = version <= recorded.steps[-1].version
        if not (messages and known) or " ".join(sorted(find_words(messages))) != words:
            yield f"the words of step {version} do not match its messages"
