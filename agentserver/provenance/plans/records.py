"""Immutable index of recorded leaves, by path and value, by path, and by the other leaves of a record.

It exists while a conversation has a typed plan, and holds every leaf of a listener's output, even short and unlabelled
ones. It leaves out the outputs of relays, which have no content but their input.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unicodedata import normalize

from agentserver.provenance.append_only import AppendOnlyList
from agentserver.provenance.evidence.destinations import LONGEST, fold_handle, parse_destination, strip_mark
from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.index import Table
from agentserver.provenance.evidence.labels import strip_indices
from agentserver.provenance.evidence.leaves import build_typed_key, format_text
from agentserver.provenance.observations.lazy import Incremental
from agentserver.provenance.plans.moments import parse_moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from agentserver.provenance.evidence.labels import Observation, Text
    from agentserver.provenance.request.trusted_words import TrustedWords

MOST: Final = 256
"""Leaves that one lookup returns. A value with more of them is not found, and authorises nothing."""

LEAVES: Final = 200_000
"""Leaves of one conversation; a plan cannot refer to later ones."""

_STEPS: Final = re.compile(r"((?:^|(?<=\.))[^.\[\]]*)((?:\[\d+\])*)(?:\.|$)")
_PLACED: Final = frozenset("@.:/")


class RecordedOutput(NamedTuple):
    """One observation.

    Args:
        source: the listener.
        step: number of the observation.
        trace: id of the delivery, or its substitute.
        answers: numbers of the plan's steps, from 1, whose call it answered.
        echoes: paths of the leaves that repeat the listener's arguments.
        others: path and text of the leaves that the ledger does not keep, neither as untrusted text nor as a record.
    """

    source: str
    step: int
    trace: str = ""
    answers: tuple[int, ...] = ()
    echoes: frozenset[str] = frozenset()
    others: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> tuple[str, int, str]:
        """Unique key of the observation in its conversation."""
        return self.source, self.step, self.trace


class RecordedLeaf(NamedTuple):
    """Leaf of an output, both by number; ``echo`` marks a leaf that only repeats an argument."""

    number: int
    output: int
    path: str
    body: str
    echo: bool


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """Recorded outputs of listeners since there was a typed plan, in the order of observation."""

    outputs: AppendOnlyList[RecordedOutput] = field(default=AppendOnlyList())
    leaves: AppendOnlyList[RecordedLeaf] = field(default=AppendOnlyList(), compare=False, repr=False)
    _table: Incremental[RecordedLeaf, Table] = field(default=Incremental(Table()), compare=False, repr=False)

    @property
    def table(self) -> Table:
        """Leaf numbers by key, built on first use."""
        return self._table.compute(self.leaves, _index_leaves)

    def add(self, output: RecordedOutput, leaves: Iterable[tuple[str, str]]) -> RecordIndex:
        """Append one observation. ``leaves`` are path and text of the leaves that the ledger keeps, in order."""
        number = len(self.outputs)
        pairs = (*leaves, *output.others)
        filled = [pair for pair in pairs if pair[1].strip()]
        count = len(self.leaves) + len(filled)
        if not filled or count > LEAVES:
            return self
        numbered = enumerate(filled, len(self.leaves))
        recorded = [
            RecordedLeaf(at, number, path, body, path in output.echoes) for at, (path, body) in numbered
        ]
        return RecordIndex(
            self.outputs.add((output,)), self.leaves.add(recorded), self._table.extend_to(count)
        )

    def find_values(self, path: str, body: str) -> tuple[RecordedLeaf, ...] | None:
        """Find the leaves with a value at a path without indices; None if there are too many."""
        return self._look_up(_hash("value", path, canonicalize(body)))

    def find_at_path(self, path: str) -> tuple[RecordedLeaf, ...] | None:
        """Find every leaf at a path; None if there are too many."""
        return self._look_up(_hash("path", path))

    def find_siblings(self, leaf: RecordedLeaf, own: str, path: str) -> tuple[RecordedLeaf, ...]:
        """Find the leaves at a path in the record of a leaf whose own path, without indices, is ``own``."""
        return self._look_up(_hash("beside", str(leaf.output), record_path(leaf.path, own, path), path)) or ()

    def output_of(self, leaf: RecordedLeaf) -> RecordedOutput:
        """Return the observation of a leaf."""
        return self.outputs[leaf.output]

    def _look_up(self, key: int) -> tuple[RecordedLeaf, ...] | None:
        numbers = self.table.find_all(key, MOST + 1)
        return None if len(numbers) > MOST else tuple(self.leaves[number] for number in numbers)

    def dump_since(self, before: RecordIndex) -> list[Any]:
        """Export the observations since an earlier index as plain data, without the leaves that the ledger keeps."""
        return [
            [
                one.source,
                one.step,
                one.trace,
                list(one.answers),
                sorted(one.echoes),
                list(map(list, one.others)),
            ]
            for one in self.outputs.items_from(len(before.outputs))
        ]

    @classmethod
    def load(
        cls, data: Iterable[list[Any]], texts: Mapping[tuple[str, int, str], list[tuple[str, str]]]
    ) -> RecordIndex:
        """Restore an index from ``dump_since``; ``texts`` has the ledger's leaves of each observation by its key."""
        index = cls()
        for source, step, trace, answers, echoes, remaining in data:
            pairs = tuple((path, body) for path, body in remaining)
            one = RecordedOutput(source, step, trace, tuple(answers), frozenset(echoes), pairs)
            index = index.add(one, texts.get(one.key, ()))
        return index


def _index_leaves(table: Table, leaves: Sequence[RecordedLeaf]) -> Table:
    return table.add((key, leaf.number) for leaf in leaves for key in _iter_keys(leaf))


def record_observation(
    index: RecordIndex,
    seen: Observation,
    answers: tuple[int, ...],
    texts: Sequence[Text],
    request: TrustedWords,
) -> RecordIndex:
    """Append an observation to the index.

    Args:
        index: of the earlier observations.
        seen: the observation with all its leaves.
        answers: numbers of the plan's steps whose call it answered.
        texts: the texts and records that the ledger made of it, texts first.
        request: the principal's request; a value from it is no mere echo.
    """
    own = [(text.origin.path, text.body) for text in texts]
    known = set(own)
    pairs = [(leaf.path, format_text(leaf.value)) for leaf in seen.leaves]
    remaining = tuple(pair for pair in pairs if pair[1].strip() and pair not in known)
    questions = {_normalize_comparison_key(format_text(leaf.value)) for leaf in seen.arguments} - {""}
    echoes = frozenset(
        path
        for path, body in pairs
        if body and _normalize_comparison_key(body) in questions and not request.mentions(body)
    )
    output = RecordedOutput(seen.source, seen.step, seen.trace, answers, echoes, remaining)
    return index.add(output, own)


def _normalize_comparison_key(body: str) -> str:
    """Normalize a value for comparison; numbers and dates compare by value, so ``10.0`` does not repeat ``100``."""
    return build_typed_key(body) or fold(body)


def group_by_observation(texts: Iterable[Text]) -> dict[tuple[str, int, str], list[tuple[str, str]]]:
    """Group path and text of the ledger's entries by observation, without unwrapped texts, which are no leaves."""
    found: defaultdict[tuple[str, int, str], list[tuple[str, str]]] = defaultdict(list)
    for text in texts:
        if not text.origin.via:
            origin = text.origin
            found[origin.source, origin.step, origin.trace].append((origin.path, text.body))
    return found


def canonicalize(body: str) -> str:
    """Normalize a value so that all spellings of one number, date, place or name are equal."""
    text = normalize("NFC", body.strip())
    if len(text) > LONGEST:
        return text.casefold()
    kind = build_typed_key(text)
    if kind is not None:
        return kind
    at = parse_moment(text)
    if at is not None:
        return build_typed_key(at) or at.isoformat()
    place = parse_destination(text) if not _PLACED.isdisjoint(text) or text[:2].isupper() else None
    if place is not None and place.external:
        return f"{place.form.value} {place.alike[-1]}"
    return strip_mark(text.removeprefix("./")).casefold()


def normalize_name(name: str) -> str:
    """Normalize a name: composed accents, no leading mark or ``./``, lower case unless it is an id."""
    return fold_handle(strip_mark(normalize("NFC", name.strip()).removeprefix("./")))


def record_path(path: str, own: str, other: str) -> str:
    """Return the indexed path of the record that holds both a leaf and another bare path."""
    steps = _split_steps(path)
    common = 0
    for one, two in zip(own.split(".")[:-1], other.split(".")[:-1], strict=False):
        if one != two:
            break
        common += 1
    root = steps[0][1] if steps and not steps[0][0] else ""
    members = [f"{name}{index}" for name, index in steps if name]
    return ".".join((root, *members[:common]))


def _split_steps(path: str) -> list[tuple[str, str]]:
    """Split a path into names with indices; leading indices form a step without a name."""
    return [(found[1], found[2]) for found in _STEPS.finditer(path) if found[0]]


def _iter_keys(leaf: RecordedLeaf) -> Iterator[int]:
    own = strip_indices(leaf.path)
    yield _hash("value", own, canonicalize(leaf.body))
    yield _hash("path", own)
    steps = _split_steps(leaf.path)
    depth = sum(bool(name) for name, _ in steps)
    root = steps[0][1] if steps and not steps[0][0] else ""
    members = [f"{name}{index}" for name, index in steps if name]
    for common in range(max(1, depth)):
        yield _hash("beside", str(leaf.output), ".".join((root, *members[:common])), own)


def _hash(*parts: str) -> int:
    digest = blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return int.from_bytes(digest.digest(), "big")
