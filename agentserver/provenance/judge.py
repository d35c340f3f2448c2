"""The decision about one call of a sink: pure, over a ledger, a policy and the call.

Owns the order of the questions and which rule each answers to. Refuses to act: blocking, asking and recording
are its callers'. No model is asked anything; adding labels never removes a finding.
"""

from __future__ import annotations

import re
from itertools import pairwise, starmap
from typing import TYPE_CHECKING, Final

from agentserver.provenance import matching
from agentserver.provenance.evidence.authority import barred, mention
from agentserver.provenance.evidence.authority import matching as entry_for
from agentserver.provenance.evidence.destinations import (
    HOST,
    LISTED,
    Destination,
    PlaceForm,
    destination,
    joined,
    leads_out,
    recipients,
)
from agentserver.provenance.evidence.folding import fold, fold_bytes
from agentserver.provenance.evidence.inventory import exact, is_file
from agentserver.provenance.evidence.labels import Leaf, Mode, Role, Standing
from agentserver.provenance.evidence.leaves import text_of, typed
from agentserver.provenance.evidence.words import lead_of, standing
from agentserver.provenance.exits import answers, broken, followed, without_idle_choices
from agentserver.provenance.policy import names
from agentserver.provenance.policy.actions import Action, actions_of
from agentserver.provenance.policy.declarations import (
    ArgumentRule,
    Effect,
    PlanSource,
    Policy,
    Rule,
    bare,
    means,
)
from agentserver.provenance.verdict import Decision, Evidence, Finding, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentserver.provenance.evidence.labels import Call, Text
    from agentserver.provenance.ledger import Ledger

SHORT_ID: Final = 8
"""An identifier shorter than this is told apart by what kind of thing it names, not by itself."""

_NAMES_PLACES: Final = {Standing.DIRECTORY, Standing.OWN}
_NAMES_THINGS: Final = {Standing.RECORD, Standing.DIRECTORY, Standing.OWN}
_WRITTEN: Final = frozenset({"command", "cmd", "script", "code", "sql", "statement", "query", "expression"})
HALVES: Final = 4096
"""Pairs of arguments that are looked at together for a link."""

_TAIL: Final = re.compile(r"[.\u3002\uff0e\uff61][^\W_][^\s]*$")
_GAP: Final = re.compile(r"\s")
_NO_RULE: Final = ArgumentRule("", Role.DESTINATION)
_COUNTS: Final = frozenset(map(str, range(1000)))
"""Numbers that tell next to nothing: a page, a limit."""


def judge(ledger: Ledger, policy: Policy, call: Call) -> Verdict:
    """Decide on ``call``, given everything the conversation has seen."""
    consequential = policy.classify(call.sink).sink
    found = _Judgement(ledger, policy, call).findings() if consequential else _exits(ledger, policy, call)
    findings = without_idle_choices(found)
    mode = policy.mode_of(call.sink)
    return Verdict(call, mode, _decide(mode, findings), findings)


def _decide(mode: Mode, findings: tuple[Finding, ...]) -> Decision:
    effects = {finding.effect for finding in findings}
    if mode is Mode.AUDIT or not effects & {Effect.BLOCK, Effect.ASK}:
        return Decision.ALLOW
    if mode is Mode.CONFIRM:
        return Decision.ASK
    return Decision.DENY if Effect.BLOCK in effects else Decision.ALLOW


class _Judgement:
    """One call under judgement. Lives for one call of ``judge``."""

    def __init__(self, ledger: Ledger, policy: Policy, call: Call) -> None:
        self.ledger, self.policy, self.call = ledger, policy, call
        self.exposed = call.exposed and ledger.tainted
        self.ruled = [
            (leaf, policy.argument(call, leaf)) for leaf in call.arguments if text_of(leaf.value).strip()
        ]
        self.plan = None if policy.plan is PlanSource.OFF else ledger.plan
        self.roles = {id(leaf): rule.role for leaf, rule in self.ruled}

    def findings(self) -> Iterator[Finding]:
        found = [
            *self.of_run(),
            *(finding for leaf, rule in self.ruled for finding in self.of_argument(leaf, rule)),
        ]
        spoken = [*self.of_content()] if self.ledger.tainted else []
        if spoken and not found and self.policy.mode_of(self.call.sink) is Mode.CONFIRM:
            found += self.of_prose()
        yield from (
            finding for finding in (*found, *spoken, *self.of_exits()) if finding.effect is not Effect.IGNORE
        )

    def finding(
        self, rule: Rule, leaf: Leaf | None, detail: str = "", evidence: Evidence | None = None
    ) -> Finding:
        path, value = (bare(leaf.path), text_of(leaf.value)) if leaf else ("", "")
        effect, role = self.policy.effect(rule, self.call.sink), self.roles.get(id(leaf))
        return Finding(rule, effect, path, value, role, detail, evidence)

    def of_run(self) -> Iterator[Finding]:
        """Rules about the conversation as a whole."""
        ledger, policy = self.ledger, self.policy
        refused = (entry for entry in policy.deny if entry.startswith("listener:"))
        if entry := next((entry for entry in refused if means(entry[9:], self.call.sink)), None):
            yield self.finding(Rule.DENIED, None, f"'{entry}' is on the deny list")
        if ledger.overflow:
            yield self.finding(Rule.BOUND, None, "more untrusted text was read than is tracked")
        if ledger.spent > policy.budget:
            yield self.finding(Rule.BUDGET, None, f"{ledger.spent:.1f} of {policy.budget:g} bits are spent")
        if policy.strict and ledger.tainted:
            yield self.finding(Rule.STRICT, None, "untrusted text was read in this run")
        plan, typed_plan = self.plan, self.plan is not None and self.plan.steps is not None
        if policy.plan in {PlanSource.REQUIRED, PlanSource.CONFIRMED} and not typed_plan:
            yield self.finding(Rule.PLAN, None, "no plan was made")
        elif plan is not None and (typed_plan or self.exposed):
            kinds = getattr(policy.sink(self.call.sink), "actions", None)
            if reason := plan.refuses(self.call, ledger, kinds, lambda leaf: self.roles[id(leaf)]):
                yield self.finding(Rule.PLAN, None, reason)

    def of_argument(self, leaf: Leaf, rule: ArgumentRule) -> Iterator[Finding]:
        if rule.role is Role.DESTINATION:
            if len(text_of(leaf.value)) > LISTED:
                yield self.finding(Rule.BOUND, leaf, "longer than any list of destinations")
            elif entry := self.denied(text_of(leaf.value)):
                yield self.finding(Rule.DENIED, leaf, f"'{entry}' is on the deny list")
            elif not self.warranted(leaf):
                places = self.places(leaf, rule)
                found = [each for place in places for each in self.of_destination(leaf, rule, place)]
                yield from found or (self.of_parts(leaf, rule, places[0]) if self.exposed else ())
        elif rule.role is Role.SELECTOR and self.ledger.tainted and not isinstance(leaf.value, bool):
            yield from () if self.warranted(leaf) else self.of_selector(leaf, rule)

    def warranted(self, leaf: Leaf) -> bool:
        return self.plan is not None and self.plan.warrants(self.ledger, self.call, leaf) is not None

    def places(self, leaf: Leaf, rule: ArgumentRule) -> tuple[Destination, ...]:
        """Every recipient of one argument; several names in one text each need an authority."""
        whole = recipients(text_of(leaf.value))
        if len(whole) != 1 or whole[0].form is not PlaceForm.NAME or self.authorised(leaf, rule, whole[0]):
            return whole
        names_ = [name for name in map(str.strip, re.split(r"[,;]", whole[0].written)) if name]
        return tuple(map(destination, names_)) if len(names_) > 1 else whole

    def of_destination(self, leaf: Leaf, rule: ArgumentRule, place: Destination) -> Iterator[Finding]:
        if self.authorised(leaf, rule, place):
            return
        evidence = matching.found(self.ledger, place.written)
        if not self.exposed and matching.absent(self.ledger, place.written):
            return
        detail = self.resembles(place) or (
            "it is no single destination" if place.form is PlaceForm.NONE else ""
        )
        kind = Rule.DESTINATION if evidence else Rule.UNKNOWN_DESTINATION
        yield self.finding(kind, leaf, detail, evidence)

    def denied(self, text: str) -> str | None:
        """Deny entries also mean what looks the same: refusing may fold, allowing may not."""
        deny = self.policy.deny
        shapes = {fold(place.written) for place in recipients(text)} if deny else set()
        return barred(deny, text) or next((entry for entry in deny if fold(entry) in shapes - {""}), None)

    def authorised(self, leaf: Leaf, rule: ArgumentRule, place: Destination) -> bool:
        if not self.ledger.tainted or entry_for(self.policy.allow, place):
            return True
        if place.form is PlaceForm.NONE:
            return False
        if self.policy.query_authorises and self.ledger.asked.names(place):
            return True
        known = self.ledger.records.find(f"place {place.key}")
        return any(text.standing in _NAMES_PLACES for text in known) or self.accepted(leaf, rule, place)

    def accepted(self, leaf: Leaf, rule: ArgumentRule, place: Destination | None) -> bool:
        """True when a field that this argument accepts holds the value, as a record or inside its prose."""
        if not rule.accepts:
            return False
        if "record" in rule.accepts and place is not None:
            chosen = [other for other, ruled in self.ruled if ruled.role is Role.SELECTOR]
            if answers(self.ledger, chosen, place):
                return True
        body = text_of(leaf.value)
        records = self.ledger.records
        known = (text for key in _keys(body, place) for text in records.find(key))
        return any(_from(text, rule.accepts) for text in (*known, *self.holding(body, place)))

    def holding(self, body: str, place: Destination | None) -> Iterator[Text]:
        """The texts and records that hold a value as a whole token in so many words, as far as they are looked at."""
        ledger = self.ledger
        if place is not None and place.external:
            yield from ledger.records.find(f"within {exact(place.written)}")
            numbers = ledger.places.all(exact(place.written), matching.PLACES)
            yield from (ledger.texts[number] for number in numbers)
            return
        name = body.strip()
        shape, pattern, lead = fold_bytes(name), mention(name), lead_of(name)
        for words, texts in ((ledger.words, ledger.texts), (ledger.records.words, ledger.records.entries)):
            for number, offset in words.starting(shape, matching.PLACES):
                text = texts[number]
                if standing(text.body, offset, pattern, lead, len(name)) and ledger.records.sure(text):
                    yield text

    def of_selector(self, leaf: Leaf, rule: ArgumentRule) -> Iterator[Finding]:
        body = text_of(leaf.value)
        if self.chosen(leaf, body) or self.accepted(leaf, rule, None):
            return
        try:
            evidence = matching.origin(self.ledger, body) or self.within(body)
        except matching.Crowded:
            yield self.finding(Rule.BOUND, leaf, "more values than are looked up")
            return
        if evidence:
            yield self.finding(Rule.SELECTOR, leaf, "", evidence)
        elif self.exposed and (typed(leaf.value) is not None or not (_composed(leaf) or self.creates(leaf))):
            yield self.finding(Rule.UNKNOWN_SELECTOR, leaf)

    def within(self, body: str) -> Evidence | None:
        """Untrusted words inside a composed choice, such as a command or a query."""
        return next((match.evidence for match in matching.content(self.ledger, body)), None)

    def creates(self, leaf: Leaf) -> bool:
        """True when the call makes something new, whose name may be invented. A credential never is."""
        declared = self.policy.sink(self.call.sink)
        kinds = declared.actions if declared and declared.actions is not None else actions_of(self.call.sink)
        return Action.CREATE in kinds and names.SECRETS.isdisjoint(names.tokens(leaf.path))

    def chosen(self, leaf: Leaf, body: str) -> bool:
        """True when the query or a record of the right kind made this choice, in any case of letters."""
        asked, kind = self.ledger.asked, typed(leaf.value)
        if asked.mentions(body, any_case=True):
            return True
        if kind is not None and not asked.kinds.isdisjoint({kind, _day(kind)}):
            return True
        keys = {f"name {body.strip().lower()}", f"name {body.strip()}", kind or ""}
        return any(
            text.standing in _NAMES_THINGS and _akin(self.call, leaf, text, body)
            for key in keys
            for text in self.ledger.records.find(key)
        )

    def of_content(self) -> Iterator[Finding]:
        """Untrusted words among those that the call says, for any receiver."""
        said = [leaf for leaf, rule in self.ruled if rule.role is Role.PAYLOAD]
        for leaf in said:
            body = text_of(leaf.value)
            try:
                for match in matching.content(self.ledger, body):
                    yield self.finding(Rule.LINK if match.link else Rule.CONTENT, leaf, "", match.evidence)
            except matching.Crowded:
                yield self.finding(Rule.BOUND, leaf, "more values than are looked up")
        for left, right in pairwise(said):
            for evidence in matching.across(self.ledger, text_of(left.value), text_of(right.value)):
                yield self.finding(Rule.CONTENT, right, "split over two arguments", evidence)

    def of_exits(self) -> Iterator[Finding]:
        """Confidentiality: private content for a receiver who may not read it, and choices that tell too much."""
        found = starmap(self.finding, broken(self.ledger, self.policy, self.call))
        return (finding for finding in found if finding.effect is not Effect.IGNORE)

    def of_prose(self) -> Iterator[Finding]:
        """A recipient that only the request's prose authorises, when the call carries untrusted content."""
        for leaf, rule in self.ruled:
            for place in self.places(leaf, rule) if rule.role is Role.DESTINATION else ():
                vouched = any(
                    text.standing in _NAMES_PLACES for text in self.ledger.records.find(f"place {place.key}")
                )
                if not vouched and not entry_for(self.policy.allow, place):
                    yield self.finding(Rule.PROSE, leaf, "only the wording of the request names it")

    def of_exit(self, leaf: Leaf, rule: ArgumentRule) -> Iterator[Finding]:
        """A link or a host that is fetched, or a destination of that which is no sink."""
        body = text_of(leaf.value)
        if len(body) > LISTED:
            yield self.finding(Rule.BOUND, leaf, "longer than any list of destinations")
            return
        if entry := self.denied(body):
            yield self.finding(Rule.DENIED, leaf, f"'{entry}' is on the deny list")
        if entry or not self.exposed:
            return
        places = self.places(leaf, rule)
        known = followed(self.ledger, self.policy, places[0]) or self.opens(leaf, body)
        if known or all(self.authorised(leaf, rule, place) for place in places):
            yield from self.of_parts(leaf, rule, places[0])
        else:
            yield self.finding(Rule.EXIT, leaf, "no text, record or request holds this link")

    def of_parts(self, leaf: Leaf, rule: ArgumentRule, place: Destination) -> Iterator[Finding]:
        """Another argument that may make an allowed link lead elsewhere, or take something along."""
        other = next((each for each, _ in self.ruled if self.carries(leaf, rule, place, each)), None)
        if other:
            yield self.finding(Rule.EXIT, other, f"it may be a part of the link in {bare(leaf.path)}")

    def of_halves(self) -> Iterator[Finding]:
        """A host that two arguments make, as ``evil`` and ``.example/x`` do, while neither is one by itself."""
        said = [(leaf, text_of(leaf.value).strip()) for leaf, _ in self.ruled]
        heads = {body: leaf for leaf, body in said if len(body) <= HOST and not _GAP.search(body)}
        tails = [one for one in said if _TAIL.match(one[1]) and not self.policy.declared(self.call, one[0])]
        if len(heads) * len(tails) > HALVES:
            yield self.finding(Rule.BOUND, tails[0][0], "more parts of links than are looked at")
            return
        for leaf, body in tails:
            if any(self.strange(head + body) for head, other in heads.items() if other is not leaf):
                yield self.finding(Rule.EXIT, leaf, "with another argument it makes a link")

    def strange(self, body: str) -> bool:
        """True when a text leads to a host that nothing allows. The name of a file leads nowhere."""
        place = destination(body)
        known = followed(self.ledger, self.policy, place) or self.authorised(Leaf("", body), _NO_RULE, place)
        return leads_out(body) and not is_file(body) and not known

    def opens(self, leaf: Leaf, body: str) -> bool:
        """True when what looks like a host is the name of a file that the request or a record chose."""
        return is_file(body) and self.chosen(leaf, body)

    def carries(self, leaf: Leaf, rule: ArgumentRule, place: Destination, other: Leaf) -> bool:
        """True when another argument may make a link lead elsewhere, or take along to a stranger what has no author."""
        body = text_of(other.value)
        if (
            other is leaf
            or place.form is not PlaceForm.LINK
            or self.policy.declared(self.call, other)
            or leads_out(body)
        ):
            return False
        if not self.authorised(leaf, rule, place):
            return not (isinstance(other.value, bool) or body in _COUNTS or self.chosen(other, body))
        return any(not self.authorised(other, rule, each) for each in joined(place, body))

    def resembles(self, place: Destination) -> str:
        """Names the allowed destination that a refused one merely looks like."""
        shape = fold(place.written)
        alike = (entry for entry in self.policy.allow if fold(entry) == shape)
        known = (*alike, *filter(None, (self.ledger.asked.shapes.get(shape),)))
        like = next((entry for entry in known if destination(entry) != place), None)
        return f"looks like '{like}' and is another place" if like else ""


def _exits(ledger: Ledger, policy: Policy, call: Call) -> Iterator[Finding]:
    """Findings about ways out: a link without an author carries something in it, in a field of any name."""
    judgement = _Judgement(ledger, policy, call)
    fetches = policy.classify(call.sink).source
    for leaf, _ in judgement.ruled:
        rule, body = policy.declared(call, leaf), text_of(leaf.value)
        if rule is None and (fetches or "://" in body) and leads_out(body):
            rule = ArgumentRule("", Role.DESTINATION)
        if rule is not None and rule.role is Role.DESTINATION:
            yield from judgement.of_exit(leaf, rule)
    yield from judgement.of_exits()
    if fetches and judgement.exposed:
        yield from judgement.of_halves()


def _composed(leaf: Leaf) -> bool:
    """True when a choice is written rather than picked: a command, a query, several words."""
    wording = not _WRITTEN.isdisjoint(names.tokens(leaf.path))
    return wording or len(text_of(leaf.value).split()) > 3  # noqa: PLR2004  a name has up to three words


def _day(kind: str) -> str:
    """The key of a date that a request names without its year."""
    return f"day {kind[-5:]}" if kind.startswith("date ") else kind


def _keys(body: str, place: Destination | None) -> tuple[str, ...]:
    own = (f"name {body.strip().lower()}", f"name {body.strip()}")
    return (f"place {place.key}", *own) if place else own


def _from(text: Text, accepts: tuple[str, ...]) -> bool:
    field = f"{text.origin.source}.{bare(text.origin.path)}".rstrip(".")
    return any((entry == "asked" and text.asked) or means(entry, field) for entry in accepts)


def _akin(call: Call, leaf: Leaf, text: Text, body: str) -> bool:
    """A short identifier counts only for its own kind of thing: message ``13`` is not file ``13``."""
    if len(fold(body)) >= SHORT_ID or not any(map(str.isdigit, body)):
        return True
    wanted = _nouns(bare(leaf.path)) or _nouns(call.sink)
    given = _nouns(f"{text.origin.source}_{bare(text.origin.path)}")
    return not wanted or not wanted.isdisjoint(given)


def _nouns(name: str) -> frozenset[str]:
    """The subject of a name: its words without verbs, plurals and ``id``."""
    verbs = names.SINK_TOKENS | names.SOURCE_TOKENS | {"id", "ids", "uuid", "by", "to", "from", "all", "new"}
    return frozenset(word.removesuffix("s") for word in names.tokens(name) if word not in verbs)
