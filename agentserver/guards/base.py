"""Base class, messages and verdicts for the guards of programs."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from agentserver.contract import Code
from agentserver.core.guard import DenyVerdict, NeedsApproval, NoteVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from agentserver.core.blueprint import Listener
    from agentserver.core.drafts.routing import Route
    from agentserver.core.guard import Verdict


def _decode_nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Message:
    """Message as a guard receives it. Each call gets its own payload object.

    Args:
        sender: the listener that wrote it, the principal who opened the conversation, or ``system``.
        to: the listener it is for; in an answer that leaves the server, the principal.
        at: the time of the decision, in UTC. A replay passes the recorded time.
        root: name of the payload element, ``{namespace}local``.
        thread: the sender's, opaque.
        outside: whether the principal wrote it, and no operator resends it in the principal's name.
        route: the capacity in which the receiver is addressed; None for a message that was delivered to a listener.
        decode: returns the payload.
    """

    sender: str
    to: str
    at: datetime
    root: str = ""
    thread: str = ""
    outside: bool = False
    route: Route | None = None
    decode: Callable[[], Any] = field(default=_decode_nothing, repr=False, compare=False)

    @property
    def payload(self) -> Any:
        """The payload as an object of its class, decoded at each access."""
        return self.decode()


def deny(reason: str) -> DenyVerdict:
    """Deny a message. Its sender gets ``denied``; log and audit get the reason."""
    return DenyVerdict(Code.DENIED, reason)


def ask(question: str, about: Iterable[str] = ()) -> NeedsApproval:
    """Ask a person to approve a message.

    Args:
        question: the question for that person.
        about: texts that identify the approved content if the person approves it for the rest of the conversation: a
            later question about the same texts is not asked. Without them the content is the same payload to the same
            receiver.
    """
    return NeedsApproval(question, tuple(about))


def note(reason: str) -> NoteVerdict:
    """Let a message pass, and record the reason."""
    return NoteVerdict(reason)


class Guard(ABC):
    """Rule about messages that a program adds to those of the server.

    Derive from it and define ``judge``. The fields of a frozen dataclass are the guard's settings in the YAML.

    Every method except ``check`` is pure: equal arguments give equal results, so that a recorded conversation is
    decided the same way again. It takes the time from ``message.at``, stores nothing in the guard itself, and never
    blocks, since it runs on the event loop.

    ``memory`` is the guard's own for one conversation: any JSON value up to 64 kB, committed with each step and passed
    as JSON returns it (a tuple as a list). It is None until a method returns another value.

    If ``judge`` raises, or returns anything but a verdict, the message is denied. If another method raises, or the
    memory is not JSON, every later message of the conversation is denied.
    """

    passes_answers: ClassVar[bool] = False
    """True for a guard that denies no answer of a listener to the principal, and asks about none. Only then may an
    agent's answer be shown while its model writes it."""

    def check(self, listeners: Mapping[str, Listener]) -> None:  # noqa: B027 - for those that name listeners
        """Check the organism when it is loaded, and when a server is built from it.

        Raises ValueError for settings that do not fit it.
        """

    def begin(self) -> Any:
        """Return the memory of a new conversation."""
        return None

    def observe(self, message: Message, memory: Any) -> Any:  # noqa: ARG002 - for those that remember
        """Return the memory after a message was delivered to a listener, before anything that it sends is judged."""
        return memory

    def miss(self, memory: Any) -> Any:
        """Return the memory after a message that could not be observed, or of a conversation older than the guard."""
        return memory

    @abstractmethod
    def judge(self, message: Message, memory: Any) -> Verdict:
        """Decide on a message before it is sent: ``deny``, ``ask``, ``note``, or None to let it pass."""


HOOKS = ("check", "begin", "observe", "miss", "judge")
"""Methods that the server calls."""


def describe_unfit(kind: type) -> str:
    """Explain why a class cannot be used as a guard; empty if it can."""
    name = kind.__qualname__
    if not issubclass(kind, Guard):
        return f"{name} is not a guard; derive it from agentserver.guards.Guard"
    if inspect.isabstract(kind):
        return f"{name} does not define judge"
    hooks = {hook: getattr(kind, hook) for hook in HOOKS}
    for hook, method in hooks.items():
        if not callable(method):
            return f"{name}.{hook} is no method"
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            return f"{name}.{hook} must be declared with def, because a guard cannot await"
        if inspect.isgeneratorfunction(method):
            return f"{name}.{hook} is a generator; return the value instead"
    return ""
