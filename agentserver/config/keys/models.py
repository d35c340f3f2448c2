"""The shape of ``organism.yaml``: keys, types, bounds, help texts.

Owns the pydantic models, which are the one description of the file: the checks and the editors' JSON Schema
both come from them. Refuses to know files, lines and the code that the file names.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field

from agentserver.config.keys.engine import MaybeEngine  # noqa: TC001 - pydantic reads it
from agentserver.config.keys.fields import (
    Deadline,
    Declared,
    Dotted,
    DottedList,
    Line,
    ListenerName,
    Name,
    Peers,
    RelativePath,
    Retention,
    Size,
    Strict,
    alone,
    given,
)
from agentserver.config.keys.http import MaybeHttp  # noqa: TC001 - pydantic reads it
from agentserver.config.keys.intents import HandoffsEntry, IntentEntry
from agentserver.config.keys.isolation import IsolationKey  # noqa: TC001 - pydantic reads it
from agentserver.config.keys.llm import LlmEntry, MaybeAgent
from agentserver.config.keys.mcp import Server  # noqa: TC001 - pydantic reads it
from agentserver.config.keys.otel import MaybeOtel  # noqa: TC001 - pydantic reads it
from agentserver.config.keys.serving import MaybeServing  # noqa: TC001 - pydantic reads it
from agentserver.config.keys.words import Approval, Concurrency, Trusts  # noqa: TC001 - pydantic reads them
from agentserver.config.organism import Journal
from agentserver.core.blueprint import Limits

MAX_LISTENERS = 10_000

_JOURNAL = Journal()

Remembers: TypeAlias = Annotated[
    Literal["thread", "listener", "server"] | None,
    BeforeValidator(given, json_schema_input_type=Literal["thread", "listener", "server"]),
]
View: TypeAlias = Annotated[
    Literal["references"] | None, BeforeValidator(given, json_schema_input_type=Literal["references"])
]
Handled: TypeAlias = Annotated[Dotted | None, BeforeValidator(given, json_schema_input_type=Dotted)]


class ListenerEntry(Strict):
    """One participant of the organism."""

    name: ListenerName = Field(description="Unique; letters, digits and _ - . (dots carry no meaning).")
    handler: Handled = Field(
        default=None,
        description="Dotted path of the async function that handles its messages. An agent with a model has none.",
    )
    model: Name | None = Field(
        default=None,
        description="In place of a handler: the language model, of llm: models, that the listener is made of.",
    )
    prompt: RelativePath | None = Field(
        default=None,
        description="Of a listener with a model: the file with the text that it begins with, relative to the project "
        "directory.",
    )
    answer: Dotted | None = Field(
        default=None,
        description="Of a listener with a model: dotted path of the @xmlify class that it answers with.",
    )
    description: Line = Field(
        description="One line: what the listener does, shown to its peers and to models."
    )
    payload_class: DottedList | None = Field(
        default=None,
        description="Dotted path, or a list of them, of the @xmlify classes it accepts. "
        "May be left out when the handler's annotation names them.",
    )
    replies: DottedList | None = Field(
        default=None,
        description="Dotted path, or a list of them, of @xmlify classes that the handler answers with or stores and "
        "its module does not name at the top: imported inside a function, or made elsewhere.",
    )
    agent: MaybeAgent = Field(
        default=None,
        title="Agent",
        description="true: the handler learns its own name, as agents do. A listener with a model is an agent; a "
        "mapping sets its bounds.",
    )
    peers: Peers = Field(
        default_factory=list,
        description="The listeners it may address besides its caller, itself and system.*. "
        "Missing and empty both mean no others.",
    )
    broadcast: bool = Field(
        default=False,
        description="Whether a message that names no listener may go to all that share its payload class.",
    )
    concurrency: Concurrency = 8
    deadline: Deadline = Field(
        default=60.0,
        description='Time that one invocation may take: seconds, or text such as "500ms", "30s", "2m". Of an agent, '
        "if left out, enough for one attempt at each backend of its model.",
    )
    retries: int = Field(
        default=0,
        ge=0,
        le=100,
        description="How often a crashed or late invocation is repeated before its caller is told.",
    )
    approval: Approval = Field(
        default=None,
        description="required: every message to it waits until a person approves it.",
    )
    progress: bool = Field(
        default=False,
        description="Whether invocation().progress(text) of its handler is shown to whoever waits for the request.",
    )
    trust: Trusts = Field(
        default_factory=list,
        description="What the listener is to provenance: source, sink, trusted, inert, relay, quarantined, planner; "
        "one or a list.",
    )
    memory: Remembers = Field(
        default=None,
        description="How far its code remembers what it was given, for provenance. thread: nothing of one thread shows "
        "on another. listener (if left out): it may show on all its threads of a conversation. server: a global, a "
        "file or a resource may carry words to it from other listeners or conversations. The server cannot see what "
        "code keeps.",
    )
    view: View = Field(
        default=None,
        description="references: it is shown an opaque reference in place of every value of untrusted origin, and the "
        "server puts the value into what it sends.",
    )
    settings: dict[str, Any] | None = Field(
        default=None,
        repr=False,
        description="Values for settings_class; the handler reads them as invocation().settings.",
    )
    settings_class: Dotted | None = Field(
        default=None, description="Dotted path of the dataclass that checks and holds the settings."
    )
    isolation: IsolationKey = Field(
        default=None,
        title="Isolation",
        description="process: its handler runs in a process of its own, behind a wall; remote: in one of another "
        "machine; or what that may use.",
    )
    schema_file: RelativePath | None = Field(
        default=None,
        alias="schema",
        description="A hand-written XSD of the payload class, relative to the project directory.",
    )

    @property
    def acts(self) -> bool:
        """True for an agent, with a handler or with a model."""
        return self.agent is not None or self.model is not None


LimitsKey: TypeAlias = Annotated[Limits, Declared()]


class JournalEntry(Strict):
    """The place of conversations across restarts, and the time for which they stay."""

    path: RelativePath = Field(
        default=_JOURNAL.path,
        description="The SQLite file: in the project directory, relative to it, or an absolute path.",
    )
    retention: Retention = Field(
        default=_JOURNAL.retention, description='How long finished conversations are kept, such as "30d".'
    )
    limit: Size = Field(
        default=_JOURNAL.limit,
        description='What it may hold, such as "10GB"; beyond it nothing new is accepted, and what is in hand goes on.',
    )
    sync: Literal["full", "normal"] = Field(
        default=_JOURNAL.sync,
        description="What a commit waits for: full, the disk, which outlives a loss of power; "
        "normal, the operating system, which outlives the server only.",
    )


class LifespanEntry(Strict):
    """The resources that handlers share."""

    use: Dotted = Field(
        description="Dotted path of a function without arguments that returns an async context manager: "
        "it opens and closes the resources."
    )
    carries: Literal["words"] | None = Field(
        default=None,
        description="words: handlers may read in a resource what others have written there. For provenance each "
        "listener that does not say what its memory is has memory: server.",
    )


class GuardEntry(Strict):
    """A rule about messages that the project adds. Every other key is a setting of the guard's own."""

    model_config = ConfigDict(extra="allow")

    use: Dotted = Field(
        description="Dotted path of the guard's class, which is derived from agentserver.guards.Guard.",
        examples=["rules.NightGuard"],
    )
    name: Name | None = Field(
        default=None,
        description="Tells two guards of one class apart, in the log and in the journal; the name of the class if left "
        "out.",
    )


class IncludedFile(Strict):
    """A file that another one includes."""

    listeners: list[ListenerEntry] = Field(
        default_factory=list, max_length=MAX_LISTENERS, description="The participants."
    )
    limits: LimitsKey = Field(
        default_factory=Limits,
        title="Limits",
        description="Bounds of the server; each is set in one file.",
    )
    include: list[RelativePath] = Field(
        default_factory=list,
        max_length=64,
        description="Files with more listeners and limits; relative to this one, in the project directory.",
    )


def unjournalled(value: Any) -> Any:
    """``none`` means no journal; a key without a value means all of its defaults."""
    return {} if value is None else None if value == "none" else value


MaybeLifespan: TypeAlias = Annotated[
    LifespanEntry | None, BeforeValidator(alone, json_schema_input_type=Dotted | LifespanEntry | None)
]
MaybeJournal: TypeAlias = Annotated[
    JournalEntry | None,
    BeforeValidator(unjournalled, json_schema_input_type=JournalEntry | Literal["none"] | None),
]


class OrganismFile(IncludedFile):
    """The organism: who listens, who may talk to whom, and the limits."""

    name: Name = Field(description="What people call the organism; letters, digits and _ - .")
    lifespan: MaybeLifespan = Field(
        default=None,
        title="Lifespan",
        description="Dotted path of a function without arguments that returns an async context manager: "
        "it opens and closes the resources that handlers share. With more to say, a mapping: the path is its use.",
    )
    journal: MaybeJournal = Field(
        default_factory=JournalEntry,
        title="Journal",
        description="Where conversations are kept across restarts; none keeps them in memory only.",
    )
    engine: MaybeEngine = None
    intents: list[IntentEntry] = Field(
        default_factory=list,
        max_length=1000,
        description="What agents may ask of each other: the closed vocabulary of handoffs.",
    )
    handoffs: HandoffsEntry = Field(
        default_factory=HandoffsEntry,
        title="Handoffs",
        description="Settings of every handoff, for all intents.",
    )
    guards: list[GuardEntry] = Field(
        default_factory=list,
        max_length=100,
        description="Rules about messages that the project adds, asked in this order, after those of the server.",
    )
    llm: Annotated[LlmEntry | None, BeforeValidator(given, json_schema_input_type=LlmEntry)] = Field(
        default=None,
        title="Language models",
        description="The language models that handlers may ask, and the places that answer.",
    )
    mcp: list[Server] = Field(
        default_factory=list,
        max_length=100,
        description="Servers of the Model Context Protocol whose tools are listeners.",
    )
    mcp_server: MaybeServing = None
    otel: MaybeOtel = None
    http: MaybeHttp = None
    provenance: Any = Field(
        default=None,
        title="Provenance",
        description="Where values may come from that drive something with consequences: the keys of a policy, or "
        "policy: the path of a file with them. Without this key origins are not tracked.",
    )
