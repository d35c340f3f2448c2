"""The ways by which hosts reach an organism: standard streams, and HTTP on this machine.

Owns who a host is by each of them. Refuses to know tools. Imports the SDK, which comes with the extra ``mcp``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl

from agentserver import bearer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TextIO

    from mcp.server.lowlevel import Server
    from starlette.applications import Starlette

LOOPBACK = "127.0.0.1"


async def over_streams(server: Server[Any], output: TextIO) -> None:
    """Serve the one host at standard input until it closes it.

    Args:
        server: the organism.
        output: the stream of the protocol. Standard output itself must lead elsewhere: handlers may print.
    """
    async with stdio_server(stdout=anyio.wrap_file(output)) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class Verifier:
    """Tells the SDK whose a bearer token is.

    Args:
        known: principals by the digest of their token.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known

    async def verify_token(self, token: str) -> AccessToken | None:
        """The principal's access; None for a token that nobody has."""
        name = bearer.holder(token, self._known)
        return None if name is None else AccessToken(token="", client_id=name, scopes=[])


def caller() -> str:
    """The name of the principal whose request is served. Raises RuntimeError outside of one."""
    access = get_access_token()
    if access is None:
        raise RuntimeError("nobody has been authenticated")
    return str(access.client_id)


def application(
    server: Server[Any], known: Mapping[str, str], most: int, *, guarded: bool = False
) -> Starlette:
    """The application that serves an organism below /mcp to those who show a token.

    Args:
        server: the organism.
        known: principals by the digest of their token.
        most: bytes of a request.
        guarded: whether somebody else looks at Host and Origin, who knows by which names it is reached.
    """
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False) if guarded else None
    settings = AuthSettings(issuer_url=AnyHttpUrl(f"http://{LOOPBACK}"), resource_server_url=None)
    return server.streamable_http_app(
        host=LOOPBACK,
        auth=settings,
        token_verifier=Verifier(known),
        max_request_body_size=most,
        transport_security=security,
    )


async def over_http(app: Starlette, port: int, started: Callable[[int], None]) -> None:
    """Serve an application on this machine alone until the task is cancelled, or a signal of the process's.

    Args:
        app: what is served.
        port: 0 for any that is free.
        started: told the port.
    """
    config = uvicorn.Config(app, host=LOOPBACK, port=port, log_config=None, timeout_graceful_shutdown=1)
    web = uvicorn.Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_serve, web, tasks.cancel_scope)
        try:
            while not web.started:  # noqa: ASYNC110 - the library tells it in no other way
                await anyio.sleep(0.01)
            started(web.servers[0].sockets[0].getsockname()[1])
            await anyio.sleep_forever()
        finally:
            web.should_exit = True


async def _serve(web: uvicorn.Server, scope: anyio.CancelScope) -> None:
    with anyio.CancelScope(shield=True):
        await web._serve()  # noqa: SLF001 - serve() takes the process's signals, which are the command line's
    scope.cancel()
