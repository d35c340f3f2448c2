"""Entries of the log as bytes, and back.

Owns the form: a version, a header of JSON, then all that is bytes, one after the other. What cannot be read is a value,
never a traceback: the bytes come from a broker. Refuses to know what an act does.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.core.encoding.parts import encode
from agentserver.core.messages import Moment
from agentserver.engines.replica.entries import arriving
from agentserver.engines.replica.entries.acts import (
    Departing,
    Discarding,
    Done,
    Forgetting,
    Handing,
    Naming,
    Setting,
)
from agentserver.engines.sqlite.rows import Left
from agentserver.engines.sqlite.steps.step import GivenReceipt, LeavingEvent, StepData
from agentserver.ports.sharing import Fate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agentserver.engines.replica.entries.acts import Act

LARGEST: Final = 64 << 20
"""Bytes of an entry that is read; beyond it nothing of it is."""

_START: Final = struct.Struct("<4sI")
_KIND: Final = b"AGE"
_MAGIC: Final = b"AGE1"
"""The version of the form."""

_MESSAGE: Final = 7
"""The index of the message among the columns of a delivery."""

_WHOLE: Final = 1 << 63
"""Beyond it, and below its negative, SQLite has no integer."""

_DELIVERY: Final = (str, str, str, str, str, str, str, bytes, int, str, str)
"""The types of the columns of a delivery."""


class UnreadableEntry(NamedTuple):
    """Bytes that are no entry of this version; ``later`` ones are of another, and not for nothing."""

    why: str
    later: bool = False


def dump(acts: Iterable[Act]) -> bytes:
    """Acts as the body of an entry. Raises TypeError and ValueError for what has no form."""
    blobs: list[bytes] = []
    rows = [_WRITERS[type(act)](act, _putting(blobs)) for act in acts]
    header = encode([rows, [len(blob) for blob in blobs]])
    return b"".join((_START.pack(_MAGIC, len(header)), header, *blobs))


def load(body: bytes) -> tuple[Act, ...] | UnreadableEntry:
    """The acts of which ``dump`` gave this body, or why there are none."""
    if len(body) > LARGEST:
        return UnreadableEntry(f"it has {len(body)} bytes, and {LARGEST} may be read")
    try:
        magic, size = _START.unpack_from(body)
        if magic != _MAGIC:
            return UnreadableEntry("it is of another version", magic.startswith(_KIND))
        start = _START.size + size
        rows, sizes = json.loads(body[_START.size : start])
        blobs = _blobs(body, start, sizes)
        return tuple([_READERS[row[0]](row[1:], blobs) for row in rows])
    except (
        struct.error,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        return UnreadableEntry(f"it is no entry: {type(error).__name__}")


def _putting(blobs: list[bytes]) -> Callable[[bytes | None], int | None]:
    def put(data: bytes | None) -> int | None:
        if data is None:
            return None
        blobs.append(data)
        return len(blobs) - 1

    return put


def _blobs(body: bytes, start: int, sizes: Sequence[int]) -> list[bytes]:
    blobs = []
    for size in sizes:
        if not _is(size, int) or not 0 <= size <= len(body) - start:
            raise ValueError("a length is none")
        blobs.append(body[start : start + size])
        start += size
    if start != len(body):
        raise ValueError("there is more")
    return blobs


# Writing

_Put = Any
"""Puts bytes beside the header and gives their index."""


def _step_row(step: StepData, put: _Put) -> list[Any]:
    values = [
        [owner, [[name, put(data)] for name, data in named.items()]] for owner, named in step.values.items()
    ]
    entries = [
        [owner, [[name, put(data)] for name, data in named.items()]] for owner, named in step.entries.items()
    ]
    return [
        "step",
        *step[:8],
        [step.moment.now, put(step.moment.seed)],
        put(step.cause),
        put(step.records),
        step.outside,
        step.receipt,
        step.done,
        step.reason,
        [_delivery_row(one, put) for one in step.added],
        list(step.dropped),
        None if step.revived is None else _delivery_row(step.revived, put),
        step.redriven,
        [[one.request, one.sender, one.root, put(one.message), one.flag] for one in step.events],
        put(step.changes),
        put(step.state),
        step.replacing,
        values,
        entries,
    ]


def _delivery_row(columns: Sequence[Any], put: _Put) -> list[Any]:
    row = list(columns)
    row[_MESSAGE] = put(row[_MESSAGE])
    return row


_WRITERS: Final[dict[type, Callable[[Any, _Put], list[Any]]]] = {
    StepData: _step_row,
    Setting: lambda act, _: ["aside", *act],
    Departing: lambda act, _: ["left", *act.left],
    Discarding: lambda act, _: ["discard", *act],
    Naming: lambda act, _: ["name", *act],
    Forgetting: lambda act, _: ["forget", *act],
    Handing: lambda act, put: ["hand", put(arriving.dump(act.arrival))],
    Done: lambda act, _: ["done", act.arrival, *act.fate],
}


# Reading


def _is(value: object, kind: type) -> bool:
    """True when a value is of this type and fits a column."""
    if type(value) is not kind:
        return False
    return not isinstance(value, int) or -_WHOLE <= value < _WHOLE


def _as(value: Any, *kinds: type) -> Any:
    if not any(_is(value, kind) for kind in kinds):
        raise TypeError("a field is of another type")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    return tuple([_as(value, str) for value in _as(values, list)])


def _maybe(value: Any, kind: type) -> Any:
    return None if value is None else _as(value, kind)


def _number(value: Any) -> float:
    return float(_as(value, float, int))


def _taken(index: Any, blobs: Sequence[bytes]) -> bytes:
    return blobs[_index(index)]


def _index(index: Any) -> int:
    if not _is(index, int) or index < 0:
        raise ValueError("an index is none")
    return int(index)


def _step(row: list[Any], blobs: Sequence[bytes]) -> StepData:
    (
        conversation, principal, root, rights, before, version, touched, closed, (now, seed), cause, records, outside,
        receipt, done, reason, added, dropped, revived, redriven, events, changes, state, replacing, values, entries,
    ) = row  # fmt: skip
    return StepData(
        _as(conversation, str),
        _as(principal, str),
        _as(root, str),
        _as(rights, str),
        _as(before, int),
        _as(version, int),
        _number(touched),
        _as(closed, bool),
        Moment(_number(now), _taken(seed, blobs)),
        _taken(cause, blobs),
        _taken(records, blobs),
        _as(outside, bool),
        None if receipt is None else GivenReceipt(*_texts(receipt)),
        _maybe(done, str),
        _maybe(reason, str),
        [_delivery(one, blobs) for one in _as(added, list)],
        _texts(dropped),
        None if revived is None else _delivery(revived, blobs),
        None if redriven is None else _pair(redriven),
        [_event(one, blobs) for one in _as(events, list)],
        _taken(changes, blobs),
        _taken(state, blobs),
        _as(replacing, bool),
        {
            _as(owner, str): {_as(name, str): _taken(data, blobs) for name, data in named}
            for owner, named in values
        },
        {
            _as(owner, str): {
                _as(name, str): None if data is None else _taken(data, blobs) for name, data in named
            }
            for owner, named in entries
        },
    )


def _pair(values: Any) -> tuple[str, str]:
    first, second = _texts(values)
    return first, second


def _delivery(row: Any, blobs: Sequence[bytes]) -> tuple[object, ...]:
    columns = list(_as(row, list))
    columns[_MESSAGE] = _taken(columns[_MESSAGE], blobs)
    return tuple([_as(value, kind) for value, kind in zip(columns, _DELIVERY, strict=True)])


def _event(row: Any, blobs: Sequence[bytes]) -> LeavingEvent:
    request, sender, root, message, flag = row
    told = None if message is None else _taken(message, blobs)
    return LeavingEvent(_as(request, str), _maybe(sender, str), _maybe(root, str), told, int(_as(flag, int)))


def _left(row: list[Any], _: object) -> Departing:
    conversation, version, position, before = row
    return Departing(
        Left(_as(conversation, str), _maybe(version, int), _maybe(position, int), _as(before, bool))
    )


def _setting(row: list[Any], _: object) -> Setting:
    conversation, reason, at = row
    return Setting(_as(conversation, str), _as(reason, str), _number(at))


def _naming(row: list[Any], _: object) -> Naming:
    name, conversation, at = row
    return Naming(_as(name, str), _as(conversation, str), _number(at))


def _done(row: list[Any], _: object) -> Done:
    arrival, word, request, version, again = row
    return Done(
        _as(arrival, str), Fate(_as(word, str), _as(request, str), _as(version, int), again=_as(again, bool))
    )


def _discarding(row: list[Any], _: object) -> Discarding:
    return Discarding(*_texts(row))


def _forgetting(row: list[Any], _: object) -> Forgetting:
    (before,) = row
    return Forgetting(_number(before))


def _handing(row: list[Any], blobs: Sequence[bytes]) -> Handing:
    (index,) = row
    return Handing(arriving.load(_taken(index, blobs)))


_READERS: Final[dict[str, Callable[[list[Any], Sequence[bytes]], Act]]] = {
    "step": _step,
    "aside": _setting,
    "left": _left,
    "discard": _discarding,
    "name": _naming,
    "forget": _forgetting,
    "hand": _handing,
    "done": _done,
}
