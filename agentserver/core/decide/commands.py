"""Commands: what is to be done to a conversation, as values.

Owns their shapes. A decision looks at a conversation as it was and gives commands; one transaction carries them out, in
order, or none of them. Refuses to know why they are given, and how they are carried out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from agentserver.contract import TodoUntil
    from agentserver.core.drafts.routing import Proposal
    from agentserver.core.messages import Delivery, Failed
    from agentserver.core.records.audit import Event
    from agentserver.core.records.details import Answering, Detail
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.growing.logs import LogChange
    from agentserver.core.state.growing.spending import Reservation
    from agentserver.spending import Amount


class Begin(NamedTuple):
    """Open a request."""

    request: str


class Take(NamedTuple):
    """Take a delivery whose listener has come back from its thread. ``deprecated``: it returned bytes."""

    delivery: Delivery
    deprecated: bool = False


class Retry(NamedTuple):
    """Leave a delivery whose listener failed where it is, for another attempt."""

    delivery: Delivery
    failed: Failed


class Bury(NamedTuple):
    """Make a delivery a dead letter."""

    delivery: Delivery
    failed: Failed


class Requeue(NamedTuple):
    """Queue a dead letter once more on its thread. ``top``: the principal's thread that was at rest above it."""

    delivery: Delivery
    top: str | None


class Remember(NamedTuple):
    """Replace the memory of the guards, by their names."""

    memory: Mapping[str, object]


class Store(NamedTuple):
    """Change the stored values of a thread, encoded; None deletes one. ``logged`` changes its logs."""

    thread: str
    values: Mapping[str, bytes | None]
    logged: Sequence[LogChange] = ()


class Reserve(NamedTuple):
    """Charge work on a delivery before it is done."""

    delivery: Delivery
    what: str
    most: Amount


class Settle(NamedTuple):
    """Charge what work on a delivery has cost in place of what was reserved for it."""

    delivery: Delivery
    reservation: Reservation
    cost: Amount


class Strike(NamedTuple):
    """Set the refusals in a row of a thread."""

    thread: str
    refusals: int


class Watch(NamedTuple):
    """Register a todo for the thread of a delivery, and answer with its id. ``place``: of the message that asked."""

    delivery: Delivery
    until: TodoUntil
    place: int = 0


class Complete(NamedTuple):
    """Close a todo of the thread of a delivery for ``system.todo``, and answer whether there was one.

    ``place``: of the message that asked.
    """

    delivery: Delivery
    watcher: str
    place: int = 0


class Forget(NamedTuple):
    """Close a todo of a thread, without an answer."""

    thread: str
    watcher: str


class Prune(NamedTuple):
    """Close everything below a thread."""

    thread: str


class Send(NamedTuple):
    """Send a message on its route.

    Args:
        proposal: the message, admitted or the system's own.
        request: the outside message that caused it.
        hop: its place in the causal chain.
    """

    proposal: Proposal
    request: str
    hop: int


class Exhaust(NamedTuple):
    """End a request that has used up its budget, with this step. ``detail`` is for operators."""

    request: str
    detail: Detail


class Cancel(NamedTuple):
    """Close the threads of a request. ``reason`` is for the record."""

    request: str
    reason: str


class Approve(NamedTuple):
    """Let a message that waits for a person go on. ``answered`` is for the record."""

    approval: Approval
    answered: Answering


class Deny(NamedTuple):
    """Drop a message that waits for a person. ``answered`` is as of ``Approve``."""

    approval: Approval
    answered: Answering


class Enter(NamedTuple):
    """Put an event on record; ``about`` holds fields of its record, those of ``delivery`` apart."""

    event: Event
    about: Mapping[str, Any]
    delivery: Delivery | None = None


class Close(NamedTuple):
    """End the conversation: close every thread."""

    reason: str


Command: TypeAlias = (
    Begin
    | Take
    | Retry
    | Bury
    | Requeue
    | Remember
    | Store
    | Reserve
    | Settle
    | Strike
    | Watch
    | Complete
    | Forget
    | Prune
    | Send
    | Exhaust
    | Cancel
    | Approve
    | Deny
    | Enter
    | Close
)
