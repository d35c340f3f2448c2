"""Writes docs/keys.md: every key of organism.yaml, from the schema that editors use."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from schema import texts as schema_files

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = Path(__file__).with_name("keys.md")

HEAD: Final = """\
# Keys of organism.yaml

Every key that `organism.yaml` may have. An unknown key is a mistake, with file, line and the nearest key that exists.
This page is made (`./run generate`) from the [schema for editors](../schemas/organism.schema.json), which
`agentserver init` names in the first line of a project's YAML.
"""


def page() -> str:
    """Write the whole page: a table for each mapping."""
    [text] = schema_files().values()
    schema = json.loads(text)
    found: list[tuple[str, dict[str, Any]]] = [("", schema)]
    done: set[str] = set()
    lines = [HEAD]
    while found:
        name, entry = found.pop(0)
        if name in done:
            continue
        done.add(name)
        inner = list(dict.fromkeys(_list_named(entry.get("properties", {}))))
        found = [*((one, schema["$defs"][one]) for one in inner), *found]
        lines += [f"## {_title(name) or 'The file'}", "", entry.get("description", ""), ""]
        if not entry.get("properties"):
            lines += [_kind(entry), ""]
            continue
        lines += ["| key | takes | when left out | |", "|---|---|---|---|"]
        needed = entry.get("required", [])
        for key, value in sorted(entry["properties"].items(), key=lambda one: one[0] not in needed):
            default = "**needed**" if key in needed else _default(value)
            told = " ".join(value.get("description", "").split())
            lines.append("| " + " | ".join(map(_cell, (f"`{key}`", _kind(value), default, told))) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _list_named(value: Any) -> Iterator[str]:
    """The names of the mappings that a part of the schema refers to."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for one in value.values():
            yield from _list_named(one)
    elif isinstance(value, list):
        for one in value:
            yield from _list_named(one)


def _title(name: str) -> str:
    return " ".join(re.findall("[A-Z][a-z]+", name.removesuffix("Entry"))).lower().capitalize()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _default(value: dict[str, Any]) -> str:
    return f"`{json.dumps(value['default'])}`" if value.get("default") not in (None, "") else ""


BOUNDS: Final = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {}",
    "maxItems": "at most {}",
    "pattern": "`{}`",
}
WORDS: Final = {"string": "text", "integer": "a whole number", "boolean": "true or false", "null": "null"}


def _kind(value: dict[str, Any]) -> str:
    """The values that a part of the schema accepts, in words."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{_title(name).lower()}](#{_title(name).lower().replace(' ', '-')})"
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"])
    for several in ("anyOf", "oneOf"):
        if several in value:
            return " or ".join(dict.fromkeys(_kind(one) for one in value[several] if one != {"type": "null"}))
    told = " or ".join(_plain(kind, value) for kind in _as_list(value.get("type", "anything")))
    bounds = [form.format(value[bound]) for bound, form in BOUNDS.items() if bound in value]
    return f"{told} ({', '.join(bounds)})" if bounds else told


def _as_list(one: Any) -> list[Any]:
    return one if isinstance(one, list) else [one]


def _plain(kind: str, value: dict[str, Any]) -> str:
    if kind == "array":
        return f"a list of {_kind(value['items'])}" if value.get("items") else "a list"
    if kind == "object":
        each = value.get("additionalProperties")
        each = (
            each if isinstance(each, dict) else next(iter(value.get("patternProperties", {}).values()), None)
        )
        return f"a mapping, each value {_kind(each)}" if each else "a mapping"
    return WORDS.get(kind, kind)


def texts() -> dict[Path, str]:
    """Return the page."""
    return {PAGE: page()}
