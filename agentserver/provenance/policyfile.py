"""A policy written in YAML, read so that nothing in it is ever dropped in silence.

Owns the format and its errors: file, line, the key, and what was probably meant. Refuses to open files: it
takes text. Unknown and repeated keys, wrong types and empty entries are errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from agentserver.provenance.actions import Action
from agentserver.provenance.authority import Pattern
from agentserver.provenance.labels import Mode, Role, Standing
from agentserver.provenance.policy import (
    ArgumentRule,
    Effect,
    FieldRule,
    PlanSource,
    Policy,
    Rule,
    SinkRule,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

E = TypeVar("E", bound=Enum)


class PolicyError(ValueError):
    """A policy that cannot be used. Its text names file, line and key.

    ``node`` is the place in the document and ``told`` the text without it, where there is one.
    """

    def __init__(self, text: str, node: Any = None, told: str = "") -> None:
        super().__init__(text)
        self.node = node
        self.told = told or text


def read_policy(text: str, name: str = "policy") -> Policy:
    """The policy in ``text``. ``name`` is the file's name for error messages.

    Raises:
        PolicyError: the text is no YAML mapping, or says something that would otherwise be lost.
    """
    return Policy(**read_keys(compose(text, name), name))


def compose(text: str, name: str) -> Any:
    """The YAML node that ``text`` is. Raises PolicyError."""
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise PolicyError(f"{name}: not YAML: {str(error).splitlines()[0]}") from error
    if node is None:
        raise PolicyError(f"{name}: empty; an empty policy would protect nothing")
    return node


def read_keys(node: Any, name: str) -> dict[str, Any]:
    """Read a YAML node into arguments of ``Policy``. Raises PolicyError."""
    return _Reader(name).table(node, _POLICY, "the policy")


@dataclass(frozen=True, slots=True)
class _Reader:
    name: str

    def fail(self, node: Any, message: str) -> PolicyError:
        return PolicyError(f"{self.name}:{node.start_mark.line + 1}: {message}", node, message)

    def pairs(self, node: Any, what: str) -> list[tuple[Any, str, Any]]:
        """The entries of a mapping, each key once."""
        if node.id != "mapping":
            raise self.fail(node, f"{what} must be a mapping")
        found: dict[str, tuple[Any, str, Any]] = {}
        for key, value in node.value:
            if key.value in found:
                raise self.fail(key, f"'{key.value}' is given twice in {what}")
            found[key.value] = (key, key.value, value)
        return list(found.values())

    def table(self, node: Any, columns: dict[str, _Column], what: str) -> dict[str, Any]:
        """A mapping whose keys are known, each read by its own reader."""
        read: dict[str, Any] = {}
        for key, name, value in self.pairs(node, what):
            if name not in columns:
                raise self.fail(key, f"unknown key '{name}' in {what}{_meant(name, columns)}")
            read[name] = columns[name](self, value, name)
        return read

    def text(self, node: Any, what: str) -> str:
        if node.id != "scalar" or not node.value.strip():
            raise self.fail(node, f"{what} must be a text")
        return str(node.value)

    def texts(self, node: Any, what: str) -> tuple[str, ...]:
        if node.id != "sequence":
            raise self.fail(node, f"'{what}' must be a list")
        return tuple(self.text(item, f"an entry of '{what}'") for item in node.value)

    def places(self, node: Any, what: str) -> tuple[str, ...]:
        """A list of which every entry can mean a destination: one that cannot would permit, or deny, nothing."""
        for item, entry in zip(node.value, self.texts(node, what), strict=True):
            if not Pattern(entry).sound:
                raise self.fail(
                    item, f"'{entry}' in '{what}' names no destination; an address, a host, a link or a name"
                )
        return self.texts(node, what)

    def flag(self, node: Any, what: str) -> bool:
        known = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
        value = self.text(node, f"'{what}'").lower()
        if value not in known:
            raise self.fail(node, f"'{what}' must be yes or no, not '{value}'")
        return known[value]

    def count(self, node: Any, what: str) -> int:
        value = self.text(node, f"'{what}'").replace("_", "")
        if not value.isdecimal() or int(value) == 0:
            raise self.fail(node, f"'{what}' must be a positive whole number, not '{value}'")
        return int(value)

    def one_of(self, node: Any, kind: type[E], what: str) -> E:
        names = {member.name.lower(): member for member in kind}
        value = self.text(node, f"'{what}'")
        if value not in names:
            raise self.fail(node, f"'{value}' is no {what}{_meant(value, names)}")
        return names[value]

    def effects(self, node: Any, what: str) -> tuple[tuple[Rule, Effect], ...]:
        rules = {rule.name.lower(): rule for rule in Rule}
        read = []
        for key, name, value in self.pairs(node, f"'{what}'"):
            if name not in rules:
                raise self.fail(key, f"unknown rule '{name}'{_meant(name, rules)}")
            read.append((rules[name], self.one_of(value, Effect, "effect")))
        return tuple(read)

    def fields(self, node: Any, what: str) -> tuple[FieldRule, ...]:
        return tuple(
            FieldRule(source, field, self.one_of(value, Standing, "standing"))
            for _, source, inner in self.pairs(node, f"'{what}'")
            for _, field, value in self.pairs(inner, f"the fields of '{source}'")
        )

    def sinks(self, node: Any, what: str) -> tuple[SinkRule, ...]:
        if node.id == "sequence":
            return tuple(SinkRule(name) for name in self.texts(node, what))
        return tuple(self.sink(name, value) for _, name, value in self.pairs(node, f"'{what}'"))

    def sink(self, name: str, node: Any) -> SinkRule:
        if node.id == "scalar" and not node.value.strip("~ ").removeprefix("null"):
            return SinkRule(name)
        return SinkRule(name, **self.table(node, _SINK, f"sink '{name}'"))

    def arguments(self, node: Any, what: str) -> tuple[ArgumentRule, ...]:
        read = []
        for _, name, value in self.pairs(node, f"'{what}'"):
            if value.id == "mapping":
                columns = self.table(value, _ARGUMENT, f"argument '{name}'")
                if "role" not in columns:
                    raise self.fail(value, f"argument '{name}' has no role")
                read.append(ArgumentRule(name, **columns))
            else:
                read.append(ArgumentRule(name, self.one_of(value, Role, "role")))
        return tuple(read)

    def actions(self, node: Any, what: str) -> frozenset[Action]:
        if node.id != "sequence":
            raise self.fail(node, f"'{what}' must be a list")
        return frozenset(self.one_of(item, Action, "action") for item in node.value)


_Column: TypeAlias = "Callable[[_Reader, Any, str], Any]"


def _enum(kind: type[Enum]) -> _Column:
    return lambda reader, node, what: reader.one_of(node, kind, what)


_ARGUMENT: Final[dict[str, _Column]] = {"role": _enum(Role), "accepts": _Reader.texts}
_SINK: Final[dict[str, _Column]] = {
    "arguments": _Reader.arguments,
    "actions": _Reader.actions,
    "mode": _enum(Mode),
    "effects": _Reader.effects,
}
_POLICY: Final[dict[str, _Column]] = {
    "mode": _enum(Mode),
    "sources": _Reader.texts,
    "sinks": _Reader.sinks,
    "trusted": _Reader.texts,
    "relays": _Reader.texts,
    "fields": _Reader.fields,
    "allow": _Reader.places,
    "deny": _Reader.places,
    "query_authorises": _Reader.flag,
    "plan": _enum(PlanSource),
    "strict": _Reader.flag,
    "infer_fields": _Reader.flag,
    "follow_links": _Reader.flag,
    "effects": _Reader.effects,
    "limit": _Reader.count,
    "budget": _Reader.count,
}

KEYS: Final = tuple(_POLICY)
"""The keys of a policy."""


def _meant(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = get_close_matches(name, names, 1)
    return f"; did you mean '{near[0]}'?" if near else f"; known are {', '.join(names)}"
