"""The interface between the agents of the desk and a language model.

To use a real one, write a function that turns a prompt and a transcript into a ``Turn`` through its client
library, and let ``listeners.resources.lifespan`` provide ``Model(that_function)``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import MaxLen


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """Entry of a transcript.

    Args:
        who: ``user``, ``assistant``, or the listener that answered.
        text: its text.
    """

    who: Annotated[str, MaxLen(128)]
    text: Annotated[str, MaxLen(25_000)]


@dataclass(frozen=True, slots=True)
class Call:
    """Message that the model wants to send.

    Args:
        to: the name of a listener.
        payload: the name of a payload.
        fields: the payload's fields.
    """

    to: str
    payload: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Turn:
    """Next turn of the model: calls, or the final answer.

    Args:
        calls: messages to send; the next turn sees their answers.
        text: the final answer, if there are no calls.
        sources: URLs of the pages that support the answer.
        contact: the mail address for questions on those pages; empty without one.
    """

    calls: Sequence[Call] = ()
    text: str = ""
    sources: Sequence[str] = ()
    contact: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """Resource that gives agents access to a language model.

    Args:
        complete: returns the next turn for a prompt and a transcript.
    """

    complete: Callable[[str, Sequence[TranscriptEntry]], Awaitable[Turn]]
