"""Approvals and traces over real sockets: what each role sees and decides."""

from __future__ import annotations

import anyio
import pytest

from tests.gateways.http.desk import desk, open_conversation, read_until, until

pytestmark = pytest.mark.anyio


async def ask_for_payment(door, client, amount=1):
    """The path of a conversation in which a payment waits for a person."""
    path = await open_conversation(client)
    wanted = {"prefer": "respond-async"}
    answer = await client.post(f"{path}/messages?to=vault", json={"amount": amount}, headers=wanted)
    assert answer.status_code == 202
    await until(lambda: door.server.approvals())
    return path


async def test_an_operator_decides_about_the_displayed_message():
    async with desk() as door, door.client() as ada, door.client("olga") as olga:
        path = await ask_for_payment(door, ada, 5)
        (one,) = (await olga.get("/v1/approvals")).json()["approvals"]
        assert (one["from"], one["to"], one["payload"], one["value"]) == (
            "ada",
            "vault",
            "Pay",
            {"amount": 5},
        )
        assert one["until"] > one["at"]
        answer = {"digest": one["digest"], "answer": "once"}
        assert (await olga.post(f"/v1/approvals/{one['id']}", json=answer)).status_code == 204
        assert (await olga.post(f"/v1/approvals/{one['id']}", json=answer)).status_code == 404
        assert await read_until(ada, path, "paid 5")
        records = (await olga.get(f"{path}/trace")).json()["records"]
        approved = next(each for each in records if each["event"] == "approved")
        assert approved["detail"] == ["approved by olga, once"]


async def test_a_denied_message_is_not_delivered():
    async with desk() as door, door.client() as ada, door.client("olga") as olga:
        path = await ask_for_payment(door, ada)
        (one,) = (await olga.get("/v1/approvals")).json()["approvals"]
        answer = {"digest": one["digest"], "answer": "deny"}
        assert (await olga.post(f"/v1/approvals/{one['id']}", json=answer)).status_code == 204
        assert await read_until(ada, path, "denied")
        assert door.books.paid == 0


async def test_a_message_that_was_denied_while_its_sender_waits_is_forbidden():
    async with desk() as door, door.client("olga") as olga:
        path = await ask_for_payment(door, olga)
        (one,) = (await olga.get("/v1/approvals")).json()["approvals"]
        await olga.post(f"/v1/approvals/{one['id']}", json={"digest": one["digest"], "answer": "deny"})
        request = one["request"]
        assert request in await read_until(olga, path, '"code":"denied"')


async def test_an_answer_to_another_message_than_the_one_that_was_shown_is_stale():
    async with desk() as door, door.client() as ada, door.client("olga") as olga:
        await ask_for_payment(door, ada)
        (one,) = (await olga.get("/v1/approvals")).json()["approvals"]
        stale = {"digest": "0" * 64, "answer": "once"}
        assert (await olga.post(f"/v1/approvals/{one['id']}", json=stale)).status_code == 409
        assert (await olga.post("/v1/approvals/unknown", json=stale)).status_code == 404
        assert door.books.paid == 0


@pytest.mark.parametrize(
    "body",
    [b"", b"x", b"[]", b"{}", b'{"digest": 1, "answer": "once"}', b'{"digest": "a", "answer": "maybe"}'],
)
async def test_an_invalid_answer_is_refused(body):
    async with desk() as door, door.client() as ada, door.client("olga") as olga:
        await ask_for_payment(door, ada)
        (one,) = door.server.approvals()
        assert (await olga.post(f"/v1/approvals/{one.id}", content=body)).status_code == 422


async def test_only_operators_decide_and_viewers_see_neither_the_message_nor_its_digest():
    """A few tries would find the message to a digest."""
    async with desk() as door, door.client() as ada, door.client("vera") as vera:
        await ask_for_payment(door, ada)
        (one,) = door.server.approvals()
        answer = {"digest": one.digest, "answer": "once"}
        for client in (ada, vera):
            assert (await client.post(f"/v1/approvals/{one.id}", json=answer)).status_code == 403
        assert (await ada.get("/v1/approvals")).status_code == 403
        (shown,) = (await vera.get("/v1/approvals")).json()["approvals"]
        assert "value" not in shown
        assert (shown["digest"], answer["digest"] in str(shown)) == ("", False)
        assert shown["questions"] == [{"guard": shown["questions"][0]["guard"]}]
        assert door.books.paid == 0


async def test_who_asked_may_not_approve_where_others_have_to():
    async with desk(limits={"approvers": "others"}) as door, door.client("olga") as olga:
        await ask_for_payment(door, olga)
        (one,) = door.server.approvals()
        said = {"digest": one.digest, "answer": "once"}
        assert (await olga.post(f"/v1/approvals/{one.id}", json=said)).status_code == 403
        assert (
            await olga.post(f"/v1/approvals/{one.id}", json={**said, "answer": "deny"})
        ).status_code == 204


async def test_each_role_sees_its_permitted_part_of_a_trace():
    async with desk() as door, door.client() as ada, door.client("olga") as olga, door.client("vera") as vera:
        path = await open_conversation(ada)
        await ada.post(f"{path}/messages?to=cashier", json={"amount": 5})
        mine, whole, less = [
            (await each.get(f"{path}/trace")).json()["records"] for each in (ada, olga, vera)
        ]
        assert [each["event"] for each in mine] == [each["event"] for each in whole]
        assert not any("message" in each or "detail" in each for each in mine)
        assert any(each.get("message", {}).get("value") == {"text": "paid 5"} for each in whole)
        assert "paid 5" not in str(less)


async def test_a_viewer_reads_nothing_that_was_written_into_the_address_of_a_refused_message():
    async with desk() as door, door.client() as ada, door.client("olga") as olga, door.client("vera") as vera:
        path = await open_conversation(ada)
        headers = {"content-type": "application/xml"}
        await ada.post(f"{path}/messages?to=my-secret", content=b'<a xmlns="urn:x"/>', headers=headers)
        assert "my-secret" in (await olga.get(f"{path}/trace")).text
        shown = await vera.get(f"{path}/trace")
        assert "routing" in [each.get("code") for each in shown.json()["records"]]
        assert "my-secret" not in shown.text


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_answer_that_is_finished_after_its_operator_was_revoked_counts_for_nothing(chunked):
    async with desk() as door, door.client() as ada, door.client("olga") as olga:
        await ask_for_payment(door, ada)
        (one,) = (await olga.get("/v1/approvals")).json()["approvals"]
        body = f'{{"digest": "{one["digest"]}", "answer": "once"}}'.encode()
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
        head = (
            f"POST /v1/approvals/{one['id']} HTTP/1.1\r\nHost: 127.0.0.1:{door.port}\r\n"
            f"Authorization: Bearer olga\r\nConnection: close\r\n{framing}\r\n\r\n"
        )
        first, rest = (b"%x\r\n%b\r\n" % (len(body), body), b"0\r\n\r\n") if chunked else (body[:9], body[9:])
        async with await door.connect() as stream:
            await stream.send(head.encode() + first)
            await anyio.sleep(0.1)  # it is let in, and its body is read
            del door.people.known["olga"]
            await stream.send(rest)
            await door.told(stream, b" 401 ")
        assert door.server.approvals()
        assert door.books.paid == 0
