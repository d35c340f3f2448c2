"""AG-UI, the protocol of front ends for agents, as a part of the door. Needs the extra ``agui``.

The last user message of a run is sent under a key made of its id, so that a repeated run is the same request. The rest
of the history in the input is ignored: the server has its own.
"""

from __future__ import annotations

from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
from ag_ui.core import (
    CustomEvent,
    Interrupt,
    ResumeEntry,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    UserMessage,
)
from ag_ui.core.events import (
    RunFinishedCancelledOutcome,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
)
from ag_ui.encoder import EventEncoder
from starlette.routing import Route

from agentserver.contract import Code
from agentserver.core.decide.answers import bar_approver
from agentserver.core.messages import Delta, DeltaKind, Done, Progress, Reply
from agentserver.core.records.audit import Event
from agentserver.core.records.wording import WORDING
from agentserver.core.state.approvals import Answer, ApprovalAnswer
from agentserver.foreign_json.models import ForeignModel
from agentserver.foreign_json.reading import JsonLimits, RefusedJson
from agentserver.gateways.agui_events import RunCalls, RunMessages, RunSteps, describe_start, describe_status
from agentserver.gateways.http import forms
from agentserver.gateways.http.parts import (
    DoorPart,
    ProblemAnswer,
    by_code,
    check_stored,
    list_waiting,
    open_conversation,
    read_acting_caller,
    read_body,
    read_host,
    report_not_submitted,
    server_stopping,
)
from agentserver.gateways.http.streams import ServerSent
from agentserver.payload.json.schema import find_text_member
from agentserver.ports import EngineError, RecordGap, WatchEnd, WatchStop
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence

    from ag_ui.core import BaseEvent, Message
    from anyio.streams.memory import MemoryObjectSendStream
    from starlette.requests import Request

    from agentserver.core.guard import Rules
    from agentserver.core.messages import EventPlace
    from agentserver.core.records.audit import AuditRecord
    from agentserver.core.state.approvals import Approval
    from agentserver.gateways.http.connections import HeldConnection
    from agentserver.gateways.http.parts import DoorHost
    from agentserver.gateways.principals import Caller
    from agentserver.payload.codec import Codec
    from agentserver.ports import SubmitResult

    Item: TypeAlias = "Reply | Done | Progress | Delta | WatchStop | tuple[AuditRecord, ...] | None"
    Say: TypeAlias = Callable[[BaseEvent], Awaitable[None]]

PAYLOAD: Final = "payload"
"""The member of forwardedProps that is the payload itself, for listeners that take more than a text."""

_NAME: Final = "payloadName"

DETACH: Final = "detach"
"""The member of forwardedProps that lets the request continue when the connection is closed."""

_LONGEST: Final = 300
_FORM: Final[ForeignModel[RunAgentInput]] = ForeignModel(RunAgentInput)


@dataclass(frozen=True, slots=True)
class InterruptAnswer:
    """An answer to an interrupt.

    Args:
        interrupt: its id, which is the approval's.
        answer: the decision; None for an answer that decides nothing.
        digest: of the message that was shown; empty if it was abandoned.
    """

    interrupt: str
    answer: Answer | None
    digest: str = ""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A requested run.

    Args:
        thread: the front end's id of the conversation.
        run: its id of this run.
        key: idempotency key, made of the message's id.
        text: the user's text; None without one.
        value: the payload as a JSON value, if the front end sends it whole; else None.
        name: of the payload; None if the listener takes only one.
        answers: to interrupts of an earlier run.
        messages: that the front end has already.
        state: of the front end, as it is sent back.
        detached: whether the request continues when the connection is closed before the end of the run.
    """

    thread: str
    run: str
    key: str
    text: str | None
    value: Mapping[str, Any] | None
    name: str | None
    answers: tuple[InterruptAnswer, ...]
    messages: tuple[Message, ...]
    state: Any = None
    detached: bool = False

    @property
    def told(self) -> frozenset[str]:
        """Ids of the messages that the front end has already."""
        return frozenset(each.id for each in self.messages)


def read(data: bytes, *, decides: bool) -> RunRequest:
    """Parse the input of a run.

    Args:
        data: the body.
        decides: whether the caller may answer approvals.

    Raises ProblemAnswer: 422 for an invalid input, 403 for an answer without permission.
    """
    found = _FORM.read(data, JsonLimits(bytes=len(data)))
    if isinstance(found, RefusedJson):
        raise ProblemAnswer(422, "This is no input of a run.", faults=[asdict(found)])
    if not (0 < len(found.thread_id) <= _LONGEST and 0 < len(found.run_id) <= _LONGEST):
        raise ProblemAnswer(422, f"threadId and runId have 1 to {_LONGEST} characters.")
    forwarded = found.forwarded_props if isinstance(found.forwarded_props, dict) else {}
    value, name = forwarded.get(PAYLOAD), forwarded.get(_NAME)
    if not isinstance(value, dict | None) or not isinstance(name, str | None):
        raise ProblemAnswer(422, f"forwardedProps.{PAYLOAD} is an object, and {_NAME} a text.")
    last = next((each for each in reversed(found.messages) if isinstance(each, UserMessage)), None)
    key = found.run_id if last is None else last.id
    text = None if last is None else _text(last)
    answers = tuple(_answer(each, decides=decides) for each in found.resume or ())
    if len({each.interrupt for each in answers}) < len(answers):
        raise ProblemAnswer(422, "An interrupt is answered twice.")
    named = hash_id("message", key)
    return RunRequest(
        found.thread_id,
        found.run_id,
        named,
        text,
        value,
        name,
        answers,
        tuple(found.messages),
        found.state,
        forwarded.get(DETACH) is True,
    )


def hash_id(kind: str, text: str) -> str:
    """Make a key of bounded length from an id of the front end."""
    return f"agui-{kind}-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def choose_value(request: RunRequest, codecs: Sequence[Codec]) -> Mapping[str, Any]:
    """Choose the payload's value: the one that was sent, or the user's text in the only field that fits.

    Raises ProblemAnswer without a text, and for a payload with more than one text field.
    """
    if request.value is not None:
        return request.value
    if request.text is None:
        raise ProblemAnswer(422, "There is no message of a user.")
    try:
        (codec,) = codecs
        return {find_text_member(codec.described): request.text}
    except ValueError:  # several payloads, or one without a single text
        message = f"This listener takes more than a text: give forwardedProps.{PAYLOAD}."
        raise ProblemAnswer(422, message) from None


def _text(message: UserMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return "\n".join(part.text for part in message.content if part.type == "text")


def _answer(entry: ResumeEntry, *, decides: bool) -> InterruptAnswer:
    if entry.status == "cancelled":  # abandoned: of one who may decide it is a no, of anybody else nothing
        return InterruptAnswer(entry.interrupt_id, Answer.DENY if decides else None)
    if not decides:
        raise ProblemAnswer(403, "This role decides about nothing.")
    entered = entry.payload if isinstance(entry.payload, dict) else {}
    answer, digest = entered.get("answer"), entered.get("digest")
    if set(entered) != {"answer", "digest"} or answer not in tuple(Answer) or not isinstance(digest, str):
        raise ProblemAnswer(422, "An answer is the digest that was shown, and once, always or deny.")
    return InterruptAnswer(entry.interrupt_id, Answer(answer), digest)


VERSION: Final = "1.0"
"""Of the protocol that is spoken here."""

REFUSED: Final = "agentserver:refused-answer"
"""The name of the event that an answer to an interrupt counts for nothing."""

APPROVAL: Final = "agentserver:approval"
"""The reason of each interrupt."""

PROGRESS: Final = "agentserver:progress"


def interrupt(one: Approval, rules: Rules, *, decides: bool) -> Interrupt:
    """Build the interrupt of an approval. Details are for callers who may decide."""
    until = datetime.fromtimestamp(one.at + rules.blueprint.find_approval_time(one.delivery.to), UTC)
    message = f"A message to {one.delivery.to} waits for an approval."
    if not decides:
        return Interrupt(id=one.id, reason=APPROVAL, message=message, expires_at=until.isoformat())
    reason = [line for each in one.questions for line in WORDING.describe_lines(each.reason)]
    answers = {"type": "string", "enum": [str(each) for each in Answer]}
    return Interrupt(
        id=one.id,
        reason=APPROVAL,
        message="\n".join((message, *reason)),
        expires_at=until.isoformat(),
        response_schema={
            "type": "object",
            "properties": {"answer": answers, "digest": {"const": one.digest}},
            "required": ["answer", "digest"],
            "additionalProperties": False,
        },
        metadata={
            "digest": one.digest,
            "from": one.delivery.sender,
            "to": one.delivery.to,
            **forms.redact_value(forms.encode_payload(one.delivery.message, rules), rules.redact),
        },
    )


BEAT: Final = 15.0
"""Seconds after which a silent run is given a sign of life."""

_ENDS: Final = {
    WatchEnd.STOPPING: "The server is stopping: ask for the run again.",
    WatchEnd.GONE: "The outcome of this message is no longer kept.",
}


def part() -> DoorPart:
    """Build the routes of AG-UI."""
    return DoorPart("agui", (Route("/v1/agui/{listener}", run, methods=["POST"]),))


async def run(request: Request) -> ServerSent:
    """Stream the events of a run until it finishes or is interrupted."""
    caller, server, listener = (
        read_acting_caller(request),
        read_host(request),
        request.path_params["listener"],
    )
    if forms.media(request.headers.get("content-type", "")) != forms.JSON:
        raise ProblemAnswer(415, "The input of a run is application/json.", {"accept-post": forms.JSON})
    run_request = await read_body(request, partial(read, decides=caller.decides))
    if request.app.holding.stopping:
        raise server_stopping()
    data = _compose_message(run_request, listener, caller, server)
    conversation = await open_conversation(
        server, caller, hash_id("thread", run_request.thread), committed=False
    )
    with report_not_submitted("id"):
        submitted = await server.submit(caller.name, conversation, data, listener, request=run_request.key)
    check_stored(submitted)
    _check(server, conversation, run_request.answers, caller)
    answer_refused = [
        each for each in run_request.answers if not await _counts(server, conversation, each, caller)
    ]
    following = RunStream(run_request, caller, server, conversation, submitted, answer_refused)
    return ServerSent(following, request.app.holding, BEAT, write=_encode_event)


def _compose_message(request: RunRequest, listener: str, caller: Caller, server: DoorHost) -> bytes:
    may = caller.principal.may
    codecs = tuple(forms.iter_codecs(server.rules, listener)) if may is None or listener in may else ()
    if not codecs:
        raise by_code(Code.ROUTING)
    value = choose_value(request, codecs)
    return forms.decode_message(server.rules, forms.JSON, forms.dump_json(value), listener, request.name, may)


def _check(server: DoorHost, conversation: str, answers: Sequence[InterruptAnswer], caller: Caller) -> None:
    """Raise ProblemAnswer where the rules bar the caller from approving here, before anything has counted."""
    state = server.conversation(conversation)
    approved = {each.interrupt for each in answers if each.answer not in (None, Answer.DENY)}
    if state is None:
        return
    for one in state.approvals():
        barred = bar_approver(state, caller.name, server.rules, one.delivery.to)
        if barred and one.id in approved:
            raise ProblemAnswer(403, f"{barred}.")


async def _counts(server: DoorHost, conversation: str, answered: InterruptAnswer, caller: Caller) -> bool:
    """Give an answer. False when nothing waits for it here: it is stale, was given before, or is another's."""
    if answered.answer is None:
        return True
    one = next((each for each in list_waiting(server, conversation) if each.id == answered.interrupt), None)
    if one is None:
        return False
    digest = answered.digest or one.digest
    return await server.answer(conversation, ApprovalAnswer(one.id, digest, answered.answer, caller.name))


@dataclass
class RunStream:
    """A run as a stream of events.

    Args:
        request: what the front end asks for.
        caller: who asks.
        server: that is asked.
        conversation: that the thread is.
        submitted: the fate of the message.
        answer_refused: answers to interrupts that count for nothing.
    """

    request: RunRequest
    caller: Caller
    server: DoorHost
    conversation: str
    submitted: SubmitResult
    answer_refused: Sequence[InterruptAnswer]
    over: bool = False
    words: int = 0
    result: Any = None
    messages: RunMessages = field(init=False)
    steps: RunSteps = field(init=False)
    calls: RunCalls = field(default_factory=RunCalls)

    def __post_init__(self) -> None:
        """Begin without messages and steps."""
        request = self.submitted.request
        self.messages = RunMessages(request, self.request.messages, self.request.told)
        self.steps = RunSteps(self.server.rules.blueprint.listeners.keys(), request)

    async def run(self, say: Say) -> None:
        """Send the events of the run until it finishes or is interrupted."""
        thread, run = self.request.thread, self.request.run
        await say(RunStartedEvent(thread_id=thread, run_id=run, protocol_version=VERSION))
        await say(describe_start(self.request.state, self.conversation, self.submitted.request))
        for each in self.answer_refused:
            await say(CustomEvent(name=REFUSED, value={"interruptId": each.interrupt}))
        out, items = anyio.create_memory_object_stream["Item"]()
        async with anyio.create_task_group() as tasks, items, out:
            start_errand(tasks, "looks at a run", EndEffect.OWNER, partial(self._look, out))
            start_errand(tasks, "watches a run", EndEffect.OWNER, partial(self._watch, out))
            # After the records are read, so that nothing is missed.
            start_errand(tasks, "begins a run", EndEffect.OWNER, partial(out.send, None))
            async for item in items:
                for event in await self._to_events(item):
                    await say(event)
                if self.over:
                    break
            tasks.cancel_scope.cancel()

    async def abandon(self) -> None:
        """End the request, since its front end has closed the connection, unless the input says otherwise."""
        if self.over or self.request.detached:
            return
        principal = self.caller.name
        with suppress(LookupError, EngineError):
            await self.server.cancel(principal, self.conversation, self.submitted.request, by=principal)

    def end(self, held: HeldConnection) -> BaseEvent | None:
        """Return the final event; None if the run has sent its own."""
        if self.over:
            return None
        return RunErrorEvent(message="The door has ended this stream.", code=held.reason or "stopping")

    def _make_finish(self, status: str, **fields: Any) -> Sequence[BaseEvent]:
        """Build the events of the end, after those of all that still runs."""
        finished = RunFinishedEvent(thread_id=self.request.thread, run_id=self.request.run, **fields)
        return [*self._end_parts(), describe_status(status), finished]

    def _make_error(self, message: str, code: str) -> Sequence[BaseEvent]:
        return [*self._end_parts(), describe_status("failed"), RunErrorEvent(message=message, code=code)]

    def _end_parts(self) -> Sequence[BaseEvent]:
        return [*self.messages.reset("the run is over"), *self.calls.end(), *self.steps.end()]

    def _follow(self, record: AuditRecord) -> Sequence[BaseEvent]:
        return self.steps.follow(record) if record.request == self.submitted.request else ()

    def _show(self, delta: Delta) -> Sequence[BaseEvent]:
        """Show a piece of an answer, or a call."""
        match delta.kind:
            case DeltaKind.TEXT:
                return self.messages.add_piece(delta)
            case DeltaKind.RESET | DeltaKind.DIFFERENCE:
                return self.messages.reset(delta.text or "the answer differs")
        return self.calls.follow(delta)

    async def _watch(self, out: MemoryObjectSendStream[Item]) -> None:
        """Pass on what leaves the conversation."""
        after: EventPlace | None = self.submitted.after
        while after is not None:
            after = await self._watch_page(out, after)

    async def _watch_page(self, out: MemoryObjectSendStream[Item], after: EventPlace) -> EventPlace | None:
        """Pass on events after a place. Returns the place for the next watch; None at the end."""
        async with aclosing(_items(self.server, self.caller.name, self.conversation, after)) as items:
            async for item in items:
                if isinstance(item, WatchStop) and item.reason is WatchEnd.LAGGED:
                    return item.after
                await out.send(item)
        return None

    async def _look(self, out: MemoryObjectSendStream[Item]) -> None:
        """Have it looked whether something waits for a person, whenever something new does."""
        async for records in self.server.records(self.caller.name):
            own = () if isinstance(records, RecordGap) else tuple(filter(self._is_own, records))
            if own:
                await out.send(own)
            if isinstance(records, RecordGap) or any(each.event is Event.ASKED for each in own):
                await out.send(None)

    def _is_own(self, record: AuditRecord) -> bool:
        return record.conversation == self.conversation

    async def _to_events(self, item: Item) -> Sequence[BaseEvent]:
        """Convert an item to events."""
        if item is None:
            return [*self.steps.begin(self.server.conversation(self.conversation)), *self._interrupt()]
        if isinstance(item, WatchStop):
            return self._stop(item)
        if isinstance(item, Reply | Done | Progress | Delta):
            return await self._convert(item) if item.request == self.submitted.request else ()
        return [event for each in item for event in self._follow(each)]

    async def _convert(self, item: Reply | Done | Progress | Delta) -> Sequence[BaseEvent]:
        """Convert an item of the request."""
        match item:
            case Delta():
                return self._show(item)
            case Progress():
                self.words += 1
                key = f"{self.request.run}-progress-{self.words}"
                return self.messages.add(key, item.sender, item.text, {PROGRESS: True})
            case Reply():
                return self._collect_reply(item)
            case Done():
                return await self._finish(item)

    def _stop(self, stop: WatchStop) -> Sequence[BaseEvent]:
        self.over = True
        if stop.reason is WatchEnd.CLOSED:
            return self._make_finish("cancelled", outcome=RunFinishedCancelledOutcome())
        return self._make_error(_ENDS[stop.reason], stop.reason)

    async def _finish(self, done: Done) -> Sequence[BaseEvent]:
        self.over = True
        if not done.answered and (self._is_cancelled() or await self._close()):
            return self._make_finish("cancelled", outcome=RunFinishedCancelledOutcome())
        await self.server.confirm(self.caller.name, self.conversation, done.place)
        return self._make_finish("finished", result=self.result, outcome=RunFinishedSuccessOutcome())

    def _is_cancelled(self) -> bool:
        """Return whether the latest records have the end of the request by its principal or an operator."""
        records = self.server.trace.list_records(self.conversation)
        return any(
            each.event is Event.CANCELLED and each.request == self.submitted.request for each in records
        )

    async def _close(self) -> bool:
        try:
            return (await self.server.find_conversation(self.caller.name, self.conversation)).over
        except LookupError:
            return True

    def _interrupt(self) -> Sequence[BaseEvent]:
        waiting = list_waiting(self.server, self.conversation, self.submitted.request)
        if not waiting:
            return ()
        self.over = True
        decides = self.caller.decides
        interrupts = [interrupt(each, self.server.rules, decides=decides) for each in waiting]
        return self._make_finish("waiting", outcome=RunFinishedInterruptOutcome(interrupts=interrupts))

    def _collect_reply(self, reply: Reply) -> Sequence[BaseEvent]:
        found = {"from": reply.sender, **forms.encode_payload(reply.message, self.server.rules)}
        if reply.error:
            self.over = True
            value = found.get("value") or {}
            return self._make_error(value.get("message", ""), value.get("code", str(Code.INTERNAL)))
        self.result = found
        return self.messages.add_reply(reply.sender, forms.extract_text(found))


async def _items(
    server: DoorHost, principal: str, conversation: str, after: EventPlace
) -> AsyncGenerator[Any, None]:
    """Watch as a generator that can be closed."""
    async for item in server.watch(principal, conversation, after, deltas=True):
        yield item


def _encode_event(event: BaseEvent | None) -> bytes:
    return b"" if event is None else EventEncoder().encode(event).encode()
