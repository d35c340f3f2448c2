"""The memory of one conversation: trusted words, untrusted texts, records, hops, plan.

Owns the state of provenance as one immutable value that can be committed, written out and read back.
``observe`` gives the next value; the old one stays as it was. Refuses to judge. The index is derived: it is
rebuilt on reading and never written.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from agentserver.provenance.evidence.asked import TrustedWords
from agentserver.provenance.evidence.destinations import PlaceForm, listed
from agentserver.provenance.evidence.encodings import unwrapped
from agentserver.provenance.evidence.folding import fold, fold_bytes
from agentserver.provenance.evidence.index import SPAN, Index
from agentserver.provenance.evidence.inventory import Value, ValueKind, scanned, values, written
from agentserver.provenance.evidence.labels import Hop, Leaf, Observation, Standing, Text, TextOrigin
from agentserver.provenance.evidence.leaves import text_of, typed
from agentserver.provenance.evidence.values import Table
from agentserver.provenance.evidence.words import WordIndex
from agentserver.provenance.policy import names
from agentserver.provenance.policy.declarations import bare
from agentserver.provenance.policy.plan import AllowedStep, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.provenance.policy.declarations import ListenerClass, Policy

WHOLE = 6
"""Shortest evidence form of a whole short text (a title, a name) that counts as a value by itself."""


RECORD = 100
"""Longest value, in characters, that a field declared as a record or a directory can guarantee."""


@dataclass(frozen=True, slots=True)
class Records:
    """Values that the system itself guarantees, as they came; looked up by their authority form."""

    entries: tuple[Text, ...] = ()
    chunks: tuple[Mapping[str, tuple[Text, ...]], ...] = field(default=(), compare=False, repr=False)
    words: WordIndex = field(default=WordIndex(), compare=False, repr=False)

    def add(self, texts: tuple[Text, ...]) -> Records:
        """More records; chunks of like size merge, so that adding stays cheap."""
        chunk: dict[str, tuple[Text, ...]] = {}
        for text in texts:
            for key in keys_of(text.body):
                chunk[key] = _distinct((*chunk.get(key, ()), text))
        if not texts:
            return self
        chunks = [*self.chunks, chunk]
        while len(chunks) > 1 and len(chunks[-2]) <= 2 * len(chunks[-1]):
            newer = chunks.pop()
            older = chunks.pop()
            both = {**older, **newer}
            chunks.append({key: _distinct((*older.get(key, ()), *newer.get(key, ()))) for key in both})
        return Records((*self.entries, *texts), tuple(chunks), self.words.add([text.body for text in texts]))

    def find(self, key: str) -> Iterator[Text]:
        """The records with one authority key."""
        for chunk in self.chunks:
            yield from chunk.get(key, ())


def _distinct(texts: tuple[Text, ...]) -> tuple[Text, ...]:
    """One text of each field: that a field said the same before changes nothing."""
    if len(texts) == 1:
        return texts
    known = {(text.origin.source, bare(text.origin.path), text.standing, text.asked): text for text in texts}
    return tuple(known.values())


def keys_of(body: str) -> frozenset[str]:
    """The keys under which a value is looked up: as a destination, as written, as a number or a date; what is in it."""
    known = {f"name {body.strip().lower() if body.isascii() else body.strip()}"}
    kind = typed(body)
    if kind is not None:
        known.add(kind)
    known.update(f"place {place.key}" for place in listed(body) if place.form is not PlaceForm.NONE)
    known.update(f"within {key}" for value in scanned(body) for key in written(body, value))
    return frozenset(known)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The state of one conversation. Text ``n`` of the index is ``texts[n]``."""

    asked: TrustedWords = field(default=TrustedWords(), repr=False)
    texts: tuple[Text, ...] = ()
    records: Records = Records()
    hops: tuple[tuple[int, Hop], ...] = ()
    plan: Plan | None = None
    overflow: bool = False
    spent: float = 0.0
    passed: Mapping[int, tuple[Hop, ...]] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )
    index: Index = field(default=Index(), repr=False, compare=False)
    words: WordIndex = field(default=WordIndex(), repr=False, compare=False)
    table: Table = field(default=Table(), repr=False, compare=False)

    @property
    def tainted(self) -> bool:
        """True when any untrusted text has been seen: the label of the run as a whole."""
        return bool(self.texts) or self.overflow

    @property
    def queries(self) -> tuple[str, ...]:
        """The words of the trusted principal, in order."""
        return self.asked.queries

    @property
    def query(self) -> str:
        """All trusted words so far, as one text: for people, since it grows with the conversation."""
        return "\n".join(self.queries)

    def ask(self, words: str) -> Ledger:
        """The ledger after a trusted principal spoke. Nothing else may extend the query or the plan."""
        plan = Plan.from_query(words) if self.plan is None else self.plan.extend(words)
        return replace(self, asked=self.asked.add(words), plan=plan)

    def adopt(self, steps: tuple[AllowedStep, ...]) -> Ledger | None:
        """The ledger with a planner's steps, or ``None`` when untrusted text has been seen already."""
        if self.tainted:
            return None
        return replace(self, plan=replace(self.plan or Plan(), steps=steps))

    def spend(self, bits: float) -> Ledger:
        """The ledger after a quarantined listener passed on that much about untrusted data."""
        return replace(self, spent=self.spent + bits)

    def observe(self, policy: Policy, seen: Observation) -> Ledger:
        """The ledger after a listener's output, before it is handed on."""
        listener = policy.classify(seen.source)
        asked = any(_asked(self.asked, leaf) for leaf in seen.arguments)
        echoes = {fold(text_of(leaf.value)) for leaf in seen.arguments}
        prose: list[Text] = []
        records: list[Text] = []
        hops: list[tuple[int, Hop]] = []
        for leaf in seen.leaves:
            body = text_of(leaf.value)
            if not body:
                continue
            passed = () if listener.source else self.carried(body)
            hops += [(number, Hop(seen.source, leaf.path, seen.step)) for number in passed]
            standing = _standing(policy, listener, seen.source, leaf)
            if standing is not Standing.PROSE and _echo(body, echoes, self.asked):
                standing = Standing.PROSE if listener.source else None
            origin = TextOrigin(seen.source, leaf.path, seen.step, seen.time, seen.trace)
            if standing is Standing.PROSE:
                prose.append(Text(origin, body, standing, asked))
            elif standing is not None and not passed:
                records.append(Text(origin, body, standing, asked))
        ledger = replace(self, records=self.records.add(tuple(records)))
        return ledger.hop(tuple(dict.fromkeys(hops))).keep(prose, policy.limit)

    def hop(self, hops: tuple[tuple[int, Hop], ...]) -> Ledger:
        """The ledger with more hops."""
        if not hops:
            return self
        passed = dict(self.passed)
        for number, hop in hops:
            passed[number] = (*passed.get(number, ()), hop)
        return replace(self, hops=(*self.hops, *hops), passed=MappingProxyType(passed))

    def keep(self, texts: list[Text], limit: int) -> Ledger:
        """The ledger with more untrusted texts and what is wrapped in them, indexed."""
        more = [inner for text in texts for inner in (text, *_inner(text))]
        if not more:
            return self
        folded = tuple(fold_bytes(text.body) for text in more)
        if self.index.size + sum(map(len, folded)) > limit:
            return replace(self, overflow=True)
        first = len(self.texts)
        entries = [(key, first + number) for number, text in enumerate(more) for key in _values(text.body)]
        return replace(
            self,
            texts=(*self.texts, *more),
            index=self.index.add(folded),
            table=self.table.add(entries),
            words=self.words.add([text.body for text in more]),
        )

    def carried(self, body: str) -> tuple[int, ...]:
        """The numbers of the untrusted texts that ``body`` carries spans or values of."""
        found = [hit.text for hit in self.index.hits(fold_bytes(body)) if hit.text >= 0]
        found += [number for value in values(body) if (number := self.table.first(value.key)) is not None]
        return tuple(dict.fromkeys(found))

    def dump(self) -> dict[str, Any]:
        """The ledger as plain data for JSON. The indexes are left out: they follow from the texts."""
        return {**self.since(Ledger()), **self.state()}

    def since(self, before: Ledger) -> dict[str, list[Any]]:
        """The additions to an earlier ledger that this one grew from: all of it only ever grows at the end."""
        return {
            "queries": list(self.queries[len(before.queries) :]),
            "texts": [_dump_text(text) for text in self.texts[len(before.texts) :]],
            "records": [_dump_text(text) for text in self.records.entries[len(before.records.entries) :]],
            "hops": [[number, asdict(hop)] for number, hop in self.hops[len(before.hops) :]],
        }

    def state(self) -> dict[str, Any]:
        """The parts that change as a whole, for JSON: the plan's steps and two figures."""
        return {
            "steps": [[step.sink, [list(pair) for pair in step.arguments]] for step in self._steps()],
            "planned": self.plan is not None and self.plan.steps is not None,
            "overflow": self.overflow,
            "spent": self.spent,
        }

    def _steps(self) -> tuple[AllowedStep, ...]:
        return (self.plan.steps or ()) if self.plan else ()

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Ledger:
        """The ledger that ``dump`` wrote."""
        plan = None
        for words in data["queries"]:
            plan = Plan.from_query(words) if plan is None else plan.extend(words)
        ledger = cls(asked=TrustedWords().add(*data["queries"]), plan=plan)
        if data["planned"]:
            steps = tuple(
                AllowedStep(sink, tuple((name, tuple(allowed)) for name, allowed in pairs))
                for sink, pairs in data["steps"]
            )
            ledger = replace(ledger, plan=replace(ledger.plan or Plan(), steps=steps))
        texts = tuple(_load_text(text) for text in data["texts"])
        entries = [(key, number) for number, text in enumerate(texts) for key in _values(text.body)]
        return replace(
            ledger,
            texts=texts,
            records=ledger.records.add(tuple(_load_text(text) for text in data["records"])),
            overflow=data["overflow"],
            spent=data["spent"],
            index=Index().add(tuple(fold_bytes(text.body) for text in texts)) if texts else Index(),
            table=Table().add(entries),
            words=WordIndex().add([text.body for text in texts]),
        ).hop(tuple((number, Hop(**hop)) for number, hop in data["hops"]))


def _standing(policy: Policy, listener: ListenerClass, source: str, leaf: Leaf) -> Standing | None:
    """The worth of a leaf. A relay says nothing of its own: its words neither accuse nor authorise."""
    declared = policy.standing(source, leaf)
    if listener.relay:
        return None
    if declared is not None:
        running = listener.source and leaf.standing is None and _runs_on(text_of(leaf.value))
        return Standing.PROSE if running and declared is not Standing.OWN else declared
    if not listener.source:
        return Standing.RECORD
    inferred = policy.infer_fields and not names.is_open_world(source)
    return names.standing_of(leaf.path, leaf.value) if inferred else Standing.PROSE


def _runs_on(body: str) -> bool:
    """True for running text: it is its author's words, even where its field is declared to be a record."""
    return len(body) > RECORD or "\n" in body.strip()


def _asked(asked: TrustedWords, leaf: Leaf) -> bool:
    """True when the trusted query names the document that this argument asked for."""
    body = text_of(leaf.value)
    return len(body) >= 4 and asked.mentions(body)  # noqa: PLR2004  a shorter name is in every text


def _echo(body: str, echoes: set[str], asked: TrustedWords) -> bool:
    """True when a tool merely repeats what it was asked: the value has no other origin."""
    return fold(body) in echoes and not asked.mentions(body)


def _inner(text: Text) -> Iterator[Text]:
    for decoded in unwrapped(text.body):
        yield replace(text, origin=replace(text.origin, via=decoded.via), body=decoded.body)


def _values(body: str) -> Iterator[int]:
    """The hashes of the values in a text, and of the text itself when it is short enough to be one."""
    for value in scanned(body):
        yield from written(body, value)
        if value.kind is not ValueKind.FILE:
            yield value.key
    if WHOLE <= len(fold_bytes(body)) < SPAN:
        yield whole_key(body)


def whole_key(body: str) -> int:
    """The hash of a short text as one value."""
    return Value(ValueKind.KEY, body, 0).key


def _dump_text(text: Text) -> dict[str, Any]:
    return {
        "origin": asdict(text.origin),
        "body": text.body,
        "standing": text.standing.value,
        "asked": text.asked,
    }


def _load_text(data: Mapping[str, Any]) -> Text:
    return Text(TextOrigin(**data["origin"]), data["body"], Standing(data["standing"]), data["asked"])
