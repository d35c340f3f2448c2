"""Reading the steps of a plan from CSV.

A row is never dropped for its content:
a step that went missing would take its handoffs out of the audit.
"""

from __future__ import annotations

import csv
import io
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST: Final = 4 * 1024 * 1024
"""Bytes of a plan."""


class StepsError(ValueError):
    """A file that is no plan. The text names the file and, where there is one, the line."""


class StepsWarning(UserWarning):
    """A row that was read but looks shifted."""


@dataclass(frozen=True, slots=True)
class Row:
    """One step.

    Args:
        line: where it begins in the file, from 1.
        cells: by column; a missing cell is empty.
        overflow: cells beyond the header.
    """

    line: int
    cells: Mapping[str, str]
    overflow: tuple[str, ...] = ()


def read_rows(path: Path | str, columns: Sequence[str] = ()) -> tuple[Row, ...]:
    """Return the steps with their lines; quoted cells may span lines, blank rows are no steps.

    Args:
        path: the file.
        columns: those that it must have.

    Raises:
        StepsError: when the file is no CSV with a header of distinct columns, lacks one of them, or is too large.
        OSError: when it cannot be read.
    """
    with Path(path).open("rb") as file:
        data = file.read(MOST + 1)
    if len(data) > MOST:
        raise StepsError(f"{path}: has more than {MOST} bytes")
    try:
        text = data.decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        return tuple(_iter_rows(path, reader, columns))
    except UnicodeDecodeError:
        raise StepsError(f"{path}: is not UTF-8 text") from None
    except csv.Error as error:
        raise StepsError(f"{path}: line {reader.line_num}: {error}") from None


def _iter_rows(path: Path | str, reader: Any, columns: Sequence[str]) -> Iterator[Row]:
    header = [column.strip() for column in next(reader, [])]
    if not any(header) or len(set(header)) < len(header):
        raise StepsError(f"{path}: line 1: the header must name distinct columns")
    lacking = [column for column in columns if column not in header]
    if lacking:
        hint = "" if len(header) > 1 else "; columns are separated by commas"
        raise StepsError(f"{path}: line 1: has no column {' and no column '.join(lacking)}{hint}")
    before = reader.line_num
    for cells in reader:
        line, before = before + 1, reader.line_num
        if any(cell.strip() for cell in cells):
            padded = [*cells, *[""] * (len(header) - len(cells))]
            named = dict(zip(header, padded, strict=False))
            yield Row(line, named, tuple(cells[len(header) :]))


def read_steps(path: Path | str) -> list[dict[str, str]]:
    """Return the steps, by column. Warns with StepsWarning of a row that has more fields than the header.

    Raises what ``read_rows`` raises.
    """
    rows = read_rows(path)
    for row in rows:
        if row.overflow:
            warnings.warn(
                f"{path}: line {row.line}: row has more fields than the header, {len(row.overflow)} of them; "
                "an unquoted comma may have shifted its cells",
                StepsWarning,
                stacklevel=2,
            )
    return [dict(row.cells) for row in rows]
