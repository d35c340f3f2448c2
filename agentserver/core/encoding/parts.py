"""Values in which the parts of a conversation are stored."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from agentserver.core.encoding.codecs import derive_stored
from agentserver.core.messages import NO_CALL, Call
from agentserver.core.state.conversation import Conversation
from agentserver.core.state.ledger import EffectState, LedgerEffect
from agentserver.core.state.overlay import differences
from agentserver.core.state.principals import FULL, Rights
from agentserver.core.state.spending import NO_SPENDING, Reservation, Spending
from agentserver.spending import Amount

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from agentserver.codec import ValueCodec
    from agentserver.core.messages import Delivery, Question
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.requests import OpenRequest
    from agentserver.core.state.threads import DelayedDelivery, HeldDelivery, Thread
    from agentserver.core.state.todos import Todo


T = TypeVar("T")

_new = tuple.__new__


class StoredDelivery(NamedTuple):
    """Waiting delivery, by its id. ``watcher`` is the todo that holds it, if any."""

    id: str
    attempt: int = 0
    watcher: str = ""


class StoredApproval(NamedTuple):
    """Message that waits for a person, as in ``Approval``."""

    id: str
    delivery: str
    questions: tuple[Question, ...]
    at: float
    digest: str


class StoredDelay(NamedTuple):
    """Delayed delivery, by its id, and when it is due."""

    delivery: str
    due_at: float


class StoredThread(NamedTuple):
    """Thread without its values and children; the children name it and are stored in order."""

    id: str
    owner: str
    parent: str | None
    ordinal: int
    call: Call = NO_CALL
    inbox: tuple[StoredDelivery, ...] = ()
    held_deliveries: tuple[StoredDelivery, ...] = ()
    refusals: int = 0
    approvals: tuple[StoredApproval, ...] = ()
    allowed: frozenset[str] | None = None
    delayed: tuple[StoredDelay, ...] = ()


class StoredTodos(NamedTuple):
    """Todos of a thread."""

    thread: str
    todos: tuple[Todo, ...] = ()


class StoredMemory(NamedTuple):
    """Guard that has observed the conversation, and whether it has a memory."""

    guard: str
    remembers: bool


class StoredParts(NamedTuple):
    """State of a conversation, as in ``Conversation``, without deliveries and values."""

    id: str
    principal: str
    version: int
    messages: int
    touched: float
    closed: bool
    root: str
    opened: int
    threads: tuple[StoredThread, ...]
    todos: tuple[StoredTodos, ...] = ()
    requests: tuple[OpenRequest, ...] = ()
    memory: tuple[StoredMemory, ...] = ()
    rights: Rights = FULL


STATE: Final[ValueCodec[StoredParts]] = derive_stored(StoredParts)
RIGHTS: Final[ValueCodec[Rights]] = derive_stored(Rights)
_AMOUNT: Final[ValueCodec[Amount]] = derive_stored(Amount)
_EFFECT: Final[ValueCodec[LedgerEffect]] = derive_stored(LedgerEffect)
_RESERVATION: Final[ValueCodec[Reservation]] = derive_stored(Reservation)


def to_stored_state(conversation: Conversation) -> StoredParts:
    """Convert a conversation, without deliveries and values."""
    return StoredParts(
        conversation.id,
        conversation.principal,
        conversation.version,
        conversation.messages,
        conversation.touched,
        conversation.closed,
        conversation.tree.root,
        conversation.tree.opened,
        tuple(map(to_stored_thread, conversation.tree.nodes.values())),
        tuple(StoredTodos(thread, tuple(todos)) for thread, todos in conversation.todos.watchers.items()),
        tuple(conversation.requests.values()),
        list_stored_memory(conversation),
        conversation.rights,
    )


def to_stored_thread(node: Thread) -> StoredThread:
    """Convert a thread."""
    return StoredThread(
        node.id,
        node.owner,
        node.parent,
        node.ordinal,
        to_stored_call(node.call),
        to_stored_inbox(node.inbox),
        to_stored_held(node.held_deliveries),
        node.refusals,
        to_stored_approvals(node.approvals),
        node.allowed,
        to_stored_delayed(node.delayed),
    )


def to_stored_call(call: Call) -> Call:
    """Convert a call: only its order if no invocation made it."""
    return call if call.key else Call(call.order)


def to_stored_inbox(inbox: Iterable[Delivery]) -> tuple[StoredDelivery, ...]:
    """Convert queued deliveries."""
    deliveries = []
    for one in inbox:
        deliveries.append(_new(StoredDelivery, (one.id, one.attempt, "")))  # noqa: PERF401 - a comprehension is a call
    return tuple(deliveries)


def to_stored_held(held: Iterable[HeldDelivery]) -> tuple[StoredDelivery, ...]:
    """Convert deliveries held by todos."""
    return tuple([StoredDelivery(one.id, one.attempt, watcher) for watcher, one in held])


def to_stored_approvals(approvals: Iterable[Approval]) -> tuple[StoredApproval, ...]:
    """Convert deliveries that wait for a person."""
    return tuple([StoredApproval(one.id, one.delivery.id, *one[2:]) for one in approvals])


def to_stored_delayed(delayed: Iterable[DelayedDelivery]) -> tuple[StoredDelay, ...]:
    """Convert deliveries that wait for their time."""
    return tuple([StoredDelay(one.delivery.id, one.due_at) for one in delayed])


def list_stored_memory(conversation: Conversation) -> tuple[StoredMemory, ...]:
    """List the guards that have observed the conversation."""
    return tuple([StoredMemory(name, memory is not None) for name, memory in conversation.memory.items()])


def write_rights_text(rights: Rights) -> str:
    """Write rights as a text; empty for full ones."""
    return "" if rights == FULL else RIGHTS.dump(rights).decode()


def read_rights_in(text: str) -> Rights:
    """Read the output of ``write_rights_text``. Raises ValueError."""
    return RIGHTS.load(text) if text else FULL


def log_owner(thread: str, kind: str) -> str:
    """Return the owner of a log's entries; the name of each entry is its number."""
    return f"log {thread} {kind}"


def log_of(owner: str) -> tuple[str, str] | None:
    """Return the thread and the kind of the log that an owner names; None for other owners."""
    prefix, _, rest = owner.partition(" ")
    thread, _, kind = rest.partition(" ")
    return (thread, kind) if prefix == "log" else None


SPENDING: Final = "spending"
"""The owner of the charges ``total``, ``agent NAME``, ``request ID`` and ``open ID``."""

TOTAL: Final = "total"
"""The name of the total charge, which outlives the conversation: tokens, and millionths of a US dollar."""

EFFECTS: Final = "effects"
"""The owner of the external effects, each under its id."""


class ValueGroup(NamedTuple):
    """Field of a conversation that is stored as named values.

    A step writes the changed ones; an engine need not know what they are.

    Args:
        owner: of the values in the journal.
        place: of the field in ``Conversation``.
        encode: encodes the field by name; to nothing if it is as in a new conversation.
        decode: decodes the output of ``encode``. Raises ValueError, and LookupError for an unknown name.
        encode_diff: encodes the changes from one field to the next; None for a removed name.
        encode_closed: encodes what outlives the conversation.
    """

    owner: str
    place: int
    encode: Callable[[Any], Mapping[str, bytes]]
    decode: Callable[[Mapping[str, bytes]], Any]
    encode_diff: Callable[[Any, Any], Mapping[str, bytes | None]]
    encode_closed: Callable[[Any], Mapping[str, bytes]] = lambda _: MappingProxyType({})


def make_mapping_group(
    owner: str,
    field: str,
    codec: ValueCodec[T],
    survives: Callable[[T], bool] = lambda _: False,
) -> ValueGroup:
    """Make the group of a field that is a mapping from ids; the cost of a step depends on what it changes.

    ``survives``: whether an entry outlives the conversation.
    """

    def encode_diff(before: Mapping[str, T], after: Mapping[str, T]) -> Mapping[str, bytes | None]:
        changed, removed = differences(before, after)
        return {**dict.fromkeys(removed), **{key: codec.dump(after[key]) for key in changed}}

    return ValueGroup(
        owner,
        Conversation._fields.index(field),
        lambda entries: {key: codec.dump(one) for key, one in entries.items()},
        lambda values: MappingProxyType({key: codec.load(data) for key, data in values.items()}),
        encode_diff,
        lambda entries: {key: codec.dump(one) for key, one in entries.items() if survives(one)},
    )


def encode_spending(spending: Spending) -> Mapping[str, bytes]:
    """Encode the charges by name."""
    if spending is NO_SPENDING:
        return MappingProxyType({})
    values = {TOTAL: _AMOUNT.dump(spending.total)}
    values.update((f"agent {name}", _AMOUNT.dump(one)) for name, one in spending.agents.items())
    values.update((f"request {key}", _AMOUNT.dump(one)) for key, one in spending.requests.items())
    values.update((f"open {key}", _RESERVATION.dump(one)) for key, one in spending.open.items())
    return values


def decode_spending(values: Mapping[str, bytes]) -> Spending:
    """Decode the output of ``encode_spending``. Raises ValueError, and LookupError for an unknown name."""
    if not values:
        return NO_SPENDING
    amounts: dict[str, dict[str, Amount]] = {"agent": {}, "request": {}, TOTAL: {}}
    reserved: dict[str, Reservation] = {}
    for name, data in values.items():
        kind, _, key = name.partition(" ")
        if kind == "open":
            reserved[key] = _RESERVATION.load(data)
        else:
            amounts[kind][key] = _AMOUNT.load(data)
    return Spending(amounts[TOTAL][""], amounts["agent"], amounts["request"], reserved)


def _encode_spending_diff(before: Spending, after: Spending) -> Mapping[str, bytes | None]:
    was, now = encode_spending(before), encode_spending(after)
    charged = {name: data for name, data in now.items() if was.get(name) != data}
    return {**dict.fromkeys(was.keys() - now.keys()), **charged}


def _encode_spending_closed(spending: Spending) -> Mapping[str, bytes]:
    return {name: data for name, data in encode_spending(spending).items() if name == TOTAL}


VALUE_GROUPS: Final[tuple[ValueGroup, ...]] = (
    ValueGroup(
        SPENDING,
        Conversation._fields.index("spending"),
        encode_spending,
        decode_spending,
        _encode_spending_diff,
        _encode_spending_closed,
    ),
    make_mapping_group(EFFECTS, "ledger", _EFFECT, lambda effect: effect.state is not EffectState.DONE),
)
"""All groups. A further kind of state that a conversation keeps is one field and one group."""


def load_effect(data: bytes) -> LedgerEffect:
    """Read a stored external effect. Raises ValueError."""
    return _EFFECT.load(data)


def read_charged_total(data: bytes | None) -> Sequence[int]:
    """Read the total tokens and money charged; zero without a stored value. Raises ValueError."""
    amount = Amount() if data is None else _AMOUNT.load(data)
    return amount.tokens, amount.money
