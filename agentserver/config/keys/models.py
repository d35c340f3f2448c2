"""Models of ``organism.yaml``: keys, types, defaults, bounds and help texts.

These are the only description of the file: the checks, the schema for editors and the page of keys come from them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field

from agentserver.config.keys.approval import ApprovalKey, DenialsKey  # noqa: TC001 - pydantic reads them
from agentserver.config.keys.endpoints import (
    MaybeHttp,  # noqa: TC001 - pydantic reads it
    MaybeOtel,  # noqa: TC001 - pydantic reads it
    MaybeServing,  # noqa: TC001 - pydantic reads it
    Notify,  # noqa: TC001 - pydantic reads it
)
from agentserver.config.keys.fields import (
    DAY,
    Concurrency,
    DataclassKeys,
    Deadline,
    Dotted,
    DottedList,
    Drain,
    Given,
    Line,
    ListenerName,
    Name,
    Peers,
    RelativePath,
    Retention,
    Size,
    Strict,
    TextPattern,
    Trusts,
    expand_path,
)
from agentserver.config.keys.identity import IdentityEntry  # noqa: TC001 - a field's type
from agentserver.config.keys.intents import HandoffsEntry, IntentEntry
from agentserver.config.keys.isolation import IsolationKey  # noqa: TC001 - pydantic reads it
from agentserver.config.keys.llm import LlmEntry, MaybeAgent  # noqa: TC001 - pydantic reads them
from agentserver.config.keys.mcp import Server  # noqa: TC001 - pydantic reads it
from agentserver.config.keys.triggers import (  # noqa: TC001 - pydantic reads it
    HookEntry,
    InboxEntry,
    ScheduleEntry,
)
from agentserver.core.blueprint import Limits
from agentserver.extras import install_hint, is_installed
from agentserver.remedies.configuration import ConfigCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from agentserver.config.findings import Loc, Mistakes
    from agentserver.config.yaml.document import Document

MAX_LISTENERS = 10_000


class ListenerEntry(Strict):
    """Participant of the organism."""

    name: ListenerName = Field(description="Unique; letters, digits and _ - . (dots carry no meaning).")
    handler: Given[Dotted] = Field(
        default=None,
        description="Dotted path of the async function that handles its messages: with the parameters payload and "
        "metadata, or with typed parameters that become its payload. Not for an agent with a model.",
    )
    model: Name | None = Field(
        default=None,
        description="Instead of a handler: the language model, from llm: models, of an agent.",
    )
    prompt: RelativePath | None = Field(
        default=None,
        description="For a listener with a model: the file of its system prompt, relative to the project directory.",
    )
    answer: Dotted | None = Field(
        default=None,
        description="For a listener with a model: dotted path of the @xmlify class of its answers.",
    )
    description: Line = Field(
        description="One line: what the listener does, shown to its peers and to models."
    )
    payload_class: DottedList | None = Field(
        default=None,
        description="Dotted path, or a list of them, of the @xmlify classes it accepts. "
        "Optional when the annotation of the handler names them, or its parameters declare one.",
    )
    replies: DottedList | None = Field(
        default=None,
        description="Dotted path, or a list of them, of @xmlify classes that the handler answers with or stores, but "
        "that are not globals of its module.",
    )
    agent: MaybeAgent = Field(
        default=None,
        title="Agent",
        description="true: the handler gets its own name, as agents do. A listener with a model is always an agent; a "
        "mapping sets its limits.",
    )
    peers: Peers = Field(
        default_factory=list,
        description="The listeners it may address in addition to its caller, itself and system.*. "
        "If missing or empty, it may address no others.",
    )
    broadcast: bool = Field(
        default=False,
        description="Whether a message without a target may go to all listeners that accept its payload class.",
    )
    concurrency: Concurrency = 8
    deadline: Deadline = Field(
        default=60.0,
        description='Time that one invocation may take: seconds, or text such as "500ms", "30s", "2m". The '
        "default of an agent is the time for one attempt at each backend of its model.",
    )
    retries: int = Field(
        default=0,
        ge=0,
        le=100,
        description="How often a crashed or late invocation is repeated before its caller gets an error.",
    )
    approval: ApprovalKey = Field(
        default=None,
        description="required: every message to it waits until a person approves it; a mapping limits this to some "
        "messages.",
    )
    deny: DenialsKey = Field(
        default_factory=dict,
        description="Conditions on fields of the payload, as under approval: when:. A message that meets one is "
        "denied, and no person is asked.",
    )
    progress: bool = Field(
        default=False,
        description="Whether invocation().progress(text) of its handler is shown to the client of the request.",
    )
    openai: bool | Name = Field(
        default=False,
        title="OpenAI",
        description="true: chat clients that speak the OpenAI protocol reach it at /v1/chat/completions and "
        "/v1/responses, with its name as the model. Their text fills the only required field of its payload, or the "
        "text field that is named here.",
    )
    trust: Trusts = Field(
        default_factory=list,
        description="Its roles in provenance: source, sink, trusted, inert, relay, quarantined, planner; "
        "one or a list.",
    )
    memory: Given[Literal["thread", "listener", "server"]] = Field(
        default=None,
        description="Scope of state that its code keeps, for provenance. thread: inputs of one thread do not affect "
        "another. listener (default): they may affect all its threads of a conversation. server: a global, a file or a "
        "resource may carry text from other listeners or conversations. The server cannot inspect the state of code.",
    )
    view: Given[Literal["references"]] = Field(
        default=None,
        description="references: it gets an opaque reference in place of each untrusted value, and the server "
        "inserts the value into its messages.",
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
        description="process: its handler runs in a separate process, behind a wall; remote: in a process on another "
        "machine; or a mapping of permissions.",
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


LimitsKey: TypeAlias = Annotated[Limits, DataclassKeys()]


class Journal(Strict):
    """The file in which conversations are stored across restarts."""

    path: RelativePath = Field(
        default="out/journal.sqlite",
        description="The SQLite file: relative to the project directory and inside it, or an absolute path.",
    )
    retention: Retention = Field(
        default=30 * DAY, description='How long finished conversations are stored, such as "30d".'
    )
    limit: Size = Field(
        default=10 * 10**9,
        description='Maximal size, such as "10GB"; beyond it new messages are refused, and running requests continue.',
    )
    sync: Literal["full", "normal"] = Field(
        default="full",
        description="full: a commit waits for the disk, and survives a power failure; "
        "normal: for the operating system, and survives only a crash of the server.",
    )


_URL: Final[Loc] = ("engine", "postgres", "url")
_RESERVED: Final = re.compile(r"pg_|information_schema$")
_NO_URL: Final = 'is not the address of a database such as "postgresql://desk@db.example/desk"'
_UNQUOTED: Final = (
    "has a port that is not a number, or a password with signs to be escaped: @ is %40, / is %2F, # is %23"
)
_HOST: Final = re.compile(r"(\[[^\[\]]*\]|[^:@\[\]]*)(:[0-9]{0,5})?")
_SHORTEST_LEASE: Final = 1.0


def _check_connectable(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError(_NO_URL) from None
    if url and (parts.scheme not in ("postgres", "postgresql") or not url.isprintable() or " " in url):
        raise ValueError(_NO_URL)
    user, _, hosts = parts.netloc.rpartition("@")
    if "@" in user + parts.path or parts.fragment or not all(map(_HOST.fullmatch, hosts.split(","))):
        raise ValueError(_UNQUOTED)
    return url


def _check_own_schema(schema: str) -> str:
    if _RESERVED.match(schema):
        raise ValueError(f'"{schema}" is a schema of the database itself')
    return schema


def _check_renewable(lease: float) -> float:
    if lease < _SHORTEST_LEASE:
        raise ValueError(f"must be at least {_SHORTEST_LEASE:g} s: it is renewed three times in that time")
    return lease


_Schema: TypeAlias = Annotated[
    str,
    TextPattern(
        r"^[a-z_][a-z0-9_]{0,39}$",
        "may hold a to z, digits and _ only, at most 40, and begins with a letter or _",
    ),
    AfterValidator(_check_own_schema),
]


class Postgres(Strict):
    """A Postgres database that stores the conversations of all servers of an organism."""

    url: Annotated[str, Field(max_length=2000), AfterValidator(_check_connectable)] = Field(
        default="",
        repr=False,
        description="The address of the database, with several hosts if there are standbys: postgresql://USER@HOST/DB. "
        "Take one with a password from the environment: ${DATABASE_URL}. Missing parts come from PG* "
        "variables, as with other clients.",
        examples=["postgresql://desk@db.example/desk?sslmode=verify-full", "${DATABASE_URL}"],
    )
    schema_name: _Schema = Field(
        default="agentserver",
        alias="schema",
        description="The schema that holds the tables. Organisms that share a database have one each.",
    )
    migrate: Literal["auto", "never"] = Field(
        default="auto",
        description="auto: a server that starts makes or upgrades the tables. never: agentserver engine migrate does, "
        "and a server with older tables does not start.",
    )
    wait: Drain = Field(
        default=0.0,
        description='How long a starting server waits for an unreachable database, such as "60s"; then it exits with '
        "status 2.",
    )
    lease: Annotated[Deadline, AfterValidator(_check_renewable)] = Field(
        default=5.0,
        description="Time without renewal after which other servers take over the conversations of a server.",
    )
    durability: Literal["full", "relaxed"] = Field(
        default="full",
        description="full: a server does not start when the database acknowledges commits before they are on disk. "
        "relaxed: it starts with a warning, and a power failure of the database may lose acknowledged messages.",
    )
    retention: Retention = Field(
        default=30 * DAY, description='How long finished conversations are stored, such as "30d".'
    )


class EngineEntry(Strict):
    """The engine that stores conversations instead of a journal."""

    postgres: Postgres = Field(
        title="Postgres database", description="Postgres 14 or newer. Needs the extra postgres."
    )


MaybeEngine: TypeAlias = Annotated[
    Given[EngineEntry],
    Field(
        title="Engine",
        description="The storage of conversations instead of a journal, shared by several servers.",
    ),
]


class LifespanEntry(Strict):
    """Resources that handlers share."""

    use: Dotted = Field(
        description="Dotted path of a function without arguments that returns an async context manager: "
        "it opens and closes the resources."
    )
    carries: Literal["words"] | None = Field(
        default=None,
        description="words: handlers may read text in a resource that others have written. For provenance the default "
        "of memory is then server.",
    )


class GuardEntry(Strict):
    """Rule about messages that the project adds. Every other key is a setting of the guard."""

    model_config = ConfigDict(extra="allow")

    use: Dotted = Field(
        description="Dotted path of the guard's class, which is derived from agentserver.guards.Guard.",
        examples=["rules.NightGuard"],
    )
    name: Name | None = Field(
        default=None,
        description="Distinguishes two guards of one class in the log and in the journal; defaults to the name of the "
        "class.",
    )


class IncludedFile(Strict):
    """File that another one includes."""

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


def expand_journal(value: Any) -> Any:
    """Convert ``none`` to None, and a missing value to the defaults."""
    return {} if value is None else None if value == "none" else value


MaybeLifespan: TypeAlias = Annotated[
    LifespanEntry | None, BeforeValidator(expand_path, json_schema_input_type=Dotted | LifespanEntry | None)
]
MaybeJournal: TypeAlias = Annotated[
    Journal | None,
    BeforeValidator(expand_journal, json_schema_input_type=Journal | Literal["none"] | None),
]


class OrganismFile(IncludedFile):
    """The organism: listeners, permitted peers and limits."""

    name: Name = Field(description="What people call the organism; letters, digits and _ - .")
    lifespan: MaybeLifespan = Field(
        default=None,
        title="Lifespan",
        description="Dotted path of a function without arguments that returns an async context manager: "
        "it opens and closes the resources that handlers share. With other keys, a mapping with the path as use.",
    )
    journal: MaybeJournal = Field(
        default_factory=Journal,
        title="Journal",
        description="The storage of conversations across restarts; none means memory only.",
    )
    engine: MaybeEngine = None
    intents: list[IntentEntry] = Field(
        default_factory=list,
        max_length=1000,
        description="The closed vocabulary of handoffs between agents.",
    )
    handoffs: HandoffsEntry = Field(
        default_factory=HandoffsEntry,
        title="Handoffs",
        description="Settings of every handoff, for all intents.",
    )
    guards: list[GuardEntry] = Field(
        default_factory=list,
        max_length=100,
        description="Additional rules about messages, which run in this order after those of the server.",
    )
    llm: Given[LlmEntry] = Field(
        default=None,
        title="Language models",
        description="The language models that handlers may ask, and their backends.",
    )
    mcp: list[Server] = Field(
        default_factory=list,
        max_length=100,
        description="Servers of the Model Context Protocol whose tools are listeners.",
    )
    mcp_server: MaybeServing = None
    otel: MaybeOtel = None
    http: MaybeHttp = None
    identity: list[IdentityEntry] = Field(
        default_factory=list,
        max_length=10,
        title="Identity providers",
        description="The identity providers (OpenID Connect) whose tokens the door accepts, besides those of the list "
        "of principals.",
    )
    hooks: list[HookEntry] = Field(
        default_factory=list,
        max_length=100,
        description="Events that other services send to the door, at /hooks/NAME.",
    )
    inbox: list[InboxEntry] = Field(
        default_factory=list,
        max_length=100,
        description="Folders whose files are sent to listeners, each once.",
    )
    notify: list[Notify] = Field(
        default_factory=list,
        max_length=100,
        description="Commands and webhooks that announce messages that wait for an approval.",
    )
    schedules: list[ScheduleEntry] = Field(
        default_factory=list,
        max_length=1000,
        description="Messages that the server sends at set times.",
    )
    provenance: Any = Field(
        default=None,
        title="Provenance",
        description="The permitted origins of values in messages with consequences: the keys of a policy, or "
        "policy: the path of a file with them. Without this key origins are not tracked.",
    )


def read_sound_engine(document: Document) -> Postgres | None:
    """Read the engine of a main file; None without one. Raises ValidationError."""
    if "engine" not in document.data:
        return None
    return EngineEntry.model_validate(document.data["engine"]).postgres


def read_engine(document: Document, faulty: Collection[str], report: Mistakes) -> Postgres | None:
    """Read the engine of an organism; None without one, or with mistakes. Reports contradictions."""
    if "engine" not in document.data.keys() - faulty:
        return None
    found = read_sound_engine(document)
    assert found is not None
    if document.data.get("journal", "none") != "none":
        message = "journal: and engine: are both there, and conversations are kept in one place"
        report.add_error(
            ConfigCode.TWICE, document.locate(("journal",)), message, "remove journal:, or engine:"
        )
    if not is_installed("postgres"):
        message = f"needs the extra postgres: {install_hint('postgres')}"
        report.add_error(ConfigCode.EXTRA, document.locate(("engine", "postgres")), message)
    parts, at = urlsplit(found.url), document.locate(_URL)
    if parts.password and _URL not in document.substituted:
        message = "the password is written into the file, readable for its readers"
        report.add_error(ConfigCode.SECRET, at, message, "url: ${DATABASE_URL}, or the variable PGPASSWORD")
    settings = parse_qs(parts.query)
    unsafe = {"off", "false", "no", "0"}.intersection(settings.get("synchronous_commit", ()))
    if found.durability == "full" and (
        unsafe or "synchronous_commit=off" in settings.get("options", [""])[0]
    ):
        message = "synchronous_commit=off acknowledges messages that a loss of power takes back"
        report.add_error(ConfigCode.VALUE, at, message, '"durability: relaxed", if intended')
    return found
