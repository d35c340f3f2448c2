"""The memory of one conversation: trusted words, untrusted texts, records, hops, plan.

Owns the state of provenance as one immutable value that can be committed, written out and read back.
``observe`` gives the next value; the old one stays as it was. Refuses to judge. All indexes are derived: they are made
when a decision first needs them, and never written.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from agentserver.provenance.confidentiality.origin import fetched_from, item_of, linked
from agentserver.provenance.confidentiality.private import Private
from agentserver.provenance.confidentiality.readers import confided
from agentserver.provenance.evidence.destinations import destination
from agentserver.provenance.evidence.folding import fold
from agentserver.provenance.evidence.labels import Hop, Leaf, Observation, Standing, Text, TextOrigin
from agentserver.provenance.evidence.leaves import text_of
from agentserver.provenance.planned.recording import leaves_of, recorded
from agentserver.provenance.planned.records import RecordIndex
from agentserver.provenance.policy import forms
from agentserver.provenance.policy.plan import AllowedStep, Plan, dumped, loaded
from agentserver.provenance.request.asked import TrustedWords
from agentserver.provenance.seen.assessed import AssessedLeaf, AssessedOutput
from agentserver.provenance.seen.echoes import Echoes
from agentserver.provenance.seen.laid_out import taken_apart
from agentserver.provenance.seen.records import FEW, Records
from agentserver.provenance.seen.relayed import Relayed, Relays
from agentserver.provenance.seen.untrusted import SLICE, Untrusted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentserver.provenance.evidence.index import Index
    from agentserver.provenance.evidence.labels import Call
    from agentserver.provenance.evidence.values import Table
    from agentserver.provenance.evidence.words import WordIndex
    from agentserver.provenance.policy.declarations import FieldRule, ListenerClass, Policy
    from agentserver.provenance.seen.assessed import RecentOutputs


_TELLING: Final = re.compile(r"[^\W_]{4,}(?!\w*:)")
"""The words of a search but for its operators: of ``from:thomas packing list`` all but the first."""
_VOUCHED: Final = {Standing.RECORD, Standing.DIRECTORY}
"""Worths that say that a value exists, and nothing about the words in it."""
SEARCHED: Final = 512
"""Characters of an argument that are read as a search."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The state of one conversation.

    ``hops`` were found at once, by a server that did so; what is passed on now stands in ``relays``, and is looked at
    when a finding is explained.

    ``foreign``: untrusted words of another conversation may be at work in this one. It is set for one judgement and
    not kept.
    """

    asked: TrustedWords = field(default=TrustedWords(), repr=False)
    untrusted: Untrusted = field(default_factory=Untrusted)
    records: Records = field(default_factory=Records)
    hops: tuple[tuple[int, Hop], ...] = ()
    relays: Relays = field(default_factory=Relays)
    plan: Plan | None = None
    overflow: bool = False
    spent: float = 0.0
    recorded: RecordIndex = field(default=RecordIndex(), repr=False)
    dismissed: frozenset[str] = frozenset()
    """The planners that were told anything but the principal's words."""
    passed: Mapping[int, tuple[Hop, ...]] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )
    foreign: bool = False
    private: Private = field(default=Private(), repr=False)
    exit_bits: float = 0.0

    @property
    def texts(self) -> tuple[Text, ...]:
        """The untrusted texts."""
        return self.untrusted.texts

    @property
    def index(self) -> Index:
        """The spans of the untrusted texts."""
        return self.untrusted.index

    @property
    def words(self) -> WordIndex:
        """The words of the untrusted texts."""
        return self.untrusted.words

    @property
    def table(self) -> Table:
        """The values of the untrusted texts, by their evidence forms."""
        return self.untrusted.values.table

    @property
    def places(self) -> Table:
        """The same values, by the places that they stand for."""
        return self.untrusted.places.table

    @property
    def tainted(self) -> bool:
        """True when any untrusted text has been seen: the label of the run as a whole."""
        return bool(self.texts) or self.overflow or self.foreign

    def waits(self, more: int = 0) -> bool:
        """True when a decision may have to index more than two slices, ``more`` bytes of text included."""
        texts, records = self.untrusted, self.records
        if texts.size - texts.indexed + more > 2 * SLICE and texts.waiting + more > 2 * SLICE:
            return True
        return len(records.entries) - records.indexed > 2 * FEW

    def index_all(self) -> None:
        """Make every index that a decision may need. Safe in another thread than that of the decisions."""
        self.untrusted.index_all()
        self.records.index_all()

    @property
    def queries(self) -> tuple[str, ...]:
        """The words of the trusted principal, in order."""
        return self.asked.queries

    @property
    def query(self) -> str:
        """All trusted words so far, as one text: for people, since it grows with the conversation."""
        return "\n".join(self.queries)

    def ask(self, words: str) -> Ledger:
        """The ledger after a trusted principal spoke. Nothing else may extend the query."""
        return replace(self, asked=self.asked.add(words))

    def adopt(self, steps: tuple[AllowedStep, ...], *, unexposed: bool = False) -> Ledger | None:
        """The ledger with a planner's steps, or ``None`` when they may not count.

        They count where no untrusted text has been seen, or where it is known that none reached the planner
        (``unexposed``); and more of them only after the principal said more.
        """
        if self.tainted and not unexposed:
            return None
        words = len(self.queries)
        plan = Plan(steps, words) if self.plan is None else self.plan.adopted(steps, words)
        return None if plan is None else replace(self, plan=plan)

    def dismiss(self, planner: str) -> Ledger:
        """The ledger after which no plan of a planner counts any more."""
        dismissed = self.dismissed | {planner}
        return self if dismissed == self.dismissed else replace(self, dismissed=dismissed)

    def called(self, call: Call) -> Ledger:
        """The ledger after a call was let pass, of which the plan may allow no more than so many."""
        plan = self.plan.after(call, self) if self.plan is not None else None
        return self if plan is self.plan else replace(self, plan=plan)

    def spend(self, bits: float) -> Ledger:
        """The ledger after a quarantined listener passed on that much about untrusted data."""
        return replace(self, spent=self.spent + bits)

    def carry(self, bits: float) -> Ledger:
        """The ledger after a call carried that much out by its choices."""
        return replace(self, exit_bits=self.exit_bits + bits) if bits else self

    def observe(self, policy: Policy, seen: Observation) -> Ledger:
        """The ledger after a listener's output, before it is handed on."""
        return self.confide(policy, seen).learn(policy, seen)

    def learn(self, policy: Policy, seen: Observation, recent: RecentOutputs | None = None) -> Ledger:
        """The ledger with what a listener's output accuses and authorises.

        Args:
            policy: what is declared.
            seen: the output.
            recent: keeps what outputs are worth, for a caller that may ask about each of them twice.
        """
        listener = policy.classify(seen.source)
        if listener.relay:
            return self.relay(seen.source, seen.leaves, seen.step)
        seen = taken_apart(policy, seen)
        assess = partial(_assessed, self.asked, policy, seen)
        found = assess() if recent is None else recent.find(self.asked, policy, seen, assess)
        prose: list[Text] = []
        records: list[Text] = []
        relayed: list[Relayed] = []
        known = 0 if listener.source else len(self.texts)
        for one in found.leaves:
            if known:
                relayed.append(Relayed(Hop(seen.source, one.path, seen.step), one.body, known))
            origin = TextOrigin(seen.source, one.path, seen.step, seen.time, seen.trace, place=found.place)
            if one.prose:
                prose.append(Text(origin, one.body, Standing.PROSE, found.asked))
            if one.record is not None:
                records.append(Text(origin, one.body, one.record, found.asked, known, one.id, one.formed))
        ledger = self.keep(prose, records, relayed, policy.limit)
        if self.plan is None or ledger.overflow:
            return ledger
        return replace(ledger, recorded=self._recorded(self.plan, seen, (*prose, *records)))

    def _recorded(self, plan: Plan, seen: Observation, kept: Sequence[Text]) -> RecordIndex:
        """The leaves that a plan may name, with those of an observation."""
        answers = seen.answers
        if answers is None:
            answers = plan.answered(self, seen.source, seen.arguments)
        return recorded(self.recorded, seen, answers, kept, self.asked)

    def confide(self, policy: Policy, seen: Observation) -> Ledger:
        """The ledger with what not everybody may read of a listener's output, whoever wrote it."""
        parts = taken_apart(policy, seen)
        both = (
            seen
            if parts is seen
            else replace(seen, leaves=tuple(dict.fromkeys((*seen.leaves, *parts.leaves))))
        )
        private = confided(policy.readers, both)
        return replace(self, private=self.private.add(private, policy.limit)) if private else self

    def relay(self, listener: str, leaves: Iterable[Leaf], step: int) -> Ledger:
        """The ledger after words of a listener that says nothing of its own: they neither accuse nor authorise."""
        known = len(self.texts)
        if not known:
            return self
        said = [Relayed(Hop(listener, leaf.path, step), text_of(leaf.value), known) for leaf in leaves]
        relays = self.relays.add([one for one in said if one.body])
        return self if relays is self.relays else replace(self, relays=relays)

    def keep(
        self, prose: Sequence[Text], records: Sequence[Text], relayed: Sequence[Relayed], limit: int
    ) -> Ledger:
        """The ledger with more texts of each kind; over the bound where it holds more untrusted text than ``limit``."""
        more = self.untrusted.followed(prose)
        overflow = more.size > limit
        untrusted = self.untrusted if overflow else more
        if not (overflow or prose or records or relayed):
            return self
        return replace(
            self,
            untrusted=untrusted,
            records=self.records.followed(records, untrusted),
            relays=self.relays.add(relayed),
            overflow=self.overflow or overflow,
        )

    def dump(self) -> dict[str, Any]:
        """The ledger as plain data for JSON. The indexes are left out: they follow from the texts."""
        return {**self.since(Ledger()), **self.state()}

    def since(self, before: Ledger) -> dict[str, list[Any]]:
        """The additions to an earlier ledger that this one grew from: all of it only ever grows at the end."""
        return {
            "queries": list(self.queries[len(before.queries) :]),
            "texts": [text.dump() for text in self.texts[len(before.texts) :]],
            "records": [text.dump() for text in self.records.entries[len(before.records.entries) :]],
            "hops": [[number, asdict(hop)] for number, hop in self.hops[len(before.hops) :]],
            "relayed": [one.dump() for one in self.relays.entries[len(before.relays.entries) :]],
            "sayings": self.recorded.since(before.recorded),
            "private": self.private.since(before.private),
        }

    def state(self) -> dict[str, Any]:
        """The parts that change as a whole, for JSON: the plan's steps, what they were made of, and two figures."""
        return {
            **dumped(self.plan),
            "dismissed": sorted(self.dismissed),
            "overflow": self.overflow,
            "spent": self.spent,
            "private overflow": self.private.overflow,
            "exit bits": self.exit_bits,
        }

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Ledger:
        """The ledger that ``dump`` wrote."""
        ledger = cls(asked=TrustedWords().add(*data["queries"]), plan=loaded(data))
        held = [Text.load(text) for text in data["texts"]]
        texts = [
            text for text in held if not text.origin.via
        ]  # an older server kept what follows from them, too
        numbers = list(accumulate((not text.origin.via for text in held), initial=-1))[1:]
        hops = tuple(dict.fromkeys((numbers[number], Hop(**hop)) for number, hop in data["hops"]))
        passed: dict[int, tuple[Hop, ...]] = {}
        for number, hop in hops:
            passed[number] = (*passed.get(number, ()), hop)
        untrusted = Untrusted().add(texts)
        records = [Text.load(text) for text in data["records"]]
        sayings = data.get("sayings", ())
        return replace(
            ledger,
            untrusted=untrusted,
            records=Records().add(records, untrusted),
            recorded=RecordIndex.load(sayings, leaves_of((*texts, *records)) if sayings else {}),
            hops=hops,
            relays=Relays().add([Relayed.load(one) for one in data.get("relayed", ())]),
            dismissed=frozenset(data.get("dismissed", ())),
            overflow=data["overflow"],
            spent=data["spent"],
            passed=MappingProxyType(passed),
            private=Private.load(data.get("private", ()), overflow=data.get("private overflow", False)),
            exit_bits=data.get("exit bits", 0.0),
        )


def _standing(listener: ListenerClass, leaf: Leaf, declared: FieldRule | None) -> tuple[Standing | None, str]:
    """The worth of a leaf of a listener that is no relay, and the kind of thing that it identifies."""
    if declared is not None:
        running = listener.source and leaf.standing is None and forms.is_long(text_of(leaf.value))
        standing = declared.standing
        return (Standing.PROSE, "") if running and standing is not Standing.OWN else (standing, declared.id)
    if not listener.source:
        return Standing.RECORD, ""
    return forms.standing_of(leaf.path, leaf.value), ""


def _assessed(asked: TrustedWords, policy: Policy, seen: Observation) -> AssessedOutput:
    """Tell what the output of a listener that is no relay is worth, by what it was asked."""
    listener = policy.classify(seen.source)
    named = tuple(leaf for leaf in seen.arguments if _asked(asked, leaf))
    echoes = Echoes(seen.arguments)
    said = [(leaf, policy.worth(seen.source, leaf), text_of(leaf.value)) for leaf in seen.leaves]
    said = [one for one in said if one[2]]
    items = frozenset() if listener.known else _named(named, said)
    found: list[AssessedLeaf] = []
    for leaf, worth, body in said:
        standing, kind = _standing(listener, leaf, worth)
        if standing is not Standing.PROSE and echoes.hold(body) and not asked.mentions(body):
            standing = Standing.PROSE if listener.source else None
        inside = standing is Standing.PROSE and bool(items) and item_of(leaf.path) in items
        if inside and worth is None and forms.points(body):
            standing = Standing.DIRECTORY
        telling = listener.source and standing in _VOUCHED and forms.tells(body)
        record = standing if standing is not Standing.PROSE else None
        formed = worth is None and listener.source
        prose = telling or standing is Standing.PROSE
        found.append(AssessedLeaf(leaf.path, body, prose, record, kind, formed))
    place = fetched_from(seen.arguments) if listener.source else ""
    return AssessedOutput(tuple(found), _document(seen.arguments, named), place)


def _named(asked: Sequence[Leaf], said: Sequence[tuple[Leaf, FieldRule | None, str]]) -> frozenset[str]:
    """The records that the principal named by one of their own fields: what was looked up stands in them.

    Of a source of which nothing is declared they say who may receive, where the call has something else of the
    principal's. A field that is declared to be prose names none, and no more does structure in a text.

    Args:
        asked: the arguments of the call that the principal's words hold.
        said: the leaves of the answer, with their declared worth and as text.
    """
    forms = {fold(text_of(leaf.value)) for leaf in asked} - {""}
    fields = (one for one in said if forms and "." in one[0].path)
    held = (
        (leaf, body) for leaf, worth, body in fields if worth is None or worth.standing is not Standing.PROSE
    )
    return frozenset(item_of(leaf.path) for leaf, body in held if fold(body[:SEARCHED]) in forms) - {""}


def _document(arguments: tuple[Leaf, ...], asked: Sequence[Leaf]) -> bool:
    """True when the trusted query names the document that was asked for.

    A link names a document by itself: no word beside it, such as a format, makes it another one.

    Args:
        arguments: of the call.
        asked: those of them that the principal's words hold.
    """
    links = tuple(leaf for leaf in arguments if linked(text_of(leaf.value)))
    return all(any(leaf is one for one in asked) for leaf in links) if links else bool(asked)


def _asked(asked: TrustedWords, leaf: Leaf) -> bool:
    """True when the trusted query names the document that this argument asked for."""
    body = text_of(leaf.value)
    if linked(body) and asked.names(destination(body)):
        return True
    if len(body) >= 4 and asked.chooses(body):  # noqa: PLR2004  a shorter name is in every text
        return True
    words = _TELLING.findall(body[:SEARCHED])
    return bool(words) and all(asked.mentions(word, any_case=True) for word in words)
