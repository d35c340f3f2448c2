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
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
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

LOOK: Final = 5.0
"""Seconds between two looks at followed tasks, whose records another server may have written."""

MOST: Final = 100
"""Tasks that one request may follow."""

ENDED: Final = frozenset({"completed", "cancelled"})


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
    return {"resultType": "task", **_describe(key, "working", _format_wait(approval))}


def _format_wait(approval: str) -> str:
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
        find_principal: returns the authenticated principal of the caller.
        show: converts the answer to a call to its result.
        ask: makes the request to open the approval page; None where the host cannot show one.
    """

    tools: Mapping[str, ServedTool]
    rules: Rules
    calls: Calls
    find_principal: Callable[[], Principal]
    show: Callable[..., types.CallToolResult]
    ask: Callable[[ServerRequestContext[Any], str], dict[str, Any] | None]

    def add_to(self, server: Server[Any]) -> None:
        """Declare the extension, and handle its requests."""
        server.extensions[EXTENSION] = {}
        server.add_request_handler(
            "subscriptions/listen", types.SubscriptionsListenRequestParams, self._listen
        )
        for method, handle in (
            ("tasks/get", self._get),
            ("tasks/update", self._update),
            ("tasks/cancel", self._cancel),
        ):
            server.add_request_handler(method, TaskParams, handle)

    async def _get(self, ctx: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        return await self._describe_task(ctx, *await self._find(ctx, params))

    async def _listen(
        self, ctx: ServerRequestContext[Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Notify the host of each change of its tasks until all have ended. The list of tools never changes."""
        wanted, followed = params.notifications, await self._list_followed(ctx, params.notifications)
        forever = wanted.tools_list_changed or None
        named: dict[str, Any] = {"taskIds": list(map(str, followed))} if followed else {}
        honored = types.SubscriptionFilter(tools_list_changed=forever, **named)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        with self.calls.watch({key.conversation for key in followed}) as changes:
            await _notify(
                ctx,
                "notifications/subscriptions/acknowledged",
                {"notifications": honored.model_dump(by_alias=True, exclude_none=True), "_meta": meta},
            )
            while True:
                for key, before in list(followed.items()):
                    followed[key] = await self._notify_change(ctx, key, before, meta)
                followed = {
                    key: task for key, task in followed.items() if task and task["status"] not in ENDED
                }
                if not (followed or forever):
                    return types.SubscriptionsListenResult(_meta=meta)
                await changes.wait(LOOK)

    async def _list_followed(
        self, ctx: ServerRequestContext[Any], wanted: types.SubscriptionFilter
    ) -> dict[TaskKey, dict[str, Any]]:
        """List the tasks of the principal among those that a host wants to follow. Raises MCPError."""
        ids = (wanted.model_extra or {}).get("taskIds", [])
        if not isinstance(ids, list) or len(ids) > MOST or not all(isinstance(each, str) for each in ids):
            raise MCPError(code=types.INVALID_PARAMS, message=f"taskIds is a list of at most {MOST} texts")
        if ids:
            _require_tasks(ctx)
        keys = [TaskKey.read(each) for each in ids]
        return {key: {} for key in keys if key is not None and await self._look_up(key) is not None}

    async def _notify_change(
        self, ctx: ServerRequestContext[Any], key: TaskKey, before: dict[str, Any], meta: dict[str, Any]
    ) -> dict[str, Any]:
        """Notify the host if a task has changed. Returns the task; empty if its conversation is gone."""
        events = await self._look_up(key)
        if events is None:
            return {}
        task = await self._describe_task(ctx, key, events)
        if task != before:
            await _notify(ctx, "notifications/tasks", task | {"_meta": meta})
        return task

    async def _describe_task(
        self, ctx: ServerRequestContext[Any], key: TaskKey, events: tuple[Reply | Done, ...]
    ) -> dict[str, Any]:
        if not any(isinstance(event, Done) for event in events):
            return self._describe_waiting(ctx, key)
        principal, calls = self.find_principal().name, self.calls
        replies = [event for event in events if isinstance(event, Reply)]
        if not replies and await calls.find_cancellation(principal, key):
            return _describe(key, "cancelled", "The host cancelled this call.")
        calls.settle(principal, key)
        answer = answer_of(replies, self.rules, self.tools[key.tool])
        result = self.show(answer, repeated=False).model_dump(by_alias=True, mode="json", exclude_none=True)
        return _describe(key, "completed") | {"result": result}

    def _describe_waiting(self, ctx: ServerRequestContext[Any], key: TaskKey) -> dict[str, Any]:
        approval = self.calls.find_approval(key)
        question = self.ask(ctx, approval) if approval else None
        if question is None:
            return _describe(key, "working", _format_wait(approval))
        return _describe(key, "input_required", _format_wait(approval)) | {
            "inputRequests": {approval: question}
        }

    async def _update(self, ctx: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        """Acknowledge a response. The person decides on the page: a host cannot approve."""
        await self._find(ctx, params)
        return {}

    async def _cancel(self, ctx: ServerRequestContext[Any], params: TaskParams) -> dict[str, Any]:
        key, _ = await self._find(ctx, params)
        await self.calls.cancel_task(self.find_principal().name, key)
        return {}

    async def _find(
        self, ctx: ServerRequestContext[Any], params: TaskParams
    ) -> tuple[TaskKey, tuple[Reply | Done, ...]]:
        """Find a task of the principal and its events. Raises MCPError."""
        _require_tasks(ctx)
        key = TaskKey.read(params.task_id)
        events = None if key is None else await self._look_up(key)
        if key is None or events is None:
            raise MCPError(code=types.INVALID_PARAMS, message="Task not found")
        return key, events

    async def _look_up(self, key: TaskKey) -> tuple[Reply | Done, ...] | None:
        """Look up the events of a task; None if the principal has no such task."""
        if key.tool not in self.tools:
            return None
        try:
            return await self.calls.find_events(self.find_principal().name, key)
        except LookupError:
            return None


def _require_tasks(ctx: ServerRequestContext[Any]) -> None:
    """Raise MCPError for a host that does not declare tasks."""
    if supports_tasks(ctx):
        return
    needed = types.MissingRequiredClientCapabilityErrorData(
        required_capabilities=types.ClientCapabilities(extensions={EXTENSION: {}})
    )
    raise MCPError(
        code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        message="Missing required client capability",
        data=needed.model_dump(by_alias=True, mode="json", exclude_none=True),
    )


async def _notify(ctx: ServerRequestContext[Any], method: str, params: dict[str, Any]) -> None:
    """Send a notification on the stream of the request. The SDK has no type for those of extensions."""
    notification: Any = types.Notification[dict[str, Any], str](method=method, params=params)
    await ctx.session.send_notification(notification, related_request_id=ctx.request_id)
