"""The organism as frozen facts: who listens, what they take, whom they may reach, and the limits.

Owns Listener, Limits and Blueprint. Refuses to know handlers, files and running conversations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from agentserver.spending import NO_BUDGETS, Budgets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@dataclass(frozen=True, slots=True)
class Listener:
    """One participant.

    Args:
        name: unique; may hold dots, which mean nothing.
        payloads: the dataclasses it accepts; at least one.
        description: what it does, shown to peers.
        agent: whether it learns its own name.
        peers: the only listeners it may address besides its caller, itself and ``system.*``.
        broadcast: whether a message that names no listener may go to several that share its root.
        concurrency: how many of its invocations run at once in one process.
        exclusive: whether one of them runs at a time in all processes together; ``concurrency`` is 1 then.
        deadline: seconds that one invocation may take.
        retries: how often a crashed or late invocation is repeated before its caller is told.
        approval: whether a person has to approve every message to it.
        progress: whether it may tell how far it is.
        answers: the dataclasses of its answers, where it gives no others; none where that is not known.
    """

    name: str
    payloads: tuple[type, ...]
    description: str
    agent: bool = False
    peers: frozenset[str] = frozenset()
    broadcast: bool = False
    concurrency: int = 8
    exclusive: bool = False
    deadline: float = 60.0
    retries: int = 0
    approval: bool = False
    progress: bool = False
    answers: tuple[type, ...] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a server. Times in seconds, sizes in bytes.

    Args:
        concurrency: invocations running at once in the whole server.
        queue: messages accepted and not yet handled; beyond it outside messages are refused as ``busy``.
        principal_queue: messages that one principal may have accepted and not yet handled; beyond it, and beyond
            ``principal_bytes``, its own messages are refused as ``busy``, not those of others.
        principal_conversations: conversations that one principal may have open.
        principal_bytes: bytes of messages that one principal may have accepted and not yet handled.
        hops: messages in one causal chain since the message from outside.
        messages: messages of one request, its replies included.
        conversation_messages: messages in one conversation.
        refusals: consecutive refused attempts of one thread before retrying is forbidden.
        storage: bytes of encoded values that one thread may keep.
        payload: bytes of one message.
        idle: after so long without a message a conversation closes.
        drain: how long a graceful stop waits for work in hand.
        approval: how long a message waits for a person; then it is refused.
        approvers: who may approve one: anyone, or only others than the principal that opened its conversation.
        stall: how long an invocation may hold the event loop; then the process is ended. Zero is for ever.
        fatal_ends: how often the process may end while a delivery is worked on alone; then the delivery is given up.
        grace: how long an invocation that was cancelled may go on; then it is abandoned.
    """

    concurrency: int = 64
    queue: int = 1024
    principal_queue: int = 256
    principal_conversations: int = 1000
    principal_bytes: int = 1 << 26
    hops: int = 256
    messages: int = 2000
    conversation_messages: int = 1_000_000
    refusals: int = 3
    storage: int = 65536
    payload: int = 1 << 20
    idle: float = 3600.0
    drain: float = 10.0
    approval: float = 3600.0
    approvers: Literal["anyone", "others"] = "anyone"
    grace: float = 2.0
    stall: float = 30.0
    fatal_ends: int = 3


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Everything about an organism that does not change while it runs.

    Args:
        listeners: by name.
        limits: the bounds.
        roots: names of the payload elements that each listener accepts.
        services: names of the payload elements that ``system.todo`` accepts.
        usage: for each listener, what its peers accept, as text for a model.
        budgets: what may be spent.
    """

    listeners: Mapping[str, Listener]
    limits: Limits
    roots: Mapping[str, frozenset[str]]
    services: frozenset[str]
    usage: Mapping[str, str]
    budgets: Budgets = NO_BUDGETS
    _everyone: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Name all listeners once: to do it for each message would cost as much as there are."""
        object.__setattr__(self, "_everyone", frozenset(self.listeners))

    def accepts(self, listener: str, root: str) -> bool:
        """True when a listener of that name exists and declares that payload."""
        return root in self.roots.get(listener, frozenset())

    def takers(self, root: str) -> tuple[str, ...]:
        """The listeners that declare a payload, in the order of the organism."""
        return tuple(name for name, roots in self.roots.items() if root in roots)

    def principal(self, name: str, may: Collection[str] | None = None) -> Listener:
        """A stand-in for the principal who opened a conversation. It accepts nothing.

        Args:
            name: the principal's.
            may: the only listeners that it may address; None for all of them.
        """
        return Listener(
            name, (), "", peers=self._everyone if may is None else self._everyone.intersection(may)
        )
