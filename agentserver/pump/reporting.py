"""Reports of committed steps to observers and the log.

Owns which event is worth which level. Refuses to decide anything.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableSequence

    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.records.outcome import Outcome
    from agentserver.ports import Answers, Approver
    from agentserver.pump.ingress.records import RecordReaders

logger = logging.getLogger("agentserver.pump")


class Observers(NamedTuple):
    """The observers of a server, and the persons whom it may ask.

    Args:
        observers: called with the records of every committed step; must not block or raise.
        approver: shown what waits for a person.
        answers: where people answer who are not shown it here. Without either, nothing that needs an approval
            goes on.
        stalled: ends the process when a handler has held the event loop for too long; None lets it.
    """

    observers: tuple[Callable[[tuple[AuditRecord, ...]], None], ...] = ()
    approver: Approver | None = None
    answers: Answers | None = None
    stalled: Callable[[], None] | None = None


NOBODY = Observers()


_UNTOLD = "%s could not be told of a step"


@contextmanager
def harmless(who: str) -> Iterator[None]:
    """Let those who are only told of what was committed fail without harm to it."""
    try:
        yield
    except Exception:
        logger.exception(_UNTOLD, who)


class Reporter:
    """Tells everybody who watches.

    Args:
        observers: called with the records of a step; must not block or raise.
        readers: operators who read records as they come.
        crashes: the deliveries whose handler crashed, which the log has already; taken out as they are met.
    """

    def __init__(
        self,
        observers: Iterable[Callable[[tuple[AuditRecord, ...]], None]],
        readers: RecordReaders,
        crashes: MutableSequence[str],
    ) -> None:
        self._crashes = crashes
        self._observers = tuple(observers)
        self._readers = readers
        self._warned: set[str] = set()

    def report(self, outcome: Outcome) -> None:
        """Pass on the records of a committed step."""
        if self._readers.open:
            self._readers.put(outcome.conversation.principal, outcome.records)
        for observe in self._observers:
            try:
                observe(outcome.records)
            except Exception:
                logger.exception(_UNTOLD, "an observer")
        chatty = logger.isEnabledFor(logging.DEBUG)
        for record in outcome.records:
            level = _LEVELS.get(record.event, logging.DEBUG)
            if record.event in _OF_CRASHES and record.delivery in self._crashes:
                self._crashes.remove(record.delivery)
                level = min(level, logging.INFO)
            if (chatty or record.event in _LEVELS) and logger.isEnabledFor(level):
                logger.log(
                    level,
                    "%s %s -> %s %s",
                    record.event,
                    record.sender,
                    record.to,
                    " ".join(filter(None, (record.root, record.code, WORDING.first(record.detail)))),
                    extra={
                        "conversation": record.conversation,
                        "thread_id": record.thread,
                        "event": str(record.event),
                    },
                )
        if outcome.deprecated:
            self._warn_deprecated(outcome)

    def _warn_deprecated(self, outcome: Outcome) -> None:
        name = next((r.to for r in outcome.records if r.event is Event.HANDLED), "")
        if name not in self._warned:
            self._warned.add(name)
            logger.warning("%s returned bytes, which is deprecated: return a HandlerResponse", name)


_OF_CRASHES = frozenset({Event.FAILED, Event.RETRIED})

_LEVELS = {
    Event.REFUSED: logging.WARNING,
    Event.FAILED: logging.WARNING,
    Event.REPAIRED: logging.WARNING,
    Event.ASKED: logging.WARNING,
    Event.APPROVED: logging.WARNING,
    Event.WITHDRAWN: logging.WARNING,
    Event.FLAGGED: logging.WARNING,
    Event.RETRIED: logging.INFO,
    Event.DISCARDED: logging.INFO,
}
