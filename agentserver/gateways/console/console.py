"""The console session: runs lines, handles signals, shows progress and determines the exit status.

Lines are parsed in gateways/console/lines.py and formatted in gateways/console/view.py.
"""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import anyio

from agentserver.characters.printing import format_amount
from agentserver.core.messages import Delta, DeltaKind, EventPlace
from agentserver.core.state.approvals import Answer
from agentserver.gateways.console import lines as console_lines
from agentserver.gateways.console import view
from agentserver.gateways.console.approvals import Approvals
from agentserver.gateways.console.lines import (
    Address,
    Command,
    ControlKey,
    Ids,
    LineReader,
    TypedMessage,
    Verb,
)
from agentserver.gateways.console.session import ConsoleSessions, CurrentTakers
from agentserver.ports import EngineError, QuotaError
from agentserver.supervision import EndEffect, start_errand
from agentserver.trace import text
from agentserver.trace.terminal import Style, split_own_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from anyio.abc import TaskGroup

    from agentserver.core.messages import Reply
    from agentserver.core.records.audit import AuditRecord
    from agentserver.gateways.console.lines import Lines, Meaning, Takers
    from agentserver.gateways.console.session import ConsoleHost, ConsoleSession
    from agentserver.ports.records import Records
    from agentserver.trace.terminal import Screen

NO_ANSWER = "ended without an answer: no handler returned one; /trace shows the last"
INTERRUPTED = 128 + signal.SIGINT
"""The exit status of a script that Ctrl-C ended."""


class Console:
    """One session. ``run`` returns its exit status.

    Args:
        host: the running server.
        screen: where everything is shown.
        interactive: whether a person types, so that Ctrl-C cancels requests before it ends the session.
        principal: the sender of the messages.
        by: the person who answers approvals, for the record; the principal by default.
        ending: the source of signals, notified when the session begins to end.
    """

    def __init__(
        self,
        host: ConsoleHost,
        screen: Screen,
        *,
        interactive: bool,
        principal: str = "console",
        by: str = "",
        ending: SessionGuard | None = None,
    ) -> None:
        self._process = ending or UnboundedEnd()
        self._host = host
        self._screen = screen
        self.interactive = interactive
        self._takers = CurrentTakers(host)
        self._addressee = next(iter(self._takers))
        self._sessions = ConsoleSessions(host, principal)
        self._hops = HopView(self._sessions, screen)
        self._stirred = asyncio.Event()
        self.approvals = Approvals(
            host, screen, self._hops.flush, by or principal, self._stirred, paged=interactive
        )
        self._reader = LineReader(self._takers, script=not interactive)
        self._raw = False
        self._failures = 0
        self._mistakes = 0
        self._ending: EndReason | None = None
        self._reading: anyio.CancelScope
        self._lines: Lines
        self._leaving = False
        self._commands: Mapping[Verb, Callable[[str], Awaitable[None]]] = {
            Verb.HELP: self._help,
            Verb.NEW: self._new,
            Verb.THREADS: self._threads,
            Verb.LISTENERS: self._listeners,
            Verb.TRACE: self._trace,
            Verb.CANCEL: self._cancel,
            Verb.APPROVALS: self._approvals,
            Verb.APPROVE: self._approve,
            Verb.DENY: self._deny,
            Verb.RAW: self._set_raw,
            Verb.HOPS: self._set_hops,
            Verb.QUIT: self._quit,
        }

    @property
    def takers(self) -> Takers:
        """The listeners that take each payload, for completion."""
        return self._takers

    def is_interrupted(self) -> bool:
        """Check whether Ctrl-C came that the session has not acted on yet."""
        return self._process.interrupted

    def ids(self) -> Ids:
        """Return the ids that commands can complete."""
        return Ids([session.handle.id for session in self._sessions], self.approvals.list_ids())

    def greet(self, name: str) -> str:
        """Build the first lines of an interactive session."""
        return (
            f"{name}: {format_amount(len(self._takers), 'listener')}. Text goes to @{self._addressee} until you "
            "address another. /help lists what can be typed."
        )

    async def run(self, lines: Lines) -> int:
        """Talk until the lines end, ``/quit``, or a signal.

        Returns:
            0; for a script 1 when a message was refused or not answered, 2 when a line meant nothing (which
            weighs more), 130 after Ctrl-C. SIGTERM gives 0. However it ends, what runs has ``limits.drain`` seconds.

        Raises:
            ValueError: when the principal's name is a listener's.
        """
        self._reading, self._lines = anyio.CancelScope(), lines
        try:
            await self._sessions.open()
        except QuotaError as error:
            self._mistake(str(error))
            return 2
        stop = self._host.stream.attach(self._note)
        try:
            async with anyio.create_task_group() as tasks:
                start_errand(tasks, "hears signals", EndEffect.OWNER, partial(self._signals, tasks))
                start_errand(tasks, "shows hops", EndEffect.OWNER, self._hops.show)
                start_errand(tasks, "shows approvals", EndEffect.OWNER, self.approvals.watch)
                with self._reading:
                    await self._converse(lines, tasks)
                await self._wind_up()
                tasks.cancel_scope.cancel()
        finally:
            stop()
            self.approvals.stop()
        return self._find_status()

    def _note(self, records: Records) -> None:
        for record in records:
            self._hops.note(record)
        self._stirred.set()

    async def _converse(self, lines: Lines, tasks: TaskGroup) -> None:
        while self._ending is None:
            if not lines.concurrent:
                await self._wait_settled()
                await self._screen.flush()
            if self._screen.closed:
                break
            pending = self._reader.again
            typed = pending.popleft() if pending else await lines.next(self._format_prompt())
            if typed is ControlKey.END:
                self._unfinished_element()
                if pending:
                    continue
                await self._end_of_lines()
                break
            if typed is ControlKey.INTERRUPT:
                self._interrupt(tasks)
            elif isinstance(typed, ControlKey):
                self._mistake("a line is too long; nothing after it was read")
                break
            else:
                self._leaving = False
                await self._meet(typed, tasks)
        self._unfinished_element()

    def _unfinished_element(self) -> None:
        if mistake := self._reader.end():
            self._mistake(*mistake.lines)

    async def _wait_settled(self) -> None:
        """Wait until nothing runs, or what runs waits for an answer that the next line may hold."""
        while not self._sessions.rest.is_set():
            if all(self.approvals.only_asks(session) for session in self._sessions.list_running()):
                self.approvals.flush()
                return
            self._stirred.clear()
            await self._stirred.wait()

    async def _end_of_lines(self) -> None:
        """Finish a script once it is answered: open approvals may be answered elsewhere."""
        if not self.interactive:
            await self._sessions.rest.wait()

    async def _meet(self, line: str, tasks: TaskGroup) -> None:
        """Do what a line says; a message is sent without waiting for its answers."""
        try:
            letter = await self._act(self._reader.understand(line, self._addressee))
            if letter is None:
                return
            self._addressee = letter.to or self._addressee
            session = await self._session()
        except QuotaError as error:
            self._mistake(str(error))
            return
        self._sessions.count_started(session)
        if not session.followed:
            items = self._host.watch(None, session.handle.id, BEYOND, deltas=True)
            start_errand(tasks, "follows answers", EndEffect.OWNER, partial(self._hops.follow_answers, items))
        start_errand(tasks, "follows a conversation", EndEffect.OWNER, partial(self._hops.follow, session))
        start_errand(tasks, "delivers a line", EndEffect.OWNER, partial(self._deliver, session, letter))

    async def _act(self, meaning: Meaning) -> TypedMessage | None:
        match meaning:
            case TypedMessage():
                return meaning
            case Command():
                await self._commands[meaning.verb](meaning.argument)
            case Address():
                self._addressee = meaning.listener
            case console_lines.Mistake():
                self._mistake(*meaning.lines)
        return None

    async def _deliver(self, session: ConsoleSession, letter: TypedMessage) -> None:
        answered = False
        try:
            async for reply in session.handle.replies(letter.data, letter.to):
                answered = True
                self._failures += reply.error
                self._reply(session, reply)
                await self._screen.flush()  # asking for the next one says that this one was taken
        except RuntimeError as error:
            # The conversation was closed since it was looked up, or the server stops.
            self._screen.say(str(error), Style.BAD)
        if session.detached:
            only_asks = self.approvals.only_asks(session)
            reason = (
                "still waits for an approval" if only_asks else "unfinished: it continues with the next start"
            )
            self._screen.say(reason, Style.WARN)
        elif not answered:
            self._failures += 1
            self.approvals.flush()
            self._screen.say("cancelled" if session.over else NO_ANSWER, Style.WARN)
        await self._sessions.count_finished(session)
        self._stirred.set()

    def _reply(self, session: ConsoleSession, reply: Reply) -> None:
        self.approvals.flush()
        if session is not self._sessions.current:
            self._screen.say(f"in conversation {session.handle.id}:", Style.DIM)
        codecs, redact = self._host.rules.codecs, self._screen.redact
        self._screen.show(*view.format_reply_lines(reply, codecs, raw=self._raw, redact=redact))

    async def _session(self) -> ConsoleSession:
        """Return the current conversation, or a new one if it has ended meanwhile."""
        current = self._sessions.current
        if current is not None and self._sessions.alive():
            return current
        if current is not None and not current.over:
            self._screen.say("the conversation was closed; this is a new one", Style.WARN)
        return await self._sessions.open()

    def _mistake(self, *lines: str) -> None:
        self._mistakes += 1
        for line in lines:
            self._screen.show(*(((Style.WARN, part),) for part in split_own_lines(line)))

    async def _wind_up(self) -> None:
        """Wait for running requests within the limit, and end finished conversations. The rest is for the next session.

        Without a journal the rest is ended too.
        """
        self._process.begin(self._find_status())
        await self._host.drain()
        with anyio.move_on_after(CLOSING):
            for session in self._sessions:
                if self._report_unfinished(session) and self._host.durable:
                    session.keep()
                elif self._report_unfinished(session):
                    await session.close()
            await self._sessions.rest.wait()
            for session in self._sessions:
                await session.close()
            self.approvals.flush()
            await self._screen.flush()

    def _report_unfinished(self, session: ConsoleSession) -> bool:
        conversation = self._host.conversation(session.handle.id)
        return conversation is not None and bool(conversation.requests)

    def _find_status(self) -> int:
        if self._ending is EndReason.INTERRUPTED:
            return INTERRUPTED
        if self.interactive or self._ending is EndReason.TERMINATED:
            return 0
        return 2 if self._mistakes or self._screen.closed else int(self._failures > 0)

    # Commands

    async def _help(self, _: str) -> None:
        self._screen.show(*view.format_help_lines())

    async def _listeners(self, _: str) -> None:
        self._screen.show(*view.format_listener_lines(self._host.rules.blueprint, self._takers))

    async def _new(self, _: str) -> None:
        session = await self._sessions.open()
        self._screen.say(f"conversation {session.handle.id}", Style.DIM)

    async def _threads(self, _: str) -> None:
        conversation = self._host.conversation((await self._session()).handle.id)
        if conversation is not None:
            self._screen.show(*view.format_thread_lines(conversation))

    async def _trace(self, prefix: str) -> None:
        self._hops.flush()
        session = self._find(prefix)
        if session is not None:
            records = self._host.trace.list_records(session.handle.id)
            self._screen.say(
                f"conversation {session.handle.id}, {format_amount(len(records), 'record')}", Style.DIM
            )
            self._screen.show(*text.format_tree(records))

    async def _cancel(self, prefix: str) -> None:
        session = self._find(prefix)
        if session is not None:
            await session.close()
            self._hops.flush()
            self._screen.say(f"conversation {session.handle.id} is over", Style.DIM)

    async def _approvals(self, prefix: str) -> None:
        self._complain(self.approvals.tell(prefix))

    async def _approve(self, words: str) -> None:
        self._complain(await self.approvals.answer(words, Answer.ONCE, unnamed=not self.interactive))

    async def _deny(self, words: str) -> None:
        self._complain(await self.approvals.answer(words, Answer.DENY, unnamed=not self.interactive))

    def _complain(self, mistake: str) -> None:
        if mistake:
            self._mistake(mistake)

    def _find(self, prefix: str) -> ConsoleSession | None:
        """Find a conversation: the current one, or the one whose id has this prefix."""
        found = self._sessions.find_by_prefix(prefix)
        if len(found) == 1:
            return found[0]
        self._mistake(f"{len(found) or 'no'} conversations of this session begin with {prefix}")
        return None

    async def _set_raw(self, switch: str) -> None:
        self._raw = switch == "on"

    async def _set_hops(self, switch: str) -> None:
        self._hops.flush()
        self._hops.on = switch == "on"

    async def _quit(self, _: str) -> None:
        self._ending = EndReason.QUIT

    # Signals

    async def _signals(self, tasks: TaskGroup) -> None:
        async for number in self._process.signals():
            if number == signal.SIGTERM:
                self._end(EndReason.TERMINATED)
            elif self.interactive:
                self._interrupt(tasks)
            else:
                self._end(EndReason.INTERRUPTED)

    def _end(self, reason: EndReason) -> None:
        self._ending = reason
        self._reading.cancel()

    def _interrupt(self, tasks: TaskGroup) -> None:
        """Handle Ctrl-C: clear the typed text, else cancel requests, else leave on the second one.

        It awaits nothing: what is typed meanwhile would join the text that the next Ctrl-C clears.
        """
        gathered, running = self._reader.forget(), self._sessions.list_running()
        if self._lines.clear(self._format_prompt()) or gathered:
            self._leaving = False
        elif running:
            self._leaving = False
            for session in running:
                start_errand(tasks, "cancels requests", EndEffect.OWNER, session.close)
        elif self._leaving:
            self._end(EndReason.QUIT)
        else:
            self._leaving = True
            self._screen.say("Ctrl-C again leaves, as Ctrl-D and /quit do", Style.DIM)

    def _format_prompt(self) -> str:
        if self._addressee not in self._takers:  # a reload has taken it away
            self._addressee = next(iter(self._takers))
        return "... " if self._reader.open else f"{self._addressee}> "


CLOSING = 0.4
"""Seconds that the end of a session may take after the drain; a journal that cannot be written keeps it no longer."""


class EndReason(Enum):
    """The reason for which a session ends before its lines do."""

    QUIT = "quit"
    TERMINATED = "terminated"
    INTERRUPTED = "interrupted"


class SessionGuard(Protocol):
    """The process around a session."""

    @property
    def interrupted(self) -> bool:
        """True after Ctrl-C until the session has acted on it."""

    def signals(self) -> AsyncIterator[int]:
        """SIGINT and SIGTERM, as they come."""

    def begin(self, status: int) -> None:
        """Bound the end of the session by the drain. It may bound the process as well."""


class UnboundedEnd:
    """A process that lives on after the session."""

    interrupted = False

    async def signals(self) -> AsyncIterator[int]:
        """Receive signals of the event loop."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
            async for number in received:
                yield number

    def begin(self, status: int) -> None:
        """Do nothing."""


WAITING = 10_000
"""Records that may wait to be shown; beyond it the oldest are counted instead."""


BEYOND: Final = EventPlace(1 << 62, 0)
"""Place after every event: a watcher from there gets only events that are never stored."""

LINE: Final = 100
"""Characters of a line of a streamed answer."""


def cut_lines(line: str, text: str) -> list[str]:
    """Cut a line and a further text into lines, at line breaks and after LINE characters. The last one may grow."""
    return [
        each[at : at + LINE] for each in (line + text).split("\n") for at in range(0, max(len(each), 1), LINE)
    ]


class HopView:
    """Shows what happens in the session's conversations, as long as ``on`` is set."""

    def __init__(self, sessions: ConsoleSessions, screen: Screen) -> None:
        self._sessions = sessions
        self._screen = screen
        self._queued: deque[tuple[ConsoleSession, AuditRecord]] = deque()
        self._lost = 0
        self._news = asyncio.Event()
        self.on = True

    def note(self, record: AuditRecord) -> None:
        """Take in a record; called by the pump, so it neither blocks nor raises."""
        session = self._sessions.get(record.conversation)
        if session is None:
            return
        if len(self._queued) >= WAITING:
            self._queued.popleft()
            self._lost += 1
        self._queued.append((session, record))
        self._news.set()

    async def follow(self, session: ConsoleSession) -> None:
        """Show the progress of listeners until the conversation is closed."""
        if session.followed:
            return
        session.followed = True
        async for progress in session.handle.progress():
            if self.on:
                self.flush()
                self._screen.show(((Style.DIM, f"{progress.sender} ... {progress.text}"),))

    async def follow_answers(self, items: AsyncIterator[object]) -> None:
        """Show the text of streamed answers by lines, until their conversation is closed."""
        line = ""
        with suppress(LookupError, EngineError):
            async for item in items:
                if not isinstance(item, Delta) or not self.on:
                    continue
                if item.kind is DeltaKind.TEXT:
                    *whole, line = cut_lines(line if item.offset else "", item.text)
                    self._screen.show(*(((Style.DIM, f"{item.sender} | {each}"),) for each in whole))
                elif item.kind in {DeltaKind.RESET, DeltaKind.DIFFERENCE}:
                    line = ""
                    self._screen.say("the text above does not count", Style.WARN)

    async def show(self) -> None:
        """Show records as they come, until cancelled."""
        while True:
            await self._news.wait()
            self.flush()

    def flush(self) -> None:
        """Show every record so far; later output follows them."""
        self._news.clear()
        if self._lost:
            self._screen.say(f"{format_amount(self._lost, 'hop')} not shown", Style.WARN)
            self._lost = 0
        while self._queued:
            self._show(*self._queued.popleft())

    def _show(self, session: ConsoleSession, record: AuditRecord) -> None:
        hop = session.reading.take(record)
        if self.on and not text.is_quiet(record):
            self._screen.show(
                *text.format_todo_line(hop), text.format_line(hop), *text.format_detail_lines(hop, "/trace")
            )
