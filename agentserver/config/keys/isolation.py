"""Keys below ``isolation:`` of listeners and of MCP servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from agentserver.config.keys.fields import Deadline, Dotted, Memory, RelativePath, Size, Strict, Variable
from agentserver.payload.foreign.lock import CommandIsolation

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Isolation:
    """Process of an isolated listener, and the code that it imports behind its wall.

    Args:
        memory: bytes of address space.
        cpu: seconds of processor time of one call.
        files: open files at once.
        disk: bytes that it may have written at one time.
        read: files and folders that it may read in addition to the packages of its code, relative to the project.
        scratch: whether it has a folder to write to.
        ports: TCP ports that it may connect to.
        recycle: number of calls after which a process is replaced.
        warm: number of processes that are started before messages are accepted.
        environment: the variables that it is given.
        handler: the dotted path of the handler: a module and a function.
        payloads: dotted paths of the classes that it accepts.
        replies: dotted paths of the classes that it answers with or stores.
        settings_class: the dotted path of the class of its settings.
        settings: their values, as the YAML has them.
        lifespan: the dotted path of the function that provides its resources.
        remote: whether its processes are on other machines.
    """

    memory: int = 512 * 10**6
    cpu: float = 60.0
    files: int = 64
    disk: int = 16 * 10**6
    read: tuple[str, ...] = ()
    scratch: bool = True
    ports: tuple[int, ...] = ()
    recycle: int = 1000
    warm: int = 2
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    handler: str = ""
    payloads: tuple[str, ...] = ()
    replies: tuple[str, ...] = ()
    settings_class: str | None = None
    settings: Mapping[str, Any] | None = field(default=None, repr=False)
    lifespan: str | None = None
    remote: bool = False


_DEFAULTS = Isolation()
_OF_COMMANDS = CommandIsolation()
_Port = Annotated[int, Field(ge=1, le=65_535)]


class _WallPermissions(Strict):
    """Permissions of any program behind a wall."""

    disk: Size = Field(default=_DEFAULTS.disk, description="Maximal size of its files at one time.")
    scratch: bool = Field(
        default=_DEFAULTS.scratch, description="Whether it has a folder to write to (TMPDIR)."
    )
    ports: list[_Port] = Field(
        default_factory=list, max_length=100, description="TCP ports that it may connect to, on any host."
    )


class IsolationEntry(_WallPermissions):
    """Permissions of the process of one listener; everything else is behind a wall."""

    memory: Memory = Field(default=_DEFAULTS.memory, description='Address space, such as "512MB".')
    cpu: Deadline = Field(default=_DEFAULTS.cpu, description="Processor time of one call.")
    files: int = Field(default=_DEFAULTS.files, ge=16, le=65_536, description="Open files at once.")
    read: list[RelativePath] = Field(
        default_factory=list,
        max_length=100,
        description="Files and folders of the project that it may read, in addition to the packages of its code.",
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
        description='Its environment, such as {REGION: "${REGION}"}; nothing is inherited from the server.',
    )
    remote: bool = Field(
        default=_DEFAULTS.remote,
        description="Whether its processes are on other machines, where agentserver worker starts them.",
    )
    worker_lifespan: Dotted | None = Field(
        default=None,
        description="Dotted path of an async context manager that gives the resources of this process.",
    )


def _expand_process(value: Any) -> Any:
    """Expand the word ``process``, which asks for every default."""
    if value is None:
        raise ValueError("must not be empty: leave the key out, or say process")
    if isinstance(value, str):
        if value != "process":
            raise ValueError('is "process", or what the process may use')
        return {}
    return value


def _expand_word(value: Any) -> Any:
    """``process`` asks for every default, ``remote`` for every default on another machine."""
    if isinstance(value, str) and value not in ("process", "remote"):
        raise ValueError('is "process", "remote", or what the process may use')
    return {"remote": True} if value == "remote" else _expand_process(value)


class CommandIsolationEntry(_WallPermissions):
    """Permissions of the program of an MCP server; everything else is behind a wall."""

    memory: Memory = Field(
        default=_OF_COMMANDS.memory, description='Address space of one process, such as "1GB".'
    )
    files: int = Field(
        default=_OF_COMMANDS.files, ge=16, le=65_536, description="Open files of one process at once."
    )
    read: list[RelativePath] = Field(
        default_factory=list,
        max_length=100,
        description="Files and folders of the project that it may read, in addition to those in its command.",
    )
    fork: bool = Field(
        default=_OF_COMMANDS.fork,
        description="Whether it may start processes; their number is then unlimited, and memory is per process.",
    )
    programs: list[Annotated[str, Field(min_length=1, max_length=4096)]] = Field(
        default_factory=list, max_length=100, description="Programs that it may start in addition to its own."
    )


CommandIsolationKey: TypeAlias = Annotated[
    CommandIsolationEntry | None,
    BeforeValidator(_expand_process, json_schema_input_type=CommandIsolationEntry | Literal["process"]),
]

IsolationKey: TypeAlias = Annotated[
    IsolationEntry | None,
    BeforeValidator(_expand_word, json_schema_input_type=IsolationEntry | Literal["process", "remote"]),
]
