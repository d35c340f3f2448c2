"""Transports by which hosts reach an organism: standard streams, and HTTP behind the door."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar, cast

import anyio
import mcp_types as types
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware, get_access_token
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER

from agentserver.core.state.principals import Principal, choose_weaker
from agentserver.extras import find_version
from agentserver.mcp.serving.calls import Calls, McpHost, PrincipalConversations, ServedTool, build_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping
    from contextlib import AbstractAsyncContextManager
    from typing import TextIO

    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from agentserver.core.state.principals import Trust
    from agentserver.mcp.serving.elicitation import ApprovalForms

    class ShareRunner(Protocol):
        """Runs work in the share of a principal."""

        def __call__(self, work: Coroutine[Any, Any, T], /) -> Awaitable[T]:
            """Run it."""


RELEASE: Final = find_version() or "from a checkout"
"""The release of agentserver, as hosts see it: found once, since it is read from a disk."""


class OfferedKeys(Protocol):
    """The keys of ``mcp_server:``, as ``McpServing`` of config holds them."""

    @property
    def expose(self) -> tuple[str, ...]:
        """The listeners that are tools, in order."""

    @property
    def trust(self) -> Trust:
        """The weight of a host's words."""

    @property
    def approvals(self) -> str:
        """Address of the page of an approval, without its id."""

    @property
    def elicitation(self) -> bool:
        """True when the hosts of operators ask their users about approvals."""

    @property
    def deadline(self) -> float:
        """Seconds for which a host waits for a call."""


@dataclass(frozen=True, slots=True)
class ServedOrganism:
    """An organism and the tools that it offers to hosts.

    Args:
        server: running by the first call.
        offered: the keys of the organism.
        tools: by name, in order.
        rooms: the conversations of its hosts.
    """

    server: McpHost
    offered: OfferedKeys
    tools: Mapping[str, ServedTool]
    rooms: PrincipalConversations

    @classmethod
    def build(
        cls, server: McpHost, offered: OfferedKeys, maximum: Callable[[], int | None] = lambda: None
    ) -> Self:
        """Build the offering of an organism. Raises ValueError for a listener that cannot be a tool.

        Args:
            server: running by the first call.
            offered: the keys of the organism.
            maximum: conversations that the principal of the served request may have open.
        """
        return cls(
            server,
            offered,
            build_tools(server.rules, offered.expose),
            PrincipalConversations(server, maximum),
        )

    def build_protocol(
        self, principal: Callable[[], Principal], name: str, forms: ApprovalForms | None = None
    ) -> Server[Any]:
        """Build the SDK's server for hosts that the transport authenticates.

        Args:
            principal: returns the principal of the served request; ``trust:`` caps its trust.
            name: of the server, as hosts see it.
            forms: ask the hosts of operators; None to ask no host.
        """
        from agentserver.mcp.serving.protocol import Offer, build_protocol_server  # the SDK is an extra

        offered, rules = self.offered, self.server.rules
        calls = Calls(self.server, self.rooms, offered.deadline)

        def current_principal() -> Principal:
            own = principal()
            may = tuple(each for each in offered.expose if own.may is None or each in own.may)
            return own._replace(trust=choose_weaker(own.trust, offered.trust), may=may)

        longest = max(map(rules.blueprint.find_approval_time, rules.blueprint.listeners), default=0.0)
        return build_protocol_server(
            Offer(
                name, rules, self.tools, calls, current_principal, offered.approvals, longest, RELEASE, forms
            )
        )


T = TypeVar("T")

SESSION: Final = MCP_SESSION_ID_HEADER.encode()
_PARSERS: Final = (
    (b'"message":"Parse error', types.PARSE_ERROR, "The body is not JSON."),
    (
        b'"message":"Validation error',
        types.INVALID_REQUEST,
        "The body is not one JSON-RPC 2.0 request or notification.",
    ),
)
"""Prefixes of SDK errors that quote its parser, with their replacements."""

VERSION: Final = MCP_PROTOCOL_VERSION_HEADER.encode()


async def over_streams(server: Server[Any], output: TextIO) -> None:
    """Serve the one host at standard input until it closes it.

    Args:
        server: the organism.
        output: the stream of the protocol. Standard output itself must lead elsewhere: handlers may print.
    """
    async with stdio_server(stdout=anyio.wrap_file(output)) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class HostAccess(AccessToken):
    """The access of a host, as the SDK passes it on to what serves a request.

    Args:
        principal: of the host.
        max_conversations: conversations that it may have open.
        run: runs work in its share.
        decides: whether it may answer approvals.
    """

    principal: Any
    max_conversations: int
    run: Any
    decides: bool = False

    @classmethod
    def wrap(
        cls, principal: Principal, maximum: int, run: ShareRunner, *, decides: bool = False
    ) -> HostAccess:
        """Wrap a principal that the door has admitted."""
        name = principal.name
        return cls(
            token="",
            client_id=name,
            scopes=[],
            principal=principal,
            max_conversations=maximum,
            run=run,
            decides=decides,
        )


def access() -> HostAccess:
    """Return the access of the served request. Raises RuntimeError outside a request."""
    found = get_access_token()
    if found is None:
        raise RuntimeError("no principal has been authenticated")
    return cast("HostAccess", found)


class Application:
    """An ASGI application behind the door, which has admitted each request.

    It is stateless: a host cannot hold more than its requests. Hosts of an earlier version get a session id, which only
    they keep and send with each call (``protocol.py``).

    Args:
        server: the organism.
        known: returns the access of the served request.
        maximum: bytes of a request.
    """

    def __init__(self, server: Server[Any], known: Callable[[Scope], HostAccess], maximum: int) -> None:
        server.middleware.append(_in_its_share)
        self._app = server.streamable_http_app(
            stateless_http=True,
            max_request_body_size=maximum,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self._inner: ASGIApp = AuthContextMiddleware(self._app)
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["user"] = AuthenticatedUser(self._known(scope))
        named = {name for name, _ in scope["headers"]}
        begins = (
            SESSION not in named and VERSION not in named
        )  # as the first request of an earlier version does

        refusals = _PlainRefusals(send)

        async def send_named(message: Message) -> None:
            if begins and message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (SESSION, token_hex(16).encode())]
            await refusals.send(message)

        await self._inner(scope, receive, send_named)

    def run(self) -> AbstractAsyncContextManager[Any]:
        """Run the background tasks of the application."""
        return self._app.router.lifespan_context(self._app)


class _PlainRefusals:
    """Middleware that removes parser details from refusals, which the SDK would pass on."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start_message: Message | None = None

    async def send(self, message: Message) -> None:
        """Send a piece. The head of a refusal waits for its body, which the SDK sends as one."""
        if message["type"] == "http.response.start" and message["status"] == HTTPStatus.BAD_REQUEST:
            self._start_message = message
            return
        begun, self._start_message = self._start_message, None
        if begun is not None:
            body = _plain(message.get("body", b""))
            heads = [each for each in begun["headers"] if each[0] != b"content-length"]
            begun["headers"] = [*heads, (b"content-length", str(len(body)).encode())]
            message = {**message, "body": body}
            await self._send(begun)
        await self._send(message)


def _plain(body: bytes) -> bytes:
    """Put our own words into the body of a refusal that begins with the parser's."""
    for begins, code, message in _PARSERS:
        if begins in body:
            error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
            return json.dumps(error).encode()
    return body


async def _in_its_share(
    ctx: ServerRequestContext[Any, Any], call_next: Callable[[ServerRequestContext[Any, Any]], Any]
) -> Any:
    """Serve a message in the share of its host: the SDK does so in a task that the door does not see."""

    async def work() -> Any:
        return await call_next(ctx)

    return await access().run(work())
