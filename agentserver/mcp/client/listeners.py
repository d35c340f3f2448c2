"""Handlers that call tools: a payload becomes a call, and the server's result becomes a payload.

Arguments and results are validated against the server's own schemas. Results are untrusted unless declared otherwise.
"""

from __future__ import annotations

from base64 import b64decode
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from agentserver.contract import HandlerMetadata, HandlerResponse, SystemError
from agentserver.delegation import DelegationError
from agentserver.extras import require
from agentserver.handoff.validation.worker import ValidationFailed, ValidationWorker
from agentserver.mcp.client.connection import FailedCallError, LostError
from agentserver.payload.foreign.mapping import codec_of, from_foreign, to_foreign
from agentserver.payload.foreign.results import (
    ToolData,
    ToolFailure,
    ToolLink,
    ToolResult,
    legible,
    legible_value,
)
from agentserver.payload.json.elements import convert_element, value_from
from agentserver.payload.json.values import JsonRefusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from agentserver.mcp.client.connection import Connection
    from agentserver.payload.foreign.lock import McpServer, McpTool

WAITING: Final = 0.9
"""The part of a call's deadline for which it waits to be sent."""
MOST: Final = 1 << 20
"""Most characters and octets of a result."""
PARTS: Final = 10_000
"""Most parts of a result: one without a character takes room too."""
DECLINED: Final = "the tool asked for input from a person or a model, which is not available here"
TOO_LARGE: Final = f"the result has more than {MOST} characters or octets, or {PARTS} parts"


class ToolListener:
    """The handler of one tool."""

    def __init__(
        self, tool: McpTool, connection: Connection, deadline: float, worker: ValidationWorker
    ) -> None:
        self._tool = tool
        self._connection = connection
        self._deadline = deadline
        self._worker = worker
        self._takes = codec_of(tool.forms.takes.cls)
        self._gives = None if tool.forms.gives is None else codec_of(tool.forms.gives.cls)

    async def __call__(self, payload: Any, metadata: HandlerMetadata) -> HandlerResponse:
        """Call the tool, once.

        Raises ServiceUnreachableError and LostError as ``Connection.call`` does, LostError also for a result that is
        not what the server's own schema says.
        """
        del metadata
        until = anyio.current_time() + self._deadline * WAITING
        if isinstance(payload, SystemError):  # what was answered is none that may be sent
            return HandlerResponse.respond(payload)
        arguments = to_foreign(self._tool.forms.takes.shape, value_from(self._takes, payload))
        fault = str(arguments) if isinstance(arguments, JsonRefusal) else ""
        if not fault and self._tool.forms.takes.loose:
            fault = await self._validate_foreign(arguments, self._tool.agreed.takes)
        if fault or isinstance(arguments, JsonRefusal):
            return _fail(f"arguments: {fault}")
        try:
            found = await self._connection.call(self._tool.agreed.name, arguments, until=until)
        except FailedCallError as error:
            return _fail(str(error))
        except DelegationError as error:
            return _fail(f"not called, because there is no token of the user for it: {error}")
        if not hasattr(found, "content"):
            return _fail(DECLINED)
        return await self._report(found)

    async def _report(self, found: Any) -> HandlerResponse:
        result = _convert_result(found.content)
        if result is None:
            return _fail(TOO_LARGE)
        if found.is_error:
            return HandlerResponse.respond(ToolFailure(text=result.text))
        if self._gives is None or self._tool.forms.gives is None:
            return HandlerResponse.respond(result)
        value = found.structured_content
        loose = self._tool.forms.gives.loose
        fault = await self._validate_foreign(value, self._tool.agreed.gives) if loose else ""
        if fault:
            raise LostError(f"{self._tool.listener} gave a result that its own schema refuses: {fault}")
        element = convert_element(
            self._gives, from_foreign(self._tool.forms.gives.shape, legible_value(value))
        )
        if isinstance(element, JsonRefusal):
            raise LostError(f"{self._tool.listener} gave a result that no payload can hold: {element}")
        return HandlerResponse.respond(self._gives.decode(element))

    async def _validate_foreign(self, value: Any, schema: Any) -> str:
        """Validate a value against a foreign schema in a separate process. Returns the fault; empty without one."""
        try:
            # A call that is cancelled does not wait for the worker, which has a bound of its own.
            validate = partial(self._worker.validate, value, schema)
            await anyio.to_thread.run_sync(validate, abandon_on_cancel=True)
        except ValidationFailed as fault:
            return str(fault)
        return ""


def _fail(text: str) -> HandlerResponse:
    return HandlerResponse.respond(ToolFailure(text=legible([text[:MOST]])))


def _convert_result(content: Sequence[Any]) -> ToolResult | None:
    """Convert the result of a tool, in order of its kinds; None for more than MOST items or PARTS parts."""
    if len(content) > PARTS:
        return None
    texts: list[str] = []
    data: list[ToolData] = []
    links: list[ToolLink] = []
    for each in content:
        inner = each.resource if each.type == "resource" else each
        if each.type == "resource_link":
            links.append(ToolLink(*legible([str(each.uri), each.name])))
        elif hasattr(inner, "text"):
            texts.append(inner.text)
        else:
            octets: str = getattr(inner, "blob", None) or getattr(inner, "data", None) or ""
            (kind,) = legible([inner.mime_type or "application/octet-stream"])
            data.append(ToolData(kind, _decode_octets(octets)))
    size = sum(map(len, texts)) + sum(len(each.uri) + len(each.name) for each in links)
    size += sum(len(each.media_type) + len(each.content) for each in data)
    return ToolResult(legible(texts), data, links) if size <= MOST else None


def _decode_octets(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise LostError("a result holds data that is no base64") from None


@asynccontextmanager
async def open_listeners(
    servers: Sequence[McpServer],
    deadlines: Mapping[str, float],
    connect: Callable[[McpServer], Awaitable[Connection]],
) -> AsyncIterator[Mapping[str, ToolListener]]:
    """Build the handlers of all tools, by listener.

    The library is imported in a thread first; servers connect in the background, and calls wait for them.

    Args:
        servers: the servers of these tools.
        deadlines: seconds, by the listener that is used; a server without one is not connected.
        connect: returns the connection to a server, which outlives this context.

    Raises MissingExtraError.
    """
    tools = [(server, tool) for server in servers for tool in server.tools if tool.listener in deadlines]
    if not tools:
        yield {}
        return
    require("mcp:", "mcp")
    await anyio.to_thread.run_sync(_import)
    connections = {
        name: await connect(server) for name, server in {one.name: one for one, _ in tools}.items()
    }
    worker = ValidationWorker()
    try:
        yield {
            tool.listener: ToolListener(tool, connections[server.name], deadlines[tool.listener], worker)
            for server, tool in tools
        }
    finally:
        await anyio.to_thread.run_sync(worker.close)


def _import() -> None:
    import_module("mcp.client.streamable_http")  # slow, and the loop has others to serve
