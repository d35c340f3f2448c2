"""Reading conversations, dead letters, usage and schedules over HTTP, each by role."""

from __future__ import annotations

import pytest

from agentserver.engines.memory import MemoryEngine
from agentserver.engines.sqlite.engine import SqliteEngine
from agentserver.engines.sqlite.file import JournalOptions
from agentserver.gateways.principals import Role
from tests.gateways.http.desk import desk, open_conversation, person, talk, until

pytestmark = pytest.mark.anyio

GREET = {"name": "Ada"}
HTTP_NOT_MODIFIED = 304


async def greet_clerk(client):
    """The id of a new conversation with one answered message."""
    path = await open_conversation(client)
    answer = await client.post(f"{path}/messages/greeter?payload=Greet", json=GREET)
    assert answer.status_code == 200, answer.text
    return path.rpartition("/")[2]


def keys(answer):
    return [each["conversation"] for each in answer.json()["conversations"]]


async def test_a_user_lists_its_own_conversations_and_an_operator_all():
    async with (
        desk(engine=MemoryEngine(recorded=True)) as door,
        door.client() as ada,
        door.client("bob") as bob,
        door.client("olga") as olga,
    ):
        mine, his = await greet_clerk(ada), await greet_clerk(bob)
        assert keys(await ada.get("/v1/conversations")) == [mine]
        assert keys(await ada.get("/v1/conversations", params={"where": "principal=bob"})) == []
        everybody = await olga.get("/v1/conversations")
        assert set(keys(everybody)) == {mine, his}
        assert {each["principal"] for each in everybody.json()["conversations"]} == {"ada", "bob"}
        (row,) = (await ada.get("/v1/conversations")).json()["conversations"]
        assert "principal" not in row
        assert (row["state"], row["href"]) == ("open", f"/v1/conversations/{mine}")


async def test_pages_follow_each_other_by_link():
    async with talk(engine=MemoryEngine(recorded=True)) as (_, ada, _path):
        known = {await greet_clerk(ada) for _ in range(4)}
        found, path = [], "/v1/conversations?limit=2"
        while path:
            answer = await ada.get(path)
            found += keys(answer)
            path = answer.links.get("next", {}).get("url")
        assert len(found) == len(set(found)) == 5
        assert known < set(found)


async def test_one_conversation_has_its_open_requests_and_links_that_work():
    async with talk(engine=MemoryEngine(recorded=True)) as (door, ada, path):
        await ada.post(f"{path}/messages/vault?wait=0", json={"amount": 1})
        await until(lambda: door.server.approvals())
        found = (await ada.get(path)).json()
        (request,) = found["requests"]
        assert request["pending"] == 1
        assert [each["to"] for each in found["waits"]] == ["vault"]
        for name in ("self", "history", "usage", "trace"):
            assert (await ada.get(found["links"][name])).status_code == 200
        await ada.delete(path)


async def test_the_history_has_the_principals_messages_and_their_answers():
    async with (
        desk(engine=MemoryEngine(recorded=True)) as door,
        door.client() as ada,
        door.client("vera") as vera,
    ):
        key = await greet_clerk(ada)
        events = (await ada.get(f"/v1/conversations/{key}/history")).json()["events"]
        assert [each["event"] for each in events][:2] == ["sent", "answered"]
        assert [each.get("value") for each in events][:2] == [GREET, {"text": "Hello, Ada"}]
        redacted = await vera.get(f"/v1/conversations/{key}/history")
        assert redacted.status_code == 200
        assert "Ada" not in redacted.text
        assert all("value" not in each for each in redacted.json()["events"])


@pytest.mark.parametrize("path", ["", "/history", "/usage"])
async def test_a_foreign_conversation_and_an_unknown_one_get_equal_bytes(path):
    async with (
        desk(engine=MemoryEngine(recorded=True)) as door,
        door.client() as ada,
        door.client("bob") as bob,
    ):
        mine = await greet_clerk(ada)
        unknown = "00000000-0000-0000-0000-000000000000"
        etag = (await ada.get(f"/v1/conversations/{mine}{path}")).headers["etag"]
        for seen in ({}, {"if-none-match": etag}, {"if-none-match": "*"}, {"last-event-id": "1-0"}):
            answers = [
                await bob.get(f"/v1/conversations/{key}{path}", headers=seen) for key in (mine, unknown)
            ]
            assert [each.status_code for each in answers] == [404, 404]
            assert answers[0].content == answers[1].content


@pytest.mark.parametrize("path", ["", "/history", "/usage"])
async def test_events_that_a_client_has_are_not_sent_again(path):
    async with desk(engine=MemoryEngine(recorded=True)) as door, door.client() as ada:
        at = f"/v1/conversations/{await greet_clerk(ada)}"
        first = await ada.get(f"{at}{path}")
        again = await ada.get(f"{at}{path}", headers={"if-none-match": f'"x", W/{first.headers["etag"]}'})
        assert (again.status_code, again.content) == (HTTP_NOT_MODIFIED, b"")
        assert again.headers["etag"] == first.headers["etag"]
        await ada.post(f"{at}/messages/greeter?payload=Greet", json={"name": "Bob"})
        later = await ada.get(f"{at}{path}", headers={"if-none-match": first.headers["etag"]})
        assert later.status_code == (HTTP_NOT_MODIFIED if path == "/usage" else 200)


async def test_a_dead_letter_is_listed_for_its_principal_and_its_content_for_an_operator():
    async with (
        desk(engine=MemoryEngine(recorded=True)) as door,
        door.client() as ada,
        door.client("bob") as bob,
        door.client("olga") as olga,
    ):
        path = await open_conversation(ada)
        await ada.post(f"{path}/messages/breaker", json={"how": "late"})
        (mine,) = (await ada.get("/v1/dead-letters")).json()["letters"]
        (theirs,) = (await olga.get("/v1/dead-letters")).json()["letters"]
        assert (mine["to"], mine["code"], mine["conversation"]) == ("breaker", "timeout", path.split("/")[-1])
        assert not {"reason", "value", "principal"} & mine.keys()
        assert theirs["principal"] == "ada"
        assert theirs["reason"]
        assert (await bob.get("/v1/dead-letters")).json() == {"letters": []}


async def test_usage_and_schedules_are_by_role():
    async with (
        desk(engine=MemoryEngine(recorded=True)) as door,
        door.client() as ada,
        door.client("olga") as olga,
    ):
        assert (await ada.get("/v1/usage")).json() == {"usage": []}
        assert (await ada.get("/v1/schedules")).status_code == 403
        assert (await olga.get("/v1/schedules")).json() == {"schedules": []}


@pytest.mark.parametrize(
    "path",
    [
        "conversations?limit=0", "conversations?limit=201", "conversations?where=colour%3Dred", "conversations?after=x",
        "conversations?unknown=1", "usage?since=-1", "dead-letters?limit=x",
    ],
)  # fmt: skip
async def test_a_parameter_that_there_is_not_is_refused(path):
    async with talk(engine=MemoryEngine(recorded=True)) as (_, ada, _path):
        assert (await ada.get(f"/v1/{path}")).status_code == 400


async def test_an_operator_of_a_tenant_reads_its_tenants_data_only():
    async with desk(engine=MemoryEngine(recorded=True)) as door, door.client() as ada:
        for name, role in (("oidc:acme/user", Role.USER), ("oidc:acme/boss", Role.OPERATOR)):
            door.people.known[name] = person(name, role)
        foreign = await greet_clerk(ada)
        async with door.client("oidc:acme/user") as user, door.client("oidc:acme/boss") as boss:
            mine = await greet_clerk(user)
            await user.post(f"/v1/conversations/{mine}/messages/breaker", json={"how": "late"})
            await ada.post(f"/v1/conversations/{foreign}/messages/breaker", json={"how": "late"})
            assert keys(await boss.get("/v1/conversations")) == [mine]
            assert (await boss.get(f"/v1/conversations/{mine}/history")).status_code == 200
            assert (await boss.get(f"/v1/conversations/{foreign}/history")).status_code == 404
            letters = (await boss.get("/v1/dead-letters")).json()["letters"]
            assert [each["conversation"] for each in letters] == [mine]
            assert (await boss.get("/v1/schedules")).status_code == 403


async def test_the_journal_lists_as_the_memory_does(tmp_path):
    place = JournalOptions(tmp_path / "journal.sqlite")
    async with desk(engine=SqliteEngine(place)) as door, door.client() as ada:
        key = await greet_clerk(ada)
        await ada.delete(f"/v1/conversations/{key}")
        (row,) = (await ada.get("/v1/conversations?where=state%3Dfinished")).json()["conversations"]
        one = (await ada.get(row["href"])).json()
        assert (one["state"], one["requests"]) == ("finished", [])
        events = (await ada.get(one["links"]["history"])).json()["events"]
        assert [each["event"] for each in events][:2] == ["sent", "answered"]
