"""The declarations of an operator: sources, sinks, what each argument decides, what a field is worth.

Owns the policy as a frozen value and the classification of listeners by it. Refuses to look at data. Where
nothing is declared, names decide (see ``names``); a declaration always wins.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from agentserver.provenance.confidentiality.readers import directory_of
from agentserver.provenance.evidence.destinations import destination, leads_out
from agentserver.provenance.evidence.labels import Mode, Role, Standing
from agentserver.provenance.evidence.leaves import text_of
from agentserver.provenance.policy import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agentserver.provenance.confidentiality.readers import ReaderRule
    from agentserver.provenance.evidence.labels import Call, Leaf
    from agentserver.provenance.policy.actions import Action


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
    PLAN = "action that nobody asked for"
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
    """The origin of a conversation's plan: none, words of the request, a planner, or a planner and a person."""

    OFF = "off"
    QUERY = "query"
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
    """The worth of the fields ``field`` of the listeners ``source``. Both are globs; paths omit indices."""

    source: str
    field: str
    standing: Standing


@dataclass(frozen=True, slots=True)
class ArgumentRule:
    """The part that one argument of a sink has in a decision.

    ``accepts`` names fields (``listener.field``, globs) whose values authorise this argument and no other,
    even when they are prose; ``asked`` in it stands for every document that the trusted query named, ``record`` for the
    very record that a selector of the same call names.
    """

    name: str
    role: Role
    accepts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkRule:
    """A consequential listener. What is left unset falls back to names and to the policy's own setting."""

    name: str
    arguments: tuple[ArgumentRule, ...] = ()
    actions: frozenset[Action] | None = None
    mode: Mode | None = None
    effects: tuple[tuple[Rule, Effect], ...] = ()


@dataclass(frozen=True, slots=True)
class ListenerClass:
    """The class of a listener, and the reason for it. A name may be source and sink."""

    source: bool
    sink: bool
    relay: bool
    why: str


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything declared. ``None`` for ``sources`` or ``sinks`` leaves that question to names."""

    mode: Mode = Mode.AUDIT
    sources: tuple[str, ...] | None = None
    sinks: tuple[SinkRule, ...] | None = None
    trusted: tuple[str, ...] = ()
    relays: tuple[str, ...] = ()
    fields: tuple[FieldRule, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    query_authorises: bool = True
    plan: PlanSource = PlanSource.QUERY
    strict: bool = False
    infer_fields: bool = True
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
    """Who may be given the content of a listener's fields; anybody where nothing is said."""
    closed: bool = False
    """True makes a listener that is nothing else a relay. Otherwise its words count as a record."""

    def classify(self, listener: str) -> ListenerClass:
        """Source, sink or relay, with the reason that ``check`` prints."""
        relay = any(means(entry, listener) for entry in self.relays)
        source, why_source = self._is_source(listener)
        sink, why_sink = self._is_sink(listener)
        why = f"{why_source}; {why_sink}"
        if relay:
            return ListenerClass(source=False, sink=sink, relay=True, why=f"{why}; declared relay")
        if self.closed and not (source or sink or self._is_trusted(listener)):
            return ListenerClass(source=False, sink=False, relay=True, why=f"{why}; its words are no record")
        return ListenerClass(source, sink, relay=False, why=why)

    def _is_trusted(self, listener: str) -> bool:
        return any(means(entry, listener) for entry in self.trusted)

    def _is_source(self, listener: str) -> tuple[bool, str]:
        if self._is_trusted(listener):
            return False, "declared trusted"
        entry = next((entry for entry in self.sources or () if covers(entry, listener)), None)
        if entry is not None:
            return True, f"source by '{entry}'"
        if self.sources is not None:
            return False, "not among the sources"
        found = names.is_source(listener)
        return found, "name reads like a source" if found else "name reads like no source"

    def _is_sink(self, listener: str) -> tuple[bool, str]:
        rule = self.sink(listener)
        if rule is not None:
            return True, f"sink by '{rule.name}'"
        if self.sinks is not None:
            return False, "not among the sinks"
        found = names.is_sink(listener)
        return found, "name reads like a sink" if found else "name reads like no sink"

    def sink(self, listener: str) -> SinkRule | None:
        """The first declared rule for a listener: exact names before patterns."""
        rules = self.sinks or ()
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
        """The rule of one argument of a call: its type's word, the policy's, then its form's and its name's."""
        return self.declared(call, leaf) or ArgumentRule(
            argument_name(leaf.path), self._undeclared(call, leaf)
        )

    def _undeclared(self, call: Call, leaf: Leaf) -> Role:
        """At a listener that fetches, and where a name says that it decides nothing, the form of a value decides."""
        role = _by_name(call, leaf)
        fetches = leads_out(text_of(leaf.value)) and self.classify(call.sink).source
        if fetches or (role is Role.INERT and isinstance(leaf.value, str) and _points(leaf.value)):
            return Role.DESTINATION
        return role

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
            typed = max(above, key=lambda pair: len(pair[0]))[1]
            return ArgumentRule(name, typed, rule.accepts if rule else ())
        return rule

    def standing(self, source: str, leaf: Leaf) -> Standing | None:
        """The declared worth of a field; ``None`` when nothing is declared for it."""
        if leaf.standing is not None:
            return leaf.standing
        path = bare(leaf.path)
        for rule in self.fields:
            if means(rule.source, source) and fnmatchcase(path, rule.field):
                return rule.standing
        return None

    def unused(self, listeners: Iterable[str]) -> tuple[str, ...]:
        """Declared names that mean no listener. An error: a typing mistake would switch a rule off."""
        known = tuple(listeners)
        declared = [*(self.sources or ()), *self.trusted, *self.relays]
        declared += [rule.name for rule in self.sinks or ()] + [rule.source for rule in self.fields]
        declared += [rule.source for rule in self.readers]
        wrong = tuple(entry for entry in declared if not any(covers(entry, name) for name in known))
        return (*wrong, *self._unused_directories(known))

    def _unused_directories(self, known: tuple[str, ...]) -> Iterator[str]:
        """Entries of readers that name the directory of no listener."""
        for entry in (entry for rule in self.readers for entry in rule.readers):
            name = directory_of(entry)
            if name is not None and not any(_holds(name, listener) for listener in known):
                yield entry


def _holds(directory: str, listener: str) -> bool:
    """True when the entry of a directory, with or without a field, can mean a listener."""
    return means(directory, listener) or means(directory.rpartition(".")[0], listener)


def covers(entry: str, listener: str) -> bool:
    """True when a declared source or sink means a listener: exactly, by glob, or as its first whole tokens."""
    wanted = names.tokens(entry)
    prefix = bool(wanted) and "*" not in entry and names.tokens(listener)[: len(wanted)] == wanted
    return prefix or means(entry, listener)


def means(entry: str, listener: str) -> bool:
    """True when a name that loosens a rule means a listener: exactly or by glob, never by its beginning."""
    return entry == listener or fnmatchcase(listener, entry)


def bare(path: str) -> str:
    """A path without indices: ``items[3].to[0]`` is ``items.to``."""
    return re.sub(r"\[\d+\]", "", path).lstrip(".")


def argument_name(path: str) -> str:
    """The argument that a path lies in: ``attachments[0].id`` lies in ``attachments``."""
    return bare(path).partition(".")[0]


def _by_name(call: Call, leaf: Leaf) -> Role:
    role = names.role_of(leaf.path) or names.role_of(argument_name(leaf.path))
    if not names.SECRETS.isdisjoint(names.tokens(leaf.path)):
        return Role.SELECTOR
    if role is not None:
        return role
    if isinstance(leaf.value, str) and _points(leaf.value):
        return Role.DESTINATION
    aimed = any(
        names.role_of(other.path) is Role.DESTINATION and other.value not in (None, "")
        for other in call.arguments
    )
    return Role.PAYLOAD if aimed else Role.SELECTOR


def _points(text: str) -> bool:
    """True when a text is, or has in it, something of the form of an address or a link."""
    return "." in text and ("://" in text or "@" in text[1:] or destination(text).external)
