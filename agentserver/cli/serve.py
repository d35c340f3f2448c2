"""``agentserver serve``: opens the door of an organism, HTTP for programs and people."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from agentserver.cli import host, project
from agentserver.cli.host import Hangups
from agentserver.extras import require

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    from starlette.types import Scope

    from agentserver.assembly import Server
    from agentserver.cli.process import GracefulEnd
    from agentserver.config import Organism
    from agentserver.config.keys.endpoints import HttpEntry
    from agentserver.core.state.approvals import Approval
    from agentserver.gateways.http import DoorOptions, DoorPart, HttpDoor, TokenKeeper
    from agentserver.gateways.principals import Rates, Tokens
    from agentserver.gateways.principals.identity import IdentityTokens
    from agentserver.gateways.principals.sessions import Sessions
    from agentserver.mcp.serving.elicitation import ApprovalForms
    from agentserver.mcp.serving.transport import HostAccess


@dataclass(frozen=True, slots=True)
class DoorServing:
    """Values from which the parts of the door are made.

    Args:
        server: running while the door is open.
        organism: of the server.
        tokens: the principals.
        sessions: of browsers.
        keeper: counts requests and refusals.
        body: largest request body in bytes.
        url: of the door, for clients, with the prefix of its paths.
    """

    server: Server
    organism: Organism
    tokens: Tokens | IdentityTokens
    sessions: Sessions
    keeper: TokenKeeper
    body: int
    url: str = ""


def _offer_mcp(serving: DoorServing) -> Iterable[DoorPart]:
    """Offer listeners to MCP hosts, which are principals like all others."""
    offered = serving.organism.serving
    if offered is None:
        return
    require("mcp_server:", "mcp")
    from starlette.routing import Route

    from agentserver.gateways.http import DoorPart
    from agentserver.gateways.principals import Role
    from agentserver.mcp.serving.transport import Application, ServedOrganism, access

    offering = ServedOrganism.build(serving.server, offered, lambda: access().max_conversations)
    protocol = offering.build_protocol(
        lambda: access().principal, serving.organism.name, _make_forms(serving)
    )

    app = Application(protocol, _wrap_access, serving.body)

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        async with app.run():
            try:
                yield
            finally:
                offering.rooms.leave()

    route = Route("/mcp", app, methods=["POST"])  # a GET would open a stream that is never used
    acting, challenge = frozenset({Role.USER, Role.OPERATOR}), "Bearer"
    issuers = [each.issuer for each in serving.organism.identity]
    if issuers:
        from agentserver.gateways.http.parts import describe_resource

        described = describe_resource(serving.url, "/mcp", issuers)
        challenge = described.challenge
        yield described.part
    yield DoorPart(
        "mcp", (route,), roles=acting, resource="/mcp", held=True, challenge=challenge, lifespan=lifespan
    )


def _wrap_access(scope: Scope) -> HostAccess:
    """Wrap the caller of a request for the SDK."""
    from agentserver.gateways.http.parts import CALLER, SHARE
    from agentserver.mcp.serving.transport import HostAccess

    caller = scope[CALLER]
    return HostAccess.wrap(caller.principal, caller.open, scope[SHARE].run, decides=caller.decides)


def _make_forms(serving: DoorServing) -> ApprovalForms | None:
    """Make the forms for hosts whose role decides about approvals; None without any in the YAML."""
    if serving.organism.serving is None or not serving.organism.serving.elicitation:
        return None
    from agentserver.mcp.serving.elicitation import ApprovalForms
    from agentserver.mcp.serving.transport import access

    def decider() -> str:
        return str(access().client_id) if access().decides else ""

    return ApprovalForms(serving.server, decider, partial(_show_approval, serving.server))


def _show_approval(server: Server, one: Approval) -> str:
    """Format the whole message that waits, and why, as text."""
    from agentserver.gateways.approval_view import format_message_lines, format_reasons

    redact = server.rules.redact
    head = f"{one.delivery.sender} -> {one.delivery.to}"
    lines = [*format_reasons(one), *format_message_lines(one, server.rules.codecs, redact)]
    return "\n".join([head, *(redact("".join(text for _, text in line)) for line in lines)])


def _offer_agui(serving: DoorServing) -> Iterable[DoorPart]:
    """Offer listeners to AG-UI front ends."""
    if serving.organism.door is None or not serving.organism.door.agui:
        return
    require("http: agui:", "agui")
    from agentserver.gateways.agui import part

    yield part()


def _offer_live_view(serving: DoorServing) -> Iterable[DoorPart]:
    """Offer the live view, which has its own login."""
    from agentserver.gateways.http import DoorPart
    from agentserver.gateways.live import Assets, LiveView
    from agentserver.gateways.principals import Role

    server = serving.server

    def prompt_readers() -> frozenset[str]:
        models = server.organism.models
        return frozenset() if models is None else models.prompts.roles

    view = LiveView(
        server,
        serving.sessions,
        Assets(),
        name=serving.organism.name,
        secrets=partial(host.redact, server),
        prompt_readers=prompt_readers,
    )
    looking = frozenset({Role.OPERATOR, Role.VIEWER})
    yield DoorPart("live view's pages and login", tuple(view.list_pages()), open=True)
    yield DoorPart(
        "live view",
        tuple(view.list_view_routes()),
        False,
        view.caller,
        view.prepare,
        roles=looking,
        spends=False,
    )
    yield DoorPart(
        "live view's stream",
        tuple(view.list_streams()),
        False,
        view.caller,
        view.prepare,
        roles=looking,
        held=True,
    )


def _offer_hooks(serving: DoorServing) -> Iterable[DoorPart]:
    """Take events of other services, which sign them in place of a token."""
    if serving.organism.hooks:
        from agentserver.gateways.hooks import part

        yield part(serving.organism.hooks, serving.keeper)


def _serve_workers(serving: DoorServing) -> Iterable[DoorPart]:
    """Serve calls to workers on other machines; a reload may add the first of them."""
    from agentserver.worker.remote_door import make_part

    yield make_part(serving.server.calls, serving.body)


PARTS: Final[tuple[Callable[[DoorServing], Iterable[DoorPart]], ...]] = (
    _offer_live_view,
    _offer_mcp,
    _offer_agui,
    _offer_hooks,
    _serve_workers,
)
"""Optional parts of the door; each yields nothing if the organism does not ask for it."""


@click.command("serve", short_help="Open the door of an organism: HTTP for programs and people.")
@project.add_organism_argument
@click.option("--console", is_flag=True, help="Open the console as well; the door closes with it.")
@click.option("--reload", "reloads", is_flag=True, help="Reload the organism also when its files change.")
def command(organism: Path | None, *, console: bool, reloads: bool) -> None:
    """Open the door of ORGANISM to programs and people, at the address in its http:. Needs the extra http.

    Callers show a token: agentserver principals add NAME creates one. GET /openapi.json describes the API.

    On SIGTERM or Ctrl-C no new messages are accepted, streams end with a reason, and running handlers may
    finish within limits.drain. A second signal ends the process at once. SIGHUP loads ORGANISM again, as run
    --reload does; the SIGHUP of a closed terminal acts as SIGTERM.
    """
    hangups = Hangups(watches=reloads)
    loaded = project.load(organism)
    if loaded.door is None:
        reason = f"{loaded.files[0]}: has no http:, which sets the address of the door"
        project.refuse(f"{reason} (a line 'http: {{}}' opens it at 127.0.0.1:8420)")
    require("agentserver serve", "http")
    if loaded.provenance is not None:
        from agentserver.provenance.arrays import import_numpy  # most organisms have none

        import_numpy()
    from agentserver.gateways.http.serving import bind, tls

    keys = loaded.door
    secure = None
    if keys.tls is not None:
        with project.refuse_on(OSError, prefix=f"{loaded.files[0]}: http.tls: cannot be used: "):
            secure = tls(loaded.project / keys.tls.certificate, loaded.project / keys.tls.key)
    with project.refuse_on(OSError, prefix=f"{loaded.files[0]}: http.bind: {keys.host}:{keys.port}: "):
        listening = bind(keys.host, keys.port)
    with contextlib.closing(listening):
        _serve(loaded, _DoorSocket(keys, listening, secure), console=console, hangups=hangups)


@dataclass(frozen=True, slots=True)
class _DoorSocket:
    """Listening socket of the door, with its settings, and TLS if used."""

    keys: HttpEntry
    listening: socket.socket
    secure: ssl.SSLContext | None

    def derive_options(self) -> DoorOptions:
        """Derive the settings of the door from its port."""
        from ipaddress import ip_address

        from agentserver.gateways.http.options import CONNECTIONS, DoorOptions, names
        from agentserver.gateways.http.serving import limit_connections

        keys, port = self.keys, self.listening.getsockname()[1]
        local = ip_address(keys.host).is_loopback
        hosts, origins = names(port, keys.public_url or "", local=local, secure=self.secure is not None)
        limit = limit_connections(CONNECTIONS)
        foreign = frozenset(map(str.lower, keys.cors))
        options = DoorOptions(hosts, origins, body=keys.body, connections=limit, idle=keys.idle)
        return replace(options, root=keys.root_path, foreign=foreign, logs=keys.access_log)

    def url(self) -> str:
        """Return the URL for clients, with the prefix of a proxy."""
        host, port = self.listening.getsockname()[:2]
        scheme = "https" if self.secure is not None else "http"
        address = self.keys.public_url or f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        return f"{address}{self.keys.root_path}"


def _serve(organism: Organism, doorway: _DoorSocket, *, console: bool, hangups: Hangups) -> None:
    from agentserver.cli.run import open_console
    from agentserver.gateways.http import HttpDoor, TokenKeeper
    from agentserver.gateways.http.serving import serve
    from agentserver.telemetry.metrics import Metrics

    server = project.build_server(organism, durable=True)
    server.approver, server.door = _DeferredApprover(), doorway.url()
    ending, options = host.make_shutdown(server), doorway.derive_options()
    tokens, rates = _open_principals(server, doorway.url())
    keeper = TokenKeeper(tokens, rates)
    sessions = _open_sessions(organism, tokens, doorway.url())
    serving = DoorServing(server, organism, tokens, sessions, keeper, options.body, doorway.url())
    with project.refuse_on(ValueError):
        parts = [part for each in PARTS for part in each(serving)]
    metrics = Metrics(bind.listener.name for bind in organism.listeners)
    server.stream.attach(metrics)

    def metrics_text() -> bytes:
        pending, watchers = len(server.approvals()), len(door.holding)
        return metrics.text(server.queues(), pending, watchers, server.lost, server.answer_differences)

    door = HttpDoor(server, options, keeper, parts, metrics=metrics_text, name=organism.name)
    session_end = open_console(server, ending) if console else partial(_close_on_signal, ending, server, door)

    async def announce_door() -> int:
        project.say(doorway.url(), err=True)
        return await session_end()

    opened = serve(door, doorway.listening, doorway.secure, door.connections, options.idle)
    edges = (tokens.watch(), rates.share(), door.open(), opened)
    host.run_server(server, ending, announce_door, *edges, hangups=hangups)


async def _close_on_signal(ending: GracefulEnd, server: Server, door: HttpDoor) -> int:
    """Wait for a signal, then close the door and let running handlers finish. Returns status 0."""
    async for _ in ending.signals():
        ending.begin(0)
        door.stop()
        await server.drain()
        break
    return 0


class _DeferredApprover:
    """Approver that leaves messages waiting for operators."""

    def show(self, approval: Approval) -> None:
        """Do nothing; the message waits."""


def _open_principals(server: Server, url: str) -> tuple[Tokens | IdentityTokens, Rates]:
    """Open the stores of tokens and of request rates, and the identity providers."""
    from agentserver.assembly import open_principal_stores
    from agentserver.gateways.principals import Rates, Tokens

    organism = server.organism
    store, shared = open_principal_stores(organism)
    tokens, rates = Tokens(store), Rates(time.monotonic, shared)
    if not organism.identity:
        return tokens, rates
    require("identity:", "oidc")
    from agentserver.gateways.principals.delegation import UserDelegations
    from agentserver.gateways.principals.identity import IdentityTokens

    found = IdentityTokens(tokens, organism.identity, mcp=f"{url}/mcp")
    server.delegations = UserDelegations(found)
    return found, rates


def _open_sessions(organism: Organism, tokens: Tokens | IdentityTokens, url: str) -> Sessions:
    """Open the sessions of browsers, in the database if the servers of the organism share one."""
    from agentserver.assembly import open_shared_sessions
    from agentserver.gateways.principals.identity import IdentityTokens
    from agentserver.gateways.principals.sessions import Sessions
    from agentserver.gateways.principals.sign_in import SignInClient

    store = None if organism.engine is None else open_shared_sessions(organism.engine)
    client = SignInClient(tokens, url) if isinstance(tokens, IdentityTokens) else None
    return Sessions(tokens, store, client)
