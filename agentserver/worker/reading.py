"""The questions to a worker and its answers, read as a stranger's document is.

Owns the way from frames to what the pump knows of a local call. Refuses to believe anything: payloads are parsed within
bounds and held against their schemas, ids of todos against the thread's. Stored values of classes that the server does
not know are the worker's own: well-formed, within the bounds, under their own names, and read by the worker alone.
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
from agentserver.contract import Code, Target
from agentserver.core.drafts.replies import written
from agentserver.core.messages import NO_EFFECTS, Failed, Returned
from agentserver.core.records.details import Corrections, Failure
from agentserver.core.refusals import Refusal
from agentserver.core.state.growing.logs import changed
from agentserver.payload.codec import SYSTEM
from agentserver.pump.invoke import failing
from agentserver.wire.envelope import Malformed, read_payload
from agentserver.worker.frames import CallFrame, CompletedFrame, CompleteFrame, FailedFrame

if TYPE_CHECKING:
    from agentserver.contract import Invocation
    from agentserver.core.decide.decisions import Accepted
    from agentserver.core.messages import Effects
    from agentserver.payload.codec import Codecs
    from agentserver.wire.envelope import Bounds
    from agentserver.worker import frames

__all__ = ["asked", "believed", "broken", "failed", "returned"]

MOST_NAME = 300
_OWN = re.compile(rf"(?=.{{1,{MOST_NAME}}}$)\{{[!-z|~]+\}}\w[\w.-]*")
"""The names of payloads of a worker's own: a namespace, and a root element."""


def broken(why: str) -> Failed:
    """The failure of a worker that cannot be believed or is gone: ``internal`` to the caller."""
    return Failed(Code.INTERNAL, Failure(f"worker: {why}"))


def believed(
    answer: frames.ReturnedFrame | frames.FailedFrame,
    accepted: Accepted,
    codecs: Codecs,
    bounds: Bounds,
    storage: int,
) -> Returned | Failed:
    """The end of a call, as ``returned`` and ``failed`` have it."""
    if isinstance(answer, FailedFrame):
        return failed(answer)
    return returned(answer, accepted, codecs, bounds, storage)


def failed(frame: frames.FailedFrame) -> Failed | Returned:
    """A handler that gave no result; a payload of its own that its schema refuses is the sender's to correct."""
    if not frame.faults:
        fault = next((each for each in CompletionFault if each == frame.fault), None)
        return Failed(failing(fault), Failure(f"worker: {frame.detail}"))
    return Returned(Refusal(Code.VALIDATION, Corrections(frame.faults), corrections=frame.faults))


def returned(
    frame: frames.ReturnedFrame, accepted: Accepted, codecs: Codecs, bounds: Bounds, storage: int
) -> Returned | Failed:
    """The result of a call, as if the handler had run here.

    Args:
        frame: as the worker sent it.
        accepted: the delivery that it was called with.
        codecs: of the server, not of the worker.
        bounds: of one payload.
        storage: bytes that the thread may store.
    """
    if any(said.caller and said.to is not None for said in frame.said):
        return broken("a message names a target and the caller")
    targets = ((said.markup, Target.CALLER if said.caller else said.to) for said in frame.said)
    said = written(targets, codecs, bounds, accepted.room)
    if isinstance(said, Failed):
        return said
    if frame.effects == NO_EFFECTS:
        return Returned(said)
    why = _objection(frame.effects, accepted, codecs, bounds, storage)
    if why:
        return broken(why)
    return Returned(said, frame.effects._replace(closed=tuple(dict.fromkeys(frame.effects.closed))))


def _objection(effects: Effects, accepted: Accepted, codecs: Codecs, bounds: Bounds, storage: int) -> str:
    """The reason why changes of storage and todos are no changes of this thread's; empty for changes that are."""
    for name, data in effects.stored.items():
        if not (_nameable(name, codecs) and (data is None or _stores(name, data, codecs, bounds))):
            return f"it stores a {name[:MOST_NAME]} that does not satisfy its schema"
    for change in effects.logged:
        kept = _nameable(change.kind, codecs) and change.dropped >= 0
        if not (kept and all(_stores(change.kind, data, codecs, bounds) for data in change.appended)):
            return f"it appends a {change.kind[:MOST_NAME]} that does not satisfy its schema"
    if len({change.kind for change in effects.logged}) < len(effects.logged):
        return "it changes a log twice"
    values = [data for data in {**accepted.storage, **effects.stored}.values() if data is not None]
    entries = sum(log.size for log in changed(accepted.logs, effects.logged).values())
    if sum(map(len, values)) + entries > storage:
        return f"a thread stores at most {storage} bytes"
    if not set(effects.closed) <= {todo.watcher_id for todo in accepted.todos}:
        return "it closes a todo that is not this thread's"
    return ""


def _nameable(name: str, codecs: Codecs) -> bool:
    """True for a payload of the server's, and for one that a class of the worker's own may have."""
    own = _OWN.fullmatch(name) is not None and not name.startswith(f"{{{SYSTEM}}}")
    return codecs.named(name) is not None or own


def _stores(name: str, data: bytes, codecs: Codecs, bounds: Bounds) -> bool:
    """True for a value of this payload; the schema of one that the server knows accepts it."""
    codec, element = codecs.named(name), read_payload(data, bounds)
    if isinstance(element, Malformed) or str(element.tag) != name:
        return False
    return codec is None or codec.valid(element)


def asked(number: int, accepted: Accepted, current: Invocation) -> CallFrame:
    """A delivery as a frame for the worker.

    Args:
        number: of the call.
        accepted: the delivery.
        current: what a handler of this process would have in reach.
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
    )


async def answered(asked: CompleteFrame, current: Invocation, codecs: Codecs) -> CompletedFrame:
    """Ask a model for a worker, at the server. Failures are part of the answer.

    Args:
        asked: the question.
        current: the invocation that asks; it has the models and the budget.
        codecs: of the server.
    """
    if current.completer is None:
        return _failed_completion(
            asked, "lookup", "the organism declares no language models: add llm: to the YAML"
        )
    try:
        tools = [_class(tool, codecs) if isinstance(tool, str) else tool for tool in asked.tools]
        output = None if asked.output is None else _class(asked.output, codecs)
        question = Request(
            asked.messages,
            asked.agent,
            current.until,
            tools,
            output,
            asked.repairs,
            current.purse,
            partial=asked.partial,
        )
        done = await current.completer.complete(asked.model, question)
    except CompletionError as error:
        failed = _failed_completion(asked, error.fault.value, error.why)
        return failed if error.partial is None else _completed(asked, error.partial, failed, None)
    except LookupError as error:
        return _failed_completion(asked, "lookup", str(error))
    except (ValueError, TypeError) as error:
        return _failed_completion(asked, "value", str(error))
    markup = None if done.output is None else codecs.of(type(done.output)).encode(done.output)
    return _completed(asked, done, None, markup)


def _completed(
    asked: CompleteFrame, done: Completion, failed: CompletedFrame | None, output: str | None
) -> CompletedFrame:
    """An answer as a frame, or the partial one of a failure."""
    return CompletedFrame(
        asked.call,
        asked.number,
        done.content,
        done.calls,
        done.usage,
        done.model,
        output,
        None if failed is None else failed.fault,
        "" if failed is None else failed.why,
        done.finish,
    )


def _class(name: str, codecs: Codecs) -> type[Any]:
    codec = codecs.named(name)
    if codec is None:
        raise ValueError(f"{name} is no payload of this organism: list its class under replies")
    return codec.payload


def _failed_completion(asked: CompleteFrame, fault: str, why: str) -> CompletedFrame:
    return CompletedFrame(asked.call, asked.number, "", (), Usage(), "", None, fault, why)
