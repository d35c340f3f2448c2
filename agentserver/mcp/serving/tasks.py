"""Tasks of hosts: calls that outlive their connection (extension ``io.modelcontextprotocol/tasks`` of 2026-07-28).

A task is a request of the principal's conversation, and its id names that request. So the engine alone stores it: a
task is found after a restart, and at another server. Imports the SDK, which comes with the extra ``mcp``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import Field

from agentserver.core.messages import Done, Reply
from agentserver.mcp.serving.calls import TaskKey, answer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

    from agentserver.core.guard import Rules
    from agentserver.core.state.principals import Principal
    from agentserver.mcp.serving.calls import Calls, ServedTool

EXTENSION: Final = "io.modelcontextprotocol/tasks"

VERSION: Final = "2026-07-28"
"""The first version of the protocol that has extensions, and in which a call may come back for more."""

PATIENCE: Final = 5.0
"""Seconds after which a call becomes a task, if its host knows tasks."""

POLL_MS: Final = 1000
"""Milliseconds between two polls, as hosts are asked to wait."""


class TaskParams(types.RequestParams):
    """Parameters of ``tasks/get``, ``tasks/update`` and ``tasks/cancel``. Responses of a host decide nothing."""

    task_id: str = Field(alias="taskId", max_length=1000)


def supports_tasks(ctx: ServerRequestContext[Any]) -> bool:
    """Tell whether the host of a request declares tasks on it."""
    capabilities = ctx.session.client_capabilities
    declared = None if capabilities is None else capabilities.extensions
    return ctx.protocol_version >= VERSION and declared is not None and EXTENSION in declared


def describe_created(key: TaskKey, approval: str) -> dict[str, Any]:
    """Describe a new task, in place of the result of its call. It is committed already."""
    return {"resultType": "task", **_describe(key, "working", _name_wait(approval))}


def _name_wait(approval: str) -> str:
    return f"A person has to approve this call: approval {approval}." if approval else "The call is running."


def _describe(key: TaskKey, status: str, message: str = "") -> dict[str, Any]:
    created = datetime.fromtimestamp(key.created / 1000, UTC).isoformat(timespec="milliseconds")
    task = {
        "taskId": str(key),
        "status": status,
        "createdAt": created,
        "lastUpdatedAt": created,
        "ttlMs": None,
    }
    return task | {"pollIntervalMs": POLL_MS} | ({"statusMessage": message} if message else {})


@dataclass(frozen=True, slots=True)
class TaskMethods:
    """Requests about tasks. A task of another principal is indistinguishable from an unknown one.

    Args:
        tools: by name.
        rules: used to read answers.
        calls: of hosts.
        who: returns the authenticated principal of the caller.
        show: converts the answer to a call to its result.
        ask: makes the request to open the approval page; None where the host cannot show one.
    """

    tools: Mapping[str, ServedTool]
    rules: Rules
    calls: Calls
    who: Callable[[], Principal]
    show: Callable[..., types.CallToolResult]
    ask: Callable[[ServerRequestContext[Any], str], dict[str, Any] | None]

    def add_to(self, server: Server[Any]) -> None:
        """Declare the extension, and handle its requests."""
        server.extensions[EXTENSION] = {}
        for method, handle in (
            ("tasks/get", self._get),
            ("tasks/update", self._update),
            ("tasks/cancel", self._cancel),
        ):
            server.add_request_handler(method, TaskParams, handle)

    async def _get(self, ctx: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        key, events = await self._find(ctx, params)
        if not any(isinstance(event, Done) for event in events):
            return self._describe_waiting(ctx, key)
        principal, calls = self.who().name, self.calls
        replies = [event for event in events if isinstance(event, Reply)]
        if not replies and calls.is_cancelled(principal, key):
            return _describe(key, "cancelled", "The host cancelled this call.")
        calls.settle(principal, key)
        answer = answer_of(replies, self.rules, self.tools[key.tool])
        result = self.show(answer, again=False).model_dump(by_alias=True, mode="json", exclude_none=True)
        return _describe(key, "completed") | {"result": result}

    def _describe_waiting(self, ctx: ServerRequestContext[Any], key: TaskKey) -> dict[str, Any]:
        approval = self.calls.find_approval(key)
        shown = self.ask(ctx, approval) if approval else None
        if shown is None:
            return _describe(key, "working", _name_wait(approval))
        return _describe(key, "input_required", _name_wait(approval)) | {"inputRequests": {approval: shown}}

    async def _update(self, ctx: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        """Acknowledge a response. The person decides on the page: a host cannot approve."""
        await self._find(ctx, params)
        return {}

    async def _cancel(self, ctx: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        key, _ = await self._find(ctx, params)
        await self.calls.cancel_task(self.who().name, key)
        return {}

    async def _find(
        self, ctx: ServerRequestContext[Any], params: TaskParams
    ) -> tuple[TaskKey, tuple[Reply | Done, ...]]:
        """Find a task of the principal and its events. Raises MCPError."""
        if not supports_tasks(ctx):
            needed = types.MissingRequiredClientCapabilityErrorData(
                required_capabilities=types.ClientCapabilities(extensions={EXTENSION: {}})
            )
            raise MCPError(
                code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                message="Missing required client capability",
                data=needed.model_dump(by_alias=True, mode="json", exclude_none=True),
            )
        key = TaskKey.read(params.task_id)
        if key is None or key.tool not in self.tools:
            raise MCPError(code=types.INVALID_PARAMS, message="Task not found")
        try:
            return key, await self.calls.find_events(self.who().name, key)
        except LookupError:
            raise MCPError(code=types.INVALID_PARAMS, message="Task not found") from None
