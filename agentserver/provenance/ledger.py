"""Ledger of one conversation: trusted words, untrusted texts, records, hops and plan.

The ledger is an immutable value that can be committed, serialised and restored; each method returns the next one. It
judges nothing. Indexes are derived: built when a decision first needs them, never serialised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agentserver.provenance.append_only import AppendOnlyList
from agentserver.provenance.confidentiality.origin import IN_ITEM, find_fetched_site, find_link_site, item_of
from agentserver.provenance.confidentiality.private import PrivateTexts
from agentserver.provenance.confidentiality.readers import find_private_texts
from agentserver.provenance.copies import change
from agentserver.provenance.endorsements import Endorsements
from agentserver.provenance.evidence.authority import build_word_pattern
from agentserver.provenance.evidence.destinations import PlaceForm, parse_destination
from agentserver.provenance.evidence.folding import fold, fold_bytes
from agentserver.provenance.evidence.index import SPAN, Index
from agentserver.provenance.evidence.labels import (
    Finder,
    Hop,
    Leaf,
    Observation,
    Standing,
    Text,
    TextOrigin,
    means,
    step_of,
)
from agentserver.provenance.evidence.leaves import format_text
from agentserver.provenance.observations.assessment import (
    NOTHING_FOUND,
    AssessedLeaf,
    AssessedOutput,
    Echoes,
    choose,
    may_name_receiver,
    parse_layouts,
)
from agentserver.provenance.observations.authors import TEXTS as AUTHORED
from agentserver.provenance.observations.authors import (
    find_named_author,
    is_on_named_authors_site,
    parse_qualified_address,
)
from agentserver.provenance.observations.cards import find_card, is_card
from agentserver.provenance.observations.choosing import (
    find_chosen_fields,
    find_found_fields,
    find_items_with_name,
    find_meant_receivers,
    find_named_fields,
)
from agentserver.provenance.observations.lazy import Incremental
from agentserver.provenance.observations.lookups import KnownTexts, find_finder
from agentserver.provenance.observations.records import FEW, Records, build_name_key
from agentserver.provenance.observations.remarks import find_remarks
from agentserver.provenance.observations.untrusted_texts import SLICE, UntrustedTexts
from agentserver.provenance.plans.records import RecordIndex, group_by_observation, record_observation
from agentserver.provenance.policy import forms
from agentserver.provenance.policy.plan import Plan, dump_plan, load_plan
from agentserver.provenance.request.languages import is_common
from agentserver.provenance.request.trusted_words import TrustedWords

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from agentserver.provenance.evidence.index import Table
    from agentserver.provenance.evidence.labels import Call
    from agentserver.provenance.evidence.words import WordIndex
    from agentserver.provenance.observations.assessment import LastAssessment
    from agentserver.provenance.plans.arguments import AllowedStep
    from agentserver.provenance.policy.declarations import FieldRule, ListenerClass, Policy

RELAYED: Final = 1 << 18
"""Characters of relayed text that one conversation keeps."""

HOPS: Final = 64
"""Listeners that are reported for one piece of text."""

LOOKED_AT: Final = 1024
"""Texts that are searched for a piece that is shorter than a span."""


class RelayedText(NamedTuple):
    """Text of a listener that had seen the first ``after`` untrusted texts."""

    hop: Hop
    body: str
    after: int

    def dump(self) -> list[Any]:
        """Convert it to plain data for JSON."""
        return [self.hop.listener, self.hop.path, self.hop.step, self.body, self.after]

    @classmethod
    def load(cls, data: Sequence[Any]) -> RelayedText:
        """Restore it from ``dump``."""
        listener, path, step, body, after = data
        return cls(Hop(listener, path, step), body, after)


@dataclass(frozen=True, slots=True)
class Relays:
    """Relayed texts in order, within the limit; ``size`` counts their characters.

    No decision asks for them, so that they are indexed when an explanation does: all of them in some ten milliseconds.
    """

    entries: AppendOnlyList[RelayedText] = field(default=AppendOnlyList())
    size: int = 0
    _spans: Incremental[RelayedText, Index] = field(
        default_factory=lambda: Incremental(Index()), compare=False, repr=False
    )

    def add(self, added: Sequence[RelayedText]) -> Relays:
        """Append texts if there is room for all of them."""
        size = self.size
        for one in added:
            size += len(one.body)
        if not added or size > RELAYED:
            return self
        entries = self.entries.add(added)
        return Relays(entries, size, self._spans.skip_to(len(entries)))

    def find_hops(self, piece: bytes, number: int) -> tuple[Hop, ...]:
        """Find the listeners that passed on a piece, or a span of it, after an untrusted text.

        Args:
            piece: the evidence form that untrusted text and a call have in common.
            number: of the untrusted text.
        """
        if not piece or not self.entries:
            return ()
        if len(piece) >= SPAN:
            found = self._spans.compute(self.entries, _extend_index).find_owners(piece)
            candidates = (self.entries[one] for one in sorted(found))
        else:
            candidates = (one for one in self.entries[:LOOKED_AT] if piece in fold_bytes(one.body))
        return tuple(dict.fromkeys(one.hop for one in candidates if one.after > number))[:HOPS]


def _extend_index(index: Index, added: Sequence[RelayedText]) -> Index:
    return index.add(tuple(fold_bytes(one.body) for one in added)) if added else index


_SEARCH_WORDS: Final = re.compile(r"[^\W_]{4,}(?!\w*:)")
"""Words of a search query without its operators: for ``from:thomas packing list`` all but the first."""
_SEARCH_TERM: Final = re.compile(r"'([^']{3,})'|\"([^\"]{3,})\"")
"""Quoted term of a search query such as ``name contains 'packing list'``."""
_OPERATOR: Final = re.compile(r"[a-zA-Z]{2,12}|[=<>!()]{1,2}")
"""Word of a query language outside of its quoted terms; without digits and marks it names nothing."""
_VOUCHING: Final = {Standing.RECORD, Standing.DIRECTORY}
"""Standings that confirm that a value exists, but not the words in it."""
NAMES: Final = 4
"""Maximum names of a document that are kept."""
OPENED: Final = 8
"""Maximum arguments of a call that opens a named record, and records with one id that are looked at."""
SHORTEST_ID: Final = 4
"""Minimum characters of an id by which a record is opened."""
PEERS: Final = 2000
"""Maximum fields of an output whose records are counted."""
PARTS: Final = 64
"""Maximum arguments of a call that acts on a page, such as a form with many fields."""
PAGE: Final = 1 << 16
"""Maximum characters of a page in which a handle is looked for."""
SEARCHED: Final = 512
"""Maximum characters of an argument that are read as a search query."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Immutable state of one conversation.

    ``foreign``: untrusted words of another conversation may influence this one. It is set for one judgement and never
    stored.
    """

    asked: TrustedWords = field(default=TrustedWords(), repr=False)
    untrusted: UntrustedTexts = field(default_factory=UntrustedTexts)
    records: Records = field(default_factory=Records)
    relays: Relays = field(default_factory=Relays)
    plan: Plan | None = None
    overflow: bool = False
    spent: float = 0.0
    recorded: RecordIndex = field(default=RecordIndex(), repr=False)
    dismissed: frozenset[str] = frozenset()
    """Planners that have read anything but the principal's words."""
    foreign: bool = False
    private: PrivateTexts = field(default=PrivateTexts(), repr=False)
    exit_bits: float = 0.0
    endorsements: Endorsements = field(default=Endorsements(), repr=False)

    @property
    def texts(self) -> AppendOnlyList[Text]:
        """The untrusted texts."""
        return self.untrusted.texts

    @property
    def index(self) -> Index:
        """Index of the spans in the untrusted texts."""
        return self.untrusted.index

    @property
    def words(self) -> WordIndex:
        """Index of the words in the untrusted texts."""
        return self.untrusted.words

    @property
    def table(self) -> Table:
        """The values of the untrusted texts, by their evidence forms."""
        return self.untrusted.values.table

    @property
    def places(self) -> Table:
        """The same values, by the places that they name."""
        return self.untrusted.places.table

    @property
    def tainted(self) -> bool:
        """True when any untrusted text has been seen, which labels the run as a whole."""
        return self.untrusted.texts.length > 0 or self.overflow or self.foreign

    def needs_indexing(self, added: int = 0) -> bool:
        """Check whether a decision may have to index more than the loop does, including ``added`` bytes of text."""
        texts, records, limit = self.untrusted, self.records, 3 * SLICE // 2
        if texts.work - texts.indexed + added > limit and texts.waiting + added > limit:
            return True
        return len(records.entries) - records.indexed > 2 * FEW

    def index_all(self) -> None:
        """Build every index that a decision may need. Safe to call from another thread than that of the decisions."""
        self.untrusted.index_all()
        self.records.index_all()

    @property
    def queries(self) -> tuple[str, ...]:
        """The texts of the trusted principal, in order."""
        return self.asked.queries

    @property
    def query(self) -> str:
        """All trusted words so far as one text, for display; it grows with the conversation."""
        return "\n".join(self.queries)

    def ask(self, words: str) -> Ledger:
        """Add words of the trusted principal. Nothing else may extend the query."""
        return change(self, asked=self.asked.add(words))

    def adopt(self, steps: tuple[AllowedStep, ...], *, unexposed: bool = False) -> Ledger | None:
        """Add a planner's steps, or return ``None`` if they may not count.

        They count if no untrusted text has been seen, or if the planner is known to have read none (``unexposed``).
        Further steps count only after the principal has said more.
        """
        if self.tainted and not unexposed:
            return None
        words = len(self.queries)
        plan = Plan(steps, words) if self.plan is None else self.plan.adopt(steps, words)
        return None if plan is None else change(self, plan=plan)

    def dismiss(self, planner: str) -> Ledger:
        """Reject all future plans of a planner."""
        dismissed = self.dismissed | {planner}
        return self if dismissed == self.dismissed else change(self, dismissed=dismissed)

    def count_call(self, call: Call) -> Ledger:
        """Count a call that passed against the number of calls that the plan allows."""
        plan = self.plan.count_call(call, self) if self.plan is not None else None
        return self if plan is self.plan else change(self, plan=plan)

    def endorse(self, subject: str) -> Ledger:
        """Add the endorsement that a person approved."""
        return change(self, endorsements=self.endorsements.add(subject))

    def revoke(self, endorsement: str) -> Ledger:
        """Remove an endorsement, by its id."""
        return change(self, endorsements=self.endorsements.revoke(endorsement))

    def settle_endorsed(self, subject: str, at: float) -> Ledger | None:
        """Count a call whose question waits, by an endorsement of its document; None if there is no such one."""
        found = self.endorsements.settle(subject, at)
        return None if found is None else change(self, endorsements=found)

    def count_row(self, row: str) -> Ledger:
        """Count a call, by the digest of its row, against the endorsements of its document."""
        return change(self, endorsements=self.endorsements.count(row))

    def suspect_foreign_text(self) -> Ledger:
        """Return a ledger that counts as tainted, for judging a sender that another conversation may steer."""
        return self if self.tainted else change(self, foreign=True)

    def spend(self, bits: float) -> Ledger:
        """Add bits that a quarantined listener revealed about untrusted data."""
        return change(self, spent=self.spent + bits)

    def carry(self, bits: float) -> Ledger:
        """Add bits that a call revealed by its choices."""
        return change(self, exit_bits=self.exit_bits + bits) if bits else self

    def observe(self, policy: Policy, seen: Observation) -> Ledger:
        """Add a listener's output, before it is delivered."""
        return self.confide(policy, seen).learn(policy, seen)

    def learn(self, policy: Policy, seen: Observation, last: LastAssessment | None = None) -> Ledger:
        """Add the untrusted texts and records in a listener's output.

        Args:
            policy: the declared policy.
            seen: the output.
            last: the last assessment of the message, for a caller that may ask about it twice.
        """
        listener = policy.classify(seen.source)
        if listener.relay:
            return self.relay(seen.source, seen.leaves, seen.step)
        parsed, seen = seen, parse_layouts(policy, seen)
        seen = change(seen, unexposed=False) if seen.unexposed and self.tainted else seen
        assess = partial(_assess, self.asked, policy, seen)
        found = assess() if last is None else last.find(self.asked, policy, parsed, assess)
        prose: list[Text] = []
        records: list[Text] = []
        relayed: list[RelayedText] = []
        known = 0 if listener.source else len(self.texts)
        requested = found.asked or (listener.source and self._opens_named_record(seen.arguments))
        sought = requested or (listener.source and self._seeks_named_author(seen.arguments))
        place = found.place
        if listener.source and not requested and self._follows_named_author(seen.arguments):
            requested = sought = True
        if listener.source and not place and (page := self._find_page_of_handle(seen.arguments)):
            requested, sought, place = True, True, page
        directory = not listener.sink and any(means(entry, seen.source) for entry in policy.trusted)
        finder = self._find_finder(policy, seen, found) if found.found.paths else None
        remarks = find_remarks(found.leaves) if sought else frozenset[str]()
        for one in found.leaves:
            named, wanted = (each and one.path not in remarks for each in (requested, sought))
            found_by = finder if one.path in found.found.paths and one.record in _VOUCHING else None
            if found_by is Finder.PRINCIPAL:
                one, found_by = choose(one), None  # noqa: PLW2901  as if its selectors were all in the request
            if known:
                relayed.append(RelayedText(Hop(seen.source, one.path, seen.step), one.body, known))
            origin = TextOrigin(seen.source, one.path, seen.step, seen.time, seen.trace, place=place)
            if one.prose:
                prose.append(Text(origin, one.body, Standing.PROSE, named, names=found.names))
            if one.record is not None:
                own = directory and one.chosen and known and self.untrusted.is_filled_only(one.body)
                after = 0 if own else known
                own_fields = one.body, one.record, wanted, after, one.id, one.formed, one.chosen
                records.append(Text(origin, *own_fields, found_by=found_by))
        ledger = self.keep(prose, records, relayed, policy.limit)
        if self.plan is None or ledger.overflow:
            return ledger
        return change(ledger, recorded=self._add_recorded(self.plan, seen, (*prose, *records)))

    def _find_finder(self, policy: Policy, seen: Observation, found: AssessedOutput) -> Finder | None:
        """Find whose words selected the found fields. One of several records counts as the agent's at most."""
        if self.overflow:
            return None
        known = KnownTexts(self.untrusted, self.records, policy, self.is_sole, seen.carried)
        finder = find_finder(known, found.found.selectors)
        if found.found.is_sole:
            return finder
        return None if finder in {None, Finder.DOCUMENT} else Finder.AGENT

    def date_since(self, before: Ledger, time: float, trace: str) -> Ledger:
        """Return this ledger with another time and delivery for the texts that it added to an earlier one."""
        untrusted = self.untrusted.date_since(before.untrusted, time, trace)
        records = self.records.date_since(before.records, time, trace, untrusted)
        return change(self, untrusted=untrusted, records=records)

    def _opens_named_record(self, arguments: Sequence[Leaf]) -> bool:
        """Check whether a call opens the record that the principal named, by an id that the record gave.

        The record is one that the words chose, or the only one of an output that the words asked for. A link in the
        arguments names a document by itself.
        """
        if not self.records.entries or len(arguments) > OPENED:
            return False
        bodies = [format_text(leaf.value).strip() for leaf in arguments]
        if any(map(find_link_site, bodies)):
            return False
        return any(
            self._is_named_record(text)
            for body in bodies
            if SHORTEST_ID <= len(body) <= forms.CHOICE
            for text in islice(self.records.find(build_name_key(body)), OPENED)
        )

    def _seeks_named_author(self, arguments: Sequence[Leaf]) -> bool:
        """Check whether a call searches for nothing but the address of whoever wrote the documents that were named.

        Its records are those that the principal meant. What their notes say is not: anyone may have written it.
        """
        if len(arguments) != 1 or self.overflow:
            return False
        body = format_text(arguments[0].value)
        place = parse_qualified_address(body) or parse_destination(body)
        if place.form is not PlaceForm.ADDRESS:
            return False
        author = find_named_author(self.asked, self.texts[: AUTHORED + 1])
        return author is not None and author.alike[-1] == place.alike[-1]

    def _follows_named_author(self, arguments: Sequence[Leaf]) -> bool:
        """Check whether a call follows a link of a named document to its author's own site, and does nothing else."""
        if len(arguments) != 1 or self.overflow:
            return False
        place = parse_destination(format_text(arguments[0].value))
        return is_on_named_authors_site(self.asked, self.texts[: AUTHORED + 1], place)

    def _find_page_of_handle(self, arguments: Sequence[Leaf]) -> str:
        """Find the site of the named page that was read last, if a call acts on a handle of it; else empty.

        The output is the page behind a button or a link of the page that the principal named.
        """
        if not 0 < len(arguments) <= PARTS or not (self.texts and self.texts[-1].asked):
            return ""
        bodies = [format_text(leaf.value).strip() for leaf in arguments]
        handles = [body for body in bodies if forms.HANDLE.fullmatch(body)]
        if not handles:
            return ""
        page = self.texts[-1].body[:PAGE]
        all_on_page = all(build_word_pattern(handle).search(page) for handle in handles)
        receivers = (body for body in bodies if forms.names_receiver(body))
        plain = all(self.asked.names(parse_destination(body)) for body in receivers)
        return self.texts[-1].origin.place if plain and all_on_page else ""

    def _is_named_record(self, text: Text) -> bool:
        if not text.origin.path:
            return False
        if text.chosen or (text.asked and self.is_sole(text.origin)):
            return True
        fields = ((each.origin.path, each.body) for each in self.list_texts_of_step(text.origin.step))
        return item_of(text.origin.path) in find_items_with_name(self.asked, fields)

    def list_texts_of_step(self, step: int) -> tuple[Text, ...]:
        """List the untrusted texts and records of one step; empty if they are too many."""
        found: list[Text] = []
        for texts in (self.texts, self.records.entries):
            found += islice(texts.items_with(step, step_of), PEERS)
        return tuple(found) if len(found) < PEERS else ()

    def is_sole(self, origin: TextOrigin) -> bool:
        """Check whether one output is one record, since it has no list or a list of one item."""
        return self.count_items(origin) <= 1

    def count_items(self, origin: TextOrigin) -> int:
        """Count the list items of one output, up to two."""
        items: set[str] = set()
        for texts in (self.texts, self.records.entries):
            for number, text in enumerate(texts.items_from(texts.bisect(origin.step, step_of))):
                if number == PEERS or len(items) > 1:
                    return 2
                if text.origin.step != origin.step:
                    break
                items.update({item_of(text.origin.path)} - {""})
        return len(items)

    def is_card(self, origin: TextOrigin) -> bool:
        """Check whether an output is one record without room for running text, such as an entry of an address book."""
        texts = self.list_texts_of_step(origin.step)
        return bool(texts) and self.count_items(origin) == 1 and is_card(text.body for text in texts)

    def _add_recorded(self, plan: Plan, seen: Observation, texts: Sequence[Text]) -> RecordIndex:
        """Add the leaves of an observation to those that a plan may name."""
        answers = seen.answers
        if answers is None:
            answers = plan.find_answered(self, seen.source, seen.arguments)
        return record_observation(self.recorded, seen, answers, texts, self.asked)

    def confide(self, policy: Policy, seen: Observation) -> Ledger:
        """Add the private content of a listener's output, regardless of its author."""
        parts = parse_layouts(policy, seen)
        both = (
            seen
            if parts is seen
            else change(seen, leaves=tuple(dict.fromkeys((*seen.leaves, *parts.leaves))))
        )
        if any(leaf.unread for leaf in seen.leaves) and any(
            means(rule.source, seen.source) for rule in policy.readers
        ):
            return change(self, private=replace(self.private, overflow=True))
        private = find_private_texts(policy.readers, both)
        return change(self, private=self.private.add(private, policy.limit)) if private else self

    def relay(self, listener: str, leaves: Iterable[Leaf], step: int) -> Ledger:
        """Add the output of a relay, a listener with no words of its own: it neither accuses nor authorises."""
        known = len(self.texts)
        if not known:
            return self
        relays = self.relays.add(
            [
                RelayedText(Hop(listener, leaf.path, step), body, known)
                for leaf in leaves
                if (body := format_text(leaf.value))
            ]
        )
        return self if relays is self.relays else change(self, relays=relays)

    def keep(
        self, prose: Sequence[Text], records: Sequence[Text], relayed: Sequence[RelayedText], limit: int
    ) -> Ledger:
        """Add texts of each kind. The ledger overflows if it would hold more untrusted text than ``limit``."""
        extended = self.untrusted.add_and_index(prose)
        overflow = extended.size > limit
        untrusted = self.untrusted if overflow else extended
        if not (overflow or prose or records or relayed):
            return self
        return change(
            self,
            untrusted=untrusted,
            records=self.records.add_and_index(records, untrusted),
            relays=self.relays.add(relayed),
            overflow=self.overflow or overflow,
        )

    def dump(self) -> dict[str, Any]:
        """Serialise the ledger as plain data for JSON, without its derived indexes."""
        return {**self.additions_since(Ledger()), **self.state()}

    def additions_since(self, before: Ledger) -> dict[str, list[Any]]:
        """Serialise the additions to an earlier ledger. This works because every part is append-only."""
        asked, recorded, private = self.asked, self.recorded, self.private
        return {
            "queries": [] if asked is before.asked else list(asked.queries[len(before.queries) :]),
            "texts": _dump_added(self.untrusted.texts, before.untrusted.texts),
            "records": _dump_added(self.records.entries, before.records.entries),
            "relayed": _dump_added(self.relays.entries, before.relays.entries),
            "sayings": [] if recorded is before.recorded else recorded.dump_since(before.recorded),
            "private": [] if private is before.private else private.dump_since(before.private),
        }

    def state(self) -> dict[str, Any]:
        """Serialise the parts that are replaced as a whole: the plan with its origin, flags and figures."""
        return {
            **dump_plan(self.plan),
            "dismissed": sorted(self.dismissed),
            "overflow": self.overflow,
            "spent": self.spent,
            "private overflow": self.private.overflow,
            "exit bits": self.exit_bits,
            "endorsements": self.endorsements.dump(),
        }

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Ledger:
        """Restore the ledger that ``dump`` serialised."""
        ledger = cls(asked=TrustedWords().add(*data["queries"]), plan=load_plan(data))
        texts = [Text.load(text) for text in data["texts"]]
        untrusted = UntrustedTexts().add(texts)
        records = [Text.load(text) for text in data["records"]]
        sayings = data["sayings"]
        return replace(
            ledger,
            untrusted=untrusted,
            records=Records().add(records, untrusted),
            recorded=RecordIndex.load(sayings, group_by_observation((*texts, *records)) if sayings else {}),
            relays=Relays().add([RelayedText.load(one) for one in data["relayed"]]),
            dismissed=frozenset(data["dismissed"]),
            overflow=data["overflow"],
            spent=data["spent"],
            private=PrivateTexts.load(data["private"], overflow=data["private overflow"]),
            exit_bits=data["exit bits"],
            endorsements=Endorsements.load(data["endorsements"]),
        )


def _dump_added(
    after: AppendOnlyList[Text] | AppendOnlyList[RelayedText],
    before: AppendOnlyList[Text] | AppendOnlyList[RelayedText],
) -> list[Any]:
    return [] if after is before else [one.dump() for one in after.list_added_to(before)]  # type: ignore[arg-type]


def steers(policy: Policy, source: str, leaves: Iterable[Leaf], before: Ledger, after: Ledger) -> bool:
    """Check whether a source's words may steer their reader.

    Untrusted text may, and so may a single word in a field of undeclared worth: it looks like bookkeeping but can carry
    an instruction.

    Args:
        policy: the declared policy.
        source: the source of the words.
        leaves: the words.
        before: the ledger without them.
        after: the ledger with them.
    """
    if after.overflow or len(after.texts) > len(before.texts):
        return True
    texts = (leaf for leaf in leaves if isinstance(leaf.value, str) and leaf.value.strip())
    return any(policy.field_rule(source, leaf) is None for leaf in texts)


def _rate_leaf(
    listener: ListenerClass, leaf: Leaf, declared: FieldRule | None
) -> tuple[Standing | None, str]:
    """Rate the worth of a leaf of a listener that is no relay, and the kind of thing that it identifies."""
    if declared is not None:
        running = listener.source and leaf.standing is None and forms.is_long(format_text(leaf.value))
        standing = declared.standing
        return (Standing.PROSE, "") if running and standing is not Standing.OWN else (standing, declared.id)
    if not listener.source:
        return Standing.RECORD, ""
    return forms.derive_standing(leaf.path, leaf.value), ""


def _assess(request: TrustedWords, policy: Policy, seen: Observation) -> AssessedOutput:
    """Assess the output of a listener that is no relay, by the arguments of its call."""
    listener = policy.classify(seen.source)
    sites, asking = _read_arguments(request, seen)
    requested = tuple(compress(seen.arguments, asking))
    fields = _list_fields(policy, seen)
    items = frozenset[str]() if listener.known else _find_asked_items(requested, fields)
    vouched, shown = _list_vouched(listener, fields), _list_shown(listener, fields)
    chosen = find_chosen_fields(request, seen, vouched, policy.conventions) if vouched else frozenset()
    receivers = find_meant_receivers(request, seen, vouched, policy.conventions) if vouched else frozenset()
    seek = bool(vouched) and not (chosen or listener.source)
    selected = find_found_fields(request, seen, vouched, policy.conventions) if seek else NOTHING_FOUND
    named_paths = find_named_fields(request, seen, shown, policy.conventions) if shown else frozenset()
    echoes: Echoes | None = None
    found: list[AssessedLeaf] = []
    for leaf, worth, body in fields:
        standing, kind = _rate_leaf(listener, leaf, worth)
        if standing is not Standing.PROSE:
            echoes = echoes or Echoes(request, seen.arguments)
            if not request.mentions(body) and echoes.contain(body):
                standing = Standing.PROSE if listener.source else None
        inside = standing is Standing.PROSE and bool(items) and item_of(leaf.path) in items
        if inside and worth is None and forms.names_receiver(body):
            standing = Standing.DIRECTORY
        picked = leaf.path in chosen and standing in _VOUCHING
        derived = worth is None or (standing is Standing.RECORD and not listener.source)
        meant = leaf.path in receivers and standing in _VOUCHING
        if (picked or meant) and derived and may_name_receiver(body):
            standing = Standing.DIRECTORY
        text = isinstance(leaf.value, str)  # no other value has words
        telling = text and listener.source and standing in _VOUCHING and forms.has_prose(body)
        record = standing if standing is not Standing.PROSE else None
        picked = picked or (listener.source and standing is Standing.RECORD and leaf.path in named_paths)
        prose = telling or standing is Standing.PROSE
        found.append(
            AssessedLeaf(leaf.path, body, prose, record, kind, worth is None and listener.source, picked)
        )
    place = find_fetched_site(sites) if listener.source else ""
    asked = _names_document(sites, asking)
    names = tuple(body for leaf in requested[:NAMES] if len(body := format_text(leaf.value)) <= forms.CHOICE)
    return AssessedOutput(tuple(found), asked, place, names if asked and listener.source else (), selected)


def _list_fields(policy: Policy, seen: Observation) -> list[tuple[Leaf, FieldRule | None, str]]:
    """List the fields of an output that are not empty, each with its declared worth and its text."""
    rated = policy.rates_fields(seen.source)
    return [
        (leaf, policy.field_rule(seen.source, leaf) if rated or leaf.standing is not None else None, body)
        for leaf in seen.leaves
        if (body := format_text(leaf.value))
    ]


def _find_asked_items(
    requested: Sequence[Leaf], fields: Sequence[tuple[Leaf, FieldRule | None, str]]
) -> frozenset[str]:
    """Find the records that the request asks for, or the only card, in the answer of an undeclared listener."""
    if not (requested and [leaf for leaf, _, _ in fields if "." in leaf.path]):
        return frozenset()
    items = _find_named_records(requested, fields)
    return items or find_card(map(_read_body, requested), _list_shown_names(fields))


def _list_vouched(
    listener: ListenerClass, fields: Sequence[tuple[Leaf, FieldRule | None, str]]
) -> list[tuple[Leaf, str]]:
    """List the fields that no stranger fills: all of a trusted listener, the declared records of a source."""
    if not listener.known:
        return []
    return [
        (leaf, body)
        for leaf, worth, body in fields
        if (not listener.source if worth is None else worth.standing is not Standing.PROSE)
    ]


def _list_shown(
    listener: ListenerClass, fields: Sequence[tuple[Leaf, FieldRule | None, str]]
) -> list[tuple[Leaf, str]]:
    """List the fields of the records of a source, declared or not, that the principal's words may choose."""
    if not listener.source:
        return []
    return [(leaf, body) for leaf, _, body in fields if IN_ITEM in leaf.path and not leaf.inside]


def _read_body(leaf: Leaf) -> str:
    return format_text(leaf.value)


def _list_shown_names(fields: Sequence[tuple[Leaf, FieldRule | None, str]]) -> list[tuple[str, str, bool]]:
    """List the path and the text of each field, and whether it may name its record."""
    return [
        (leaf.path, body, not leaf.inside and (worth is None or worth.standing is not Standing.PROSE))
        for leaf, worth, body in fields
    ]


def _find_named_records(
    arguments: Sequence[Leaf], leaves: Sequence[tuple[Leaf, FieldRule | None, str]]
) -> frozenset[str]:
    """Find the records that the principal named by one of their fields, so that they hold the answer to the query.

    At an undeclared source these records say who may receive if the call has something else of the principal's. A field
    that is declared as prose names no record, and neither does structure inside a text.

    Args:
        arguments: the arguments of the call that the principal's words hold.
        leaves: the leaves of the answer, with their declared worth and their text.
    """
    forms = {fold(format_text(leaf.value)) for leaf in arguments} - {""}
    fields = (one for one in leaves if forms and "." in one[0].path)
    identifying = (
        (leaf, body) for leaf, worth, body in fields if worth is None or worth.standing is not Standing.PROSE
    )
    return frozenset(item_of(leaf.path) for leaf, body in identifying if fold(body[:SEARCHED]) in forms) - {
        ""
    }


def _read_arguments(request: TrustedWords, seen: Observation) -> tuple[list[str], list[bool]]:
    """Read the site of each argument, empty for one that is no link, and whether the principal's words hold it."""
    read = _read_argument_loosely if seen.unexposed else _read_argument
    found = [request.read_once(format_text(leaf.value), read) for leaf in seen.arguments]
    return [site for site, _ in found], [asked for _, asked in found]


def _read_argument(request: TrustedWords, body: str) -> tuple[str, bool]:
    site = find_link_site(body)
    return site, _is_requested(request, body, site, loosely=False)


def _read_argument_loosely(request: TrustedWords, body: str) -> tuple[str, bool]:
    site = find_link_site(body)
    return site, _is_requested(request, body, site, loosely=True)


def _names_document(sites: Sequence[str], asking: Sequence[bool]) -> bool:
    """Check whether the trusted query names the requested document.

    A link names a document by itself: other arguments, such as a format, do not make it another one.

    Args:
        sites: the site of each argument of the call; empty for one that is no link.
        asking: whether the principal's words hold it.
    """
    return all(compress(asking, sites)) if any(sites) else any(asking)


def _is_requested(request: TrustedWords, body: str, site: str, *, loosely: bool) -> bool:
    """Check whether the trusted query names the document that this argument requests; ``site`` is that of a link.

    Where nothing untrusted was read before, words count ``loosely``: all of a search in another form, such as without
    the ending of a case, or one as it is, next to the agent's own.
    """
    if site and request.names(parse_destination(body)):
        return True
    if len(body) >= 4 and request.chooses(body):  # noqa: PLR2004  a shorter name is in every text
        return True
    body = body[:SEARCHED]
    terms = [term for match in _SEARCH_TERM.finditer(body) for term in match.groups() if term]
    if terms and all(map(_OPERATOR.fullmatch, _SEARCH_TERM.sub(" ", body).split())):
        return all(request.mentions(term, any_case=True) for term in terms)
    words = _SEARCH_WORDS.findall(body)
    if all(map(request.mentions_plainly, words)) or not loosely:
        return bool(words) and all(map(request.mentions_plainly, words))
    telling = (word for word in words if not is_common(word))
    return any(map(request.mentions_plainly, telling)) or all(map(request.mentions_form, words))
