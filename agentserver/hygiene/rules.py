"""The ordered list of rules for payload schemas, shared by admission, ``check`` and the library call.

A schema comes in as a value; its reference was parsed before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agentserver.hygiene.json import rules as json_rules
from agentserver.hygiene.json import tree as json_tree
from agentserver.hygiene.objections import Objection, Reference, Schema, SchemaLanguage, Vulnerability
from agentserver.hygiene.xsd import rules as xsd_rules
from agentserver.hygiene.xsd import tree as xsd_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["RULES"]

SHOWN: Final = 20
"""Objections returned by one inspection."""


@dataclass(frozen=True, slots=True)
class HygieneRule:
    """Rule that a schema must satisfy.

    Args:
        name: stable, for configuration and reports.
        against: the vulnerability class.
        reason: the consequence of breaking it. xsd, json: return places and sentences of objections, for either
            language.
        gate: whether later rules depend on it, so that inspection ends if it objects.
    """

    name: str
    against: Vulnerability
    reason: str
    xsd: Callable[[Schema], Iterable[tuple[str, str]]]
    json: Callable[[Schema], Iterable[tuple[str, str]]]
    gate: bool = False


def _is_object(schema: Schema) -> Iterator[tuple[str, str]]:
    if not isinstance(schema.tree, dict):
        yield "", "is no JSON object"


def _is_schema(schema: Schema) -> Iterator[tuple[str, str]]:
    if xsd_tree.local(schema.tree) != "schema":
        yield "", "is no xs:schema"


RULES: Final = (
    HygieneRule(
        "document", Vulnerability.POISONING, "something else than a schema", _is_schema, _is_object, gate=True
    ),
    HygieneRule(
        "bounded",
        Vulnerability.EXHAUSTION,
        "walks without end",
        xsd_rules.check_size,
        json_rules.check_size,
        gate=True,
    ),
    HygieneRule(
        "vocabulary",
        Vulnerability.INJECTION,
        "text and meaning that nobody checks",
        xsd_rules.check_elements,
        json_rules.check_keywords,
        gate=True,
    ),
    HygieneRule(
        "self-contained",
        Vulnerability.TRAVERSAL,
        "files and addresses that a schema makes its reader open",
        xsd_rules.check_references,
        json_rules.check_references,
        gate=True,
    ),
    HygieneRule(
        "finite",
        Vulnerability.EXHAUSTION,
        "types without end",
        xsd_rules.check_finite,
        json_rules.check_finite,
        gate=True,
    ),
    HygieneRule(
        "closed",
        Vulnerability.POISONING,
        "payloads that carry anything",
        xsd_rules.check_closed,
        json_rules.check_closed,
    ),
    HygieneRule(
        "required",
        Vulnerability.POISONING,
        "payloads that carry nothing",
        xsd_rules.check_required,
        json_rules.check_required,
    ),
    HygieneRule(
        "versioned",
        Vulnerability.DRIFT,
        "two schemas under one name",
        xsd_rules.check_version,
        json_rules.check_version,
    ),
    HygieneRule(
        "occurrences",
        Vulnerability.EXHAUSTION,
        "content models that take exponential time to compile or to match",
        xsd_rules.check_occurrences,
        json_rules.check_occurrences,
    ),
    HygieneRule(
        "patterns",
        Vulnerability.EXHAUSTION,
        "expressions that take exponential time",
        xsd_rules.check_patterns,
        json_rules.check_patterns,
    ),
    HygieneRule(
        "wording",
        Vulnerability.INJECTION,
        "names that talk to a model",
        xsd_rules.check_wording,
        json_rules.check_wording,
    ),
    HygieneRule(
        "values",
        Vulnerability.INJECTION,
        "text and meaning where no reader expects them",
        xsd_rules.check_values,
        json_rules.check_values,
        gate=True,
    ),
    HygieneRule(
        "compiled",
        Vulnerability.POISONING,
        "a schema that validators read differently, or not at all",
        xsd_rules.check_compiles,
        lambda _: (),
    ),
)


def inspect(schema: Schema) -> tuple[Objection, ...]:
    """List the objections to a schema: at most ``SHOWN``, in the order of the rules; empty if it is admitted."""
    found: list[Objection] = []
    for rule in RULES:
        for path, detail in rule.xsd(schema) if schema.kind is SchemaLanguage.XSD else rule.json(schema):
            found.append(Objection(rule.name, path, detail))
            if len(found) == SHOWN:
                return tuple(found)
        if found and rule.gate:
            break
    return tuple(found)


def read_schema(kind: SchemaLanguage, data: bytes, place: Reference | None = None) -> Schema | Objection:
    """Parse the schema in a file, or return the objection."""
    return (
        xsd_tree.read_xsd(data, place)
        if kind is SchemaLanguage.XSD
        else json_tree.read_json_schema(data, place)
    )


def identity(schema: Schema) -> str:
    """Return the name that identifies a schema: ``$id`` or target namespace, with the version."""
    if schema.kind is SchemaLanguage.XSD:
        return str(schema.tree.get("targetNamespace", ""))
    own = schema.tree.get("$id") if isinstance(schema.tree, dict) else None
    return own if isinstance(own, str) else ""
