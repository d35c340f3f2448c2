"""What an agent of the desk needs of a language model, whichever it is.

To use a real one, write a function that turns a prompt and a transcript into a ``Turn`` through its client
library, and let ``listeners.resources.lifespan`` provide ``Model(that_function)``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from annotated_types import MaxLen


@dataclass(frozen=True, slots=True)
class Said:
    """One entry of a transcript.

    Args:
        who: ``user``, ``assistant``, or the listener that answered.
        text: what was said.
    """

    who: Annotated[str, MaxLen(128)]
    text: Annotated[str, MaxLen(25_000)]


@dataclass(frozen=True, slots=True)
class Call:
    """A message that the model wants sent.

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
    """What the model does next.

    Args:
        calls: messages to send; their answers come back before the next turn.
        text: the final answer when there are no calls.
        sources: the pages that the answer rests on.
        contact: the mail address that they name for questions; empty when there is none.
    """

    calls: Sequence[Call] = ()
    text: str = ""
    sources: Sequence[str] = ()
    contact: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """The resource that agents ask for.

    Args:
        complete: gives the next turn for a prompt and a transcript.
    """

    complete: Callable[[str, Sequence[Said]], Awaitable[Turn]]
