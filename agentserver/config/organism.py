"""The frozen result of loading a configuration.

Owns Organism, BoundListener and SourceLine. Refuses to know YAML, files and how the values were checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from agentserver.core.state.principals import Trust
from agentserver.handoff.scrub import Scrub

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from agentserver.completion import LanguageModels, ReadyAgent
    from agentserver.config.code.editions import LoadedModules
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.contract import HandlerMetadata, HandlerResult
    from agentserver.core.blueprint import Limits, Listener
    from agentserver.guards.base import Guard
    from agentserver.guards.lineage.exposure import Recall
    from agentserver.handoff.intents import Vocabulary
    from agentserver.payload.foreign.servers import McpServer
    from agentserver.provenance.policy.declarations import Policy

    Handler: TypeAlias = Callable[[Any, HandlerMetadata], Awaitable[HandlerResult]]
    Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


async def elsewhere(_payload: Any, _metadata: Any) -> NoReturn:
    """Stands where a handler would that this process does not have: an isolated one, a tool's, an agent's.

    Raises RuntimeError: it is not there to be called.
    """
    raise RuntimeError("this listener's handler is not in this process")


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line, from 1, of a file."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Isolation:
    """The process of its own that a listener's handler has, and the code that it imports behind its wall.

    Args:
        memory: bytes of address space.
        cpu: seconds of processor time of one call.
        files: open files at once.
        disk: bytes that it may have written at one time.
        read: files and folders that it reads beside the packages of its code, relative to the project.
        scratch: whether it has a folder to write to.
        ports: TCP ports that it may connect to.
        recycle: calls after which it is replaced.
        warm: processes that are started before messages are taken.
        environment: the variables that it is given.
        handler: the dotted path of the handler: a module and a function.
        payloads: dotted paths of the classes that it takes.
        replies: dotted paths of those that it answers with or stores.
        settings_class: the dotted path of the class of its settings.
        settings: their values, as the YAML has them.
        lifespan: the dotted path of what gives its resources.
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


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener with the code behind it.

    Args:
        listener: the frozen facts that the core works with.
        handler: the author's callable, checked: awaitable, two positional parameters; None of an agent.
        settings: an instance of the listener's settings class, or None when it has none.
        returns_bytes: whether the handler's return annotation admits the deprecated ``bytes``.
        schema: a hand-written XSD inside the project directory, resolved, or None.
        source: where the YAML declares the listener; the file as the caller of ``load`` named it.
        discovered: the ``@xmlify`` classes that the handler's code can name or the YAML lists, in a stable order: all
            that it can answer with, store, and be answered with. Its own payload classes are among them.
        agent: the facts of one that is made of a language model, and has no handler.
        isolation: the process of its own that it has; None when its handler runs in the server.
    """

    listener: Listener
    handler: Handler | None
    settings: object | None = field(repr=False)
    returns_bytes: bool
    schema: Path | None
    source: SourceLine
    discovered: tuple[type, ...] = ()
    agent: ReadyAgent | None = None
    isolation: Isolation | None = None


@dataclass(frozen=True, slots=True)
class Journal:
    """The place of conversations across restarts.

    Args:
        path: of the file, relative to the project directory.
        retention: seconds for which finished conversations are kept.
        limit: bytes that it may hold; beyond it nothing new is accepted.
        sync: what a commit waits for: the disk or the operating system.
    """

    path: str = "out/journal.sqlite"
    retention: float = 30 * 86_400.0
    limit: int = 10 * 10**9
    sync: Literal["full", "normal"] = "full"


@dataclass(frozen=True, slots=True)
class PostgresKeys:
    """The Postgres database that keeps conversations for all servers of an organism.

    Args:
        url: of the database, perhaps with a password; PG* variables say what it leaves out.
        schema: that holds the tables.
        migrate: auto, where a server that starts makes or upgrades them.
        wait: seconds for which a start waits for a database that is away.
        lease: seconds of silence after which the conversations of a server are taken over.
        durability: relaxed, where a database is taken that acknowledges commits before they are on its disk.
        retention: seconds for which finished conversations are kept.
        source: where the YAML names it.
    """

    url: str = field(default="", repr=False)
    schema: str = "agentserver"
    migrate: Literal["auto", "never"] = "auto"
    wait: float = 0.0
    lease: float = 5.0
    durability: Literal["full", "relaxed"] = "full"
    retention: float = 30 * 86_400.0
    source: SourceLine | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Handoffs:
    """The rules by which listeners hand work to one another.

    Args:
        vocabulary: the intents, proved.
        payloads: for each payload class that is bound to intents, the intent by target.
        audit: the file for the record of attempts, relative to the project directory; None keeps none.
        scrub: whether instruction-like lines are taken out of free text.
        source: where the YAML declares the intents.
    """

    vocabulary: Vocabulary
    payloads: Mapping[type, Mapping[str, str]] = field(default_factory=dict)
    audit: str | None = None
    scrub: Scrub = Scrub.ON
    source: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """The trust that the organism places in listeners and principals.

    Args:
        policy: what is declared of listeners and fields, those of the listeners' own ``trust`` included.
        quarantined: listeners that may only say what a closed schema admits.
        planners: listeners whose ``Plan`` fixes what a conversation may do.
        memory: how far the code of a listener remembers what it was given; of any other, all its threads of a
            conversation.
        viewers: listeners that are shown references in place of untrusted values.
    """

    policy: Policy
    quarantined: frozenset[str] = frozenset()
    planners: frozenset[str] = frozenset()
    memory: Mapping[str, Recall] = field(default_factory=dict)
    viewers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class McpServing:
    """The listeners that hosts of the Model Context Protocol are offered.

    Args:
        expose: the listeners that are tools, in order.
        trust: of every host.
        approvals: address of the page of an approval, without its id; empty without one.
        deadline: seconds for which a host waits for a call.
    """

    expose: tuple[str, ...]
    trust: Trust
    approvals: str
    deadline: float


@dataclass(frozen=True, slots=True)
class Otel:
    """The things that OpenTelemetry is told of the organism.

    Args:
        url: where spans go, whole.
        headers: that the collector asks for, from the environment.
        certificate: path of the certificates that its own is checked by; empty for the system's.
        resource: attributes of the server.
        sample: the share of requests that are told, from 0 to 1.
        content: whether spans hold messages.
        redact: patterns of the names of fields that are taken out of them.
        asked: whether the YAML asks for it, and not the environment alone.
        metrics: where the metrics of language models go, whole; empty for none.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: str = ""
    resource: Mapping[str, str] = field(default_factory=dict)
    sample: float = 1.0
    content: bool = False
    redact: tuple[str, ...] = ()
    asked: bool = True
    metrics: str = ""


@dataclass(frozen=True, slots=True)
class DoorKeys:
    """The door by which other programs and people reach the organism.

    Args:
        host: the address that is listened on.
        port: 0 for any that is free.
        public: the address by which clients reach it, without a path; empty for that which is listened on.
        tls: the files of the certificate and of its key, relative to the project directory; None for plain HTTP.
        body: bytes of a request's body.
        agui: whether front ends are answered that speak AG-UI.
        idle: seconds for which a connection may stay without a request.
    """

    host: str = "127.0.0.1"
    port: int = 8420
    public: str = ""
    tls: tuple[str, str] | None = None
    body: int = 1_000_000
    agui: bool = False
    idle: float = 5.0


@dataclass(frozen=True, slots=True)
class Organism:
    """A checked configuration.

    Args:
        name: of the organism, for people.
        project: the directory from which dotted paths resolve, absolute.
        listeners: in the order of the files.
        limits: of the server.
        lifespan: called without arguments, gives the async context manager of the resources; or None.
        secrets: what log output must not show.
        files: every YAML file that was read, the main one first, absolute.
        journal: the file in which conversations are kept; None where there is none.
        engine: the database that keeps them in place of a journal; without either they are in memory only.
        provenance: whom it trusts with what; None when origins are not tracked.
        modules: the project's modules after this load (see ``forget``).
        handoffs: how work is handed over; None where no intents are declared.
        guards: those of the program, by name, in the order in which they are asked.
        models: the language models that handlers may ask; None where none are declared.
        serving: what MCP hosts are offered; None where nothing is.
        door: by which it is reached over the network; None where there is none.
        strangers: whether other gateways open conversations for principals who are strangers, to every listener.
        mcp: the servers whose tools are listeners.
        otel: what OpenTelemetry is told; None for nothing.
    """

    name: str
    project: Path
    listeners: tuple[BoundListener, ...]
    limits: Limits
    lifespan: Lifespan | None
    secrets: Secrets
    files: tuple[Path, ...]
    modules: LoadedModules | None = field(default=None, repr=False)
    journal: Journal | None = None
    engine: PostgresKeys | None = None
    handoffs: Handoffs | None = None
    provenance: Provenance | None = None
    guards: Mapping[str, Guard] = field(default_factory=dict, repr=False)
    models: LanguageModels | None = None
    serving: McpServing | None = None
    door: DoorKeys | None = None
    strangers: bool = False
    mcp: tuple[McpServer, ...] = ()
    otel: Otel | None = None

    @property
    def addressed(self) -> frozenset[str]:
        """The listeners that principals may address whose words are no orders."""
        if self.strangers:
            return frozenset(bound.listener.name for bound in self.listeners)
        if self.serving is None or self.serving.trust is Trust.ORDERS:
            return frozenset()
        return frozenset(self.serving.expose)
