"""The shape of ``isolation:``, which gives a listener a process of its own, and the program of an MCP server a wall.

Owns its keys, defaults and bounds. Refuses to know how a process is started and how it is held.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from agentserver.config.keys.fields import Deadline, Dotted, Memory, RelativePath, Size, Strict, Variable
from agentserver.config.organism import Isolation
from agentserver.payload.foreign.servers import CommandIsolation

_DEFAULTS = Isolation()
_OF_COMMANDS = CommandIsolation()
_Port = Annotated[int, Field(ge=1, le=65_535)]


class _Walled(Strict):
    """The things that any program behind a wall may use; the rest of the machine is out of its reach."""

    disk: Size = Field(default=_DEFAULTS.disk, description="All that it may have written at one time.")
    scratch: bool = Field(
        default=_DEFAULTS.scratch, description="Whether it has a folder to write to (TMPDIR)."
    )
    ports: list[_Port] = Field(
        default_factory=list, max_length=100, description="TCP ports that it may connect to, at any address."
    )


class IsolationEntry(_Walled):
    """The things that a process of one listener may use; the rest of the machine is behind a wall."""

    memory: Memory = Field(default=_DEFAULTS.memory, description='Address space, such as "512MB".')
    cpu: Deadline = Field(default=_DEFAULTS.cpu, description="Processor time of one call.")
    files: int = Field(default=_DEFAULTS.files, ge=16, le=65_536, description="Open files at once.")
    read: list[RelativePath] = Field(
        default_factory=list,
        max_length=100,
        description="Files and folders of the project that it reads, beside the packages of its own code.",
    )
    recycle: int = Field(
        default=_DEFAULTS.recycle, ge=1, le=1_000_000, description="Calls after which a process is replaced."
    )
    warm: int = Field(
        default=_DEFAULTS.warm,
        ge=0,
        le=256,
        description="Processes that are started before messages are taken.",
    )
    env: dict[Variable, str] = Field(
        default_factory=dict,
        max_length=100,
        repr=False,
        description='Its whole environment, such as {REGION: "${REGION}"}; nothing of the server\'s is inherited.',
    )
    remote: bool = Field(
        default=_DEFAULTS.remote,
        description="Whether its processes are on other machines, where agentserver worker starts them.",
    )
    worker_lifespan: Dotted | None = Field(
        default=None,
        description="Dotted path of an async context manager that gives the resources of this process.",
    )


def _spelled(value: Any) -> Any:
    """The word ``process`` asks for every default."""
    if value is None:
        raise ValueError("must not be empty: leave the key out, or say process")
    if isinstance(value, str):
        if value != "process":
            raise ValueError('is "process", or what the process may use')
        return {}
    return value


def _worded(value: Any) -> Any:
    """``process`` asks for every default, ``remote`` for every default on another machine."""
    if isinstance(value, str) and value not in ("process", "remote"):
        raise ValueError('is "process", "remote", or what the process may use')
    return {"remote": True} if value == "remote" else _spelled(value)


class CommandIsolationEntry(_Walled):
    """The things that the program of an MCP server may use; the rest of the machine is behind a wall."""

    memory: Memory = Field(
        default=_OF_COMMANDS.memory, description='Address space of one process, such as "1GB".'
    )
    files: int = Field(
        default=_OF_COMMANDS.files, ge=16, le=65_536, description="Open files of one process at once."
    )
    read: list[RelativePath] = Field(
        default_factory=list,
        max_length=100,
        description="Files and folders of the project that it reads, beside those that its command names.",
    )
    fork: bool = Field(
        default=_OF_COMMANDS.fork,
        description="Whether it may make processes; how many is not bounded then, and memory is that of each.",
    )
    programs: list[Annotated[str, Field(min_length=1, max_length=4096)]] = Field(
        default_factory=list, max_length=100, description="Programs that it may start beside its own."
    )


CommandIsolationKey: TypeAlias = Annotated[
    CommandIsolationEntry | None,
    BeforeValidator(_spelled, json_schema_input_type=CommandIsolationEntry | Literal["process"]),
]

IsolationKey: TypeAlias = Annotated[
    IsolationEntry | None,
    BeforeValidator(_worded, json_schema_input_type=IsolationEntry | Literal["process", "remote"]),
]
