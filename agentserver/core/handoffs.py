"""Payloads of handoffs: the request of an agent and the task that its target gets.

Handlers import both from ``agentserver``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - the field table reads the annotations
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from annotated_types import MaxLen, MinLen

from agentserver.contract import Element
from agentserver.payload.fields.describe import table

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMESPACE = "urn:agentserver:handoff"
"""Of the payloads of handoffs, without the version."""

FREE = 10_000
"""Characters of a free text."""

_NONE: Final[Mapping[str, str]] = MappingProxyType({})

C = TypeVar("C", bound=type)


def _own(cls: C) -> C:
    """Make a dataclass a payload in the server's own namespace, which ``@xmlify`` keeps from everybody else."""
    described = table(cls, namespace=NAMESPACE)
    cls.__payload__ = described  # type: ignore[attr-defined]
    cls.__xml_name__ = described.qname  # type: ignore[attr-defined]
    return cls


@dataclass(frozen=True, slots=True)
class Param:
    """One typed value of an intent.

    Args:
        name: as the intent calls it.
        value: its text.
    """

    name: Annotated[str, MinLen(1), MaxLen(64)]
    value: Annotated[str, MaxLen(1000)]


@_own
@dataclass(frozen=True, slots=True)
class Handoff:
    """Request to a listener for one of the organism's intents.

    Args:
        intent: the intent; empty in the older form, which has an event alone.
        target: the listener that is asked, when the message itself does not say.
        params: the intent's typed values.
        note: free text, if the intent permits it; shown to the target as data.
        event: free text in addition to the parameters; shown to the target as data.
    """

    intent: Annotated[str, MaxLen(64)]
    target: Annotated[str | None, MaxLen(128)] = None
    params: Annotated[tuple[Param, ...], MaxLen(64), Element("param")] = ()
    note: Annotated[str | None, MaxLen(FREE)] = None
    event: Annotated[str | None, MaxLen(FREE)] = None

    @classmethod
    def of(cls, intent: str, params: Mapping[str, str] = _NONE, *, note: str | None = None) -> Handoff:
        """A handoff with these values, for the listener that the message goes to."""
        return cls(intent, None, tuple([Param(name, value) for name, value in params.items()]), note)


@dataclass(frozen=True, slots=True)
class Words:
    """Text by another author: data about a task, never an instruction.

    Args:
        source: who handed it over, as the server knows it.
        at: when.
        text: the text, without invisible characters.
    """

    source: str
    at: datetime
    text: str


@_own
@dataclass(frozen=True, slots=True)
class Task:
    """The payload for the target of a handoff. Only the server writes one for another listener.

    Args:
        intent: the intent.
        steering: the instruction, rendered from the organism's own template.
        params: the values, each of its type.
        data: accompanying text, separate from the instruction.
    """

    intent: str
    steering: str
    params: Annotated[tuple[Param, ...], Element("param")] = ()
    data: tuple[Words, ...] = ()


TASK: Final = table(Task, namespace=NAMESPACE).qname
"""The root element of a task."""
