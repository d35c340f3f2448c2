"""Runs over a real socket, read by the package's own types."""

from __future__ import annotations

import anyio
import pytest
from ag_ui.core import EventType

from tests.gateways.agui.front import (
    abandon_interrupt,
    front,
    interrupts,
    kinds,
    messages,
    read,
    resolved,
    words,
)
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


async def test_a_run_tells_progress_and_the_reply_and_ends():
    async with front() as ada:
        events = await ada.run("chat", "hello")
    message = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
    assert kinds(events)[0] == "RUN_STARTED"
    assert kinds(events)[-4:] == [*message, "RUN_FINISHED"]
    assert words(events)[-1] == "You said hello"
    assert words(events)[:-1] == ["half"]
    started, finished = events[0], events[-1]
    assert (started.thread_id, started.run_id, started.protocol_version) == ("t1", "run1", "1.0")
    assert (finished.thread_id, finished.run_id, finished.outcome.type) == ("t1", "run1", "success")
    assert finished.result == {"from": "chat", "payload": "Said", "value": {"text": "You said hello"}}
    assert {event.name for event in events if event.type is EventType.TEXT_MESSAGE_START} == {"chat"}


async def test_a_thread_is_a_conversation_and_the_same_message_is_one_request():
    async with front() as ada:
        body = ada.asked("hello", "t1", None, None)
        first = await ada.events("chat", body)
        again = await ada.events("chat", body | {"runId": "another", "messages": ada.threads["t1"][:1]})
        assert ada.heard.said == ["hello"]
        assert words(again)[-1] == "You said hello"
        assert messages(again)[-1]["id"] == messages(first)[-1]["id"]
        assert again[-1].run_id == "another"
        await ada.run("chat", "more")
        assert ada.heard.said == ["hello", "more"]
        assert len(await ada.conversations()) == 1


async def test_messages_that_the_front_end_has_are_not_sent_again():
    async with front() as ada:
        body = ada.asked("hello", "t1", None, None)
        await ada.events("chat", body)
        again = await ada.events("chat", body | {"runId": "another", "messages": ada.threads["t1"]})
        assert kinds(again) == ["RUN_STARTED", "RUN_FINISHED"]
        assert again[-1].result["value"] == {"text": "You said hello"}


async def test_another_message_under_the_same_id_is_refused():
    async with front() as ada:
        body = ada.asked("hello", "t1", None, None)
        await ada.events("chat", body)
        body["messages"] = [{"id": "m1", "role": "user", "content": "another"}]
        assert (await ada.post("chat", body)).status_code == 422
        assert ada.heard.said == ["hello"]


async def test_threads_of_two_principals_have_nothing_in_common():
    async with front() as ada:
        bob = ada.of("bob")
        await ada.run("chat", "hello", thread="same")
        await bob.run("chat", "good day", thread="same")
        assert ada.heard.said == ["hello", "good day"]
        assert len(await bob.conversations()) == 1


async def test_a_payload_may_be_given_whole():
    async with front() as ada:
        props = {"payload": {"left": 2, "right": 3}}
        events = await ada.run("adder", props=props)
        assert events[-1].result["value"] == {"total": 5, "odd": True}
        assert words(events) == ['{"total": 5, "odd": true}']
        named = await ada.run("both", props=props | {"payloadName": "Sum"}, thread="t2")
        assert named[-1].result["value"] == {"total": 5, "odd": True}


async def test_parts_of_a_message_that_are_no_text_are_left_out():
    async with front() as ada:
        body = ada.asked(None, "t1", None, None)
        source = {"type": "url", "value": "http://x/y.png"}
        parts = [
            {"type": "text", "text": "a"},
            {"type": "image", "source": source},
            {"type": "text", "text": "b"},
        ]
        await ada.events("chat", body | {"messages": [{"id": "m", "role": "user", "content": parts}]})
        assert ada.heard.said == ["a\nb"]


async def test_a_request_that_ends_without_an_answer_has_no_result():
    async with front() as ada:
        events = await ada.run("silent", "hello")
    assert kinds(events) == ["RUN_STARTED", "RUN_FINISHED"]
    assert events[-1].result is None


async def test_a_failure_carries_the_text_of_its_system_error():
    async with front() as ada:
        events = await ada.run("breaker", "hello")
    assert kinds(events) == ["RUN_STARTED", "RUN_ERROR"]
    assert events[-1].code == "internal"
    assert "secret" not in events[-1].message


async def test_a_conversation_that_is_ended_cancels_its_run():
    async with front() as ada:
        found = []

        async def run():
            found.extend(await ada.run("slow", "hello"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            with anyio.fail_after(HANGS):
                while not ada.heard.said:  # noqa: ASYNC110 - over HTTP
                    await anyio.sleep(0.01)
                (conversation,) = await ada.conversations()
                await ada.server.end("ada", conversation)
        assert found[-1].outcome.type == "cancelled"


async def test_a_door_that_stops_ends_the_run_and_says_so():
    async with front() as ada, ada.client() as client:
        body = ada.asked("hello", "t1", None, None)
        async with client.stream("POST", "/v1/agui/slow", json=body) as answer:
            pieces = answer.aiter_text()
            text = await anext(pieces)
            ada.door.stop()
            async for piece in pieces:
                text += piece
        ada.heard.free.set()
    assert kinds(read(text)) == ["RUN_STARTED", "RUN_ERROR"]
    assert read(text)[-1].code == "stopping"


REFUSED = {
    "no JSON": (b"{", 422),
    "no input": (b"{}", 422),
    "no message": (b'{"threadId": "t", "runId": "r", "messages": []}', 422),
    "an empty thread": (b'{"threadId": "", "runId": "r", "messages": []}', 422),
    "a role that is none": (b'{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "root", "content": "x"}]}', 422),
    "a payload that is none": (b'{"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"payload": 1}}', 422),
    "a payload with a mistake": (
        b'{"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"payload": {"txt": "x"}}}', 422,
    ),
    "deep": (b'{"threadId": "t", "runId": "r", "messages": [], "forwardedProps": ' + b"[" * 9999 + b"]" * 9999 + b"}", 422),
    "what XML has no character for": (b'{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "\\u0000"}]}', 422),
    "half a character": (b'{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "\\ud800"}]}', 422),
    "no number": (b'{"threadId": "t", "runId": "r", "messages": [], "forwardedProps": {"payload": {"text": NaN}}}', 422),
    "no text of Unicode": (b'{"threadId": "\xff", "runId": "r", "messages": []}', 422),
}  # fmt: skip


async def test_an_invalid_input_begins_no_run():
    async with front() as ada, ada.client() as client:
        for why, (body, status) in REFUSED.items():
            answer = await client.post(
                "/v1/agui/chat", content=body, headers={"content-type": "application/json"}
            )
            kind = answer.headers["content-type"]
            assert (why, answer.status_code, kind) == (why, status, "application/problem+json")
        answer = await client.post("/v1/agui/chat", content=b"{}", headers={"content-type": "text/plain"})
        assert answer.status_code == 415
        assert await ada.conversations() == []


async def test_who_may_not_address_the_listener_finds_none():
    async with front() as ada:
        eve, body = ada.of("eve"), ada.asked("hello", "t1", None, None)
        foreign, unknown = await eve.post("chat", body), await ada.post("nobody", body)
        assert (foreign.status_code, unknown.status_code) == (404, 404)
        assert foreign.content == unknown.content


async def test_viewers_and_strangers_cannot_start_runs():
    async with front() as ada:
        body = ada.asked("hello", "t1", None, None)
        assert (await ada.of("vera").post("chat", body)).status_code == 403
        assert (await ada.of("stranger").post("chat", body)).status_code == 401


async def test_a_listener_that_takes_more_than_a_text_wants_its_payload():
    async with front() as ada:
        answer = await ada.post("adder", ada.asked("2 and 3", "t1", None, None))
    assert answer.status_code == 422
    assert "forwardedProps.payload" in answer.json()["detail"]


# --- interrupts -------------------------------------------------------------------------------------------------------


async def test_a_pending_approval_interrupts_and_an_operator_resumes():
    async with front() as ada:
        olga = ada.of("olga")
        events = await olga.run("vault", "ten")
        (one,) = interrupts(events)
        assert one.reason == "agentserver:approval"
        assert one.metadata["to"] == "vault"
        assert one.metadata["value"] == {"text": "ten"}
        assert ada.heard.said == []
        resumed = await olga.run("vault", resume=[resolved(one)])
        assert words(resumed) == ["paid ten"]
        assert (resumed[-1].outcome.type, ada.heard.said) == ("success", ["ten"])


async def test_an_interrupt_tells_no_secret_of_the_organisms():
    async with front(secrets=("hunter-two",)) as ada:
        (one,) = interrupts(await ada.of("olga").run("vault", "pay with hunter-two"))
        assert one.metadata["value"] == {"text": "pay with [redacted]"}


@pytest.mark.parametrize("how", ["deny", "abandon"])
async def test_an_operator_denies(how):
    async with front() as ada:
        olga = ada.of("olga")
        (one,) = interrupts(await olga.run("vault", "ten"))
        answer = abandon_interrupt(one) if how == "abandon" else resolved(one, "deny")
        resumed = await olga.run("vault", resume=[answer])
        assert (resumed[-1].type.value, resumed[-1].code, ada.heard.said) == ("RUN_ERROR", "denied", [])


async def test_a_user_learns_that_something_waits_and_not_its_content():
    async with front() as ada:
        (one,) = interrupts(await ada.run("vault", "ten"))
        assert (one.metadata, one.response_schema) == (None, None)
        assert "ten" not in one.model_dump_json()


async def test_a_user_answers_no_interrupt_even_with_a_valid_answer():
    async with front() as ada:
        (one,) = interrupts(await ada.run("vault", "ten"))
        (approval,) = ada.server.approvals()
        for answer in ("once", "always", "deny"):
            payload = {"answer": answer, "digest": approval.digest}
            entry = {"interruptId": one.id, "status": "resolved", "payload": payload}
            assert (await ada.post("vault", ada.asked(None, "t1", [entry], None))).status_code == 403
        assert len(ada.server.approvals()) == 1
        assert ada.heard.said == []


async def test_a_user_that_abandons_an_interrupt_decides_nothing_and_sees_whether_it_still_waits():
    async with front() as ada:
        (one,) = interrupts(await ada.run("vault", "ten"))
        again = await ada.run("vault", resume=[abandon_interrupt(one)])
        assert [each.id for each in interrupts(again)] == [one.id]
        (approval,) = ada.server.approvals()
        async with ada.of("olga").client() as client:
            answer = await client.post(
                f"/v1/approvals/{one.id}", json={"answer": "once", "digest": approval.digest}
            )
            assert answer.status_code == 204
        resumed = await ada.run("vault", resume=[abandon_interrupt(one)])
        assert words(resumed) == ["paid ten"]


async def test_a_stale_answer_counts_for_nothing():
    async with front() as ada:
        olga = ada.of("olga")
        (one,) = interrupts(await olga.run("vault", "ten"))
        resumed = await olga.run("vault", resume=[resolved(one, digest="0" * 64)])
        assert resumed[2].name == "agentserver:refused-answer"
        assert [each.id for each in interrupts(resumed)] == [one.id]
        assert ada.heard.said == []


async def test_a_repeated_answer_counts_once():
    async with front() as ada:
        olga = ada.of("olga")
        (one,) = interrupts(await olga.run("vault", "ten"))
        entry = resolved(one)
        await olga.run("vault", resume=[entry])
        again = await olga.run("vault", resume=[entry])
        assert again[2].value == {"interruptId": one.id}
        assert (again[-1].outcome.type, ada.heard.said) == ("success", ["ten"])


async def test_an_answer_twice_in_one_run_is_no_input():
    async with front() as ada:
        olga = ada.of("olga")
        (one,) = interrupts(await olga.run("vault", "ten"))
        body = olga.asked(None, "t1", [resolved(one), resolved(one, "deny")], None)
        assert (await olga.post("vault", body)).status_code == 422
        assert len(ada.server.approvals()) == 1


async def test_a_foreign_answer_counts_for_nothing():
    async with front() as ada:
        olga = ada.of("olga")
        (mine,) = interrupts(await olga.run("vault", "mine"))
        await ada.run("vault", "foreign")
        foreign = next(each for each in ada.server.approvals() if each.id != mine.id)
        payload = {"answer": "once", "digest": foreign.digest}
        entry = {"interruptId": foreign.id, "status": "resolved", "payload": payload}
        resumed = await olga.run("vault", resume=[entry])
        assert resumed[2].value == {"interruptId": foreign.id}
        unknown = await olga.run("vault", resume=[entry | {"interruptId": "0" * 32}])
        assert kinds(unknown) == kinds(resumed)
        assert ada.heard.said == []
        assert len(ada.server.approvals()) == 2


MALFORMED = [None, 1, {}, {"answer": "once"}, {"answer": "yes", "digest": "0"}, {"answer": "once", "digest": 1},
             {"answer": ["once"], "digest": "0"}, {"answer": "once", "digest": "0", "more": 1}]  # fmt: skip


async def test_an_invalid_answer_begins_no_run():
    async with front() as ada:
        olga = ada.of("olga")
        (one,) = interrupts(await olga.run("vault", "ten"))
        for payload in MALFORMED:
            entry = {"interruptId": one.id, "status": "resolved", "payload": payload}
            answer = await olga.post("vault", olga.asked(None, "t1", [entry], None))
            assert (payload, answer.status_code) == (payload, 422)
        assert len(ada.server.approvals()) == 1


async def test_a_requester_cannot_approve_its_own_message():
    async with front(approvers="others") as ada:
        olga = ada.of("olga")
        (one,) = interrupts(await olga.run("vault", "ten"))
        answer = await olga.post("vault", olga.asked(None, "t1", [resolved(one)], None))
        assert answer.status_code == 403
        assert ada.heard.said == []
        denied = await olga.run("vault", resume=[resolved(one, "deny")])
        assert denied[-1].code == "denied"
