"""Protocols of guards that show references to a listener and resolve them in its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lxml import etree

    from agentserver.core.messages import Delivery, Draft
    from agentserver.core.records.details import Detail
    from agentserver.core.refusals import Refusal


class ResolvedDraft(NamedTuple):
    """Message whose references are replaced by values.

    Args:
        draft: None when it may not be sent.
        memory: of every guard, if it is sent.
        note: recorded in either case.
    """

    draft: Draft | None
    memory: Mapping[str, object]
    note: Detail


class ResolvedPayload(NamedTuple):
    """Payload whose references a guard has resolved.

    Args:
        element: the payload with the values put in; None when one cannot be.
        memory: of the guard, if the message is sent.
        note: recorded in either case.
    """

    element: etree._Element | None
    memory: object
    note: Detail


@runtime_checkable
class Presenter(Protocol):
    """Guard that shows listeners references in place of values and resolves them in their messages. Pure."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""
        ...

    @property
    def viewers(self) -> frozenset[str]:
        """The listeners that see references."""
        ...

    def present(
        self, memory: object, delivery: Delivery, element: etree._Element
    ) -> etree._Element | Refusal:
        """Return a valid copy of the payload with references, or the reason for not showing it."""
        ...

    def resolve(self, memory: object, draft: Draft, thread: str, room: int) -> ResolvedPayload | None:
        """Replace references by values, up to ``room`` bytes; None for a message without references.

        ``thread`` is the sender's. The caller validates the result.
        """
        ...

    def follow_rewrite(self, memory: object, before: Draft, after: Draft, thread: str) -> object:
        """Return the memory after a rewriter changed a message with resolved references."""
        ...


@runtime_checkable
class SilencingGuard(Protocol):
    """Guard that can suppress the progress reports of listeners."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""
        ...

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:
        """As of ``CoreGuard``."""
        ...

    @property
    def silencing(self) -> bool:
        """True when it may silence any listener; else it is not asked."""
        ...

    def silences(self, memory: object, listener: str, thread: str) -> bool:
        """Return whether the listener may not report progress on this thread. Pure."""
        ...


def is_silenced(
    guards: Iterable[object],
    memory: Mapping[str, object],
    delivery: Delivery,
    element: etree._Element,
    at: float,
) -> bool:
    """Return whether a guard forbids progress reports during a delivery, which counts as seen.

    ``memory`` is each guard's by its name; the other arguments are as of ``SilencingGuard.observe``.
    """
    return any(
        guard.silences(
            guard.observe(memory.get(guard.name), delivery, element, at), delivery.to, delivery.thread
        )
        for guard in guards
        if isinstance(guard, SilencingGuard) and guard.silencing
    )
