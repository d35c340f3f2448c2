"""The tree of threads of one conversation.

Owns which threads exist, who works on them, what waits on them and what they store. Keyed by opaque id, never
by a path of names. Refuses to know what a message means, who may send it and when a thread should close.

Invariants:
    1. The root belongs to the principal that opened the conversation; its inbox stays empty.
    2. Every other thread has a parent in the tree and one owner, the listener that works on it.
    3. The first delivery of an inbox is running or runnable; the others wait for it.
    4. Closing a thread closes everything below it.
    5. A thread knows how many of its children are not at rest, and many children have an index of those that are. Both
       follow from the rest of the tree, and are kept by the same changes.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time by NamedTuple's default below
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.messages import NO_CALL
from agentserver.core.state import siblings
from agentserver.core.state.growing.logs import NO_LOGS
from agentserver.core.state.overlay import changeable
from agentserver.core.state.siblings import NO_SIBLINGS, Siblings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.core.messages import Call, Delivery
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.growing.logs import Logs
    from agentserver.core.state.siblings import Kind


NOTHING: Mapping[str, bytes] = MappingProxyType({})

_new = tuple.__new__


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
        call: the call by which its caller last addressed it.
        children: ids of the threads it opened.
        inbox: deliveries in order; the first is running or runnable.
        held: deliveries that a todo keeps back.
        refusals: consecutive refused attempts.
        storage: encoded value per class name.
        logs: by class name.
        approvals: deliveries that wait until a person approves them.
        allowed: the only peers in force here and below; None for no narrowing.
        request: the open request of the principal that was delivered on it last; empty without one.
        busy: how many of its children are not at rest. The root does not count.
    """

    id: str
    owner: str
    parent: str | None
    ordinal: int
    call: Call = NO_CALL
    children: Siblings = NO_SIBLINGS
    inbox: tuple[Delivery, ...] = ()
    held: tuple[Held, ...] = ()
    refusals: int = 0
    storage: Mapping[str, bytes] = NOTHING
    logs: Logs = NO_LOGS
    approvals: tuple[Approval, ...] = ()
    allowed: frozenset[str] | None = None
    request: str = ""
    busy: int = 0

    @property
    def quiet(self) -> bool:
        """True when nothing waits here."""
        return not self.inbox and not self.held and not self.approvals

    @property
    def resting(self) -> Kind | None:
        """The owner, and the peers in force, of a thread on which and below which nothing is under way."""
        if self.inbox or self.busy or self.held or self.approvals:
            return None
        return self.owner, self.allowed

    def with_inbox(self, inbox: tuple[Delivery, ...]) -> Thread:
        """The thread with another inbox; ``_replace`` would cost three times as much."""
        return _new(Thread, (*self[:6], inbox, *self[7:]))

    def begun(self, sent: Delivery) -> Thread:
        """The thread at rest as the first delivery of a request comes to it."""
        return _new(Thread, (*self[:6], (sent,), *self[7:-2], sent.request, self.busy))

    def called_by(self, call: Call) -> Thread:
        """The thread as its caller addresses it once more."""
        return _new(Thread, (*self[:4], call, *self[5:]))

    def waiting(self) -> tuple[Delivery, ...]:
        """Everything that waits here: running, held, or for a person."""
        if not self.held and not self.approvals:
            return self.inbox
        return (*self.inbox, *(one.delivery for one in self.held), *(one.delivery for one in self.approvals))


class ThreadTree(NamedTuple):
    """Threads by id, as one step left them. ``TreeChange`` makes the next tree."""

    root: str
    nodes: Mapping[str, Thread]
    opened: int = 1

    @classmethod
    def of(cls, root: str, nodes: Mapping[str, Thread], opened: int) -> ThreadTree:
        """A tree of threads, parents before children, that do not know yet which of their children are at rest."""
        busy: dict[str, int] = {}
        for node in reversed(nodes.values()):  # type: ignore[call-overload]
            if node.parent is not None and (not node.quiet or node.id in busy):
                busy[node.parent] = busy.get(node.parent, 0) + 1
        busy.pop(root, None)
        counted = dict(nodes)
        counted.update({thread: nodes[thread]._replace(busy=count) for thread, count in busy.items()})
        for node in nodes.values():
            if node.children.size > siblings.FEW:
                counted[node.id] = counted[node.id]._replace(children=_indexed(node.children, counted))
        return cls(root, counted, opened)

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
        """Every descendant: parents before children, the older child with all of its own before the younger."""
        pending = list(reversed(self.nodes[thread].children))
        while pending:
            node = self.nodes[pending.pop()]
            yield node
            pending.extend(reversed(node.children))


class TreeChange:
    """The next tree in the making: changed in place, so that it costs what is changed rather than what is there.

    Args:
        before: the tree to start from; it stays as it was.
    """

    def __init__(self, before: ThreadTree) -> None:
        self._nodes = changeable(before.nodes)
        self._opened = before.opened
        self._resting: dict[tuple[str, str, frozenset[str] | None], Iterator[Thread]] = {}
        self.tree = ThreadTree(before.root, self._nodes, before.opened)

    def result(self) -> ThreadTree:
        """The tree as it is now; the change is over."""
        return ThreadTree(self.tree.root, self._nodes, self._opened)

    def put(self, thread: Thread) -> None:
        """Replace a thread by a changed copy of itself."""
        before = self._nodes[thread.id]
        self._nodes[thread.id] = thread
        self._tell(before, thread)

    def belongs(self, thread: str, request: str) -> None:
        """Note the open request that was delivered on a thread last. Nothing happens to a thread that is closed."""
        node = self._nodes.get(thread)
        if node is not None:
            self._nodes[thread] = _new(Thread, (*node[:-2], request, node.busy))

    def _tell(self, before: Thread, after: Thread) -> None:
        """Let those above a changed thread know whether it is at rest."""
        while after.parent is not None:
            was, now = before.resting, after.resting
            if was == now:
                return
            above = self._nodes[after.parent]
            children = above.children.moved(after.id, was, now)
            busy = above.busy + (now is None) - (was is None) if above.parent is not None else 0
            if children is above.children and busy == above.busy:
                return
            before = above
            after = self._nodes[above.id] = above._replace(children=children, busy=busy)

    def open(self, parent: str, owner: str, thread: str, call: Call = NO_CALL) -> Thread:
        """Add a child of ``parent``."""
        above = self._nodes[parent]
        child = self._nodes[thread] = Thread(thread, owner, parent, self._opened, call)
        children = followed(above.children, thread, self._nodes).moved(thread, None, child.resting)
        self._nodes[parent] = above._replace(children=children)
        self._opened += 1
        return child

    def resting(self, parent: str, owner: str, allowed: frozenset[str] | None = None) -> Thread | None:
        """The oldest child of ``parent`` that ``owner`` works on and that is at rest; each is given only once.

        Reuse is what keeps a tool's memory between two calls of one caller; a child still at work is left
        alone, so that two calls at the same time cannot mix. So is one on which other peers are in force.
        """
        key = (parent, owner, allowed)
        found = self._resting.get(key)
        if found is None:
            found = self._resting[key] = self._at_rest(parent, (owner, allowed))
        return next(found, None)

    def _at_rest(self, parent: str, kind: Kind) -> Iterator[Thread]:
        children = self._nodes[parent].children
        if children.resting is None:
            for child in children:
                node = self._nodes[child]
                if not node.inbox and node.resting == kind:
                    yield node
            return
        place = children.first(kind)
        while place is not None and place < children.size:
            yield self._nodes[children.ids[place]]
            place = self._nodes[parent].children.first(kind, place + 1)

    def prune(self, thread: str) -> tuple[Thread, ...]:
        """Close everything below ``thread``; gives the closed threads."""
        before = self._nodes[thread]
        if not before.children:
            return ()
        closed = tuple(self.tree.below(thread))
        for node in closed:
            del self._nodes[node.id]
        self.put(before._replace(children=NO_SIBLINGS, busy=0))
        return closed

    def shut(self, thread: str) -> tuple[Thread, ...]:
        """Close ``thread`` with everything below it; gives the closed threads. Raises LookupError on the root."""
        above = self.tree.caller(self._nodes[thread])
        below = self.prune(thread)
        gone = self._nodes.pop(thread)
        above = self._nodes[above.id]
        left = _indexed(Siblings(child for child in above.children if child != thread), self._nodes)
        busy = above.busy - (gone.resting is None) if above.parent is not None else 0
        self.put(above._replace(children=left, busy=busy))
        return (*below, gone)


def followed(children: Siblings, thread: str, nodes: Mapping[str, Thread]) -> Siblings:
    """The children of a thread and one more, which counts as working until it is told otherwise.

    Args:
        children: those there are; ``nodes`` has them.
        thread: the id of the one more.
        nodes: threads by id.
    """
    more = children.followed_by(thread)
    return more if more.size <= siblings.FEW or more.resting is not None else _indexed(children, nodes, more)


def _indexed(children: Siblings, nodes: Mapping[str, Thread], more: Siblings | None = None) -> Siblings:
    """Children, or ``more`` that begin with them, with the index of those at rest if they are many."""
    return (more or children).indexed(nodes[child].resting for child in children)


def narrowed(above: frozenset[str] | None, own: frozenset[str] | None) -> frozenset[str] | None:
    """The peers in force below a thread: what is taken away above is never given back."""
    if own is None or above is None:
        return above if own is None else own
    return above & own
