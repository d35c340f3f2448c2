"""Runs a flow against its log, and on from its end.

The flow's coroutine is driven by hand: it awaits a ``FlowRequest``, never a future. A request that the log answers
returns at once, and has to equal the recorded one. When no part of the flow can continue, it waits, and the
messages that it sent are the result of the invocation.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections import deque
from collections.abc import Awaitable, Generator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from agentserver.contract import CancelTimer, CodeSite, TimerFired
from agentserver.effects import NOT_DONE, EffectUnknown, LedgerEntry, NotDone, open_effect
from agentserver.flow.errors import (
    DivergedError,
    FlowError,
    NotDurableError,
    WrongReplyError,
    convert_answer,
    time_out,
)
from agentserver.flow.lines import FlowEvent
from agentserver.flow.requests import (
    TIMER,
    AskRequest,
    ChangedRequest,
    FlowCoroutine,
    FlowRequest,
    GatherRequest,
    OnceRequest,
    ValueRequest,
    WaitRequest,
    run_part,
    sleep,
)
from agentserver.flow.results import ResultKind, dump_json, is_async, load_json
from agentserver.flow.streams import list_waiting
from agentserver.payload.fields.field_table import PayloadError
from agentserver.payload.generate import Unencodable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from agentserver.effects import Effect, EffectLedger
    from agentserver.flow.lines import FlowLine

_WAITED: Final = (
    "{} waits for something else than a message, and a run from the log would repeat it: pass it to once(...), or use "
    "gather and sleep of agentserver.flow"
)


_ENDS: Final = ("unknown", "not done")
"""Kinds of events of an external effect without a value."""


class SentMessage(NamedTuple):
    """Message of a flow, in the order of the invocation's result."""

    to: str
    payload: Any


@dataclass(slots=True)
class FlowPart:
    """Coroutine of a flow: the flow itself, or a part of a ``gather`` or a ``wait_for``.

    Args:
        above: the part that waits for it, and how; None for the flow itself.
        place: among the parts that are waited for.
    """

    coroutine: FlowCoroutine
    above: _GatherState | _WaitState | None = None
    place: int = 0

    def is_below(self, other: FlowPart) -> bool:
        """Check whether it is another part, or one that the other waits for."""
        part: FlowPart | None = self
        while part is not None and part is not other:
            part = None if part.above is None else part.above.part
        return part is not None


@dataclass(slots=True)
class _GatherState:
    part: FlowPart
    results: list[Any]
    missing: int
    error: BaseException | None = None


@dataclass(slots=True)
class _WaitState:
    """Wait for the first of two parts: the one that is waited for, and its timer."""

    part: FlowPart
    asked: WaitRequest
    parts: tuple[FlowPart, ...] = ()


@dataclass(slots=True)
class FlowRunner:
    """Flow between its beginning and its end.

    Args:
        coroutine: of the flow.
        encode: writes a payload as markup.
        decode: returns what an ask gets for a markup; an exception is raised at the ask.

    ``events``, ``sent``, ``ledger``, ``clock`` and ``note_site`` are of the present invocation. ``ended`` is true once
    the flow has a ``result`` or an ``error``.
    """

    coroutine: FlowCoroutine
    encode: Callable[[Any], str]
    decode: Callable[[AskRequest, str], Any]
    events: list[FlowEvent] = field(default_factory=list)
    sent: list[SentMessage] = field(default_factory=list)
    result: Any = None
    ended: bool = False
    error: BaseException | None = None
    ledger: EffectLedger | None = None
    clock: Callable[[], float] = time.time
    note_site: Callable[[CodeSite], None] | None = None
    _key: str = ""
    _recorded: deque[FlowEvent] | None = None
    _steps: int = 0
    _effects: int = 0
    _changes: dict[str, bool] = field(default_factory=dict)
    _kinds: dict[str, ResultKind] = field(default_factory=dict)
    _open: dict[tuple[str, int], tuple[FlowPart, AskRequest]] = field(default_factory=dict)
    _ready: deque[tuple[FlowPart, Any, BaseException | None]] = field(default_factory=deque)
    _requested: bool = False
    _await_place: str = ""

    def __post_init__(self) -> None:
        """Make the flow ready to run."""
        self._ready.append((FlowPart(self.coroutine), None, None))

    def waits_for(self, call: str, place: int, *, refused: bool) -> bool:
        """Check whether an answer, or a refusal of all messages of an invocation, would continue the flow."""
        return (call, place) in self._open or (refused and any(key == call for key, _ in self._open))

    async def begin(self, key: str) -> None:
        """Run a new flow until it waits or ends. ``key`` is the invocation's."""
        self._key, self._effects = key, 0
        await self._drive()

    async def resume(self, line: FlowLine, payload: Any = None) -> None:
        """Continue with the payload of a line until the flow waits or ends; the events of the line are not read.

        ``payload``: that of the line, if it is decoded already.
        """
        if self.ended:
            raise self._make_divergence("it has ended")
        self._key, self._effects, self.events, self.sent = line.key, 0, [], []
        self._take(line, payload)
        await self._drive()

    async def replay(self, lines: Sequence[FlowLine]) -> None:
        """Run the flow to the end of its log. Raises DivergedError when it does something else than before."""
        for number, line in enumerate(lines):
            recorded = self._recorded = deque(line.events)
            await (self.resume(line) if number else self.begin(line.key))
            if recorded:
                raise self._make_divergence("it has ended" if self.ended else "it waits")
        self._recorded = None

    def close(self) -> None:
        """Drop the flow; its ``finally`` blocks run."""
        for part in (*(part for part, *_ in self._ready), *(part for part, _ in self._open.values())):
            part.coroutine.close()
        self.coroutine.close()

    # Answers

    def _take(self, line: FlowLine, payload: Any) -> None:
        """Make the parts ready that an answer, or a refusal of all messages of an invocation, continues."""
        if line.refused:
            for key in [key for key in self._open if key[0] == line.call]:
                self._answer(key, line.received, payload)
        else:
            self._answer((line.call, line.place), line.received, payload)

    def _answer(self, key: tuple[str, int], text: str, payload: Any) -> None:
        found = self._open.pop(key, None)
        if found is None:
            raise self._make_divergence("it does not wait for this answer")
        part, request = found
        value = self.decode(request, text) if payload is None else convert_answer(payload, request.to)
        if isinstance(value, BaseException):
            self._ready.append((part, None, value))
        elif request.reply is not None and not isinstance(value, request.reply):
            message = f"{request.to} answered {type(value).__name__}, not {request.reply.__name__}"
            self._ready.append((part, None, WrongReplyError(message)))
        else:
            self._ready.append((part, None if isinstance(value, TimerFired) else value, None))

    # Steps

    async def _drive(self) -> None:
        """Run every part that can continue, in the order in which they became ready."""
        while self._ready:
            part, value, error = self._ready.popleft()
            request: Any = None
            while not isinstance(request, FlowRequest):
                try:
                    request = part.coroutine.send(value) if error is None else part.coroutine.throw(error)
                except StopIteration as end:
                    self._end(part, end.value, None)
                    break
                except FlowError:
                    raise
                except Exception as failure:  # noqa: BLE001 - the flow's own, which its end reports
                    self._end(part, None, failure)
                    break
                if not isinstance(request, FlowRequest):
                    value, error = await self._wait_for_loop(part, request)
            else:
                await self._start(part, request)

    async def _wait_for_loop(self, part: FlowPart, future: Any) -> tuple[Any, BaseException | None]:
        """Wait for a future of the event loop, which only a function may do that has no log."""
        self._await_place = self._await_place or _describe_place(part.coroutine)
        if self._requested:
            raise NotDurableError(_WAITED.format(self._await_place))
        try:
            return await _Loop(future), None
        except BaseException as error:  # noqa: BLE001 - of the future, and for the code that waits for it
            return None, error

    async def _start(self, part: FlowPart, request: FlowRequest[Any]) -> None:
        if self._await_place and not self._requested:
            raise NotDurableError(_WAITED.format(self._await_place))
        self._requested = True
        if isinstance(request, AskRequest):
            self._send(part, request)
        elif isinstance(request, ValueRequest):
            self._evaluate(part, request)
        elif isinstance(request, OnceRequest):
            await self._do_once(part, request)
        elif isinstance(request, ChangedRequest):
            self._check_change(part, request.name)
        elif isinstance(request, WaitRequest):
            self._begin_wait(part, request)
        else:
            assert isinstance(request, GatherRequest)
            gathering = _GatherState(part, [None] * len(request.parts), len(request.parts))
            for place, each in enumerate(request.parts):
                coroutine = each if inspect.iscoroutine(each) else run_part(each)
                self._ready.append((FlowPart(coroutine, gathering, place), None, None))
            if not request.parts:
                self._ready.append((part, (), None))

    def _begin_wait(self, part: FlowPart, request: WaitRequest) -> None:
        """Start the awaited part, and then the timer."""
        state = _WaitState(part, request)
        awaited = request.part if inspect.iscoroutine(request.part) else run_part(request.part)
        timer = run_part(sleep(timedelta(seconds=request.seconds)))
        state.parts = FlowPart(awaited, state, 0), FlowPart(timer, state, 1)
        self._ready.extend((each, None, None) for each in state.parts)

    def _end_wait(self, state: _WaitState, first: FlowPart, value: Any, error: BaseException | None) -> None:
        """Drop the part that has not ended, and continue with the result of the other one."""
        awaited, timer = state.parts
        self._drop(awaited if first is timer else timer)
        if first is timer and error is None:
            error = time_out(state.asked.seconds, _describe(state.asked.part))
        self._ready.append((state.part, value, error))

    def _drop(self, part: FlowPart) -> None:
        """Close a part with all that it waits for; answers to its messages are dropped, its timers cancelled."""
        dropped = [each for each, *_ in self._ready if each.is_below(part)]
        self._ready = deque([entry for entry in self._ready if not entry[0].is_below(part)])
        for key, (each, request) in [*self._open.items()]:
            if each.is_below(part):
                dropped.append(each)
                del self._open[key]
                if request.to == TIMER:
                    self._record(AskRequest(TIMER, CancelTimer(*key), waits=False), None)
        for each in dropped:
            _close(each, part)

    def _send(self, part: FlowPart, request: AskRequest) -> None:
        try:
            place = self._record(request, part)
        except (Unencodable, PayloadError) as error:
            self._ready.append((part, None, error))
            return
        if request.waits:
            self._open[self._key, place] = part, request
        else:
            self._ready.append((part, None, None))

    def _record(self, request: AskRequest, part: FlowPart | None) -> int:
        """Add a message to the result of the invocation, and return its place there.

        ``part`` sends it; None for a message without a line of source.
        """
        kind: Literal["ask", "tell"] = "ask" if request.waits else "tell"
        digest = sha256(self.encode(request.payload).encode()).hexdigest()
        action = f"it sends {type(request.payload).__name__} to {request.to}"
        event = self._find_next_recorded(kind, request.to, action)
        if event is None:
            event = FlowEvent(
                kind, request.to, digest, 0 if part is None else self._find_line(part, request.to)
            )
        elif event.text != digest:
            raise self._make_divergence(f"{action}, with another content", event)
        place = len(self.sent)
        self.sent.append(SentMessage(request.to, request.payload))
        self.events.append(event)
        return place

    def _find_line(self, part: FlowPart, to: str) -> int:
        """Return the line at which a part sends a message, and note its place if there are spans."""
        frame = _find_frame(part)
        if frame is None:
            return 0
        line: int = frame.f_lineno
        if self.note_site is not None:
            code = frame.f_code
            function = f"{frame.f_globals.get('__name__', '')}.{code.co_qualname}"
            self.note_site(CodeSite(to, code.co_filename, function, line))
        return line

    def _evaluate(self, part: FlowPart, request: ValueRequest) -> None:
        recorded = self._find_next_recorded("value", request.name, f"it wants {request.name}")
        if recorded is None:
            value = request.make(f"{self._key} {len(self.events)}", self.clock())
            recorded = FlowEvent("value", request.name, dump_json(value))
        self.events.append(recorded)
        self._ready.append((part, request.read(load_json(recorded.text)), None))

    def _check_change(self, part: FlowPart, name: str) -> None:
        """Answer with the record; a log without it is of a run that came here before the change."""
        event = FlowEvent("value", f"changed {name}", "true")
        if name not in self._changes:
            recorded = self._recorded
            self._changes[name] = recorded is None or (bool(recorded) and recorded[0] == event)
            if self._changes[name]:
                if self._recorded:
                    self._recorded.popleft()
                self._steps += 1
                self.events.append(event)
        self._ready.append((part, self._changes[name], None))

    async def _do_once(self, part: FlowPart, request: OnceRequest) -> None:
        self._effects += 1
        recorded = self._find_next_recorded("value", request.name, f"it wants {request.name}", _ENDS)
        error: Exception | None = None
        if recorded is None:
            recorded, error = await self._do_now(request)
        self.events.append(recorded)
        if recorded.kind == "unknown":
            unknown = EffectUnknown(recorded.text, request.name)
            unknown.__cause__ = error
            self._ready.append((part, None, unknown))
        elif recorded.kind == "not done":
            self._ready.append((part, None, error or NotDone(recorded.text)))
        else:
            self._ready.append((part, self._find_kind(request).load(recorded.text), None))

    async def _do_now(self, request: OnceRequest) -> tuple[FlowEvent, Exception | None]:
        """Do the work of an effect unless the ledger has its answer. Returns the event, and the error of the work."""
        kind = self._find_kind(request)
        key = f"{request.name[:180]} #{self._effects} {self._key}"
        reconcile = None if request.reconcile is None else partial(_reconcile, request, kind)
        try:
            effect = await open_effect(self.ledger or _NoLedger(), key, reconcile, passing=True)
        except EffectUnknown as error:
            return FlowEvent("unknown", request.name, error.id), error
        if effect.done:
            return FlowEvent("value", request.name, effect.written), None
        value, failure = await _call(request.function, request.arguments)
        if isinstance(failure, FlowError):
            raise failure
        if isinstance(failure, NotDone):
            await effect.withdraw()
            return FlowEvent("not done", request.name, str(failure)), failure
        if failure is not None:
            return FlowEvent("unknown", request.name, effect.id), failure
        await effect.finish_written(kind.dump(value), trusted=request.trusted)
        return FlowEvent("value", request.name, effect.written), None

    def _find_kind(self, request: OnceRequest) -> ResultKind:
        """Return the conversion of a function's results. Raises FlowError if its declared type cannot be kept."""
        kind = self._kinds.get(request.name)
        if kind is None or kind.function is not request.function:
            kind = self._kinds[request.name] = ResultKind(request.function, request.name)
        return kind

    def _find_next_recorded(
        self, kind: str, name: str, action: str, other_kinds: Collection[str] = ()
    ) -> FlowEvent | None:
        """Return the next event of the log, which has to be this one; None for a new one."""
        self._steps += 1
        if self._recorded is None:
            return None
        event = self._recorded.popleft() if self._recorded else None
        if event is None or event.name != name or not (event.kind == kind or event.kind in other_kinds):
            raise self._make_divergence(action, event)
        return event

    def _end(self, part: FlowPart, value: Any, error: BaseException | None) -> None:
        gathering = part.above
        if gathering is None:
            self.ended, self.result, self.error = True, value, error
            return
        if isinstance(gathering, _WaitState):
            self._end_wait(gathering, part, value, error)
            return
        gathering.results[part.place] = value
        gathering.error = gathering.error or error
        gathering.missing -= 1
        if not gathering.missing:
            results = None if gathering.error else tuple(gathering.results)
            self._ready.append((gathering.part, results, gathering.error))

    def _make_divergence(self, action: str, event: FlowEvent | None = None) -> DivergedError:
        event = event or (self._recorded[0] if self._recorded else None)
        recorded = (
            "" if event is None else event.name if event.kind == "value" else f"{event.kind} {event.name}"
        )
        before = f"the record has: {recorded}" if recorded else "it waited then"
        location = f"{_name(self.coroutine)}, line {_line_of(self.coroutine)}"
        return DivergedError(
            f"{location}: step {self._steps} differs from its record: {action}, and {before}"
        )


class _NoLedger:
    """Ledger of a flow outside of a server, which records nothing."""

    async def claim(self, key: str, *, passing: bool = False) -> LedgerEntry:  # noqa: ARG002 - the port's signature
        return LedgerEntry(key, "claimed")

    async def conclude(self, id: str, answer: str | None, *, trusted: bool = False) -> None:  # noqa: A002
        """Record nothing."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """Awaitable that yields a future to the event loop, as the code that awaits it does."""

    future: Any

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self.future)


async def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """Call a function in a thread, or an async function. Returns its result, or its exception."""
    try:
        return await _call_anywhere(function, arguments), None
    except Exception as error:  # noqa: BLE001 - of the function, and for the flow
        return None, error


async def _call_anywhere(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call an async function here, and any other in a thread: it may wait for a service and hold the event loop."""
    if is_async(function):
        return await function(*arguments)
    import asyncio  # here, because a check of an organism needs the module and not the event loop

    value = await asyncio.to_thread(function, *arguments)
    return await value if isinstance(value, Awaitable) else value


async def _reconcile(request: OnceRequest, kind: ResultKind, effect: Effect) -> Any:
    """Call the hook of an effect, and record its result. Returns NOT_DONE if the work was not done."""
    assert request.reconcile is not None
    verdict = await _call_anywhere(request.reconcile, request.arguments)
    if verdict is NOT_DONE:
        return verdict
    await effect.finish_written(kind.dump(verdict))
    return None


def _close(part: FlowPart, top: FlowPart) -> None:
    """Close the coroutine of a part, and those that wait for it up to another part. Raises FlowError."""
    each: FlowPart | None = part
    while each is not None:
        try:
            each.coroutine.close()
        except RuntimeError as error:
            location = f"line {_line_of(each.coroutine)} of {_name(each.coroutine)}"
            raise FlowError(f"{location} awaits after its time: it may only clean up") from error
        each = None if each is top or each.above is None else each.above.part


def _describe(part: Awaitable[Any]) -> str:
    """Return the listener that a request asks, or the name of a coroutine."""
    return (
        part.to if isinstance(part, AskRequest) else str(getattr(part, "__qualname__", type(part).__name__))
    )


def _name(coroutine: Any) -> str:
    return list_waiting(coroutine)[-1].name


def _line_of(coroutine: Any) -> int:
    """Return the line at which a coroutine waits; 0 when it has ended."""
    frame = list_waiting(coroutine)[-1].frame
    return 0 if frame is None else int(frame.f_lineno)


def _describe_place(coroutine: Any) -> str:
    """Return the line, of the user's code, at which a coroutine waits, and the library's function that it waits in."""
    chain = list_waiting(coroutine)
    own = max((place for place, each in enumerate(chain) if not _is_of_a_library(each.frame)), default=0)
    name, frame = chain[own]
    place = f"line {frame.f_lineno} of {name}"
    return place if own == len(chain) - 1 else f"{place}, in {chain[own + 1].name}(),"


def _is_of_a_library(frame: Any) -> bool:
    """Check whether the code of a frame is Python's, of an installed package or of this one."""
    module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    known = module in sys.stdlib_module_names or module == "agentserver"
    return known or "site-packages" in frame.f_code.co_filename


def _find_frame(part: FlowPart) -> Any:
    """Return the frame in which a part of a flow sends a message; None when it has ended."""
    inner = list_waiting(part.coroutine)[-1]
    while part.above is not None and inner.name == run_part.__qualname__:
        part = part.above.part
        inner = list_waiting(part.coroutine)[-1]
    return inner.frame
