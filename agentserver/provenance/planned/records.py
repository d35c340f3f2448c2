"""The leaves of recorded observations, looked up by path and value, by path, and by what stands beside them.

Owns an index that is immutable and grows by geometric merges; a look-up costs no more after more was recorded. Refuses
to judge. It is kept while a conversation has a typed plan: every leaf that a listener said, whatever its standing and
however short, but for those of relays, which say nothing of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unicodedata import normalize

from agentserver.provenance.evidence.destinations import LONGEST, destination, handle, unmarked
from agentserver.provenance.evidence.leaves import typed
from agentserver.provenance.evidence.values import Table
from agentserver.provenance.planned.grown import Grown
from agentserver.provenance.planned.moments import moment
from agentserver.provenance.seen.derived import Derived

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MOST: Final = 256
"""Leaves that one look-up gives: one that stands behind more of them is not found, and authorises nothing."""

LEAVES: Final = 200_000
"""Leaves of one conversation; what comes after them is no record that a plan could name."""

_STEPS: Final = re.compile(r"((?:^|(?<=\.))[^.\[\]]*)((?:\[\d+\])*)(?:\.|$)")
_PLACED: Final = frozenset("@.:/")


class Saying(NamedTuple):
    """One observation.

    Args:
        source: the listener.
        step: number of the observation.
        trace: id of the delivery, or what stands for it.
        answers: numbers of the plan's steps, from 1, whose call it answered.
        echoes: paths of the leaves that repeat what the listener was asked.
        others: path and text of the leaves that no ledger keeps: neither a stranger's text nor a record.
    """

    source: str
    step: int
    trace: str = ""
    answers: tuple[int, ...] = ()
    echoes: frozenset[str] = frozenset()
    others: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> tuple[str, int, str]:
        """Tells one observation from every other of its conversation."""
        return self.source, self.step, self.trace


class RecordedLeaf(NamedTuple):
    """One leaf: its number, that of its observation, path with indices, text, whether it only repeats a question."""

    number: int
    saying: int
    path: str
    body: str
    echo: bool


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """The sayings of listeners while there was a typed plan. ``sayings`` follow each other as they were observed."""

    sayings: Grown[Saying] = field(default=Grown())
    leaves: Grown[RecordedLeaf] = field(default=Grown(), compare=False, repr=False)
    _table: Derived[RecordedLeaf, Table] = field(default=Derived(Table()), compare=False, repr=False)

    @property
    def table(self) -> Table:
        """The numbers of the leaves by their keys, made when somebody asks."""
        return self._table.of(self.leaves, _tabled)

    def add(self, saying: Saying, leaves: Iterable[tuple[str, str]]) -> RecordIndex:
        """The index with one more observation. ``leaves`` are path and text of what the ledger keeps, in order."""
        number = len(self.sayings)
        every = (*leaves, *saying.others)
        said = [pair for pair in every if pair[1].strip()]
        count = len(self.leaves) + len(said)
        if not said or count > LEAVES:
            return self
        numbered = enumerate(said, len(self.leaves))
        kept = [RecordedLeaf(at, number, path, body, path in saying.echoes) for at, (path, body) in numbered]
        return RecordIndex(self.sayings.add((saying,)), self.leaves.add(kept), self._table.grown(count))

    def holding(self, path: str, body: str) -> tuple[RecordedLeaf, ...] | None:
        """The leaves at a path, without indices, that hold a value; None where they are too many to be looked at."""
        return self._found(_hash("value", path, canonical(body)))

    def at(self, path: str) -> tuple[RecordedLeaf, ...] | None:
        """Every leaf at a path; None where they are too many."""
        return self._found(_hash("path", path))

    def beside(self, leaf: RecordedLeaf, own: str, path: str) -> tuple[RecordedLeaf, ...]:
        """The leaves at a path in the record of a leaf whose own path, without indices, is ``own``."""
        return self._found(_hash("beside", str(leaf.saying), shared(leaf.path, own, path), path)) or ()

    def saying(self, leaf: RecordedLeaf) -> Saying:
        """The observation of a leaf."""
        return self.sayings[leaf.saying]

    def _found(self, key: int) -> tuple[RecordedLeaf, ...] | None:
        numbers = self.table.all(key, MOST + 1)
        return None if len(numbers) > MOST else tuple(self.leaves[number] for number in numbers)

    def since(self, before: RecordIndex) -> list[Any]:
        """The observations that came after an earlier index, as plain data. Their kept leaves are the ledger's."""
        return [
            [
                one.source,
                one.step,
                one.trace,
                list(one.answers),
                sorted(one.echoes),
                list(map(list, one.others)),
            ]
            for one in self.sayings.since(len(before.sayings))
        ]

    @classmethod
    def load(
        cls, data: Iterable[list[Any]], kept: Mapping[tuple[str, int, str], list[tuple[str, str]]]
    ) -> RecordIndex:
        """The index of which ``since`` gave the observations; ``kept`` has the leaves of each by its key."""
        index = cls()
        for source, step, trace, answers, echoes, others in data:
            pairs = tuple((path, body) for path, body in others)
            one = Saying(source, step, trace, tuple(answers), frozenset(echoes), pairs)
            index = index.add(one, kept.get(one.key, ()))
        return index


def _tabled(table: Table, leaves: Sequence[RecordedLeaf]) -> Table:
    return table.add((key, leaf.number) for leaf in leaves for key in _keys(leaf))


def canonical(body: str) -> str:
    """A form that all spellings of one value share: of a number, a date, a place, or of words in any case."""
    text = normalize("NFC", body.strip())
    if len(text) > LONGEST:
        return text.casefold()
    kind = typed(text)
    if kind is not None:
        return kind
    at = moment(text)
    if at is not None:
        return typed(at) or at.isoformat()
    place = destination(text) if not _PLACED.isdisjoint(text) or text[:2].isupper() else None
    if place is not None and place.external:
        return f"{place.form.value} {place.alike[-1]}"
    return unmarked(text.removeprefix("./")).casefold()


def called(name: str) -> str:
    """A name as all its spellings have it: composed accents, no mark before it, small letters unless it is an id.

    A path from here is the same as one without the dot that says so.
    """
    return handle(unmarked(normalize("NFC", name.strip()).removeprefix("./")))


def shared(path: str, own: str, other: str) -> str:
    """The part of a path, with its indices, that is common to its own bare path and another one: the record's place."""
    steps = _steps(path)
    common = 0
    for one, two in zip(own.split(".")[:-1], other.split(".")[:-1], strict=False):
        if one != two:
            break
        common += 1
    root = steps[0][1] if steps and not steps[0][0] else ""
    named = [f"{name}{index}" for name, index in steps if name]
    return ".".join((root, *named[:common]))


def _steps(path: str) -> list[tuple[str, str]]:
    """The steps of a path, each with its indices; what stands before the first name is a step without one."""
    return [(found[1], found[2]) for found in _STEPS.finditer(path) if found[0]]


def bare(path: str) -> str:
    """A path without indices."""
    return re.sub(r"\[\d+\]", "", path).lstrip(".")


def _keys(leaf: RecordedLeaf) -> Iterator[int]:
    own = bare(leaf.path)
    yield _hash("value", own, canonical(leaf.body))
    yield _hash("path", own)
    steps = _steps(leaf.path)
    depth = sum(bool(name) for name, _ in steps)
    root = steps[0][1] if steps and not steps[0][0] else ""
    named = [f"{name}{index}" for name, index in steps if name]
    for common in range(max(1, depth)):
        yield _hash("beside", str(leaf.saying), ".".join((root, *named[:common])), own)


def _hash(*parts: str) -> int:
    digest = blake2b(digest_size=8)
    for part in parts:
        said = part.encode("utf-8", "surrogatepass")
        digest.update(len(said).to_bytes(8, "big"))
        digest.update(said)
    return int.from_bytes(digest.digest(), "big")
