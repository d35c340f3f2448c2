"""The marks of servers that share a log: which deliveries a server works on, for the one that has its shares next.

Owns the notes of it beside the log: of each process the deliveries that it works on; of each share the process that
has it, and its suspects with their ends. Refuses to decide what follows.

A note of a process has all that runs there, and is kept before what is new in it begins. What begins in one turn of the
loop, or while a note is on its way, has one note together; what has ended goes along with the next, or has one soon.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from agentserver.ports import NO_PAST, EngineError, FencedError, Past
from agentserver.ports.tasks import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.ports import Share

AGAIN: Final = 0.1
"""Seconds between two attempts at a note."""

AT_ONCE: Final = 16
"""Shares of which the notes are read, and written, at once."""

LONG: Final = 20
"""Attempts after which it is said that nothing can be noted: a broker that changes its leader needs fewer."""

SOON: Final = 0.05
"""Seconds after which a note says what has ended, when nothing begins meanwhile."""


logger = logging.getLogger("agentserver.journal")


class Notes(Protocol):
    """Short texts beside a log, and the processes that keep them."""

    @property
    def name(self) -> str:
        """The name of this process."""
        ...

    @property
    def away(self) -> str:
        """The reason that nothing can be kept at present; empty for none."""
        ...

    async def note(self, name: str, text: str) -> None:
        """Keep a text under a name, in place of an earlier one, for good. Raises EngineError."""
        ...

    async def noted(self, name: str) -> str:
        """The text under a name; empty for none. Raises EngineError."""
        ...

    async def mark(self, text: str) -> None:
        """Keep a text of this process, in place of an earlier one, while the storage runs. Raises EngineError."""
        ...

    async def marked(self, name: str) -> str:
        """The text of a process; empty for none. Raises EngineError."""
        ...

    def living(self, name: str) -> bool:
        """True for a process that is not known to be gone."""
        ...


class ShareNote(NamedTuple):
    """The note of a share.

    Args:
        by: the process that works on it, or did; empty for none.
        ends: suspects that are not acquitted, and how often a process ended while each ran alone.
    """

    by: str
    ends: Mapping[str, int]

    def dump(self) -> str:
        """The note as text."""
        return json.dumps([self.by, dict(self.ends)])

    @classmethod
    def load(cls, text: str) -> ShareNote:
        """The note of which ``dump`` gave this; one that says nothing for any other text."""
        try:
            by, ends = json.loads(text)
            return cls(str(by), {str(key): int(number) for key, number in ends.items()})
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return cls("", {})


class NotedMarks:
    """The marks of one process.

    Args:
        notes: where they are kept.
        held: the shares that this process has at present.
    """

    at_once = False

    def __init__(self, notes: Notes, held: Callable[[], frozenset[Share]]) -> None:
        self._notes = notes
        self._held = held
        self._pasts: dict[Share, Past] = {}
        self._shares: dict[Share, dict[str, int]] = {}
        self._judging = asyncio.Lock()
        self._trouble = NotingTrouble("what has come from another server waits")
        self._running = RunningNote(notes)
        self._tasks: set[asyncio.Future[Any]] = set()

    async def past(self, share: Share) -> Past:
        """The end of the process that worked on a share before; all shares that have come are asked about at once.

        Raises FencedError.
        """
        async with self._judging:
            if share not in self._pasts:
                held = self._held()
                for gone in self._pasts.keys() - held:
                    self._pasts.pop(gone)
                    self._shares.pop(gone, None)
                room, ends = asyncio.Semaphore(AT_ONCE), _Ends(self._notes)
                await asyncio.gather(*(self._take(one, room, ends) for one in held - self._pasts.keys()))
        if share not in self._pasts:
            raise FencedError("another process has the share")
        return self._pasts[share]

    async def _take(self, share: Share, room: asyncio.Semaphore, ends: _Ends) -> None:
        """Learn what was before, and note that this process works on the share now, if nothing is to be judged first.

        Until that is done the note stays as it is, for whoever claims the share meanwhile.
        """
        while share in self._held():
            try:
                async with room:
                    past = await self._learn(share, ends)
            except EngineError as error:
                await self._trouble.again(error)
            else:
                self._trouble.over()
                self._pasts[share] = past
                if past == NO_PAST:
                    self._shares[share] = {}
                return

    async def _learn(self, share: Share, ends: _Ends) -> Past:
        """Read the past of a share, and note that this process has it where nothing is to be judged."""
        before = ShareNote.load(await self._notes.noted(_of(share)))
        past = Past(await ends.of(before.by), "", before.ends)
        if past == NO_PAST:
            await self._notes.note(_of(share), ShareNote(self._notes.name, {}).dump())
        return past

    async def begin(self, share: Share, suspects: Mapping[str, int], calls: int) -> None:  # noqa: ARG002 - a port's
        """Keep the suspects of a share for good. Raises FencedError."""
        if self._shares.get(share) != suspects:
            self._shares[share] = dict(suspects)
            if not await self._insist(share):
                raise FencedError("another process has the share")

    async def _insist(self, share: Share) -> bool:
        """Note the suspects of a share. False when it is held no more."""
        while share in self._held() and share in self._shares:
            try:
                await self._notes.note(_of(share), ShareNote(self._notes.name, self._shares[share]).dump())
            except EngineError as error:
                await self._trouble.again(error)
            else:
                self._trouble.over()
                return True
        return False

    def enter(self, delivery: str, conversation: str) -> int:  # noqa: ARG002 - a port's signature
        """Know that a delivery is worked on; ``kept`` waits for its note."""
        return self._running.enter(delivery)

    async def kept(self, slot: int) -> None:
        """Wait until a note says what was entered: for as long as the storage is away, too."""
        await self._running.kept(slot)

    def leave(self, slot: int) -> None:
        """Know that it is not any more."""
        self._running.leave(slot)

    def acquit(self, delivery: str) -> None:
        """Forget a suspect, soon."""
        for share, ends in self._shares.items():
            if ends.pop(delivery, None) is not None:
                task = asyncio.get_running_loop().create_task(self._insist(share))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def hold(self, delivery: str) -> None:
        """Nothing can be noted while the loop is held: what is noted is all that runs, this one with it."""

    def end(self) -> None:
        """The end that comes now is the fault of none that runs: noted when the shares are given up."""
        self._running.blameless = True

    async def close(self) -> None:
        """Note that nothing is at fault, if that was said; nothing is noted after this."""
        await ended(self._tasks)
        await self._running.close()


class NotingTrouble:
    """Waits before another attempt at a note, and says once of each trouble that lasts what it holds up.

    Args:
        held: what is held up, as the beginning of a line.
    """

    def __init__(self, held: str) -> None:
        self._held = held
        self._times = 0

    async def again(self, error: EngineError) -> None:
        """An attempt has failed."""
        self._times += 1
        if self._times == LONG:
            logger.error("%s until that can be noted: %s", self._held, error)
        await asyncio.sleep(AGAIN)

    def over(self) -> None:
        """An attempt has not."""
        if self._times >= LONG:
            logger.warning("notes are kept again")
        self._times = 0


class _Ends:
    """The deliveries that processes were working on when they ended, each asked for once however many shares it had.

    Args:
        notes: where they are kept.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._found: dict[str, frozenset[str]] = {}

    async def of(self, name: str) -> frozenset[str]:
        """Those of a process; none of one that lives. Raises EngineError."""
        if not name or name == self._notes.name or self._notes.living(name):
            return frozenset()
        async with self._asking[name]:
            if name not in self._found:
                self._found[name] = frozenset((await self._notes.marked(name)).split())
        return self._found[name]


class RunningNote:
    """The note of what runs in this process.

    Args:
        notes: where it is kept.

    ``blameless`` is set once nothing that runs is at fault for the end that comes.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._entered: dict[int, str] = {}
        self._last = 0
        self._kept: frozenset[int] = frozenset()
        self._text: str | None = ""
        self._writing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._over = self.blameless = False
        self._trouble = NotingTrouble("no handler begins here")

    def enter(self, delivery: str) -> int:
        """Have a delivery in the next note; gives its slot."""
        self._last += 1
        self._entered[self._last] = delivery
        return self._last

    def leave(self, slot: int) -> None:
        """Have it in no note any more."""
        self._entered.pop(slot, None)
        if self._timer is None and not self._over:
            self._timer = asyncio.get_running_loop().call_later(SOON, self._due)

    def _due(self) -> None:
        self._timer = None
        self._write()

    def _write(self) -> asyncio.Task[None]:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._keep())
        return self._writing

    async def kept(self, slot: int) -> None:
        """Wait until the note has a slot."""
        while slot not in self._kept and slot in self._entered and not self._over:
            await asyncio.wait([self._write()])  # which ends neither it nor with it

    async def _keep(self) -> None:
        """Write one note, however often that has to be tried."""
        await asyncio.sleep(0)  # what begins in the same turn goes along
        while True:
            slots, text = frozenset(self._entered), self._words()
            try:
                if text != self._text:
                    self._text = None  # until the answer comes it is not known what is noted
                    await self._notes.mark(text)
            except EngineError as error:
                await self._trouble.again(error)
            else:
                self._trouble.over()
                self._kept, self._text = slots, text
                return

    def _words(self) -> str:
        return "" if self.blameless else " ".join(sorted(set(self._entered.values())))

    async def close(self) -> None:
        """Write no note after this, but for one that nothing is at fault if that is so."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await ended([self._writing])
        if self.blameless and self._text != "" and not self._notes.away:
            try:
                await self._notes.mark("")
            except EngineError:  # then it looks like an end that nobody asked for
                return
            self._text = ""


def _of(share: Share) -> str:
    return f"share.{share.partition}"
