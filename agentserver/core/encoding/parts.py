"""The parts of a conversation as plain rows, of which its kept state and the changes to it are made.

Owns the rows of a thread and of a todo, and their encoding. Refuses to know where they are kept.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from agentserver.core.encoding import detail_form
from agentserver.core.messages import Call
from agentserver.core.state.growing.spending import NO_SPENDING, Reservation, Spending
from agentserver.core.state.principals import FULL, Rights, Trust
from agentserver.spending import Amount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentserver.core.messages import Delivery, Question
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.conversation import Conversation
    from agentserver.core.state.threads import Held, Thread
    from agentserver.core.state.todos import Todo

    Row: TypeAlias = Sequence[Any]

FORMAT = 1
"""The version of the kept form. There is no release yet, so no other version is read."""

ORDINAL, CALL, INBOX, HELD, REFUSALS, APPROVALS, ALLOWED = 3, 4, 5, 6, 7, 8, 9
"""The indices of a thread's row. Its children are not in it: their own rows name it, and stand in their order."""


def encode(value: object) -> bytes:
    """A plain value as compact JSON; what is no Unicode text survives as it is."""
    try:
        return to_json(value, inf_nan_mode="constants")
    except PydanticSerializationError:  # it writes nothing but Unicode text
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def thread_row(node: Thread) -> Row:
    """A thread without what it stores."""
    return (
        node.id,
        node.owner,
        node.parent,
        node.ordinal,
        call_row(node.call),
        inbox_row(node.inbox),
        held_row(node.held),
        node.refusals,
        approvals_row(node.approvals),
        allowed_row(node.allowed),
    )


def call_row(call: Call) -> Row | int:
    """The call of a thread; its order alone where no invocation made it."""
    return call[:3] if call.key else call.order


def call_of(row: Row | int) -> Call:
    """The call of which ``call_row`` gave this."""
    return Call(row) if isinstance(row, int) else Call(*row)


def log_owner(thread: str, kind: str) -> str:
    """The owner of the entries of a log; the name of each is its number."""
    return f"log {thread} {kind}"


SPENDING = "spending"
"""The owner of what was charged: ``total``, ``agent NAME``, ``request ID`` and ``open ID``."""

TOTAL = "total"
"""The name of what was charged in all, which outlives the conversation: tokens, and millionths of a US dollar."""


def spending_values(spending: Spending) -> dict[str, bytes]:
    """The charges, by the name of each value."""
    if spending is NO_SPENDING:
        return {}
    values = {TOTAL: spending.total}
    values.update((f"agent {name}", amount) for name, amount in spending.agents.items())
    values.update((f"request {key}", amount) for key, amount in spending.requests.items())
    kept = {name: encode((amount.tokens, amount.money)) for name, amount in values.items()}
    for key, (_, thread, delivery, request, agent, most) in spending.open.items():
        kept[f"open {key}"] = encode((thread, delivery, request, agent, most.tokens, most.money))
    return kept


def spending_of(values: Mapping[str, bytes]) -> Spending:
    """The charges, of which ``spending_values`` gave these."""
    if not values:
        return NO_SPENDING
    found: dict[str, dict[str, Any]] = {"agent": {}, "request": {}, "open": {}, TOTAL: {}}
    for name, data in values.items():
        what, _, key = name.partition(" ")
        if what == "open":
            thread, delivery, request, agent, *most = json.loads(data)
            found[what][key] = Reservation(key, thread, delivery, request, agent, Amount(*most))
        else:
            found[what][key] = Amount(*json.loads(data))
    return Spending(found[TOTAL][""], found["agent"], found["request"], found["open"])


def log_of(owner: str) -> tuple[str, str] | None:
    """The thread and the kind of the log that owns an entry; None for an owner that is no log."""
    what, _, rest = owner.partition(" ")
    thread, _, kind = rest.partition(" ")
    return (thread, kind) if what == "log" else None


def inbox_row(inbox: Iterable[Delivery]) -> Row:
    """Deliveries that are queued; their content is kept elsewhere."""
    return [(one.id, one.attempt) for one in inbox]


def held_row(held: Iterable[Held]) -> Row:
    """Deliveries that todos keep back."""
    return [(watcher, one.id, one.attempt) for watcher, one in held]


def approvals_row(approvals: Iterable[Approval]) -> Row:
    """Deliveries that wait for a person."""
    return [
        (one.id, one.delivery.id, [_question_row(each) for each in one.questions], one.at, one.digest)
        for one in approvals
    ]


def _question_row(question: Question) -> Row:
    return (question.guard, detail_form.dump(question.why), question.about)


def allowed_row(allowed: frozenset[str] | None) -> Row | None:
    """The only peers in force, in order."""
    return None if allowed is None else sorted(allowed)


def todo_row(thread: str, watchers: Iterable[Todo]) -> Row:
    """The todos of a thread."""
    return (
        thread,
        [
            (w.watcher_id, w.wait_for, w.from_listener, w.description, w.count, w.hold, w.kept, w.seen)
            for w in watchers
        ],
    )


def rights_row(rights: Rights) -> Row:
    """The rights of a principal; empty where they are full."""
    return () if rights == FULL else rights


def rights_of(trust: str = FULL.trust, may: Iterable[str] | None = FULL.may) -> Rights:
    """The rights of which ``rights_row`` gave this. Raises ValueError for a trust that there is not."""
    return Rights(Trust(trust), None if may is None else tuple(may))


def rights_text(rights: Rights) -> str:
    """The same row as text; empty where it is."""
    row = rights_row(rights)
    return encode(row).decode() if row else ""


def rights_in(text: str) -> Rights:
    """The rights of which ``rights_text`` gave this text. Raises ValueError and TypeError for another one."""
    return rights_of(*json.loads(text)) if text else FULL


def memory_row(conversation: Conversation) -> Row:
    """The guards that have seen the conversation, each with whether it remembers anything."""
    return [(name, memory is not None) for name, memory in conversation.memory.items()]
