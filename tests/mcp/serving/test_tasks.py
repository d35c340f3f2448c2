"""Calls that become tasks, polled by the SDK's own client with an extension of the tests' own."""

from __future__ import annotations

from typing import Any, Literal

import anyio
import pytest
from mcp.client.extension import ClientExtension, NotificationBinding, ResultClaim
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    ElicitResult,
    NotificationParams,
    Request,
    RequestParams,
    Result,
    SubscriptionFilter,
    SubscriptionsListenRequest,
    SubscriptionsListenRequestParams,
)
from pydantic import ConfigDict, Field

from agentserver.core.state.approvals import Answer
from agentserver.mcp.serving.tasks import EXTENSION
from tests.gateways.http.desk import person
from tests.machine import HANGS
from tests.mcp.serving.behind import serve_behind
from tests.mcp.serving.test_protocol import approve, desk, home, host  # noqa: F401 - a fixture
from tests.pump.desk import wait_until

pytestmark = pytest.mark.anyio


class CreatedTask(Result):
    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")
    status: str


class NamedParams(RequestParams):
    task_id: str = Field(alias="taskId")


class TaskRequest(Request[NamedParams, str]):
    name_param = "taskId"
    method: str
    params: NamedParams


class FoundTask(Result):
    model_config = ConfigDict(extra="allow")
    status: str = ""


async def ask(client, method, task_id):
    request = TaskRequest(method=f"tasks/{method}", params=NamedParams(taskId=task_id))
    return await getattr(client, "session", client).send_request(request, FoundTask)


async def poll(client, task_id, *ends):
    with anyio.fail_after(HANGS):
        while (found := await ask(client, "get", task_id)).status not in ends:  # noqa: ASYNC110 - polling is the protocol
            await anyio.sleep(0.01)
    return found


class Tasks(ClientExtension):
    """Remembers the tasks of a host, and polls each until it has ended."""

    identifier = EXTENSION

    def __init__(self):
        self.created: list[Any] = []

    def claims(self):
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self.resolve)]

    async def resolve(self, created, context):
        self.created.append(created)
        found = await poll(context.session, created.task_id, "completed", "cancelled")
        return CallToolResult.model_validate(found.result)


async def create(client, door=3):
    return await client.session.call_tool("vault", {"door": door}, allow_claimed=True)


async def test_a_call_that_waits_for_a_person_is_a_task_until_it_is_answered(home):  # noqa: F811
    tasks = Tasks()
    async with desk(home) as (server, offering), host(offering, extensions=[tasks]) as client:
        assert (await client.call_tool("post", {"to": "bob@corp.example"})).structured_content == {
            "copies": 1
        }
        assert not tasks.created  # it was quick
        async with anyio.create_task_group() as group:

            async def call():
                done = await client.call_tool("vault", {"door": 3})
                assert done.structured_content == {"copies": 3}

            group.start_soon(call)
            await wait_until(lambda: len(tasks.created) == 1)
            (created,) = tasks.created
            (approval,) = server.approvals()
            working = await ask(client, "get", created.task_id)
            assert (working.status, created.status) == ("working", "working")
            assert approval.id in working.statusMessage
            again = await create(client)
            assert len(server.approvals()) == 1, "an equal call at the same time is the same one"
            assert (await ask(client, "get", again.task_id)).status == "working"
            await approve(server)
        later = await create(client)
        assert len(server.approvals()) == 1, "a call that was answered is another one"
        assert later.task_id != created.task_id


@pytest.mark.parametrize("answer", [Answer.DENY, Answer.ONCE])
async def test_a_task_is_found_after_a_restart(home, answer):  # noqa: F811
    async with desk(home, durable=True) as (_, offering), host(offering, extensions=[Tasks()]) as client:
        created = await create(client)
    async with desk(home, durable=True) as (server, offering), host(offering, extensions=[Tasks()]) as client:
        assert (await ask(client, "get", created.task_id)).status == "working"
        with anyio.fail_after(HANGS):
            await wait_until(lambda: len(server.approvals()) == 1)
        await approve(server, answer)
        for _ in range(2):
            done = await poll(client, created.task_id, "completed")
            assert done.result["isError"] is (answer is Answer.DENY)
            assert "denied" in str(done.result) or done.result["structuredContent"] == {"copies": 3}


async def test_a_cancelled_task_ends_its_call(home):  # noqa: F811
    async with desk(home) as (server, offering), host(offering, extensions=[Tasks()]) as client:
        created = await create(client)
        assert (await ask(client, "cancel", created.task_id)).status == ""
        assert (await poll(client, created.task_id, "cancelled", "completed")).status == "cancelled"
        assert server.approvals() == ()


async def test_a_cancelled_task_is_cancelled_after_a_restart(home):  # noqa: F811
    async with desk(home, durable=True) as (_, offering), host(offering, extensions=[Tasks()]) as client:
        created = await create(client)
        await ask(client, "cancel", created.task_id)
    async with desk(home, durable=True) as (_, offering), host(offering, extensions=[Tasks()]) as client:
        assert (await poll(client, created.task_id, "cancelled", "completed")).status == "cancelled"


async def test_a_person_is_shown_the_page_and_the_host_cannot_approve(home):  # noqa: F811
    async with desk(home) as (server, offering):

        async def claim(_context, _params):
            return ElicitResult(action="accept")

        async with (
            host(offering, elicitation_callback=claim, extensions=[tasks := Tasks()]) as client,
            anyio.create_task_group() as group,
        ):
            group.start_soon(client.call_tool, "vault", {"door": 3})
            await wait_until(lambda: len(tasks.created) == 1)
            task_id = tasks.created[0].task_id
            asked = await ask(client, "get", task_id)
            assert asked.status == "input_required"
            ((key, shown),) = asked.inputRequests.items()
            assert shown["params"]["url"] == f"https://desk.example/approvals/{key}"
            await ask(client, "update", task_id)
            assert (await ask(client, "get", task_id)).status == "input_required"
            await approve(server)


async def test_a_task_of_another_principal_is_unknown_and_a_host_without_tasks_is_refused(home):  # noqa: F811
    async with (
        serve_behind(home, person("ada"), person("eve")) as door,
        door.host("ada", extensions=[Tasks()]) as ada,
    ):
        created = await create(ada)
        for name, extensions, code in (
            ("eve", [Tasks()], INVALID_PARAMS),
            ("ada", [], MISSING_REQUIRED_CLIENT_CAPABILITY),
        ):
            async with door.host(name, extensions=extensions) as other:
                for method in ("get", "update", "cancel"):
                    with pytest.raises(MCPError) as refused:
                        await ask(other, method, created.task_id)
                    assert refused.value.error.code == code
        for made_up in ("", "x" * 900, f"{created.task_id}x", created.task_id.replace("-", "+")):
            with pytest.raises(MCPError, match="Task not found"):
                await ask(ada, "get", made_up)
        assert (await ask(ada, "get", created.task_id)).status == "working"


async def test_a_host_of_the_older_protocol_gets_no_task(home):  # noqa: F811
    async with (
        desk(home, deadline=0.3) as (_, offering),
        host(offering, mode="legacy", extensions=[Tasks()]) as client,
    ):
        assert (await client.call_tool("vault", {"door": 3})).is_error


class TaskNotice(NotificationParams):
    model_config = ConfigDict(extra="allow")
    task_id: str = Field(alias="taskId")
    status: str = ""


class TaskNotices(Tasks):
    """Remembers each notification about a task."""

    def __init__(self):
        super().__init__()
        self.seen = []

    async def note(self, task):
        self.seen.append(task)

    def notifications(self):
        return [NotificationBinding(method="notifications/tasks", params_type=TaskNotice, handler=self.note)]


async def follow(client, *task_ids):
    wanted = SubscriptionFilter(taskIds=list(task_ids))
    params = SubscriptionsListenRequestParams(notifications=wanted)
    return await client.session.send_request(SubscriptionsListenRequest(params=params), Result)


async def test_a_host_is_notified_of_each_change_of_its_tasks_until_they_have_ended(home):  # noqa: F811
    async with (
        serve_behind(home, person("ada"), person("eve")) as door,
        door.host("ada", extensions=[ada := TaskNotices()]) as client,
        door.host("eve", extensions=[eve := TaskNotices()]) as other,
    ):
        created = await create(client)
        with anyio.fail_after(HANGS):
            async with anyio.create_task_group() as group:
                group.start_soon(follow, client, created.task_id)
                await wait_until(lambda: len(ada.seen) == 1)
                (approval,) = door.server.approvals()
                assert (ada.seen[0].task_id, ada.seen[0].status) == (created.task_id, "working")
                assert approval.id in ada.seen[0].statusMessage
                await follow(
                    other, created.task_id
                )  # another's task is an unknown one: the stream ends at once
                await approve(door.server)
            await wait_until(lambda: ada.seen[-1].status == "completed")
        assert ada.seen[-1].result == (await ask(client, "get", created.task_id)).result
        assert eve.seen == []


async def test_a_followed_task_ends_with_its_cancellation(home):  # noqa: F811
    async with desk(home) as (_, offering), host(offering, extensions=[seen := TaskNotices()]) as client:
        created = await create(client)
        with anyio.fail_after(HANGS):
            async with anyio.create_task_group() as group:
                group.start_soon(follow, client, created.task_id)
                await wait_until(lambda: len(seen.seen) == 1)
                await ask(client, "cancel", created.task_id)
            await wait_until(lambda: seen.seen[-1].status == "cancelled")


@pytest.mark.parametrize(
    ("ids", "extensions", "code"),
    [
        (["x"] * 101, [Tasks()], INVALID_PARAMS),
        ([7], [Tasks()], INVALID_PARAMS),
        (["x"], [], MISSING_REQUIRED_CLIENT_CAPABILITY),
    ],
)
async def test_a_subscription_that_cannot_be_served_is_refused(home, ids, extensions, code):  # noqa: F811
    async with desk(home) as (_, offering), host(offering, extensions=extensions) as client:
        with pytest.raises(MCPError) as refused:
            await follow(client, *ids)
        assert refused.value.error.code == code


async def test_a_revoked_host_loses_its_subscription(home):  # noqa: F811
    async with (
        serve_behind(home, person("ada")) as door,
        door.host("ada", extensions=[seen := TaskNotices()]) as client,
    ):
        created = await create(client)
        with anyio.fail_after(HANGS):
            async with anyio.create_task_group() as group:

                async def follow_unknown():
                    with pytest.raises(MCPError):
                        await follow(client, created.task_id)

                group.start_soon(follow_unknown)
                await wait_until(lambda: len(seen.seen) == 1)
                del door.people.known["ada"]
