"""Declared servers of foreign tools, and the lock: the agreement about their tools, as a value and as a text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from agentserver.characters.printing import one_line, truncate
from agentserver.foreign_json import reading as foreign_json
from agentserver.foreign_json.reading import JsonLimits, RefusedJson
from agentserver.payload.fields.field_table import PayloadType, RecordType, Scalar
from agentserver.payload.foreign.mapping import MappedSchema, map_schema
from agentserver.payload.json.values import JsonRefusal, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from agentserver.payload.fields.field_table import Field, Type


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool as a listener: its name there, its lock, and its payloads."""

    listener: str
    agreed: LockedTool
    forms: ToolForms


@dataclass(frozen=True, slots=True)
class CommandIsolation:
    """The wall around a server's program.

    Args:
        memory: bytes of address space of one process.
        files: open files of one process at once.
        disk: bytes that it may have written at one time.
        read: further files and folders that it may read, relative to the project.
        scratch: whether it has a folder to write to.
        ports: TCP ports that it may connect to.
        fork: whether it may make processes.
        programs: further programs that it may start.
    """

    memory: int = 1_000_000_000
    files: int = 256
    disk: int = 16 * 10**6
    read: tuple[str, ...] = ()
    scratch: bool = True
    ports: tuple[int, ...] = ()
    fork: bool = False
    programs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class McpServer:
    """A server of the Model Context Protocol.

    Args:
        name: the prefix of its listeners' names.
        command: the program and its arguments; empty for one with a URL.
        url: of a server that is reached over HTTP.
        token: shown to such a server.
        env: all the environment that the program is given.
        restarts: how often in a row it is started again.
        tools: those that are listeners.
        isolation: the wall around the program; None without one.
        on_behalf: whether each call shows a token of the user, and ``token`` is for the lock alone.
        scope: the scopes of the user's token.
    """

    name: str
    command: tuple[str, ...]
    url: str | None
    token: str | None = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    restarts: int
    tools: tuple[McpTool, ...]
    isolation: CommandIsolation | None = None
    on_behalf: bool = False
    scope: str = ""


FORMAT: Final = 1
LIMITS: Final = JsonLimits(bytes=1 << 22, values=100_000)
"""The limits of a lock."""
TOOLS: Final = 1000
"""Most tools of a server."""
LINE: Final = 300
"""Most characters of a tool's description for peers and models."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.\-/]{1,128}")
"""The names that the protocol asks of tools."""


@dataclass(frozen=True, slots=True)
class LockedTool:
    """One tool.

    Args:
        name: as the server calls it.
        description: the server's own text, which is not trusted.
        takes: the JSON Schema of its arguments.
        gives: the JSON Schema of its structured result; None without one.
        hints: what the server states about the tool's effects and answers, by the names of the protocol.
    """

    name: str
    description: str
    takes: Mapping[str, Any]
    gives: Mapping[str, Any] | None = None
    hints: Mapping[str, bool] = field(default_factory=dict)

    @property
    def value(self) -> dict[str, Any]:
        """The tool as JSON, without its hash."""
        found: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.takes,
        }
        found = found if self.gives is None else found | {"outputSchema": self.gives}
        return found | {"annotations": dict(self.hints)} if self.hints else found

    @property
    def digest(self) -> str:
        """SHA-256 over the tool as JSON with sorted members, in hexadecimal digits."""
        text = json.dumps(self.value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return sha256(text.encode()).hexdigest()

    @property
    def line(self) -> str:
        """The first line of the description, for peers and models."""
        first = next((line for line in self.description.splitlines() if line.strip()), self.name)
        return truncate(one_line(" ".join(first.split())), LINE, "...")


@dataclass(frozen=True, slots=True)
class ServerLock:
    """One server as it was when it was locked.

    Args:
        server: its own name and version.
        protocol: the version of the protocol that was spoken.
        tools: in the order of their names.
    """

    server: str
    protocol: str
    tools: tuple[LockedTool, ...]

    def find_tool(self, name: str) -> LockedTool | None:
        """Return the tool of that name."""
        return next((each for each in self.tools if each.name == name), None)


def write_lock(lock: ServerLock) -> str:
    """Return the text of a lock.

    Tools by name, members of their schemas in the server's order, which is that of fields.

    Raises LockError if :func:`read_lock` would refuse it, as with NaN in a schema.
    """
    for each in lock.tools:
        _check_tool(replace(lock, tools=(each,)), f"has a tool, {each.name}, that cannot be locked")
    return _check_tool(lock, "cannot be locked")


def _check_tool(lock: ServerLock, complaint: str) -> str:
    text = _format_text(lock)
    refused = read_json(text, LIMITS)
    if isinstance(refused, JsonRefusal):
        raise LockError(f"{complaint}: {refused}")
    return text


def _format_text(lock: ServerLock) -> str:
    tools = [tool.value | {"sha256": tool.digest} for tool in sorted(lock.tools, key=lambda each: each.name)]
    whole = {"format": FORMAT, "server": lock.server, "protocol": lock.protocol, "tools": tools}
    return json.dumps(whole, indent=2, ensure_ascii=True) + "\n"


class LockError(ValueError):
    """A text that is no lock, or one that was changed by hand. The text says why."""


def read_lock(data: bytes) -> ServerLock:
    """Return the lock in a text. Raises LockError."""
    value = foreign_json.parse_json(data, LIMITS)  # with the binary numbers that the hash was taken of
    if isinstance(value, RefusedJson):
        raise LockError(f"is no lock: {value}")
    try:
        if value["format"] != FORMAT:
            raise LockError(f"is a lock of another format than {FORMAT}")
        tools = tuple(_find_tool(each) for each in value["tools"])
        return ServerLock(str(value["server"]), str(value["protocol"]), tools)
    except (KeyError, TypeError, AttributeError):
        raise LockError("is no lock of an MCP server") from None


def _find_tool(value: Mapping[str, Any]) -> LockedTool:
    schemas = value["inputSchema"], value.get("outputSchema")
    found = tool(value["name"], value["description"], *schemas, value.get("annotations"))
    if found.digest != value["sha256"]:
        raise LockError(
            f"was changed after it was written: {one_line(found.name)} is another than its SHA-256 says"
        )
    return found


HINTS: Final = ("readOnlyHint", "destructiveHint", "openWorldHint", "untrustedContentHint")
"""Annotations that are kept: what a tool does, and whose words it may return."""


def tool(name: Any, description: Any, takes: Any, gives: Any = None, annotations: Any = None) -> LockedTool:
    """Return a tool as its server declares it. Raises LockError if the protocol does not allow it."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LockError("has a tool whose name is not of letters, digits and _ - . / alone")
    schemas = isinstance(takes, dict) and (gives is None or isinstance(gives, dict))
    if not isinstance(description, str) or not schemas:
        raise LockError(f"has a tool, {name}, without a schema of its arguments")
    stated = annotations if isinstance(annotations, dict) else {}
    hints = {each: stated[each] for each in HINTS if isinstance(stated.get(each), bool)}
    return LockedTool(name, description, takes, gives, hints)


def describe_differences(agreed: LockedTool, found: LockedTool | None) -> Iterator[str]:
    """Describe how a tool differs from its lock, without quoting it."""
    if found is None:
        yield "is gone"
        return
    if agreed.digest == found.digest:
        return
    for aspect, old, new in (
        ("its description", agreed.description, found.description),
        ("the schema of its arguments", agreed.takes, found.takes),
        ("the schema of its result", agreed.gives, found.gives),
        ("what it states about its effects", dict(agreed.hints), dict(found.hints)),
    ):
        if json.dumps(old, sort_keys=True) != json.dumps(new, sort_keys=True):
            yield f"{aspect} is another"


@dataclass(frozen=True, slots=True)
class ToolForms:
    """The payloads of one tool.

    Args:
        takes: its arguments.
        gives: its structured result; None without a schema of it.
    """

    takes: MappedSchema
    gives: MappedSchema | None


def forms(server: str, of: LockedTool, known: Mapping[str, type] = MappingProxyType({})) -> ToolForms:
    """Return the payloads of a tool.

    Args:
        server: its name.
        of: the tool.
        known: classes by root name; one with the same schema is reused.

    Raises UnmappableError.
    """
    root = of.name.replace("/", ".")
    root = root if root[0].isalpha() or root[0] == "_" else f"_{root}"
    space = f"urn:mcp:{server}:{of.name}"
    takes = _find_known(map_schema(of.takes, name=root, namespace=space, doc=of.line), known)
    if of.gives is None:
        return ToolForms(takes, None)
    result = map_schema(of.gives, name=f"{root}.result", namespace=space, doc=f"The result of {root}.")
    return ToolForms(takes, _find_known(result, known))


def _find_known(mapped: MappedSchema, known: Mapping[str, type]) -> MappedSchema:
    other = known.get(vars(mapped.cls)["__xml_name__"])
    return mapped if other is None or find_difference(other, mapped.cls) else replace(mapped, cls=other)


def find_difference(left: type, right: type) -> str:
    """Return the place, as a path of elements, where two payload classes have another form in XML.

    Empty when they have one.

    Whatever their classes and fields are called in Python does not matter.
    """
    one, other = (vars(each).get("__payload__") for each in (left, right))
    if not isinstance(one, PayloadType) or not isinstance(other, PayloadType):
        return "the whole of it"
    return _explain_unlike(one.record, other.record, "")


def _explain_unlike(left: Type, right: Type, path: str) -> str:
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        texts = [[write_lock for write_lock, _ in each.choices] for each in (left, right)]
        same = left.kind is right.kind and left.facets == right.facets and texts[0] == texts[1]
        return "" if same else path
    if not isinstance(left, RecordType) or not isinstance(right, RecordType):
        return path
    fields = {each.xml: each for each in left.fields}
    others = {each.xml: each for each in right.fields}
    if fields.keys() != others.keys():
        return f"{path}/{min(fields.keys() ^ others.keys())}"
    if left.ordered and [*fields] != [*others]:
        return f"the order of {path or 'its elements'}"
    for name, one in fields.items():
        place, other = f"{path}/{name}", others[name]
        found = (
            _explain_unlike(one.type, other.type, place)
            if _collect_form(one) == _collect_form(other)
            else place
        )
        if found:
            return found
    return ""


def _collect_form(field: Field) -> tuple[object, ...]:
    return field.place, field.optional, field.repeated, field.minimum, field.maximum
