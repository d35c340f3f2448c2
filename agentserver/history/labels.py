"""Marks of recorded conversations: which are honest, and which hold an attack."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINE: Final = re.compile(r"(?P<mark>attack|benign)\s+(?P<id>\S+)(?:\s+(?P<step>[0-9]{1,9}))?")


class LabelError(ValueError):
    """Raised for a file of marks with a mistake. Its message names file and line."""


class Labels(NamedTuple):
    """Marks by the conversations that they begin with; unmarked conversations are honest.

    Args:
        whole: beginnings of the ids of conversations that are one attack each.
        steps: steps that are attacks, by the beginning of the id.
        benign: beginnings of the ids that are marked as honest.
    """

    whole: frozenset[str] = frozenset()
    steps: tuple[tuple[str, int], ...] = ()
    benign: frozenset[str] = frozenset()

    def attacks_in(
        self, conversation: str, known: frozenset[int] | None = frozenset()
    ) -> frozenset[int] | None:
        """Return the steps of a conversation that are attacks; None if all of it is one.

        Args:
            conversation: its id.
            known: the marks of the history itself, for a conversation without a mark here.
        """
        if any(conversation.startswith(one) for one in self.whole):
            return None
        steps = frozenset(step for begins, step in self.steps if conversation.startswith(begins))
        if steps or any(conversation.startswith(one) for one in self.benign):
            return steps
        return known

    def list_unused(self, conversations: Iterable[str]) -> list[str]:
        """List the marks that fit none of these conversations."""
        known = tuple(conversations)
        marks = sorted({*self.whole, *self.benign, *(begins for begins, _ in self.steps)})
        return [mark for mark in marks if not any(one.startswith(mark) for one in known)]


def read_labels(text: str, name: str) -> Labels:
    """Read marks, one a line: ``attack ID``, ``attack ID STEP`` or ``benign ID``. Raises LabelError.

    Args:
        text: the file's text; empty lines and what follows ``#`` count for nothing.
        name: the file's name for error messages.
    """
    whole: set[str] = set()
    benign: set[str] = set()
    steps: list[tuple[str, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        said = line.partition("#")[0].strip()
        found = _LINE.fullmatch(said)
        if not said:
            continue
        if found is None or (found["mark"] == "benign" and found["step"]):
            raise LabelError(f"{name}:{number}: write attack ID, attack ID STEP or benign ID")
        if found["step"]:
            steps.append((found["id"], int(found["step"])))
        else:
            (whole if found["mark"] == "attack" else benign).add(found["id"])
    both = sorted(whole & benign)
    if both:
        raise LabelError(f"{name}: {both[0]} is marked as attack and as benign")
    return Labels(frozenset(whole), tuple(steps), frozenset(benign))
