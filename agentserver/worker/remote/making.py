"""The queue of tickets at the broker: a stream of its own, and a consumer for each listener.

Owns their settings. Refuses to know what a ticket is for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from agentserver.broker.link import PermissionDeniedError, SilenceError, troubles
from agentserver.broker.words import word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentserver.broker.link import Link
    from agentserver.broker.words import Subjects

__all__ = ["made"]

TURN = 5
"""Seconds after which the broker gives a ticket to another worker, when the first did not even take the call."""
KEPT = 3600.0
"""Seconds that the queue keeps a ticket: its server has put it there again long before."""
MADE = 15.0
"""Seconds for which the queue is tried to be made."""
OTHERWISE = 10058
"""The broker's code of a stream that is there with other settings."""


async def made(link: Link, subjects: Subjects, listeners: Iterable[str], replicas: int) -> None:
    """Make the queue; that it stands already is as well. Raises BrokerError.

    It is kept in memory: a ticket that is lost is put there again, and so is the queue itself, by who offers one.

    Nodes that are about to choose a leader answer nothing, or that they are too few, and do not make up for it later.
    """
    loop = asyncio.get_running_loop()
    last = loop.time() + MADE
    while True:
        try:
            return await _made(link, subjects, listeners, replicas)
        except SilenceError:
            if link.denied.done():  # the library waits for an answer that never comes
                raise PermissionDeniedError(link.denied.result()) from None
            if loop.time() > last:
                raise
        await asyncio.sleep(0.2)


async def _made(link: Link, subjects: Subjects, listeners: Iterable[str], replicas: int) -> None:
    from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig
    from nats.js.errors import BadRequestError

    settings = StreamConfig(
        name=subjects.stream,
        subjects=[subjects.tickets],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.MEMORY,
        max_age=KEPT,
        num_replicas=replicas,
    )
    jetstream = link.client.jetstream(timeout=1)
    with troubles(subjects.stream):
        try:
            await jetstream.add_stream(settings)
        except BadRequestError as error:
            if error.err_code != OTHERWISE:
                raise
            await jetstream.update_stream(settings)  # the organism has other replicas now
        for listener in listeners:
            consumer = ConsumerConfig(
                durable_name=word(listener),
                filter_subject=subjects.of_listener(listener),
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=TURN,
                max_ack_pending=-1,
            )
            await jetstream.add_consumer(subjects.stream, consumer)
