"""Runs a flow against its log, and on from its end.

The flow's coroutine is driven by hand: what it awaits is a ``FlowRequest``, never a future. A request that the log
answers returns at once, and has to equal the recorded one. When no part of the flow can continue, the flow rests, and
the messages that it sent meanwhile are the result of the invocation.
"""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import Awaitable, Generator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from agentserver.flow.errors import DivergedError, FlowError, NotDurableError, WrongReplyError
from agentserver.flow.lines import FlowLine
from agentserver.flow.requests import (
    AskRequest,
    FlowCoroutine,
    FlowRequest,
    GatherRequest,
    ValueRequest,
    run_part,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WAITED = "{} waits for something outside of messages, which a run from the log would do again: pass it to once(...)"


class SentMessage(NamedTuple):
    """Message of a flow, in the order of the invocation's result."""

    to: str
    payload: Any


@dataclass(slots=True)
class _Part:
    """Coroutine of a flow: the flow itself or a part of a ``gather``.

    Args:
        above: the gathering part and its results; None for the flow itself.
    """

    coroutine: FlowCoroutine
    above: _Gathering | None = None
    place: int = 0


@dataclass(slots=True)
class _Gathering:
    part: _Part
    results: list[Any]
    missing: int
    error: BaseException | None = None


@dataclass(slots=True)
class FlowRunner:
    """Flow between its beginning and its end.

    Args:
        coroutine: of the flow.
        encode: writes a payload as markup.
        lines: its log so far, after the first line; what it does until their end is compared with them.
        key: of the present invocation; empty during the replay.
    """

    coroutine: FlowCoroutine
    encode: Callable[[Any], str]
    lines: Sequence[FlowLine] = ()
    key: str = ""
    appended: list[FlowLine] = field(default_factory=list)
    sent: list[SentMessage] = field(default_factory=list)
    result: Any = None
    ended: bool = False
    error: BaseException | None = None
    _at: int = 0
    _open: dict[tuple[str, int], tuple[_Part, AskRequest]] = field(default_factory=dict)
    _ready: deque[tuple[_Part, Any, BaseException | None]] = field(default_factory=deque)
    _requested: bool = False
    _waited: str = ""

    def __post_init__(self) -> None:
        """Make the flow ready to run."""
        self._ready.append((_Part(self.coroutine), None, None))

    @property
    def replaying(self) -> bool:
        """True until the flow has done all that its log has."""
        return self._at < len(self.lines)

    def waits_for(self, key: str, place: int, *, refused: bool) -> bool:
        """True when a message would continue the flow."""
        return (key, place) in self._open or (refused and any(each == key for each, _ in self._open))

    async def replay(self, read: Callable[[AskRequest, str], Any]) -> None:
        """Run the flow to the end of its log. ``read`` decodes an answer to a request.

        Raises DivergedError when it does something else than before.
        """
        await self._drive()
        while self.replaying:
            line = self.lines[self._at]
            if line.kind not in ("answer", "refusal") or self.ended:
                raise self._diverged(f"it {'ended' if self.ended else 'waits'}")
            self._at += 1
            self._take(line, read)
            await self._drive()

    async def begin(self, key: str) -> None:
        """Run a new flow until it rests or ends. ``key`` is the invocation's."""
        self.key = key
        await self._drive()

    async def resume(self, key: str, line: FlowLine, read: Callable[[AskRequest, str], Any]) -> None:
        """Continue with an answer until the flow rests or ends."""
        self.key, self.appended, self.sent = key, [line], []
        self._take(line, read)
        await self._drive()

    def close(self) -> None:
        """Drop the flow; its ``finally`` blocks run."""
        for part in (*(part for part, *_ in self._ready), *(part for part, _ in self._open.values())):
            part.coroutine.close()
        self.coroutine.close()

    # Answers

    def _take(self, line: FlowLine, read: Callable[[AskRequest, str], Any]) -> None:
        """Make the parts ready that an answer, or a refusal of everything sent together, continues."""
        if line.kind == "answer":
            self._answer((line.key, line.place), line.text, read)
            return
        for key in [key for key in self._open if key[0] == line.key]:
            self._answer(key, line.text, read)

    def _answer(self, key: tuple[str, int], text: str, read: Callable[[AskRequest, str], Any]) -> None:
        found = self._open.pop(key, None)
        if found is None:
            raise self._diverged("it does not wait for this answer")
        part, asked = found
        value = read(asked, text)
        if isinstance(value, BaseException):
            self._ready.append((part, None, value))
        elif asked.reply is not None and not isinstance(value, asked.reply):
            told = f"{asked.to} answered {type(value).__name__}, not {asked.reply.__name__}"
            self._ready.append((part, None, WrongReplyError(told)))
        else:
            self._ready.append((part, value, None))

    # Steps

    async def _drive(self) -> None:
        """Run every part that can continue, in the order in which they became ready."""
        while self._ready:
            part, value, error = self._ready.popleft()
            asked: Any = None
            while not isinstance(asked, FlowRequest):
                try:
                    asked = part.coroutine.send(value) if error is None else part.coroutine.throw(error)
                except StopIteration as end:
                    self._end(part, end.value, None)
                    break
                except FlowError:
                    raise
                except Exception as failure:  # noqa: BLE001 - the flow's own, which its end reports
                    self._end(part, None, failure)
                    break
                if not isinstance(asked, FlowRequest):
                    value, error = await self._wait_for_loop(part, asked)
            else:
                await self._start(part, asked)

    async def _wait_for_loop(self, part: _Part, future: Any) -> tuple[Any, BaseException | None]:
        """Wait for a future of the event loop, which only a function may do that has no log."""
        self._waited = f"line {_line_of(part.coroutine)} of {_name(part.coroutine)}"
        if self._requested:
            raise NotDurableError(_WAITED.format(self._waited))
        try:
            return await _Loop(future), None
        except BaseException as error:  # noqa: BLE001 - of the future, and for the code that waits for it
            return None, error

    async def _start(self, part: _Part, asked: FlowRequest[Any]) -> None:
        if self._waited and not self._requested:
            raise NotDurableError(_WAITED.format(self._waited))
        self._requested = True
        if isinstance(asked, AskRequest):
            self._send(part, asked)
        elif isinstance(asked, ValueRequest):
            await self._evaluate(part, asked)
        else:
            assert isinstance(asked, GatherRequest)
            gathering = _Gathering(part, [None] * len(asked.parts), len(asked.parts))
            for place, each in enumerate(asked.parts):
                coroutine = each if inspect.iscoroutine(each) else run_part(each)
                self._ready.append((_Part(coroutine, gathering, place), None, None))
            if not asked.parts:
                self._ready.append((part, (), None))

    def _send(self, part: _Part, asked: AskRequest) -> None:
        digest = sha256(self.encode(asked.payload).encode()).hexdigest()
        kind = "ask" if asked.waits else "tell"
        told = f"it sends {type(asked.payload).__name__} to {asked.to}"
        line = self._recorded(kind, told)
        if line is None:
            line = FlowLine("ask" if asked.waits else "tell", self.key, len(self.sent), asked.to, digest)
            self.appended.append(line)
            self.sent.append(SentMessage(asked.to, asked.payload))
        elif (line.name, line.digest) != (asked.to, digest):
            changed = "with another content" if line.name == asked.to else f"and not to {line.name}"
            raise self._diverged(f"{told}, {changed}", back=1)
        if asked.waits:
            self._open[line.key, line.place] = part, asked
        else:
            self._ready.append((part, None, None))

    async def _evaluate(self, part: _Part, asked: ValueRequest) -> None:
        line = self._recorded("value", f"it wants {asked.name}")
        if line is not None:
            if line.name != asked.name:
                raise self._diverged(f"it wants {asked.name}, and not {line.name}", back=1)
            self._ready.append((part, asked.read(json.loads(line.text)), None))
            return
        try:
            value = asked.make()
            if isinstance(value, Awaitable):
                value = await value
        except Exception as error:  # noqa: BLE001 - of the function, and for the flow
            self._ready.append((part, None, error))
            return
        try:
            text = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise FlowError(f"{asked.name}: JSON cannot hold its result: {error}") from None
        self.appended.append(FlowLine("value", name=asked.name, text=text))
        self._ready.append((part, asked.read(json.loads(text)), None))

    def _recorded(self, kind: str, told: str) -> FlowLine | None:
        """Return the next line of the log, which has to be of this kind; None at its end."""
        if self.key:
            return None
        line = self.lines[self._at] if self.replaying else None
        if line is None or line.kind != kind:
            raise self._diverged(told)
        self._at += 1
        return line

    def _end(self, part: _Part, value: Any, error: BaseException | None) -> None:
        gathering = part.above
        if gathering is None:
            self.ended, self.result, self.error = True, value, error
            return
        gathering.results[part.place] = value
        gathering.error = gathering.error or error
        gathering.missing -= 1
        if not gathering.missing:
            results = None if gathering.error else tuple(gathering.results)
            self._ready.append((gathering.part, results, gathering.error))

    def _diverged(self, told: str, back: int = 0) -> DivergedError:
        at = self._at - back
        line = self.lines[at] if at < len(self.lines) else None
        before = "it rested then" if line is None else f"the record has: {line.kind} {line.name}".rstrip()
        where = _line_of(self.coroutine)
        return DivergedError(
            f"{_name(self.coroutine)}, line {where}: step {at + 1} differs from its record: {told}, and {before}"
        )


@dataclass(frozen=True, slots=True)
class _Loop:
    """Awaitable that yields a future to the event loop, as the code that awaits it does."""

    future: Any

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self.future)


def _name(coroutine: Any) -> str:
    return str(coroutine.__qualname__)


def _line_of(coroutine: Any) -> int:
    """Return the line at which a coroutine waits; 0 when it has ended."""
    frame = coroutine.cr_frame
    return 0 if frame is None else frame.f_lineno
