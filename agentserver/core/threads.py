"""The tree of threads of one conversation.

Owns which threads exist, who works on them, what waits on them and what they store. Keyed by opaque id, never
by a path of names. Refuses to know what a message means, who may send it and when a thread should close.

Invariants:
    1. The root belongs to the principal that opened the conversation; its inbox stays empty.
    2. Every other thread has a parent in the tree and one owner, the listener that works on it.
    3. The first delivery of an inbox is running or runnable; the others wait for it.
    4. Closing a thread closes everything below it.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time by NamedTuple's default below
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.core.messages import Delivery


NOTHING: Mapping[str, bytes] = MappingProxyType({})


class Held(NamedTuple):
    """A delivery that a todo keeps back."""

    watcher: str
    delivery: Delivery


class Thread(NamedTuple):
    """One thread.

    Args:
        id: opaque.
        owner: the listener that works on it, or the principal on the root.
        parent: id of the caller's thread; None on the root.
        ordinal: the order in which threads were opened.
        children: ids of the threads it opened.
        inbox: deliveries in order; the first is running or runnable.
        held: deliveries that a todo keeps back.
        refusals: consecutive refused attempts.
        storage: encoded value per class name.
    """

    id: str
    owner: str
    parent: str | None
    ordinal: int
    children: tuple[str, ...] = ()
    inbox: tuple[Delivery, ...] = ()
    held: tuple[Held, ...] = ()
    refusals: int = 0
    storage: Mapping[str, bytes] = NOTHING

    @property
    def quiet(self) -> bool:
        """Whether nothing waits here."""
        return not self.inbox and not self.held

    def waiting(self) -> tuple[Delivery, ...]:
        """Everything that waits here, running or held."""
        return self.inbox + tuple(held.delivery for held in self.held)


class ThreadTree(NamedTuple):
    """Threads by id. Every change gives a new tree and leaves this one as it was."""

    root: str
    nodes: Mapping[str, Thread]
    opened: int = 1

    @classmethod
    def planted(cls, root: str, principal: str) -> ThreadTree:
        """A tree that holds only the principal's root."""
        return cls(root, {root: Thread(root, principal, None, 0)})

    def get(self, thread: str) -> Thread | None:
        """The thread, or None when it is closed or never was."""
        return self.nodes.get(thread)

    def caller(self, thread: Thread) -> Thread:
        """The thread that called this one. Raises LookupError on the root."""
        if thread.parent is None:
            raise LookupError("the root has no caller")
        return self.nodes[thread.parent]

    def below(self, thread: str) -> Iterator[Thread]:
        """Every descendant, parents before children."""
        pending = list(self.nodes[thread].children)
        while pending:
            node = self.nodes[pending.pop()]
            yield node
            pending.extend(node.children)

    def reusable(self, parent: str, owner: str) -> Thread | None:
        """The oldest child of ``parent`` that ``owner`` works on and below which nothing is under way.

        Reuse is what keeps a tool's memory between two calls of one caller; a child still at work is left
        alone, so that two calls at the same time cannot mix.
        """
        for child in self.nodes[parent].children:
            node = self.nodes[child]
            if node.owner == owner and node.quiet and all(below.quiet for below in self.below(child)):
                return node
        return None

    def open(self, parent: str, owner: str, thread: str) -> ThreadTree:
        """Add a child of ``parent``."""
        above = self.nodes[parent]
        nodes = dict(self.nodes)
        nodes[thread] = Thread(thread, owner, parent, self.opened)
        nodes[parent] = above._replace(children=(*above.children, thread))
        return ThreadTree(self.root, nodes, self.opened + 1)

    def put(self, thread: Thread) -> ThreadTree:
        """Replace a thread by a changed copy of itself."""
        return ThreadTree(self.root, {**self.nodes, thread.id: thread}, self.opened)

    def prune(self, thread: str) -> tuple[ThreadTree, tuple[Thread, ...]]:
        """Close everything below ``thread``; also gives the closed threads."""
        closed = tuple(self.below(thread))
        if not closed:
            return self, ()
        gone = {node.id for node in closed}
        nodes = {key: node for key, node in self.nodes.items() if key not in gone}
        nodes[thread] = nodes[thread]._replace(children=())
        return ThreadTree(self.root, nodes, self.opened), closed
