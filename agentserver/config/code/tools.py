"""Turns the tools of MCP servers into listeners, from ``mcp:`` and the locks. Connects to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from agentserver.config.code.isolated import explain_unreadable
from agentserver.config.code.userland import Project
from agentserver.config.findings import did_you_mean
from agentserver.config.keys.approval import read_denials
from agentserver.config.keys.fields import MAX_NAME, build_value
from agentserver.config.keys.mcp import McpEntry
from agentserver.config.keys.models import ListenerEntry
from agentserver.config.organism import BoundListener, SourceLine, refuse_call
from agentserver.config.validation import DeclaredListener
from agentserver.core.blueprint import Listener
from agentserver.payload.foreign.lock import (
    LIMITS,
    CommandIsolation,
    LockError,
    McpServer,
    McpTool,
    ServerLock,
    find_difference,
    forms,
    read_lock,
)
from agentserver.payload.foreign.mapping import UnmappableError
from agentserver.payload.foreign.results import ToolFailure, ToolResult
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from agentserver.config.findings import Mistakes, SourceSpan
    from agentserver.config.keys.mcp import McpToolEntry
    from agentserver.config.validation import DeclaredEntry, ParsedDocument
    from agentserver.payload.foreign.lock import LockedTool, ToolForms

LOCKS = "schemas/mcp"
"""The directory of locks, below the project directory."""


def lock_path(server: str) -> str:
    """Return the path of the lock of a server, relative to the project directory."""
    return f"{LOCKS}/{server}.json"


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """Locked tool, and its place in the YAML."""

    declared: DeclaredListener
    entry: McpToolEntry
    server: McpEntry
    agreed: LockedTool


@dataclass
class ToolReader:
    """Reader of the servers of an organism.

    Args:
        main: the main file.
        project: the project directory.
        environ: the values of ``env``.
        report: collects the mistakes.
    """

    main: ParsedDocument
    project: Path
    environ: Mapping[str, str]
    report: Mistakes

    @cached_property
    def _servers(self) -> list[DeclaredEntry[McpEntry]]:
        """Valid entries, each name once."""
        return self.main.list_named("mcp", McpEntry, self.report)

    def describe_connections(self) -> tuple[McpServer, ...]:
        """Describe how to reach each server, without its tools, to make a lock."""
        return tuple(self._read_server(each, ()) for each in self._servers)

    def list_declared(self) -> tuple[DeclaredTool, ...]:
        """List every tool that is named in the YAML and locked."""
        found: list[DeclaredTool] = []
        for each in self._servers:
            lock = self._read_lock(each)
            if lock is not None:
                found += self._iter_tools(each, lock)
        return tuple(found)

    def _read_lock(self, declared: DeclaredEntry[McpEntry]) -> ServerLock | None:
        """Read the lock of a server; None after a finding."""
        name = declared.entry.name
        place, path = lock_path(name), self.project / lock_path(name)
        try:
            with path.open("rb") as file:
                return read_lock(file.read(LIMITS.bytes + 1))
        except FileNotFoundError:
            message = f"{place} is missing: nothing is known of the server's tools"
        except OSError as error:
            message = f"{place} cannot be read: {error.strerror}"
        except LockError as error:
            message = f"{place} {error}"
        self.report.add_error(
            ConfigCode.MCP, declared.locate("name"), message, f"run: agentserver mcp lock --server {name}"
        )
        return None

    def _iter_tools(self, declared: DeclaredEntry[McpEntry], lock: ServerLock) -> Iterator[DeclaredTool]:
        """Yield the tools of a server that are locked, and report the others."""
        entry = declared.entry
        seen: set[str] = set()
        for number, tool in enumerate(entry.tools):
            span = declared.locate("tools", number, "name")
            agreed = lock.find_tool(tool.name)
            if tool.name in seen:
                self.report.add_error(ConfigCode.REPEATED, span, f'duplicate tool "{tool.name}"')
            elif agreed is None:
                known = did_you_mean(tool.name, (each.name for each in lock.tools))
                hint = known or f"run: agentserver mcp lock --server {entry.name}"
                self.report.add_error(
                    ConfigCode.NAME, span, f'{lock_path(entry.name)} has no tool "{tool.name}"', hint
                )
            elif len(name := entry.name_listener(tool)) > MAX_NAME:
                self.report.add_error(
                    ConfigCode.MCP, span, f"as a listener its name has more than {MAX_NAME} characters"
                )
            else:
                listener = ListenerEntry(
                    name=name,
                    handler="agentserver.mcp",
                    description=tool.description or agreed.line,
                    trust=[*tool.trust],
                )
                place = ("mcp", declared.index, "tools", number)
                self._warn_contradicted(tool, agreed, span)
                yield DeclaredTool(
                    DeclaredListener(self.main.document, number, listener, at=place), tool, entry, agreed
                )
            seen.add(tool.name)

    def _warn_contradicted(self, entry: McpToolEntry, agreed: LockedTool, span: SourceSpan) -> None:
        """Warn of a trust that is looser than what the server itself states about the tool."""
        trust, hints = {*entry.trust}, agreed.hints
        if hints.get("untrustedContentHint") and "source" not in trust:
            message = f'"{agreed.name}" states untrustedContentHint: its answers may hold a stranger\'s words'
            self.report.add_warning(ConfigCode.PROVENANCE, span, message, "add source to its trust")
        if hints.get("destructiveHint") and not hints.get("readOnlyHint") and "sink" not in trust:
            message = f'"{agreed.name}" states destructiveHint: its calls change something'
            self.report.add_warning(ConfigCode.PROVENANCE, span, message, "add sink to its trust")

    def bind_tools(
        self, declared: Sequence[DeclaredTool], bound_listeners: Iterable[BoundListener]
    ) -> tuple[tuple[BoundListener, ...], tuple[McpServer, ...]]:
        """Return the listeners of the tools, and their servers.

        A class of the program with the same name and schema replaces the generated one.
        """
        known = {
            str(vars(kind)["__xml_name__"]): kind for each in bound_listeners for kind in each.discovered
        }
        listeners: list[BoundListener] = []
        tools: dict[str, list[McpTool]] = {}
        for each in declared:
            tool_forms = self._find_forms(each, known)
            if tool_forms is not None:
                listeners.append(_make_listener(each, tool_forms))
                tool = McpTool(each.declared.entry.name, each.agreed, tool_forms)
                tools.setdefault(each.server.name, []).append(tool)
        servers = tuple(
            self._read_server(each, tuple(tools.get(each.entry.name, ()))) for each in self._servers
        )
        return tuple(listeners), servers

    def _find_forms(self, tool: DeclaredTool, known: Mapping[str, type]) -> ToolForms | None:
        span = tool.declared.locate("name")
        try:
            tool_forms = forms(tool.server.name, tool.agreed, known)
        except UnmappableError as error:
            self.report.add_error(ConfigCode.MCP, span, f'"{tool.agreed.name}" cannot be a payload: {error}')
            return None
        for mapped in (tool_forms.takes, tool_forms.gives):
            own = None if mapped is None else known.get(vars(mapped.cls)["__xml_name__"])
            place = "" if own is None or mapped is None else find_difference(own, mapped.cls)
            if own is not None and place:
                message = (
                    f"{own.__qualname__} has another form than {tool.agreed.name} was locked with: {place}"
                )
                self.report.add_error(
                    ConfigCode.MCP,
                    span,
                    message,
                    "agentserver schemas shows the form once the class is gone",
                )
            for note in mapped.notes if mapped is not None else ():
                part = "arguments" if mapped is tool_forms.takes else "result"
                place = f"{part}{note.pointer}"
                self.report.add_warning(
                    ConfigCode.MCP, span, f"{place} of {tool.agreed.name} is JSON as text: it {note.reason}"
                )
        return tool_forms

    def _read_server(self, declared: DeclaredEntry[McpEntry], tools: tuple[McpTool, ...]) -> McpServer:
        entry = declared.entry
        missing = [name for name in entry.env if name not in self.environ]
        for name in missing:
            number = entry.env.index(name)
            self.report.add_error(
                ConfigCode.SECRET,
                declared.locate("env", number),
                f'the environment has no variable "{name}"',
            )
        return build_value(
            McpServer,
            entry,
            command=tuple(entry.command or ()),
            env={name: self.environ[name] for name in entry.env if name in self.environ},
            tools=tools,
            isolation=self._read_isolation(declared),
        )

    def _read_isolation(self, declared: DeclaredEntry[McpEntry]) -> CommandIsolation | None:
        """Read the wall of the program of a server."""
        isolation = declared.entry.isolation
        if isolation is None:
            return None
        for number, path in enumerate(isolation.read):
            message = explain_unreadable(Project(self.project, self.project), path)
            if message:
                span = declared.locate("isolation", "read", number)
                self.report.add_error(
                    ConfigCode.ISOLATION,
                    span,
                    message,
                    "name the files that it reads, relative to the project",
                )
        return build_value(CommandIsolation, isolation)


def _make_listener(tool: DeclaredTool, tool_forms: ToolForms) -> BoundListener:
    entry, answer = tool.entry, ToolResult if tool_forms.gives is None else tool_forms.gives.cls
    listener = Listener(
        name=tool.declared.entry.name,
        payloads=(tool_forms.takes.cls,),
        description=tool.declared.entry.description,
        concurrency=entry.concurrency,
        deadline=tool.server.deadline if entry.deadline is None else entry.deadline,
        retries=entry.retries,
        approval=None if entry.approval is None else entry.approval.make_rule(),
        deny=read_denials(entry.deny),
        answers=(answer, ToolFailure),
    )
    span = tool.declared.locate()
    source = SourceLine(span.file, span.line)
    discovered = (tool_forms.takes.cls, answer, ToolFailure)
    return BoundListener(listener, refuse_call, None, False, None, source, discovered)
