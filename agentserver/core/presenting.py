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
    """A message with the values that its references stand for.

    Args:
        draft: None when it may not be sent.
        memory: of every guard, if it is sent.
        note: goes on record either way.
    """

    draft: Draft | None
    memory: Mapping[str, object]
    note: Detail


class ResolvedPayload(NamedTuple):
    """The result of a guard for a message with references.

    Args:
        element: the payload with the values put in; None when one cannot be.
        memory: of the guard, if the message is sent.
        note: goes on record either way.
    """

    element: etree._Element | None
    memory: object
    note: Detail


@runtime_checkable
class Presenter(Protocol):
    """A guard that shows listeners references in place of values, and puts the values into their messages. Pure."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""
        ...

    @property
    def viewers(self) -> frozenset[str]:
        """The listeners that are shown references."""
        ...

    def present(
        self, memory: object, delivery: Delivery, element: etree._Element
    ) -> etree._Element | Refusal:
        """The payload as one of them is shown it, valid, or why it cannot be. ``element`` is not changed."""
        ...

    def resolve(self, memory: object, draft: Draft, thread: str, room: int) -> ResolvedPayload | None:
        """Put values into a message of one of them, of ``room`` bytes at most; None for one without references.

        ``thread`` is that of the sender. The payload is held against its schema afterwards.
        """
        ...

    def follow_rewrite(self, memory: object, before: Draft, after: Draft, thread: str) -> object:
        """The memory when a rewriter made another message of one that values were put into."""
        ...


@runtime_checkable
class SilencingGuard(Protocol):
    """A guard that keeps listeners from telling outside of messages what they are doing."""

    @property
    def name(self) -> str:
        """The key of the guard's memory."""
        ...

    def observe(self, memory: object, delivery: Delivery, element: etree._Element, at: float) -> object:
        """As of ``CoreGuard``."""
        ...

    @property
    def silencing(self) -> bool:
        """True when it may silence anybody at all; else it is not asked."""
        ...

    def silences(self, memory: object, listener: str, thread: str) -> bool:
        """True when the listener may tell nothing on this thread. Pure."""
        ...


def is_silenced(
    guards: Iterable[object],
    memory: Mapping[str, object],
    delivery: Delivery,
    element: etree._Element,
    at: float,
) -> bool:
    """True when a guard lets a listener tell nothing while it works on a delivery, which counts as seen.

    ``memory`` is each guard's by its name; the other arguments are as of ``SilencingGuard.observe``.
    """
    return any(
        guard.silences(
            guard.observe(memory.get(guard.name), delivery, element, at), delivery.to, delivery.thread
        )
        for guard in guards
        if isinstance(guard, SilencingGuard) and guard.silencing
    )
