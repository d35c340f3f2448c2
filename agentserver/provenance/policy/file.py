"""Policy reader for YAML that refuses every key it does not use, with line numbers.

Parses text only: it opens no files, and ``model`` describes the keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import ValidationError

from agentserver.provenance.confidentiality.readers import ReaderRule
from agentserver.provenance.evidence.layouts import TextLayout
from agentserver.provenance.policy.declarations import ArgumentRule, FieldRule, LayoutRule, Policy, SinkRule
from agentserver.provenance.policy.model import (
    ArgumentEntry,
    FieldEntry,
    PolicyEntry,
    SinkEntry,
    describe_fault,
    describe_mapping,
)
from agentserver.remedies.yaml_syntax import explain_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agentserver.provenance.evidence.labels import Role, Standing
    from agentserver.provenance.policy.declarations import Effect, Rule

    Loc: TypeAlias = tuple[str | int, ...]

DEPTH: Final = 16
"""Maximum levels of nesting."""
VALUES: Final = 100_000
"""Maximum values of one policy, counted after aliases are expanded."""


class PolicyError(ValueError):
    """Raised for a policy that cannot be used. The text names file, line and key, one mistake per line."""


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """YAML document as plain values: every scalar is text, or None if it is empty.

    Args:
        values: dict, list, str, None.
        lines: the line, from 1, of each key and item.
    """

    values: Any
    lines: Mapping[Loc, int]

    def find_line(self, loc: Loc) -> int:
        """Look up the line of a value, or of the nearest enclosing one."""
        while loc not in self.lines:
            loc = loc[:-1]
        return self.lines[loc]


def read_policy(text: str, name: str = "policy") -> Policy:
    """Read a policy from ``text``. ``name`` is the file's name for error messages.

    Raises:
        PolicyError: the text is no YAML mapping, or has an entry that would otherwise be ignored.
    """
    return build_policy(read_yaml(text, name), name)


def build_policy(document: YamlDocument, name: str) -> Policy:
    """Build the policy of a YAML document. Raises PolicyError."""
    try:
        entry = PolicyEntry.model_validate(document.values)
    except ValidationError as error:
        faults = map(describe_fault, error.errors(include_url=False, include_input=False))
        lines = (f"{name}:{document.find_line(loc)}: {message}" for loc, message in faults)
        raise PolicyError("\n".join(lines)) from None
    return Policy(**convert_entry(entry))


def convert_entry(entry: PolicyEntry) -> dict[str, Any]:
    """Convert the given keys to arguments of ``Policy``."""
    values = {key: getattr(entry, key) for key in PolicyEntry.model_fields if key in entry.model_fields_set}
    return {key: _CONVERTERS[key](value) if key in _CONVERTERS else value for key, value in values.items()}


def read_yaml(text: str, name: str) -> YamlDocument:
    """Read a YAML text. Raises PolicyError for invalid YAML, an excess of values, and duplicate keys."""
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line, explanation = explain_error(error, text)
        raise PolicyError(f"{name}:{line}: {explanation}") from error
    except yaml.YAMLError as error:
        raise PolicyError(f"{name}: not YAML: {str(error).splitlines()[0]}") from error
    except RecursionError:
        raise PolicyError(f"{name}: not YAML: nested too deep") from None
    if node is None:
        raise PolicyError(f"{name}: empty; an empty policy would protect nothing")
    walk = _NodeReader(name)
    return YamlDocument(walk.read_value(node, ()), walk.lines)


@dataclass(slots=True)
class _NodeReader:
    """Reader that turns YAML nodes into values and records their lines."""

    name: str
    lines: dict[Loc, int] = field(default_factory=dict)

    def read_value(self, node: Any, loc: Loc) -> Any:
        self.lines.setdefault(loc, node.start_mark.line + 1)
        if len(loc) > DEPTH or len(self.lines) > VALUES:
            raise self._make_error(node, "too large or too deep with its aliases expanded")
        if node.id == "mapping":
            return self._build_mapping(node, loc)
        if node.id == "sequence":
            return [self.read_value(item, (*loc, number)) for number, item in enumerate(node.value)]
        return None if node.tag == "tag:yaml.org,2002:null" else str(node.value)

    def _build_mapping(self, node: Any, loc: Loc) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in node.value:
            if key.id != "scalar":
                raise self._make_error(key, "a key must be a text")
            if key.value in found:
                raise self._make_error(key, f"'{key.value}' is given twice in {describe_mapping(loc)}")
            at = (*loc, key.value)
            self.lines[at] = key.start_mark.line + 1
            found[key.value] = self.read_value(item, at)
        return found

    def _make_error(self, node: Any, message: str) -> PolicyError:
        return PolicyError(f"{self.name}:{node.start_mark.line + 1}: {message}")


def _make_fields(entries: Mapping[str, Mapping[str, Standing | FieldEntry]]) -> tuple[FieldRule, ...]:
    return tuple(_make_field(source, *pair) for source, inner in entries.items() for pair in inner.items())


def _make_field(source: str, name: str, entry: Standing | FieldEntry) -> FieldRule:
    if isinstance(entry, FieldEntry):
        return FieldRule(source, name, entry.standing, entry.id)
    return FieldRule(source, name, entry)


def _make_readers(readers: Mapping[str, list[str] | Mapping[str, list[str]]]) -> tuple[ReaderRule, ...]:
    by_field = {
        source: {"*": inner} if isinstance(inner, list) else inner for source, inner in readers.items()
    }
    return tuple(
        ReaderRule(source, name, tuple(entries))
        for source, inner in by_field.items()
        for name, entries in inner.items()
    )


def _make_layouts(entries: Mapping[str, TextLayout | Mapping[str, TextLayout]]) -> tuple[LayoutRule, ...]:
    by_field = {
        source: {"": inner} if isinstance(inner, TextLayout) else inner for source, inner in entries.items()
    }
    return tuple(LayoutRule(source, *pair) for source, inner in by_field.items() for pair in inner.items())


def _make_sinks(entries: list[str] | dict[str, SinkEntry | None]) -> tuple[SinkRule, ...]:
    if isinstance(entries, list):
        return tuple(map(SinkRule, entries))
    return tuple(_make_sink(name, entry) for name, entry in entries.items())


def _make_sink(name: str, entry: SinkEntry | None) -> SinkRule:
    if entry is None:
        return SinkRule(name)
    fields_set = entry.model_fields_set
    return SinkRule(
        name,
        tuple(_make_argument(*pair) for pair in entry.arguments.items()),
        entry.mode if "mode" in fields_set else None,
        _make_effects(entry.effects),
    )


def _make_argument(name: str, entry: Role | ArgumentEntry) -> ArgumentRule:
    if isinstance(entry, ArgumentEntry):
        return ArgumentRule(
            name, entry.role, tuple(entry.accepts), entry.id, tuple(entry.values), glue=entry.glue
        )
    return ArgumentRule(name, entry)


def _make_effects(entries: Mapping[Rule, Effect]) -> tuple[tuple[Rule, Effect], ...]:
    return tuple(entries.items())


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("sources", "trusted", "relays", "inert", "schemas", "allow", "deny"), tuple),
    "fields": _make_fields,
    "readers": _make_readers,
    "layouts": _make_layouts,
    "sinks": _make_sinks,
    "effects": _make_effects,
}
"""Converters of keys whose value ``Policy`` stores in another form."""
