"""The keys below ``mcp_server:`` in ``organism.yaml``: types, bounds, help texts.

Owns the pydantic model. Refuses to know whether a name is there.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from agentserver.config.keys.fields import Deadline, Name, Spelling, Strict, given

_Page: TypeAlias = Annotated[
    str,
    Field(max_length=1000),
    Spelling(r"^https?://[^\s@?#]+/$", "is an address that begins with http:// or https:// and ends with /"),
]


class McpServerEntry(Strict):
    """The listeners that hosts of the Model Context Protocol are offered."""

    expose: list[Name] = Field(
        min_length=1,
        max_length=1000,
        description="The listeners that are tools, in the order in which hosts see them. No host can address another.",
    )
    trust: Literal["stranger", "relay", "orders"] = Field(
        default="stranger",
        description="What the words of a host count for. stranger: untrusted text, since a host says what its model "
        "has read; relay: they neither authorise nor accuse; orders: those of a person of yours. By HTTP they count "
        "for no more than those of the principal whose token the host shows.",
    )
    approvals: _Page | None = Field(
        default=None,
        description="The address of a page on which a person decides about an approval, up to its last /; the id of "
        "the approval follows. A host that can show pages is told to show it.",
    )
    deadline: Deadline = Field(
        default=60.0,
        description='How long a host waits for a call: seconds, or text such as "2m". The call itself goes on.',
    )


MaybeServing: TypeAlias = Annotated[
    McpServerEntry | None,
    BeforeValidator(given, json_schema_input_type=McpServerEntry),
    Field(
        title="MCP server",
        description="What hosts of the Model Context Protocol are offered: by agentserver mcp serve, and at /mcp of "
        "agentserver serve.",
    ),
]
