"""A value that a real broker keeps, changed by one at a time."""

from __future__ import annotations

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.errors import BadRequestError, NoStreamResponseError, ServiceUnavailableError

from agentserver.broker.value import BrokerValue, KeptValue
from agentserver.gateways.principals import shared
from tests.brokers import broker, one, three
from tests.gateways.principals.people import caller
from tests.machine import HANGS

pytestmark = pytest.mark.anyio


async def silent(_error):
    """What goes wrong is what these tests do."""


def value(client, timeout=HANGS):
    return BrokerValue(client.jetstream(timeout=timeout), "AS_desk", "principals", 1)


async def test_a_value_is_what_was_written_last_from_the_edition_that_was_read(tmp_path):
    async with broker(tmp_path) as url:
        client = await nats.connect(url)
        mine, others = value(client), value(client)
        assert await mine.read() == KeptValue(b"", 0)
        assert await mine.write(b"one", 0)
        assert not await others.write(b"another", 0)
        found = await others.read()
        assert found.data == b"one"
        assert await others.write(b"two", found.number)
        assert not await mine.write(b"three", found.number)
        assert (await mine.read()).data == b"two"
        await client.close()


async def test_principals_are_added_and_revoked_at_three_brokers(tmp_path):
    async with three(tmp_path) as brokers:
        client = await nats.connect(brokers.url.split(","), error_cb=silent)
        kept = BrokerValue(client.jetstream(timeout=HANGS), "AS_desk", "principals", 3)
        await shared.add(kept, caller("ada"))
        await shared.add(kept, caller("eve"))
        await shared.revoke(kept, "ada")
        assert [(each.caller.name, each.revoked is None) for each in await shared.entries(kept)] == [
            ("ada", False), ("eve", True),
        ]  # fmt: skip
        await client.close()


class Late(JetStreamContext):
    """What a node answers that does not know yet who leads the cluster or who is there, or a bucket which was just made."""

    early, late, few = 1, 3, 2

    async def create_key_value(self, **more):
        if self.few:
            self.few -= 1
            raise BadRequestError(
                code=400, err_code=10005, description="no suitable peers for placement, peer offline"
            )
        return await super().create_key_value(**more)

    async def key_value(self, bucket):
        if self.early:
            self.early -= 1
            raise ServiceUnavailableError
        return await super().key_value(bucket)

    async def publish(self, *args, **more):
        if self.late:
            self.late -= 1
            raise NoStreamResponseError
        return await super().publish(*args, **more)


async def test_a_value_is_read_and_written_when_there_is_a_leader_for_it(tmp_path):
    async with broker(tmp_path) as url:
        client = await nats.connect(url)
        kept = BrokerValue(Late(client, timeout=HANGS), "AS_desk", "principals", 1)
        assert await kept.read() == KeptValue(b"", 0)
        assert await kept.write(b"one", 0)
        assert not await kept.write(b"two", 0)
        await client.close()


async def test_a_value_outlives_the_broker_that_keeps_it(tmp_path):
    async with one(tmp_path) as node:
        client = await nats.connect(node.url, error_cb=silent)
        await value(client).write(b"one", 0)
        await client.close()
        node.kill()
        await node.start()
        client = await nats.connect(node.url)
        assert (await value(client).read()).data == b"one"
        await client.close()


async def test_a_broker_that_is_away_is_an_error_of_the_operating_systems_kind(tmp_path):
    async with one(tmp_path) as node:
        client = await nats.connect(node.url, error_cb=silent, reconnect_time_wait=0.05)
        await value(client).write(b"one", 0)
        kept = value(client, 1)
        node.pause()
        with pytest.raises(OSError, match="does not answer"):
            await kept.read()
        node.go_on()
        node.kill()
        with pytest.raises(OSError, match="broker"):
            await kept.write(b"two", 1)
        await client.close()


async def test_an_empty_message_in_the_place_of_a_value_is_no_absence_of_one(tmp_path):
    async with broker(tmp_path) as url:
        client = await nats.connect(url)
        kept = value(client)
        await kept.write(b"one", 0)
        await client.jetstream().publish("$KV.AS_desk.principals", b"")  # answered when it is stored
        with pytest.raises(OSError, match="empty"):
            await kept.read()
        await client.close()


async def test_a_value_that_somebody_has_removed_can_be_written_again(tmp_path):
    """Its removal counts as an edition, so that 20 attempts found that others had changed it meanwhile."""
    async with broker(tmp_path) as url:
        client = await nats.connect(url)
        kept, bucket = value(client), "AS_desk"
        await shared.add(kept, caller("ada"))
        stream = client.jetstream(timeout=HANGS)
        await (await stream.key_value(bucket)).delete("principals")
        assert (await kept.read()).data == b""
        await shared.add(kept, caller("eve"))
        await stream.purge_stream(f"KV_{bucket}")
        assert (await kept.read()).data == b""
        await shared.add(kept, caller("ada"))
        await stream.delete_key_value(bucket)
        assert await kept.read() == KeptValue(b"", 0)
        await shared.add(value(client), caller("eve"))
        assert [each.caller.name for each in await shared.entries(kept)] == ["eve"]
        await client.close()
