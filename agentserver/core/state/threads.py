"""The tree of threads of one conversation.

Keyed by opaque id, never by a path of names.

Invariants:
    1. The root belongs to the principal that opened the conversation; its inbox stays empty.
    2. Every other thread has a parent in the tree and one owner, the listener that works on it.
    3. The first delivery of an inbox is running or runnable; the others wait for it.
    4. Closing a thread closes everything below it.
    5. A thread counts its busy children, and many children have an index of the idle ones. Both follow from the rest
       of the tree.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time by NamedTuple's default below
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from agentserver.core.messages import NO_CALL
from agentserver.core.state import siblings
from agentserver.core.state.logs import NO_LOGS
from agentserver.core.state.overlay import Overlay, copy_changeable
from agentserver.core.state.siblings import Siblings, list_children

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.core.messages import Call, Delivery
    from agentserver.core.state.approvals import Approval
    from agentserver.core.state.logs import Logs
    from agentserver.core.state.siblings import Children, Kind


NOTHING: Mapping[str, bytes] = MappingProxyType({})

TIMERS: Final = 1000
"""Messages of one conversation that may wait for their time at once."""

_new = tuple.__new__


class HeldDelivery(NamedTuple):
    """Delivery held by a todo."""

    watcher: str
    delivery: Delivery


class DelayedDelivery(NamedTuple):
    """Delivery that waits for its time, in seconds since the epoch."""

    due_at: float
    delivery: Delivery


class Timer(NamedTuple):
    """Place of a delayed delivery in a conversation. Timers are ordered by their due times.

    Args:
        due_at: in seconds since the epoch.
        ordinal: of its thread.
        place: among the delayed deliveries of the thread.
        thread: its id.
        delivery: its id.
    """

    due_at: float
    ordinal: int
    place: int
    thread: str
    delivery: str


class Thread(NamedTuple):
    """One thread.

    Args:
        id: opaque.
        owner: the listener that works on it, or the principal on the root.
        parent: id of the caller's thread; None on the root.
        ordinal: the order in which threads were opened.
        call: the last call of its caller.
        children: ids of the threads it opened.
        inbox: deliveries in order; the first is running or runnable.
        held_deliveries: deliveries that a todo keeps back.
        refusals: consecutive refused attempts.
        storage: encoded value per class name.
        logs: by class name.
        approvals: deliveries that wait until a person approves them.
        delayed: deliveries that wait for their time.
        allowed: the only peers in force here and below; None for no narrowing.
        request: the open request of the principal that was delivered on it last; empty without one.
        busy: number of busy children; not counted on the root.
    """

    id: str
    owner: str
    parent: str | None
    ordinal: int
    call: Call = NO_CALL
    children: Children = ()
    inbox: tuple[Delivery, ...] = ()
    held_deliveries: tuple[HeldDelivery, ...] = ()
    refusals: int = 0
    storage: Mapping[str, bytes] = NOTHING
    logs: Logs = NO_LOGS
    approvals: tuple[Approval, ...] = ()
    delayed: tuple[DelayedDelivery, ...] = ()
    allowed: frozenset[str] | None = None
    request: str = ""
    busy: int = 0

    @property
    def quiet(self) -> bool:
        """True when nothing waits here."""
        return not (self.inbox or self.held_deliveries or self.approvals or self.delayed)

    @property
    def resting(self) -> Kind | None:
        """The owner, and the peers in force, of a thread on which and below which nothing is under way."""
        if self.inbox or self.busy or self.held_deliveries or self.approvals or self.delayed:
            return None
        return self.owner, self.allowed

    def with_children(self, children: Children, busy: int) -> Thread:
        """Return the thread with other children and ``busy`` busy ones."""
        return _new(Thread, (*self[:5], children, *self[6:-1], busy))

    def with_stored(self, storage: Mapping[str, bytes], logs: Logs) -> Thread:
        """Return the thread with other stored values and logs."""
        return _new(Thread, (*self[:9], storage, logs, *self[11:]))

    def called_by(self, call: Call) -> Thread:
        """Return the thread with a new call of its caller."""
        return _new(Thread, (*self[:4], call, *self[5:]))

    def list_waiting(self) -> tuple[Delivery, ...]:
        """List its deliveries: queued, running, held, or waiting for a person or for their time."""
        if not (self.held_deliveries or self.approvals or self.delayed):
            return self.inbox
        held = [one.delivery for one in self.held_deliveries]
        asked = [one.delivery for one in self.approvals]
        return (*self.inbox, *held, *asked, *(one.delivery for one in self.delayed))


class ThreadTree(NamedTuple):
    """Threads by id, as one step left them. ``TreeChange`` makes the next tree."""

    root: str
    nodes: Mapping[str, Thread]
    opened: int = 1

    @classmethod
    def build(cls, root: str, nodes: Mapping[str, Thread], opened: int) -> ThreadTree:
        """Build a tree from threads, parents before children, and count and index their children."""
        busy: dict[str, int] = {}
        for node in reversed(nodes.values()):  # type: ignore[call-overload]
            if node.parent is not None and (not node.quiet or node.id in busy):
                busy[node.parent] = busy.get(node.parent, 0) + 1
        busy.pop(root, None)
        counted = dict(nodes)
        counted.update({thread: nodes[thread]._replace(busy=count) for thread, count in busy.items()})
        for node in nodes.values():
            if len(node.children) > siblings.FEW:
                counted[node.id] = counted[node.id]._replace(children=_index_children(node.children, counted))
        return cls(root, counted, opened)

    @classmethod
    def plant(cls, root: str, principal: str) -> ThreadTree:
        """Make a tree with only the principal's root."""
        return cls(root, {root: Thread(root, principal, None, 0)})

    def get(self, thread: str) -> Thread | None:
        """Return the thread, or None when it is closed or unknown."""
        return self.nodes.get(thread)

    def caller(self, thread: Thread) -> Thread:
        """Return the thread that called this one. Raises LookupError on the root."""
        if thread.parent is None:
            raise LookupError("the root has no caller")
        return self.nodes[thread.parent]

    def iter_descendants(self, thread: str) -> Iterator[Thread]:
        """Iterate over all descendants, depth first, older children first."""
        pending = list(reversed(self.nodes[thread].children))
        while pending:
            node = self.nodes[pending.pop()]
            yield node
            pending.extend(reversed(node.children))


class TreeChange:
    """Builder of the next tree, in time proportional to the changes.

    The counts and indexes of parents are updated when they are queried, and at the end.

    Args:
        before: the tree before the step; it stays unchanged.
    """

    def __init__(self, before: ThreadTree) -> None:
        self.nodes = copy_changeable(before.nodes)
        self._root, self._opened = before.root, before.opened
        self._looked: dict[tuple[str, str, frozenset[str] | None], tuple[int, int]] = {}
        """The places among the children of a parent from which on, and up to which, an idle one is looked for."""
        self._reported: dict[str, Thread] = {}
        """The changed threads as their parents have counted them."""

    @property
    def tree(self) -> ThreadTree:
        """The tree as it is now."""
        return ThreadTree(self._root, self.nodes, self._opened)

    def put(self, thread: Thread) -> None:
        """Replace a thread by a changed copy of itself."""
        self._reported.setdefault(thread.id, self.nodes[thread.id])
        self.nodes[thread.id] = thread

    def put_inbox(self, thread: Thread, inbox: tuple[Delivery, ...], call: Call) -> None:
        """Replace a thread by the same with another inbox, and with this call of its caller."""
        self._reported.setdefault(thread.id, thread)
        self.nodes[thread.id] = _new(Thread, (*thread[:4], call, thread[5], inbox, *thread[7:]))

    def belongs(self, thread: str, request: str) -> None:
        """Note the open request that was delivered on a thread last. Nothing happens to a thread that is closed."""
        node = self.nodes.get(thread)
        if node is not None:
            self.nodes[thread] = _new(Thread, (*node[:-2], request, node.busy))

    def build_result(self) -> ThreadTree:
        """Return the tree with the counts and indexes of all parents updated."""
        reported, nodes = self._reported, self.nodes
        while reported:
            key, was = reported.popitem()
            now = nodes.get(key)
            if now is None:
                continue
            rested = not (was.inbox or was.busy or was.held_deliveries or was.approvals or was.delayed)
            rests = not (now.inbox or now.busy or now.held_deliveries or now.approvals or now.delayed)
            if not (rested or rests) or now.parent is None:
                continue
            above = nodes[now.parent]
            children, busy = above.children, above.busy
            if type(children) is Siblings and children.resting is not None:
                before = (was.owner, was.allowed) if rested else None
                children = children.move(key, before, (now.owner, now.allowed) if rests else None)
            if above.parent is not None:
                busy += rested - rests
            if children is not above.children or busy != above.busy:
                reported.setdefault(above.id, above)
                nodes[above.id] = _new(Thread, (*above[:5], children, *above[6:-1], busy))
        return _new(ThreadTree, (self._root, nodes, self._opened))

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
        elder = above.children
        children = (
            (*elder, thread)
            if type(elder) is not Siblings and len(elder) < siblings.FEW
            else add_child(elder, thread, self.nodes).move(thread, None, child.resting)
        )
        self.nodes[parent] = above.with_children(children, above.busy)
        self._opened += 1
        return child

    def take_resting(self, parent: str, owner: str, allowed: frozenset[str] | None = None) -> Thread | None:
        """Return the oldest idle child of ``parent`` that ``owner`` works on, each only once.

        Reuse keeps a tool's memory between calls of one caller. A busy child is never reused, so that concurrent calls
        cannot mix, nor is one with other permitted peers.
        """
        kind = owner, allowed
        key = parent, *kind
        looked = self._looked.get(key)
        if looked is None and len(self._reported) > (parent in self._reported):
            self.build_result()
        nodes = self.nodes
        children = nodes[parent].children
        start, end = looked or (0, len(children))
        place: int | None = None
        if start < end:
            place = (
                children.find_first(kind, start)
                if type(children) is Siblings
                else self._find_idle(children[start:end], owner, allowed, start)
            )
        if place is None or place >= end:
            self._looked[key] = end, end
            return None
        self._looked[key] = place + 1, end
        return nodes[(children.ids if type(children) is Siblings else children)[place]]

    def _find_idle(
        self, ids: tuple[str, ...], owner: str, allowed: frozenset[str] | None, start: int
    ) -> int | None:
        """Return the place of the first idle one among few children, of which the first has the place ``start``."""
        nodes = self.nodes
        held = nodes.iter_values(ids) if type(nodes) is Overlay else map(nodes.__getitem__, ids)
        for node in held:
            if not (node.inbox or node.busy or node.held_deliveries or node.approvals or node.delayed) and (
                node.owner == owner and node.allowed == allowed
            ):
                return start
            start += 1
        return None

    def prune(self, thread: str) -> tuple[Thread, ...]:
        """Close everything below ``thread``; returns the closed threads."""
        if not self.nodes[thread].children:
            return ()
        self.build_result()
        before = self.nodes[thread]
        closed = tuple(self.tree.iter_descendants(thread))
        for node in closed:
            del self.nodes[node.id]
        self.put(before._replace(children=(), busy=0))
        return closed

    def shut(self, thread: str) -> tuple[Thread, ...]:
        """Close ``thread`` with everything below it; returns the closed threads. Raises LookupError on the root."""
        above = self.tree.caller(self.nodes[thread])
        below = self.prune(thread)
        self.build_result()
        closed = self.nodes.pop(thread)
        above = self.nodes[above.id]
        remaining = _index_children(
            list_children(child for child in above.children if child != thread), self.nodes
        )
        busy = above.busy - (closed.resting is None) if above.parent is not None else 0
        self.put(above._replace(children=remaining, busy=busy))
        return (*below, closed)


def add_child(children: Children, thread: str, nodes: Mapping[str, Thread]) -> Siblings:
    """Add a child to many, which counts as busy until updated.

    Args:
        children: the present ones.
        thread: the id of the new one.
        nodes: threads by id.
    """
    extended = children.followed_by(thread) if type(children) is Siblings else Siblings((*children, thread))
    return extended if extended.resting is not None else _index_siblings(extended, children, nodes)


def _index_children(children: Children, nodes: Mapping[str, Thread]) -> Children:
    """Index the idle ones among children if there are many."""
    return _index_siblings(children, children, nodes) if type(children) is Siblings else children


def _index_siblings(found: Siblings, known: Iterable[str], nodes: Mapping[str, Thread]) -> Siblings:
    """Index the idle ones among siblings; ``known`` are the first of them, and the others count as busy."""
    return found.with_index(nodes[child].resting for child in known)


def list_timers(threads: Iterable[Thread]) -> tuple[Timer, ...]:
    """List the timers of threads, the earliest first."""
    found = [
        Timer(one.due_at, node.ordinal, place, node.id, one.delivery.id)
        for node in threads
        for place, one in enumerate(node.delayed)
    ]
    return tuple(sorted(found))


def narrow_peers(above: frozenset[str] | None, own: frozenset[str] | None) -> frozenset[str] | None:
    """Intersect the permitted peers of a thread with those above it."""
    if own is None or above is None:
        return above if own is None else own
    return above & own
