"""Base class, messages and verdicts for the guards of programs."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentserver.contract import Code
from agentserver.core.guard import DenyVerdict, NeedsApproval, NoteVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from agentserver.core.blueprint import Listener
    from agentserver.core.drafts.routing import Route
    from agentserver.core.guard import Verdict


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Message:
    """A message as a guard is shown it. Two calls are never given the same payload object.

    Args:
        sender: the listener that wrote it, the principal who opened the conversation, or ``system``.
        to: the listener it is for; in an answer that leaves the server, the principal.
        at: the time of the decision, in UTC. A replay gives the time that was recorded.
        root: name of the payload element, ``{namespace}local``.
        thread: the sender's, opaque.
        outside: whether the principal wrote it, and no operator sends it again in the principal's name.
        route: in what capacity the receiver is addressed; None for a message that a listener was given.
        decode: gives the payload.
    """

    sender: str
    to: str
    at: datetime
    root: str = ""
    thread: str = ""
    outside: bool = False
    route: Route | None = None
    decode: Callable[[], Any] = field(default=_nothing, repr=False, compare=False)

    @property
    def payload(self) -> Any:
        """The payload as an object of its class, made anew at each use."""
        return self.decode()


def deny(reason: str) -> DenyVerdict:
    """The verdict that a message may not be sent. Its sender gets ``denied``; log and audit get the reason."""
    return DenyVerdict(Code.DENIED, reason)


def ask(question: str, about: Iterable[str] = ()) -> NeedsApproval:
    """The verdict that a person has to approve a message.

    Args:
        question: shown to that person.
        about: texts that say what is approved when the person approves it for the rest of the conversation: a question
            about nothing else is then not asked again. Without them it is the same payload to the same receiver.
    """
    return NeedsApproval(question, tuple(about))


def note(reason: str) -> NoteVerdict:
    """The verdict that a message may be sent, and that the reason goes on record."""
    return NoteVerdict(reason)


class Guard(ABC):
    """A rule about messages that a program adds to those of the server.

    Derive from it and define ``judge``. The fields of a frozen dataclass are the guard's settings in the YAML.

    Every method but ``check`` is pure: equal arguments give equal results, so that a recorded conversation is decided
    again as it was. It takes the time from ``message.at``, keeps nothing in the guard itself, and waits for nothing:
    it runs on the event loop.

    ``memory`` is the guard's own for one conversation: anything that JSON can hold, 64 kB of it at most, committed with
    each step and given as JSON gives it back (a tuple as a list). It is None until a method gives another.

    A guard that raises, or gives what is no verdict, has denied the message. One that raises in another method than
    ``judge``, or whose memory is no JSON, denies every later message of the conversation.
    """

    def check(self, listeners: Mapping[str, Listener]) -> None:  # noqa: B027 - for those that name listeners
        """Look at the organism when it is loaded, and when a server is made of it.

        Raises ValueError for settings that do not fit it.
        """

    def opened(self) -> Any:
        """The memory of a conversation that begins."""
        return None

    def observe(self, message: Message, memory: Any) -> Any:  # noqa: ARG002 - for those that remember
        """The memory after a listener was given a message, called before anything that it sends is judged."""
        return memory

    def missed(self, memory: Any) -> Any:
        """The memory after a message that could not be observed, and of a conversation that is older than the guard."""
        return memory

    @abstractmethod
    def judge(self, message: Message, memory: Any) -> Verdict:
        """Decide on a message before it is sent: ``deny``, ``ask``, ``note``, or None to let it pass."""


HOOKS = ("check", "opened", "observe", "missed", "judge")
"""The methods that the server calls."""


def unfit(kind: type) -> str:
    """The reason why a class is no guard that can be asked; empty for one that is."""
    name = kind.__qualname__
    if not issubclass(kind, Guard):
        return f"{name} is no guard: derive it from agentserver.guards.Guard"
    if inspect.isabstract(kind):
        return f"{name} does not define judge"
    hooks = {hook: getattr(kind, hook) for hook in HOOKS}
    for hook, method in hooks.items():
        if not callable(method):
            return f"{name}.{hook} is no method"
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            return f"{name}.{hook} must be declared with def: a guard waits for nothing"
        if inspect.isgeneratorfunction(method):
            return f"{name}.{hook} yields: what a guard is asked it returns"
    return ""
