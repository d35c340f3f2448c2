"""Immutable result of loading a configuration."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from agentserver.core.state.principals import Trust
from agentserver.handoff.scrub import Scrub

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from agentserver.completion import LanguageModels, ReadyAgent
    from agentserver.config.code.editions import LoadedModules
    from agentserver.config.keys.endpoints import HttpEntry
    from agentserver.config.keys.isolation import Isolation
    from agentserver.config.keys.models import Journal, Postgres
    from agentserver.config.yaml.secrets import Secrets
    from agentserver.contract import HandlerMetadata, HandlerResult
    from agentserver.core.blueprint import Limits, Listener
    from agentserver.guards.base import Guard
    from agentserver.guards.lineage.exposure import Recall
    from agentserver.handoff.intents import Vocabulary
    from agentserver.payload.foreign.lock import McpServer
    from agentserver.ports.hooks import Hook, Inbox
    from agentserver.ports.identity import IdentityProvider
    from agentserver.ports.notices import Notifier
    from agentserver.ports.schedules import Schedule
    from agentserver.provenance.policy.declarations import Policy

    Handler: TypeAlias = Callable[[Any, HandlerMetadata], Awaitable[HandlerResult]]
    Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]


async def refuse_call(_payload: Any, _metadata: Any) -> NoReturn:
    """Fail; the placeholder for the handler of an isolated listener, a tool or an agent.

    Raises RuntimeError.
    """
    raise RuntimeError("this listener's handler is not in this process")


@dataclass(frozen=True, slots=True)
class SourceLine:
    """Line of a file, from 1."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class BoundListener:
    """Listener with its code.

    Args:
        listener: the frozen facts that the core works with.
        handler: the author's callable, checked: awaitable, two positional parameters; None of an agent.
        settings: an instance of the settings class; None without one.
        returns_bytes: whether the handler's return annotation admits the deprecated ``bytes``.
        schema: a hand-written XSD inside the project directory, resolved, or None.
        source: where the YAML declares the listener; the file as the caller of ``load`` named it.
        discovered: the ``@xmlify`` classes that the handler's code can name or the YAML lists, in a stable order: all
            that it can answer with, store, and be answered with. Its own payload classes are among them.
        agent: the facts of an agent with a language model, which has no handler.
        isolation: its separate process; None when its handler runs in the server.
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


MEMORY: Final = "agentserver.tools.memory"
"""Module of the handlers that keep notes; imported if a listener names one."""


def list_keepers(bound: Iterable[BoundListener]) -> frozenset[str]:
    """List the listeners whose handlers keep notes: those of the module itself, not functions that call them."""
    module = sys.modules.get(MEMORY)
    handlers = () if module is None else (module.remember, module.recall, module.forget)
    return frozenset(item.listener.name for item in bound if any(item.handler is one for one in handlers))


@dataclass(frozen=True, slots=True)
class Handoffs:
    """Rules for handoffs between listeners.

    Args:
        vocabulary: the checked intents.
        payloads: for each payload class that is bound to intents, the intent by target.
        audit: the file for the record of attempts, relative to the project directory; None to write none.
        scrub: whether lines that look like instructions are removed from free text.
        source: the place of the intents in the YAML.
    """

    vocabulary: Vocabulary
    payloads: Mapping[type, Mapping[str, str]] = field(default_factory=dict)
    audit: str | None = None
    scrub: Scrub = Scrub.ON
    source: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """Trust in listeners and principals.

    Args:
        policy: the declared policy, including ``trust`` of the listeners.
        quarantined: listeners whose output is limited to a closed schema.
        planners: listeners whose ``Plan`` restricts the actions of a conversation.
        memory: how far the code of a listener remembers its inputs; by default across all its threads of a
            conversation.
        viewers: listeners that get references in place of untrusted values.
        keepers: listeners that keep notes, with the origins of their words.
    """

    policy: Policy
    quarantined: frozenset[str] = frozenset()
    planners: frozenset[str] = frozenset()
    memory: Mapping[str, Recall] = field(default_factory=dict)
    viewers: frozenset[str] = frozenset()
    keepers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class McpServing:
    """Listeners that hosts of the Model Context Protocol can call.

    Args:
        expose: the listeners that are tools, in order.
        trust: of every host.
        approvals: address of the page of an approval, without its id; empty without one.
        deadline: seconds for which a host waits for a call.
        elicitation: whether the hosts of operators ask their users about approvals.
    """

    expose: tuple[str, ...]
    trust: Trust
    approvals: str
    deadline: float
    elicitation: bool = False


@dataclass(frozen=True, slots=True)
class Otel:
    """Settings of OpenTelemetry.

    Args:
        url: full address for spans.
        headers: for the collector, from the environment.
        certificate: path of the CA certificates for the collector; empty for those of the system.
        resource: attributes of the server.
        sample: the share of exported requests, from 0 to 1.
        content: whether spans contain messages.
        redact: patterns of field names that are removed from them.
        declared: whether the YAML enables it, and not only the environment.
        metrics: full address for metrics of language models; empty without them.
        events: full address for events of completions, with prompts and answers; empty without them.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: str = ""
    resource: Mapping[str, str] = field(default_factory=dict)
    sample: float = 1.0
    content: bool = False
    redact: tuple[str, ...] = ()
    declared: bool = True
    metrics: str = ""
    events: str = ""


@dataclass(frozen=True, slots=True)
class Organism:
    """Checked configuration.

    Args:
        name: of the organism, for people.
        project: the absolute directory from which dotted paths resolve.
        listeners: in the order of the files.
        limits: limits of the server.
        lifespan: called without arguments, returns the async context manager of the resources; or None.
        secrets: redacted in log output.
        files: every YAML file that was read, the main one first, absolute.
        modules: the modules of the project after this load (see ``forget``).
        journal: the file for conversations; None without one.
        engine: the database for conversations; without journal and engine they are in memory only.
        engine_source: the place of the database in the YAML.
        handoffs: the rules for handoffs; None without intents.
        provenance: the trust policy; None when origins are not tracked.
        guards: of the program, by name, in order.
        models: the language models; None without any.
        serving: the tools for MCP hosts; None without any.
        door: the HTTP server; None without one.
        strangers: whether other gateways open conversations for untrusted principals, to every listener.
        mcp: the servers whose tools are listeners.
        otel: the settings of OpenTelemetry; None without any.
        hooks: the sources of events.
        inboxes: the folders whose files are messages.
        identity: the providers whose tokens the door accepts.
        notifiers: the ways to announce messages that wait for an approval.
        schedules: the messages that are sent at set times.
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
    engine: Postgres | None = None
    engine_source: SourceLine | None = None
    handoffs: Handoffs | None = None
    provenance: Provenance | None = None
    guards: Mapping[str, Guard] = field(default_factory=dict, repr=False)
    models: LanguageModels | None = None
    serving: McpServing | None = None
    door: HttpEntry | None = None
    strangers: bool = False
    mcp: tuple[McpServer, ...] = ()
    otel: Otel | None = None
    hooks: tuple[Hook, ...] = ()
    inboxes: tuple[Inbox, ...] = ()
    identity: tuple[IdentityProvider, ...] = ()
    notifiers: tuple[Notifier, ...] = ()
    schedules: tuple[Schedule, ...] = ()

    @property
    def addressed(self) -> frozenset[str]:
        """The listeners that untrusted principals may address."""
        if self.strangers:
            return frozenset(bound.listener.name for bound in self.listeners)
        serving = self.serving
        exposed = () if serving is None or serving.trust is Trust.ORDERS else serving.expose
        untrusted = (each.listener for each in self.schedules if each.trust is not Trust.ORDERS)
        hooks, inboxes = (hook.listener for hook in self.hooks), (each.listener for each in self.inboxes)
        return frozenset((*exposed, *hooks, *inboxes, *untrusted))
