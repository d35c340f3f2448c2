"""The check that each step of a plan hands over what the next step takes.

Ids are compared, versions included, never bodies: comparing bodies would bring in the text that
stripping took out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from agentserver.hygiene.objections import Objection, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

UNTYPED_HARD: Final = date(2026, 7, 1)
"""From this day an untyped handoff is HARD."""
OUT: Final = "payload_schema_out"
IN: Final = "payload_schema_in"


class StepMistake(StrEnum):
    """The kinds of mistakes between two steps."""

    UNTYPED = "PAYLOAD_UNTYPED"
    MISMATCH = "PAYLOAD_MISMATCH"
    REJECTED = "PAYLOAD_REJECTED"


class StepSeverity(StrEnum):
    """The weight of a mistake: the plan may continue, or not."""

    WARN = "WARN"
    HARD = "HARD"


@dataclass(frozen=True, slots=True)
class Break:
    """A pair of adjacent steps whose payloads do not fit.

    Args:
        pair: the index, from 0, of the step that hands over.
        code: the kind of fault.
        severity: whether the plan may continue.
        message: the same for people.
    """

    pair: int
    code: StepMistake
    severity: StepSeverity
    message: str


def untyped_severity(today: date) -> StepSeverity:
    """Return the weight of an untyped handoff on this day."""
    return StepSeverity.HARD if today >= UNTYPED_HARD else StepSeverity.WARN


def audit(
    steps: Sequence[Mapping[str, str]], today: date, identify: Callable[[str], str | Objection]
) -> tuple[Break, ...]:
    """Return every pair of adjacent steps that do not fit, in order.

    Args:
        steps: the rows, by column.
        today: the day that decides about untyped handoffs.
        identify: the id of the schema that a cell names, or why it has none.
    """
    return tuple(found for pair in range(len(steps) - 1) for found in _pair(steps, pair, today, identify))


def _pair(
    steps: Sequence[Mapping[str, str]], pair: int, today: date, identify: Callable[[str], str | Objection]
) -> Iterator[Break]:
    label = f"step {pair + 1}->step {pair + 2}"
    cells = [(OUT, _read_cell(steps[pair], OUT)), (IN, _read_cell(steps[pair + 1], IN))]
    empty = [column for column, cell in cells if not cell]
    if empty:
        yield Break(
            pair, StepMistake.UNTYPED, untyped_severity(today), f"{label}: no {' and no '.join(empty)}"
        )
        return
    ids = []
    for column, cell in cells:
        found = identify(cell)
        if isinstance(found, Objection):
            yield Break(pair, StepMistake.REJECTED, StepSeverity.HARD, f"{label}: {column}: {found}")
        else:
            ids.append(found)
    if len(ids) == len(cells) and ids[0] != ids[1]:
        yield Break(
            pair, StepMistake.MISMATCH, StepSeverity.HARD, f"{label}: {quote(ids[0])} is not {quote(ids[1])}"
        )


def iter_unpaired(steps: Sequence[Mapping[str, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield the cells that no pair compares: index of the step from 0, column, content."""
    for at, step in enumerate(steps):
        output, taken = _read_cell(step, OUT), _read_cell(step, IN)
        if taken and not (at > 0 and _read_cell(steps[at - 1], OUT)):
            yield at, IN, taken
        if output and not (at + 1 < len(steps) and _read_cell(steps[at + 1], IN)):
            yield at, OUT, output


def _read_cell(step: Mapping[str, str], column: str) -> str:
    return str(step.get(column) or "").strip()  # a program may give what is no text
