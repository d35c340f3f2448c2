"""A policy proposed for listeners of which nothing is declared, as YAML for a person to edit.

Owns what the types and the recorded values of a listener suggest, and how that is written. Refuses to go by names, to
show a recorded value, and to make a line count that types and forms do not show: such a line is a comment.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from agentserver.provenance.evidence.labels import Role, Standing
from agentserver.provenance.policy import forms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class FieldForm(StrEnum):
    """The part of a field's type that matters here."""

    TEXT = "text"
    CHOICE = "one of a few words"
    FLAG = "a truth value"
    NUMBER = "a number"
    TIME = "a moment"


@dataclass(frozen=True, slots=True)
class FieldShape:
    """One field of a payload.

    Args:
        path: without indices.
        form: of its type.
        values: the texts that it held in recorded messages; only those of a field of form ``TEXT`` are looked at.
    """

    path: str
    form: FieldForm
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListenerShape:
    """One listener of which nothing is declared.

    Args:
        name: of the listener.
        takes: the fields of what it is sent, without those whose types say their roles.
        says: the fields of what it may answer, without those whose types say their standings.
        agent: whether a model speaks through it.
    """

    name: str
    takes: tuple[FieldShape, ...] = ()
    says: tuple[FieldShape, ...] = ()
    agent: bool = False


@dataclass(frozen=True, slots=True)
class _Line:
    """A key of the proposal; it counts when it is known, or when a key below it is."""

    key: str
    value: str = ""
    why: str = ""
    known: bool = True
    below: tuple[_Line, ...] = ()

    @property
    def counts(self) -> bool:
        return any(line.counts for line in self.below) if self.below and not self.known else self.known


_ROLES: Final = {
    FieldForm.CHOICE: Role.SELECTOR,
    FieldForm.FLAG: Role.INERT,
    FieldForm.NUMBER: Role.QUANTITY,
    FieldForm.TIME: Role.TIME,
}
_HEAD: Final = (
    "Read each line before it counts: types and recorded values are all that it was made of.",
    "What is commented out is not known. Choose, and take the mark away, also that of the keys above it.",
)
_SOURCE: Final = "a stranger's words; else put it under trusted, relays or inert"
_SINK: Final = "judged as one; take it away if nothing comes of what it is sent"
_AGENT: Final = "a model speaks: its words vouch for nothing"
_WORD: Final = re.compile(r"[A-Za-z][\w.-]*")


def suggest(listeners: Iterable[ListenerShape], about: str, *, mode: str = "") -> str:
    """A policy that ``read_policy`` accepts, with a line for each listener under each key that may be meant.

    Args:
        listeners: those of which nothing is declared.
        about: what the proposal is for, in words, as its first comment.
        mode: of the whole policy; left out where it is declared already.
    """
    found = tuple(listeners)
    tools = [one for one in found if not one.agent]
    heads = (about, *_HEAD) if found else ("Of each listener something is declared.",)
    lines = [_Line("mode", mode, "audit tells what would be refused")] if mode else []
    lines += _listed("sources", [one.name for one in tools], _SOURCE)
    lines += _listed("relays", [one.name for one in found if one.agent], _AGENT)
    if tools:
        lines.append(_Line("sinks", below=tuple(map(_sink, tools))))
    fields = tuple(
        _Line(_key(one.name), known=False, below=tuple(map(_worth, one.says))) for one in tools if one.says
    )
    if fields:
        lines.append(_Line("fields", known=False, below=fields))
    told = [*(f"# {head}" for head in heads), *(text for line in lines for text in _written(line, ""))]
    return "\n".join(told if lines else [*told, "{}"]) + "\n"


def _listed(key: str, names: Sequence[str], why: str) -> list[_Line]:
    return [_Line(key, below=tuple(_Line(f"- {_key(name)}", why=why) for name in names))] if names else []


def _sink(listener: ListenerShape) -> _Line:
    arguments = tuple(map(_role, listener.takes))
    below = (_Line("arguments", known=False, below=arguments),) if arguments else ()
    return _Line(_key(listener.name), why=_SINK, below=below)


def _role(field: FieldShape) -> _Line:
    """The role of an argument: its type's, or the form of what it held."""
    if field.form is not FieldForm.TEXT:
        return _Line(_key(field.path), _ROLES[field.form], field.form)
    seen = Counter(forms.role_of(value) for value in field.values)
    many = sum(seen.values())
    if seen[Role.DESTINATION]:
        why = f"{seen[Role.DESTINATION]} of {_values(many)} can receive something"
        return _Line(_key(field.path), Role.DESTINATION, why)
    if many and seen[Role.SELECTOR] == many:
        return _Line(_key(field.path), Role.SELECTOR, f"one word in {_values(many)}")
    why = f"several words in {many - seen[Role.SELECTOR]} of {_values(many)}" if many else "nothing recorded"
    return _Line(_key(field.path), Role.PAYLOAD, f"or destination, selector, inert: {why}", known=False)


def _worth(field: FieldShape) -> _Line:
    """The worth of a field: its type's, or the form of what it held."""
    if field.form is not FieldForm.TEXT:
        return _Line(_key(field.path), Standing.RECORD, field.form)
    many = len(field.values)
    prose = sum(forms.standing_of(field.path, value) is Standing.PROSE for value in field.values)
    if prose:
        return _Line(
            _key(field.path), Standing.PROSE, f"words, or what can receive, in {prose} of {_values(many)}"
        )
    if many:
        why = f"or prose, {{standing: record, id: KIND}}, directory, own: one word in {_values(many)}"
        return _Line(_key(field.path), Standing.RECORD, why, known=False)
    return _Line(_key(field.path), Standing.PROSE, "or record, directory, own: nothing recorded", known=False)


def _values(count: int) -> str:
    return f"{count} recorded value{'' if count == 1 else 's'}"


def _written(line: _Line, indent: str, *, commented: bool = False) -> Iterator[str]:
    """The lines of a key and of those below it. Below a key that does not count, none has a mark of its own."""
    marked = commented or not line.counts
    before = indent if commented or not marked else f"{indent}# "
    text = line.key if line.key.startswith("- ") else f"{line.key}:{' ' * bool(line.value)}{line.value}"
    yield f"{before}{text}{'  # ' * bool(line.why)}{line.why}"
    for inner in line.below:
        yield from _written(inner, f"{before}  ", commented=marked)


def _key(name: str) -> str:
    """A name as YAML reads it back."""
    if _WORD.fullmatch(name) and name.lower() != "null":
        return name
    import yaml

    return str(yaml.safe_dump(name, default_style='"', allow_unicode=True)).rstrip("\n")
