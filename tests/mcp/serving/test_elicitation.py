"""Approvals that the SDK's own client asks its user about in a form, behind the door."""

from __future__ import annotations

import anyio
import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult

from agentserver.core.records.audit import Event
from agentserver.gateways.principals import Role
from tests.gateways.http.desk import person
from tests.machine import HANGS
from tests.mcp.serving.behind import serve_behind
from tests.mcp.serving.test_protocol import approve, home, result_texts  # noqa: F401 - a fixture
from tests.pump.desk import wait_until

pytestmark = pytest.mark.anyio
OPERATOR = person("ada", Role.OPERATOR)


@pytest.fixture
def asking_project(home):  # noqa: F811
    path = home / "organism.yaml"
    path.write_text(path.read_text(encoding="utf-8") + "  elicitation: true\n", encoding="utf-8")
    return home


class User:
    """Answers forms and pages, and remembers them."""

    def __init__(self, action, content=None, before=None):
        self.answer, self.before, self.shown = (
            ElicitResult(action=action, content=content),
            before,
            [],
        )

    async def __call__(self, _context, params):
        self.shown.append(params)
        if self.before is not None:
            await self.before()
        return self.answer


async def test_an_operator_approves_in_its_hosts_form_the_call_shown_there(asking_project):
    user = User("accept", {"decision": "once"})
    async with (
        serve_behind(asking_project, OPERATOR) as door,
        door.host("ada", elicitation_callback=user) as client,
    ):
        with anyio.fail_after(HANGS):
            done = await client.call_tool("vault", {"door": 3})
        assert done.structured_content == {"copies": 3}
        (form,) = user.shown
        assert isinstance(form, ElicitRequestFormParams)
        assert form.requested_schema["properties"]["decision"]["enum"] == ["once", "always", "deny"]
        assert all(
            each in form.message for each in ("ada -> vault", "needs an approval", "door: 3", "sha-256 ")
        )
        (one,) = door.server.trace.conversations()
        (record,) = [each for each in door.server.trace.list_records(one) if each.event is Event.APPROVED]
        assert record.detail.by == "ada"
        again = User("accept", {"decision": "deny"})
        async with door.host("ada", elicitation_callback=again) as other, anyio.create_task_group():
            assert (await other.call_tool("vault", {"door": 3})).is_error  # once was for one message


@pytest.mark.parametrize(
    "user",
    [
        User("decline"),
        User("cancel"),
        User("accept"),
        User("accept", {"decision": "deny"}),
        User("accept", {"decision": "yes"}),
        User("decline", {"decision": "once"}),
    ],
    ids=["declined", "cancelled", "empty", "denied", "another word", "declined with a word"],
)
async def test_anything_but_a_consent_denies(asking_project, user):
    user.shown.clear()
    async with (
        serve_behind(asking_project, OPERATOR) as door,
        door.host("ada", elicitation_callback=user) as client,
    ):
        with anyio.fail_after(HANGS):
            refused = await client.call_tool("vault", {"door": 3})
        assert refused.is_error
        assert '"code": "denied"' in result_texts(refused)[0]
        assert len(user.shown) == 1
        assert door.server.approvals() == ()


@pytest.mark.parametrize("why", ["no operator", "the one who asked", "not configured"])
async def test_a_host_whose_user_may_not_decide_gets_the_page_and_its_answer_counts_for_nothing(home, why):  # noqa: F811
    path = home / "organism.yaml"
    more = "" if why == "not configured" else "  elicitation: true\n"
    more += "limits: {approvers: others}\n" if why == "the one who asked" else ""
    path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
    caller = person("ada") if why == "no operator" else OPERATOR
    async with serve_behind(home, caller, person("bob", Role.OPERATOR)) as door:

        async def decide():
            (one,) = door.server.approvals()
            await approve(door.server, by="bob")
            assert one.delivery.to == "vault"

        user = User("accept", {"decision": "once"}, before=decide)
        async with door.host("ada", elicitation_callback=user) as client:
            with anyio.fail_after(HANGS):
                assert not (await client.call_tool("vault", {"door": 3})).is_error
        assert all(isinstance(each, ElicitRequestURLParams) for each in user.shown)
        (one,) = door.server.trace.conversations()
        (record,) = [each for each in door.server.trace.list_records(one) if each.event is Event.APPROVED]
        assert record.detail.by == "bob"


async def test_an_answer_of_a_former_operator_does_not_count(asking_project):
    async with serve_behind(asking_project, OPERATOR) as door:

        async def demote():
            door.people.known["ada"] = person("ada")

        user = User("accept", {"decision": "once"}, before=demote)
        async with door.host("ada", elicitation_callback=user) as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "vault", {"door": 3})
            with anyio.fail_after(HANGS):
                await wait_until(lambda: len(user.shown) == 2)
            assert isinstance(user.shown[1], ElicitRequestURLParams)
            assert len(door.server.approvals()) == 1
            group.cancel_scope.cancel()


async def test_without_a_page_a_user_who_may_not_decide_waits_like_any_other(asking_project):
    path = asking_project / "organism.yaml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("  approvals: https://desk.example/approvals/\n", "")
    )
    user = User("accept", {"decision": "once"})
    async with (
        serve_behind(asking_project, person("ada")) as door,
        door.host("ada", elicitation_callback=user) as client,
    ):
        late = await client.call_tool("vault", {"door": 3})
        assert late.is_error
        assert "Nobody has within 2 s" in result_texts(late)[0]
        assert user.shown == []
