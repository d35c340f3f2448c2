"""The settings of a stream that is there already: would it keep what it is given, and nothing else?

Owns which of them count. Pure: refuses to ask a broker.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_USUAL: Final = MappingProxyType(
    {
        "max_age": 0,
        "max_msgs": -1,
        "max_msgs_per_subject": -1,
        "mirror": None,
        "sources": None,
        "subject_transform": None,
        "sealed": False,
        "no_ack": False,
    }
)
"""Settings by which a stream would forget, leave out or bring in messages, with what each has to be."""

_COUNT: Final = ("subjects", "retention", "storage", "discard", "num_replicas", *_USUAL)


def otherwise(there: object, wanted: Mapping[str, Any]) -> str:
    """The first setting of a stream that is not as it was wanted, in words; empty when all that count are.

    Limits on bytes are none of them: they are a disk that is full, which a writer is told.
    """
    if not isinstance(there, dict):
        return "the broker does not say which"
    for name in _COUNT:
        usual = _USUAL.get(name)
        has, wants = there.get(name, usual), wanted.get(name, usual)
        if not _same(has, wants):
            key = " (engine.nats.replicas)" if name == "num_replicas" else ""
            return f"{name}{key} is {_shown(has)}, and has to be {_shown(wants)}"
    return ""


def _same(one: object, other: object) -> bool:
    both = [sorted(map(str, each)) if isinstance(each, list) else each for each in (one, other)]
    return type(both[0]) is type(both[1]) and both[0] == both[1]


def _shown(value: object) -> str:
    return "not there" if value is None else str(value)[:200]
