"""Servers of one storage, and their workers, as each server describes itself."""

from __future__ import annotations

from typing import NamedTuple

from agentserver.codec import NAMES, ValueCodec

MISSED: float = 2 / 3
"""Share of its lease after which a server without a heartbeat counts as late: two of them were missed by then."""


class WorkerState(NamedTuple):
    """Worker of a listener. Times in seconds since the epoch.

    Args:
        listener: whose calls it takes.
        name: the principal of a worker on another machine, or the process of one behind a wall.
        since: when it started; for one on another machine, when it began to be heard without a pause.
        seen: its last sign of life.
        patience: seconds of silence after which it counts as late.
        calls: that it has at present.
    """

    listener: str
    name: str
    since: float
    seen: float
    patience: float
    calls: int


class ServerReport(NamedTuple):
    """Work of a server at one moment.

    Args:
        conversations: that it holds in memory; other servers of the storage do not work on them.
        running: deliveries that handlers have, or get next.
        queued: deliveries that wait for their listener.
        workers: processes that run handlers for it.
    """

    conversations: int = 0
    running: int = 0
    queued: int = 0
    workers: tuple[WorkerState, ...] = ()


class ServerState(NamedTuple):
    """Server of a storage, as of its last heartbeat. Times in seconds since the epoch.

    Args:
        number: of its lease; 0 for the only server of a storage, which needs none.
        name: of its machine, with the process of an only server.
        since: when it began.
        seen: its last heartbeat.
        silent: seconds since then, by the clock of the storage.
        lease: seconds after a heartbeat for which its conversations stay its own; 0 for the only server.
        ended: True once it has stopped, or its lease has expired.
        report: its work at the last heartbeat.
    """

    number: int
    name: str
    since: float
    seen: float
    silent: float
    lease: float
    ended: bool
    report: ServerReport

    @property
    def state(self) -> str:
        """The state: ``ended``, ``late`` after missed heartbeats, or ``alive``."""
        if self.ended:
            return "ended"
        return "late" if self.lease and self.silent > self.lease * MISSED else "alive"


REPORTS: ValueCodec[ServerReport] = ValueCodec(ServerReport, (WorkerState,), NAMES)
STATES: ValueCodec[ServerState] = ValueCodec(ServerState, (ServerReport, WorkerState), NAMES)
