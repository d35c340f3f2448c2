"""The questions to a worker and its answers, read as a stranger's document is.

Owns the way from frames to what the pump knows of a local call. Refuses to believe anything: payloads are parsed within
bounds and held against their schemas, ids of todos against the thread's. Stored values of classes that the server does
not know are the worker's own: well-formed, within the bounds, under their own names, and read by the worker alone.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from lxml import etree

from agentserver.completion import CompletionFault
from agentserver.contract import Code, Target
from agentserver.core.drafts.replies import written
from agentserver.core.messages import Effects, Failed, Returned
from agentserver.core.records.details import Corrections, Failure
from agentserver.core.refusals import Refusal
from agentserver.core.state.growing.logs import LogChange, changed
from agentserver.payload.codec import SYSTEM
from agentserver.pump.calling.invoke import failing
from agentserver.wire.envelope import Malformed, read_payload
from agentserver.worker.frames import AnsweringFrame, CallFrame, FailedFrame, TodoFrame

if TYPE_CHECKING:
    from agentserver.contract import Invocation
    from agentserver.core.decide.decisions import Accepted
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
    faults = tuple(frame.faults)
    return Returned(Refusal(Code.VALIDATION, Corrections(faults), corrections=faults))


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
    if not (frame.storage or frame.logged or frame.closed):
        return Returned(said)
    effects = _effects(frame, accepted, codecs, bounds, storage)
    return Returned(said, effects) if isinstance(effects, Effects) else broken(effects)


def _effects(
    frame: frames.ReturnedFrame, accepted: Accepted, codecs: Codecs, bounds: Bounds, storage: int
) -> Effects | str:
    """The changes of storage and todos, or the reason why they are no changes of this thread's."""
    changes = {name: None if text is None else text.encode() for name, text in frame.storage.items()}
    for name, data in changes.items():
        if not (_nameable(name, codecs) and (data is None or _stores(name, data, codecs, bounds))):
            return f"it stores a {name[:MOST_NAME]} that does not satisfy its schema"
    logged = tuple(
        LogChange(each.kind, each.dropped, tuple(entry.encode() for entry in each.appended))
        for each in frame.logged
    )
    for change in logged:
        kept = _nameable(change.kind, codecs) and change.dropped >= 0
        if not (kept and all(_stores(change.kind, data, codecs, bounds) for data in change.appended)):
            return f"it appends a {change.kind[:MOST_NAME]} that does not satisfy its schema"
    if len({change.kind for change in logged}) < len(logged):
        return "it changes a log twice"
    values = {name: data for name, data in {**accepted.storage, **changes}.items() if data is not None}
    entries = sum(log.size for log in changed(accepted.logs, logged).values())
    if sum(map(len, values.values())) + entries > storage:
        return f"a thread stores at most {storage} bytes"
    if not set(frame.closed) <= {todo.watcher_id for todo in accepted.todos}:
        return "it closes a todo that is not this thread's"
    return Effects(changes, tuple(dict.fromkeys(frame.closed)), logged)


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
    metadata, told = current.metadata, current.answering
    return CallFrame(
        number,
        accepted.codec.name,
        etree.tostring(accepted.shown, encoding="unicode", with_tail=False),
        {
            "thread_id": metadata.thread_id,
            "from_id": metadata.from_id,
            "own_name": metadata.own_name,
            "is_self_call": metadata.is_self_call,
            "usage_instructions": metadata.usage_instructions,
            "todo_nudge": metadata.todo_nudge,
        },
        {name: data.decode() for name, data in accepted.storage.items()},
        {name: [entry.decode() for entry in log] for name, log in accepted.logs.items()},
        [TodoFrame(**asdict(todo)) for todo in accepted.todos],
        None if told is None else AnsweringFrame(told.key, told.place, told.refused),
        max(current.until - time.monotonic(), 0.0),
        current.completer is not None,
        current.teller is not None,
        accepted.room.messages,
        accepted.room.bytes,
        current.idempotency_key,
        current.attempt,
        current.epoch,
    )
