"""The connection to one server: opened, checked against the lock file, reopened after a loss, and used for calls.

One task enters and leaves the library's client. A call without a connection waits for one. A call that was sent before
its server was lost may have been carried out, so it is never sent again from here.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio
import anyio.to_thread

from agentserver.characters.printing import clean_line
from agentserver.contract import invocation
from agentserver.core.refusals import ServiceUnreachableError
from agentserver.extras import require
from agentserver.foreign_json.threads import ReadingThreads
from agentserver.mcp.client.messages import UNREADABLE, UNTRUSTED, MessageForms, ServerMessages
from agentserver.mcp.client.process import open_pipes
from agentserver.payload.foreign.lock import TOOLS, LockError, ServerLock, describe_differences, tool
from agentserver.supervision import EndEffect, start_errand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
    from pathlib import Path

    from agentserver.mcp.client.process import Launcher
    from agentserver.payload.foreign.lock import LockedTool, McpServer

STARTING: Final = 30.0
"""Seconds in which a server has to be connected and to name its tools."""
FIRST: Final = 0.2
"""Seconds before the first further attempt; each one after that doubles them."""
LONGEST: Final = 30.0
STEADY: Final = 60.0
"""Seconds after which a connection counts as stable: its next loss starts the delays again."""
SAID: Final = 300
"""Most characters that are logged of what went wrong."""

TERMINATED: Final = "Session terminated"
"""The library's message for a server over HTTP that lost the session: it was restarted."""
CLOSED: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)
"""The ways in which the library's streams end."""

logger = logging.getLogger("agentserver.mcp")


class FailedCallError(Exception):
    """Error of a call that the server refused, with its message."""


class LostError(Exception):
    """A server that does not answer any more, or that gave something else than an answer."""


class Connection:
    """One server.

    Args:
        server: how it is reached, and its tools.
        directory: in which its program starts.
        launcher: says how.
    """

    def __init__(self, server: McpServer, directory: Path, launcher: Launcher) -> None:
        self.server = server
        self._directory = directory
        self._launcher = launcher
        self._client: Any = None
        self._changed = anyio.Event()
        self._wake = anyio.Event()
        self._lost = anyio.Event()
        self._given_up = False
        self._refused: Mapping[str, str] = {}
        self._answers: Any = None

    async def run(self) -> None:
        """Keep the server connected until this task is cancelled, or it was lost too often in a row."""
        failures = 0
        while failures <= self.server.restarts:
            began = anyio.current_time()
            try:
                await self._stand()
                logger.warning("%s: the connection is lost", self.server.name)
            except Exception as error:  # noqa: BLE001 - another program, through a library: anything may go wrong
                logger.warning("%s: %s", self.server.name, format_failure(error))
            finally:
                self._set(None)
            failures = 1 if anyio.current_time() - began > STEADY else failures + 1
            if failures <= self.server.restarts:
                await anyio.sleep(min(LONGEST, FIRST * 2 ** (failures - 1)))
        self._given_up = True
        self._set(None)
        logger.error("%s: lost %d times in a row and given up", self.server.name, failures)

    async def give_up(self, reason: str) -> None:
        """Answer every call with a refusal from now on."""
        logger.error("%s is given up: %s", self.server.name, reason)
        self._given_up = True
        self._set(None)

    def _set(self, client: Any) -> None:
        self._client = client
        self._changed.set()
        self._changed = anyio.Event()

    async def _stand(self) -> None:
        """Connect, compare, and stay until the connection is lost."""
        self._answers = self._answers or answers()  # as slow to make as a call
        self._lost = lost = anyio.Event()
        with anyio.CancelScope() as scope:
            scope.deadline = anyio.current_time() + STARTING
            async with open_client(
                self.server, self._directory, lost, self._launcher, self._handle_notification
            ) as client:
                while not lost.is_set():
                    scope.deadline = anyio.current_time() + STARTING
                    self._wake = anyio.Event()
                    self._compare(await list_tools(client))
                    scope.deadline = float("inf")
                    self._set(client)
                    await _await_first((lost.wait, self._wake.wait), listener=partial(self._listen, client))
        if scope.cancelled_caught:
            raise LostError(f"did not name its tools within {STARTING:g} s")

    async def _listen(self, client: Any) -> None:
        """Hear of changes of the tools from a server of the newer protocol; from an older one they come unasked."""
        from mcp import MCPError

        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._wake.set()
        except (MCPError, RuntimeError, TimeoutError, *CLOSED):
            return  # it tells nothing: its tools are compared when it is connected the next time

    async def _handle_notification(self, message: Any) -> None:
        """Handle a notification: compare the tools again after one about them."""
        root = getattr(message, "root", message)
        if getattr(root, "method", "") == "notifications/tools/list_changed":
            self._wake.set()

    def _compare(self, found: Mapping[str, LockedTool]) -> None:
        refused = {}
        for each in self.server.tools:
            different = list(describe_differences(each.agreed, found.get(each.agreed.name)))
            if different:
                refused[each.agreed.name] = ", ".join(different)
                logger.error(
                    "%s is not called: %s since it was locked; see agentserver mcp diff",
                    each.listener,
                    refused[each.agreed.name],
                )
        self._refused = refused

    async def call(self, name: str, arguments: dict[str, Any], *, until: float) -> Any:
        """Call a tool.

        Args:
            name: of the tool.
            arguments: a JSON object.
            until: the event loop's time to which it waits for a connection.

        Raises ServiceUnreachableError if there was no connection by then; LostError if the server is given up, the tool
        differs from the locked one, or the connection was lost during the call; FailedCallError if the server refuses.
        """
        client = await self._supervise(until)
        self._check_agreed(name)
        return await self._send(client, name, arguments, self._lost)

    def _check_agreed(self, name: str) -> None:
        """Raise LostError for a tool that differs from the locked one."""
        if name in self._refused:
            raise LostError(
                f"the tool {name} of {self.server.name} differs from the lock file: {self._refused[name]}"
            )

    async def _send(self, client: Any, name: str, arguments: dict[str, Any], lost: anyio.Event) -> Any:
        """Send a call. Raises LostError and FailedCallError."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT, CallToolRequest, CallToolRequestParams

        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments))
        try:
            # The library's own call_tool holds the result against the server's schema here, for as long as that takes.
            return await client.session.send_request(request, self._answers)
        except MCPError as error:
            if error.code == UNREADABLE:
                raise LostError(
                    f"{self.server.name} gave no answer that can be read: {format_failure(error)}"
                ) from None
            ended = error.code in {CONNECTION_CLOSED, REQUEST_TIMEOUT} or error.message == TERMINATED
            if not ended and not lost.is_set():
                raise FailedCallError(error.message) from None
            lost.set()
            raise LostError(f"{self.server.name} was lost during the call: {format_failure(error)}") from None
        except (ValueError, RuntimeError, OSError, *CLOSED) as error:
            if self.server.url is not None:
                lost.set()
            raise LostError(
                f"{self.server.name} gave no answer that can be read: {format_failure(error)}"
            ) from None

    @property
    def sound(self) -> bool:
        """True while it is connected to the server that was agreed on."""
        return not self._refused and (self._up or self.server.on_behalf)

    @property
    def _up(self) -> bool:
        """True when a call can be sent: one that is lost may not have been noticed by ``run`` yet."""
        return self._client is not None and not self._lost.is_set()

    async def _supervise(self, until: float) -> Any:
        with anyio.CancelScope(deadline=until):
            while not self._up and not self._given_up:
                await self._changed.wait()
        if self._given_up:
            raise LostError(f"{self.server.name} was lost too often and is given up")
        if not self._up:
            raise ServiceUnreachableError(f"{self.server.name} is not connected")
        return self._client


class UserConnection(Connection):
    """Server with a connection for each call, authorised by the token of its user."""

    async def call(self, name: str, arguments: dict[str, Any], *, until: float) -> Any:
        """Call a tool with the user's token. Raises DelegationError, and else as the call of a lasting connection."""
        from mcp import MCPError

        assert self.server.url is not None
        self._answers = self._answers or answers()
        token = await invocation().user_token(self.server.url, scope=self.server.scope)
        server, lost = replace(self.server, token=token), anyio.Event()
        try:
            with anyio.fail_after(max(0.0, until - anyio.current_time())):
                async with open_client(server, self._directory, lost, self._launcher) as client:
                    self._compare(await list_tools(client))
                    self._check_agreed(name)
                    return await self._send(client, name, arguments, lost)
        except (ExceptionGroup, ValueError, RuntimeError, OSError, MCPError, *CLOSED) as error:
            if isinstance(error, ExceptionGroup) and (known := _find_known(error)) is not None:
                raise known from None
            raise LostError(f"{self.server.name}: {format_failure(error)}") from None


def _find_known(error: BaseException) -> FailedCallError | LostError | None:
    """Find the error of a call in the groups of the library's tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, FailedCallError | LostError) else None


Wait: TypeAlias = "Callable[[], Coroutine[Any, Any, object]]"


async def _await_first(waits: tuple[Wait, ...], listener: Wait) -> None:
    """Wait for the first of several while another wait runs."""
    async with anyio.create_task_group() as tasks:

        async def wait_for(wait: Wait) -> None:
            await wait()
            tasks.cancel_scope.cancel()

        start_errand(tasks, "listens to an MCP server", EndEffect.OWNER, listener)
        for each in waits:
            start_errand(tasks, "waits for an MCP server", EndEffect.OWNER, partial(wait_for, each))


def format_failure(error: BaseException) -> str:
    """Format a failure on one bounded line; its text is untrusted."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return clean_line(f"{type(error).__name__}: {error}", SAID)


def answers() -> Any:
    """Return the type adapter for the answers to a call."""
    from mcp_types import CallToolResult, InputRequiredResult
    from pydantic import TypeAdapter

    return TypeAdapter(CallToolResult | InputRequiredResult)


@asynccontextmanager
async def keep_connected(server: McpServer, directory: Path, launcher: Launcher) -> AsyncIterator[Connection]:
    """Keep a server connected; calls wait until it is.

    Args:
        server: how it is reached, and its tools.
        directory: in which its program starts.
        launcher: says how.
    """
    if server.on_behalf:
        yield UserConnection(server, directory, launcher)
        return
    connection = Connection(server, directory, launcher)
    async with anyio.create_task_group() as tasks:
        name = f"keeps the connection to {server.name}"
        start_errand(tasks, name, EndEffect.LISTENER, connection.run, connection.give_up)
        yield connection
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def open_client(
    server: McpServer, directory: Path, lost: anyio.Event, launcher: Launcher, handle_message: Any = None
) -> AsyncIterator[Any]:
    """Connect the library's client to a server. It must be left in the task in which it was entered.

    Requests of the server for sampling or elicitation have no callback, so the library declines them.
    """
    from mcp import Client
    from mcp_types import Implementation

    messages = ServerMessages(await anyio.to_thread.run_sync(MessageForms))
    transport: Any = (
        open_pipes(server, directory, lost, launcher, messages)
        if server.url is None
        else _open_transport(server, messages)
    )
    info = Implementation(name="agentserver", version="1")
    async with Client(transport, cache=None, client_info=info, message_handler=handle_message) as client:
        yield client


@asynccontextmanager
async def _open_transport(server: McpServer, messages: ServerMessages) -> AsyncIterator[Any]:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    from agentserver.mcp.client.transport import CheckedTransport

    headers = {"Accept-Encoding": "identity"}
    if server.token is not None:
        headers["Authorization"] = f"Bearer {server.token}"
    times = httpx2.Timeout(STARTING, read=None)  # each call has the deadline of its listener
    assert server.url is not None
    # It reads certificates, and modules of its own, when it is made.
    inner = await anyio.to_thread.run_sync(partial(httpx2.AsyncHTTPTransport, trust_env=False))
    transport = CheckedTransport(inner, messages, ReadingThreads())
    async with (
        httpx2.AsyncClient(headers=headers, timeout=times, trust_env=False, transport=transport) as http,
        streamable_http_client(server.url, http_client=http) as streams,
    ):
        yield streams


async def list_tools(client: Any) -> dict[str, LockedTool]:
    """List the tools of a connected server by name. Raises LockError for invalid tools, and for more than TOOLS."""
    found: dict[str, LockedTool] = {}
    cursor = None
    for _ in range(TOOLS):
        page = await client.session.list_tools(params=_page(cursor))
        for each in page.tools:
            schemas = each.input_schema, each.output_schema
            one = tool(each.name, each.description or "", *schemas, _read_annotations(each))
            found[one.name] = one
        cursor = page.next_cursor
        if cursor is None:
            return found
        if len(found) > TOOLS:
            break
    raise LockError(f"names more than {TOOLS} tools")


def _read_annotations(listed: Any) -> dict[str, Any]:
    """Read the annotations of a listed tool, with the hint that ``ServerMessages`` kept from the library."""
    stated = {} if listed.annotations is None else listed.annotations.model_dump(by_alias=True)
    return {**stated, UNTRUSTED: (listed.meta or {}).get(UNTRUSTED)}


def _page(cursor: str | None) -> Any:
    from mcp_types import PaginatedRequestParams

    return PaginatedRequestParams(cursor=cursor)


@dataclass(frozen=True, slots=True)
class ServerFound:
    """A server as found: the tools to lock, and its suggested instructions for models."""

    lock: ServerLock
    instructions: str = ""


def ask(server: McpServer, directory: Path, launcher: Launcher) -> ServerFound:
    """Connect to a server, ask for its tools and leave it.

    Args:
        server: how it is reached.
        directory: in which its program starts.
        launcher: says how.

    Raises MissingExtraError; LostError where nothing can be learnt of it in STARTING seconds.
    """
    require("mcp:", "mcp")
    import mcp  # noqa: F401 - here, and not while others wait for the loop

    return anyio.run(_ask, server, directory, launcher)


async def _ask(server: McpServer, directory: Path, launcher: Launcher) -> ServerFound:
    from mcp import MCPError

    try:
        with anyio.fail_after(STARTING):
            async with open_client(server, directory, anyio.Event(), launcher) as client:
                tools = await list_tools(client)
                info = client.server_info
                name = "a server that does not name itself" if info is None else f"{info.name} {info.version}"
                lock = ServerLock(name, client.protocol_version, tuple(tools.values()))
                return ServerFound(lock, client.instructions or "")
    except (ExceptionGroup, ValueError, RuntimeError, OSError, MCPError) as error:
        raise LostError(f"{server.name}: {format_failure(error)}") from None
