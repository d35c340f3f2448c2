"""The seam at which listeners are shown references in place of values, and values come into what they send.

Owns the protocol of the guards that do so, and their results. Refuses to know any of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lxml import etree

    from agentserver.core.messages import Delivery, Draft
    from agentserver.core.records.details import Detail
    from agentserver.core.refusals import Refusal


class Opened(NamedTuple):
    """A message with the values that its references stand for.

    Args:
        draft: None when it may not be sent.
        memory: of every guard, if it is sent.
        note: goes on record either way.
    """

    draft: Draft | None
    memory: Mapping[str, object]
    note: Detail


class Resolved(NamedTuple):
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

    def resolve(self, memory: object, draft: Draft, thread: str, room: int) -> Resolved | None:
        """Put values into a message of one of them, of ``room`` bytes at most; None for one without references.

        ``thread`` is that of the sender. The payload is held against its schema afterwards.
        """
        ...

    def rewritten(self, memory: object, before: Draft, after: Draft, thread: str) -> object:
        """The memory when a rewriter made another message of one that values were put into."""
        ...
