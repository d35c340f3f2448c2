"""State machines of deliveries and threads, each as one table of transitions.

``step.py`` moves deliveries and threads by these tables alone. ``docs/lives.py`` draws them.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agentserver.core.state.threads import Thread


class ImpossibleError(RuntimeError):
    """A transition that its table does not have: a defect of the server."""


class DeliveryStage(StrEnum):
    """A delivery's place in its conversation."""

    NEW = "new"  # made, and not on its thread yet
    ASKED = "asked"  # waits until a person approves it
    HELD = "held"  # kept back by a todo
    DELAYED = "delayed"  # waits for its time
    QUEUED = "queued"  # behind others in the inbox of its thread
    RUNNING = "running"  # first in the inbox: its listener has it, or is given it next
    DONE = "done"  # its listener has come back
    DEAD = "dead"  # given up: a dead letter
    DROPPED = "dropped"  # gone with its thread, or not approved


class DeliveryMove(StrEnum):
    """A transition of a delivery."""

    SEND = "send"
    ASK = "ask"
    HOLD = "hold"
    DELAY = "delay"
    WAKE = "wake"
    APPROVE = "approve"
    DENY = "deny"
    RELEASE = "release"
    RUN = "run"
    RETRY = "retry"
    FINISH = "finish"
    FAIL = "fail"
    REQUEUE = "requeue"
    DROP = "drop"


class ThreadStage(StrEnum):
    """Stage of a thread, derived from its deliveries."""

    NEW = "new"  # not opened yet
    RESTING = "resting"  # nothing is on it
    WAITING = "waiting"  # all that is on it is held, or waits for a person or for its time
    WORKING = "working"  # its first delivery is running
    CLOSED = "closed"  # gone, with everything below it


class ThreadMove(StrEnum):
    """A transition of a thread."""

    OPEN = "open"
    CALL = "call"  # its caller addresses it
    QUEUE = "queue"  # a delivery comes into its inbox
    PARK = "park"  # a delivery is held on it, or waits there for a person or for its time
    TAKE = "take"  # the first delivery leaves its inbox
    SHED = "shed"  # deliveries on it go, or one that waited comes free
    CLOSE = "close"


_D, _M = DeliveryStage, DeliveryMove

DELIVERY: Final[Mapping[DeliveryStage, Mapping[DeliveryMove, DeliveryStage]]] = MappingProxyType(
    {
        _D.NEW: MappingProxyType(
            {_M.SEND: _D.QUEUED, _M.HOLD: _D.HELD, _M.ASK: _D.ASKED, _M.DELAY: _D.DELAYED}
        ),
        _D.ASKED: MappingProxyType(
            {_M.APPROVE: _D.QUEUED, _M.HOLD: _D.HELD, _M.DENY: _D.DROPPED, _M.DROP: _D.DROPPED}
        ),
        _D.DELAYED: MappingProxyType(
            {_M.WAKE: _D.QUEUED, _M.HOLD: _D.HELD, _M.ASK: _D.ASKED, _M.DROP: _D.DROPPED}
        ),
        _D.HELD: MappingProxyType({_M.RELEASE: _D.QUEUED, _M.DROP: _D.DROPPED}),
        _D.QUEUED: MappingProxyType({_M.RUN: _D.RUNNING, _M.DROP: _D.DROPPED}),
        _D.RUNNING: MappingProxyType(
            {_M.RETRY: _D.RUNNING, _M.FINISH: _D.DONE, _M.FAIL: _D.DEAD, _M.DROP: _D.DROPPED}
        ),
        _D.DONE: MappingProxyType({_M.FAIL: _D.DEAD}),  # the messages of its listener were refused too often
        _D.DEAD: MappingProxyType({_M.REQUEUE: _D.QUEUED}),
        _D.DROPPED: MappingProxyType({}),
    }
)
"""The stage after each move; a move that a stage does not have is refused."""

_T, _W = ThreadStage, ThreadMove
_LEFT = frozenset({_T.WORKING, _T.WAITING, _T.RESTING})

THREAD: Final[Mapping[ThreadStage, Mapping[ThreadMove, frozenset[ThreadStage]]]] = MappingProxyType(
    {
        _T.NEW: MappingProxyType({_W.OPEN: frozenset({_T.RESTING})}),
        _T.RESTING: MappingProxyType(
            {
                _W.CALL: frozenset({_T.RESTING}),
                _W.QUEUE: frozenset({_T.WORKING}),
                _W.PARK: frozenset({_T.WAITING}),
                _W.SHED: frozenset({_T.RESTING}),
                _W.CLOSE: frozenset({_T.CLOSED}),
            }
        ),
        _T.WAITING: MappingProxyType(
            {
                _W.QUEUE: frozenset({_T.WORKING}),
                _W.PARK: frozenset({_T.WAITING}),
                _W.SHED: frozenset({_T.WAITING, _T.RESTING}),
                _W.CLOSE: frozenset({_T.CLOSED}),
            }
        ),
        _T.WORKING: MappingProxyType(
            {
                _W.QUEUE: frozenset({_T.WORKING}),
                _W.PARK: frozenset({_T.WORKING}),
                _W.TAKE: _LEFT,
                _W.SHED: _LEFT,
                _W.CLOSE: frozenset({_T.CLOSED}),
            }
        ),
        _T.CLOSED: MappingProxyType({}),
    }
)
"""The stages that may follow each move; with several, the remaining deliveries decide."""


class DeliveryTransition(NamedTuple):
    """Transition of a delivery and the changes in the counts.

    Args:
        after: the next stage.
        waiting: change in the number of waiting or running deliveries.
        held: change in the number of held ones.
        approvals: change in the number that wait for a person.
        delayed: change in the number that wait for their time.
    """

    after: DeliveryStage
    waiting: int
    held: int
    approvals: int
    delayed: int


_WAITING = frozenset({_D.ASKED, _D.HELD, _D.DELAYED, _D.QUEUED, _D.RUNNING})

_PASSAGES: Final[Mapping[tuple[DeliveryStage, DeliveryMove], DeliveryTransition]] = MappingProxyType(
    {
        (before, move): DeliveryTransition(
            after,
            (after in _WAITING) - (before in _WAITING),
            (after is _D.HELD) - (before is _D.HELD),
            (after is _D.ASKED) - (before is _D.ASKED),
            (after is _D.DELAYED) - (before is _D.DELAYED),
        )
        for before, moves in DELIVERY.items()
        for move, after in moves.items()
    }
)


def passage(before: DeliveryStage, move: DeliveryMove) -> DeliveryTransition:
    """Return a transition of a delivery. Raises ImpossibleError when the table has no such transition."""
    found = _PASSAGES.get((before, move))
    if found is None:
        raise ImpossibleError(f"{move}: a delivery that is {before} has no such transition")
    return found


def find_stage(thread: Thread) -> ThreadStage:
    """Return the stage of an open thread."""
    if thread.inbox:
        return ThreadStage.WORKING
    waits = thread.held_deliveries or thread.approvals or thread.delayed
    return ThreadStage.WAITING if waits else ThreadStage.RESTING


def step(before: Thread | None, move: ThreadMove, after: Thread | None) -> None:
    """Check a transition of a thread; None means that the thread does not exist.

    Raises ImpossibleError when the table has no such transition.
    """
    was = ThreadStage.NEW if before is None else find_stage(before)
    now = ThreadStage.CLOSED if after is None else find_stage(after)
    if now not in THREAD[was].get(move, ()):
        raise ImpossibleError(f"{move}: a thread that is {was} cannot become {now} by it")
