"""The closed vocabulary of handoffs.

A
vocabulary that exists has been proved: every value is a slug by its type, whether a template interpolates it or the
target is only given it. Descriptions belong in the free texts, which travel as data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from string import Formatter
from typing import TYPE_CHECKING, Final, TypeAlias

from agentserver.hygiene import slug
from agentserver.hygiene.objections import Objection, quote
from agentserver.hygiene.simple_types import Judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from agentserver.handoff.parameters import Parameter
    from agentserver.hygiene.simple_types import Lexical
    from agentserver.hygiene.slug import Slug

__all__ = ["Intent", "Vocabulary", "vocabulary"]

LONGEST: Final = 4000
"""Characters of a template."""

_CLAUSE = re.compile(r"[^\n]*?[.!?](?=\s|$)\s*|[^\n]+\s*|\n\s*")
_PLACE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_PLAIN = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*")

Piece: TypeAlias = "tuple[str, str | None]"
"""A text, and the name of the value that follows it."""


class TemplateError(ValueError):
    """Text that is no template; the message says what would work."""


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template: its clauses, each a sequence of pieces."""

    clauses: tuple[tuple[Piece, ...], ...]
    names: frozenset[str] = field(init=False, compare=False, repr=False)
    """The names of the values that it interpolates."""
    _full_pattern: str = field(init=False, compare=False, repr=False)
    """The text with no clause dropped, as a form of Python's ``%``."""

    def __post_init__(self) -> None:
        """Write down once what nearly every rendering is: all clauses, with all of their values."""
        pieces = [piece for clause in self.clauses for piece in clause]
        whole = "".join(
            text.replace("%", "%%") + ("" if name is None else f"%({name})s") for text, name in pieces
        )
        object.__setattr__(self, "names", frozenset(name for _, name in pieces if name is not None))
        object.__setattr__(self, "_full_pattern", whole)

    def holds_with(self, present: frozenset[str]) -> bool:
        """Check whether a clause is left when only these values are present."""
        return any(all(name is None or name in present for _, name in clause) for clause in self.clauses)

    def render(self, values: Mapping[str, str]) -> str:
        """Return the steering text; a clause that names an absent value is dropped whole."""
        if values.keys() >= self.names:
            return (self._full_pattern % values).strip()
        parts = (
            "".join(text + (values[name] if name is not None else "") for text, name in clause)
            for clause in self.clauses
            if all(name is None or name in values for _, name in clause)
        )
        return "".join(parts).strip()


def parse(text: str) -> Template:
    """Read a template. Raises TemplateError. ``{{`` and ``}}`` are braces."""
    if not text.strip() or len(text) > LONGEST:
        raise TemplateError(f"must hold 1 to {LONGEST} characters")
    if not _PLAIN.fullmatch(text):
        raise TemplateError("must not hold control characters or characters that nobody sees")
    return Template(tuple(_collect_pieces(clause) for clause in _split(text)))


def _split(text: str) -> list[str]:
    """Return the clauses, with their ends outside of placeholders."""
    clauses: list[str] = []
    for found in _CLAUSE.finditer(text):
        if clauses and clauses[-1].count("{") > clauses[-1].count("}"):
            clauses[-1] += found.group()
        else:
            clauses.append(found.group())
    return clauses


def _collect_pieces(clause: str) -> tuple[Piece, ...]:
    try:
        parsed = list(Formatter().parse(clause))
    except ValueError:
        raise TemplateError("has a brace without its partner; write {{ or }} for the character") from None
    for _, name, form, conversion in parsed:
        if name is not None and (form or conversion or not _PLACE_NAME.fullmatch(name)):
            raise TemplateError("may hold {name} alone: no attributes, indexes, formats or conversions")
    return tuple((text, name) for text, name, _, _ in parsed)


NOTE: Final = 500
"""Characters of an intent's free text, unless it says otherwise."""
EVENT: Final = 2000
"""Characters of the free text that any request may carry in addition to its parameters."""
LEGACY: Final = "legacy"
"""The key of a fault of the intent that older requests are taken for."""
FREE: Final = 10_000
"""The most that a free text may be allowed."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing that agents may ask of others, as its author declares it.

    Args:
        name: as requests say it.
        targets: the listeners that may be asked.
        template: the steering text, with ``{parameter}`` where a value goes.
        parameters: the typed values.
        note: name of the parameter that is free text, which travels in the data frame alone; empty without one.
        note_limit: characters of that text.
        event_limit: characters of the free text; 0 if it is not allowed.
        allow_peers: the only peers that the target may reach while it acts on the handoff; None for all of them.
    """

    name: str
    targets: tuple[str, ...]
    template: str
    parameters: tuple[Parameter, ...] = ()
    note: str = ""
    note_limit: int = NOTE
    event_limit: int = EVENT
    allow_peers: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class VocabularyFault:
    """One reason why a vocabulary is refused.

    Args:
        intent: the intent concerned.
        field: the parameter or key concerned; empty for all of it.
        detail: the fault and a correction.
    """

    intent: str
    field: str
    detail: str

    def __str__(self) -> str:
        return f"intent {self.intent}{f', {self.field}' if self.field else ''}: {self.detail}"


@dataclass(frozen=True, slots=True)
class CheckedIntent:
    """An intent whose template was proved.

    Args:
        slugs: the proof for each parameter.
        judge: libxml2's verdict on parameter texts, by name.
        names: of the parameters and of the note: what a request may hold.
    """

    intent: Intent
    template: Template
    slugs: Mapping[str, Slug]
    judge: Judge = field(compare=False, repr=False)
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The requests that agents may make of each other.

    Args:
        intents: by name.
        targets: the allowlist: every listener that may be asked anything.
        legacy: the intent that requests of the older form, free text alone, are taken for; None refuses them.
    """

    intents: Mapping[str, CheckedIntent]
    targets: frozenset[str]
    legacy: str | None = None


def vocabulary(
    intents: Iterable[Intent], targets: Iterable[str] | None = None, legacy: str | None = None
) -> Vocabulary | tuple[VocabularyFault, ...]:
    """Check and prove a set of intents; the faults when there are any.

    Args:
        intents: the declarations.
        targets: the allowlist; the targets of the intents when None.
        legacy: see Vocabulary.
    """
    declared = tuple(intents)
    allowed = (
        frozenset(targets)
        if targets is not None
        else frozenset(at for each in declared for at in each.targets)
    )
    faults: list[VocabularyFault] = []
    checked: dict[str, CheckedIntent] = {}
    for intent in declared:
        if intent.name in checked:
            faults.append(VocabularyFault(intent.name, "name", "is declared twice"))
        faults.extend(_iter_facts(intent, allowed))
        found = _prove_intent(intent)
        if isinstance(found, CheckedIntent):
            checked[intent.name] = found
        else:
            faults.extend(found)
    faults.extend(_iter_legacy(checked, legacy))
    return tuple(faults) or Vocabulary(checked, allowed, legacy)


def _iter_facts(intent: Intent, allowed: AbstractSet[str]) -> Iterator[VocabularyFault]:
    if not _NAME.fullmatch(intent.name):
        yield VocabularyFault(
            quote(intent.name), "name", "must be 1 to 64 letters, digits, - _ and ., a letter first"
        )
    if not intent.targets:
        yield VocabularyFault(intent.name, "target", "must name at least one listener")
    for target in intent.targets:
        if target not in allowed:
            yield VocabularyFault(intent.name, "target", f"{quote(target)} is not in the allowlist")
    if intent.note and not 1 <= intent.note_limit <= FREE:
        yield VocabularyFault(intent.name, intent.note, f"must be bounded: 1 to {FREE} characters")
    if not 0 <= intent.event_limit <= FREE:
        yield VocabularyFault(intent.name, "event", f"must be bounded: 0 to {FREE} characters")
    names = [parameter.name for parameter in intent.parameters]
    for name in names:
        if not _FIELD.fullmatch(name):
            yield VocabularyFault(
                intent.name, quote(name), "is no name of a parameter: letters, digits, - and _"
            )
        if names.count(name) > 1 or name == intent.note:
            yield VocabularyFault(intent.name, name, "is declared twice")


def _prove_intent(intent: Intent) -> CheckedIntent | tuple[VocabularyFault, ...]:
    try:
        template = parse(intent.template)
    except TemplateError as error:
        return (VocabularyFault(intent.name, "template", str(error)),)
    slugs: dict[str, Slug] = {}
    faults: list[VocabularyFault] = []
    for name in sorted(template.names.union(each.name for each in intent.parameters)):
        found = _prove_interpolated(intent, name)
        if isinstance(found, VocabularyFault):
            faults.append(found)
        else:
            slugs[name] = found
    if not template.holds_with(frozenset(each.name for each in intent.parameters if each.required)):
        faults.append(
            VocabularyFault(intent.name, "template", "is empty when no optional parameter is given")
        )
    judge = _judge(intent)
    if isinstance(judge, VocabularyFault):
        faults.append(judge)
        return tuple(faults)
    names = frozenset([*(each.name for each in intent.parameters), *([intent.note] if intent.note else [])])
    return tuple(faults) or CheckedIntent(intent, template, slugs, judge, names)


def _judge(intent: Intent) -> Judge | VocabularyFault:
    try:
        return Judge({each.name: each.lexical for each in intent.parameters if _FIELD.fullmatch(each.name)})
    except ValueError as error:
        return VocabularyFault(intent.name, "parameters", str(error))


def _prove_interpolated(intent: Intent, name: str) -> Slug | VocabularyFault:
    if name == intent.note:
        return VocabularyFault(intent.name, name, "is free text, which a template must not interpolate")
    parameter = next((each for each in intent.parameters if each.name == name), None)
    if parameter is None:
        known = ", ".join(each.name for each in intent.parameters) or "none"
        return VocabularyFault(intent.name, "template", f"{{{name}}} is no parameter; there are: {known}")
    found = slug.prove(parameter.lexical, parameter.words)
    return VocabularyFault(intent.name, name, found.detail) if isinstance(found, Objection) else found


def _iter_legacy(checked: Mapping[str, CheckedIntent], legacy: str | None) -> Iterator[VocabularyFault]:
    if legacy is None:
        return
    found = checked.get(legacy)
    if found is None:
        yield VocabularyFault(legacy, LEGACY, "is to take older requests but is not declared")
    elif any(parameter.required for parameter in found.intent.parameters):
        yield VocabularyFault(
            legacy, LEGACY, "is to take older requests, which have no parameters, but requires one"
        )


def find_narrow_peers(
    vocabulary: Vocabulary, peers: Mapping[str, AbstractSet[str]]
) -> tuple[VocabularyFault, ...]:
    """Places where ``allow_peers`` names what the target cannot reach anyway, or a target does not exist.

    Args:
        vocabulary: the intents.
        peers: for each listener the peers that it declares.
    """
    faults = []
    for checked in vocabulary.intents.values():
        intent = checked.intent
        for target in intent.targets:
            if target not in peers:
                faults.append(VocabularyFault(intent.name, "target", f"{quote(target)} is no listener"))
            elif intent.allow_peers is not None and (beyond := intent.allow_peers - peers[target]):
                faults.append(
                    VocabularyFault(
                        intent.name, "allow_peers", f"{target} has no peer {', '.join(sorted(beyond))}"
                    )
                )
    return tuple(faults)


# --- the part shown to a listener ------------------------------------------------------------------------------------

INTRODUCTION: Final = """\
## Handing over work
Send a Handoff with one of these intents, and each value as a param. Free text is shown to the listener as data."""
MOST: Final = 20_000
"""Characters of the text; intents beyond it are counted."""


def describe_offers(vocabulary: Vocabulary, peers: AbstractSet[str]) -> str:
    """Return the intents that let a listener with these peers hand work over; empty without any."""
    lines = list(_iter_offers((checked.intent for checked in vocabulary.intents.values()), peers))
    if not lines:
        return ""
    shown_lines: list[str] = [INTRODUCTION]
    room = MOST - len(INTRODUCTION)
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        shown_lines.append(line)
    left_out = len(lines) + 1 - len(shown_lines)
    return "\n".join([*shown_lines, *([f"{left_out} more intents are not shown."] if left_out else [])])


def _iter_offers(intents: Iterable[Intent], peers: AbstractSet[str]) -> Iterator[str]:
    for intent in intents:
        targets = [target for target in intent.targets if target in peers]
        if targets:
            fields = [_describe_value(each) for each in intent.parameters]
            fields += [f"note: optional, free text of at most {intent.note_limit} characters"] * bool(
                intent.note
            )
            yield f"- {intent.name} (to {' or '.join(targets)}): {'; '.join(fields) or 'no values'}"


def _describe_value(parameter: Parameter) -> str:
    optional = "" if parameter.required else "optional, "
    return f"{parameter.name}: {optional}{_describe_shape(parameter.lexical)}"


def _describe_shape(lexical: Lexical) -> str:
    if lexical.choices:
        return f"one of {', '.join(lexical.choices)}"
    length = "" if lexical.max_length is None else f", at most {lexical.max_length} characters"
    return f"text that matches {' and '.join(lexical.patterns)}{length}"
