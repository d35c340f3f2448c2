"""Keys below ``mcp:``: servers whose tools become listeners."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from agentserver.config.keys.approval import ApprovalKey, DenialsKey  # noqa: TC001 - pydantic reads them
from agentserver.config.keys.fields import (
    Deadline,
    Line,
    ListenerName,
    Strict,
    TextPattern,
    ToolTrusts,
    Variable,
)
from agentserver.config.keys.isolation import CommandIsolationKey  # noqa: TC001 - pydantic reads it

RESTARTS = 5

_Word: TypeAlias = Annotated[str, Field(min_length=1, max_length=4096)]
_ToolName: TypeAlias = Annotated[
    str,
    Field(max_length=128),
    TextPattern(r"^[A-Za-z0-9_.\-/]+$", "may hold letters, digits and _ - . / only"),
]


class McpToolEntry(Strict):
    """Tool of an MCP server, as a listener."""

    name: _ToolName = Field(description="The server's name for it; the listener is SERVER.TOOL.")
    trust: ToolTrusts = Field(
        description="The roles of the tool in provenance: source, sink, trusted, inert, relay; one or a list."
    )
    description: Line | None = Field(
        default=None,
        description="One line: what the tool does, shown to peers and models; defaults to the first line of the locked "
        "description.",
    )
    deadline: Deadline | None = Field(
        default=None, description="Time that one call may take; defaults to that of the server."
    )
    retries: int = Field(
        default=0,
        ge=0,
        le=100,
        description="How often a failed call is sent again. The server may have executed it already.",
    )
    concurrency: int = Field(default=8, ge=1, le=4096, description="Its concurrent calls.")
    approval: ApprovalKey = Field(
        default=None,
        description="required: every call waits until a person approves it; a mapping limits this to some calls.",
    )
    deny: DenialsKey = Field(
        default_factory=dict,
        description="Conditions on arguments, as under approval: when:. A call that meets one is denied, and no person "
        "is asked.",
    )


class McpEntry(Strict):
    """Server of the Model Context Protocol. Its tools are locked in schemas/mcp/NAME.json (agentserver mcp lock)."""

    name: ListenerName = Field(description="The prefix of the names of its listeners.")
    command: Annotated[list[_Word], Field(min_length=1, max_length=100)] | None = Field(
        default=None,
        description="The program and its arguments; it is started in the project directory and connected by its "
        "standard input and output.",
    )
    url: Annotated[str, Field(pattern=r"^https?://", max_length=2000)] | None = Field(
        default=None, description="The address of a server with HTTP, instead of a command."
    )
    token: Annotated[str, Field(min_length=1, max_length=8192)] | None = Field(
        default=None,
        repr=False,
        description="The bearer token for a server with HTTP.",
        examples=["${SEARCH_TOKEN}"],
    )
    on_behalf: bool = Field(
        default=False,
        description="true: each call shows a token of its user, from the exchange of identity:, "
        "over a connection of its own; token is for agentserver mcp lock alone.",
    )
    scope: Annotated[
        str,
        Field(max_length=1000),
        TextPattern(r"^[!#-\[\]-~]+( [!#-\[\]-~]+)*$", "is scopes with one space between two"),
    ] = Field(default="", description="The scopes of the user's token; the provider's default without any.")
    env: list[Variable] = Field(
        default_factory=list,
        max_length=100,
        description="Names of the environment variables of the program. It gets no others.",
    )
    tools: list[McpToolEntry] = Field(
        min_length=1,
        max_length=1000,
        description="The tools that become listeners; other tools are never called.",
    )
    deadline: Deadline = Field(default=60.0, description="Time that one call may take.")
    isolation: CommandIsolationKey = Field(
        default=None,
        title="Isolation",
        description="process: the program runs behind a wall, with the defaults below; or a mapping of permissions.",
    )
    restarts: int = Field(
        default=RESTARTS,
        ge=0,
        le=1000,
        description="How often in a row the server is restarted or reconnected after a failure.",
    )

    @property
    def listeners(self) -> tuple[str, ...]:
        """The names of the tools as listeners."""
        return tuple(self.name_listener(tool) for tool in self.tools)

    def name_listener(self, tool: McpToolEntry) -> str:
        """Return the name of a tool as a listener: without a slash."""
        return f"{self.name}.{tool.name.replace('/', '.')}"


def check_reachable(entry: McpEntry) -> McpEntry:
    """Check how the server is reached. Raises ValueError unless there is exactly one way."""
    if (entry.command is None) == (entry.url is None):
        raise ValueError("needs either command or url")
    if entry.url is None and entry.token is not None:
        raise ValueError("token is for a url; name an environment variable in env for a command")
    if entry.url is None and entry.on_behalf:
        raise ValueError("on_behalf is for a url: a program has one environment for all users")
    if entry.scope and not entry.on_behalf:
        raise ValueError("scope is for on_behalf: true")
    if entry.url is not None and entry.isolation is not None:
        raise ValueError("isolation is for a command; a url is a program elsewhere")
    if entry.url is not None and entry.env:
        raise ValueError("env is for a command; a url has a token")
    return entry


Server: TypeAlias = Annotated[McpEntry, AfterValidator(check_reachable)]
