"""Endorsements of documents: rows of values that a person lets a sink take, each once, up to a sum and until a time.

An endorsement holds digests. A row is the sink, the sender and all arguments of a call but content, so that an
endorsement never allows a combination that its question did not show.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentserver.findings import EndorsementTerms

MARK: Final = "endorse "
"""Beginning of the subject of an approval that is an endorsement."""

MOST: Final = 100
"""Maximum endorsements of one conversation; a further one replaces the oldest."""

COUNTED: Final = 10_000
"""Maximum calls that are remembered as counted; beyond it, every call is asked about."""


def digest_parts(parts: Sequence[object]) -> str:
    """Hash texts and lists of texts, without ambiguity."""
    return sha256(json.dumps(parts, separators=(",", ":")).encode("ascii")).hexdigest()[:32]


class RowTerms(NamedTuple):
    """Digest of a document and amount of one row.

    Args:
        document: the digest of the record that the row is from, at its source.
        amount: what a call with this row adds to the sum.
    """

    document: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Endorsement:
    """Rows of a document that a person lets a sink take.

    Args:
        sink: the listener that may be called.
        source: the listener that brought the document in.
        step: the number of its observation.
        fields: arguments, and the fields that they are taken from.
        rows: by digest of the row.
        limit: the sum of the amounts at most; None for rows without amounts.
        until: the time at which it ends.
        spent: the sum of the amounts of the calls so far.
    """

    sink: str
    source: str
    step: int
    fields: tuple[tuple[str, str], ...]
    rows: Mapping[str, RowTerms]
    limit: Decimal | None
    until: float
    spent: Decimal = Decimal(0)

    @property
    def id(self) -> str:
        """Digest of the terms, without the sum so far."""
        return digest_parts(self._list_terms())

    @property
    def documents(self) -> frozenset[str]:
        """Digests of the documents that it covers."""
        return frozenset(row.document for row in self.rows.values())

    def allows(self, row: str, at: float) -> bool:
        """Check whether a row may be used at a time, within the sum."""
        terms = self.rows.get(row)
        if terms is None or at >= self.until:
            return False
        return self.limit is None or self.spent + terms.amount <= self.limit

    def count(self, row: str) -> Endorsement:
        """Add the amount of a row to the sum."""
        terms = self.rows.get(row)
        return self if terms is None else replace(self, spent=self.spent + terms.amount)

    def describe(self) -> str:
        """Describe it in a line, without its values."""
        fields = ", ".join(f"{argument} from {field}" for argument, field in self.fields)
        rows = f"{len(self.rows)} {'row' if len(self.rows) == 1 else 'rows'}"
        spent = "" if self.limit is None else f", {self.spent:f} of {self.limit:f} spent"
        return f"{fields} of {self.source}() at step {self.step}: {rows}{spent}"

    def dump(self) -> list[Any]:
        """Serialise it as plain data for JSON."""
        return [*self._list_terms(), str(self.spent)]

    def _list_terms(self) -> list[Any]:
        limit = None if self.limit is None else str(self.limit)
        rows = sorted([row, terms.document, str(terms.amount)] for row, terms in self.rows.items())
        return [
            self.sink,
            self.source,
            self.step,
            [list(pair) for pair in self.fields],
            rows,
            limit,
            self.until,
        ]

    @classmethod
    def load(cls, data: Sequence[Any]) -> Endorsement:
        """Restore it from ``dump``. Raises ValueError, ArithmeticError or TypeError for other data."""
        sink, source, step, fields, rows, limit, until, spent = data
        return cls(
            sink,
            source,
            step,
            tuple((argument, name) for argument, name in fields),
            MappingProxyType({row: RowTerms(document, Decimal(amount)) for row, document, amount in rows}),
            None if limit is None else Decimal(limit),
            until,
            Decimal(spent),
        )

    def write_subject(self, row: str) -> str:
        """Write it as the subject of an approval, with the row of the call that is asked about."""
        return MARK + json.dumps([row, self.dump()], separators=(",", ":"))


class EndorsedPattern(NamedTuple):
    """Endorsement that a call asks for.

    Args:
        subject: of the approval; see ``Endorsement.write_subject``.
        terms: how it is shown.
    """

    subject: str
    terms: EndorsementTerms


@dataclass(frozen=True, slots=True)
class Endorsements:
    """Endorsements of one conversation, and the rows of calls that were made or asked about.

    A row counts once for all of them, so that a second question about a document allows no call again.
    """

    known: tuple[Endorsement, ...] = ()
    counted: frozenset[str] = frozenset()

    def find(self, row: str, at: float) -> Endorsement | None:
        """Find the endorsement that allows a row; None if it was used or no endorsement has it."""
        if not self.known or row in self.counted or len(self.counted) >= COUNTED:
            return None
        return next((one for one in self.known if one.allows(row, at)), None)

    def explain(self, row: str, at: float) -> str:
        """Name the reason why a row is asked about again: ``used``, ``ended`` or ``exceeded``; else empty."""
        if row in self.counted:
            return "used"
        having = [one for one in self.known if row in one.rows]
        if not having or any(one.allows(row, at) for one in having):
            return ""
        return "ended" if all(at >= one.until for one in having) else "exceeded"

    def add(self, subject: str) -> Endorsements:
        """Add the endorsement that a person approved. Its sum keeps earlier calls."""
        row, one = _read_subject(subject)
        before = next((each for each in self.known if each.id == one.id), one)
        others = tuple(each for each in self.known if each.id != one.id)
        return Endorsements((*others[1 - MOST :], before.count(row)), self.counted | {row})

    def settle(self, subject: str, at: float) -> Endorsements | None:
        """Count the call of a question that waits; None if no endorsement allows it."""
        row, one = _read_subject(subject)
        if not any(each.sink == one.sink and each.allows(row, at) for each in self.known):
            return None
        return Endorsements(tuple(each.count(row) for each in self.known), self.counted | {row})

    def count(self, row: str) -> Endorsements:
        """Count a row: it may not be used again, and adds to the sum of each endorsement that has it."""
        if row in self.counted:
            return self
        return Endorsements(tuple(one.count(row) for one in self.known), self.counted | {row})

    def revoke(self, named: str) -> Endorsements:
        """Remove the endorsement with an id."""
        return replace(self, known=tuple(one for one in self.known if one.id != named))

    def dump(self) -> list[Any]:
        """Serialise them as plain data for JSON."""
        return [[one.dump() for one in self.known], sorted(self.counted)]

    @classmethod
    def load(cls, data: Sequence[Any]) -> Endorsements:
        """Restore them from ``dump``."""
        known, counted = data
        return cls(tuple(map(Endorsement.load, known)), frozenset(counted))


def _read_subject(subject: str) -> tuple[str, Endorsement]:
    row, data = json.loads(subject.removeprefix(MARK))
    return row, Endorsement.load(data)


def split_subjects(about: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split the subjects of an approval into digests and endorsements."""
    subjects = [*about]
    return (
        [one for one in subjects if not one.startswith(MARK)],
        [one for one in subjects if one.startswith(MARK)],
    )
