"""The server's side of a call to a worker: encodes the call, and validates the result like any untrusted document.

Payloads are parsed within bounds and validated against their schemas, ids of todos against the thread. Stored values of
classes that the server does not know belong to the worker: they must be well-formed, within the bounds and under their
own names, and only the worker reads them.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

from lxml import etree

from agentserver.completion import (
    Completion,
    CompletionError,
    CompletionFault,
    Request,
    Usage,
)
from agentserver.contract import LONGEST_DELAY, Code, Target
from agentserver.core.drafts.replies import read_recorded
from agentserver.core.messages import NO_EFFECTS, HandlerFailure, HandlerReturn
from agentserver.core.records.details import Corrections, Failure, Ground
from agentserver.core.refusals import Refusal
from agentserver.core.state.logs import apply_log_changes
from agentserver.effects import LONGEST_KEY, load_answer
from agentserver.payload.codec import SYSTEM
from agentserver.pump.invoke import code_of_failure
from agentserver.wire.envelope import Malformed, read_payload
from agentserver.worker.frames import (
    CallFrame,
    CompletionFrame,
    CompletionRequestFrame,
    EffectStateFrame,
    FailedFrame,
)

if TYPE_CHECKING:
    from agentserver.contract import Invocation
    from agentserver.core.decide.decisions import AcceptedDelivery
    from agentserver.core.messages import Effects
    from agentserver.payload.codec import Codecs
    from agentserver.wire.envelope import Bounds
    from agentserver.worker import frames
    from agentserver.worker.frames import EffectFrame

__all__ = ["decode_end", "decode_failure", "decode_result", "encode_call", "fail_worker"]

MOST_NAME = 300
EFFECT = "effect"
"""The fault of a call that failed for an external effect with an unknown outcome."""
_EFFECT_ID = re.compile(r"[0-9a-f]{16}\.[0-9a-f-]{1,64}")
_OWN = re.compile(rf"(?=.{{1,{MOST_NAME}}}$)\{{[!-z|~]+\}}\w[\w.-]*")
"""The names of payloads of a worker's own: a namespace, and a root element."""


def fail_worker(reason: str) -> HandlerFailure:
    """Build the failure of a worker that is invalid or gone: ``internal`` to the caller."""
    return HandlerFailure(Code.INTERNAL, Failure(f"worker: {reason}"))


def decode_end(
    answer: frames.ReturnedFrame | frames.FailedFrame,
    accepted: AcceptedDelivery,
    codecs: Codecs,
    bounds: Bounds,
    storage: int,
) -> HandlerReturn | HandlerFailure:
    """Decode the end of a call by ``returned`` or ``failed``."""
    if isinstance(answer, FailedFrame):
        return decode_failure(answer)
    return decode_result(answer, accepted, codecs, bounds, storage)


def decode_failure(frame: frames.FailedFrame) -> HandlerFailure | HandlerReturn:
    """Decode a failure; the caller gets the corrections if the handler made an invalid payload."""
    if frame.fault == EFFECT and _EFFECT_ID.fullmatch(frame.detail):
        return HandlerFailure(Code.INTERNAL, Ground.EFFECT.of(frame.detail))
    if not frame.faults:
        fault = next((each for each in CompletionFault if each == frame.fault), None)
        return HandlerFailure(code_of_failure(fault), Failure(f"worker: {frame.detail}"))
    return HandlerReturn(Refusal(Code.VALIDATION, Corrections(frame.faults), corrections=frame.faults))


def decode_result(
    frame: frames.ReturnedFrame, accepted: AcceptedDelivery, codecs: Codecs, bounds: Bounds, storage: int
) -> HandlerReturn | HandlerFailure:
    """Decode the result of a call, as if the handler had run here.

    Args:
        frame: from the worker.
        accepted: the delivery of the call.
        codecs: of the server, not of the worker.
        bounds: of one payload.
        storage: bytes that the thread may store.
    """
    if any(said.caller and said.to is not None for said in frame.messages):
        return fail_worker("a message names a target and the caller")
    if not all(0 <= said.after <= LONGEST_DELAY for said in frame.messages):
        return fail_worker("a message is delayed by a time that is out of range")
    targets = (
        (said.markup, Target.CALLER if said.caller else said.to, said.after) for said in frame.messages
    )
    said = read_recorded(targets, codecs, bounds, accepted.room)
    if isinstance(said, HandlerFailure):
        return said
    if frame.effects == NO_EFFECTS:
        return HandlerReturn(said)
    reason = _find_objection(frame.effects, accepted, codecs, bounds, storage)
    if reason:
        return fail_worker(reason)
    return HandlerReturn(said, frame.effects._replace(closed=tuple(dict.fromkeys(frame.effects.closed))))


def _find_objection(
    effects: Effects, accepted: AcceptedDelivery, codecs: Codecs, bounds: Bounds, storage: int
) -> str:
    """Find a violation in changes of storage and todos; empty for valid changes."""
    for name, data in effects.stored.items():
        if not (_nameable(name, codecs) and (data is None or _stores(name, data, codecs, bounds))):
            return f"it stores a {name[:MOST_NAME]} that does not satisfy its schema"
    for change in effects.logged:
        nameable = _nameable(change.kind, codecs) and change.dropped >= 0
        if not (nameable and all(_stores(change.kind, data, codecs, bounds) for data in change.appended)):
            return f"it appends a {change.kind[:MOST_NAME]} that does not satisfy its schema"
    if len({change.kind for change in effects.logged}) < len(effects.logged):
        return "it changes a log twice"
    values = [data for data in {**accepted.storage, **effects.stored}.values() if data is not None]
    entries = sum(log.size for log in apply_log_changes(accepted.logs, effects.logged).values())
    if sum(map(len, values)) + entries > storage:
        return f"a thread stores at most {storage} bytes: limits.storage sets that"
    if not set(effects.closed) <= {todo.watcher_id for todo in accepted.todos}:
        return "it closes a todo that is not this thread's"
    return ""


def _nameable(name: str, codecs: Codecs) -> bool:
    """Tell whether a payload is the server's, or may be the name of a class of the worker's own."""
    own = _OWN.fullmatch(name) is not None and not name.startswith(f"{{{SYSTEM}}}")
    return codecs.for_root(name) is not None or own


def _stores(name: str, data: bytes, codecs: Codecs, bounds: Bounds) -> bool:
    """Tell whether a value may be stored under a payload name; the schema of a known one must accept it."""
    codec, element = codecs.for_root(name), read_payload(data, bounds)
    if isinstance(element, Malformed) or str(element.tag) != name:
        return False
    return codec is None or codec.valid(element)


def encode_call(number: int, accepted: AcceptedDelivery, current: Invocation) -> CallFrame:
    """Encode a delivery as a frame.

    Args:
        number: of the call.
        accepted: the delivery.
        current: the invocation, as a handler in this process would get it.
    """
    return CallFrame(
        number,
        accepted.codec.name,
        etree.tostring(accepted.shown, encoding="unicode", with_tail=False),
        current.metadata,
        accepted.storage,
        {name: tuple(log) for name, log in accepted.logs.items()},
        tuple(accepted.todos),
        current.answering,
        max(current.until - time.monotonic(), 0.0),
        current.completer is not None,
        current.teller is not None,
        accepted.room.messages,
        accepted.room.bytes,
        current.idempotency_key,
        current.attempt,
        current.epoch,
        current.clock(),
    )


async def record_effect(frame: EffectFrame, current: Invocation) -> EffectStateFrame:
    """Claim or conclude an external effect for a worker, in the ledger of its invocation."""
    if current.ledger is None:
        return EffectStateFrame(frame.call, frame.number, reason="no server records effects here")
    try:
        if frame.effect:
            if frame.answer is not None:
                load_answer(frame.answer)
            await current.ledger.conclude(frame.effect, frame.answer, trusted=frame.trusted)
            return EffectStateFrame(frame.call, frame.number, frame.effect)
        if not 0 < len(frame.key) <= LONGEST_KEY:
            return EffectStateFrame(
                frame.call, frame.number, reason="the key of an effect is too short or too long"
            )
        entry = await current.ledger.claim(frame.key, passing=frame.passing)
    except (RuntimeError, ValueError) as error:
        return EffectStateFrame(frame.call, frame.number, reason=str(error))
    return EffectStateFrame(frame.call, frame.number, entry.id, entry.state, entry.answer, entry.token)


async def answer_question(
    frame: CompletionRequestFrame, current: Invocation, codecs: Codecs
) -> CompletionFrame:
    """Ask a model for a worker, at the server. Failures are part of the answer.

    Args:
        frame: the question.
        current: the invocation that asks; it has the models and the budget.
        codecs: of the server.
    """
    if current.completer is None:
        return _make_failed_completion(
            frame, "lookup", "the organism declares no language models: add llm: to the YAML"
        )
    try:
        tools = [_make_class(tool, codecs) if isinstance(tool, str) else tool for tool in frame.tools]
        output = None if frame.output is None else _make_class(frame.output, codecs)
        question = Request(
            frame.messages,
            frame.agent,
            current.until,
            tools,
            output,
            frame.repairs,
            current.purse,
            partial=frame.partial,
        )
        done = await current.completer.complete(frame.model, question)
    except CompletionError as error:
        decode_failure = _make_failed_completion(frame, error.fault.value, error.reason)
        return (
            decode_failure
            if error.partial is None
            else _build_completed_frame(frame, error.partial, decode_failure, None)
        )
    except LookupError as error:
        return _make_failed_completion(frame, "lookup", str(error))
    except (ValueError, TypeError) as error:
        return _make_failed_completion(frame, "value", str(error))
    markup = None if done.output is None else codecs.of(type(done.output)).encode(done.output)
    return _build_completed_frame(frame, done, None, markup)


def _build_completed_frame(
    question: CompletionRequestFrame,
    done: Completion,
    decode_failure: CompletionFrame | None,
    output: str | None,
) -> CompletionFrame:
    """Build the frame of an answer, or of the partial answer of a failure."""
    return CompletionFrame(
        question.call,
        question.number,
        done.content,
        done.calls,
        done.usage,
        done.model,
        output,
        None if decode_failure is None else decode_failure.fault,
        "" if decode_failure is None else decode_failure.reason,
        done.finish,
    )


def _make_class(name: str, codecs: Codecs) -> type[Any]:
    codec = codecs.for_root(name)
    if codec is None:
        raise ValueError(f"{name} is no payload of this organism: list its class under replies")
    return codec.payload


def _make_failed_completion(question: CompletionRequestFrame, fault: str, reason: str) -> CompletionFrame:
    return CompletionFrame(question.call, question.number, "", (), Usage(), "", None, fault, reason)
