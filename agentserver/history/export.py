"""Export of a recorded conversation as one file that people can read, review and keep with their tests."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from agentserver.characters.printing import replace_unseen
from agentserver.codec import NAMES, ValueCodec, write_json
from agentserver.core.encoding import codecs
from agentserver.core.encoding.decision_codec import Origin
from agentserver.core.encoding.history import RecordedConversation, RecordedStep
from agentserver.core.encoding.snapshot import UnreadableError
from agentserver.core.messages import Delivery, Done, EventPlace, Moment, Reply
from agentserver.foreign_json.reading import JsonLimits, RefusedJson
from agentserver.foreign_json.reading import parse_json as read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

KIND = "agentserver conversation"

FORMAT = 1
"""The version of the file. A step's ``cause`` and ``records`` are as the journal has them, without their version."""

TEST: Final = '''\
"""Decides a recorded conversation again. Written by agentserver."""

from __future__ import annotations

from pathlib import Path

from agentserver.testing import check_replay

HERE = Path(__file__).parent


def test_{name}() -> None:
    check_replay(HERE / {file}, HERE / {organism})
'''

_ORIGINS: Final[ValueCodec[Origin]] = ValueCodec(Origin, codecs.TYPES, NAMES)
_DELIVERIES: Final[ValueCodec[Delivery]] = ValueCodec(Delivery, codecs.TYPES, NAMES)
_REPLIES: Final[ValueCodec[Reply]] = ValueCodec(Reply, codecs.TYPES, NAMES)
_ENDS: Final[ValueCodec[Done]] = ValueCodec(Done, codecs.TYPES, NAMES)


def dump(recorded: RecordedConversation) -> bytes:
    """Return the conversation as JSON text in UTF-8, one message or record a line.

    Unprintable characters are escaped, so that a reviewer sees each. The chain of digests is omitted.
    """
    head = {"kind": KIND, "format": FORMAT, **_ORIGINS.plain(recorded.beginning)}
    lines = [f"  {_format_line(name)}: {_format_line(value)}" for name, value in head.items()]
    steps = ",\n".join(f"    {_object(_build_step_row(step), 4)}" for step in recorded.steps)
    lines.append(f'  "steps": [\n{steps}\n  ]')
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def iter_texts(recorded: RecordedConversation) -> Iterator[tuple[int, str]]:
    """Return the texts that ``dump`` writes of each step, by its version: as written, and as they were sent.

    The second form has each text of a cause and of its records on lines of its own, which may have been cut.
    """
    for step in recorded.steps:
        yield step.version, _object(_build_step_row(step), 0)
        parts = [text for data in (step.cause, step.records) for text in _iter_leaves(json.loads(data))]
        parts += [_show(data) for data in (step.cause, step.records, *step.gone_out())]
        yield step.version, "\n".join(parts)


def find_secret(recorded: RecordedConversation, redact: Callable[[str], str]) -> int | None:
    """Find the first step whose exported texts contain a secret; None without one."""
    return next((version for version, text in iter_texts(recorded) if redact(text) != text), None)


def name_test(stem: str) -> str:
    """Return the name of the test for a file with this stem, without ``test_``."""
    return re.sub(r"\W+", "_", stem).strip("_").lower() or "conversation"


def write_test(file: str, organism: str) -> str:
    """Return the text of the test that decides a saved conversation again.

    Args:
        file: name of the saved conversation, in the folder of the test.
        organism: path of the organism's file from that folder.
    """
    return TEST.format(name=name_test(PurePath(file).stem), file=repr(file), organism=repr(organism))


def _iter_leaves(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _iter_leaves(each)


def _show(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


LIMITS: Final = JsonLimits(bytes=1 << 29, values=10_000_000, members=100_000)
"""The limits of a file: a conversation of some hundred thousand steps."""


def load(data: bytes) -> RecordedConversation:
    """Read a conversation that ``dump`` wrote. Raises UnreadableError for anything else, or a later version."""
    try:
        read = read_json(data, LIMITS)
        if isinstance(read, RefusedJson):
            raise UnreadableError(f"it cannot be read: it {read.rule}")
        if not isinstance(read, dict) or read.get("kind") != KIND:
            raise UnreadableError("this is no recorded conversation of agentserver")
        if read["format"] != FORMAT:
            raise UnreadableError(
                f"another agentserver wrote it (format {read['format']}; this one reads {FORMAT})"
            )
        return _read_conversation(read)
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(f"it cannot be read: {type(error).__name__}: {error}") from error


def _build_step_row(step: RecordedStep) -> dict[str, object]:
    return {
        "version": step.version,
        "at": step.moment.now,
        "seed": step.moment.seed.hex(),
        "cause": _parse_kept(step.cause),
        "records": _parse_kept(step.records),
        "deliveries": [_leave_out(_DELIVERIES.plain(one), "conversation", "attempt") for one in step.added],
        "events": [_build_event_row(event) for event in step.events],
    }


def _parse_kept(data: bytes) -> Any:
    _, plain = json.loads(data)
    return plain


def _write_kept(plain: Any) -> bytes:
    return write_json((codecs.FORMAT, plain))


def _build_event_row(event: Reply | Done) -> dict[str, object]:
    row = _ENDS.plain(event) if isinstance(event, Done) else _REPLIES.plain(event)
    return _leave_out(row, "conversation", "redelivered", "place")


def _leave_out(row: Mapping[str, object], *names: str) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in names}


def _object(fields: Mapping[str, object], indent: int) -> str:
    """Format an object with a line for each field, and for each item of a list of lists or objects."""
    margin = " " * (indent + 2)
    return (
        "{\n"
        + ",\n".join(f"{margin}{_format_field(*each, margin)}" for each in fields.items())
        + f"\n{margin[2:]}}}"
    )


def _format_field(name: str, value: object, margin: str) -> str:
    if not isinstance(value, list) or not value or name == "cause":
        return f"{_format_line(name)}: {_format_line(value)}"
    items = f",\n{margin}  ".join(_format_line(item) for item in value)
    return f"{_format_line(name)}: [\n{margin}  {items}\n{margin}]"


def _format_line(value: object) -> str:
    return replace_unseen(json.dumps(value, ensure_ascii=False), lambda char: json.dumps(char)[1:-1])


def _read_conversation(read: Mapping[str, Any]) -> RecordedConversation:
    origin = _ORIGINS.value(_leave_out(read, "kind", "format", "steps"))
    steps = tuple(_read_step(origin.id, row) for row in read["steps"])
    deliveries = {delivery.id: delivery for step in steps for delivery in step.added}
    return RecordedConversation(origin, steps, deliveries)


def _read_step(conversation: str, row: Mapping[str, Any]) -> RecordedStep:
    return RecordedStep(
        row["version"],
        Moment(float(row["at"]), bytes.fromhex(row["seed"])),
        _write_kept(row["cause"]),
        _write_kept(row["records"]),
        tuple([_DELIVERIES.value({**one, "conversation": conversation}) for one in row["deliveries"]]),
        tuple([_read_event(conversation, one, row["version"], at) for at, one in enumerate(row["events"])]),
        b"",
    )


def _read_event(conversation: str, row: Mapping[str, Any], version: int, position: int) -> Reply | Done:
    codec = _REPLIES if "message" in row else _ENDS
    return codec.value({**row, "conversation": conversation})._replace(place=EventPlace(version, position))
