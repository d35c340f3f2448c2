"""The answers of people and the charges in a journal, found by the steps that were decided about them.

Owns how such a step is found without a look at the others, and what of it operators read. Refuses to change anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentserver.core.encoding import record_rows
from agentserver.core.encoding.recorded import Charges, ChargeSum, DecidedApproval, read_decided_approval
from agentserver.core.encoding.recording import KeptSettling, read_cause
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.messages import Moment
from agentserver.core.records.audit import Event
from agentserver.core.state.approvals import ApprovalAnswer
from agentserver.engines.journal.stored import COLUMNS, read_delivery

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.core.messages import Delivery
    from agentserver.core.records.audit import AuditRecord
    from agentserver.engines.journal.connection import Connection

_DECIDED = "substr(s.cause, 1, 11) = x'5b312c5b22646563696465'"
_PRICED = "substr(s.cause, 1, 11) in (x'5b312c5b22726573657276', x'5b312c5b22736574746c65')"


def answers(connection: Connection, most: int, principal: str | None) -> list[DecidedApproval]:
    """The last answers of people, and denials in their place, the latest first."""
    rows = connection.execute(
        "select c.number, c.id, c.principal, s.at, s.cause, s.records from step s"  # noqa: S608 - our own text
        f" join conversation c on c.number = s.conversation where {_DECIDED}"
        " and (cast(?1 as text) is null or c.principal = ?1) order by s.number desc limit ?2",
        (principal, most),
    ).fetchall()
    found = []
    for number, key, whose, at, cause, records in rows:
        answer = read_cause(cause)
        assert isinstance(answer, ApprovalAnswer)
        record = _record(connection, (number, key, at), records, {Event.APPROVED, Event.WITHDRAWN})
        found.append(read_decided_approval(key, whose, answer.approval, record))
    return found


def charged(connection: Connection, since: float) -> tuple[ChargeSum, ...]:
    """The charges of the steps since a time."""
    rows = connection.execute(
        "select c.number, c.id, c.principal, s.at, s.seed, s.cause, s.records from step s"  # noqa: S608 - our own text
        f" join conversation c on c.number = s.conversation where {_PRICED} and s.at >= ?"
        " order by s.at, s.number",
        (since,),
    )
    charges = Charges()
    for number, key, principal, at, seed, cause, records in rows:
        priced = read_cause(cause)
        if isinstance(priced, KeptSettling):
            charges.settle(principal, priced.reservation, priced.cost)
        else:
            record = _record(connection, (number, key, at), records, {Event.RESERVED})
            charges.reserve(principal, Moment(at, seed), record)
    return charges.sums()


def _record(
    connection: Connection, place: tuple[int, str, float], records: bytes, events: Collection[str]
) -> AuditRecord:
    """The one record of these events in a step. Raises UnreadableError."""
    number, key, at = place
    found = next((one for one in record_rows.kept_records(records) if one.event in events), None)
    if found is None:
        raise UnreadableError(f"conversation {key}: a step does not say what was decided")
    deliveries: dict[str, Delivery] = {}
    if found.about is None:  # its delivery has the rest
        deliveries = {found.delivery: _delivery(connection, number, key, found.delivery)}
    return record_rows.whole_record(found, key, at, deliveries)


def _delivery(connection: Connection, number: int, key: str, delivery: str) -> Delivery:
    row = connection.execute(
        f"select {COLUMNS} from step s join delivery d"  # noqa: S608 - our own text
        " on d.number >= s.first_delivery and d.number < s.first_delivery + s.deliveries"
        " and d.conversation = s.conversation"
        " where s.conversation = ? and d.id = ?",
        (number, delivery),
    ).fetchone()
    if row is None:
        raise UnreadableError(f"conversation {key}: a delivery that was decided about is not there")
    return read_delivery(key, row)
