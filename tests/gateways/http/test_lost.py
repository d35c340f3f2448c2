"""A connection that is lost in each phase of a payment: sent again under its key, it is paid once."""

from __future__ import annotations

import json

import anyio
import anyio.lowlevel
import pytest

from tests.gateways.http.desk import talk, until

pytestmark = pytest.mark.anyio
BODY = json.dumps({"amount": 5}).encode()


async def lose_payment(door, path, until_byte, *, read=False):
    """Send a payment up to a byte of it, perhaps begin to read, and go."""
    head = (
        f"POST {path}/messages?to=cashier HTTP/1.1\r\nhost: 127.0.0.1:{door.port}\r\nauthorization: Bearer ada\r\n"
        f"content-type: application/json\r\nidempotency-key: once\r\ncontent-length: {len(BODY)}\r\n\r\n"
    ).encode()
    async with await door.connect() as stream:
        await stream.send((head + BODY)[:until_byte])
        if read:
            await stream.receive(10)
        elif until_byte is None:
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("until_byte", "read"),
    [(10, False), (-len(BODY), False), (-3, False), (None, False), (None, True)],
    ids=["in the head", "before the body", "in the body", "before the answer", "in the answer"],
)
async def test_a_payment_whose_connection_was_lost_is_paid_once(until_byte, read):
    async with talk() as (door, ada, path):
        await lose_payment(door, path, until_byte, read=read)
        again = await ada.post(
            f"{path}/messages?to=cashier", json={"amount": 5}, headers={"idempotency-key": "once"}
        )
        assert again.status_code == 200
        assert again.json()["value"] == {"text": "paid 5"}
        assert door.books.paid == 1
        await until(lambda: not len(door.door.holding))


async def test_a_stream_with_a_lost_connection_resumes_where_it_was():
    async with talk() as (door, ada, path):
        first = (await ada.post(f"{path}/messages?to=cashier", json={"amount": 1})).json()
        async with await door.connect() as stream:
            ask = f"GET {path}/events HTTP/1.1\r\nhost: 127.0.0.1:{door.port}\r\nauthorization: Bearer ada\r\n\r\n"
            await stream.send(ask.encode())
            await stream.receive(1)
        await until(lambda: not len(door.door.holding))
        second = (await ada.post(f"{path}/messages?to=cashier", json={"amount": 2})).json()
        events = (await ada.get(f"{path}/events?wait=0", headers={"last-event-id": first["place"]})).text
        assert first["request"] in events  # its end, which comes after its reply
        assert f"id: {first['place']}\n" not in events
        assert second["request"] in events
