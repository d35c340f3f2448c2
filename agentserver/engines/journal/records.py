"""Small tables of the journal: operators' answers, conversation names, the calendar and recorded completions.

Another process stores an answer here; the server that runs the conversation reads it and decides whether it counts.
"""

from __future__ import annotations

import json
import logging
import zlib
from typing import TYPE_CHECKING, Any, Final

from agentserver.characters.printing import clean_line
from agentserver.core.encoding.codecs import COMPLETIONS
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.messages import EffectVerdict
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.core.state.elapsed_time import Calendar, Jump
from agentserver.core.state.ledger import find_conversation
from agentserver.engines.journal import seal
from agentserver.engines.journal.connection import transaction
from agentserver.engines.journal.seal import digest
from agentserver.ports import EngineError
from agentserver.ports.schedules import ScheduleOrder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from agentserver.completion import RecordedCompletion
    from agentserver.engines.journal.connection import Connection
    from agentserver.ports.schedules import OrderKind


AUTHOR = 256
"""Most characters of an answer's author."""

DONE, NOT_DONE = "done", "not done"
"""Kind of a row with a verdict on an external effect; its digest is the answer as JSON."""

ENDED_DONE, ENDED_NOT_DONE = "ended, done", "ended, not done"
"""Kind of a row with a verdict on an effect of an ended conversation, which stays: no server decides on it."""

SCHEDULE = "schedule"
"""First word of the id of a row with an order about a schedule; its name and, for a run, the time follow."""

_STATES: Final[dict[str, OrderKind]] = {"paused": "paused", "resumed": "resumed"}
_RUNS: Final[dict[str, OrderKind]] = {"run": "run", "ran": "ran"}
_ALL = "select approval, digest, said, author, at, seal from answer order by at"
_KNOWN = {str(answer): answer for answer in Answer}
_LEAVE = "insert into answer values (?, ?, ?, ?, ?, ?) on conflict do nothing returning approval"
_REPLACE = (
    "insert into answer values (?, ?, ?, ?, ?, ?) on conflict (approval) do update set digest = excluded.digest,"
    " said = excluded.said, author = excluded.author, at = excluded.at, seal = excluded.seal returning approval"
)


class StoredAnswers:
    """Pending answers in the journal of a running engine.

    Args:
        do: runs a function with the connection, in the engine's thread.
    """

    def __init__(self, do: Callable[[Callable[[Connection], Any]], Awaitable[Any]]) -> None:
        self._do = do

    async def list_pending(self) -> list[tuple[ApprovalAnswer, float]]:
        """Read pending answers. Raises EngineError."""
        answers: list[tuple[ApprovalAnswer, float]] = await self._do(read_answers)
        return answers

    async def list_verdicts(self) -> list[EffectVerdict]:
        """Read pending verdicts on external effects. Raises EngineError."""
        verdicts: list[EffectVerdict] = await self._do(read_verdicts)
        return verdicts

    async def list_orders(self) -> list[ScheduleOrder]:
        """Read the orders about schedules. Raises EngineError."""
        orders: list[ScheduleOrder] = await self._do(read_orders)
        return orders

    async def mark_ran(self, order: ScheduleOrder) -> None:
        """Mark an order as sent, in place of earlier ones. Raises EngineError."""
        await self._do(lambda connection: mark_ran(connection, order))

    async def drop(self, approvals: Sequence[str]) -> None:
        """Delete answers and verdicts that were decided. Raises EngineError."""
        await self._do(lambda connection: drop_answers(connection, approvals))


def put_answer(connection: Connection, answered: ApprovalAnswer, at: float) -> bool:
    """Store an answer. The first one counts, except that a denial replaces an approval.

    Returns False when an earlier answer counts.
    """
    statement = _REPLACE if answered.answer is Answer.DENY else _LEAVE
    row = (answered.approval, answered.digest, str(answered.answer), answered.by, float(at))
    return connection.execute(statement, (*row, digest(row))).fetchone() is not None


def read_answers(connection: Connection) -> list[tuple[ApprovalAnswer, float]]:
    """Read pending answers with their times.

    An unknown answer or one that fails its seal counts as a denial.
    """
    rows = connection.execute(_ALL)
    return [
        (ApprovalAnswer(row[0], row[1], _read_verdict(row, sealed), clean_line(row[3], AUTHOR)), row[4])
        for *row, sealed in rows
        if not find_conversation(row[0]) and not _is_order(row[0])
    ]


def put_verdict(connection: Connection, verdict: EffectVerdict, at: float, *, ended: bool = False) -> bool:
    """Store an operator's verdict on an external effect. Returns False when an earlier verdict counts.

    ``ended``: the conversation has ended, so that the verdict only takes the effect off the list.
    """
    kinds = (ENDED_NOT_DONE, ENDED_DONE) if ended else (NOT_DONE, DONE)
    kind = kinds[verdict.answer is not None]
    row = (verdict.effect, verdict.answer or "", kind, verdict.by, float(at))
    return connection.execute(_LEAVE, (*row, digest(row))).fetchone() is not None


def read_verdicts(connection: Connection) -> list[EffectVerdict]:
    """Read pending verdicts on external effects. One that fails its seal is left out."""
    rows = connection.execute(_ALL)
    return [
        EffectVerdict(row[0], row[1] if row[2] == DONE else None, clean_line(row[3], AUTHOR))
        for *row, sealed in rows
        if find_conversation(row[0]) and row[2] in (DONE, NOT_DONE) and sealed == digest(row)
    ]


def put_order(connection: Connection, order: ScheduleOrder) -> None:
    """Store an order of an operator about a schedule."""
    row = (_order_id(order), "", order.kind, order.by, float(order.at))
    connection.execute(_REPLACE, (*row, digest(row)))


def read_orders(connection: Connection) -> list[ScheduleOrder]:
    """Read the orders about schedules, oldest first.

    A state that is unknown or fails its seal pauses its schedule; such a run is left out.
    """
    found = []
    for *row, sealed in connection.execute(_ALL):
        if not _is_order(row[0]):
            continue
        name, *run = row[0].split(" ")[1:]
        kind = _RUNS.get(row[2]) if run else _STATES.get(row[2], "paused")
        if sealed != digest(row):
            kind = None if run else "paused"
        if kind is not None:
            found.append(ScheduleOrder(name, kind, clean_line(row[3], AUTHOR), row[4]))
    return found


def mark_ran(connection: Connection, order: ScheduleOrder) -> None:
    """Mark an order to run as sent. Earlier ones of its schedule, which have ended, are deleted."""
    with transaction(connection):
        earlier = [
            (_order_id(each),)
            for each in read_orders(connection)
            if each.schedule == order.schedule and each.kind == "ran" and each.at < order.at
        ]
        connection.executemany("delete from answer where approval = ?", earlier)
        put_order(connection, order._replace(kind="ran"))


def _is_order(row: str) -> bool:
    return row.startswith(f"{SCHEDULE} ")


def _order_id(order: ScheduleOrder) -> str:
    run = (repr(float(order.at)),) if order.kind in _RUNS else ()
    return " ".join((SCHEDULE, order.schedule, *run))


def list_settled(connection: Connection) -> frozenset[str]:
    """List the effects of ended conversations with a verdict. One that fails its seal is left out."""
    rows = connection.execute(_ALL)
    kinds = (ENDED_DONE, ENDED_NOT_DONE)
    return frozenset(row[0] for *row, sealed in rows if row[2] in kinds and sealed == digest(row))


def _read_verdict(row: list[Any], sealed: bytes) -> Answer:
    return Answer.DENY if sealed != digest(row) else _KNOWN.get(row[2], Answer.DENY)


def drop_answers(connection: Connection, approvals: Sequence[str]) -> None:
    """Delete the answers to some approvals."""
    connection.executemany("delete from answer where approval = ?", [(key,) for key in approvals])


_CLAIM_NAME: Final = "insert into opening values (?, ?, ?, ?) on conflict do nothing"
_MOVE_NAME: Final = (
    "insert into opening values (?, ?, ?, ?) on conflict (name)"
    " do update set conversation = excluded.conversation, at = excluded.at, seal = excluded.seal"
)


def claim_name(connection: Connection, name: str, conversation: str, at: float, *, move: bool = False) -> str:
    """Name a conversation, unless another one has the name and keeps it. Returns the id of the one that has it.

    Raises EngineError for a row that was altered.
    """
    row = (name, conversation, float(at))
    connection.execute(_MOVE_NAME if move else _CLAIM_NAME, (*row, digest(row)))
    return find_named_conversation(connection, name) or conversation


def find_named_conversation(connection: Connection, name: str) -> str | None:
    """Find the conversation with a name. Raises EngineError for a row that was altered."""
    row = connection.execute("select conversation, at, seal from opening where name = ?", (name,)).fetchone()
    if row is None:
        return None
    found, since, seal = row
    if seal != digest((name, found, since)):
        raise EngineError("the name of a conversation fails its seal")
    return str(found)


def find_damaged_names(connection: Connection) -> list[str]:
    """List names that fail their seals, a line each."""
    rows = connection.execute("select name, conversation, at, seal from opening order by name").fetchall()
    return [f"the name of conversation {row[1]} fails its seal" for *row, seal in rows if seal != digest(row)]


def forget_names(connection: Connection, before: float) -> None:
    """Delete old names of conversations that never began."""
    connection.execute(
        "delete from opening where at < ? and not exists"
        " (select 1 from conversation c where c.id = opening.conversation)",
        (before,),
    )


def keep_names_of(connection: Connection, conversations: Collection[str]) -> None:
    """Delete all names except those of some conversations."""
    names = [
        (name,)
        for name, key in connection.execute("select name, conversation from opening")
        if key not in conversations
    ]
    connection.executemany("delete from opening where name = ?", names)


logger = logging.getLogger("agentserver.journal")


def is_calendar_intact(connection: Connection) -> bool:
    """Check the calendar against its seal."""
    rows = connection.execute("select jumps, last, seal from calendar").fetchall()
    return len(rows) < 2 and all(seal == digest((jumps, last)) for jumps, last, seal in rows)  # noqa: PLR2004 - one row


def read_calendar(connection: Connection) -> Calendar:
    """Read the calendar. An unreadable one counts no time before now."""
    if not is_calendar_intact(connection):
        logger.error("the journal's calendar fails its seal: all deadlines count from now")
        return Calendar(last=0.0)
    row = connection.execute("select jumps, last from calendar").fetchone()
    if row is None:
        return Calendar(last=connection.execute("select max(touched) from conversation").fetchone()[0])
    jumps, last = row
    return Calendar(tuple(Jump(at, to) for at, to in json.loads(jumps)), last)


def write_calendar(connection: Connection, calendar: Calendar) -> None:
    """Replace the calendar."""
    row = (json.dumps(calendar.jumps), float(calendar.last or 0.0))
    with transaction(connection):
        connection.execute("delete from calendar")
        connection.execute("insert into calendar values (?, ?, ?)", (*row, digest(row)))


AT_ONCE: Final = 1000
"""Completions deleted in one statement."""

_EXPIRED: Final = "select number from completion where until < ? order by until limit ?"


def add_completion(connection: Connection, done: RecordedCompletion, until: float) -> None:
    """Add a completion to its conversation, if that is still stored."""
    row = connection.execute("select number from conversation where id = ?", (done.conversation,)).fetchone()
    if row is None:
        return
    columns, data = (row[0], done.at, until), zlib.compress(COMPLETIONS.dump(done))
    connection.execute(
        "insert into completion (conversation, at, until, data, seal) values (?, ?, ?, ?, ?)",
        (*columns, data, seal.digest(columns, data)),
    )


def read_completions(connection: Connection, conversation: str) -> list[RecordedCompletion]:
    """Read the completions of a conversation, in the order in which they began. Raises UnreadableError."""
    rows = connection.execute(
        "select m.conversation, m.at, m.until, m.data, m.seal from completion m"
        " join conversation c on c.number = m.conversation where c.id = ? order by m.at, m.number",
        (conversation,),
    ).fetchall()
    if any(sealed != seal.digest(columns, data) for *columns, data, sealed in rows):
        raise UnreadableError(f"conversation {conversation}: a recorded completion fails its seal")
    try:
        return [COMPLETIONS.load(zlib.decompress(data)) for *_, data, _ in rows]
    except (ValueError, zlib.error) as error:
        raise UnreadableError(
            f"conversation {conversation}: a recorded completion cannot be read: {error}"
        ) from error


def expire_completions(connection: Connection, now: float) -> int:
    """Delete some of the completions past their retention. Returns their count."""
    rows = connection.execute(_EXPIRED, (now, AT_ONCE)).fetchall()
    connection.executemany("delete from completion where number = ?", rows)
    return len(rows)


def find_damaged_completions(connection: Connection) -> list[str]:
    """List completions that fail their seals, a line each."""
    rows = connection.execute(
        "select number, conversation, at, until, data, seal from completion order by number"
    )
    return [
        f"the recorded completion {number} fails its seal"
        for number, *columns, data, sealed in rows
        if sealed != seal.digest(columns, data)
    ]
