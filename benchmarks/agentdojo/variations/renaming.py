"""Tools, arguments and output fields under other names: those of public interfaces, opaque ones, misleading ones.

Owns the names (``names.yaml``) and their way into calls, outputs and policies. Refuses to change a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from benchmarks.agentdojo.variations.guise import Guise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

NAMES = Path(__file__).with_name("names.yaml")
Table = dict[str, str]


class UnknownNameError(LookupError):
    """A tool, argument, field or key that the names or the renaming of policies do not know."""


@dataclass(frozen=True, slots=True)
class Names:
    """Every name with its other name.

    Args:
        tools: tools.
        arguments: by tool the paths of its arguments (``attachments.file_id``), each with its last part's other name.
        outputs: by tool the fields of its output; a tool whose output has none of its own is absent.
        records: by class of AgentDojo the fields of its instances.
    """

    tools: Table
    arguments: dict[str, Table]
    outputs: dict[str, Table]
    records: dict[str, Table]


def read(path: Path = NAMES) -> dict[str, Any]:
    """The file of names."""
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return found


def public(said: Mapping[str, Any]) -> Names:
    """Names of public interfaces."""
    fields = {**said["records"], **said["tables"]}
    return Names(
        {name: tool["public"] for name, tool in said["tools"].items()},
        {name: tool.get("arguments", {}) for name, tool in said["tools"].items()},
        {name: fields[tool["gives"]] for name, tool in said["tools"].items() if "gives" in tool},
        said["records"],
    )


def opaque(said: Mapping[str, Any]) -> Names:
    """``t01``, ``a1``, ``f1``: arguments are counted in their tool, fields in their record."""
    like = public(said)
    fields = {
        name: _number_names(table, "f") for name, table in {**said["records"], **said["tables"]}.items()
    }
    return Names(
        {name: f"t{number:02}" for number, name in enumerate(like.tools, 1)},
        {tool: _number_names(table, "a") for tool, table in like.arguments.items()},
        {name: fields[tool["gives"]] for name, tool in said["tools"].items() if "gives" in tool},
        {name: fields[name] for name in said["records"]},
    )


def swapped(said: Mapping[str, Any]) -> Names:
    """Tools with consequences are called ``get_…`` and reading ones ``update_…``; nothing else changes."""
    like = public(said)

    def same_names(tables: Mapping[str, Table]) -> dict[str, Table]:
        return {name: {path: path.rpartition(".")[2] for path in table} for name, table in tables.items()}

    tools = {name: tool["swapped"] for name, tool in said["tools"].items()}
    return Names(tools, same_names(like.arguments), same_names(like.outputs), same_names(like.records))


def _number_names(table: Iterable[str], letter: str) -> Table:
    return {name: f"{letter}{number}" for number, name in enumerate(table, 1)}


class RenamedSuite(Guise):
    """A suite under other names."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def tool(self, name: str) -> str:
        return _known_name(self.names.tools, name, "tool")

    def arguments(self, tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Nested mappings are renamed by their paths, in lists too."""
        table = _known_name(self.names.arguments, tool, "tool")
        return {
            _known_name(table, key, tool): _rename_nested(table, key, value) for key, value in given.items()
        }

    def output(self, tool: str, value: Any) -> Any:
        """Instances of AgentDojo's classes become mappings; keys that are data stay."""
        if isinstance(value, dict) and tool in self.names.outputs:
            table = self.names.outputs[tool]
            return {_known_name(table, key, tool): self._value(inner) for key, inner in value.items()}
        return self._value(value)

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {key: self._value(item) for key, item in value.items()}
        if hasattr(value, "model_dump"):
            kind = type(value)
            table = _known_name(self.names.records, kind.__name__, "record")
            return {
                _known_name(table, name, kind.__name__): self._value(getattr(value, name))
                for name in kind.model_fields
            }
        return value

    def policy(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        return _PolicyNames(self.names).policy(entry)

    def plan(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        names = PlanNames(self.names, [step["sink"] for step in steps])
        return [names.step(step) for step in steps]


def _rename_nested(table: Table, path: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_rename_nested(table, path, item) for item in value]
    if isinstance(value, dict):
        return {
            table.get(f"{path}.{key}", key): _rename_nested(table, f"{path}.{key}", item)
            for key, item in value.items()
        }
    return value


def _known_name(table: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in table:
        raise UnknownNameError(f"no other name for '{name}' ({where}); {NAMES.name} lacks it")
    return table[name]


@dataclass(frozen=True, slots=True)
class PlanNames:
    """A plan about the tools under their other names.

    Args:
        names: those.
        sinks: the tool of each step, by which fields of a step's answer are known.
    """

    names: Names
    sinks: list[str]

    def step(self, said: Mapping[str, Any]) -> dict[str, Any]:
        tool = said["sink"]
        table = _known_name(self.names.arguments, tool, "tool")
        kinds = {
            (whole_path(table, path) if path in table else _known_name(table, path, tool)): self.kind(kind)
            for path, kind in said.get("arguments", {}).items()
        }
        return {**said, "sink": self.names.tools[tool], "arguments": kinds}

    def kind(self, said: Any) -> Any:
        if isinstance(said, list):
            return [self.kind(item) for item in said]
        if not isinstance(said, dict):
            return said
        if "of" not in said:
            return {key: self.kind(value) if key == "from" else value for key, value in said.items()}
        numbered = said["of"].isdigit()
        tool = self.sinks[int(said["of"]) - 1] if numbered else said["of"]
        table = self.names.outputs.get(tool, {})
        where = {self.field(table, path): self.kind(kind) for path, kind in said.get("where", {}).items()}
        form = "in" if "in" in said else "field"
        return {
            form: self.field(table, said[form]),
            "of": said["of"] if numbered else _known_name(self.names.tools, tool, "tool"),
            **({"where": where} if where else {}),
        }

    def field(self, table: Table, path: str) -> str:
        """The field of an output; one of an output without names of its own stays, and so does the mark of keys."""
        name, keys, _ = path.partition("{}")
        return f"{_known_name(table, name, 'output')}{keys}" if table else path


class _PolicyNames:
    """A policy about the tools under their other names: patterns become the names that they mean."""

    UNNAMED = frozenset(
        {
            "allow",
            "budget",
            "deny",
            "effects",
            "exit_budget",
            "follow_links",
            "limit",
            "mode",
            "plan",
            "query_authorises",
            "strict",
        }
    )
    """Keys of a policy that name no tool and no field."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def policy(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        readers: dict[str, Callable[[Any], Any]] = {
            **dict.fromkeys(("sources", "trusted", "relays", "inert"), self.listed),
            "sinks": self.sinks,
            "fields": self.fields,
            "readers": self.readers,
        }
        return {key: _reader(readers, self.UNNAMED, key)(value) for key, value in entry.items()}

    def tools(self, pattern: str) -> list[str]:
        """List the tools that an entry means. Raises UnknownNameError without one: a rule would be lost."""
        found = [pattern] if pattern in self.names.tools else match_names(self.names.tools, pattern)
        if not found:
            raise UnknownNameError(f"'{pattern}' in the policy means no tool")
        return found

    def listed(self, entries: Iterable[str]) -> list[str]:
        return list(dict.fromkeys(self.names.tools[tool] for entry in entries for tool in self.tools(entry)))

    def sinks(self, said: Any) -> Any:
        if isinstance(said, list):
            return self.listed(said)
        found: dict[str, Any] = {}
        for entry in sorted(said, key=lambda name: name not in self.names.tools):  # exact names win
            for tool in self.tools(entry):
                found.setdefault(self.names.tools[tool], self.sink(tool, said[entry]))
        return found

    def sink(self, tool: str, said: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if said is None:
            return None
        readers = {"arguments": lambda value: self.roles(tool, value)}
        unnamed = frozenset({"mode", "effects"})
        return {key: _reader(readers, unnamed, key)(value) for key, value in said.items()}

    def roles(self, tool: str, said: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for pattern, role in said.items():
            for path in paths(self.names.arguments[tool], pattern):
                found.setdefault(path, self.role(role))
        return found

    def role(self, said: Any) -> Any:
        if not isinstance(said, dict):
            return said
        readers = {"accepts": self.references}
        return {
            key: _reader(readers, frozenset({"role", "id", "values"}), key)(value)
            for key, value in said.items()
        }

    def references(self, entries: Iterable[str]) -> list[str]:
        """Entries of the form ``tool.field``; ``record`` and a bare tool are allowed."""
        return list(dict.fromkeys(each for entry in entries for each in self.reference(entry)))

    def reference(self, entry: str) -> Iterator[str]:
        if entry == "record":
            yield entry
            return
        pattern, dot, field = entry.partition(".")
        for tool in self.tools(pattern):
            name = self.names.tools[tool]
            yield from (f"{name}.{path}" for path in self.output(tool, field)) if dot else (name,)

    def fields(self, said: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The first entry that means a field wins, as in the policy that was written."""
        found: dict[str, Any] = {}
        for entry, table in said.items():
            for tool in self.tools(entry):
                into = found.setdefault(self.names.tools[tool], {})
                for pattern, standing in table.items():
                    for path in self.output(tool, pattern):
                        into.setdefault(path, standing)
        return {tool: table for tool, table in found.items() if table}

    def readers(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """By listener, or by listener and field. Declarations add up, which one for each tool can say alone."""
        found: dict[str, Any] = {}
        for entry, value in said.items():
            for tool in self.tools(entry):
                name = self.names.tools[tool]
                if name in found:
                    raise UnknownNameError(f"'{entry}' in readers means '{tool}', as an entry before it")
                found[name] = self.receivers(value)
                if isinstance(value, dict):
                    pairs = [
                        (path, each) for pattern, each in value.items() for path in self.output(tool, pattern)
                    ]
                    found[name] = {path: self.receivers(each) for path, each in pairs}
        return found

    def receivers(self, said: Iterable[str]) -> list[str]:
        """Sections whose entries ``directory:tool`` and ``directory:tool.field`` name a tool."""
        found: list[str] = []
        for entry in said:
            kind, colon, named = entry.partition(":")
            directory = kind == "directory" and colon
            found += [f"directory:{each}" for each in self.reference(named)] if directory else [entry]
        return found

    def output(self, tool: str, pattern: str) -> list[str]:
        """The fields of a tool's output that an entry means; an entry may mean none of one of its tools."""
        table = self.names.outputs.get(tool)
        return [pattern] if table is None else paths(table, pattern)


def _reader(
    readers: Mapping[str, Callable[[Any], Any]], unnamed: frozenset[str], key: str
) -> Callable[[Any], Any]:
    if key in unnamed:
        return lambda value: value
    if key not in readers:
        raise UnknownNameError(f"the renaming of policies does not know the key '{key}'")
    return readers[key]


def match_names(names: Iterable[str], pattern: str) -> list[str]:
    """The names that a pattern means, in their order."""
    return [name for name in names if fnmatchcase(name, pattern)]


def paths(table: Table, pattern: str) -> list[str]:
    """What an entry for fields or arguments is called under the other names; nothing, if it means none of these.

    ``*`` stays; another pattern becomes each name that it means, with what lies below where the pattern reaches there.
    """
    if pattern == "*":
        return [pattern]
    if pattern in table:
        return [whole_path(table, pattern)]
    if pattern.endswith("{}"):  # the keys of a mapping whose keys are data
        return [f"{path}{{}}" for path in paths(table, pattern.removesuffix("{}"))]
    head, dot, tail = pattern.partition(".")
    heads = [head] if head in table else match_names((name for name in table if "." not in name), head)
    found: list[str] = []
    for name in heads:
        if dot:
            found.append(f"{table[name]}.{tail}")
        else:
            below = (f"{table[name]}.*", f"{table[name]}{{}}") if head.endswith("*") else ()
            found += [table[name], *below]
    return found


def whole_path(table: Table, path: str) -> str:
    """``attachments.file_id`` with each of its parts renamed."""
    parts = path.split(".")
    return ".".join(table[".".join(parts[: number + 1])] for number in range(len(parts)))
