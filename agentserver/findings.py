"""Findings about a call as values, and their description for people.

Provenance makes these values and the core stores them. The layout follows from the values, not from the wording.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

NAMED: Final = 3
"""Places that a summary names; further ones are counted."""


class TrailHop(NamedTuple):
    """A listener that passed untrusted words on.

    Args:
        listener: its name.
        field: the field in which it did.
        step: the number of the observation.
    """

    listener: str
    field: str
    step: int


class Trail(NamedTuple):
    """Path of untrusted text to an argument.

    Args:
        source: the listener that brought them in.
        field: the field in which they came.
        step: the number of the observation.
        excerpt: the words as the argument spells them.
        quoted: the words as the source spells them.
        via: the encoding that was undone to find them, else empty.
        hops: the listeners that passed them on, in order.
        trace: id of the delivery that brought them, else empty.
    """

    source: str
    field: str
    step: int
    excerpt: str
    quoted: str
    via: str = ""
    hops: tuple[TrailHop, ...] = ()
    trace: str = ""


class FindingFacts(NamedTuple):
    """One rule that fired at one argument.

    Args:
        rule: a key of ``RULES``.
        effect: ``report``, ``ask`` or ``block``.
        argument: its path; empty for a finding about the whole call.
        value: of the argument.
        role: ``destination``, ``selector``, ``payload``, ``inert``, or empty.
        detail: what else the rule has to say.
        trail: where the value came from, if that is why the rule fired.
    """

    rule: str
    effect: str
    argument: str
    value: str
    role: str = ""
    detail: str = ""
    trail: Trail | None = None

    @property
    def remedied(self) -> bool:
        """True when it blocks and its description includes a remedy."""
        return self.effect == "block" and self.rule in REMEDIED

    @property
    def quotes(self) -> bool:
        """True when an argument merely holds untrusted words."""
        return self.trail is not None and self.role == "payload" and not (self.detail or self.remedied)


class SenderExposure(NamedTuple):
    """First untrusted text that the sender of a call received.

    Args:
        listener: the sender.
        source: the listener or principal that brought the text in; empty where that is not known.
        step: the number of the observation at which the sender was given it.
        giver: who passed it on to the sender.
    """

    listener: str
    source: str
    step: int
    giver: str


class RecordText(NamedTuple):
    """One field of a record, whole.

    Args:
        field: its path.
        text: its content.
        arguments: the arguments of the call that it fills.
    """

    field: str
    text: str
    arguments: tuple[str, ...] = ()


class Delegation(NamedTuple):
    """Record by another author whose fields decide a call; shown whole to the person who is asked.

    Args:
        source: the listener that sent it.
        step: the number of the observation.
        record: the path of its item; empty for the whole message.
        texts: its fields.
    """

    source: str
    step: int
    record: str
    texts: tuple[RecordText, ...]


class EndorsedRow(NamedTuple):
    """Values that a call may take together, in the order of the arguments of its ``EndorsementTerms``."""

    values: tuple[str, ...]


class FixedArgument(NamedTuple):
    """Argument that stays as it is in the call that is asked about."""

    argument: str
    value: str


class EndorsementTerms(NamedTuple):
    """Calls that may be made without another question, if a person endorses the document; all of it is shown.

    Args:
        id: names the endorsement.
        source: the listener that brought the document in.
        step: the number of the observation.
        arguments: those that are taken from the document.
        fields: for each of them its field.
        rows: the values that the document has for them, each row once.
        fixed: the other arguments with consequences.
        records: the other records of the document, whole.
        limit: the sum of the amounts at most; empty for calls without amounts.
        until: the time at which it ends, in seconds since the epoch.
        before: why earlier approvals do not cover the call: ``used``, ``exceeded`` or ``ended``; else empty.
    """

    id: str
    source: str
    step: int
    arguments: tuple[str, ...]
    fields: tuple[str, ...]
    rows: tuple[EndorsedRow, ...]
    fixed: tuple[FixedArgument, ...]
    records: tuple[RecordText, ...]
    limit: str
    until: float
    before: str = ""


class ValueOrigin(NamedTuple):
    """One place that holds a value of a call.

    Args:
        argument: the path of the argument.
        value: as it is written.
        kind: a key of ``ORIGINS``.
        source: the listener whose words hold it; empty where no listener's do.
        field: the field in which they do.
        step: the number of the observation.
        trace: id of the delivery that brought them, else empty.
    """

    argument: str
    value: str
    kind: str
    source: str = ""
    field: str = ""
    step: int = 0
    trace: str = ""


class AnsweredText(NamedTuple):
    """A stranger's text that a call answers.

    Args:
        source: the listener that brought it in.
        step: the number of the observation.
        record: the path of its item; empty for the whole message.
        texts: its fields.
        holds: True when it holds values of the call; else it is the last one read.
        cut: True when it is shortened.
    """

    source: str
    step: int
    record: str
    texts: tuple[RecordText, ...]
    holds: bool
    cut: bool


class Origins(NamedTuple):
    """The origins of a call's values, for a person who decides about it.

    Args:
        request: the latest words of the principal.
        values: a value has an entry for each of its origins.
        answered: the texts of strangers that the call answers.
        more: arguments that were left out.
    """

    request: str
    values: tuple[ValueOrigin, ...]
    answered: tuple[AnsweredText, ...]
    more: int = 0


ORIGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "request": "the request says it",
        "operator": "the operator allows it",
        "directory": "a directory holds it: {where}",
        "record": "a record holds it: {where}",
        "stranger": "a stranger wrote it: {where}",
        "nothing": "no request, no record and no stranger's text holds it",
        "unknown": "it is not known who wrote it: more was read than is tracked",
    }
)
"""The words for each kind of origin."""


def redact_origins(found: Origins, redact: Callable[[str], str]) -> Origins:
    """Take secrets out of every text, and out of names of fields: a stranger may have chosen them."""
    values = (
        one._replace(argument=redact(one.argument), value=redact(one.value), field=redact(one.field))
        for one in found.values
    )
    answered = (
        one._replace(
            record=redact(one.record),
            texts=tuple(
                each._replace(field=redact(each.field), text=redact(each.text)) for each in one.texts
            ),
        )
        for one in found.answered
    )
    return found._replace(request=redact(found.request), values=tuple(values), answered=tuple(answered))


def describe_origin_words(one: ValueOrigin) -> str:
    """Describe the origin of a value."""
    field = f", field {one.field}" if one.field else ""
    return ORIGINS[one.kind].format(where=f"{one.source}() at step {one.step}{field}")


def write_answered_words(one: AnsweredText) -> str:
    """Write the heading of a stranger's text."""
    reason = "values of the message stand in it" if one.holds else "the last text of a stranger that was read"
    suffix = ", not all of it" if one.cut else ""
    return f"a stranger's text, of {one.source}() at step {one.step} ({reason}{suffix})"


class Findings(NamedTuple):
    """Judgement of a call.

    Args:
        sink: the listener that would be called.
        step: the number of the call.
        mode: ``audit``, ``confirm`` or ``enforce``.
        decision: ``allow``, ``ask`` or ``deny``.
        findings: the weightiest first.
        became: the fate of the call, if ``decision`` leaves it open: ``permitted`` earlier for the rest of the
            conversation, ``endorsed`` with the document, ``approved`` now, or ``deny``.
        more: findings that were left out.
        exposed: the untrusted text that its sender received; None without any, or if unknown.
        delegation: if a person is asked, the record whose fields are all arguments in question.
        endorsement: if a person is asked, the calls that *always* allows.
    """

    sink: str
    step: int
    mode: str
    decision: str
    findings: tuple[FindingFacts, ...]
    became: str = ""
    more: int = 0
    exposed: SenderExposure | None = None
    delegation: Delegation | None = None
    endorsement: EndorsementTerms | None = None

    @property
    def presumed(self) -> bool:
        """True when a finding is based on the sender's exposure and not on the origin of a value."""
        return any(one.trail is None and one.rule not in DECLARED for one in self.findings)


class FindingsOutline(NamedTuple):
    """Parts of findings that are known before they are computed.

    Args:
        sink: as in ``Findings``.
        mode: as in ``Findings``.
        decision: as in ``Findings``.
        effect: of the finding that would decide the call, ``block`` or ``ask``; empty without one.
        rule: of that finding; empty without one, or if it is unknown until they are computed.
        tainted: whether a finding has a trail; None if that is unknown until they are computed.
    """

    sink: str
    mode: str
    decision: str
    effect: str = ""
    rule: str = ""
    tainted: bool | None = None


class DeferredFindings:
    """Findings that are computed when somebody reads them; equal to the findings that they become.

    Args:
        outline: the parts that are known.
        compute: computes the findings.
    """

    __slots__ = ("_compute", "_found", "outline")

    def __init__(self, outline: FindingsOutline, compute: Callable[[], Findings]) -> None:
        self.outline = outline
        self._compute: Callable[[], Findings] | None = compute
        self._found: Findings | None = None

    @property
    def value(self) -> Findings:
        """Findings, computed once; what they are computed from is then released."""
        compute = self._compute  # read first: another thread may clear it
        found = self._found
        if found is None:
            assert compute is not None
            found = self._found = compute()
            self._compute = None
        return found

    def clean(self, each: Callable[[Findings], Findings], line: Callable[[str], str]) -> DeferredFindings:
        """Return the findings with a function applied to them, and another one to the name of the sink."""
        outline = self.outline._replace(sink=line(self.outline.sink))
        return DeferredFindings(outline, lambda: each(self.value))

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, DeferredFindings) else other)

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


DECLARED: Final = frozenset({"denied", "strict", "bound", "budget", "prose"})
"""Rules that follow from declarations or from the conversation as a whole, for any sender."""

REMEDIED: Final = frozenset(
    {
        "destination",
        "unknown_destination",
        "selector",
        "unknown_selector",
        "unknown_amount",
        "unfounded",
        "plan",
        "denied",
        "exit",
        "strict",
        "bound",
        "budget",
        "readers",
        "exit_budget",
    }
)
"""Rules against which something can be done when they block."""

PHRASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "head deny": "BLOCKED: {sink}() called {how}",
        "head ask": "ASKED: {sink}() called {how}",
        "head allow": "SEEN: {sink}() called {how}",
        "tainted": "with tainted inputs",
        "untainted": "against the policy",
        "source": "Taint source: {source}() at step {step}",
        "source in field": "Taint source: {source}() at step {step}, field {field}",
        "quotes": "Untrusted content detected in argument: {argument}={value}",
        "drives": "Injected value detected in argument: {argument}={value}",
        "lineage": "Lineage: {origin}",
        "origin": "{source}{field} (step {step}, untrusted)",
        "undone": "undone: {via}",
        "value": "value {excerpt}",
        "hop": "{listener} (step {step})",
        "arrow": " → ",
        "read as": "It was read as: {quoted}",
        "reason": "Reason: {rule}: {argument}={value}",
        "reason of call": "Reason: {rule}: {sink}",
        "detail": "Detail: {detail}",
        "given": "Presumed: {listener} was given words of {source} at step {step}",
        "given by": "Presumed: {listener} was given words of {source} at step {step}, by {giver}",
        "given unknown": "Presumed: it is not known what {listener} was given",
        "given own": "Presumed: anybody may have written what {listener} says",
        "delegates": "Delegated: {argument} is the field {field} of this record of {source}() at step {step}",
        "delegated field": 'Record: {field}: "{line}"',
        "delegated line": 'Record:   "{line}"',
        "endorse": (
            "Always: until {until}, {sink}() may take these arguments from this document of {source}() at step {step}"
        ),
        "endorse used": "Again: an earlier call or question of this conversation had the same values",
        "endorse exceeded": "Again: an endorsed document has these values, but the call exceeds its sum",
        "endorse ended": "Again: an endorsed document has these values, but its time is over",
        "endorse field": "Always: {argument} is {field}",
        "endorse fixed": 'Always: {argument} stays "{value}"',
        "endorse free": "Always: arguments with content stay free, and are judged as before",
        "endorse row": "Always: row {number}, once: {values}",
        "endorse limit": "Always: together {limit} at most",
        "also": "Also {argument}: untrusted content from {places} ({where} shows all)",
        "also more": "Also {argument}: untrusted content from {places} and {more} more ({where} shows all)",
        "place": "{source}{field} (step {step})",
        "more": "({more} more)",
        "action deny": "Action: blocked, user notified",
        "action ask": "Action: waits for an approval",
        "action audit": "Action: logged, call proceeds (audit)",
        "action allow": "Action: reported, call proceeds",
        "action approved": "Action: approved, call proceeds",
        "action endorsed": "Action: its document is endorsed, call proceeds",
        "action permitted": "Action: approved for the rest of the conversation",
        "rule denied": "denied destination",
        "rule destination": "destination from untrusted text",
        "rule unknown_destination": "destination of unknown origin",
        "rule selector": "choice from untrusted text",
        "rule unknown_selector": "choice of unknown origin",
        "rule unknown_amount": "amount or time of unknown origin",
        "rule content": "untrusted content to an authorised recipient",
        "rule link": "untrusted link to an authorised recipient",
        "rule prose": "destination authorised by the request alone",
        "rule exit": "constructed link",
        "rule unfounded": "call without trusted support",
        "rule plan": "action outside the plan",
        "rule strict": "tainted run",
        "rule budget": "quarantine channel exhausted",
        "rule bound": "more than provenance tracks",
        "rule choices": "choices at an exit",
        "rule exit_budget": "budget of exits exhausted",
        "rule readers": "content that the receiver may not read",
        "remedy destination": "Remedy: if this recipient is wanted, allow '{value}' or declare its field a directory",
        "remedy unknown_destination": "Remedy: nobody named this recipient; if it is wanted, allow '{value}'",
        "remedy selector": "Remedy: if this field may choose, declare it a record, or let the argument accept it",
        "remedy unknown_amount": "Remedy: if this amount was computed rightly, approve it; or name it in the request",
        "remedy unknown_selector": (
            "Remedy: no record and no request holds this choice; look it up first, or name it"
        ),
        "remedy unfounded": "Remedy: name in the request what it is to act on, or the listener itself",
        "remedy plan": "Remedy: put the action into the plan",
        "remedy denied": "Remedy: the deny list wins over everything else",
        "remedy exit": "Remedy: fetch only links that a text, a record or the request holds",
        "remedy strict": "Remedy: strict mode refuses every sink once untrusted text was read",
        "remedy bound": "Remedy: raise the limit, or split the conversation",
        "remedy exit_budget": "Remedy: name the links in the request, allow their hosts, or raise the budget of exits",
        "remedy readers": "Remedy: if this receiver may read it, declare it a reader of that field",
        "remedy budget": "Remedy: the quarantined channel has told as much as it may",
    }
)
"""The phrases for findings; the fields are those of the values."""


class FindingsWriter:
    """Writer of findings for people.

    Args:
        phrases: the wording; one for each key of ``PHRASES``.
    """

    def __init__(self, phrases: Mapping[str, str] = PHRASES) -> None:
        self._phrases = phrases

    def describe_all(self, findings: Findings, *, hops: bool = True) -> tuple[str, ...]:
        """Describe all findings; ``hops`` get lines of their own."""
        lines = [
            line for one in findings.findings for line in self._describe_finding(findings, one, hops=hops)
        ]
        return (
            self.head(findings),
            *lines,
            *self._describe_delegation(findings),
            *self._describe_endorsement(findings),
            *self._describe_exposure(findings),
            *self._collect_tail(findings),
        )

    def describe_brief(self, findings: Findings, command: str) -> tuple[str, ...]:
        """Describe findings with one line for each argument that merely holds untrusted words.

        The first and gravest finding, and each about a deciding value, are described in full.

        Args:
            findings: the value.
            command: the command that shows the rest.
        """
        lines: list[str] = []
        places: dict[str, dict[str, None]] = {}
        for number, one in enumerate(findings.findings):
            if number and one.quotes and one.trail is not None:
                places.setdefault(one.argument, {})[self._say("place", **self._build_origin(one.trail))] = (
                    None
                )
            else:
                lines += self._describe_finding(findings, one, hops=True)
        also = [self._describe_others(argument, list(found), command) for argument, found in places.items()]
        context = (
            *self._describe_delegation(findings),
            *self._describe_endorsement(findings),
            *self._describe_exposure(findings),
        )
        return (self.head(findings), *lines, *context, *also, *self._collect_tail(findings))

    def _say(self, phrase: str, **about: object) -> str:
        return self._phrases[phrase].format(**about)

    def head(self, findings: Findings | DeferredFindings) -> str:
        """Describe findings in one line."""
        if isinstance(findings, DeferredFindings):
            outline = findings.outline
            if outline.tainted is None:
                return self.head(findings.value)
            return self._describe_call(outline.sink, outline.decision, tainted=outline.tainted)
        tainted = any(one.trail for one in findings.findings)
        return self._describe_call(findings.sink, findings.decision, tainted=tainted)

    def _describe_call(self, sink: str, decision: str, *, tainted: bool) -> str:
        how = self._say("tainted" if tainted else "untainted")
        return self._say(f"head {decision}", sink=sink, how=how)

    def _describe_finding(self, findings: Findings, one: FindingFacts, *, hops: bool) -> list[str]:
        about = {"argument": one.argument, "value": f'"{one.value}"', "sink": findings.sink}
        if one.trail is None:
            phrase = "reason" if one.argument else "reason of call"
            lines = [self._say(phrase, rule=self._say(f"rule {one.rule}"), **about)]
        else:
            trail = one.trail
            phrase = "source in field" if trail.field else "source"
            lines = [
                self._say(phrase, source=trail.source, step=trail.step, field=trail.field),
                self._say("quotes" if one.role == "payload" else "drives", **about),
                *self._describe_lineage(findings, one.argument, trail, hops=hops),
                self._say("read as", quoted=f'"{trail.quoted}"'),
            ]
        if one.detail:
            lines.append(self._say("detail", detail=one.detail))
        if one.remedied:
            lines.append(self._say(f"remedy {one.rule}", value=one.value))
        return lines

    def _describe_delegation(self, findings: Findings) -> Iterator[str]:
        """Show the deciding record whole, line by line."""
        record = findings.delegation
        if record is None:
            return
        for one in record.texts:
            for argument in one.arguments:
                yield self._say("delegates", argument=argument, field=one.field, **record._asdict())
        for one in record.texts:
            yield from self._quote_text(one)

    def _quote_text(self, one: RecordText) -> Iterator[str]:
        first, *rest = one.text.split("\n")
        yield self._say("delegated field", field=one.field, line=first)
        yield from (self._say("delegated line", line=line) for line in rest)

    def _describe_endorsement(self, findings: Findings) -> Iterator[str]:
        """Show the calls that *always* allows, one by one."""
        terms = findings.endorsement
        if terms is None:
            return
        if terms.before:
            yield self._say(f"endorse {terms.before}")
        until = datetime.fromtimestamp(terms.until, UTC).strftime("%Y-%m-%d %H:%M UTC")
        yield self._say("endorse", until=until, sink=findings.sink, source=terms.source, step=terms.step)
        for argument, field in zip(terms.arguments, terms.fields, strict=True):
            yield self._say("endorse field", argument=argument, field=field)
        for fixed in terms.fixed:
            yield self._say("endorse fixed", **fixed._asdict())
        yield self._say("endorse free")
        for number, row in enumerate(terms.rows, 1):
            pairs = zip(terms.arguments, row.values, strict=True)
            values = ", ".join(f'{argument} "{value}"' for argument, value in pairs)
            yield self._say("endorse row", number=number, values=values)
        if terms.limit:
            yield self._say("endorse limit", limit=terms.limit)
        for one in terms.records:
            yield from self._quote_text(one)

    def _describe_exposure(self, findings: Findings) -> Sequence[str]:
        """Describe the sender's exposure, if a finding is based on it."""
        exposed = findings.exposed
        if exposed is None or not findings.presumed:
            return ()
        if not exposed.source:
            phrase = "given unknown"
        elif exposed.source == exposed.listener:
            phrase = "given own"
        else:
            phrase = "given" if exposed.giver == exposed.source else "given by"
        return [self._say(phrase, **exposed._asdict())]

    def _describe_lineage(
        self, findings: Findings, argument: str, trail: Trail, *, hops: bool
    ) -> Sequence[str]:
        """Describe the path of one value, hop by hop."""
        began = self._say("lineage", origin=self._say("origin", **self._build_origin(trail)))
        steps = [self._say("undone", via=trail.via)] if trail.via else []
        steps.append(self._say("value", excerpt=f'"{trail.excerpt}"'))
        passed = dict.fromkeys((hop.listener, hop.step) for hop in trail.hops)
        steps += [self._say("hop", listener=listener, step=step) for listener, step in passed]
        steps.append(self._say("hop", listener=f"{findings.sink}.{argument}", step=findings.step))
        arrow = self._say("arrow")
        return [began, *(f" {arrow}{step}" for step in steps)] if hops else [arrow.join([began, *steps])]

    @staticmethod
    def _build_origin(trail: Trail) -> dict[str, object]:
        field = f".{trail.field}" if trail.field and not trail.field.startswith("[") else trail.field
        return {"source": trail.source, "field": field, "step": trail.step}

    def _describe_others(self, argument: str, places: Sequence[str], command: str) -> str:
        phrase, omitted = ("also more", len(places) - NAMED) if len(places) > NAMED else ("also", 0)
        named = ", ".join(places[:NAMED])
        return self._say(phrase, argument=argument, places=named, more=omitted, where=command)

    def _collect_tail(self, findings: Findings) -> Sequence[str]:
        omitted = [self._say("more", more=findings.more)] if findings.more else []
        action = "audit" if findings.mode == "audit" and findings.decision == "allow" else findings.decision
        return [*omitted, self._say(f"action {findings.became or action}")]
