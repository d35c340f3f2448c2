"""The declarations of an operator: sources, sinks, what each argument decides, what a field is worth.

Owns the policy as a frozen value and the classification of listeners by it. Refuses to go by names: a listener of
which nothing is declared is source and sink, and a field or an argument of which nothing is declared is taken for what
its value has the form of (see ``forms``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, TypeVar

from agentserver.provenance.confidentiality.readers import directory_of
from agentserver.provenance.evidence.labels import Mode, Role, Standing
from agentserver.provenance.policy import forms
from agentserver.provenance.policy.paths import argument_name, bare, covers, means

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from agentserver.provenance.confidentiality.readers import ReaderRule
    from agentserver.provenance.evidence.labels import Call, Leaf
    from agentserver.provenance.evidence.layouts import TextLayout

_T = TypeVar("_T")


class Rule(StrEnum):
    """Every reason for which a call can be reported or refused."""

    DENIED = "denied destination"
    DESTINATION = "destination from untrusted text"
    UNKNOWN_DESTINATION = "destination of unknown origin"
    SELECTOR = "choice from untrusted text"
    UNKNOWN_SELECTOR = "choice of unknown origin"
    CONTENT = "untrusted content to an authorised recipient"
    LINK = "untrusted link to an authorised recipient"
    PROSE = "destination authorised by the request alone"
    EXIT = "constructed link"
    UNFOUNDED = "call that nothing trusted stands behind"
    PLAN = "action outside the plan"
    STRICT = "tainted run"
    BUDGET = "quarantine channel exhausted"
    BOUND = "beyond what is tracked"
    READERS = "content that the receiver may not read"
    CHOICES = "choices at an exit"
    EXIT_BUDGET = "budget of exits exhausted"


class Effect(StrEnum):
    """The effect of a rule that fires."""

    IGNORE = "ignore"
    REPORT = "report"
    ASK = "ask"
    BLOCK = "block"


class PlanSource(StrEnum):
    """The part that plans have: none, that of one which a planner made, that there must be one, and a person's yes."""

    OFF = "off"
    OPTIONAL = "optional"
    REQUIRED = "required"
    CONFIRMED = "confirmed"


DEFAULT_EFFECTS: Final[dict[Rule, Effect]] = {
    Rule.CONTENT: Effect.REPORT,
    Rule.LINK: Effect.REPORT,
    Rule.PROSE: Effect.ASK,
    Rule.CHOICES: Effect.REPORT,
}
"""Rules not named here block. ``ASK`` asks in ``confirm`` and is a report in ``enforce``."""


@dataclass(frozen=True, slots=True)
class FieldRule:
    """The worth of the fields ``field`` of the listeners ``source``. Both are globs; paths omit indices.

    ``id`` names the kind of thing that the field's values identify; they then stand for nothing else.
    """

    source: str
    field: str
    standing: Standing
    id: str = ""


@dataclass(frozen=True, slots=True)
class LayoutRule:
    """The layout in which the listeners ``source``, a glob, write the text at ``field``; empty for the whole output."""

    source: str
    field: str
    layout: TextLayout


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """The part that one argument of a sink has in a decision.

    ``accepts`` names fields (``listener.field``, globs) whose values authorise this argument and no other, even when
    they are prose in a document that the request named, and ``record`` the very record that a selector of the same call
    names. ``id`` is the kind of thing that the argument chooses. ``values`` are always allowed. ``declared``
    is False for what the form of a value suggests.
    """

    name: str
    role: Role
    accepts: tuple[str, ...] = ()
    id: str = ""
    values: tuple[str, ...] = ()
    declared: bool = True


@dataclass(frozen=True, slots=True)
class SinkRule:
    """A consequential listener. What is left unset falls back to names and to the policy's own setting."""

    name: str
    arguments: tuple[ArgumentRule, ...] = ()
    mode: Mode | None = None
    effects: tuple[tuple[Rule, Effect], ...] = ()


@dataclass(frozen=True, slots=True)
class ListenerClass:
    """The class of a listener, and the reason for it. A name may be source and sink.

    ``known`` is False for a listener of which nothing is declared: it is taken for both.
    """

    source: bool
    sink: bool
    relay: bool
    why: str
    known: bool = True


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything declared. A listener in none of the lists is judged as source and as sink."""

    mode: Mode = Mode.AUDIT
    sources: tuple[str, ...] = ()
    sinks: tuple[SinkRule, ...] = ()
    trusted: tuple[str, ...] = ()
    relays: tuple[str, ...] = ()
    inert: tuple[str, ...] = ()
    """Listeners without consequences, whose words have no other origin than their arguments."""
    fields: tuple[FieldRule, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    query_authorises: bool = True
    plan: PlanSource = PlanSource.OPTIONAL
    strict: bool = False
    follow_links: bool = True
    effects: tuple[tuple[Rule, Effect], ...] = field(default=())
    limit: int = 16_000_000
    """Bytes of folded untrusted text that one conversation tracks; beyond, every sink is refused."""
    budget: float = math.inf
    """Bits about untrusted data that quarantined listeners may pass on in one conversation."""
    exit_budget: float = 64.0
    """Bits that the choices of exposed senders at exits may carry in one conversation: half of a key of 128 bits, so
    that what is left of it cannot be guessed."""
    readers: tuple[ReaderRule, ...] = ()
    """The readers of a listener's fields; anybody where nothing is said."""
    layouts: tuple[LayoutRule, ...] = ()
    """The texts that a program laid out which escapes what it is given, so that their parts are fields."""
    _classes: dict[str, ListenerClass] = field(default_factory=dict, init=False, repr=False, compare=False)
    _sinks: dict[str, SinkRule | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _worths: dict[str, tuple[FieldRule, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    # What entries say of a listener follows from both alone, and each call asks for it a dozen times.

    def classify(self, listener: str) -> ListenerClass:
        """Source, sink, relay or none of them, with the reason that ``check`` prints."""
        return _remembered(self._classes, listener, self._classify)

    def _classify(self, listener: str) -> ListenerClass:
        trusted = next((entry for entry in self.trusted if means(entry, listener)), None)
        source = None if trusted else next((entry for entry in self.sources if covers(entry, listener)), None)
        relay = next((entry for entry in (*self.relays, *self.inert) if means(entry, listener)), None)
        sink = self.sink(listener)
        said = (
            ("source by", source),
            ("sink by", sink.name if sink else None),
            ("declared trusted by", trusted),
            ("inert or a relay by", relay),
        )
        why = "; ".join(f"{word} '{entry}'" for word, entry in said if entry is not None)
        if not why:
            return ListenerClass(True, True, False, "nothing is declared of it", known=False)
        speaks = source is not None and relay is None
        return ListenerClass(speaks, sink is not None, relay is not None, why)

    def sink(self, listener: str) -> SinkRule | None:
        """The first declared rule for a listener: exact names before patterns."""
        return _remembered(self._sinks, listener, self._sink)

    def _sink(self, listener: str) -> SinkRule | None:
        rules = self.sinks
        exact = next((rule for rule in rules if rule.name == listener), None)
        return exact or next((rule for rule in rules if covers(rule.name, listener)), None)

    def mode_of(self, sink: str) -> Mode:
        """The mode of one sink."""
        rule = self.sink(sink)
        return rule.mode if rule and rule.mode else self.mode

    def effect(self, rule: Rule, sink: str) -> Effect:
        """The effect of a rule at one sink: the sink's own word, then the policy's, then the default."""
        declared = self.sink(sink)
        tables = (declared.effects if declared else (), self.effects, tuple(DEFAULT_EFFECTS.items()))
        return next((effect for table in tables for name, effect in table if name is rule), Effect.BLOCK)

    def declares(self, rule: Rule, sink: str) -> bool:
        """True when somebody said what is done about a rule at one sink."""
        declared = self.sink(sink)
        tables = (declared.effects if declared else (), self.effects)
        return any(name is rule for table in tables for name, _ in table)

    def argument(self, call: Call, leaf: Leaf) -> ArgumentRule:
        """The rule of one argument of a call: its type's word, the policy's, then what its value has the form of."""
        return self.declared(call, leaf) or ArgumentRule(
            argument_name(leaf.path), forms.role_of(leaf.value), declared=False
        )

    def declared(self, call: Call, leaf: Leaf) -> ArgumentRule | None:
        """The rule that the type of a payload, or the policy, has for an argument; ``None`` where neither does."""
        name = argument_name(leaf.path)
        path = bare(leaf.path)
        sink = self.sink(call.sink)
        rules = sink.arguments if sink else ()
        rule = next(
            (each for each in rules if fnmatchcase(path, each.name) or fnmatchcase(name, each.name)), None
        )
        above = [(known, role) for known, role in call.roles if path == known or path.startswith(f"{known}.")]
        if above:
            field, typed = max(above, key=lambda pair: len(pair[0]))
            kind = dict(call.ids).get(field, "")
            if rule is None:
                return ArgumentRule(name, typed, id=kind)
            return replace(rule, role=typed, id=kind or rule.id)
        return rule

    def worth(self, source: str, leaf: Leaf) -> FieldRule | None:
        """The declared worth of a field, by its type or by the policy; ``None`` when nothing is declared for it."""
        if leaf.standing is not None:
            return FieldRule(source, leaf.path, leaf.standing, leaf.id)
        rules = _remembered(self._worths, source, self._fields_of)
        path = bare(leaf.path) if rules else ""
        return next((rule for rule in rules if fnmatchcase(path, rule.field)), None)

    def layout(self, source: str, path: str) -> TextLayout | None:
        """The declared layout of a text. One in a list is nobody's whole output."""
        rules = (rule for rule in self.layouts if means(rule.source, source))
        field = bare(path)
        return next((rule.layout for rule in rules if rule.field == (field if rule.field else path)), None)

    def _fields_of(self, source: str) -> tuple[FieldRule, ...]:
        return tuple(rule for rule in self.fields if means(rule.source, source))

    def unused(self, listeners: Iterable[str]) -> tuple[str, ...]:
        """Declared names that mean no listener. An error: a typing mistake would switch a rule off."""
        known = tuple(listeners)
        declared = [*self.sources, *self.trusted, *self.relays, *self.inert]
        declared += [rule.name for rule in self.sinks] + [rule.source for rule in self.fields]
        declared += [rule.source for rule in self.readers] + [rule.source for rule in self.layouts]
        wrong = tuple(entry for entry in declared if not any(covers(entry, name) for name in known))
        return (*wrong, *self._unused_directories(known))

    def _unused_directories(self, known: tuple[str, ...]) -> Iterator[str]:
        """Entries of readers that name the directory of no listener."""
        for entry in (entry for rule in self.readers for entry in rule.readers):
            name = directory_of(entry)
            if name is not None and not any(_holds(name, listener) for listener in known):
                yield entry


def _remembered(known: dict[str, _T], listener: str, find: Callable[[str], _T]) -> _T:
    """The findings about a listener, kept or made now. Bounded, for an agent may call what it makes up."""
    if listener in known:
        return known[listener]
    found = find(listener)
    if len(known) < _NAMES:
        known[listener] = found
    return found


_NAMES: Final = 4_096


def _holds(directory: str, listener: str) -> bool:
    """True when the entry of a directory, with or without a field, can mean a listener."""
    return means(directory, listener) or means(directory.rpartition(".")[0], listener)
