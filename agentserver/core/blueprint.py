"""The immutable description of an organism: listeners, payloads, peers and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from agentserver.contract import CancelTimer, SetTimer, TodoComplete, TodoUntil
from agentserver.core.messages import TIMER, TODO
from agentserver.spending import NO_BUDGETS, Budgets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from agentserver.payload.codec import Codecs
    from agentserver.payload.conditions import FieldCondition


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Rule about the messages to a listener that a person has to approve.

    Args:
        when: conditions on the payload; one is enough. Empty for every message.
        approvers: who may approve, as ``Limits.approvers``; None for what that says.
        within: seconds that a message waits; None for ``Limits.approval``.
    """

    when: tuple[FieldCondition, ...] = ()
    approvers: Literal["anyone", "others"] | None = None
    within: float | None = None

    def __str__(self) -> str:
        fields = ", ".join(dict.fromkeys(one.path for one in self.when))
        return f"some messages, depending on {fields}" if fields else "every message"


_USUAL_RULE: Final = ApprovalRule()


@dataclass(frozen=True, slots=True)
class Listener:
    """Participant of an organism.

    Args:
        name: unique; may hold dots, which mean nothing.
        payloads: the dataclasses it accepts; at least one.
        description: its purpose, shown to peers.
        agent: whether it learns its own name.
        peers: the only listeners it may address besides its caller, itself and ``system.*``.
        broadcast: whether a message without ``to`` may go to several listeners that share its root.
        concurrency: its invocations that run at once in one process.
        exclusive: whether at most one runs in all processes together; ``concurrency`` is 1 then.
        deadline: seconds that one invocation may take.
        retries: repetitions of a crashed or late invocation before its caller gets an error.
        approval: which messages to it a person has to approve; None for none.
        deny: conditions on the payload; a message to it that meets one is denied.
        progress: whether its progress is shown to clients.
        chat: the member of its payload, in JSON, that takes the text of a chat client; empty if it serves none.
        answers: the only dataclasses that it answers with; empty when unknown.
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
    approval: ApprovalRule | None = None
    deny: tuple[FieldCondition, ...] = ()
    progress: bool = False
    chat: str = ""
    answers: tuple[type, ...] = ()


DAY: Final = 86_400.0
"""Seconds of a day."""


def limit(default: Any, description: str, **bounds: float) -> Any:
    """Declare a limit.

    The key of the YAML, its check, the schema for editors and the page of keys are derived from this.

    Args:
        default: the value of an organism that does not set it.
        description: help text for the author of an organism.
        bounds: ``ge``, ``gt``, ``le`` and ``lt``.
    """
    return field(default=default, metadata={"description": description, **bounds})


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the server. Times are in seconds, sizes in bytes."""

    concurrency: int = limit(64, "Invocations running at once in the whole server.", ge=1, le=65_536)
    queue: int = limit(
        1024,
        "Messages accepted and not yet handled; beyond it outside messages are refused as busy.",
        ge=1,
        le=1_000_000,
    )
    principal_queue: int = limit(
        256,
        "Messages that one principal may have accepted and not yet handled; beyond it its own are refused as busy, and "
        "no others.",
        ge=1,
        le=1_000_000,
    )
    principal_conversations: int = limit(
        1000, "Conversations that one principal may have open.", ge=1, le=1_000_000
    )
    principal_bytes: int = limit(
        1 << 26,
        "Bytes of messages that one principal may have accepted and not yet handled.",
        ge=256,
        le=1 << 34,
    )
    hops: int = limit(256, "Messages in one causal chain since the message from outside.", ge=1, le=10_000)
    messages: int = limit(
        2000, "Messages that one message from outside may lead to, including its replies.", ge=1, le=1_000_000
    )
    conversation_messages: int = limit(
        1_000_000, "Messages in one conversation over its whole life.", ge=1, le=1_000_000_000
    )
    refusals: int = limit(
        3, "Consecutive refused attempts of one thread before retrying is forbidden.", ge=1, le=100
    )
    storage: int = limit(65536, "Bytes of encoded values that one thread may keep.", ge=0, le=1 << 24)
    payload: int = limit(1 << 20, "Bytes of one message.", ge=256, le=1 << 26)
    idle: float = limit(
        3600.0, "Time without a message after which a conversation closes.", gt=0, le=365 * DAY
    )
    drain: float = limit(10.0, "Time that a graceful stop waits for running work.", ge=0, le=DAY)
    approval: float = limit(
        3600.0, "Time that a message waits for a person's approval; then it is refused.", gt=0, le=365 * DAY
    )
    approvers: Literal["anyone", "others"] = limit(
        "anyone",
        "Who may approve a message: anyone, or others, which excludes the principal who opened the conversation.",
    )
    grace: float = limit(
        2.0, "Time that a cancelled invocation has to end; then it is abandoned.", ge=0, le=DAY
    )
    stall: float = limit(
        30.0,
        "Time for which an invocation may block the event loop; then agentserver run exits. 0 means no limit.",
        ge=0,
        le=DAY,
    )
    fatal_ends: int = limit(
        3,
        "Times the process may end while it handles one message alone; then the message becomes a dead letter.",
        ge=1,
        le=1000,
    )


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Facts about an organism that do not change while it runs.

    Args:
        listeners: by name.
        limits: the bounds.
        roots: names of the payload elements that each listener accepts.
        services: by payload element, the service that accepts it; see ``map_services``.
        usage: for each listener, the payloads of its peers as text for a model.
        budgets: limits on spending.
    """

    listeners: Mapping[str, Listener]
    limits: Limits
    roots: Mapping[str, frozenset[str]]
    services: Mapping[str, str]
    usage: Mapping[str, str]
    budgets: Budgets = NO_BUDGETS
    _everyone: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Collect all names once; doing it for each message would cost time linear in the listeners."""
        object.__setattr__(self, "_everyone", frozenset(self.listeners))

    def accepts(self, listener: str, root: str) -> bool:
        """Check whether a listener of that name exists and declares that payload."""
        return root in self.roots.get(listener, frozenset())

    def list_takers(self, root: str) -> tuple[str, ...]:
        """Return the listeners that declare a payload, in the order of the organism."""
        return tuple(name for name, roots in self.roots.items() if root in roots)

    def find_approval_time(self, listener: str) -> float:
        """Find the seconds that a message to a listener waits for an approval."""
        within = self._make_approval_rule(listener).within
        return self.limits.approval if within is None else within

    def others_approve(self, listener: str) -> bool:
        """Check whether a message to a listener needs another approver than the principal of its conversation."""
        return (self._make_approval_rule(listener).approvers or self.limits.approvers) == "others"

    def _make_approval_rule(self, listener: str) -> ApprovalRule:
        known = self.listeners.get(listener)
        return (known and known.approval) or _USUAL_RULE

    def make_principal(self, name: str, may: Collection[str] | None = None) -> Listener:
        """Make the placeholder for the principal who opened a conversation. It accepts nothing.

        Args:
            name: the principal's.
            may: the only listeners that it may address; None for all of them.
        """
        return Listener(
            name, (), "", peers=self._everyone if may is None else self._everyone.intersection(may)
        )


def map_services(codecs: Codecs) -> Mapping[str, str]:
    """Map the payload elements that services accept to the names of the services."""
    accepted = {TODO: (TodoUntil, TodoComplete), TIMER: (SetTimer, CancelTimer)}
    return {codecs.of(payload).name: name for name, payloads in accepted.items() for payload in payloads}
