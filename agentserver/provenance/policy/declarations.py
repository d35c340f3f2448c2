"""Policy of an operator: sources, sinks, the role of each argument and the worth of each field.

Classifies listeners by the declarations, never by their names. A listener without a declaration is both source and
sink; the form of the value decides about fields and arguments without one (see ``forms``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, TypeVar

from agentserver.provenance.confidentiality.readers import find_directory
from agentserver.provenance.evidence.labels import (
    Mode,
    Role,
    Standing,
    covers,
    extract_argument_name,
    means,
    strip_indices,
)
from agentserver.provenance.policy import forms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from agentserver.provenance.confidentiality.readers import ReaderRule
    from agentserver.provenance.evidence.labels import Call, Leaf, Scalar
    from agentserver.provenance.evidence.layouts import TextLayout

_T = TypeVar("_T")
_K = TypeVar("_K")


class Rule(StrEnum):
    """Reason for which a call can be reported or refused."""

    DENIED = "denied destination"
    DESTINATION = "destination from untrusted text"
    UNKNOWN_DESTINATION = "destination of unknown origin"
    SELECTOR = "choice from untrusted text"
    UNKNOWN_SELECTOR = "choice of unknown origin"
    UNKNOWN_AMOUNT = "amount or time of unknown origin"
    CONTENT = "untrusted content to an authorised recipient"
    LINK = "untrusted link to an authorised recipient"
    PROSE = "destination authorised by the request alone"
    EXIT = "constructed link"
    UNFOUNDED = "call without trusted support"
    PLAN = "action outside the plan"
    STRICT = "tainted run"
    BUDGET = "quarantine channel exhausted"
    BOUND = "more than provenance tracks"
    READERS = "content that the receiver may not read"
    CHOICES = "choices at an exit"
    EXIT_BUDGET = "budget of exits exhausted"


class Effect(StrEnum):
    """Effect of a rule that fires."""

    IGNORE = "ignore"
    REPORT = "report"
    ASK = "ask"
    BLOCK = "block"


class PlanSource(StrEnum):
    """Requirement for plans: off, used if a planner made one, required, or required and confirmed by a person."""

    OFF = "off"
    OPTIONAL = "optional"
    REQUIRED = "required"
    CONFIRMED = "confirmed"


DEFAULT_EFFECTS: Final[dict[Rule, Effect]] = {
    Rule.CONTENT: Effect.REPORT,
    Rule.LINK: Effect.REPORT,
    Rule.PROSE: Effect.ASK,
    Rule.UNKNOWN_AMOUNT: Effect.ASK,
    Rule.CHOICES: Effect.REPORT,
}
"""Effects of rules that do not block. ``ASK`` asks in ``confirm`` and is a report in ``enforce``."""


@dataclass(frozen=True, slots=True)
class FieldRule:
    """Worth of the fields ``field`` of the listeners ``source``. Both are globs; paths omit indices.

    ``id`` is the kind of thing that the values identify; they then authorise no other kind.
    """

    source: str
    field: str
    standing: Standing
    id: str = ""


@dataclass(frozen=True, slots=True)
class LayoutRule:
    """Layout of the text that the listeners ``source``, a glob, write at ``field``; empty for the whole output."""

    source: str
    field: str
    layout: TextLayout


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """Role of one argument of a sink.

    ``accepts`` names fields (``listener.field``, globs) whose values authorise this argument and no other, even if they
    are prose in a document that the request named; ``record`` names the record that a selector of the same call
    selects. ``id`` is the kind of thing that the argument selects. ``values`` are always allowed. ``declared`` is False
    if the role was derived from the form of the value. ``glue`` are the characters between parts that each need an
    origin of their own.
    """

    name: str
    role: Role
    accepts: tuple[str, ...] = ()
    id: str = ""
    values: tuple[str, ...] = ()
    declared: bool = True
    glue: str = ""


@dataclass(frozen=True, slots=True)
class SinkRule:
    """Listener with consequences. Unset values fall back to the policy's own settings."""

    name: str
    arguments: tuple[ArgumentRule, ...] = ()
    mode: Mode | None = None
    effects: tuple[tuple[Rule, Effect], ...] = ()


@dataclass(frozen=True, slots=True)
class ListenerClass:
    """Class of a listener, with the reason. A listener may be source and sink.

    ``known`` is False for a listener without a declaration, which counts as both.
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
    """Listeners without consequences, whose output is made from their arguments only."""
    schemas: tuple[str, ...] = ()
    """Foreign tools whose schemas count where they loosen: times by their format, and options of an enumeration."""
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
    that the other half cannot be guessed.
    """
    endorse_hours: int = 24
    """Hours for which the endorsement of a document is valid."""
    endorse_limit: float = math.inf
    """Sum of the amounts that one endorsement allows at most; without it, that of all its rows."""
    readers: tuple[ReaderRule, ...] = ()
    """Readers of a listener's fields; without an entry, every receiver may read a field."""
    locale: str = ""
    """Locale in which the principal writes ambiguous numbers and days, such as ``de`` or ``en-GB``."""
    layouts: tuple[LayoutRule, ...] = ()
    """Texts that are laid out by a program which escapes its input, so that their parts are fields."""
    _classes: dict[str, ListenerClass] = field(default_factory=dict, init=False, repr=False, compare=False)
    _sinks: dict[str, SinkRule | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _worths: dict[str, tuple[FieldRule, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    # What entries say of a listener follows from both alone, and each call asks for it a dozen times.
    _conventions: dict[str, frozenset[str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _derived: dict[tuple[str, Role], ArgumentRule] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _roles: dict[str, Role] = field(default_factory=dict, init=False, repr=False, compare=False)
    # Agents pass texts on, and say the same words again.

    def __post_init__(self) -> None:
        """Read the mode. Raises ValueError for one that does not exist, TypeError for a text as a list of names."""
        object.__setattr__(self, "mode", Mode(self.mode))
        for name in ("sources", "trusted", "relays", "inert", "schemas", "allow", "deny"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"{name} must be a tuple of names, not a text")

    @property
    def conventions(self) -> frozenset[str]:
        """Conventions in which the principal's numbers and days are read."""
        return _look_up_cached(self._conventions, self.locale, _list_conventions)

    def classify(self, listener: str) -> ListenerClass:
        """Classify a listener as source, sink, relay or none of them, with the reason that ``check`` prints."""
        known = self._classes.get(listener)
        return _look_up_cached(self._classes, listener, self._classify) if known is None else known

    def _classify(self, listener: str) -> ListenerClass:
        trusted = next((entry for entry in self.trusted if means(entry, listener)), None)
        source = None if trusted else next((entry for entry in self.sources if covers(entry, listener)), None)
        relay = next((entry for entry in (*self.relays, *self.inert) if means(entry, listener)), None)
        sink = self.sink_rule(listener)
        declared = (
            ("source by", source),
            ("sink by", sink.name if sink else None),
            ("declared trusted by", trusted),
            ("inert or a relay by", relay),
        )
        reason = "; ".join(f"{word} '{entry}'" for word, entry in declared if entry is not None)
        if not reason:
            return ListenerClass(True, True, False, "nothing is declared of it", known=False)
        speaks = source is not None and relay is None
        return ListenerClass(speaks, sink is not None, relay is not None, reason)

    def sink_rule(self, listener: str) -> SinkRule | None:
        """Find the declared rule for a listener that says most of its name."""
        if listener in self._sinks:
            return self._sinks[listener]
        return _look_up_cached(self._sinks, listener, self._find_sink)

    def _find_sink(self, listener: str) -> SinkRule | None:
        exact = next((rule for rule in self.sinks if rule.name == listener), None)
        covering = (rule for rule in self.sinks if covers(rule.name, listener))
        return exact or min(covering, key=lambda rule: rank_vagueness(rule.name), default=None)

    def mode_of(self, sink: str) -> Mode:
        """Look up the mode of one sink."""
        rule = self.sink_rule(sink)
        return rule.mode if rule and rule.mode else self.mode

    def effect_of(self, rule: Rule, sink: str) -> Effect:
        """Look up the effect of a rule at one sink: in the sink's table, then the policy's, then the defaults."""
        declared = self.sink_rule(sink)
        for table in (declared.effects if declared else (), self.effects):
            for name, effect in table:
                if name is rule:
                    return effect
        return DEFAULT_EFFECTS.get(rule, Effect.BLOCK)

    def declares(self, rule: Rule, sink: str) -> bool:
        """Check whether a table of the sink or the policy sets the effect of a rule."""
        declared = self.sink_rule(sink)
        tables = (declared.effects if declared else (), self.effects)
        return any(name is rule for table in tables for name, _ in table)

    def argument_rule(self, call: Call, leaf: Leaf) -> ArgumentRule:
        """Find the rule of an argument: by its type, by the policy, or else by the form of its value."""
        return self.declared_rule(call, leaf) or self.derive_rule(call, leaf)

    def rules_arguments(self, call: Call) -> bool:
        """Check whether the policy or a payload's type declares the rule of any argument of a call."""
        sink = self.sink_rule(call.sink)
        return bool(call.roles or (sink is not None and sink.arguments))

    def derive_rule(self, call: Call, leaf: Leaf) -> ArgumentRule:
        """Derive the rule of an argument that nobody declared from its schema and the form of its value."""
        listed = call.options and list_alternatives(call, leaf)
        role = Role.OPTION if listed else self._derive_role(leaf.value)
        if call.formats and (stated_role := _find_stated(call, leaf)) is not None:
            # A destination needs more than any other role does, so that its format counts by itself.
            loosens = role is not Role.DESTINATION and self.accepts_schema(call.sink)
            role = stated_role if stated_role is Role.DESTINATION or loosens else role
        return _look_up_cached(self._derived, (leaf.path, role), _make_derived_rule)

    def _derive_role(self, value: Scalar) -> Role:
        if isinstance(value, str) and len(value) <= _CACHED_LENGTH:
            return _derive_cached(self._roles, value)
        return forms.derive_argument_role(value)

    def accepts_schema(self, listener: str) -> bool:
        """Check whether the operator accepts what the schema of a foreign tool loosens."""
        return any(means(entry, listener) for entry in self.schemas)

    def declared_rule(self, call: Call, leaf: Leaf) -> ArgumentRule | None:
        """Find the rule that a payload's type or the policy declares for an argument; ``None`` if there is no rule."""
        if not self.rules_arguments(call):
            return None
        sink = self.sink_rule(call.sink)
        rules = sink.arguments if sink else ()
        name = extract_argument_name(leaf.path)
        path = strip_indices(leaf.path)
        at = _find_most_exact([each.name for each in rules], path, name)
        rule = None if at is None else rules[at]
        above = [(known, role) for known, role in call.roles if path == known or path.startswith(f"{known}.")]
        if above:
            field, typed = max(above, key=lambda pair: len(pair[0]))
            kind = dict(call.ids).get(field, "")
            if rule is None:
                return ArgumentRule(name, typed, id=kind)
            return replace(rule, role=typed, id=kind or rule.id)
        return rule

    def rank_argument(self, call: Call, leaf: Leaf) -> int | None:
        """Find the position of an argument's rule among the rules of its sink or payload type; None without one."""
        path, name = strip_indices(leaf.path), extract_argument_name(leaf.path)
        sink = self.sink_rule(call.sink)
        names = [known for known, _ in call.roles] or [each.name for each in (sink.arguments if sink else ())]
        return _find_most_exact(names, path, name)

    def rates_fields(self, source: str) -> bool:
        """Check whether the policy declares the worth of any field of a listener."""
        return bool(_look_up_cached(self._worths, source, self._collect_fields))

    def field_rule(self, source: str, leaf: Leaf) -> FieldRule | None:
        """Find the worth that a field's type or the policy declares; ``None`` without a declaration.

        ``"*": prose`` at a declared source speaks of no field: the form of a value says more of it.
        """
        if leaf.standing is not None:
            return FieldRule(source, leaf.path, leaf.standing, leaf.id)
        rules = _look_up_cached(self._worths, source, self._collect_fields)
        if not rules:
            return None
        if leaf.unread:  # nobody knows which of the fields it has
            return FieldRule(source, leaf.path, Standing.PROSE)
        path = strip_indices(leaf.path)
        rule = next((rule for rule in rules if fnmatchcase(path, rule.field)), None)
        if rule is None or rule.standing is not Standing.PROSE or rank_vagueness(rule.field)[1]:
            return rule
        listener = self.classify(source)
        return None if listener.known and listener.source else rule

    def layout_of(self, source: str, path: str) -> TextLayout | None:
        """Find the declared layout of a text. A text in a list is never the whole output."""
        field = strip_indices(path)
        rules = (rule for rule in self.layouts if rule.field == (field if rule.field else path))
        meant = (rule for rule in rules if means(rule.source, source))
        found = min(meant, key=lambda rule: rank_vagueness(rule.source), default=None)
        return found.layout if found else None

    def _collect_fields(self, source: str) -> tuple[FieldRule, ...]:
        """List the rules of a source's fields, the most exact ones first."""
        rules = (rule for rule in self.fields if means(rule.source, source))
        return tuple(
            sorted(rules, key=lambda rule: (rank_vagueness(rule.source), rank_vagueness(rule.field)))
        )

    def find_unused(self, listeners: Iterable[str]) -> tuple[str, ...]:
        """Find declared names that match no listener. They are errors: a typing mistake would disable a rule."""
        known = tuple(listeners)
        declared = [*self.sources, *self.trusted, *self.relays, *self.inert, *self.schemas]
        declared += [rule.name for rule in self.sinks] + [rule.source for rule in self.fields]
        declared += [rule.source for rule in self.readers] + [rule.source for rule in self.layouts]
        wrong = tuple(entry for entry in declared if not any(covers(entry, name) for name in known))
        return (*wrong, *self._find_unused_directories(known))

    def _find_unused_directories(self, known: tuple[str, ...]) -> Iterator[str]:
        """Find entries of readers that name the directory of no listener."""
        for entry in (entry for rule in self.readers for entry in rule.readers):
            name = find_directory(entry)
            if name is not None and not any(_matches_directory(name, listener) for listener in known):
                yield entry


def rank_vagueness(entry: str) -> tuple[bool, int]:
    """Rank a declared name: names without a wildcard first, then those with more characters of their own.

    The order of lines in a file decides nothing, since a mapping has none: ``*`` sorts before each name.
    """
    own = sum(character not in "*?[]" for character in entry)
    return own < len(entry), -own


def _find_most_exact(names: Sequence[str], path: str, name: str) -> int | None:
    """Find the position of the most exact declared name that covers an argument, by its path or its own name."""
    covering = [at for at, each in enumerate(names) if fnmatchcase(path, each) or fnmatchcase(name, each)]
    return min(covering, key=lambda at: rank_vagueness(names[at]), default=None)


def _find_stated(call: Call, leaf: Leaf) -> Role | None:
    """Find the role that a schema states for a text by its format."""
    path = strip_indices(leaf.path)
    is_text = isinstance(leaf.value, str)
    return next((role for known, role in call.formats if is_text and known == path), None)


def list_alternatives(call: Call, leaf: Leaf) -> tuple[str, ...]:
    """List the values that the schema of a call allows for an argument; empty if its value is none of them."""
    path = strip_indices(leaf.path)
    listed = next((values for known, values in call.options if known == path), ())
    return listed if isinstance(leaf.value, str) and leaf.value in listed else ()


def _look_up_cached(known: dict[_K, _T], name: _K, find: Callable[[_K], _T]) -> _T:
    """Look a listener or a field up in a cache. It is bounded, because an agent may call invented names."""
    if name in known:
        return known[name]
    found = find(name)
    if len(known) < _CACHED_NAMES:
        known[name] = found
    return found


def _list_conventions(locale: str) -> frozenset[str]:
    from agentserver.provenance.evidence.lexicon import list_conventions

    return list_conventions(locale) or frozenset()


def _make_derived_rule(about: tuple[str, Role]) -> ArgumentRule:
    """Make the rule of an argument that nobody declared, of its path and the role that its form has."""
    path, role = about
    return ArgumentRule(extract_argument_name(path), role, declared=False)


def _derive_cached(known: dict[str, Role], text: str) -> Role:
    """Derive the role of a text. The cache is emptied when it is full, since later texts repeat later ones."""
    role = known.get(text)
    if role is None:
        if len(known) >= _CACHED_TEXTS:
            known.clear()
        known[text] = role = forms.derive_role(text)
    return role


_CACHED_NAMES: Final = 4_096
_CACHED_TEXTS: Final = 1_024
_CACHED_LENGTH: Final = 256
"""Maximum characters of a text whose role is cached."""


def _matches_directory(directory: str, listener: str) -> bool:
    """Check whether a directory entry, with or without a field, can match a listener."""
    return means(directory, listener) or means(directory.rpartition(".")[0], listener)
