"""Suggests a policy for undeclared listeners, as YAML for a person to edit.

Suggestions follow from the types and recorded values of a listener, never from names. No recorded value is shown, and
every line that types and forms do not prove is a comment.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.policy import forms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


class FieldForm(StrEnum):
    """Part of a field's type that affects the suggestion."""

    TEXT = "text"
    CHOICE = "one of a few words"
    FLAG = "a truth value"
    NUMBER = "a number"
    TIME = "a moment"
    ADDRESS = "an address by its format"


@dataclass(frozen=True, slots=True)
class FieldShape:
    """Field of a payload.

    Args:
        path: the path without indices.
        form: the form of its type.
        values: its texts in recorded messages; only fields of form ``TEXT`` use them.
    """

    path: str
    form: FieldForm
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListenerShape:
    """Listener without a declaration.

    Args:
        name: the name of the listener.
        takes: the fields of its payload, except those whose types declare roles.
        says: the fields of its answers, except those whose types declare standings.
        agent: whether a model speaks through it.
        declared: whether its trust is declared, so that only roles that its types state are suggested.
    """

    name: str
    takes: tuple[FieldShape, ...] = ()
    says: tuple[FieldShape, ...] = ()
    agent: bool = False
    declared: bool = False


Place: TypeAlias = tuple[str, ...]
"""Place of a line in a suggestion: its key, after the keys above it."""


@dataclass(frozen=True, slots=True)
class _Line:
    """Key of the suggestion; it is active if it is known, or if a key below it is.

    ``excludes`` are the lines that it replaces. An ``optional`` line is written only with a note.
    """

    key: str
    value: str = ""
    why: str = ""
    known: bool = True
    below: tuple[_Line, ...] = ()
    excludes: tuple[Place, ...] = ()
    optional: bool = False

    @property
    def counts(self) -> bool:
        return any(line.counts for line in self.below) if self.below and not self.known else self.known


_ROLES: Final = {
    FieldForm.CHOICE: Role.SELECTOR,
    FieldForm.FLAG: Role.OPTION,
    FieldForm.NUMBER: Role.QUANTITY,
    FieldForm.TIME: Role.TIME,
    FieldForm.ADDRESS: Role.DESTINATION,
}
_CHOICES: Final = {
    FieldForm.CHOICE: "; or option, if any text may choose",
    FieldForm.FLAG: "; or selector, if it grants or publishes",
}
_HEAD: Final = (
    "Check each line before use: it follows only from types and recorded values.",
    "Lines that are commented out are uncertain. Choose, and remove the comment mark, also on the keys above.",
)
_SOURCE: Final = "a stranger's words; else put it under trusted, relays or inert"
_SINK: Final = "judged as one; remove it if it has no effects"
_STATED: Final = "what its locked schema states"
_TRUSTED: Final = "its fields may choose an object, never a recipient, if only you or the service write them"
_INERT: Final = "if it has no consequences and repeats nothing but its arguments"
_AGENT: Final = "a model speaks: its words vouch for nothing"
KEY: Final = 1000
"""Longest key that is suggested, in characters; YAML allows 1,024. Tools and fields with longer names are left out."""
_WORD: Final = re.compile(r"[A-Za-z][\w.-]*")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Suggested policy, line by line.

    Args:
        heads: comments at its beginning.
        lines: its keys.
    """

    heads: tuple[str, ...]
    lines: tuple[_Line, ...]

    def format(self, notes: Mapping[Place, str] = MappingProxyType({})) -> str:
        """Format the suggestion as YAML that ``read_policy`` accepts, with a note after the comment of a line."""
        shown = [text for line in self.lines for text in _format(line, "", notes)]
        heads = [f"# {head}" for head in self.heads]
        return "\n".join([*heads, *shown] if self._active else [*heads, *shown, "{}"]) + "\n"

    @property
    def _active(self) -> bool:
        return any(line.counts for line in self.lines)

    def list_places(self) -> list[tuple[Place, bool]]:
        """List the lines that can be switched, each with whether it is active."""
        return [found for line in self.lines if line.below for found in _list_places(line, ())]

    def switch(self, place: Place) -> Suggestion:
        """Return the suggestion with one line switched on or off. A line that is switched on replaces others."""
        line = self._find(place)
        lines = tuple(_switch(each, place, on=not line.counts) for each in self.lines)
        for other in () if line.counts else line.excludes:
            lines = tuple(_switch(each, other, on=False) for each in lines)
        return replace(self, lines=lines)

    def _find(self, place: Place) -> _Line:
        below = self.lines
        for key in place[:-1]:
            below = next(line for line in below if line.key == key).below
        return next(line for line in below if line.key == place[-1])


def _list_places(line: _Line, above: Place) -> Iterator[tuple[Place, bool]]:
    """Yield the lines that declare something: those without keys below them, and sinks."""
    place = (*above, line.key)
    if not line.below or above == ("sinks",):
        yield place, line.counts
    for inner in line.below:
        yield from _list_places(inner, place)


def _switch(line: _Line, place: Place, *, on: bool) -> _Line:
    """Switch the line at a place, and off with it all below."""
    if not place or line.key != place[0]:
        return line
    remaining = place[1:]
    if remaining:
        return replace(line, below=tuple(_switch(inner, remaining, on=on) for inner in line.below))
    below = line.below if on else tuple(_switch(inner, (inner.key,), on=False) for inner in line.below)
    return replace(line, known=on, below=below)


def suggest(
    listeners: Iterable[ListenerShape], about: str, *, mode: str = "", alternatives: bool = False
) -> Suggestion:
    """Suggest a policy, with a line for each listener under each possible key.

    Args:
        listeners: the undeclared listeners.
        about: the purpose of the suggestion, written as its first comment.
        mode: the mode of the whole policy; empty if it is declared already.
        alternatives: whether to add lines that declare each tool as trusted or inert, which are not active.
    """
    given = tuple(listeners)
    found = tuple(_keep_keys(one) for one in given if _can_be_key(one.name))
    tools = [one for one in found if not one.agent]
    heads = (about, *_HEAD) if given else ("Of each listener something is declared.",)
    if len(found) < len(given):
        heads = (*heads, f"Left out: {len(given) - len(found)} whose names are blank or too long for YAML.")
    lines = [_Line("mode", mode, "audit reports what would be refused")] if mode else []
    lines += _list_names("sources", [one.name for one in tools if not one.declared], _SOURCE)
    lines += _list_names("relays", [one.name for one in found if one.agent], _AGENT)
    if tools:
        lines.append(_Line("sinks", known=False, below=tuple(map(_suggest_sink, tools))))
    fields = tuple(
        _Line(_quote_key(one.name), known=False, below=tuple(map(_suggest_worth, one.says)))
        for one in tools
        if one.says and not one.declared
    )
    if fields:
        lines.append(_Line("fields", known=False, below=fields))
    tools = [one for one in tools if not one.declared]
    if alternatives and tools:
        lines += [
            _suggest_alternatives("trusted", tools, _TRUSTED),
            _suggest_alternatives("inert", tools, _INERT),
        ]
    return Suggestion(heads, tuple(lines))


def _suggest_alternatives(key: str, tools: Sequence[ListenerShape], reason: str) -> _Line:
    return _Line(
        key, known=False, below=tuple(_suggest_alternative(key, one, reason) for one in tools), optional=True
    )


def _suggest_alternative(key: str, tool: ListenerShape, reason: str) -> _Line:
    name = _quote_key(tool.name)
    source, sink = ("sources", f"- {name}"), ("sinks", name)
    excludes = (source, sink) if key == "inert" else (source,)
    return _Line(f"- {name}", why=reason, known=False, excludes=excludes, optional=True)


def _list_names(key: str, names: Sequence[str], reason: str) -> list[_Line]:
    return (
        [_Line(key, known=False, below=tuple(_Line(f"- {_quote_key(name)}", why=reason) for name in names))]
        if names
        else []
    )


def _suggest_sink(listener: ListenerShape) -> _Line:
    takes = [one for one in listener.takes if not (listener.declared and one.form is FieldForm.TEXT)]
    arguments = tuple(map(_suggest_role, takes))
    below = (_Line("arguments", known=False, below=arguments),) if arguments else ()
    return _Line(_quote_key(listener.name), why=_STATED if listener.declared else _SINK, below=below)


def _suggest_role(field: FieldShape) -> _Line:
    """Suggest the role of an argument, by its type or the form of its recorded values."""
    if field.form is not FieldForm.TEXT:
        reason = f"{field.form}{_CHOICES.get(field.form, '')}"
        return _Line(_quote_key(field.path), _ROLES[field.form], reason)
    seen = Counter(forms.derive_role(value) for value in field.values)
    many = sum(seen.values())
    if seen[Role.DESTINATION]:
        reason = f"{seen[Role.DESTINATION]} of {_describe_values(many)} can receive something"
        return _Line(_quote_key(field.path), Role.DESTINATION, reason)
    if many and seen[Role.SELECTOR] == many:
        return _Line(_quote_key(field.path), Role.SELECTOR, f"one word in {_describe_values(many)}")
    reason = (
        f"several words in {many - seen[Role.SELECTOR]} of {_describe_values(many)}"
        if many
        else "nothing recorded"
    )
    return _Line(
        _quote_key(field.path), Role.PAYLOAD, f"or destination, selector, inert: {reason}", known=False
    )


def _suggest_worth(field: FieldShape) -> _Line:
    """Suggest the worth of a field, by its type or the form of its recorded values."""
    if field.form not in {FieldForm.TEXT, FieldForm.ADDRESS}:
        return _Line(_quote_key(field.path), Standing.RECORD, field.form)
    many = len(field.values)
    prose = sum(forms.derive_standing(field.path, value) is Standing.PROSE for value in field.values)
    if prose:
        return _Line(
            _quote_key(field.path),
            Standing.PROSE,
            f"words, or what can receive, in {prose} of {_describe_values(many)}",
        )
    if many:
        reason = (
            f"or prose, {{standing: record, id: KIND}}, directory, own: one word in {_describe_values(many)}"
        )
        return _Line(_quote_key(field.path), Standing.RECORD, reason, known=False)
    return _Line(
        _quote_key(field.path), Standing.PROSE, "or record, directory, own: nothing recorded", known=False
    )


def _describe_values(count: int) -> str:
    return f"{count} recorded value{'' if count == 1 else 's'}"


def _format(
    line: _Line, indent: str, notes: Mapping[Place, str], above: Place = (), *, commented: bool = False
) -> Iterator[str]:
    """Format a key and the keys below it. Below an inactive key, lines get no comment mark of their own."""
    place = (*above, line.key)
    if line.optional and not any(each[: len(place)] == place for each in notes):
        return
    marked = commented or not line.counts
    before = indent if commented or not marked else f"{indent}# "
    text = line.key if line.key.startswith("- ") else f"{line.key}:{' ' * bool(line.value)}{line.value}"
    reason = "; ".join(filter(None, (line.why, notes.get(place, ""))))
    yield f"{before}{text}{'  # ' * bool(reason)}{reason}"
    for inner in line.below:
        yield from _format(inner, f"{before}  ", notes, place, commented=marked)


def _quote_key(name: str) -> str:
    """Quote a name if YAML requires it."""
    if _WORD.fullmatch(name) and name.lower() != "null":
        return name
    import yaml

    dumped = yaml.safe_dump(name, default_style='"', allow_unicode=True, width=math.inf)
    return str(dumped).rstrip("\n")


def _keep_keys(listener: ListenerShape) -> ListenerShape:
    """Return a listener with the fields whose paths a policy can have as keys."""
    takes, says = (
        tuple(each for each in fields if _can_be_key(each.path)) for fields in (listener.takes, listener.says)
    )
    return replace(listener, takes=takes, says=says)


def _can_be_key(name: str) -> bool:
    """Check whether a name may be a key of YAML, which has a limit, and is not blank."""
    return bool(name.strip()) and len(_quote_key(name)) <= KEY
