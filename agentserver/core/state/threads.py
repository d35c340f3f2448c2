"""The tree of threads of one conversation.

Keyed by opaque id, never by a path of names.

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
from agentserver.core.state.overlay import Overlay, changeable
from agentserver.core.state.siblings import NO_SIBLINGS, Siblings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.core.messages import Call, Delivery
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.growing.logs import Logs
    from agentserver.core.state.siblings import Kind


NOTHING: Mapping[str, bytes] = MappingProxyType({})

_new = tuple.__new__


class HeldDelivery(NamedTuple):
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
    held: tuple[HeldDelivery, ...] = ()
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

    def with_children(self, children: Siblings, busy: int) -> Thread:
        """The thread with other children, of which so many are at work."""
        return _new(Thread, (*self[:5], children, *self[6:-1], busy))

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
                counted[node.id] = counted[node.id]._replace(children=_index_children(node.children, counted))
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

    Threads above a changed one learn whether it is at rest when they are asked for children, and at the end.

    Args:
        before: the tree to start from; it stays as it was.
    """

    def __init__(self, before: ThreadTree) -> None:
        self.nodes = changeable(before.nodes)
        self._root, self._opened = before.root, before.opened
        self._resting: dict[tuple[str, str, frozenset[str] | None], Iterator[Thread]] = {}
        self._reported: dict[str, Thread] = {}
        """The changed threads as those above them know them."""

    @property
    def tree(self) -> ThreadTree:
        """The tree as it is now."""
        return ThreadTree(self._root, self.nodes, self._opened)

    def put(self, thread: Thread) -> None:
        """Replace a thread by a changed copy of itself."""
        self._reported.setdefault(thread.id, self.nodes[thread.id])
        self.nodes[thread.id] = thread

    def put_inbox(self, thread: Thread, inbox: tuple[Delivery, ...]) -> None:
        """Replace a thread, which may have another call than before, by the same with another inbox."""
        self._reported.setdefault(thread.id, thread)
        self.nodes[thread.id] = _new(Thread, (*thread[:6], inbox, *thread[7:]))

    def belongs(self, thread: str, request: str) -> None:
        """Note the open request that was delivered on a thread last. Nothing happens to a thread that is closed."""
        node = self.nodes.get(thread)
        if node is not None:
            self.nodes[thread] = node._replace(request=request)

    def result(self) -> ThreadTree:
        """Return the tree as it is now, after those above the changed threads have learnt which of them are at rest."""
        reported, nodes = self._reported, self.nodes
        while reported:
            key, was = reported.popitem()
            now = nodes.get(key)
            if now is None or now.parent is None:
                continue
            worked = bool(was.inbox or was.busy or was.held or was.approvals)
            works = bool(now.inbox or now.busy or now.held or now.approvals)
            if works and worked:
                continue
            above = nodes[now.parent]
            children, busy = above.children, above.busy
            if children.resting is not None:
                children = children.moved(key, was.resting, now.resting)
            if above.parent is not None:
                busy += works - worked
            if children is not above.children or busy != above.busy:
                reported.setdefault(above.id, above)
                nodes[above.id] = above.with_children(children, busy)
        return ThreadTree(self._root, nodes, self._opened)

    def open(
        self,
        parent: str,
        owner: str,
        thread: str,
        call: Call = NO_CALL,
        allowed: frozenset[str] | None = None,
    ) -> Thread:
        """Add a child of ``parent``."""
        above = self.nodes[parent]
        child = self.nodes[thread] = Thread(thread, owner, parent, self._opened, call, allowed=allowed)
        if above.children.size < siblings.FEW:
            children = above.children.followed_by(thread)
        else:
            children = add_child(above.children, thread, self.nodes).moved(thread, None, child.resting)
        self.nodes[parent] = above.with_children(children, above.busy)
        self._opened += 1
        return child

    def resting(self, parent: str, owner: str, allowed: frozenset[str] | None = None) -> Thread | None:
        """Return the oldest child of ``parent`` that ``owner`` works on and that is at rest; each only once.

        Reuse is what keeps a tool's memory between two calls of one caller; a child still at work is left
        alone, so that two calls at the same time cannot mix. So is one on which other peers are in force.
        """
        key = (parent, owner, allowed)
        found = self._resting.get(key)
        if found is None:
            if len(self._reported) > (parent in self._reported):
                self.result()
            found = self._resting[key] = self._at_rest(parent, (owner, allowed))
        return next(found, None)

    def _at_rest(self, parent: str, kind: Kind) -> Iterator[Thread]:
        children, nodes = self.nodes[parent].children, self.nodes
        if children.resting is None:
            owner, allowed = kind
            held = nodes.values_of(children) if type(nodes) is Overlay else map(nodes.__getitem__, children)
            for node in list(held):
                if node.inbox or node.busy or node.held or node.approvals:
                    continue
                if node.owner == owner and node.allowed == allowed:
                    yield node
            return
        place = children.first(kind)
        while place is not None and place < children.size:
            yield self.nodes[children.ids[place]]
            place = self.nodes[parent].children.first(kind, place + 1)

    def prune(self, thread: str) -> tuple[Thread, ...]:
        """Close everything below ``thread``; gives the closed threads."""
        if not self.nodes[thread].children:
            return ()
        self.result()
        before = self.nodes[thread]
        closed = tuple(self.tree.below(thread))
        for node in closed:
            del self.nodes[node.id]
        self.put(before._replace(children=NO_SIBLINGS, busy=0))
        return closed

    def shut(self, thread: str) -> tuple[Thread, ...]:
        """Close ``thread`` with everything below it; gives the closed threads. Raises LookupError on the root."""
        above = self.tree.caller(self.nodes[thread])
        below = self.prune(thread)
        self.result()
        gone = self.nodes.pop(thread)
        above = self.nodes[above.id]
        left = _index_children(Siblings(child for child in above.children if child != thread), self.nodes)
        busy = above.busy - (gone.resting is None) if above.parent is not None else 0
        self.put(above._replace(children=left, busy=busy))
        return (*below, gone)


def add_child(children: Siblings, thread: str, nodes: Mapping[str, Thread]) -> Siblings:
    """The children of a thread and one more, which counts as working until it is told otherwise.

    Args:
        children: those there are; ``nodes`` has them.
        thread: the id of the one more.
        nodes: threads by id.
    """
    more = children.followed_by(thread)
    return (
        more
        if more.size <= siblings.FEW or more.resting is not None
        else _index_children(children, nodes, more)
    )


def _index_children(
    children: Siblings, nodes: Mapping[str, Thread], more: Siblings | None = None
) -> Siblings:
    """Children, or ``more`` that begin with them, with the index of those at rest if they are many."""
    return (more or children).indexed(nodes[child].resting for child in children)


def narrow_peers(above: frozenset[str] | None, own: frozenset[str] | None) -> frozenset[str] | None:
    """The peers in force below a thread: what is taken away above is never given back."""
    if own is None or above is None:
        return above if own is None else own
    return above & own
